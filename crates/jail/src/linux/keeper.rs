//! The keeper: a small process that forks the first stage of each detached jail.
//!
//! To start the broker's executable anew for every action would cost more than the action: it is large, and so is
//! the process that would have to be forked. The keeper is that executable, started once, with one thread and nothing in
//! memory. It sees no order and no value: what passes through it is the socket on which an init gets its own. It
//! ends when its caller does, and is started again should it end alone.

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Child, Command, Stdio, exit},
    sync::{Mutex, PoisonError},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{DumpableBehavior, WaitOptions, set_dumpable_behavior, setsid, wait},
};

use crate::linux::{
    channel::{self, During, Report, Step},
    init::first_stage,
    sys::{self, Fork, SignalMask},
};

/// The name under which the executable is started again; followed by a descriptor's number.
pub(crate) const MARKER: &str = "keyless-jail-keeper";

/// This process's own.
static KEEPER: Mutex<Option<Keeper>> = Mutex::new(None);

struct Keeper {
    requests: OwnedFd,
    process: Child,
}

/// Has the first stage of a jail started, which finds its orders on `control`.
pub(crate) fn start_first_stage(control: &OwnedFd) -> io::Result<()> {
    let mut keeper = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = &mut *keeper {
        match channel::hand_over(&known.requests, &[control.as_fd()]) {
            Err(error) if has_hung_up(&error) => known.end(),
            // Too many descriptors under way, say: another call may go well.
            handed => return handed,
        }
    }
    let new = keeper.insert(Keeper::start()?);
    channel::hand_over(&new.requests, &[control.as_fd()])
}

/// Whether the other end is gone, and not merely unable to take more now.
fn has_hung_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

impl Keeper {
    /// Ends it, whatever it does, and reaps it. The jails that it started go on.
    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn start() -> io::Result<Self> {
        let (requests, theirs) = channel::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0(MARKER).arg(theirs.as_raw_fd().to_string()).env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        sys::inherit(&mut command, &[theirs.as_fd()]);
        sys::detach(&mut command);
        Ok(Self { requests, process: command.spawn()? })
    }
}

/// Forks a first stage for every request until the caller is gone. Gives the exit status.
pub(crate) fn keep(requests: OwnedFd, signals: SignalMask) -> i32 {
    let Ok(children) = sys::child_events() else { return 1 };
    // No process of the same user may make the jails of others weaker.
    if set_dumpable_behavior(DumpableBehavior::NotDumpable).is_err() {
        return 1;
    }
    loop {
        let mut events =
            [PollFd::new(&requests, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
        if rustix::io::retry_on_intr(|| poll(&mut events, None)).is_err() {
            return 1;
        }
        let is_asked = !events[0].revents().is_empty();
        let _ = rustix::io::read(&children, &mut [0_u8; 1024]);
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        if !is_asked {
            continue;
        }
        let Ok(Some(fds)) = channel::take_over(&requests) else { return 0 };
        let Ok([control]) = <[OwnedFd; 1]>::try_from(fds) else { continue };
        match sys::fork() {
            Ok(Fork::Parent(_)) => {}
            Ok(Fork::Child) => {
                drop((requests, children));
                // A signal to the process group of one jail must not be heard in another.
                let _ = setsid();
                exit(first_stage(control, signals))
            }
            Err(error) => {
                let failed = Err(error).during(Step::Supervision, || "fork the init".into());
                if let Err::<(), _>(failure) = failed {
                    let _ = channel::send(&control, &Report::Failed(failure), &[]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn only_who_has_gone_is_waited_for() {
        for (errno, gone) in [
            (Errno::PIPE, true),
            (Errno::CONNRESET, true),
            (Errno::TOOMANYREFS, false),
            (Errno::NOBUFS, false),
        ] {
            assert_eq!(has_hung_up(&errno.into()), gone, "{errno}");
        }
    }
}
