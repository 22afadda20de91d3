//! What egress needs from the broker: values under permits, and a log. It can't name the vault.
//!
//! The broker implements this once per session; egress finds placeholders, asks `core` for a
//! verdict on each, and brings the verdicts here.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use keyless_core::{
    Allowed, Authority, Code, Error, Location, Permit, SafeText, SecretPath, SecretValue,
    audit::{Action, Outcome},
};

/// One session's way to values and to the audit log. Object-safe.
pub trait Broker: Send + Sync + 'static {
    /// Releases the values of `uses`, in their order, for one request. The entry about the first
    /// use of a secret toward an authority is durable before this returns; further uses within
    /// the permit's life are recorded with the next group commit.
    fn release<'a>(
        &'a self,
        request: &'a RequestInfo,
        uses: Vec<Allowed>,
    ) -> BoxFuture<'a, Result<Vec<Arc<Released>>, Error>>;

    /// Records something that needs no value: a tunnel, a refusal, a denial. Fails when the log
    /// can't be written; then nothing may pass.
    fn record(&self, event: Event) -> Result<(), Error>;
}

/// A value and the permit that opens it.
pub struct Released {
    value: SecretValue,
    permit: Permit,
}

/// What one request says of itself, for the log. Everything is as the agent sent it.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    /// Joins the entries of one request, `req-<uuid>`.
    pub correlation_id: String,
    /// Where it goes.
    pub authority: Authority,
    /// The method.
    pub method: String,
    /// The path without the query, placeholders and all.
    pub path: String,
    /// The parts of the request where the placeholders stand that are being exchanged.
    pub locations: Vec<Location>,
}

/// Something that happened without a value.
#[derive(Clone, Debug)]
pub struct Event {
    /// Joins the entries of one request.
    pub correlation_id: String,
    /// What was done.
    pub action: Action,
    /// How it ended.
    pub outcome: Outcome,
    /// Where it went, when that could be read.
    pub authority: Option<Authority>,
    /// The secrets that it was about.
    pub secrets: Vec<SecretPath>,
    /// Why not, if not.
    pub code: Option<Code>,
    /// Words about this case.
    pub note: SafeText,
    /// The method and path of the request, if there was one.
    pub request: Option<(String, String)>,
}

impl Released {
    /// Joins a value with its permit.
    pub fn new(value: SecretValue, permit: Permit) -> Self {
        Self { value, permit }
    }

    /// Whose value it is.
    pub fn path(&self) -> &SecretPath {
        self.value.path()
    }

    /// The value's bytes, while the permit lasts.
    pub fn open(&self, now: Timestamp) -> Result<&[u8], Error> {
        self.value.open_with_permit(&self.permit, now)
    }
}
