//! The word between a guard and the service of its connection: verdicts one way, interim answers
//! and upgrades the other.

use std::{collections::VecDeque, sync::Arc, task::Waker};

use bytes::BytesMut;
use keyless_core::{Code, Error};
use parking_lot::Mutex;

use super::Framing;

const MAX_INTERIM: usize = 64 << 10;

/// What the service asks of the guard of its connection.
#[derive(Clone)]
pub(crate) struct GuardHandle(pub(super) Arc<Mutex<Shared>>);

/// A head that may pass.
pub(crate) struct Approved {
    /// The guard of its connection.
    pub(crate) guard: GuardHandle,
    /// For a head that asks for a WebSocket.
    pub(crate) upgrade: Option<UpgradePass>,
}

/// Whether a connection that asked for an upgrade gets it; it does not when this is dropped.
pub(crate) struct UpgradePass(Option<GuardHandle>);

#[derive(Default)]
pub(super) struct Shared {
    pub(super) verdicts: VecDeque<Result<Framing, Error>>,
    pub(super) decision: Option<Decision>,
    /// Interim answers that wait to be written.
    pub(super) interim: BytesMut,
    pub(super) waker: Option<Waker>,
}

pub(super) enum Decision {
    NextHead,
    Raw,
}

impl GuardHandle {
    /// The verdict on the head that hyper has just handed to the service.
    pub(crate) fn verdict(&self) -> Result<Approved, Error> {
        let verdict =
            self.0.lock().verdicts.pop_front().unwrap_or_else(|| Err(Code::Internal.into()));
        let upgrade = match verdict? {
            Framing::Upgrade => Some(UpgradePass(Some(self.clone()))),
            _ => None,
        };
        Ok(Approved { guard: self.clone(), upgrade })
    }

    /// Has an interim answer (a whole 1xx head) written before the answer to come.
    pub(crate) fn write_interim(&self, head: &[u8]) {
        let mut shared = self.0.lock();
        // An upstream that sends nothing else must not fill our memory.
        if shared.interim.len() + head.len() <= MAX_INTERIM {
            shared.interim.extend_from_slice(head);
        }
        wake(&mut shared);
    }

    fn decide(&self, decision: Decision) {
        let mut shared = self.0.lock();
        shared.decision = Some(decision);
        wake(&mut shared);
    }
}

impl UpgradePass {
    /// From here on the bytes are not HTTP.
    pub(crate) fn grant(mut self) {
        if let Some(handle) = self.0.take() {
            handle.decide(Decision::Raw);
        }
    }
}

impl Drop for UpgradePass {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.decide(Decision::NextHead);
        }
    }
}

fn wake(shared: &mut Shared) {
    if let Some(waker) = shared.waker.take() {
        waker.wake();
    }
}
