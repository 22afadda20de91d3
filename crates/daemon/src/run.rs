//! Runs one command in one session: jail, funnel and egress joined.
//!
//! The funnel's sockets belong to the jail's network namespace; the accept loops run out here, so
//! nothing of Keyless but a tiny init is inside. A connection goes straight to the engine when the
//! broker is in this process, and through the broker's socket with a preamble when it is a service.

mod signals;

use std::{
    env,
    ffi::OsString,
    io,
    os::{fd::AsFd, unix::process::ExitStatusExt},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use futures_util::future::BoxFuture;
use keyless_core::{Code, Error, SafeText};
use keyless_egress::{Engine, Session};
use keyless_guest::{Carrier, Funnel, PreambleCarrier, Sockets};
use keyless_jail::{JailError, Jailed, Plan};
use tokio::net::{TcpListener, TcpStream};

use crate::{
    broker::{OpenSession, Variable},
    environment::{Changes, command_environment, proxy_variables},
    service::RemoteSession,
};

/// What to run.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The program and its arguments; not empty.
    pub command: Vec<OsString>,
    /// More paths to hide.
    pub hide: Vec<PathBuf>,
    /// Paths to show though they are hidden by default.
    pub show: Vec<PathBuf>,
    /// Keyless's own paths, always hidden.
    pub own: Vec<PathBuf>,
    /// Whether there is a jail round it.
    pub isolation: Isolation,
}

/// What stands between the command and the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Its own namespaces, and no way out but the funnel.
    Jail,
    /// Proxy variables, which a program may ignore.
    ProxyOnly,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this exit status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A session, wherever its broker is.
pub enum SessionHandle {
    /// The broker is in this process.
    Local(OpenSession),
    /// The broker is a service.
    Remote(RemoteSession),
}

/// Runs the command to its end, and ends the session.
pub async fn run(spec: &RunSpec, session: SessionHandle) -> Result<Ended, Error> {
    let ended = match spec.isolation {
        Isolation::Jail => run_jailed(spec, &session).await,
        Isolation::ProxyOnly => run_behind_proxy(spec, &session).await,
    };
    let closed = session.end().await;
    let ended = ended?;
    closed.map(|()| ended)
}

impl SessionHandle {
    fn variables(&self) -> &[Variable] {
        match self {
            Self::Local(session) => &session.variables,
            Self::Remote(session) => &session.offer().variables,
        }
    }

    fn remove(&self) -> &[String] {
        match self {
            Self::Local(session) => &session.remove,
            Self::Remote(session) => &session.offer().remove,
        }
    }

    fn conceal(&self) -> &[PathBuf] {
        match self {
            Self::Local(session) => &session.conceal,
            Self::Remote(session) => &session.offer().conceal,
        }
    }

    fn trust_pem(&self) -> &str {
        match self {
            Self::Local(session) => &session.trust_pem,
            Self::Remote(session) => &session.offer().trust_pem,
        }
    }

    fn carrier(&self) -> Arc<dyn Carrier> {
        match self {
            Self::Local(open) => Arc::new(EngineCarrier {
                engine: Arc::clone(open.engine()),
                session: Arc::clone(&open.session),
            }),
            Self::Remote(session) => Arc::new(PreambleCarrier::new(&session.offer().socket)),
        }
    }

    /// The URL of a proxy for this session; starts one if the broker is here.
    async fn proxy_url(&self) -> Result<String, Error> {
        match self {
            Self::Remote(session) => Ok(session.offer().proxy_url.clone()),
            Self::Local(open) => {
                let (listener, address) = loopback_listener().await?;
                tokio::spawn(Arc::clone(open.engine()).serve_proxy(listener));
                Ok(format!("http://{}@{address}", open.session.proxy_credential()))
            }
        }
    }

    async fn end(self) -> Result<(), Error> {
        match self {
            Self::Local(session) => session.end().await,
            Self::Remote(session) => session.end().await,
        }
    }
}

/// Hands the jail's connections to the engine in this process.
struct EngineCarrier {
    engine: Arc<Engine>,
    session: Arc<Session>,
}

impl Carrier for EngineCarrier {
    fn carry(&self, stream: TcpStream, target: keyless_guest::Target) -> BoxFuture<'static, ()> {
        let (engine, session) = (Arc::clone(&self.engine), Arc::clone(&self.session));
        let target = match target {
            keyless_guest::Target::Name(authority) => keyless_egress::Target::Name(authority),
            keyless_guest::Target::Raw(address) => keyless_egress::Target::RawAddress(address),
        };
        Box::pin(async move { engine.serve_stream(session, stream, target).await })
    }
}

/// A listener on a free loopback port, and its address.
pub(crate) async fn loopback_listener() -> Result<(TcpListener, std::net::SocketAddr), Error> {
    let unusable = |error: io::Error| {
        let detail = SafeText::words("no loopback port could be opened: ").and(error.kind());
        Error::with(Code::PathUnusable, detail)
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(unusable)?;
    let address = listener.local_addr().map_err(unusable)?;
    Ok((listener, address))
}

async fn run_jailed(spec: &RunSpec, session: &SessionHandle) -> Result<Ended, Error> {
    let trust: Vec<(String, String)> = keyless_jail::trust_environment()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let environment = command_environment(
        env::vars_os(),
        Changes {
            variables: session.variables(),
            remove: session.remove(),
            escapes: keyless_jail::ESCAPE_VARIABLES,
            set: &trust,
        },
    );
    let mut hide = keyless_jail::default_hidden(&home(), |name| env::var_os(name));
    hide.extend(spec.hide.iter().cloned());
    hide.extend(spec.own.iter().cloned());
    hide.extend(session.conceal().iter().cloned());
    let plan = Plan {
        command: spec.command.clone(),
        environment,
        working_directory: working_directory()?,
        hide,
        show: spec.show.clone(),
        ca_pem: session.trust_pem().to_owned(),
        uts_name: None,
    };
    let jailed = spawn_jail(plan).await?;
    serve_jail(jailed, session.carrier()).await
}

async fn spawn_jail(plan: Plan) -> Result<Jailed, Error> {
    let spawned = tokio::task::spawn_blocking(move || keyless_jail::spawn(&plan)).await;
    let spawned = spawned.map_err(|_| Error::new(Code::Internal))?;
    spawned.map_err(|error| explain_jail(&error))
}

async fn serve_jail(jailed: Jailed, carrier: Arc<dyn Carrier>) -> Result<Ended, Error> {
    let Jailed { sockets, process } = jailed;
    let sockets = Sockets { tcp: sockets.tcp, dns_udp: sockets.dns_udp, dns_tcp: sockets.dns_tcp };
    let funnel =
        Funnel::new(sockets, |stream| keyless_jail::original_destination(&stream.as_fd()), carrier);
    let funnel = funnel.map_err(|_| Error::new(Code::Internal))?;
    let serving = tokio::spawn(funnel.serve());
    let process = Arc::new(process);
    let forwarding = signals::forward(&process)?;
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

async fn run_behind_proxy(spec: &RunSpec, session: &SessionHandle) -> Result<Ended, Error> {
    let scratch = CaFiles::write(session.trust_pem())?;
    let mut set = scratch.trust_environment();
    set.extend(proxy_variables(&session.proxy_url().await?));
    let environment = command_environment(
        env::vars_os(),
        Changes {
            variables: session.variables(),
            remove: session.remove(),
            escapes: &[],
            set: &set,
        },
    );
    let (program, arguments) = spec.command.split_first().ok_or(Code::Usage)?;
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).env_clear().envs(environment);
    command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let mut child = command.kill_on_drop(true).spawn().map_err(|error| {
        let code = match error.kind() {
            io::ErrorKind::NotFound => Code::CommandNotFound,
            _ => Code::CommandNotExecutable,
        };
        Error::with(code, SafeText::default().as_they_wrote(&program.to_string_lossy()))
    })?;
    let forwarding = signals::forward_to_pid(child.id())?;
    let status = child.wait().await.map_err(|_| Error::new(Code::Internal))?;
    forwarding.stop();
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, Some(signal)) => Ended::Signal(signal),
        (None, None) => Ended::Code(1),
    })
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
            std::fs::write(directory.path().join("bundle.pem"), bundle)?;
            std::fs::write(directory.path().join("ca.pem"), ca_pem)?;
            Ok(Self { directory })
        };
        write().map_err(|error| {
            let detail = SafeText::words("the CA's files: ").and(error.kind());
            Error::with(Code::PathUnusable, detail)
        })
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

fn home() -> PathBuf {
    env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

fn working_directory() -> Result<PathBuf, Error> {
    env::current_dir().map_err(|error| {
        let detail = SafeText::words("the current directory: ").and(error.kind());
        Error::with(Code::PathUnusable, detail)
    })
}

/// What a person is told of a jail that was not made, cause by cause.
fn explain_jail(error: &JailError) -> Error {
    let code = match error {
        JailError::CommandNotFound { .. } => Code::CommandNotFound,
        JailError::CommandNotExecutable { .. } => Code::CommandNotExecutable,
        JailError::WorkingDirectory { .. } => Code::PathUnusable,
        _ => Code::JailUnavailable,
    };
    let mut words = SafeText::default().as_they_wrote(&error.to_string());
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        words = words.and(": ").as_they_wrote(&inner.to_string());
        cause = inner.source();
    }
    if let JailError::Unavailable { remedy, .. } = error {
        words = words.and("; ").as_they_wrote(remedy);
    }
    Error::with(code, words)
}

/// The paths that must be hidden beside Keyless's own: files named on the command line.
pub fn absolute_paths<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<PathBuf> {
    paths.into_iter().filter_map(|path| std::path::absolute(path).ok()).collect()
}
