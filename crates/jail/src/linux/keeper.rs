//! The keeper: a small process that forks PID 1 of each detached jail.
//!
//! To start the broker's executable anew for every action would cost more than the action: it is large, and so is
//! the process that would have to be forked. The keeper is that executable, started once, with one thread and nothing in
//! memory but what every jail needs and is no secret. It sees no order and no value: what passes through it is the
//! socket on which an init gets its own. It ends when its caller does, and is started again should it end alone.

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{WaitOptions, setsid, wait},
};

use crate::linux::{
    channel,
    init::{Outfit, hide_from_others, report_failure, start_pid_one},
    seccomp::Filter,
    sys::{self, SignalMask},
    trust::roots::Roots,
};

/// The name under which the executable is started again; followed by a descriptor's number.
pub(crate) const MARKER: &str = "keyless-jail-keeper";

/// This process's own.
static KEEPER: Mutex<Option<Keeper>> = Mutex::new(None);

struct Keeper {
    requests: OwnedFd,
    process: Child,
}

/// Has PID 1 of a jail started, which finds its orders on `control`.
pub(crate) fn start_init(control: &OwnedFd) -> io::Result<()> {
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

/// Forks a PID 1 for every request until the caller is gone. Gives the exit status.
pub(crate) fn keep(requests: OwnedFd, signals: &SignalMask) -> i32 {
    let (Ok(children), Ok(filter)) = (sys::child_events(), Filter::compile()) else { return 1 };
    // No process of the same user may make the jails of others weaker.
    if hide_from_others().is_err() {
        return 1;
    }
    let mut outfit = Outfit { filter, roots: None };
    let mut own = Some((requests, children));
    while let Some((requests, children)) = &own {
        let mut events =
            [PollFd::new(requests, PollFlags::IN), PollFd::new(children, PollFlags::IN)];
        if rustix::io::retry_on_intr(|| poll(&mut events, None)).is_err() {
            return 1;
        }
        let is_asked = !events[0].revents().is_empty();
        let _ = rustix::io::read(children, &mut [0_u8; 1024]);
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        if !is_asked {
            continue;
        }
        let Ok(Some(fds)) = channel::take_over(requests) else { return 0 };
        let Ok([control]) = <[OwnedFd; 1]>::try_from(fds) else { continue };
        outfit.roots = outfit.roots.filter(Roots::are_current);
        let began = start_pid_one(&control, signals, &outfit, || {
            drop(own.take());
            // A signal to the process group of one jail must not be heard in another.
            let _ = setsid();
            Ok(())
        });
        if let Err(failure) = began {
            report_failure(&control, failure);
        }
        drop(control);
        // For the next one: this one does not wait for it.
        outfit.roots.get_or_insert_with(Roots::read);
    }
    0
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
