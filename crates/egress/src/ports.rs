//! What egress needs from the broker: values under permits, and a log. It can't name the vault.
//!
//! The broker implements this once per session; egress finds placeholders, asks `core` for a
//! verdict on each, and brings the verdicts here.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use keyless_core::{
    Allowed, Authority, Code, Consent, Error, Held, Location, Permit, Placeholder, SafeText,
    SecretPath, SecretValue, Uptime,
    action::Encoding,
    audit::{Action, Outcome},
};
use zeroize::Zeroizing;

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

    /// Asks the operator about one use that waits for their word, and holds the request until they
    /// have said yes. Fails with the reason when they say no, or nothing in time; as it stands,
    /// since there is nobody to ask, as in a fleet's sidecar.
    fn ask<'a>(
        &'a self,
        _request: &'a RequestInfo,
        held: &'a Held,
    ) -> BoxFuture<'a, Result<Consent, Error>> {
        let words = SafeText::words("it needs an approval, and nobody can be asked here: ");
        let error = Error::with(Code::RuleDenied, words.and(held.path()));
        Box::pin(async move { Err(error) })
    }

    /// Keeps a token that a server has just minted. Gives what stands for it from now on, at once, since whoever waits for
    /// something may be gone by then; and what resolves when that is on record.
    fn keep(&self, minted: Minted) -> Result<(Kept, Recording<'_>), Error> {
        let words = SafeText::words("nobody keeps tokens of ").and(&minted.authority);
        Err(Error::with(Code::TokenUnavailable, words))
    }

    /// An upstream refused requests since `since` that had tokens of these secrets. Whether another
    /// token may be had now, so that a second try makes sense.
    fn renew<'a>(
        &'a self,
        _secrets: Vec<SecretPath>,
        _authority: &'a Authority,
        _since: Instant,
    ) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }

    /// Whether what a request will come to can be put on record. Fails when the log can't be written; then none may begin.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Records something that needs no value: a tunnel, a refusal, a denial. Fails when the log
    /// can't be written; then nothing may pass.
    fn record(&self, event: Event) -> Result<(), Error>;

    /// Takes note that values were taken out of what comes back, as soon as they were. Nothing waits for it.
    fn incident(&self, incident: Incident);

    /// Takes note of what a request or tunnel came to. Nothing waits for it.
    fn finished(&self, finished: Finished);
}

/// An entry on its way to the log.
pub type Recording<'a> = BoxFuture<'a, Result<(), Error>>;

/// A value and the permit that opens it.
pub struct Released {
    value: SecretValue,
    permit: Permit,
    clock: fn() -> Uptime,
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
    /// Which words of its secret's rule let each use pass, in their order.
    pub rules: Vec<String>,
}

/// What stands for a minted token. A session has room for so many; then the oldest one's room is used again, under
/// another name and placeholder, so that the old placeholder stands for nothing and never for another's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The secret of the session's start that this room was made for, by whose rule the token is used.
    pub slot: SecretPath,
    /// The token's own path and placeholder, unless it is the first in its room.
    pub younger: Option<(SecretPath, Placeholder)>,
}

impl Kept {
    /// The token's path.
    pub fn path(&self) -> &SecretPath {
        self.younger.as_ref().map_or(&self.slot, |(path, _)| path)
    }
}

/// A token that a server has just minted.
pub struct Minted {
    /// The secrets whose settings say that it is to be sealed: it belongs to the first that its request has used, or else to
    /// the first. Never empty.
    pub parents: Vec<SecretPath>,
    /// Joins the entries of one request.
    pub correlation_id: String,
    /// Who minted it.
    pub authority: Authority,
    /// The member of the answer: `access_token` and the like.
    pub kind: String,
    /// The token.
    pub value: Zeroizing<Vec<u8>>,
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
    /// The secrets that it named and could not use.
    pub named: Vec<SecretPath>,
    /// Why not, if not.
    pub code: Option<Code>,
    /// Words about this case.
    pub note: SafeText,
    /// The method and path of the request, if there was one.
    pub request: Option<(String, String)>,
    /// What it had come to, of a request or tunnel that is refused.
    pub so_far: Option<SoFar>,
}

/// What a request or tunnel had come to when it was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoFar {
    /// What the agent was answered with; nothing over a tunnel.
    pub status: Option<u16>,
    /// Bytes of the body to the destination.
    pub sent: u64,
    /// Bytes of the body to the agent, a refusal's own among them.
    pub received: u64,
    /// From the head to here.
    pub took: Duration,
}

/// What one request or tunnel came to, when its last byte has passed.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// Joins it with the other entries about it.
    pub correlation_id: String,
    /// Where it went.
    pub authority: Option<Authority>,
    /// The method and path of the request; a tunnel has none.
    pub request: Option<(String, String)>,
    /// The destination's status; nothing when there was no answer.
    pub status: Option<u16>,
    /// Bytes of the body to the destination.
    pub sent: u64,
    /// Bytes of the body to the agent.
    pub received: u64,
    /// From the head to the last byte.
    pub took: Duration,
    /// What was taken out of what came back.
    pub redacted: Vec<Redacted>,
}

/// Values that a server has sent back, and that were taken out. Of one request or tunnel there are several where more
/// secrets, or other encodings, come later.
#[derive(Clone, Debug)]
pub struct Incident {
    /// Joins it with the other entries about it.
    pub correlation_id: String,
    /// Who sent them.
    pub authority: Option<Authority>,
    /// The method and path of the request; a tunnel has none.
    pub request: Option<(String, String)>,
    /// What was taken out until then.
    pub redacted: Vec<Redacted>,
}

/// How often a secret's value was taken out of what came back, in one encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted {
    /// Whose value it is.
    pub secret: SecretPath,
    /// How it was written.
    pub encoding: Encoding,
    /// How often.
    pub count: u64,
}

impl Released {
    /// Joins a value with its permit, and with the clock that this is measured by.
    pub fn new(value: SecretValue, permit: Permit, clock: fn() -> Uptime) -> Self {
        Self { value, permit, clock }
    }

    /// Whose value it is.
    pub fn path(&self) -> &SecretPath {
        self.value.path()
    }

    /// The value's bytes, to go to `authority` and nowhere else, while the permit lasts.
    /// [`Code::Internal`] when they were released for something else.
    pub fn open_toward(&self, authority: &Authority) -> Result<&[u8], Error> {
        if !self.permit.is_toward(authority) {
            let detail = SafeText::words("it was not released to go to ").and(authority);
            return Err(Error::with(Code::Internal, detail));
        }
        self.value.open_with_permit(&self.permit, (self.clock)())
    }
}
