//! The audit log's entries and the chain that makes every change to them visible.
//!
//! A [`Draft`] says what happened; the [`Chain`] numbers and hashes it into a [`Pending`] entry;
//! the store writes that and vouches for it with [`Durable`], which gives a [`Recorded`] one.
//! Values have no way in: a draft is made of paths, authorities, codes and the agent's own words.
//! Source: reference/nl.md, section 5 (NL-5.1 to 5.17) and C-28.

mod chain;
mod verify;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::{
    chain::{Chain, GENESIS},
    verify::{Tampered, Verifier, verify},
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
    /// The upstream's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// `forwarded`, `tunnel` or `websocket`.
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
    /// A UUIDv7, drawn by the caller.
    pub entry_id: String,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub agent: Agent,
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
    entry: Entry,
    allowed: Option<Allowed>,
}

/// Vouches that a batch of entries is on disk. Only `store`, after its commit, may make one.
#[derive(Debug)]
pub struct Durable(());

/// An entry that is on disk.
#[derive(Debug)]
pub struct Recorded {
    entry: Entry,
    allowed: Option<Allowed>,
}

impl Target {
    fn to_text(&self) -> String {
        match self {
            Self::Authority(authority) => authority.to_string(),
            Self::Connection => "connection".to_owned(),
            Self::Log => "audit".to_owned(),
            Self::Secrets(paths) => {
                paths.iter().map(SecretPath::as_str).collect::<Vec<_>>().join(",")
            }
            Self::Session => "session".to_owned(),
        }
    }
}

impl Pending {
    /// The entry, for the store to write.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Turns it into a recorded one.
    pub fn recorded(self, _proof: &Durable) -> Recorded {
        Recorded { entry: self.entry, allowed: self.allowed }
    }
}

impl Durable {
    /// For `store`, right after the commit that made the entries durable.
    pub fn after_commit() -> Self {
        Self(())
    }
}

impl Recorded {
    /// The entry.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    pub(crate) fn into_allowed(self) -> Option<Allowed> {
        self.allowed
    }
}
