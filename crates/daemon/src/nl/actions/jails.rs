//! A jail for each action: what it sees of the machine, and what of the environment it gets.
//!
//! Where a value enters, the machine's files are read-only and what belongs to people is out of sight
//! altogether: a value can't be left in a file, a pipe or a socket for the agent's side to find. Each jail
//! has `/tmp` of its own, in memory, and goes with everything in it when its command ends.

use std::{
    env,
    ffi::OsString,
    fs, io,
    os::{fd::OwnedFd, unix::ffi::OsStringExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use keyless_action::{Command, Exit, Process, Running, SECURE_DIRECTORY, Spawn};
use keyless_core::{Code, Error, SafeText, audit::Agent};
use keyless_guest::{Funnel, Sockets};
use keyless_jail::{FunnelSockets, JailProcess, Jailed, OwnFile, Plan, Streams, Variable};
use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::consts::SIGTERM;
use tokio::{
    net::unix::pipe,
    task::{AbortHandle, spawn_blocking},
};
use zeroize::Zeroizing;

use super::{door::Door, standby::Standby};
use crate::{broker::Broker, config::Config, places::Places, run::explain_jail};

/// What of `/` is the system's own, not people's.
const SYSTEM: &[&str] = &[
    "bin", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "run",
    "sbin", "snap", "sys", "tmp", "usr",
];
/// What of the broker's own environment a command gets (NL, chapter 3), beside `LC_*`.
const INHERITED: &[&str] = &["LANG", "PATH", "TERM", "TZ"];
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Writable by anyone, and cleared with the jail.
const SHARED_MODE: u32 = 0o1777;

/// Makes the jails of one agent's actions.
pub(super) struct Jails {
    broker: Broker,
    agent: Agent,
    key: Arc<Zeroizing<[u8; 32]>>,
    places: Places,
    standby: Arc<Standby>,
}

impl Jails {
    pub(super) fn new(
        broker: Broker,
        places: &Places,
        agent: Agent,
        key: Arc<Zeroizing<[u8; 32]>>,
        standby: Arc<Standby>,
    ) -> Self {
        Self { broker, agent, key, places: places.clone(), standby }
    }

    async fn start(&self, command: Command) -> Result<Running, Error> {
        let reach = command.reach.clone();
        let door = Door::open(&self.broker, &self.agent, &self.key, reach).await?;
        let mut plan = plan(command, door.as_ref());
        plan.hide.extend(self.concealed().await?);
        let pipes = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| no_streams(&error.into()));
        let ((input, to_input), (from_output, output)) = (pipes()?, pipes()?);
        let (from_errors, errors) = pipes()?;
        let streams = Streams { input, output, errors };
        let standby = Arc::clone(&self.standby);
        let spawned = spawn_blocking(move || standby.spawn_detached(&plan, streams)).await;
        let spawned = spawned.map_err(|_| Error::new(Code::Internal))?;
        let Jailed { sockets, process } = spawned.map_err(|error| explain_jail(&error))?;
        // Without a door the sockets close, and whatever is dialled refuses.
        let serving = door.as_ref().map(|door| serve(sockets, door)).transpose()?;
        let process = JailedAction {
            process: Arc::new(process),
            serving,
            _door: door,
            standby: Arc::clone(&self.standby),
        };
        Ok(Running {
            input: Box::new(sender(to_input)?),
            output: Box::new(receiver(from_output)?),
            errors: Box::new(receiver(from_errors)?),
            process: Box::new(process),
        })
    }

    /// Keyless's own files, those with its keys and passwords, and those that values are read from, wherever they lie.
    async fn concealed(&self) -> Result<Vec<PathBuf>, Error> {
        let mut all = self.places.all();
        all.extend(Config::load(&self.places.config_file())?.files_with_credentials());
        all.extend(self.broker.value_files().await?);
        Ok(all)
    }
}

fn plan(command: Command, door: Option<&Door>) -> Plan {
    let Command { script, environment, files, working_directory, holds_value, .. } = command;
    let view = View::of(working_directory.filter(|_| !holds_value), !files.is_empty());
    let mut variables = inherited(&view);
    if door.is_some() {
        let trust = keyless_jail::trust_environment();
        variables.extend(trust.into_iter().map(Variable::from));
    }
    for (name, mut value) in environment {
        variables.push((name, OsString::from_vec(std::mem::take(&mut *value))).into());
    }
    let files = files.into_iter().map(|mut file| OwnFile {
        path: std::mem::take(&mut file.path),
        mode: file.mode,
        content: std::mem::take(&mut *file.content),
    });
    Plan {
        command: ["/bin/sh", "-c", &script].map(OsString::from).into(),
        environment: variables,
        working_directory: view.working_directory,
        hide: view.hide,
        show: Vec::new(),
        ca_pem: door.map_or_else(String::new, |door| door.trust_pem().to_owned()),
        uts_name: None,
        own_directories: view.own_directories,
        own_files: files.collect(),
        read_only: view.read_only,
    }
}

impl Spawn for Jails {
    fn spawn(&self, command: Command) -> BoxFuture<'_, Result<Running, Error>> {
        Box::pin(self.start(command))
    }
}

/// What a command sees of the machine's files.
struct View {
    working_directory: PathBuf,
    home: PathBuf,
    hide: Vec<PathBuf>,
    own_directories: Vec<(PathBuf, u32)>,
    read_only: bool,
}

impl View {
    /// The system's files alone; or as in `keyless run`, for a person's own command without values.
    fn of(working_directory: Option<PathBuf>, has_files: bool) -> Self {
        let Some(working_directory) = working_directory else { return Self::system() };
        let home = env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let hide = keyless_jail::default_hidden(&home, |name| env::var_os(name));
        let own_directories = if has_files { vec![secure_directory()] } else { Vec::new() };
        Self { working_directory, home, hide, own_directories, read_only: false }
    }

    fn system() -> Self {
        let entries = fs::read_dir("/").into_iter().flatten().flatten();
        let hide = entries
            .filter(|entry| !SYSTEM.iter().any(|name| entry.file_name() == *name))
            .map(|entry| entry.path())
            .collect();
        let tmp = PathBuf::from("/tmp");
        let own_directories = vec![(tmp.clone(), SHARED_MODE)];
        Self { working_directory: tmp.clone(), home: tmp, hide, own_directories, read_only: true }
    }
}

/// What files are mounted on; nothing is ever put into the machine's own.
fn secure_directory() -> (PathBuf, u32) {
    let path = Path::new(SECURE_DIRECTORY);
    let _ = fs::create_dir(path);
    (path.to_owned(), 0o700)
}

fn inherited(view: &View) -> Vec<Variable> {
    let wanted = |name: &str| INHERITED.contains(&name) || name.starts_with("LC_");
    let inherited = env::vars_os().filter(|(name, _)| name.to_str().is_some_and(wanted));
    let mut variables: Vec<Variable> = inherited.map(Variable::from).collect();
    if !variables.iter().any(|one| one.name == "PATH") {
        variables.push(("PATH", DEFAULT_PATH).into());
    }
    variables.push(("HOME", &view.home).into());
    variables.push(("TMPDIR", "/tmp").into());
    variables
}

/// A command in its jail, and the way out of it.
struct JailedAction {
    process: Arc<JailProcess>,
    serving: Option<AbortHandle>,
    _door: Option<Door>,
    standby: Arc<Standby>,
}

impl Process for JailedAction {
    fn terminate(&self) {
        self.process.signal_all(SIGTERM);
    }

    fn kill(&self) {
        self.process.kill();
    }

    fn wait(&self) -> BoxFuture<'_, Exit> {
        let process = Arc::clone(&self.process);
        let waiting = spawn_blocking(move || process.wait());
        Box::pin(async move {
            match waiting.await {
                Ok(keyless_jail::Exit::Code(code)) => Exit::Code(code),
                Ok(keyless_jail::Exit::Signal(signal)) => Exit::Signal(signal),
                Err(_) => Exit::Signal(signal_hook::consts::SIGKILL),
            }
        })
    }
}

impl Drop for JailedAction {
    fn drop(&mut self) {
        self.process.kill();
        if let Some(serving) = &self.serving {
            serving.abort();
        }
        self.standby.ended();
    }
}

fn serve(sockets: FunnelSockets, door: &Door) -> Result<AbortHandle, Error> {
    let FunnelSockets { tcp, dns_udp, dns_tcp } = sockets;
    let sockets = Sockets { tcp: vec![tcp], dns_udp, dns_tcp };
    let original = |stream: &tokio::net::TcpStream| {
        keyless_jail::original_destination(&std::os::fd::AsFd::as_fd(stream))
    };
    let funnel = Funnel::new(sockets, original, door.carrier());
    let funnel = funnel.map_err(|_| Error::new(Code::Internal))?;
    Ok(tokio::spawn(funnel.serve()).abort_handle())
}

fn receiver(end: OwnedFd) -> Result<pipe::Receiver, Error> {
    pipe::Receiver::from_owned_fd(end).map_err(|error| no_streams(&error))
}

fn sender(end: OwnedFd) -> Result<pipe::Sender, Error> {
    pipe::Sender::from_owned_fd(end).map_err(|error| no_streams(&error))
}

fn no_streams(error: &io::Error) -> Error {
    let words = SafeText::words("a command's streams: ").and(error.kind());
    Error::with(Code::IsolationFailed, words)
}
