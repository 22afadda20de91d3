//! Passes signals on to the command as if Keyless were not there.
//!
//! What a process sent to Keyless the command gets. What the terminal sends to the foreground process group (Ctrl-C), a
//! command without a jail gets itself, as it is of that group; one in a jail has a terminal of its own, and what another
//! one than that says is passed on to it.

use std::{sync::Arc, thread};

use keyless_core::{Code, Error, SafeText};
use keyless_jail::JailProcess;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH},
    iterator::{Handle, SignalsInfo, exfiltrator::WithOrigin},
};

use crate::system::heeded;

const FORWARDED: &[i32] = &[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];

/// Signals that arrive from now on, kept until there is a command to pass them on to. Made before
/// the command is started: one that comes in between must neither end Keyless nor be lost.
pub(super) struct Caught(SignalsInfo<WithOrigin>);

/// Stops forwarding when the command has ended.
pub(super) struct Forwarding(Handle);

impl Caught {
    pub(super) fn begin() -> Result<Self, Error> {
        let failed = |_| Error::with(Code::Internal, SafeText::words("signals can't be handled"));
        // What the caller ignores (`nohup`), the command inherits as ignored.
        SignalsInfo::new(heeded(FORWARDED)).map(Self).map_err(failed)
    }

    /// Forwards to the jailed command.
    pub(super) fn forward_to(self, process: &Arc<JailProcess>) -> Forwarding {
        let (process, at_terminal) = (Arc::clone(process), Arc::clone(process));
        self.start(
            move |signal| process.signal(signal),
            move |signal| at_terminal.signal_of_terminal(signal),
        )
    }

    /// Forwards to a child without a jail.
    pub(super) fn forward_to_pid(self, pid: Option<u32>) -> Forwarding {
        let pid =
            pid.and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
        let deliver = move |signal| {
            if let (Some(pid), Some(signal)) =
                (pid, rustix::process::Signal::from_named_raw(signal))
            {
                // It may have ended already; then there is nobody to tell.
                let _ = rustix::process::kill_process(pid, signal);
            }
        };
        self.start(deliver, |_| {})
    }

    fn start(
        mut self,
        deliver: impl Fn(i32) + Send + 'static,
        of_terminal: impl Fn(i32) + Send + 'static,
    ) -> Forwarding {
        let handle = self.0.handle();
        thread::spawn(move || {
            for origin in &mut self.0 {
                if origin.process.is_some() {
                    deliver(origin.signal);
                } else {
                    of_terminal(origin.signal);
                }
            }
        });
        Forwarding(handle)
    }
}

impl Forwarding {
    pub(super) fn stop(self) {
        self.0.close();
    }
}
