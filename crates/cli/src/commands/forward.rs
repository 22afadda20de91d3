//! `keyless forward`: a guest's connections, on their way to the sidecar.

use std::process::ExitCode;

use keyless_core::Error;
use keyless_daemon::{ForwardSpec, start_forward};
use serde_json::json;

use crate::{args::ForwardArgs, ui::Ui};

pub(super) async fn run(ui: &Ui, args: ForwardArgs) -> Result<ExitCode, Error> {
    let to = args.to.to_string();
    let forward = start_forward(ForwardSpec {
        listen: args.listen.into_iter().map(|listen| listen.0).collect(),
        to: args.to,
        session: args.session,
        token: args.token_file,
        socket_mode: args.socket_mode,
    })
    .await?;
    if ui.is_json() {
        let ready =
            json!({ "listening": forward.listening(), "to": to, "session": forward.session() });
        Ui::verbatim(&ready.to_string());
    }
    for place in forward.listening() {
        ui.line(&format!("Listening on: {place}"));
    }
    ui.line(&format!("Sidecar:      {to}"));
    ui.line(&format!("Session:      {}", forward.session()));
    forward.serve_until_signal(|fault| ui.warn(fault.message())).await?;
    Ok(ExitCode::SUCCESS)
}
