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
use keyless_core::{Code, Error};

use crate::{
    Session,
    engine::Flight,
    ports::{Finished, Incident, SoFar},
    refusal::{self, Subject},
    scrub::Taken,
};

/// One request with its answer, or one tunnel. Tells the broker when the last who holds it is gone.
pub(crate) struct Account {
    session: Arc<Session>,
    /// There until the account is closed.
    subject: Option<Arc<Subject>>,
    began: Instant,
    status: AtomicU16,
    sent: AtomicU64,
    received: AtomicU64,
    taken: Arc<Taken>,
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
    /// Opens the account of something that has begun.
    pub(crate) fn open(flight: Flight, session: &Arc<Session>, subject: Arc<Subject>) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::clone(session),
            subject: Some(subject),
            began: Instant::now(),
            status: AtomicU16::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            taken: Arc::default(),
            _flight: flight,
        })
    }

    /// What it is about.
    pub(crate) fn subject(&self) -> &Subject {
        self.subject.as_ref().expect("the subject leaves only on drop")
    }

    /// The destination has answered.
    pub(crate) fn answered(&self, status: StatusCode) {
        self.status.store(status.as_u16(), Ordering::Relaxed);
    }

    /// Where the scrub tells what it takes out of what comes back.
    pub(crate) fn taken(&self) -> Arc<Taken> {
        Arc::clone(&self.taken)
    }

    /// A body of it, or a tunnel, was refused on its way.
    pub(crate) fn refused(&self, error: &Error) {
        // That the session has ended is on record already.
        if !matches!(error.code(), Code::Draining | Code::SessionEnded) {
            refusal::log_so_far(&self.session, self.subject(), error, self.so_far(error));
        }
    }

    /// What it has come to, if it is refused now.
    fn so_far(&self, error: &Error) -> SoFar {
        // A body that is refused before there is an answer is answered so.
        let status = match self.status.load(Ordering::Relaxed) {
            0 => {
                let Subject { request, form, .. } = self.subject();
                request.as_ref().map(|_| form.status(error.code()).as_u16())
            }
            status => Some(status),
        };
        SoFar {
            status,
            sent: self.sent(),
            received: self.received.load(Ordering::Relaxed),
            took: self.began.elapsed(),
        }
    }

    /// Bytes that went to the destination.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Some bytes have passed. An error when no more may.
    pub(crate) fn pass(&self, way: Way, bytes: usize) -> Result<(), Error> {
        let counter = if way == Way::Sent { &self.sent } else { &self.received };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
        if way == Way::Received {
            self.tell();
        }
        self.session.quota().spend_bytes(bytes)
    }

    /// Tells of what was taken out: an answer may come for hours, and an operator is not to wait for its end.
    fn tell(&self) {
        let redacted = self.taken.news();
        if !redacted.is_empty() {
            let Subject { correlation_id, authority, request, .. } = self.subject().clone();
            self.session.incident(Incident { correlation_id, authority, request, redacted });
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.tell();
        let Some(subject) = self.subject.take() else { return };
        // As a rule nobody else has it any more, so nothing is copied.
        let Subject { correlation_id, authority, request, .. } = Arc::unwrap_or_clone(subject);
        let status = Some(*self.status.get_mut()).filter(|status| *status > 0);
        self.session.finished(Finished {
            correlation_id,
            authority,
            request,
            status,
            sent: *self.sent.get_mut(),
            received: *self.received.get_mut(),
            took: self.began.elapsed(),
            redacted: self.taken.all(),
        });
    }
}
