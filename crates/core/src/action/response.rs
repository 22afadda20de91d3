//! What an agent is told of an action: NL chapter 7.

use std::fmt;

use jiff::Timestamp;
use keyless_rewrite::FoundAs;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{
    Code,
    nl_message::{NlFault, Shape, nl_status},
};

/// One action response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionResponse {
    /// The schema that it follows.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Always `1.0`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nl_version: String,
    /// The request's own name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// `act_…`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action_id: String,
    /// How it ended.
    pub status: Status,
    /// What came of it; nothing when it was denied or only checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ActionResult>,
    /// What was wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ActionFault>,
    /// The secrets that were resolved, as the agent wrote them; one that was written in several ways by its path.
    pub secrets_used: Vec<String>,
    /// Whether a value was taken out of the result.
    pub redacted: bool,
    /// How many times.
    pub redacted_count: u64,
    /// `aud_…`: the entry of the log.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub audit_ref: String,
    /// When what happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// The secrets that a dry run found usable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets_validated: Vec<String>,
    /// The grants that allow it, in a dry run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grant_refs: Vec<String>,
    /// What the agent should know beside: a deprecated alias, NUL bytes left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// How an action ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It may not be done.
    Denied,
    /// It may be done, and was not.
    DryRunOk,
    /// It failed.
    #[default]
    Error,
    /// It was done.
    Success,
    /// It took too long.
    Timeout,
}

/// What came of an action; what applies to its type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionResult {
    /// Standard output, sanitized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// Standard error, sanitized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// `base64` where one of the two is no UTF-8: then both are written so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<OutputEncoding>,
    /// The exit status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What a service answered, sanitized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Where a rendered file is for later actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_path: Option<String>,
    /// How many placeholders it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_count: Option<u64>,
    /// Its mode, `0600`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
}

/// How outputs that are no text are written (chapter 08, section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputEncoding {
    /// RFC 4648, section 4, padded.
    Base64,
}

/// What was wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionFault {
    /// Stable, for programs: chapter 02's word.
    pub code: String,
    /// Chapter 08's number for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nl_code: Option<String>,
    /// Our own word for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyless_code: Option<String>,
    /// What is wrong, in words for people.
    pub message: String,
    /// Particulars; no values.
    pub details: Map<String, Value>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// Where more is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc_url: Option<String>,
    /// Our own code, where the fault is ours: what an exit status follows.
    #[serde(skip)]
    pub cause: Option<Code>,
}

impl From<&NlFault> for ActionFault {
    fn from(fault: &NlFault) -> Self {
        let body = fault.body(Shape::Bare);
        let text = |key: &str| body[key].as_str().map(ToOwned::to_owned);
        Self {
            code: text("code").unwrap_or_default(),
            nl_code: text("nl_code"),
            keyless_code: text("keyless_code"),
            message: fault.error().message(),
            details: fault.details().clone(),
            suggestion: text("suggestion"),
            doc_url: text("doc_url"),
            cause: Some(fault.code()),
        }
    }
}

/// When what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// The request was read.
    #[serde(serialize_with = "milliseconds")]
    pub received_at: Timestamp,
    /// Its secrets were found and allowed.
    #[serde(serialize_with = "milliseconds")]
    pub resolved_at: Timestamp,
    /// It was begun.
    #[serde(serialize_with = "milliseconds")]
    pub executed_at: Timestamp,
    /// It was over.
    #[serde(serialize_with = "milliseconds")]
    pub completed_at: Timestamp,
    /// From the first to the last.
    pub total_ms: u64,
}

/// How a value that was found in an output was encoded, in NL's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Base64 and its relatives.
    Base64,
    /// Hexadecimal digits.
    Hex,
    /// As it is, or as a text form shows it.
    Plain,
    /// Percent escapes.
    Url,
}

impl From<FoundAs> for Encoding {
    fn from(form: FoundAs) -> Self {
        match form {
            FoundAs::Base64 => Self::Base64,
            FoundAs::Hex => Self::Hex,
            FoundAs::Percent => Self::Url,
            FoundAs::Plain => Self::Plain,
        }
    }
}

impl Status {
    /// How an action ends that a fault of this code stops.
    pub fn stopped_by(code: Code) -> Self {
        match code {
            Code::ActionTimeout => Self::Timeout,
            code if matches!(nl_status(code), 401 | 403 | 429) => Self::Denied,
            _ => Self::Error,
        }
    }
}

impl Timing {
    /// The times, and what lies between the first and the last.
    pub fn new(
        received: Timestamp,
        resolved: Timestamp,
        executed: Timestamp,
        now: Timestamp,
    ) -> Self {
        let total = now.duration_since(received).as_millis();
        Self {
            received_at: received,
            resolved_at: resolved,
            executed_at: executed,
            completed_at: now,
            total_ms: u64::try_from(total).unwrap_or(0),
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base64 => "base64",
            Self::Hex => "hex",
            Self::Plain => "plain",
            Self::Url => "url",
        })
    }
}

fn milliseconds<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
}
