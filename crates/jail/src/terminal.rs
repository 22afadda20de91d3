//! Gives the terminal back to the caller's process group once the command is gone.
//!
//! The command may have been a shell, which makes its own group the terminal's foreground one and
//! can't give it back: from inside the PID namespace the caller's group has no number.

use std::os::fd::OwnedFd;

use rustix::process::{Signal, getpgrp, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::sys;

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
