//! The word between a guard and the service of its connection: verdicts one way, interim answers
//! and upgrades the other.

use std::{collections::VecDeque, sync::Arc, task::Waker};

use bytes::BytesMut;
use http::Request;
use keyless_core::{Code, Error};
use parking_lot::Mutex;

use super::Framing;
use crate::raw_target::RawTarget;

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
    /// The target as it came, where hyper has another.
    raw_target: Option<RawTarget>,
}

/// Whether a connection that asked for an upgrade gets it; it does not when this is dropped.
pub(crate) struct UpgradePass(Option<GuardHandle>);

#[derive(Default)]
pub(super) struct Shared {
    pub(super) verdicts: VecDeque<Result<(Framing, Option<RawTarget>), Error>>,
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
        let (framing, raw_target) = verdict?;
        let upgrade = match framing {
            Framing::Upgrade => Some(UpgradePass(Some(self.clone()))),
            _ => None,
        };
        Ok(Approved { guard: self.clone(), upgrade, raw_target })
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

impl Approved {
    /// Puts the target as it came beside the one that hyper has.
    pub(crate) fn say_raw_target<B>(&mut self, request: &mut Request<B>) {
        if let Some(raw) = self.raw_target.take() {
            request.extensions_mut().insert(raw);
        }
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
