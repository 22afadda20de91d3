//! A run in a jail: the funnel's sockets come out of it, and are served here.

use std::{
    env,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use keyless_core::{Code, Error, SafeText};
use keyless_guest::{Carrier, Funnel, Sockets};
use keyless_jail::{FunnelSockets, JailError, Jailed, Plan, Variable};

use super::{Ended, RunSpec, SessionHandle, signals::Caught};
use crate::{
    environment::{Changes, command_environment},
    hardening::raise_open_files,
    places::KEYLESS_AGENT_SOCKET,
};

/// Runs the command in a jail of its own.
pub(super) async fn run(spec: &RunSpec, session: &SessionHandle) -> Result<Ended, Error> {
    let mut set: Vec<(String, String)> = keyless_jail::trust_environment()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut show = spec.show.clone();
    if let Some(socket) = session.agent_socket() {
        show.push(socket.clone());
    }
    if let Some(socket) = session.agent_socket().or(spec.deploys_ask_at.as_ref()) {
        set.push((KEYLESS_AGENT_SOCKET.to_owned(), socket.to_string_lossy().into_owned()));
    }
    let own = session.environment();
    set.extend_from_slice(&own.git);
    let remove = [&own.remove[..], &spec.remove].concat();
    let environment = command_environment(
        env::vars_os(),
        Changes {
            variables: &own.variables,
            remove: &remove,
            escapes: keyless_jail::ESCAPE_VARIABLES,
            set: &set,
        },
    );
    let mut hide = keyless_jail::default_hidden(&home(), |name| env::var_os(name));
    hide.extend(spec.hide.iter().cloned());
    hide.extend(spec.own.iter().cloned());
    hide.extend(own.conceal.iter().cloned());
    let plan = Plan {
        command: spec.command.clone(),
        environment: environment.into_iter().map(Variable::from).collect(),
        working_directory: working_directory()?,
        hide,
        show,
        tools_socket: session.agent_socket().cloned(),
        ca_pem: own.trust_pem.clone(),
        ignored_signals: keyless_jail::ignored_by_caller(),
        ..Plan::default()
    };
    let signals = Caught::begin()?;
    let jailed = spawn_jail(plan).await?;
    raise_open_files();
    serve_jail(jailed, session.carrier(), signals).await
}

async fn spawn_jail(plan: Plan) -> Result<Jailed, Error> {
    let spawned = tokio::task::spawn_blocking(move || keyless_jail::spawn(&plan)).await;
    let spawned = spawned.map_err(|_| Error::new(Code::Internal))?;
    spawned.map_err(|error| explain_jail(&error))
}

async fn serve_jail(
    jailed: Jailed,
    carrier: Arc<dyn Carrier>,
    signals: Caught,
) -> Result<Ended, Error> {
    let Jailed { sockets, process } = jailed;
    let FunnelSockets { tcp, dns_udp, dns_tcp } = sockets;
    let sockets = Sockets { tcp: vec![tcp], dns_udp, dns_tcp };
    let funnel =
        Funnel::new(sockets, |stream| keyless_jail::original_destination(&stream.as_fd()), carrier);
    let funnel = funnel.map_err(|_| Error::new(Code::Internal))?;
    let serving = tokio::spawn(funnel.serve());
    let process = Arc::new(process);
    let forwarding = signals.forward_to(&process);
    let waiting = Arc::clone(&process);
    let exit = tokio::task::spawn_blocking(move || waiting.wait()).await;
    forwarding.stop();
    serving.abort();
    match exit {
        Ok(keyless_jail::Exit::Code(code)) => Ok(Ended::Code(code)),
        Ok(keyless_jail::Exit::Signal(signal)) => Ok(Ended::Signal(signal)),
        Err(_) => Err(Code::Internal.into()),
    }
}

fn home() -> PathBuf {
    env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

fn working_directory() -> Result<PathBuf, Error> {
    env::current_dir().map_err(|error| {
        let detail = SafeText::words("the current directory: ").and(error.kind());
        Error::with(Code::PathUnusable, detail)
    })
}

/// Whether a jail can be made here: makes one.
///
/// # Errors
///
/// `jail_unavailable`, with what is in the way and what helps.
pub fn check_jail() -> Result<(), Error> {
    keyless_jail::check().map_err(|error| explain_jail(&error))
}

/// What a person is told of a jail that was not made, and what helps where it is known.
pub(crate) fn explain_jail(error: &JailError) -> Error {
    let code = match error {
        JailError::CommandNotFound { .. } => Code::CommandNotFound,
        JailError::CommandNotExecutable { .. } => Code::CommandNotExecutable,
        JailError::WorkingDirectory { .. } => Code::PathUnusable,
        _ => Code::JailUnavailable,
    };
    let words = causes(error);
    let words = match error {
        // It is there outside: the jail has another folder in its place, or in that of one above.
        JailError::WorkingDirectory { path, .. } if Path::new(path).is_dir() => words
            .and("; a jail has a /dev and a /run of its own, and keyless run --show ")
            .as_they_wrote(&path.to_string_lossy())
            .and(" brings the folder in"),
        _ => match error.remedy() {
            Some(remedy) => words.and("; ").as_they_wrote(remedy),
            None => words,
        },
    };
    Error::with(code, words)
}

/// Why a jail was not made, cause by cause.
pub(crate) fn causes(error: &JailError) -> SafeText {
    let mut words = SafeText::default().as_they_wrote(&error.to_string());
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        words = words.and(": ").as_they_wrote(&inner.to_string());
        cause = inner.source();
    }
    words
}
