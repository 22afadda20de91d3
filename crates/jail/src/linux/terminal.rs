//! What the caller owes its own shell: to stop when the command does, and to give the terminal back.
//!
//! The shell outside sees the caller only. When the terminal stops the foreground group both stop; when a
//! command stops itself, nobody would tell. And the command may have been a shell, which makes its own group the terminal's foreground one and
//! can't give it back: from inside the PID namespace the caller's group has no number.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpgrp, getpid, kill_process, test_kill_process_group};
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
        if self.0.is_some() && is_stopped(command) == Some(true) {
            let _ = kill_process(getpid(), Signal::STOP);
        }
    }

    /// Only if the foreground group is dead: a live one is the user's shell, which has put us aside.
    pub(crate) fn restore(&self) {
        let Some(terminal) = &self.0 else { return };
        let dead = tcgetpgrp(terminal).is_ok_and(|group| test_kill_process_group(group).is_err());
        if dead {
            // A group in the background that does this is stopped, unless it does not take the signal.
            let _ = sys::with_signal_blocked(Signal::TTOU, || tcsetpgrp(terminal, getpgrp()));
        }
    }
}

/// Looks the process behind a pidfd up in `/proc`; `None` if it is gone.
fn is_stopped(pidfd: &OwnedFd) -> Option<bool> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it is in parentheses and may hold anything.
    let (_, state) = stat.rsplit_once(") ")?;
    Some(state.starts_with('T'))
}
