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
    time::Instant,
};

use futures_util::future::BoxFuture;
use keyless_action::{Berth, Command, Exit, Process, Running, SECURE_DIRECTORY, WentOut};
use keyless_core::{Code, Error, SafeText, audit::Agent};
use keyless_guest::{Funnel, Sockets};
use keyless_jail::{
    Bounds, FunnelSockets, JailProcess, Jailed, Outlook, OwnFile, Plan, Streams, Variable,
};
use signal_hook::consts::SIGTERM;
use tokio::{
    net::unix::pipe,
    task::{AbortHandle, JoinHandle, spawn_blocking},
};
use zeroize::Zeroizing;

use super::{concealed::concealed, door::Door, standby::Standby};
use crate::{broker::Broker, places::Places, run::explain_jail};

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

/// Far more than commands need: containers are usually given as many processes (Podman), and half of the memory.
const BOUNDS: Bounds = Bounds { processes: 2_048, bytes: 1 << 30 };

/// Makes the jails of one agent's actions.
pub(super) struct Jails(Arc<Means>);

/// What they are made with.
struct Means {
    machine: Machine,
    agent: Agent,
    key: Arc<Zeroizing<[u8; 32]>>,
}

/// What all jails have in common, whoever's they are.
#[derive(Clone)]
struct Machine {
    broker: Broker,
    places: Places,
    standby: Arc<Standby>,
}

/// Preparations for a command that an agent is likely to start in a moment. Begun while it is still judged whether it
/// may: nothing in them is about the command or the agent.
pub(in crate::nl) struct Foresight(JoinHandle<Result<Prospect, Error>>);

/// What is prepared for a command before it is known.
struct Prospect {
    begun: Instant,
    /// What of the machine no command sees.
    concealed: Vec<PathBuf>,
    /// For a command that is started by an agent.
    outlook: Option<(View, Outlook)>,
}

/// A command's place, and what is being prepared.
struct Place {
    means: Arc<Means>,
    prospect: JoinHandle<Result<Prospect, Error>>,
}

impl Foresight {
    pub(in crate::nl) fn begin(broker: &Broker, places: &Places, standby: &Arc<Standby>) -> Self {
        Self(Machine::new(broker, places, standby).begin_to_foresee(true))
    }
}

impl Jails {
    pub(super) fn new(
        broker: &Broker,
        places: &Places,
        agent: Agent,
        key: Arc<Zeroizing<[u8; 32]>>,
        standby: &Arc<Standby>,
    ) -> Self {
        Self(Arc::new(Means { machine: Machine::new(broker, places, standby), agent, key }))
    }

    /// A place for one command; where a person says so, it starts in a folder of theirs.
    pub(super) fn berth(
        &self,
        working_directory: Option<&Path>,
        foresight: Option<Foresight>,
    ) -> Box<dyn Berth> {
        let means = Arc::clone(&self.0);
        let prospect = match (working_directory, foresight) {
            (None, Some(Foresight(begun))) => begun,
            (None, None) => means.machine.begin_to_foresee(true),
            (Some(_), _) => means.machine.begin_to_foresee(false),
        };
        Box::new(Place { means, prospect })
    }
}

impl Berth for Place {
    fn start(self: Box<Self>, command: Command) -> BoxFuture<'static, Result<Running, Error>> {
        let Self { means, prospect } = *self;
        Box::pin(async move { means.start(command, prospect).await })
    }
}

impl Means {
    async fn start(
        &self,
        command: Command,
        prospect: JoinHandle<Result<Prospect, Error>>,
    ) -> Result<Running, Error> {
        let reach = command.reach.clone();
        let machine = &self.machine;
        let door = Door::open(&machine.broker, &self.agent, &self.key, reach).await?;
        let mut prospect = prospect.await.map_err(|_| Error::new(Code::Internal))??;
        // A person may have been asked meanwhile.
        if prospect.begun.elapsed() >= Standby::FRESH {
            prospect = machine.foresee(prospect.outlook.is_some()).await?;
        }
        let (view, outlook) = prospect.outlook.unzip();
        let mut plan = plan(command, door.as_ref(), view)?;
        plan.hide.extend(prospect.concealed);
        let pipes = || io::pipe().map_err(|error| no_streams(&error));
        let ((input, to_input), (from_output, output)) = (pipes()?, pipes()?);
        let (from_errors, errors) = pipes()?;
        let streams = Streams { input: input.into(), output: output.into(), errors: errors.into() };
        let standby = Arc::clone(&machine.standby);
        let spawned = spawn_blocking(move || standby.spawn_detached(&plan, streams, outlook)).await;
        let spawned = spawned.map_err(|_| Error::new(Code::Internal))?;
        let Jailed { sockets, process } = spawned.map_err(|error| explain_jail(&error))?;
        // Without a door the sockets close, and whatever is dialled refuses.
        let serving = door.as_ref().map(|door| serve(sockets, door)).transpose()?;
        let process = JailedAction {
            process: Arc::new(process),
            serving,
            door,
            standby: Arc::clone(&machine.standby),
        };
        Ok(Running {
            input: Box::new(sender(to_input.into())?),
            output: Box::new(receiver(from_output.into())?),
            errors: Box::new(receiver(from_errors.into())?),
            process: Box::new(process),
        })
    }
}

impl Machine {
    fn new(broker: &Broker, places: &Places, standby: &Arc<Standby>) -> Self {
        let (broker, places) = (broker.clone(), places.clone());
        Self { broker, places, standby: Arc::clone(standby) }
    }

    fn begin_to_foresee(&self, has_outlook: bool) -> JoinHandle<Result<Prospect, Error>> {
        let machine = self.clone();
        tokio::spawn(async move { machine.foresee(has_outlook).await })
    }

    /// Looks at what is the same whatever the command will be.
    async fn foresee(&self, has_outlook: bool) -> Result<Prospect, Error> {
        let begun = Instant::now();
        let concealed = concealed(&self.places, &self.broker).await?;
        if !has_outlook {
            return Ok(Prospect { begun, concealed, outlook: None });
        }
        let view = View::system()?;
        let mut plan = Plan::default();
        view.clone().enter(&mut plan);
        plan.hide.extend(concealed.iter().cloned());
        plan.environment = inherited(&view);
        let standby = Arc::clone(&self.standby);
        let outlook = spawn_blocking(move || standby.look(&plan)).await;
        let outlook = outlook.map_err(|_| Error::new(Code::Internal))?;
        Ok(Prospect { begun, concealed, outlook: outlook.map(|outlook| (view, outlook)) })
    }
}

/// `view` is that of a command which an agent starts, if it was looked at before.
fn plan(command: Command, door: Option<&Door>, view: Option<View>) -> Result<Plan, Error> {
    let Command { script, environment, files, working_directory, holds_value, .. } = command;
    let of_command = || View::of(working_directory.filter(|_| !holds_value), !files.is_empty());
    let view = view.map_or_else(of_command, Ok)?;
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
    let mut plan = Plan {
        command: ["/bin/sh", "-c", &script].map(OsString::from).into(),
        environment: variables,
        ca_pem: door.map_or_else(String::new, |door| door.trust_pem().to_owned()),
        own_files: files.collect(),
        ..Plan::default()
    };
    view.enter(&mut plan);
    Ok(plan)
}

/// What a command sees of the machine's files.
#[derive(Clone)]
struct View {
    working_directory: PathBuf,
    home: PathBuf,
    hide: Vec<PathBuf>,
    own_directories: Vec<(PathBuf, u32)>,
    read_only: bool,
}

impl View {
    /// The system's files alone; or as in `keyless run`, for a person's own command without values.
    fn of(working_directory: Option<PathBuf>, has_files: bool) -> Result<Self, Error> {
        let Some(working_directory) = working_directory else { return Self::system() };
        let home = env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let hide = keyless_jail::default_hidden(&home, |name| env::var_os(name));
        let own_directories = if has_files { vec![secure_directory()] } else { Vec::new() };
        Ok(Self { working_directory, home, hide, own_directories, read_only: false })
    }

    /// Fails where it can't be told what else there is: that would be seen.
    fn system() -> Result<Self, Error> {
        let unknown = |error: io::Error| {
            let words = SafeText::words("what is in / can't be told: ").and(error.kind());
            Error::with(Code::IsolationFailed, words)
        };
        let mut hide = Vec::new();
        for entry in fs::read_dir("/").map_err(unknown)? {
            let entry = entry.map_err(unknown)?;
            if !SYSTEM.iter().any(|name| entry.file_name() == *name) {
                hide.push(entry.path());
            }
        }
        let tmp = PathBuf::from("/tmp");
        let own_directories = vec![(tmp.clone(), SHARED_MODE)];
        Ok(Self {
            working_directory: tmp.clone(),
            home: tmp,
            hide,
            own_directories,
            read_only: true,
        })
    }

    fn enter(self, plan: &mut Plan) {
        plan.working_directory = self.working_directory;
        plan.hide = self.hide;
        plan.own_directories = self.own_directories;
        plan.read_only = self.read_only;
        plan.bounds = Some(BOUNDS);
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
    door: Option<Door>,
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

    fn went_out(&self) -> Vec<WentOut> {
        self.door.as_ref().map_or_else(Vec::new, Door::went_out)
    }
}

impl Drop for JailedAction {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
        self.standby.leave(Arc::clone(&self.process));
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
