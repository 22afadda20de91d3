//! What an operator's log collector is told while a proxy runs. No values, no queries.
//!
//! The words and the place where they go are the command line's; what there is to say is here.

use std::sync::Arc;

use keyless_core::Error;

/// One thing that happened.
#[derive(Clone, Copy, Debug)]
pub enum Note<'a> {
    /// What is under way may end, nothing begins.
    Draining {
        /// What is under way.
        in_flight: usize,
    },
    /// The drain is over.
    Drained {
        /// What did not end in time and was cut.
        cut: usize,
    },
    /// Something was refused, or failed.
    Refused {
        /// Where it went, what it was.
        request: &'a RequestNote,
        /// Why not.
        error: &'a Error,
    },
    /// Changed files are in force.
    Reloaded {
        /// How many secrets there are now.
        secrets: usize,
    },
    /// Changed files can't be used; what was in force still is.
    ReloadRefused {
        /// Why they can't be used.
        error: &'a Error,
    },
    /// A request or tunnel is over.
    Request(&'a RequestNote),
    /// Something is not as it should be, but usable.
    Warning {
        /// What is not as it should be.
        text: &'a str,
    },
}

/// One request or tunnel, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct RequestNote {
    /// Joins it with the audit log, `req-<uuid>`.
    pub correlation_id: String,
    /// The session.
    pub session: String,
    /// `host:port`.
    pub authority: Option<String>,
    /// The method.
    pub method: Option<String>,
    /// The path without its query, as the agent sent it.
    pub path: Option<String>,
    /// The destination's status, or the refusal's.
    pub status: Option<u16>,
    /// Bytes from the agent.
    pub sent: Option<u64>,
    /// Bytes to the agent.
    pub received: Option<u64>,
    /// From the head to the last byte, or to the refusal.
    pub milliseconds: Option<u64>,
}

/// Where notes go. Cheap to clone.
#[derive(Clone)]
pub struct Notes {
    write: Option<Arc<Write>>,
    of_requests: bool,
}

type Write = dyn Fn(Note<'_>) + Send + Sync;

impl Notes {
    /// Hands every note to `write`, which must not block for long.
    pub fn new(write: impl Fn(Note<'_>) + Send + Sync + 'static) -> Self {
        Self { write: Some(Arc::new(write)), of_requests: true }
    }

    /// Hands notes to `write` as [`Notes::new`] does, but for those about single requests, which
    /// are then not made at all.
    pub fn but_requests(write: impl Fn(Note<'_>) + Send + Sync + 'static) -> Self {
        Self { of_requests: false, ..Self::new(write) }
    }

    /// Nobody listens.
    pub fn none() -> Self {
        Self { write: None, of_requests: false }
    }

    /// Whether anybody wants to know of single requests: [`Note::Request`] and [`Note::Refused`].
    pub(crate) fn tell_of_requests(&self) -> bool {
        self.of_requests
    }

    pub(crate) fn write(&self, note: Note<'_>) {
        if let Some(write) = &self.write {
            write(note);
        }
    }
}
