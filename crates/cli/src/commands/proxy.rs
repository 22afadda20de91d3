//! `keyless proxy`: the fleet's sidecar.

mod log;

use std::process::ExitCode;

use keyless_core::Error;
use keyless_daemon::{CaFiles, ConfigSource, Fleet, FleetSpec, Places};
use serde_json::json;

use crate::{args::ProxyArgs, ui::Ui};

pub(super) async fn run(ui: &Ui, args: ProxyArgs) -> Result<ExitCode, Error> {
    let places = Places::from_environment()?;
    keyless_daemon::note_home(&places);
    let ca = args.ca_cert.zip(args.ca_key);
    let spec = FleetSpec {
        catalog: args.catalog,
        secrets_dir: args.secrets_dir,
        listen: args.listen.into_iter().map(|listen| listen.0).collect(),
        key_file: args.key_file,
        ca: ca.map(|(certificate, key)| CaFiles { certificate, key }),
        forward_token: args.forward_token,
        session: args.session,
        config: ConfigSource {
            file: places.config_file(),
            connect_to: args.routes.connect_to,
            extra_roots: args.routes.extra_root,
        },
        metrics_listen: args.metrics_listen,
        drain: args.drain,
        notes: log::notes(args.log_format),
        collector: args.otlp_endpoint,
    };
    let fleet = keyless_daemon::start_fleet(&places, spec).await?;
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
            "metrics": fleet.metrics(),
        });
        Ui::verbatim(&ready.to_string());
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
    if let Some(address) = fleet.metrics() {
        ui.line(&format!("Metrics:      http://{address}/metrics"));
    }
}
