//! The messages of `agent.sock`: one JSON object a line, one answer per call.

use std::{ffi::OsString, path::PathBuf};

use keyless_core::{Error, SecretPath, approval::WantedDeploy};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{
    broker::{Inherited, SessionEnvironment, Wanted},
    deploys::{DeployBy, DeployWord},
    operator::counted,
    wiped_text,
};

/// The longest line, in bytes: an environment may have megabytes.
pub(super) const MAX_LINE: usize = 8 * 1024 * 1024;

/// What a broker says of a call that it does not know, as one of another version makes it.
pub(crate) const UNREADABLE_CALL: &str = "the call can't be read";

/// What a client asks.
#[derive(Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Call {
    /// Say that you are there. Whatever is answered says so, also that a broker of before does not know the call.
    Alive,
    /// Whether a plan of the pack may be carried out: a person may have to allow it.
    Deploy {
        /// What would carry it out.
        by: DeployBy,
        /// The plan.
        wanted: Box<WantedDeploy>,
    },
    /// Begin an agent's session, or go on with it.
    Hello {
        /// What an earlier greeting gave.
        ticket: Option<Ticket>,
    },
    /// Close the store and end everything.
    Lock,
    /// Open a session that lives as long as this connection.
    OpenSession {
        /// The secrets that it may use.
        wanted: Wanted,
        /// The environment that the command would get.
        inherited: Vec<Inherited>,
        /// The text of the project's manifest.
        #[serde(default)]
        manifest: Option<String>,
        /// What the operator hides from the command, as absolute paths; a broker that does not know the word opens no
        /// such session.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hide: Vec<OsString>,
    },
    /// Say what stands for secrets in the session whose socket this is.
    Placeholders {
        /// The secrets.
        of: Vec<SecretPath>,
    },
    /// Open a store that has locked itself.
    Reopen {
        /// A code of the operator's authenticator app.
        #[serde(with = "wiped_text")]
        code: Zeroizing<String>,
        /// For at most so long.
        seconds: Option<u64>,
    },
    /// Ask something of the toolset `secrets`, after a greeting.
    Secrets {
        /// The text of the project's manifest.
        manifest: Option<String>,
        /// What is asked.
        ask: keyless_mcp::Ask,
    },
    /// Say how things are.
    Status,
}

/// What the broker answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(super) enum Answer {
    /// The broker is there.
    Alive,
    /// How a deploy stands.
    Deploy {
        /// The word for it.
        word: DeployWord,
    },
    /// It could not be done.
    Error {
        /// The stable code.
        code: String,
        /// Words about this case.
        detail: String,
        /// After how many seconds another try may do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<u64>,
    },
    /// The session that the connection stands for.
    Hello {
        /// To be shown after a reconnection.
        ticket: Ticket,
    },
    /// The last word to a client that hangs up: the session was not over before.
    Lasted,
    /// The store is closed.
    Locked,
    /// What stands for the secrets, in their order.
    Placeholders {
        /// That.
        placeholders: Vec<String>,
    },
    /// The store is open again.
    Reopened {
        /// For so long.
        seconds: u64,
    },
    /// What the tool is told.
    Secrets {
        /// The answer.
        reply: Box<keyless_mcp::Reply>,
    },
    /// A session is open.
    Session(SessionOffer),
    /// How things are.
    Status(Status),
}

/// An agent's session, vouched for by the broker that gave it, so that only its holder goes on with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    /// The session's name.
    pub(crate) session: String,
    /// The voucher's seal over it, in hexadecimal.
    pub(crate) seal: String,
}

/// What a session's process needs; no values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOffer {
    /// The session's name.
    pub id: String,
    /// What its command is started with.
    pub environment: SessionEnvironment,
    /// Where connections with a preamble go.
    pub socket: PathBuf,
    /// Where the tools of this session ask: the one socket of Keyless that its jail shows.
    pub agent_socket: PathBuf,
    /// A proxy with the session's credential, for `--no-jail`.
    pub proxy_url: String,
    /// The broker's version; none from one that does not say it yet.
    #[serde(default)]
    pub version: Option<String>,
}

/// The version of this program. Broker and client may be of two, since an update leaves a running broker as it is.
pub(crate) const OURS: &str = env!("CARGO_PKG_VERSION");

/// What a broker of another version is called; `None` for one of ours.
pub(super) fn other_version(version: Option<&str>) -> Option<String> {
    match version {
        Some(OURS) => None,
        Some(other) => Some(format!("keyless {other}")),
        None => Some("an older keyless".to_owned()),
    }
}

impl SessionOffer {
    /// What its broker is called, if that is of another version than this program.
    pub fn other_version(&self) -> Option<String> {
        other_version(self.version.as_deref())
    }
}

/// How the broker is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// Seconds until it locks itself.
    pub locks_in_seconds: u64,
    /// Whether it has locked itself.
    #[serde(default)]
    pub locked: bool,
    /// Whether a code of the operator's authenticator app opens it again.
    #[serde(default)]
    pub takes_codes: bool,
    /// Open sessions.
    pub sessions: u64,
    /// Requests that wait for a person; unknown where the store did not say it in time, and to a broker that does not say
    /// it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<usize>,
    /// Why config.toml as it lies there is not in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_problem: Option<String>,
    /// Whether that is because nobody who has the factor has agreed to it yet.
    #[serde(default)]
    pub config_unagreed: bool,
    /// Why the end of the log could not be signed when that was due last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_problem: Option<String>,
    /// The faults of the files in the operator's `providers/` that can't be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provider_problems: Vec<String>,
    /// Its version; none from one that does not say it yet.
    #[serde(default)]
    pub version: Option<String>,
    /// The folder of its store; none from one that does not say it yet.
    #[serde(default)]
    pub serves: Option<String>,
}

impl Status {
    /// What to do for config.toml to come into force.
    pub fn config_step(&self) -> &'static str {
        if self.config_unagreed {
            "keyless unlock shows what is new in it and asks for your word"
        } else {
            "mend the file; it is taken up within a second"
        }
    }

    /// What the broker is called, if it is of another version than this program.
    pub fn other_version(&self) -> Option<String> {
        other_version(self.version.as_deref())
    }

    /// How many sessions are open, in words.
    pub fn sessions_in_words(&self) -> String {
        counted(usize::try_from(self.sessions).unwrap_or(usize::MAX), "session")
    }
}

/// What a tool is told, as it stands in the line of an [`Answer`].
#[derive(Deserialize)]
struct Told {
    #[serde(rename = "answer")]
    _answer: ToldWord,
    reply: Box<keyless_mcp::Reply>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ToldWord {
    Secrets,
}

impl Answer {
    /// Reads a line. A tool's answer may have a thousand rows, and is read as it comes: of an enum with its kind in a member
    /// everything is kept once before it is read.
    pub(super) fn read(line: &[u8]) -> serde_json::Result<Self> {
        match serde_json::from_slice(line) {
            Ok(Told { reply, .. }) => Ok(Self::Secrets { reply }),
            Err(_) => serde_json::from_slice(line),
        }
    }

    pub(super) fn error(error: &Error) -> Self {
        Self::Error {
            code: error.code().as_str().to_owned(),
            detail: error.detail().as_str().to_owned(),
            retry_after: error.retry_after(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_answer_is_read_a_tools_without_the_detour() {
        let row = json!({
            "path": "team/api/key", "status": "registered", "expires_at": null, "source_name": null,
            "capabilities_hint": "read",
        });
        let told = json!({ "answer": "secrets", "reply": { "listed": [row] } });
        let ticket = json!({ "session": "m-1", "seal": "00" });
        let refused = json!({ "answer": "error", "code": "locked", "detail": "" });
        for line in [told.clone(), json!({ "answer": "hello", "ticket": ticket }), refused] {
            let answer = Answer::read(line.to_string().as_bytes()).unwrap();
            assert_eq!(serde_json::to_value(&answer).unwrap(), line);
        }
        assert!(serde_json::from_value::<Told>(told).is_ok());
        assert!(Answer::read(br#"{"answer":"secrets","reply":{"listed":[{}]}}"#).is_err());
    }
}
