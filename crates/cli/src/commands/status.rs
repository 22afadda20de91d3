//! `keyless status`: the store, the broker, its sessions.

use std::process::ExitCode;

use keyless_core::{Code, Error};
use keyless_daemon::{Config, OlderBroker, Places, sure_store_place};
use serde_json::json;

use super::{older_broker, other_version, warn_of_config};
use crate::ui::Ui;

pub(super) async fn run(ui: &Ui) -> Result<ExitCode, Error> {
    let places = Places::from_environment()?;
    if keyless_daemon::refuse_inside_session().is_err() {
        let words = "This is an agent's session: nothing of Keyless's own is seen here, and no jail can be made.\n\
                     The operator runs keyless status outside of keyless run.\n";
        let data = json!({
            "inside_session": true, "initialised": false, "unlocked": false, "broker": null,
        });
        ui.answer("status", &data, words);
        return Ok(ExitCode::SUCCESS);
    }
    // The broker goes on though the file be wrong, and so does what tells of it.
    let store = sure_store_place(&places);
    let mut service = keyless_daemon::service_status(&places.agent_socket()).await?;
    let older = keyless_daemon::older_brokers(&places).await;
    for older in &older {
        ui.warn(older_broker(older));
    }
    let hangs = older.iter().find(|older| older.status.is_none()).map(OlderBroker::next);
    if service.is_none() {
        service = older.into_iter().find_map(|older| older.status);
    }
    let found = opens(&places).await;
    let jail = match keyless_daemon::check_jail() {
        Ok(()) => "available".to_owned(),
        Err(error) => format!("not available: {}", error.detail()),
    };
    let data = json!({
        "store": store.as_ref().ok().map(ToString::to_string),
        "initialised": found.as_ref().ok(),
        "store_problem": found.as_ref().err().map(Error::message),
        "unlocked": service.as_ref().is_some_and(|status| !status.locked),
        "broker": service,
        "jail": jail,
    });
    let store = store.map_or_else(|_| "not known".to_owned(), |store| store.to_string());
    let store = match &found {
        Ok(true) => store,
        Ok(false) => format!("none at {store}; keyless init makes one"),
        Err(error) => {
            let next = error.code().remediation().action;
            format!("{store}: {error}\n         next: {next}")
        }
    };
    let broker = service.as_ref().map_or_else(
        || match &hangs {
            Some(next) => format!("an older one does not answer: {next}"),
            // Where there is nothing to lock none can run.
            None if matches!(found, Ok(false)) => "none".to_owned(),
            None => "locked".to_owned(),
        },
        |status| {
            let rest = keyless_daemon::to_the_minute(status.locks_in_seconds);
            let (process, sessions) = (status.pid, status.sessions_in_words());
            if status.locked {
                let next =
                    if status.takes_codes { "keyless unlock --code" } else { "keyless unlock" };
                let wait = if status.sessions == 1 { "waits" } else { "wait" };
                return format!("locked, {sessions} {wait}; {next} opens it again");
            }
            format!("unlocked for another {rest}, {sessions}, process {process}")
        },
    );
    let waiting = match service.as_ref().map_or(Some(0), |status| status.waiting) {
        None => "Waiting: unknown, the broker could not tell; keyless approve\n".to_owned(),
        Some(0) => String::new(),
        Some(1) => "Waiting: 1 request for you; keyless approve\n".to_owned(),
        Some(more) => format!("Waiting: {more} requests for you; keyless approve\n"),
    };
    let words = format!("Store:   {store}\nBroker:  {broker}\nJail:    {jail}\n{waiting}");
    let problem = Config::load(&places.config_file()).err();
    if let Some(problem) = problem.filter(|_| found.is_ok()) {
        warn_of_config(ui, &problem.message(), problem.code().remediation().action);
    } else if let Some(problem) = service.as_ref().and_then(|status| status.config_problem.as_ref())
    {
        let next = service.as_ref().map_or("", keyless_daemon::Status::config_step);
        warn_of_config(ui, problem, next);
    }
    if let Some(problem) = service.as_ref().and_then(|status| status.signing_problem.as_ref()) {
        ui.warn(format!("the end of the log could not be signed: {problem}"));
    }
    for problem in service.iter().flat_map(|status| &status.provider_problems) {
        ui.warn(format!("in providers/, {problem}"));
    }
    if let Some(other) = service.as_ref().and_then(keyless_daemon::Status::other_version) {
        ui.warn(other_version(&other));
    }
    ui.answer("status", &data, &words);
    Ok(ExitCode::SUCCESS)
}

/// Whether there is a store; an error says why it can't be read.
async fn opens(places: &Places) -> Result<bool, Error> {
    let looked = async {
        let (store, _) = keyless_daemon::open_sure_store(places).await?;
        keyless_daemon::list_secrets(&store).await
    };
    match looked.await {
        Err(error) if error.code() == Code::NotInitialised => Ok(false),
        read => read.map(|_| true),
    }
}
