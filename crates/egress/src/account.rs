//! What one request or tunnel comes to: bytes, status, time; counted against the session's quota, and
//! counted for a drain while it lasts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicU64, Ordering},
    },
    time::Instant,
};

use http::StatusCode;
use keyless_core::Error;

use crate::{Engine, Session, engine::Flight, ports::Finished, refusal::Subject};

/// One request with its answer, or one tunnel. Tells the broker when the last who holds it is gone.
pub(crate) struct Account {
    session: Arc<Session>,
    subject: Arc<Subject>,
    began: Instant,
    status: AtomicU16,
    sent: AtomicU64,
    received: AtomicU64,
    _flight: Flight,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To the destination.
    Sent,
    /// To the agent.
    Received,
}

impl Account {
    /// Opens the account of something that begins now.
    pub(crate) fn open(
        engine: &Arc<Engine>,
        session: &Arc<Session>,
        subject: Arc<Subject>,
    ) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::clone(session),
            subject,
            began: Instant::now(),
            status: AtomicU16::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            _flight: engine.take_off(),
        })
    }

    /// What it is about.
    pub(crate) fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The destination has answered.
    pub(crate) fn answered(&self, status: StatusCode) {
        self.status.store(status.as_u16(), Ordering::Relaxed);
    }

    /// Some bytes have passed. An error when no more may.
    pub(crate) fn pass(&self, way: Way, bytes: usize) -> Result<(), Error> {
        let counter = if way == Way::Sent { &self.sent } else { &self.received };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
        self.session.quota().spend_bytes(bytes)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let status = Some(*self.status.get_mut()).filter(|status| *status > 0);
        self.session.finished(Finished {
            correlation_id: self.subject.correlation_id.clone(),
            authority: self.subject.authority.clone(),
            request: self.subject.request.clone(),
            status,
            sent: *self.sent.get_mut(),
            received: *self.received.get_mut(),
            took: self.began.elapsed(),
        });
    }
}
