//! Who else wants to know what a session does, beside the log: counters, and the operator's collector.

use std::sync::Arc;

use keyless_core::Error;
use keyless_egress::{Event, Finished};

use crate::{
    metrics::Metrics,
    notes::{Note, Notes, RequestNote},
    session_broker::milliseconds,
    traces::Traces,
};

/// Counters and notes of one process.
#[derive(Clone)]
pub(crate) struct Telemetry {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) notes: Notes,
    pub(crate) traces: Option<Traces>,
}

impl Telemetry {
    /// A request or tunnel of `session` is over.
    pub(crate) fn finished(&self, session: &str, finished: &Finished) {
        self.metrics.finished(finished);
        if let Some(traces) = &self.traces {
            traces.finished(session, finished);
        }
        if !self.notes.tell_of_requests() {
            return;
        }
        let (method, path) = finished.request.clone().unzip();
        self.notes.write(Note::Request(&RequestNote {
            correlation_id: finished.correlation_id.clone(),
            session: session.to_owned(),
            authority: finished.authority.as_ref().map(ToString::to_string),
            method,
            path,
            status: finished.status,
            sent: Some(finished.sent),
            received: Some(finished.received),
            milliseconds: Some(milliseconds(finished.took)),
        }));
    }

    /// Something of `session` was refused, if `event` says so.
    pub(crate) fn refused(&self, session: &str, event: &Event) {
        let Some(code) = event.code else { return };
        self.metrics.refused(code);
        if let Some(traces) = &self.traces {
            traces.refused(session, event, code);
        }
        if !self.notes.tell_of_requests() {
            return;
        }
        let (method, path) = event.request.clone().unzip();
        let request = RequestNote {
            correlation_id: event.correlation_id.clone(),
            session: session.to_owned(),
            authority: event.authority.as_ref().map(ToString::to_string),
            method,
            path,
            status: event.so_far.and_then(|so_far| so_far.status),
            sent: event.so_far.map(|so_far| so_far.sent),
            received: event.so_far.map(|so_far| so_far.received),
            milliseconds: event.so_far.map(|so_far| milliseconds(so_far.took)),
        };
        let error = Error::with(code, event.note.clone());
        self.notes.write(Note::Refused { request: &request, error: &error });
    }
}
