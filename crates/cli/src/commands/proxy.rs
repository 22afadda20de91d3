//! `keyless proxy`: the fleet's sidecar.

use std::process::ExitCode;

use keyless_core::Error;
use keyless_daemon::{Fleet, FleetListen, FleetSpec, Places};
use serde_json::json;

use super::config;
use crate::{
    args::{Listen, ProxyArgs},
    ui::Ui,
};

pub(super) async fn run(ui: &Ui, args: ProxyArgs) -> Result<ExitCode, Error> {
    let places = Places::from_environment()?;
    let config = config(&places, &args.routes)?;
    let listen = |listen: &Listen| match listen {
        Listen::Tcp(address) => FleetListen::Tcp(*address),
        Listen::Unix(path) => FleetListen::Unix(path.clone()),
    };
    let spec = FleetSpec {
        catalog: args.catalog,
        secrets_dir: args.secrets_dir,
        listen: args.listen.iter().map(listen).collect(),
        key_file: args.key_file,
        session: args.session,
    };
    let fleet = keyless_daemon::start_fleet(&places, &config, spec).await?;
    for warning in fleet.warnings() {
        ui.warn(warning.clone());
    }
    announce(ui, &fleet);
    fleet.serve_until_signal().await?;
    Ok(ExitCode::SUCCESS)
}

/// One line for an orchestrator to read, or words for a person.
fn announce(ui: &Ui, fleet: &Fleet) {
    if ui.is_json() {
        let ready = json!({
            "listening": fleet.listening(),
            "ca": fleet.ca_file(),
            "proxy_url": fleet.proxy_url(),
            "session": fleet.session(),
            "key_file": fleet.key_file(),
        });
        println!("{ready}");
        return;
    }
    for place in fleet.listening() {
        ui.line(&format!("Listening on: {place}"));
    }
    ui.line(&format!("CA:           {}", fleet.ca_file().display()));
    if let Some(url) = fleet.proxy_url() {
        ui.line(&format!("Proxy URL:    {url}"));
    }
    ui.line(&format!("Session:      {}", fleet.session()));
    ui.line(&format!("Key file:     {}", fleet.key_file().display()));
}
