//! A jail that stands and waits for its job, seen from outside.

use std::{
    ffi::OsString,
    io,
    net::{TcpListener, UdpSocket},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Child, Command},
};

use rustix::event::{PollFd, PollFlags, poll};

use crate::{
    linux::{
        channel::{self, Failure, Report, Step},
        diagnosis, init, keeper,
        orders::{Ground, Job},
        pipes,
        relay::Terminals,
        spawn::JailProcess,
        sys,
    },
    outcome::{FunnelSockets, JailError, Jailed, Streams},
    plan::Plan,
};

/// A jail without a command. Dropping it takes it down.
#[derive(Debug)]
pub(crate) struct Standing {
    control: OwnedFd,
    guardian: Guardian,
    sockets: FunnelSockets,
    /// The caller's end of the command's terminal, where it gets one.
    pub(crate) master: Option<OwnedFd>,
}

/// Whoever started the init.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// This process: the jail shares its streams, and its session where that has no terminal.
    Caller,
    /// The keeper.
    Keeper,
}

/// PID 1, which ends after everything else in its jail.
#[derive(Debug)]
pub(crate) struct Guardian {
    pidfd: OwnedFd,
    /// Its parent, which is ours to wait for, unless that is the keeper.
    child: Option<Child>,
}

impl Standing {
    /// Builds a jail. Blocks for the few milliseconds of it.
    pub(crate) fn make(ground: &Ground, origin: Origin) -> Result<Self, JailError> {
        let (control, mut child, mut fds) = start(ground, origin)?;
        let master = ground.terminal.and_then(|_| fds.pop());
        let Ok([tcp, dns_udp, dns_tcp, pidfd]) = <[OwnedFd; 4]>::try_from(fds) else {
            drop(control);
            reap(&mut child);
            return Err(JailError::Lost);
        };
        let sockets = FunnelSockets {
            tcp: TcpListener::from(tcp),
            dns_udp: UdpSocket::from(dns_udp),
            dns_tcp: TcpListener::from(dns_tcp),
        };
        Ok(Self { control, guardian: Guardian { pidfd, child }, sockets, master })
    }

    /// Builds a jail and takes it down.
    pub(crate) fn probe(ground: &Ground) -> Result<(), JailError> {
        let (_, mut child, _) = start(ground, Origin::Caller)?;
        reap(&mut child);
        Ok(())
    }

    /// Gives it its job; fails where the jail has gone before anything of it was done.
    pub(crate) fn hand(&self, plan: &Plan, streams: Option<&Streams>) -> io::Result<()> {
        let Some(Streams { input, output, errors }) = streams else {
            return Job::new(plan, pipes::named_in(&plan.command)).send(&self.control, &[]);
        };
        Job::new(plan, vec![]).send(&self.control, &[input, output, errors])
    }

    /// Waits until the command of the job that was handed over runs.
    pub(crate) fn begin(
        self,
        plan: &Plan,
        terminals: Option<Terminals>,
    ) -> Result<Jailed, JailError> {
        let Self { control, mut guardian, sockets, master: _ } = self;
        let command = match channel::receive(&control) {
            Ok(Some((Report::Ready, mut fds))) => fds.pop().ok_or(JailError::Lost),
            Ok(Some((Report::Failed(failure), _))) => Err(explain(failure, plan)),
            _ => Err(JailError::Lost),
        };
        match command {
            Ok(command) => {
                let process = JailProcess::new(control, command, terminals, guardian);
                Ok(Jailed { sockets, process })
            }
            Err(error) => {
                drop(control);
                guardian.see_the_end();
                guardian.reap();
                Err(error)
            }
        }
    }
}

impl Guardian {
    /// Waits until everything in the jail has ended.
    pub(crate) fn see_the_end(&self) {
        let mut end = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let _ = rustix::io::retry_on_intr(|| poll(&mut end, None));
    }

    /// Whether its parent is a child of this process.
    pub(crate) fn is_ours(&self) -> bool {
        self.child.is_some()
    }

    /// Waits for its parent where nobody else would.
    pub(crate) fn reap(&mut self) {
        reap(&mut self.child);
    }
}

/// Starts an init and waits for its first report.
fn start(
    ground: &Ground,
    origin: Origin,
) -> Result<(OwnedFd, Option<Child>, Vec<OwnedFd>), JailError> {
    let (ours, theirs) = channel::pair().map_err(JailError::Start)?;
    ground.send(&ours).map_err(JailError::Start)?;
    let mut child = match origin {
        Origin::Caller => Some(start_init(&theirs).map_err(JailError::Start)?),
        Origin::Keeper => {
            keeper::start_init(&theirs).map_err(JailError::Start)?;
            None
        }
    };
    drop(theirs);
    match channel::receive(&ours) {
        Ok(Some((Report::Standing, fds))) => Ok((ours, child, fds)),
        other => {
            drop(ours);
            reap(&mut child);
            Err(match other {
                Ok(Some((Report::Failed(failure), _))) => explain(failure, &Plan::default()),
                _ => JailError::Lost,
            })
        }
    }
}

/// The caller's threads are never forked: its executable is started again under another name.
fn start_init(control: &OwnedFd) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(init::MARKER).arg(control.as_raw_fd().to_string()).env_clear();
    sys::inherit(&mut command, &[control.as_fd()]);
    command.spawn()
}

fn reap(child: &mut Option<Child>) {
    if let Some(child) = child {
        let _ = child.wait();
    }
}

/// Turns the init's report into what a caller can act on.
fn explain(failure: Failure, plan: &Plan) -> JailError {
    let source = match failure.errno {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::other(failure.words.clone()),
    };
    match failure.step {
        Step::Command => {
            let command = plan.command.first().cloned().unwrap_or_default();
            match source.kind() {
                io::ErrorKind::NotFound => JailError::CommandNotFound { command },
                _ => JailError::CommandNotExecutable { command, source },
            }
        }
        Step::WorkingDirectory => {
            let path = OsString::from(&plan.working_directory);
            JailError::WorkingDirectory { path, source }
        }
        step => match diagnosis::diagnose(step, &source, &diagnosis::Machine::read()) {
            Some((cause, remedy)) => JailError::Unavailable { cause, remedy, source },
            None => JailError::SetUp { doing: failure.doing, source },
        },
    }
}
