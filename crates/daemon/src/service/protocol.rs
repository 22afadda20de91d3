//! The messages of `agent.sock`: one JSON object a line, one answer per call.

use std::path::PathBuf;

use keyless_core::{Code, Error, SafeText};
use serde::{Deserialize, Serialize};

use crate::broker::{Inherited, Variable, Wanted};

/// The longest line, in bytes: an environment may have megabytes.
pub(super) const MAX_LINE: usize = 8 * 1024 * 1024;

/// What a client asks.
#[derive(Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Call {
    /// Close the store and end everything.
    Lock,
    /// Open a session that lives as long as this connection.
    OpenSession {
        /// The secrets that it may use.
        wanted: Wanted,
        /// The environment that the command would get.
        inherited: Vec<Inherited>,
    },
    /// Say how things are.
    Status,
}

/// What the broker answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(super) enum Answer {
    /// It could not be done.
    Error {
        /// The stable code.
        code: String,
        /// Words about this case.
        detail: String,
    },
    /// The store is closed.
    Locked,
    /// A session is open.
    Session(SessionOffer),
    /// How things are.
    Status(Status),
}

/// What a session's process needs; no values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOffer {
    /// The session's name.
    pub id: String,
    /// What the agent's environment gets.
    pub variables: Vec<Variable>,
    /// What the agent's tools have to trust, PEM.
    pub trust_pem: String,
    /// Where connections with a preamble go.
    pub socket: PathBuf,
    /// A proxy with the session's credential, for `--no-jail`.
    pub proxy_url: String,
    /// Files that hold values.
    pub conceal: Vec<PathBuf>,
    /// Variables that hold values.
    pub remove: Vec<String>,
}

/// How the broker is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// Seconds until it locks itself.
    pub locks_in_seconds: u64,
    /// Open sessions.
    pub sessions: u64,
}

impl Answer {
    pub(super) fn error(error: &Error) -> Self {
        Self::Error {
            code: error.code().as_str().to_owned(),
            detail: error.detail().as_str().to_owned(),
        }
    }

    /// The error that an [`Answer::Error`] told of.
    pub(super) fn into_error(code: &str, detail: &str) -> Error {
        let known = Code::ALL.iter().copied().find(|known| known.as_str() == code);
        Error::with(known.unwrap_or(Code::Internal), SafeText::default().as_they_wrote(detail))
    }
}
