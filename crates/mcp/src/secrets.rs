//! The toolset `secrets`: what agents may know of secrets, and what they may ask of a person.
//!
//! There is no tool that gives, sets or exports a value, none that takes a passphrase, and none that
//! overrides a denial or forges an approval; nor will there be.

mod arguments;
mod elicitation;
mod reply;
mod table;
#[cfg(test)]
mod tests;
mod waiting;

use futures_util::future::BoxFuture;
use keyless_core::{
    Error, SecretPath,
    approval::{Asked, RequestId},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::reply::{
    Described, Format, Listed, ListedSecrets, Liveness, Outcome, Page, PollStatus, Polled, Remedy,
    Requested, SURFACE_VERSION, State, Status, StatusKind, TrustLevel, UnlockMethod, Unlocked,
    Validated,
};
pub(crate) use self::{
    table::{Row as TableRow, TOOLS},
    waiting::ask,
};

/// What a tool may ask. Object-safe; the broker answers, or a client of it.
pub trait Secrets: Send + Sync + 'static {
    /// Asks one thing.
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Reply, Error>>;
}

/// The questions. No answer to any of them holds a value.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// One secret's card.
    Describe {
        /// Which.
        path: SecretPath,
    },
    /// The project's secrets.
    List {
        /// Only paths with this in them.
        path_contains: Option<String>,
        /// Only paths whose first segment this is.
        scope: Option<String>,
        /// Only secrets of this freshness.
        freshness: Option<Freshness>,
    },
    /// The way to the page where a person answers.
    Page {
        /// Which request.
        request_id: RequestId,
    },
    /// How a request stands.
    Poll {
        /// Which.
        request_id: RequestId,
    },
    /// Something of a person.
    Request {
        /// About which secret.
        path: SecretPath,
        /// What.
        asked: Asked,
        /// For how long, if that is shorter than usual.
        ttl_seconds: Option<u32>,
    },
    /// How the broker is.
    Status,
    /// Open the vault again with a code that is good for half a minute.
    Unlock {
        /// The code.
        totp: String,
        /// For how long.
        duration_seconds: Option<u64>,
    },
    /// Whether a secret's value is there and looks right.
    Validate {
        /// Whose.
        path: SecretPath,
        /// Whether its service is asked too.
        liveness: bool,
    },
}

impl Ask {
    /// Whether the answer depends on what the project declares.
    pub fn is_about_a_project(&self) -> bool {
        match self {
            Self::Describe { .. }
            | Self::List { .. }
            | Self::Request { .. }
            | Self::Validate { .. } => true,
            Self::Page { .. } | Self::Poll { .. } | Self::Status | Self::Unlock { .. } => false,
        }
    }
}

/// How long a secret still works, by its date alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Freshness {
    /// The date has passed.
    Expired,
    /// 14 days or fewer to go.
    Expiring,
    /// No date, or a later one.
    Registered,
}

crate::told::told!(Freshness);

/// The answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To [`Ask::Describe`].
    Described(Described),
    /// To [`Ask::List`], sorted by path.
    Listed(Vec<Listed>),
    /// To [`Ask::Page`].
    Page(Page),
    /// To [`Ask::Poll`].
    Polled(Polled),
    /// To [`Ask::Request`].
    Requested(Requested),
    /// To [`Ask::Status`].
    Status(Status),
    /// To [`Ask::Unlock`].
    Unlocked(Unlocked),
    /// To [`Ask::Validate`].
    Validated(Validated),
}

/// A tool's arguments as a question. Fails as the port would.
pub(crate) fn ask_of(tool: &str, arguments: Value) -> Option<Result<Ask, Error>> {
    let tool = TOOLS.iter().find(|known| known.name == tool)?;
    Some((tool.ask)(arguments))
}

impl Reply {
    /// The text of the answer: JSON as the spec has it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Described(reply) => text(reply),
            Self::Listed(rows) => text(rows),
            Self::Page(reply) => text(reply),
            Self::Polled(reply) => text(reply),
            Self::Requested(reply) => text(reply),
            Self::Status(reply) => text(reply),
            Self::Unlocked(reply) => text(reply),
            Self::Validated(reply) => text(reply),
        }
    }

    /// The answer as an object, which structured content has to be: a list stands in `secrets`, as [`ListedSecrets`] says.
    pub(crate) fn structured(&self) -> Value {
        match self {
            Self::Described(reply) => json(reply),
            Self::Listed(rows) => {
                Value::Object([("secrets".to_owned(), json(rows))].into_iter().collect())
            }
            Self::Page(reply) => json(reply),
            Self::Polled(reply) => json(reply),
            Self::Requested(reply) => json(reply),
            Self::Status(reply) => json(reply),
            Self::Unlocked(reply) => json(reply),
            Self::Validated(reply) => json(reply),
        }
    }
}

fn json(told: &impl crate::told::Told) -> Value {
    serde_json::to_value(told).expect("a reply is plain data")
}

/// Written at once: a list may have a thousand rows.
fn text(told: &impl crate::told::Told) -> String {
    serde_json::to_string(told).expect("a reply is plain data")
}
