//! `keyless mcp`: tools for agents, on stdin and stdout or over HTTP. A thin client of the broker that
//! unlocks nothing.

use std::{net::SocketAddr, path::Path, process::ExitCode, sync::Arc};

use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{
    AgentClient, Places, http_credential,
    mcp::{Credential, HTTP_PATH, Server, Toolset, serve_http, serve_stdio},
};
use tokio::net::TcpListener;

use crate::{
    args::{McpArgs, ToolsetWord},
    ui::Ui,
};

pub(super) async fn run(ui: &Ui, args: McpArgs) -> Result<ExitCode, Error> {
    let places = Places::from_environment()?;
    let folder = std::env::current_dir().map_err(|error| {
        let words = SafeText::words("the current directory: ").and(error.kind());
        Error::with(Code::PathUnusable, words)
    })?;
    let ToolsetWord::Secrets = args.toolset;
    let client = Arc::new(AgentClient::new(places.tools_socket(), folder));
    let server = Server::new(Toolset::Secrets(client));
    match (args.http, &args.credential_file) {
        (Some(address), Some(file)) => over_http(ui, server, address, file).await?,
        _ => serve_stdio(server).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn over_http(ui: &Ui, server: Server, address: SocketAddr, file: &Path) -> Result<(), Error> {
    let credential = Credential::new(http_credential(file)?.to_string())?;
    let unusable = |error: std::io::Error| {
        let words = SafeText::default().and(address.ip()).and(":").and(address.port());
        Error::with(Code::PathUnusable, words.and(": ").and(error.kind()))
    };
    let listener = TcpListener::bind(address).await.map_err(unusable)?;
    let address = listener.local_addr().map_err(unusable)?;
    ui.line(&format!(
        "Listening on http://{address}{HTTP_PATH}; the credential is in {}.",
        file.display()
    ));
    serve_http(server, listener, credential).await
}
