//! `keyless status`: the store, the broker, its sessions.

use std::process::ExitCode;

use keyless_core::Error;
use keyless_daemon::Places;
use serde_json::json;

use crate::ui::Ui;

pub(super) async fn run(ui: &Ui) -> Result<ExitCode, Error> {
    let places = Places::from_environment()?;
    let store = places.store_file();
    let service = keyless_daemon::service_status(&places.agent_socket()).await?;
    let there = store.exists();
    let jail = match keyless_daemon::check_jail() {
        Ok(()) => "available".to_owned(),
        Err(error) => format!("not available: {error}"),
    };
    let data = json!({
        "store": store,
        "initialised": there,
        "unlocked": service.as_ref().is_some_and(|status| !status.locked),
        "broker": service,
        "jail": jail,
    });
    let store = if there {
        store.display().to_string()
    } else {
        format!("none at {}; keyless init makes one", store.display())
    };
    let broker = service.as_ref().map_or_else(
        || "locked".to_owned(),
        |status| {
            let (minutes, sessions) = (status.locks_in_seconds / 60, status.sessions);
            let process = status.pid;
            if status.locked {
                let next =
                    if status.takes_codes { "keyless unlock --code" } else { "keyless unlock" };
                return format!("locked, {sessions} sessions wait; {next} opens it again");
            }
            format!("unlocked for another {minutes} min, {sessions} sessions, process {process}")
        },
    );
    let words = format!("Store:   {store}\nBroker:  {broker}\nJail:    {jail}\n");
    if let Some(problem) = service.as_ref().and_then(|status| status.config_problem.as_ref()) {
        ui.warn(format!("config.toml as it lies there is not in force: {problem}"));
    }
    ui.answer("status", &data, &words);
    Ok(ExitCode::SUCCESS)
}
