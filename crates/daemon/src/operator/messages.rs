//! The messages of `operator.sock`: one answer per call, each a JSON object; after `requests` each of them follows in a
//! message of its own, so that none grows with what agents ask.
//!
//! The first are lines: `secure` opens the channel, in which all others go. A value is never in one of these: after `send` it
//! follows as a message of its own, into a buffer that is wiped.

use keyless_core::{SecretPath, approval::RequestId};
use keyless_vault::Metadata;
use serde::{Deserialize, Serialize};

use super::{
    given::{Given, Occasion},
    shown::{Answer, Shown},
};
use crate::{liveness::Checked, session_book::SessionRow};

/// The longest call, in bytes.
pub(super) const MAX_LINE: usize = 1024 * 1024;
/// The longest answer, in bytes: a request has what its agent sent, and what is known of each of its secrets.
pub(super) const MAX_ANSWER: usize = 16 * MAX_LINE;

/// What the operator's program asks.
#[derive(Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Call {
    /// Answer a request.
    Answer {
        /// The request.
        id: RequestId,
        /// What is said.
        answer: Answer,
        /// How many bytes of a value will follow.
        value_bytes: Option<usize>,
    },
    /// Put other metadata in place of what was shown.
    Change {
        /// The secret whose metadata it is.
        path: SecretPath,
        /// As it was shown.
        before: Box<Metadata>,
        /// As it is to be.
        after: Box<Metadata>,
    },
    /// Ask a secret's service whether it takes its value.
    Check {
        /// The secret.
        path: SecretPath,
    },
    /// End a session, and what was approved for it.
    EndSession {
        /// The session's id.
        id: String,
    },
    /// Give a secret a value that no agent has asked for.
    Give {
        /// The secret.
        path: SecretPath,
        /// What it replaces.
        occasion: Occasion,
        /// What goes with it.
        given: Given,
        /// How many bytes of it will follow.
        value_bytes: usize,
    },
    /// Give a link to the page, where the factor is asked for.
    OpenPage,
    /// Show what waits.
    Pending,
    /// Open the channel, which proves the factor.
    Secure {
        /// The first word of its handshake, in hexadecimal.
        word: String,
    },
    /// Show the sessions that are open.
    Sessions,
    /// Show what still has an effect.
    Standing,
    /// Revoke an approval, or lift a denial.
    TakeBack {
        /// The request with that answer.
        id: RequestId,
    },
    /// Show one request that waits.
    Waiting {
        /// The request.
        id: RequestId,
    },
}

/// What the broker answers.
#[derive(Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub(super) enum Reply {
    /// What its service says.
    Checked {
        /// The answer.
        checked: Checked,
    },
    /// It is done.
    Done {
        /// The request as it now is.
        request: Box<Shown>,
    },
    /// The session is over.
    Ended,
    /// It could not be done.
    Error {
        /// The stable code.
        code: String,
        /// Words about this case.
        detail: String,
    },
    /// The secret is as it was wanted.
    Kept,
    /// A link to the page, good for one use within a short while.
    Page {
        /// On this machine.
        url: String,
        /// How long it is good for.
        seconds: u64,
    },
    /// Requests follow, oldest first.
    Requests {
        /// How many requests follow.
        count: usize,
    },
    /// What follows goes in the channel.
    Secured {
        /// The second word of its handshake, in hexadecimal.
        word: String,
    },
    /// Send the value now.
    Send,
    /// Sessions.
    Sessions {
        /// The newest first.
        sessions: Vec<SessionRow>,
    },
}
