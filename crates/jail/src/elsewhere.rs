//! Where there are no jails: nothing of one can be had, and whoever asks is told so.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Rlimit;

use crate::outcome::{Exit, JailError, Jailed, Streams};
use crate::plan::{Front, Plan};

/// The command in a jail, of which there is none.
#[derive(Debug)]
pub struct JailProcess(Infallible);

impl JailProcess {
    /// Sends a signal to the command.
    pub fn signal(&self, _signal: i32) {
        match self.0 {}
    }

    /// Passes on what the terminal said.
    pub fn signal_of_terminal(&self, _signal: i32) {
        match self.0 {}
    }

    /// Blocks until the command ends.
    pub fn wait(&self) -> Exit {
        match self.0 {}
    }

    /// Whether the end was seen.
    pub fn has_ended(&self) -> bool {
        match self.0 {}
    }

    /// Sends a signal to every process in the jail.
    pub fn signal_all(&self, _signal: i32) {
        match self.0 {}
    }

    /// Kills everything in the jail.
    pub fn kill(&self) {
        match self.0 {}
    }
}

/// What a jail for a command must be like, where there can be none.
#[derive(Debug)]
pub struct Outlook(Infallible);

/// Jails that stand before they are needed, of which there are none.
#[derive(Debug)]
pub struct Reserve;

impl Reserve {
    /// No look at the host is of use.
    pub const FRESH: Duration = Duration::ZERO;

    /// Keeps none.
    pub fn keeping(_spare: usize) -> Self {
        Self
    }

    /// Sees nothing.
    pub fn look(&self, _plan: &Plan) -> Option<Outlook> {
        None
    }

    /// Refuses.
    pub fn spawn_detached(
        &self,
        _plan: &Plan,
        _streams: Streams,
        _outlook: Option<Outlook>,
    ) -> Result<Jailed, JailError> {
        Err(JailError::NotLinux)
    }

    /// Makes none.
    pub fn refill(&self) {}

    /// None.
    pub fn ready(&self) -> usize {
        0
    }

    /// Has none to take down.
    pub fn drop_idle(&self, _longest: Duration) {}
}

/// Refuses.
pub fn spawn(_plan: &Plan) -> Result<Jailed, JailError> {
    Err(JailError::NotLinux)
}

/// Says why not.
pub fn check() -> Result<(), JailError> {
    Err(JailError::NotLinux)
}

/// No process is in one.
pub fn is_inside() -> bool {
    false
}

/// No process is started as a jail's init.
pub fn init_if_asked() {}

/// Goes on as it is: elsewhere memory is no file that stays open.
pub fn go_on_afresh(_front: Front) -> io::Result<Option<Exit>> {
    Ok(None)
}

/// No connection comes out of a jail.
pub fn original_destination(_stream: &impl AsFd) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Nothing is hidden here.
pub fn account_home() -> Option<PathBuf> {
    None
}

/// Nothing is asked here.
pub fn clock_in_step() -> Option<bool> {
    None
}

/// Leaves open what this process was given: no system but Linux marks all of it in one call.
pub fn close_on_exec_above_stderr() -> io::Result<()> {
    Ok(())
}

/// Nothing is changed.
pub fn hear_of_children() {}

/// There are no jails.
pub fn jail_with_open_files(_limit: Rlimit) {}

/// Nobody has looked.
pub fn ignored_by_caller() -> Vec<i32> {
    Vec::new()
}

/// The command begins as std has it.
pub fn start_ignoring(_command: &mut Command, _signals: Vec<i32>) {}
