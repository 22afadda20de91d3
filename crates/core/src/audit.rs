//! The audit log's entries and the chain that makes every change to them visible.
//!
//! A [`Draft`] says what happened; an [`Outline`] is its canonical text; the [`Chain`] numbers and
//! hashes that into a [`Pending`] entry; the store writes it and vouches for it with [`Durable`],
//! which gives a [`Recorded`] one. The text that was hashed is the text that is stored.
//! Values have no way in: a draft is made of paths, authorities, codes and the agent's own words.
//! Source: reference/nl.md, section 5 (NL-5.1 to 5.17) and C-28.

mod chain;
mod outline;
mod verify;

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::{
    chain::{Chain, GENESIS, Sha256Of, portable_sha256},
    outline::Outline,
    verify::{Stretch, Tampered, Verifier, verify},
};
use crate::{Authority, Code, Location, SecretPath, policy::Allowed};

/// The NL version that entries follow.
pub const NL_VERSION: &str = "1.0";

/// One line of the log, in NL's own field names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// A UUIDv7.
    pub entry_id: String,
    /// From 1, without gaps.
    pub sequence: u64,
    /// UTC with milliseconds, `2026-02-08T10:30:00.000Z`.
    pub timestamp: String,
    /// The version of the protocol, [`NL_VERSION`].
    pub nl_version: String,
    /// Who acted.
    pub agent: Agent,
    /// What was done.
    pub action: Action,
    /// To what: paths or an authority, several joined by `,`.
    pub target: String,
    /// How it ended.
    pub result: Outcome,
    /// The paths of the secrets whose values were used.
    pub secrets_used: Vec<SecretPath>,
    /// Joins the entries of one request, `req-<uuid>`.
    pub correlation_id: String,
    /// Always `keyless`.
    pub platform: String,
    /// The stable code, when something was refused or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The particulars.
    #[serde(default)]
    pub detail: Detail,
    /// The hashes.
    pub chain: Links,
}

/// Who acted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// `nl://keyless.dev/run/0.1.0` and the like.
    pub uri: String,
    /// The organization; `local` on one machine.
    pub organization_id: String,
    /// The session.
    pub session_id: String,
}

/// What was done: NL's actions that Keyless records, with `egress` as ours (design.md, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A person answered a request.
    Answer,
    /// An agent asked something of a person.
    Ask,
    /// Policy or a parser stopped a request.
    Blocked,
    /// A secret was added.
    Create,
    /// A secret was removed.
    Delete,
    /// A use was denied.
    Denied,
    /// A connection or request at the egress door.
    Egress,
    /// A secret got a new value.
    Rotate,
    /// A session ended.
    SessionEnd,
    /// A session began.
    SessionStart,
    /// A secret's metadata changed.
    Update,
    /// The log was verified.
    Verify,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Stopped before it was tried.
    Blocked,
    /// Policy said no.
    Denied,
    /// It failed.
    Error,
    /// It was done.
    Success,
    /// It took too long.
    Timeout,
}

/// The particulars of an entry; only what applies is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Detail {
    /// Where the request went, `host:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The path as the agent sent it, placeholders and all, without the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The parts of the request in which something was swapped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// How many secrets were swapped in, each once or more often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swaps: Option<u64>,
    /// Bytes of the body to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<u64>,
    /// Bytes of the body to the destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<u64>,
    /// Milliseconds from the head to the last byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The upstream's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// `released` (a value, for a request that begins), `forwarded` (a request that is over),
    /// `tunnel` or `websocket` (opened), `closed` (a tunnel that is over).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Words about this case, safe by type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The hashes that join an entry to the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// How the hashes are made; `sha256`.
    pub hash_algorithm: String,
    /// [`Links::hash`] of the entry before, or [`GENESIS`].
    pub prev_hash: String,
    /// NL's hash over seven fields, so that foreign verifiers accept the log.
    pub hash: String,
    /// [`Links::entry_hash`] of the entry before, or [`GENESIS`].
    pub prev_entry_hash: String,
    /// SHA-256 over the whole entry in RFC 8785 form without this field (C-28).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub entry_hash: String,
}

/// What happened, before it has a number.
#[derive(Debug)]
pub struct Draft {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub agent: Arc<Agent>,
    /// What.
    pub action: Action,
    /// To what.
    pub target: Target,
    /// How it ended.
    pub outcome: Outcome,
    /// Whose values were used.
    pub secrets_used: Vec<SecretPath>,
    /// Joins the entries of one request.
    pub correlation_id: String,
    /// Why not, if not.
    pub error_code: Option<Code>,
    /// The particulars.
    pub detail: Detail,
    /// The verdict that this entry records, if it is about one use.
    pub allowed: Option<Allowed>,
}

/// What an entry is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A host and port.
    Authority(Authority),
    /// A connection whose destination could not be read.
    Connection,
    /// The log itself.
    Log,
    /// One or several secrets.
    Secrets(Vec<SecretPath>),
    /// The session itself.
    Session,
}

/// An entry that has its place in the chain but is not yet durable.
#[derive(Debug)]
pub struct Pending {
    outline: Outline,
    sequence: u64,
    text: String,
    entry_hash: String,
}

/// Vouches that a batch of entries is on disk. Only `store`, after its commit, may make one.
#[derive(Debug)]
pub struct Durable(());

/// An entry that is on disk.
#[derive(Debug)]
pub struct Recorded {
    sequence: u64,
    allowed: Option<Allowed>,
}

impl Action {
    /// NL's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Ask => "ask",
            Self::Blocked => "blocked",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Denied => "denied",
            Self::Egress => "egress",
            Self::Rotate => "rotate",
            Self::SessionEnd => "session_end",
            Self::SessionStart => "session_start",
            Self::Update => "update",
            Self::Verify => "verify",
        }
    }
}

impl Outcome {
    /// NL's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Denied => "denied",
            Self::Error => "error",
            Self::Success => "success",
            Self::Timeout => "timeout",
        }
    }
}

impl Pending {
    /// Its number.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Its whole hash.
    pub fn entry_hash(&self) -> &str {
        &self.entry_hash
    }

    /// The entry as it is to be stored: RFC 8785, its own hash included.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Takes the text out, to write it.
    pub fn take_text(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Turns it into a recorded one.
    pub fn recorded(self, _proof: &Durable) -> Recorded {
        Recorded { sequence: self.sequence, allowed: self.outline.allowed }
    }

    /// Gives the place up, after a write that failed: the outline may get another one. It no
    /// longer allows anything, since whoever waited was told that it failed.
    pub fn withdrawn(self) -> Outline {
        let mut outline = self.outline;
        outline.allowed = None;
        outline
    }
}

impl Durable {
    /// For `store`, right after the commit that made the entries durable.
    pub fn after_commit() -> Self {
        Self(())
    }
}

impl Recorded {
    /// The entry's number.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn into_allowed(self) -> Option<Allowed> {
        self.allowed
    }
}
