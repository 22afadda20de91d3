//! The jail's init: makes the namespaces, becomes their PID 1, runs the command and reports its end.
//!
//! PID 1 keeps a jail: it is born in the jail's namespaces, maps the user, sets everything up, forks what becomes the command,
//! waits for its job, reaps orphans and watches the control socket. When the caller dies (`kill -9` included) the socket
//! hangs up and PID 1 ends, which ends every process of the jail. Its parent is the keeper, or for a command that shares
//! a person a first stage, which does nothing but wait: it stays in the caller's PID namespace, session and process group, and
//! when it dies the kernel kills PID 1. Both block all signals. Where the caller has a terminal, PID 1 leads a session
//! with another one, which the command has in place of it (`console`).
//!
//! A jail does one job. When its command ends, PID 1 ends all other processes before it says so. It then stays until
//! the caller lets it go: to take the namespaces down costs the kernel more than many a command costs, and whoever
//! waits for the answer should not have to wait for that.
//!
//! What is built lives in `network`, `mounts`, `confine` and `seccomp`; what becomes the command in `starter`.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::process::exit;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Gid, Pid, PidfdFlags, Signal, Uid, WaitOptions, getgid, getpid, getuid,
    pidfd_open, set_dumpable_behavior, set_parent_process_death_signal, wait, waitpid,
};
use rustix::thread::UnshareFlags;

use crate::linux::channel::{self, During, Failure, Order, Report, Step};
use crate::linux::console::{self, Console};
use crate::linux::mounts::hosted::{SocketList, Surroundings};
use crate::linux::orders::{Ground, Job, Purpose};
use crate::linux::seccomp::Filter;
use crate::linux::starter::Starter;
use crate::linux::sys::{self, Fork, SignalMask};
use crate::linux::trust::roots::Roots;
use crate::linux::trust::stores::Stock;
use crate::linux::{confine, keeper, mounts, network};
use crate::outcome::FunnelSockets;

/// How soon a job comes that somebody waits for.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// The name under which the executable is started again; followed by a descriptor's number.
pub(crate) const MARKER: &str = "keyless-jail-init";

/// Becomes a jail's init, or the keeper that forks them, and never returns, if this process was started as one;
/// else does nothing.
///
/// Must be the first thing that `main` does: both rely on being the only thread.
pub fn init_if_asked() {
    let mut arguments = env::args_os();
    let marker = arguments.next();
    let is_keeper = match marker.as_deref().and_then(OsStr::to_str) {
        Some(MARKER) => false,
        Some(keeper::MARKER) => true,
        _ => return,
    };
    let (Some(socket), Ok(signals)) = (adopt_next(&mut arguments), sys::block_signals()) else {
        exit(2)
    };
    exit(if is_keeper { keeper::keep(socket, &signals) } else { first_stage(socket, &signals) })
}

fn adopt_next(arguments: &mut env::ArgsOs) -> Option<OwnedFd> {
    let number: RawFd = arguments.next()?.to_str()?.parse().ok()?;
    sys::adopt(number)
}

/// Gives the exit status of this process; the command's own goes through `control`. `signals` is what the caller did
/// not take; all are blocked.
fn first_stage(control: OwnedFd, signals: &SignalMask) -> i32 {
    match start_from_first_stage(&control, signals) {
        Ok((pid_one, lifeline)) => {
            drop(control);
            // All it has to do now is to be there: its death is PID 1's death.
            let _ = rustix::io::retry_on_intr(|| waitpid(Some(pid_one), WaitOptions::empty()));
            drop(lifeline);
            0
        }
        Err(failure) => {
            report_failure(&control, failure);
            1
        }
    }
}

/// Tells the caller why there is no PID 1 that could.
pub(crate) fn report_failure(control: &OwnedFd, failure: Failure) {
    // Orders that nobody has read would make the end of this channel an error for the caller.
    let _ = channel::take_over(control);
    let _ = channel::send(control, &Report::Failed(failure), &[]);
}

/// Gives PID 1 and a pipe end that hangs up with this process.
fn start_from_first_stage(
    control: &OwnedFd,
    signals: &SignalMask,
) -> Result<(Pid, OwnedFd), Failure> {
    hide_from_others()?;
    let outfit = Outfit { filter: Filter::compile()?, roots: None };
    let (hangs_up, lifeline) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .during(Step::Supervision, || "open a pipe".into())?;
    let mut lifeline = Some(lifeline);
    let pid_one = start_pid_one(control, signals, &outfit, || {
        drop(lifeline.take());
        die_with_first_stage(&hangs_up)
    })?;
    Ok((pid_one, lifeline.expect("dropped in the child alone")))
}

/// No process of the same user looks into this one and those that come of it, and none of them leaves a core dump.
pub(crate) fn hide_from_others() -> Result<(), Failure> {
    confine::forbid_core_dumps()?;
    set_dumpable(DumpableBehavior::NotDumpable)
}

fn set_dumpable(behavior: DumpableBehavior) -> Result<(), Failure> {
    set_dumpable_behavior(behavior)
        .during(Step::Capabilities, || "set who may look into the init".into())
}

/// What is the same for every jail, and takes a while to make.
pub(crate) struct Outfit {
    pub(crate) filter: Filter,
    /// The host's trusted certificates, where they are known already.
    pub(crate) roots: Option<Roots>,
}

/// Forks PID 1 of a new jail, which does `first` of all and never returns.
pub(crate) fn start_pid_one(
    control: &OwnedFd,
    signals: &SignalMask,
    outfit: &Outfit,
    first: impl FnOnce() -> Result<(), Failure>,
) -> Result<Pid, Failure> {
    let host = Host { user: getuid(), group: getgid(), sockets: SocketList::open() };
    let all = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWNET;
    match sys::fork_into(all).during(Step::UserNamespace, || "create namespaces".into())? {
        Fork::Parent(pid) => Ok(pid),
        Fork::Child => exit(PidOne { control, signals, outfit }.live(first, host)),
    }
}

/// The facts of the host that are only seen from outside the jail's namespaces.
struct Host {
    user: Uid,
    group: Gid,
    sockets: SocketList,
}

/// In the new user namespace, maps the user to the same numbers.
fn map_user(user: Uid, group: Gid) -> Result<(), Failure> {
    // Its files in /proc, which it has to write, are its user's for this while.
    set_dumpable(DumpableBehavior::Dumpable)?;
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1", user = user.as_raw())),
        ("gid_map", format!("{group} {group} 1", group = group.as_raw())),
    ];
    for (file, text) in maps {
        fs::write(format!("/proc/self/{file}"), text)
            .during(Step::Identity, || format!("write /proc/self/{file}"))?;
    }
    set_dumpable(DumpableBehavior::NotDumpable)
}

/// PID 1 of the jail.
struct PidOne<'a> {
    /// To the caller; hangs up when the caller dies.
    control: &'a OwnedFd,
    /// What the caller did not take, to be the command's again.
    signals: &'a SignalMask,
    outfit: &'a Outfit,
}

impl PidOne<'_> {
    /// Gives the exit status, which nobody reads.
    fn live(&self, first: impl FnOnce() -> Result<(), Failure>, host: Host) -> i32 {
        let last_words = match first().and_then(|()| self.run(host)) {
            Ok(Some((command, console))) => supervise(self.control, command, console).ok(),
            Ok(None) => None,
            Err(failure) => Some(Report::Failed(failure)),
        };
        let Some(report) = last_words else { return 0 };
        match channel::send(self.control, &report, &[]) {
            Ok(()) => {
                await_dismissal(self.control);
                0
            }
            Err(_) => 1,
        }
    }

    /// Builds the jail and starts the command; `None` when none came: it was only a probe, or not needed.
    fn run(&self, host: Host) -> Result<Option<(Pid, Option<Console>)>, Failure> {
        let ground =
            Ground::receive(self.control).during(Step::Orders, || "read the orders".into())?;
        map_user(host.user, host.group)?;
        let surroundings = Surroundings::read(&ground, host.sockets);
        let sockets = network::build()?;
        set_host_name(&ground)?;
        mounts::build(&ground, &surroundings)?;
        confine::forbid_new_privileges()?;
        if ground.purpose == Purpose::Probe {
            confine::drop_capabilities()?;
            self.outfit.filter.install()?;
            channel::send(self.control, &Report::Standing, &[])
                .during(Step::Supervision, || "report".into())?;
            return Ok(None);
        }
        let Stand { stock, starter, console } = self.stand(&ground, sockets)?;
        let read = || "read the job".into();
        let Some(handed) = Job::take_over(self.control).during(Step::Orders, read)? else {
            return Ok(None);
        };
        let job = handed.read().during(Step::Orders, read)?;
        if !job.ca_pem.is_empty() {
            let stock = stock.map_or_else(|| self.stock_trust(&ground), Ok)?;
            mounts::trust(&job, stock)?;
        }
        make_own_files(&job)?;
        confine::drop_capabilities()?;
        // The command's environment and files are the command's alone from here on.
        drop(job);
        starter.start(&handed)?;
        drop(handed);
        channel::send(self.control, &Report::Ready, &[starter.pidfd()])
            .during(Step::Supervision, || "report".into())?;
        Ok(Some((starter.pid(), console)))
    }

    fn stock_trust(&self, ground: &Ground) -> Result<Stock, Failure> {
        mounts::stock_trust(ground, self.outfit.roots.as_ref())
    }

    /// Says that the jail stands, and prepares what any job needs. If none comes at once, prepares for a CA as well,
    /// while nobody waits for it.
    fn stand(&self, ground: &Ground, sockets: FunnelSockets) -> Result<Stand, Failure> {
        let (console, master) = ground.terminal.map(Console::open).transpose()?.unzip();
        // For the caller to see the end of everything.
        let this = pidfd_open(getpid(), PidfdFlags::empty())
            .during(Step::Supervision, || "open a pidfd".into())?;
        let FunnelSockets { tcp, dns_udp, dns_tcp } = &sockets;
        let mut fds = vec![tcp.as_fd(), dns_udp.as_fd(), dns_tcp.as_fd(), this.as_fd()];
        fds.extend(master.as_ref().map(AsFd::as_fd));
        channel::send(self.control, &Report::Standing, &fds)
            .during(Step::Supervision, || "report".into())?;
        // In here nobody has the caller's end of the terminal.
        drop((sockets, master));
        let starter = Starter::fork(&self.outfit.filter, self.signals)?;
        if let (Some(console), Some(fitting)) = (&console, ground.terminal) {
            console.seat(starter.pid(), fitting.place)?;
        }
        let mut orders = [PollFd::new(self.control, PollFlags::IN)];
        let come = rustix::io::retry_on_intr(|| poll(&mut orders, Some(&AT_ONCE)))
            .during(Step::Supervision, || "wait for the job".into())?;
        let has_time = come == 0 && ground.expects_ca;
        let stock = has_time.then(|| self.stock_trust(ground)).transpose()?;
        Ok(Stand { stock, starter, console })
    }
}

/// What PID 1 has of a jail that stands.
struct Stand {
    stock: Option<Stock>,
    starter: Starter,
    console: Option<Console>,
}

/// Returns once the caller has let go of the jail, in which nothing is left but PID 1.
fn await_dismissal(control: &OwnedFd) {
    loop {
        let mut events = [PollFd::new(control, PollFlags::IN)];
        let polled = rustix::io::retry_on_intr(|| poll(&mut events, None));
        // A signal may have been ordered for what has ended meanwhile.
        let is_order = events[0].revents() == PollFlags::IN;
        if polled.is_err() || !is_order || channel::ordered(control).is_none() {
            return;
        }
    }
}

fn die_with_first_stage(first_stage: &OwnedFd) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .during(Step::Supervision, || "ask to die with the first stage".into())?;
    // It may have died before the line above; then nobody would tell.
    let mut ends = [PollFd::new(first_stage, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut ends, Some(&now)).during(Step::Supervision, || "look for the first stage".into())?;
    if ends[0].revents().is_empty() { Ok(()) } else { exit(1) }
}

/// In directories of the jail's own, which hold nothing else yet.
fn make_own_files(job: &Job) -> Result<(), Failure> {
    for file in &job.own_files {
        let write = || -> io::Result<()> {
            if let Some(folder) = file.path.parent() {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            let mut options = fs::OpenOptions::new();
            options.write(true).create_new(true).mode(file.mode);
            options.open(&file.path)?.write_all(&file.content)
        };
        write().during(Step::Mounts, || format!("make {}", file.path.display()))?;
    }
    Ok(())
}

fn set_host_name(ground: &Ground) -> Result<(), Failure> {
    let Some(name) = &ground.uts_name else { return Ok(()) };
    rustix::system::sethostname(name.as_encoded_bytes())
        .during(Step::HostName, || format!("set the host name to {}", name.display()))
}

/// Reaps until the command ends, and ends what it leaves. An error, or the caller's end hanging up, ends the jail.
fn supervise(control: &OwnedFd, command: Pid, mut console: Option<Console>) -> io::Result<Report> {
    let children = sys::child_events()?;
    loop {
        if let Some(report) = reap(control, command)? {
            end_the_rest();
            return Ok(report);
        }
        let mut events =
            [PollFd::new(control, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut events, None))?;
        let said = events[0].revents();
        if said == PollFlags::IN
            && let Some(order) = channel::ordered(control)
        {
            follow(order, command, console.as_mut());
        } else if !said.is_empty() {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        let _ = rustix::io::read(&children, &mut [0_u8; 1024]);
    }
}

fn follow(order: Order, command: Pid, console: Option<&mut Console>) {
    match (order, console) {
        (Order::Signal(signal), _) => sys::signal_everything(signal),
        (Order::Move(place), Some(console)) => console.move_to(place, command),
        (Order::Resume(place), Some(console)) => {
            console.move_to(place, command);
            console::go_on(command);
        }
        (Order::Move(_) | Order::Resume(_), None) => {}
    }
}

/// What the command has left behind ends before its own end is told. A fork that is under way when the signal comes
/// fails, so none is missed.
fn end_the_rest() {
    sys::signal_everything(Signal::KILL.as_raw());
    while !matches!(wait(WaitOptions::empty()), Err(rustix::io::Errno::CHILD)) {}
}

/// Collects every child that has ended (orphans of the jail become ours). Gives the command's end.
fn reap(control: &OwnedFd, command: Pid) -> io::Result<Option<Report>> {
    loop {
        match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((pid, status))) if pid == command => {
                if let Some(signal) = status.terminating_signal() {
                    return Ok(Some(Report::Signalled(signal)));
                }
                if let Some(code) = status.exit_status() {
                    return Ok(Some(Report::Exited(code)));
                }
                if let Some(signal) = status.stopping_signal() {
                    channel::mention(control, &Report::Stopped(signal));
                }
            }
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}
