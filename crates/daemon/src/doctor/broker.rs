//! The broker in the background, and its sockets.

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::Path,
};

use keyless_core::Code;

use super::Check;
use crate::{operator::to_the_minute, places::Places, service, system::LONGEST_SOCKET};

/// Whether `keyless unlock` could start a broker.
pub(super) enum Openable {
    /// It can't, and why.
    No(&'static str),
    Yes,
}

pub(super) async fn look(places: &Places, store: Openable) -> Vec<Check> {
    let socket = places.agent_socket();
    if LONGEST_SOCKET.is_some_and(|longest| socket.as_os_str().len() > longest) {
        let found = format!("{} is too long for a socket", socket.display());
        return vec![Check::fault(
            "broker.sockets",
            found,
            "set XDG_RUNTIME_DIR or KEYLESS_HOME to a shorter path",
        )];
    }
    let mut checks = Vec::new();
    match service::status(&socket).await {
        Err(error) => {
            checks.push(Check::fault(
                "broker.running",
                error.message(),
                match error.code() {
                    code @ (Code::BrokerHangs | Code::PathUnusable) => code.remediation().action,
                    _ => "keyless lock, then keyless unlock",
                },
            ));
        }
        Ok(None) => {
            let words = if socket.exists() {
                "it ended without taking its sockets along"
            } else {
                "none is running"
            };
            checks.push(match store {
                Openable::Yes => Check::note("broker.running", words, "keyless unlock starts one"),
                Openable::No(why) => Check::ok("broker.running", format!("{words}; {why}")),
            });
        }
        Ok(Some(status)) => checks.extend(running(&status)),
    }
    let older = service::older_brokers(places).await;
    checks.extend(
        older.iter().map(|older| Check::warning("broker.version", older.in_words(), older.next())),
    );
    let sockets = [places.agent_socket(), places.operator_socket(), places.nl_socket()];
    let open: Vec<Check> = sockets.iter().filter_map(|socket| openness(socket)).collect();
    if open.is_empty() {
        checks.push(Check::ok("broker.sockets", "they are yours alone"));
    }
    checks.extend(open);
    checks
}

fn running(status: &service::Status) -> Vec<Check> {
    let process = status.pid;
    let mut checks = vec![if status.locked {
        let next = if status.takes_codes { "keyless unlock --code" } else { "keyless unlock" };
        Check::note("broker.running", format!("process {process}, locked"), next)
    } else {
        let (rest, sessions) = (to_the_minute(status.locks_in_seconds), status.sessions_in_words());
        let found = format!("process {process}, open for another {rest}, {sessions}");
        Check::ok("broker.running", found)
    }];
    if let Some(other) = status.other_version() {
        let found = format!("it is {other}, this is keyless {}", env!("CARGO_PKG_VERSION"));
        checks.push(Check::note("broker.version", found, "keyless lock, then keyless unlock"));
    }
    if let Some(problem) = &status.config_problem {
        let next = status.config_step();
        checks.push(if status.config_unagreed {
            let found = format!("config.toml as it lies there waits for your word: {problem}");
            Check::note("broker.reload", found, next)
        } else {
            let found = format!("the last reload of config.toml failed: {problem}");
            Check::fault("broker.reload", found, next)
        });
    }
    if let Some(problem) = &status.signing_problem {
        let found = format!("the end of the log could not be signed: {problem}");
        let next = "keyless audit verify, then keyless audit checkpoint";
        checks.push(Check::fault("broker.checkpoint", found, next));
    }
    checks
}

/// A socket that others could speak to, or something that is no socket in its place.
fn openness(socket: &Path) -> Option<Check> {
    let metadata = fs::symlink_metadata(socket).ok()?;
    let place = socket.display();
    let remedy = format!("keyless lock; rm {place}; keyless unlock");
    if !metadata.file_type().is_socket() {
        return Some(Check::fault("broker.sockets", format!("{place} is no socket"), remedy));
    }
    let ours = metadata.uid() == rustix::process::geteuid().as_raw();
    (!ours || metadata.mode() & 0o077 != 0)
        .then(|| Check::fault("broker.sockets", format!("others may speak to {place}"), remedy))
}
