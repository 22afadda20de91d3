//! The signals by which a person or a service manager ends a process that serves: SIGTERM and SIGINT.

use keyless_core::{Code, Error, SafeText};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::reload::hung_up;

/// SIGTERM and SIGINT, which end nothing by themselves from here on.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl Stop {
    /// Takes both signals over.
    pub(crate) fn listen() -> Result<Self, Error> {
        let failed = |_| Error::with(Code::Internal, SafeText::words("signals can't be handled"));
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        Ok(Self { terminate, interrupt, hangup: None })
    }

    /// Takes SIGHUP for one of them: a process that ends with its terminal ends in order too.
    pub(crate) fn and_hangups(self) -> Result<Self, Error> {
        let failed = |_| Error::with(Code::Internal, SafeText::words("SIGHUP can't be handled"));
        let hangup = Some(signal(SignalKind::hangup()).map_err(failed)?);
        Ok(Self { hangup, ..self })
    }

    /// Resolves at the next of them.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = hung_up(&mut self.hangup) => {}
        }
    }
}
