//! A run without a jail: proxy variables, which a program may ignore.

use std::{env, ffi::OsStr, fs, io, os::unix::process::ExitStatusExt, process::Stdio};

use keyless_core::{Code, Error, SafeText};

use super::{Ended, RunSpec, SessionHandle, signals::Caught};
use crate::{
    environment::{Changes, command_environment, proxy_variables},
    hardening::raise_open_files,
    places::{KEYLESS_AGENT_SOCKET, unusable},
};

/// Runs the command with the session's proxy in its environment.
pub(super) async fn run(spec: &RunSpec, session: &SessionHandle) -> Result<Ended, Error> {
    let own = session.environment();
    let scratch = CaFiles::write(&own.trust_pem)?;
    let mut set = scratch.trust_environment();
    set.extend(proxy_variables(&session.proxy_url().await?));
    if let Some(socket) = session.agent_socket() {
        set.push((KEYLESS_AGENT_SOCKET.to_owned(), socket.to_string_lossy().into_owned()));
    }
    // What git would be told is left out: without a jail it has the user's own keys and helpers.
    let remove = [&own.remove[..], &spec.remove].concat();
    let environment = command_environment(
        env::vars_os(),
        Changes { variables: &own.variables, remove: &remove, escapes: &[], set: &set },
    );
    let (program, arguments) = spec.command.split_first().ok_or(Code::Usage)?;
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).env_clear().envs(environment);
    command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    keyless_jail::start_ignoring(command.as_std_mut(), keyless_jail::ignored_by_caller());
    let signals = Caught::begin()?;
    let spawned = command.kill_on_drop(true).spawn();
    let mut child = spawned.map_err(|error| not_started(program, &error))?;
    raise_open_files();
    let forwarding = signals.forward_to_pid(child.id());
    let status = child.wait().await.map_err(|_| Error::new(Code::Internal))?;
    forwarding.stop();
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, Some(signal)) => Ended::Signal(signal),
        (None, None) => Ended::Code(1),
    })
}

/// Why a program was not started.
pub(super) fn not_started(program: &OsStr, error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::NotFound => Code::CommandNotFound,
        _ => Code::CommandNotExecutable,
    };
    Error::with(code, SafeText::default().as_they_wrote(&program.to_string_lossy()))
}

/// The CA and a bundle in a private directory, for `--no-jail`.
struct CaFiles {
    directory: tempfile::TempDir,
}

impl CaFiles {
    fn write(ca_pem: &str) -> Result<Self, Error> {
        let write = || -> io::Result<Self> {
            let directory = tempfile::Builder::new().prefix("keyless-ca-").tempdir()?;
            let mut bundle = keyless_jail::system_bundle();
            bundle.push_str(ca_pem);
            fs::write(directory.path().join("bundle.pem"), bundle)?;
            fs::write(directory.path().join("ca.pem"), ca_pem)?;
            Ok(Self { directory })
        };
        write().map_err(|error| unusable(&env::temp_dir(), &error))
    }

    fn trust_environment(&self) -> Vec<(String, String)> {
        let here = |file: &str| self.directory.path().join(file).to_string_lossy().into_owned();
        let moved = |path: &str| match path {
            keyless_jail::BUNDLE_IN_JAIL => Some(here("bundle.pem")),
            keyless_jail::CA_IN_JAIL => Some(here("ca.pem")),
            path if path.starts_with('/') => None,
            word => Some(word.to_owned()),
        };
        keyless_jail::trust_environment()
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), moved(value)?)))
            .collect()
    }
}
