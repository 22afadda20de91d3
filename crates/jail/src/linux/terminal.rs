//! What the caller owes its own shell: to stop when the command does, and to give the terminal back.
//!
//! The shell outside sees the caller only. When the terminal stops the foreground group both stop; when a
//! command stops itself, nobody would tell. And the command may have been a shell, which makes its own group the terminal's foreground one and
//! can't give it back: from inside the PID namespace the caller's group has no number. Nor does the shell outside know of that group, to
//! continue it.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpgrp, kill_process_group, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::linux::sys;

/// The terminal in whose foreground the caller was; nothing where it had none.
#[derive(Debug)]
pub(crate) struct Foreground(Option<OwnedFd>);

impl Foreground {
    pub(crate) fn remember() -> Self {
        let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        let terminal =
            standard.into_iter().find(|fd| tcgetpgrp(fd).is_ok_and(|group| group == getpgrp()));
        // Above the standard three, wherever the first free number is.
        Self(terminal.and_then(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 3).ok()))
    }

    /// For a command that has no terminal.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Stops this process if the command is stopped and stays so.
    pub(crate) fn stop_with(&self, command: &OwnedFd) {
        // After Ctrl-Z and `fg` we hear of a stop that is over; the group is continued one by one.
        thread::sleep(Duration::from_millis(30));
        let Some(terminal) = &self.0 else { return };
        let Some(group) = group_if_stopped(command) else { return };
        let held = tcgetpgrp(terminal);
        sys::stop_this_process();
        // Continued. A command in the caller's group is as well; a shell that made its own is not, and had the terminal.
        if group == getpgrp() {
            return;
        }
        if let (Ok(held), true) = (held, self.is_ours()) {
            let _ = sys::with_signal_blocked(Signal::TTOU, || tcsetpgrp(terminal, held));
        }
        let _ = kill_process_group(group, Signal::CONT);
    }

    /// Whether the caller's group is in the foreground now.
    fn is_ours(&self) -> bool {
        self.0.as_ref().is_some_and(|terminal| tcgetpgrp(terminal) == Ok(getpgrp()))
    }

    /// Only if the foreground group is dead: a live one is the user's shell, which has put us aside.
    pub(crate) fn restore(&self) {
        let Some(terminal) = &self.0 else { return };
        // One that may not be signalled is another user's, as root's under `sudo`, and lives.
        let dead = tcgetpgrp(terminal)
            .is_ok_and(|group| test_kill_process_group(group) == Err(Errno::SRCH));
        if dead {
            // A group in the background that does this is stopped, unless it does not take the signal.
            let _ = sys::with_signal_blocked(Signal::TTOU, || tcsetpgrp(terminal, getpgrp()));
        }
    }
}

/// Looks the process behind a pidfd up in `/proc`, for its group; `None` if it is gone or runs.
fn group_if_stopped(pidfd: &OwnedFd) -> Option<Pid> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it is in parentheses and may hold anything.
    let (_, about) = stat.rsplit_once(") ")?;
    let mut fields = about.split(' ');
    let is_stopped = fields.next()?.starts_with('T');
    // Behind the parent.
    let group = fields.nth(1)?.parse().ok().and_then(Pid::from_raw)?;
    is_stopped.then_some(group)
}
