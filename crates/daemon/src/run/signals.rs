//! Passes signals on to the command as if Keyless were not there.
//!
//! What the terminal sends (Ctrl-C, a window that closes) reaches the command itself, since it
//! stays in the foreground process group; only what a process sent to Keyless is passed on.

use std::{sync::Arc, thread};

use keyless_core::{Code, Error, SafeText};
use keyless_jail::JailProcess;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH},
    iterator::{Handle, SignalsInfo, exfiltrator::WithOrigin},
};

const FORWARDED: &[i32] = &[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];

/// Stops forwarding when the command has ended.
pub(super) struct Forwarding(Handle);

impl Forwarding {
    pub(super) fn stop(self) {
        self.0.close();
    }
}

/// Forwards to the jailed command.
pub(super) fn forward(process: &Arc<JailProcess>) -> Result<Forwarding, Error> {
    let process = Arc::clone(process);
    start(move |signal| process.signal(signal))
}

/// Forwards to a child without a jail.
pub(super) fn forward_to_pid(pid: Option<u32>) -> Result<Forwarding, Error> {
    let pid = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
    start(move |signal| {
        if let (Some(pid), Some(signal)) = (pid, rustix::process::Signal::from_named_raw(signal)) {
            // It may have ended already; then there is nobody to tell.
            let _ = rustix::process::kill_process(pid, signal);
        }
    })
}

fn start(deliver: impl Fn(i32) + Send + 'static) -> Result<Forwarding, Error> {
    let failed = |_| Error::with(Code::Internal, SafeText::words("signals can't be handled"));
    let mut signals = SignalsInfo::<WithOrigin>::new(FORWARDED).map_err(failed)?;
    let handle = signals.handle();
    thread::spawn(move || {
        for origin in &mut signals {
            if origin.process.is_some() {
                deliver(origin.signal);
            }
        }
    });
    Ok(Forwarding(handle))
}
