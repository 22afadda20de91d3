//! The operator's terminal, of which the jail has nothing: the command has one of its own ([`crate::linux::console`]).
//!
//! A terminal asks only those who are of its session whether they may read it now. A process of the jail that had it open and began a
//! session of its own would read on behind a shell that has put it aside, and so what is typed to the next program: a
//! passphrase. So the caller alone has it, and passes on what comes while it is the caller's turn
//! ([`crate::linux::relay`]).

use std::{
    fs,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::{Pid, Signal, getpgid, getpgrp, getpid, getppid},
    termios::{
        LocalModes, OptionalActions, OutputModes, Termios, tcgetattr, tcgetwinsize, tcsetattr,
        tcsetwinsize,
    },
};

use signal_hook::consts::SIGTTOU;

use crate::linux::{
    console::{Fitting, Place},
    sys,
};

/// The terminal that controls the caller's session.
#[derive(Debug)]
pub(crate) struct Outer {
    terminal: OwnedFd,
    /// Which of input, output and errors it is.
    streams: [bool; 3],
    /// Whether what is typed may be meant for the command.
    is_typed_to: bool,
}

/// The terminal while it is raw and what is typed goes to the command.
#[derive(Debug)]
pub(crate) struct Held {
    before: Termios,
    raw: Termios,
}

impl Outer {
    /// The caller's; nothing where it has none.
    pub(crate) fn find() -> Option<Self> {
        let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        let streams = standard.map(sys::is_own_terminal);
        // Opened anew, so that what is set for this opening is not set for the shell's.
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let terminal = match rustix::fs::open("/dev/tty", flags, Mode::empty()) {
            Ok(terminal) => terminal,
            Err(Errno::NXIO) => return None,
            Err(_) => {
                let one = standard.into_iter().zip(streams).find(|(_, is_it)| *is_it)?.0;
                rustix::io::fcntl_dupfd_cloexec(one, 3).ok()?
            }
        };
        let is_typed_to = streams[0] || is_own_job();
        Some(Self { terminal, streams, is_typed_to })
    }

    /// What the command's own terminal has to be like.
    pub(crate) fn fitting(&self) -> Fitting {
        let begins_in_front = self.is_whole() && self.is_ours_now();
        let place = if begins_in_front { Place::Foreground } else { Place::Background };
        Fitting { streams: self.streams, place, is_controlling: self.is_typed_to }
    }

    /// Gives the command's terminal the modes that this one has.
    pub(crate) fn lend_modes(&self, master: &OwnedFd) {
        if let Ok(modes) = tcgetattr(&self.terminal) {
            let _ = tcsetattr(master, OptionalActions::Now, &modes);
        }
    }

    /// Gives it the size.
    pub(crate) fn lend_size(&self, master: &OwnedFd) {
        if let Ok(size) = tcgetwinsize(&self.terminal) {
            let _ = tcsetwinsize(master, size);
        }
    }

    /// Whether nobody else is meant to read it while the command runs: in a pipeline a pager may be.
    pub(crate) fn is_whole(&self) -> bool {
        let [input, output, _] = self.streams;
        input && output
    }

    /// Whether it is the command's input, and something else its output.
    pub(crate) fn is_input_alone(&self) -> bool {
        let [input, output, _] = self.streams;
        input && !output
    }

    /// Whether what is typed may be meant for the command.
    pub(crate) fn is_typed_to(&self) -> bool {
        self.is_typed_to
    }

    /// Whether the caller's process group has it now.
    pub(crate) fn is_ours_now(&self) -> bool {
        sys::is_foreground(&self.terminal)
    }

    /// Whether whoever reads it gets whole lines: no program that reads single keys is at it.
    pub(crate) fn is_in_lines(&self) -> bool {
        tcgetattr(&self.terminal).is_ok_and(|modes| modes.local_modes.contains(LocalModes::ICANON))
    }

    /// Whether it puts a return before the end of each line that is written to it.
    pub(crate) fn adds_returns(&self) -> bool {
        let adding = OutputModes::OPOST | OutputModes::ONLCR;
        tcgetattr(&self.terminal).is_ok_and(|modes| modes.output_modes.contains(adding))
    }

    /// Makes it raw; nothing where that can't be. `last` is what it was when it was held before, if it is still so.
    pub(crate) fn hold(&self, last: Option<Held>) -> Option<Held> {
        let before = tcgetattr(&self.terminal).ok()?;
        if let Some(last) = last.filter(|last| modes_of(&last.raw) == modes_of(&before)) {
            return Some(last);
        }
        let mut raw = before.clone();
        raw.make_raw();
        if !self.is_whole() {
            // Programs of a pipeline write there as well.
            raw.output_modes = before.output_modes;
        }
        let held = Held { before, raw };
        self.set(&held.raw).ok()?;
        if self.is_ours_now() {
            return Some(held);
        }
        // It was taken away between two looks.
        let _ = self.set(&held.before);
        None
    }

    /// Gives it back as it was, if nobody else has it by now.
    pub(crate) fn let_go(&self, held: &Held) {
        if self.is_ours_now() {
            let _ = self.set(&held.before);
        }
    }

    fn set(&self, modes: &Termios) -> rustix::io::Result<()> {
        sys::with_signal_blocked(Signal::TTOU, || {
            tcsetattr(&self.terminal, OptionalActions::Now, modes)
        })
    }

    /// Reads what was typed. The kernel refuses it to a group in the background, whatever was seen a moment ago.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> rustix::io::Result<usize> {
        sys::with_signal_blocked(Signal::TTIN, || rustix::io::read(&self.terminal, bytes))
    }

    /// Whether a program in the background is stopped for writing there now (`stty tostop`).
    pub(crate) fn stops_writers(&self) -> bool {
        !sys::is_ignored(SIGTTOU)
            && !self.is_ours_now()
            && tcgetattr(&self.terminal)
                .is_ok_and(|modes| modes.local_modes.contains(LocalModes::TOSTOP))
    }

    /// Writes, wherever the caller is. Who is stopped within a write can't do what it was told meanwhile: each time it is
    /// continued, it is stopped again.
    pub(crate) fn write(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        sys::with_signal_blocked(Signal::TTOU, || rustix::io::write(&self.terminal, bytes))
    }
}

impl AsFd for Outer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.terminal.as_fd()
    }
}

/// Whether this process's group is a job of a shell's that gives it its turns at the terminal: what a shell starts so has
/// another group than the shell. What a script starts is of the script's own group; in the background or not, it would have
/// what is typed to the script. `&` gives it another input than the terminal, and so it is told.
fn is_own_job() -> bool {
    let group = getpgrp();
    group == getpid() || getpgid(getppid()).is_ok_and(|parents| parents != group)
}

/// All that a program says in words of how a terminal shall be.
pub(crate) fn modes_of(modes: &Termios) -> [u64; 4] {
    [
        modes.input_modes.bits().into(),
        modes.output_modes.bits().into(),
        modes.control_modes.bits().into(),
        modes.local_modes.bits().into(),
    ]
}

/// What the host's `/proc` says of the process behind a pidfd.
pub(crate) struct State {
    pub(crate) group: Pid,
    pub(crate) is_stopped: bool,
}

/// Looks the process up; `None` if it is gone.
pub(crate) fn state_of(pidfd: &OwnedFd) -> Option<State> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it is in parentheses and may hold anything.
    let (_, about) = stat.rsplit_once(") ")?;
    let mut fields = about.split(' ');
    let is_stopped = fields.next()?.starts_with('T');
    // Behind the parent.
    let group = fields.nth(1)?.parse().ok().and_then(Pid::from_raw)?;
    Some(State { group, is_stopped })
}
