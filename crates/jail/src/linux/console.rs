//! The jail's own terminal, seen from PID 1, which makes it and leads its session.
//!
//! It is of the jail's own devpts, so that programs inside find it by its name, and the operator's is none that they could
//! open. PID 1 is in the session and not in the command's process group: so the kernel counts that group as one that
//! somebody may continue, and a key may stop it.

use std::os::fd::OwnedFd;

use rustix::{
    process::{
        Pid, Signal, getpgid, getpgrp, ioctl_tiocsctty, kill_process_group, setpgid, setsid,
    },
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{tcgetpgrp, tcsetpgrp},
};
use serde::{Deserialize, Serialize};

use crate::linux::channel::{During, Failure, Step};

/// What PID 1 is told of the terminal that it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fitting {
    /// Which of input, output and errors it is; the others stay what they are.
    pub(crate) streams: [bool; 3],
    /// Where the command begins.
    pub(crate) place: Place,
    /// Whether it controls the command's session, and programs find it as `/dev/tty`.
    pub(crate) is_controlling: bool,
}

/// Whether the command may read its terminal, or stops when it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Place {
    Background,
    Foreground,
}

/// The terminal. What the command has of it, it has from here.
pub(crate) struct Console {
    terminal: OwnedFd,
    /// The group that had the foreground when it was last taken away.
    put_aside: Option<Pid>,
}

impl Console {
    /// Makes it, that of this process's own new session, in place of the caller's. Gives the end that the caller
    /// gets, too. Needs the new `/dev`.
    pub(crate) fn open(fitting: Fitting) -> Result<(Self, OwnedFd), Failure> {
        Self::make(fitting).during(Step::Devices, || "open a terminal for the command".into())
    }

    fn make(fitting: Fitting) -> rustix::io::Result<(Self, OwnedFd)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let terminal = ioctl_tiocgptpeer(&master, flags)?;
        setsid()?;
        if fitting.is_controlling {
            ioctl_tiocsctty(&terminal)?;
        }
        let [input, output, errors] = fitting.streams;
        if input {
            rustix::stdio::dup2_stdin(&terminal)?;
        }
        if output {
            rustix::stdio::dup2_stdout(&terminal)?;
        }
        if errors {
            rustix::stdio::dup2_stderr(&terminal)?;
        }
        Ok((Self { terminal, put_aside: None }, master))
    }

    /// Makes the process that becomes the command a group of its own, in its place.
    pub(crate) fn seat(&self, command: Pid, place: Place) -> Result<(), Failure> {
        let seat = || {
            setpgid(Some(command), Some(command))?;
            match place {
                Place::Background => Ok(()),
                Place::Foreground => tcsetpgrp(&self.terminal, command),
            }
        };
        seat().during(Step::Supervision, || "give the command its terminal".into())
    }

    /// Has the command go to a place, and on if it is stopped there.
    pub(crate) fn move_to(&mut self, place: Place, command: Pid) {
        let held = tcgetpgrp(&self.terminal).ok().filter(|group| *group != getpgrp());
        match (place, held) {
            (Place::Background, Some(group)) => {
                self.put_aside = Some(group);
                let _ = tcsetpgrp(&self.terminal, getpgrp());
            }
            (Place::Foreground, None) => {
                let before = self.put_aside.take();
                let back = before.is_some_and(|group| tcsetpgrp(&self.terminal, group).is_ok());
                if let (false, Ok(group)) = (back, getpgid(Some(command))) {
                    let _ = tcsetpgrp(&self.terminal, group);
                }
            }
            (Place::Background, None) | (Place::Foreground, Some(_)) => {}
        }
    }
}

/// Continues the group that `command` is in now.
pub(crate) fn go_on(command: Pid) {
    if let Ok(group) = getpgid(Some(command)) {
        let _ = kill_process_group(group, Signal::CONT);
    }
}
