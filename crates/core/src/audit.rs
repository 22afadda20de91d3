//! The audit log's entries and the chain that makes every change to them visible.
//!
//! A [`Draft`] says what happened; an [`Outline`] is its canonical text; the [`Chain`] numbers and
//! hashes that into a [`Pending`] entry; the store writes it and vouches for it with [`Durable`],
//! which gives a [`Recorded`] one. The text that was hashed is the text that is stored.
//! Values have no way in: a draft is made of paths, authorities, codes and the agent's own words.
//! Source: reference/nl.md, section 5 (NL-5.1 to 5.17) and C-28.

mod chain;
mod checkpoint;
mod keys;
mod metadata;
mod outline;
mod segment;
mod verify;

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    chain::{Chain, GENESIS, Sha256Of, portable_sha256, prefixed},
    checkpoint::Checkpoint,
    keys::{EntryKey, LogKeyId, LogKeys, Vouching},
    metadata::{Annotations, Mark, Noted},
    outline::Outline,
    segment::{Break, Segment},
    verify::{Mismatch, Stretch, Tampered, Verifier, verify},
};
use crate::{ActionType, Authority, Code, Location, SafeText, SecretPath, policy::Allowed};

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
    /// The party that acted.
    pub agent: Agent,
    /// The party that answers for the agent, `human:…`, `agent:nl://…` or `system:…`; absent in entries of a Keyless that
    /// did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegated_by: Option<String>,
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
    /// What is noted beside: see [`Annotations`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
    /// The hashes.
    pub chain: Links,
}

impl Entry {
    /// The text that is stored, byte for byte: the canonical form (RFC 8785) that the hashes are over, with them.
    pub fn as_stored(&self) -> String {
        // An object's members are sorted by their names.
        serde_json::to_value(self).expect("an entry is plain data").to_string()
    }
}

/// The party that acted, as an entry names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// `nl://keyless.dev/run/0.1.0` and the like.
    pub uri: String,
    /// The organization; `local` on one machine.
    pub organization_id: String,
    /// The session.
    pub session_id: String,
    /// The party that answers for it; an entry has that beside the agent.
    #[serde(skip)]
    pub delegated_by: String,
}

/// What was done: NL's actions, which is an open list (C-29), with ours beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// An agent was registered.
    AgentRegister,
    /// An agent got a new credential in place of its old one.
    AgentRotate,
    /// An agent's state changed: activated, suspended, revoked.
    AgentTransition,
    /// A person answered a request.
    Answer,
    /// An agent asked something of a person.
    Ask,
    /// Policy or a parser stopped a request.
    Blocked,
    /// The end of the log was signed.
    Checkpoint,
    /// The wall clock was put forward or back.
    ClockAdjustment,
    /// What keeps the wall clock in step went away or came back.
    ClockSync,
    /// Files with the operator's policy have changed under a broker or a proxy, and took force or did not.
    ConfigReload,
    /// A secret was added.
    Create,
    /// An action was handed to another agent.
    Delegate,
    /// A delegation token was accepted by its subject.
    DelegationAccept,
    /// A delegation token was issued.
    DelegationCreate,
    /// A delegation token was revoked.
    DelegationRevoke,
    /// A secret was removed.
    Delete,
    /// A use was denied.
    Denied,
    /// A connection or request at the egress door.
    Egress,
    /// A command was run with secrets.
    Exec,
    /// The secrets were copied out, encrypted to the operator's keys.
    Export,
    /// A grant was made.
    GrantCreate,
    /// A grant was revoked.
    GrantRevoke,
    /// Secrets were taken in from a copy.
    Import,
    /// Something that looks like an attack, or a value that had to be taken out of an output.
    Incident,
    /// A command was given a secret on its stdin.
    InjectStdin,
    /// A command was given secrets as files.
    InjectTempfile,
    /// An agent listed what it may use.
    List,
    /// The store was closed.
    Lock,
    /// The operator has seen that a part of the log is not what was written; the log goes on behind it.
    LogBreakAccepted,
    /// The log could not be written for a while; what its entries would have allowed did not happen.
    LogInterruption,
    /// A key of the log took the place of another; this is the first entry that it vouches for.
    LogKeyRotation,
    /// Closed parts of the log were removed, as the operator's retention says.
    LogRemoval,
    /// A part of the log was closed; this is its last entry.
    LogRotation,
    /// The log was asked for.
    Query,
    /// The answer to an agent's threat score changed.
    ResponseLevelChange,
    /// The operator looked at a value.
    Reveal,
    /// A secret got a new value.
    Rotate,
    /// A value that was replaced is not given any more.
    RotationCleanup,
    /// A value that was replaced is given with a warning from now on.
    RotationGraceExpired,
    /// A receiver was told of a rotation or a revocation, or would not be told.
    RotationNotification,
    /// A service's API was called for an agent.
    SdkProxy,
    /// An agent asked whether it may use a secret.
    Search,
    /// A secret was said to be compromised.
    SecretRevoke,
    /// A session ended.
    SessionEnd,
    /// A session began.
    SessionStart,
    /// A file was made with secrets.
    Template,
    /// The store was opened for a while.
    Unlock,
    /// A secret's metadata changed.
    Update,
    /// Values were read to be judged, and given to nobody.
    Validate,
    /// The log was verified.
    Verify,
}

/// The log's word for a type of action.
impl From<ActionType> for Action {
    fn from(kind: ActionType) -> Self {
        match kind {
            ActionType::Delegate => Self::Delegate,
            ActionType::Egress => Self::Egress,
            ActionType::Exec => Self::Exec,
            ActionType::InjectStdin => Self::InjectStdin,
            ActionType::InjectTempfile => Self::InjectTempfile,
            ActionType::SdkProxy => Self::SdkProxy,
            ActionType::Template => Self::Template,
        }
    }
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
    /// The action, `act_…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_id: Option<String>,
    /// The type of an action that was blocked or denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempted_action: Option<String>,
    /// The run of a broker that does or did the action: what one that is gone has left open, the next one closes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<String>,
    /// The agents through whose delegation it came, the origin first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delegation: Vec<String>,
    /// The status with which an action's command ended; -1 when it did not begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The grants that allowed it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
    /// What the agent says it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// How often a value was taken out of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redacted_count: Option<u64>,
    /// The rule that stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<String>,
    /// The secrets whose use was refused: named in the request, and not used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets_named: Vec<SecretPath>,
    /// Where the message came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ip: Option<String>,
    /// The agent's threat score after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threat_score: Option<u64>,
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
    /// Which rule decided: `to HOST`, `allow …`, `ask …` of the secret's own, or the setting's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// How many secrets were swapped in, each once or more often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swaps: Option<u64>,
    /// Bytes of the body to the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_received: Option<u64>,
    /// Bytes of the body to the destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<u64>,
    /// Milliseconds from the head to the last byte, or to the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The upstream's status, or the refusal's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Which request to a person it is about: all of what its name shows the first part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Why a delegation token was revoked, and with which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocation: Option<Box<Revoked>>,
    /// How a command was stopped, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Box<Stopped>>,
    /// `released` (a value, for a request that begins), `forwarded` (a request that is over),
    /// `tunnel` or `websocket` (opened), `closed` (a tunnel that is over), `token` (a grant, at its token
    /// URL), `check` (whether its service takes a value).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Words about this case, safe by type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// How a command was stopped whose time was over (NL, chapter 3). Its members stand in the order of the canonical form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopped {
    /// Why: `timeout`.
    pub exit_reason: String,
    /// Whether it was asked to end before it was made to.
    pub graceful_attempted: bool,
    /// Whether it ended when asked.
    pub graceful_exit: bool,
    /// How long that took, in milliseconds.
    pub graceful_wait_ms: u64,
    /// The signals that it was sent, by number.
    pub signals: Vec<i32>,
    /// The time that it had, in milliseconds.
    pub timeout_ms: u64,
}

/// Why a delegation token was revoked (NL, chapter 07, 3.8.1). Its members stand in the order of the canonical form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revoked {
    /// How far below the token that was meant: 0 for those that came of it, nothing for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cascade_depth: Option<u32>,
    /// Why: `cascade_from_parent` for what came of the token that was meant.
    pub reason: String,
    /// The token that was meant.
    pub root_revocation_id: String,
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
    /// HMAC-SHA256 of [`Links::hash`] by a key of the log (NL-5.13); absent where the writer had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hmac: Option<String>,
    /// Which key, `log-1` and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hmac_key_id: Option<String>,
    /// [`Links::entry_hash`] of the entry before, or [`GENESIS`].
    pub prev_entry_hash: String,
    /// SHA-256 over the whole entry in RFC 8785 form without this field (C-28); an entry of a Keyless of before leaves out the
    /// next as well.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub entry_hash: String,
    /// HMAC-SHA256 by the same key of the SHA-256 over the entry without this field and the one before, as text; so the key
    /// vouches for the whole entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_hmac: Option<String>,
}

/// What happened, before it has a number.
#[derive(Debug)]
pub struct Draft {
    /// When it happened.
    pub at: Timestamp,
    /// The party that acted.
    pub agent: Arc<Agent>,
    /// What was done.
    pub action: Action,
    /// What it was done to.
    pub target: Target,
    /// How it ended.
    pub outcome: Outcome,
    /// The secrets whose values were used.
    pub secrets_used: Vec<SecretPath>,
    /// Joins the entries of one request.
    pub correlation_id: String,
    /// Why not, if not.
    pub error_code: Option<Code>,
    /// The particulars.
    pub detail: Detail,
    /// What is noted beside; the log's own to say.
    pub metadata: Noted,
    /// The verdict that this entry records, if it is about one use.
    pub allowed: Option<Allowed>,
}

impl Draft {
    /// An entry without particulars: no secrets, no error, no verdict.
    pub fn new(
        at: Timestamp,
        agent: Arc<Agent>,
        action: Action,
        outcome: Outcome,
        target: Target,
        correlation_id: String,
    ) -> Self {
        Self {
            at,
            agent,
            action,
            target,
            outcome,
            secrets_used: Vec::new(),
            correlation_id,
            error_code: None,
            detail: Detail::default(),
            metadata: Noted::default(),
            allowed: None,
        }
    }
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
    /// Something else that has a name: an agent, a grant, a reference that means no secret here.
    Named(SafeText),
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
            Self::AgentRegister => "agent_register",
            Self::AgentRotate => "agent_rotate",
            Self::AgentTransition => "agent_transition",
            Self::Answer => "answer",
            Self::Ask => "ask",
            Self::Blocked => "blocked",
            Self::Checkpoint => "checkpoint",
            Self::ClockAdjustment => "clock_adjustment",
            Self::ClockSync => "clock_sync",
            Self::ConfigReload => "config_reload",
            Self::Create => "create",
            Self::Delegate => ActionType::Delegate.as_str(),
            Self::DelegationAccept => "delegation_accept",
            Self::DelegationCreate => "delegation_create",
            Self::DelegationRevoke => "delegation_revoke",
            Self::Delete => "delete",
            Self::Denied => "denied",
            Self::Egress => ActionType::Egress.as_str(),
            Self::Exec => ActionType::Exec.as_str(),
            Self::Export => "export",
            Self::GrantCreate => "grant_create",
            Self::GrantRevoke => "grant_revoke",
            Self::Import => "import",
            Self::Incident => "incident",
            Self::InjectStdin => ActionType::InjectStdin.as_str(),
            Self::InjectTempfile => ActionType::InjectTempfile.as_str(),
            Self::List => "list",
            Self::Lock => "lock",
            Self::LogBreakAccepted => "log_break_accepted",
            Self::LogInterruption => "log_interruption",
            Self::LogKeyRotation => "log_key_rotation",
            Self::LogRemoval => "log_removal",
            Self::LogRotation => "log_rotation",
            Self::Query => "query",
            Self::ResponseLevelChange => "response_level_change",
            Self::Reveal => "reveal",
            Self::Rotate => "rotate",
            Self::RotationCleanup => "rotation_cleanup",
            Self::RotationGraceExpired => "rotation_grace_expired",
            Self::RotationNotification => "rotation_notification",
            Self::SdkProxy => ActionType::SdkProxy.as_str(),
            Self::Search => "search",
            Self::SecretRevoke => "secret_revoke",
            Self::SessionEnd => "session_end",
            Self::SessionStart => "session_start",
            Self::Template => ActionType::Template.as_str(),
            Self::Unlock => "unlock",
            Self::Update => "update",
            Self::Validate => "validate",
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
