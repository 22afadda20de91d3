//! The signals by which a person or a service manager ends a process that serves: SIGTERM and SIGINT.

use keyless_core::{Code, Error, SafeText};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, which end nothing by themselves from here on.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// Takes both signals over.
    pub(crate) fn listen() -> Result<Self, Error> {
        let failed = |_| Error::with(Code::Internal, SafeText::words("signals can't be handled"));
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt()).map_err(failed)? })
    }

    /// Resolves at the next of them.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
