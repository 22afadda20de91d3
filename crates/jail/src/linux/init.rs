//! The jail's init: makes the namespaces, becomes their PID 1, runs the command and reports its end.
//!
//! Two processes keep a jail. The first stage unshares, maps the user and waits; its child is PID 1,
//! which sets everything up, forks what becomes the command, waits for its job, reaps orphans and watches the control
//! socket. When the caller dies (`kill -9` included) the socket hangs up and PID 1 ends, which ends every
//! process of the jail; when the first stage dies the kernel kills PID 1. Both block all signals: the
//! terminal's reach the command directly, as it stays in the caller's session and process group.
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
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open,
    set_dumpable_behavior, set_parent_process_death_signal, wait, waitpid,
};
use rustix::thread::UnshareFlags;

use crate::linux::channel::{self, During, Failure, Report, Step};
use crate::linux::mounts::hosted::Surroundings;
use crate::linux::orders::{Ground, Job, Purpose};
use crate::linux::seccomp::Filters;
use crate::linux::starter::Starter;
use crate::linux::sys::{self, Fork, SignalMask};
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
    exit(if is_keeper { keeper::keep(socket, signals) } else { first_stage(socket, signals) })
}

fn adopt_next(arguments: &mut env::ArgsOs) -> Option<OwnedFd> {
    let number: RawFd = arguments.next()?.to_str()?.parse().ok()?;
    sys::adopt(number)
}

/// Gives the exit status of this process; the command's own goes through `control`. `signals` is what the caller did
/// not take; all are blocked.
pub(crate) fn first_stage(control: OwnedFd, signals: SignalMask) -> i32 {
    match start_pid_one(&control, signals) {
        Ok((pid_one, lifeline)) => {
            drop(control);
            // All it has to do now is to be there: its death is PID 1's death.
            let _ = rustix::io::retry_on_intr(|| waitpid(Some(pid_one), WaitOptions::empty()));
            drop(lifeline);
            0
        }
        Err(failure) => {
            let _ = channel::send(&control, &Report::Failed(failure), &[]);
            1
        }
    }
}

/// In the first stage, gives PID 1 and a pipe end that hangs up with this process. PID 1 never returns.
fn start_pid_one(control: &OwnedFd, signals: SignalMask) -> Result<(Pid, OwnedFd), Failure> {
    let ground = Ground::receive(control).during(Step::Orders, || "read the orders".into())?;
    // The host's sockets are listed by the network namespace that is about to be left.
    let surroundings = Surroundings::read(&ground);
    let guardian = pidfd_open(getpid(), PidfdFlags::empty())
        .during(Step::Supervision, || "open a pidfd".into())?;
    // Its files in /proc, which it has to write, are its user's.
    set_dumpable(DumpableBehavior::Dumpable)?;
    enter_namespaces()?;
    confine::forbid_core_dumps()?;
    // From here on no process of the same user looks into it.
    set_dumpable(DumpableBehavior::NotDumpable)?;
    let (first_stage, lifeline) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .during(Step::Supervision, || "open a pipe".into())?;
    match sys::fork().during(Step::Supervision, || "start the jail's first process".into())? {
        Fork::Parent(pid) => Ok((pid, lifeline)),
        Fork::Child => {
            drop(lifeline);
            let pid_one = PidOne { control, first_stage, guardian, ground, surroundings, signals };
            exit(pid_one.live())
        }
    }
}

fn set_dumpable(behavior: DumpableBehavior) -> Result<(), Failure> {
    set_dumpable_behavior(behavior)
        .during(Step::Capabilities, || "set who may look into the init".into())
}

fn enter_namespaces() -> Result<(), Failure> {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    let all = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWNET;
    sys::unshare(all).during(Step::UserNamespace, || "create namespaces".into())?;
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1", uid = uid.as_raw())),
        ("gid_map", format!("{gid} {gid} 1", gid = gid.as_raw())),
    ];
    for (file, text) in maps {
        fs::write(format!("/proc/self/{file}"), text)
            .during(Step::Identity, || format!("write /proc/self/{file}"))?;
    }
    Ok(())
}

/// PID 1 of the jail.
struct PidOne<'a> {
    /// To the caller; hangs up when the caller dies.
    control: &'a OwnedFd,
    /// Hangs up when the first stage dies.
    first_stage: OwnedFd,
    /// The first stage, for the caller to see the end of everything.
    guardian: OwnedFd,
    ground: Ground,
    surroundings: Surroundings,
    /// What the caller did not take, to be the command's again.
    signals: SignalMask,
}

impl PidOne<'_> {
    /// Gives the exit status, which nobody reads.
    fn live(&self) -> i32 {
        let last_words = match self.run() {
            Ok(Some(command)) => supervise(self.control, command).ok(),
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
    fn run(&self) -> Result<Option<Pid>, Failure> {
        die_with_first_stage(&self.first_stage)?;
        let sockets = network::build()?;
        set_host_name(&self.ground)?;
        mounts::build(&self.ground, &self.surroundings)?;
        if self.ground.purpose == Purpose::Probe {
            confine::drop_privileges()?;
            Filters::compile()?.install()?;
            channel::send(self.control, &Report::Standing, &[])
                .during(Step::Supervision, || "report".into())?;
            return Ok(None);
        }
        let (stock, starter) = self.stand(sockets)?;
        let read = || "read the job".into();
        let Some(handed) = Job::take_over(self.control).during(Step::Orders, read)? else {
            return Ok(None);
        };
        let job = handed.read().during(Step::Orders, read)?;
        mounts::trust(&self.ground, &job, stock)?;
        make_own_files(&job)?;
        confine::drop_privileges()?;
        // The command's environment and files are the command's alone from here on.
        drop(job);
        starter.start(&handed)?;
        drop(handed);
        channel::send(self.control, &Report::Ready, &[starter.pidfd()])
            .during(Step::Supervision, || "report".into())?;
        Ok(Some(starter.pid()))
    }

    /// Says that the jail stands, and prepares what any job needs. If none comes at once, prepares for a CA as well,
    /// while nobody waits for it.
    fn stand(&self, sockets: FunnelSockets) -> Result<(Option<Stock>, Starter), Failure> {
        let FunnelSockets { tcp, dns_udp, dns_tcp } = &sockets;
        let fds = [tcp.as_fd(), dns_udp.as_fd(), dns_tcp.as_fd(), self.guardian.as_fd()];
        channel::send(self.control, &Report::Standing, &fds)
            .during(Step::Supervision, || "report".into())?;
        drop(sockets);
        let starter = Starter::fork(&self.signals)?;
        let mut orders = [PollFd::new(self.control, PollFlags::IN)];
        let come = rustix::io::retry_on_intr(|| poll(&mut orders, Some(&AT_ONCE)))
            .during(Step::Supervision, || "wait for the job".into())?;
        let has_time = come == 0 && self.ground.expects_ca;
        Ok((has_time.then(mounts::stock_trust).transpose()?, starter))
    }
}

/// Returns once the caller has let go of the jail, in which nothing is left but PID 1.
fn await_dismissal(control: &OwnedFd) {
    loop {
        let mut events = [PollFd::new(control, PollFlags::IN)];
        let polled = rustix::io::retry_on_intr(|| poll(&mut events, None));
        // A signal may have been ordered for what has ended meanwhile.
        let is_order = events[0].revents() == PollFlags::IN;
        if polled.is_err() || !is_order || channel::ordered_signal(control).is_none() {
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
fn supervise(control: &OwnedFd, command: Pid) -> io::Result<Report> {
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
            && let Some(signal) = channel::ordered_signal(control)
        {
            sys::signal_everything(signal);
        } else if !said.is_empty() {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        let _ = rustix::io::read(&children, &mut [0_u8; 1024]);
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
                if status.stopped() {
                    channel::mention(control, &Report::Stopped);
                }
            }
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}
