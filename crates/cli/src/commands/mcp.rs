//! `keyless mcp`: tools for agents, on stdin and stdout or over HTTP. For secrets a thin client of the broker that
//! unlocks nothing; for the pack the engine itself, which needs no broker.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc};

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{
    AgentClient, Identity, NlClient, Places, ToolSession, http_credential, manifest_of,
    mcp::{Credential, HTTP_PATH, Server, Toolset, refuse_others, serve_http, serve_stdio},
};
use keyless_pack::Request;
use tokio::net::TcpListener;

use super::{
    pack::tools::{self, PackTools},
    run::warn_of_unread,
};
use crate::{
    args::{McpArgs, ToolsetWord},
    ui::Ui,
};

pub(super) async fn run(ui: &Ui, args: McpArgs) -> Result<ExitCode, Error> {
    if ui.is_json() {
        let words = "mcp speaks the protocol and gives no envelope: leave --json away";
        return Err(Error::with(Code::Usage, SafeText::words(words)));
    }
    match (args.http, args.toolset.as_slice()) {
        (Some(address), toolsets) => {
            over_http(ui, server(ui, toolsets)?, address, args.credential_file).await?;
        }
        (None, [ToolsetWord::Pack]) => tools::serve(Request::default()).await?,
        (None, toolsets) => serve_stdio(server(ui, toolsets)?).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn server(ui: &Ui, toolsets: &[ToolsetWord]) -> Result<Server, Error> {
    // One agent, whatever it calls: what a person allows one of its tools counts for all.
    let session = ToolSession::default();
    let mut toolsets = toolsets.iter().map(|toolset| served(ui, *toolset, &session));
    let first = toolsets.next().ok_or(Code::Usage)??;
    toolsets.try_fold(Server::new(first), |server, other| Ok(server.and(other?)))
}

fn served(ui: &Ui, toolset: ToolsetWord, session: &ToolSession) -> Result<Toolset, Error> {
    let places = Places::from_environment()?;
    match toolset {
        ToolsetWord::Nl => {
            let identity = Identity::from_environment()?;
            let client = NlClient::new(places.tools_socket(), identity, session.clone());
            Ok(Toolset::Nl(Arc::new(client)))
        }
        ToolsetWord::Pack => Ok(Toolset::Pack(Arc::new(PackTools::new(Request::default())))),
        ToolsetWord::Secrets => {
            let folder = std::env::current_dir().map_err(|error| {
                let words = SafeText::words("the current directory: ").and(error.kind());
                Error::with(Code::PathUnusable, words)
            })?;
            // What can't be read as a whole is told to who asks.
            let manifest = manifest_of(&folder).unwrap_or_default();
            warn_of_unread(ui, &places, manifest.as_deref());
            let client = AgentClient::new(places.tools_socket(), folder, session.clone());
            Ok(Toolset::Secrets(Arc::new(client)))
        }
    }
}

async fn over_http(
    ui: &Ui,
    server: Server,
    address: SocketAddr,
    file: Option<PathBuf>,
) -> Result<(), Error> {
    refuse_others(address)?;
    let file = match file {
        Some(file) => file,
        None => Places::from_environment()?.prepare_http_credential()?,
    };
    let credential = Credential::new(http_credential(&file)?.to_string())?;
    let unusable = |error: std::io::Error| {
        let words = SafeText::default().and(address.ip()).and(":").and(address.port());
        Error::with(Code::AddressUnusable, words.and(": ").and(error.kind()))
    };
    let listener = TcpListener::bind(address).await.map_err(unusable)?;
    let address = listener.local_addr().map_err(unusable)?;
    ui.line(&format!(
        "Listening on http://{address}{HTTP_PATH}; the credential is in {}.",
        file.display()
    ));
    serve_http(server, listener, credential).await
}
