//! `keyless serve`: the broker in the foreground with the NL Protocol over HTTP; with `--stdio` a bridge to the
//! broker that runs, for one agent.

use std::{process::ExitCode, sync::Arc};

use keyless_core::Error;
use keyless_daemon::{Broker, EgressDoor, Identity, NlTls, Places, serve_nl_stdio};

use super::{config, unlock_vault};
use crate::{
    args::{RouteArgs, ServeArgs},
    ui::Ui,
};

pub(super) async fn run(ui: &Ui, args: ServeArgs) -> Result<ExitCode, Error> {
    if args.stdio {
        let places = Places::from_environment()?;
        serve_nl_stdio(&places.tools_socket(), &Identity::from_environment()?).await?;
        return Ok(ExitCode::SUCCESS);
    }
    keyless_daemon::refuse_traced()?;
    let (places, vault) = unlock_vault(&args.factor).await?;
    let mut config = config(&places, &RouteArgs::default())?;
    config.nl.http = Some(args.http);
    config.nl.plaintext_discovery |= args.plaintext_discovery;
    if let Some((certificate, key)) = args.tls_cert.zip(args.tls_key) {
        config.nl.tls = Some(NlTls { certificate, key, client_ca: args.client_ca });
    }
    let scheme = if config.nl.tls.is_some() { "https" } else { "http" };
    let vault = Arc::new(vault);
    let log = keyless_daemon::audit_log(&vault);
    let window = config.unlock.window(args.window)?;
    let door = EgressDoor::new(&config)?;
    let broker = Broker::asking_at_least(window.floor, door, vault, log);
    let ready = Box::new(|http: Option<std::net::SocketAddr>| {
        if let Some(address) = http {
            ui.line(&format!(
                "Serving NL on {scheme}://{address}/nl/v1 and {}.",
                places.nl_socket().display()
            ));
        }
    });
    keyless_daemon::serve(broker, places.clone(), window, &config, ready).await?;
    Ok(ExitCode::SUCCESS)
}
