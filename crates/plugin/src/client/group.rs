//! A program and all that it started, as one group of processes.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// A program and all that it started, killed when this is dropped: it may have died and left the others.
#[derive(Debug)]
pub struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// The group of a child that was started as the first in it.
    pub fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(id.cast_signed())))
    }

    /// The first process; none where it had ended before this was made.
    pub fn pid(&self) -> Option<Pid> {
        self.0
    }

    /// Lets what is left of it live on.
    pub fn leave(mut self) {
        self.0 = None;
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // It may be gone already.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
