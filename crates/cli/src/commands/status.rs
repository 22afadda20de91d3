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
    let data = json!({
        "store": store,
        "initialised": there,
        "unlocked": service.is_some(),
        "broker": service,
        "jail": keyless_daemon::check_jail().map_or_else(|error| error.to_string(), |()| "available".to_owned()),
    });
    let mut words = match there {
        true => format!("Store:   {}\n", store.display()),
        false => format!("Store:   none at {}; keyless init makes one\n", store.display()),
    };
    match &service {
        None => words.push_str("Broker:  locked\n"),
        Some(status) => words.push_str(&format!(
            "Broker:  unlocked for another {} min, {} sessions, process {}\n",
            status.locks_in_seconds / 60,
            status.sessions,
            status.pid
        )),
    }
    match keyless_daemon::check_jail() {
        Ok(()) => words.push_str("Jail:    available\n"),
        Err(error) => words.push_str(&format!("Jail:    not available: {error}\n")),
    }
    ui.answer("status", &data, &words);
    Ok(ExitCode::SUCCESS)
}
