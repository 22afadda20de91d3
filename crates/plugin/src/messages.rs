//! The messages, protocol 1.1.
//!
//! A request names its method and an id; an answer echoes the id and has `result` or `error`. What
//! a `result` is follows from the method that was asked, never from its shape. Beside the devboy
//! 1.1 protocol stand `found` and the statuses `locked` and `not-installed`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use zeroize::Zeroizing;

/// What both ends speak. A plugin of another major version is refused.
pub const PROTOCOL_VERSION: &str = "1.1";

/// Values can be fetched.
pub const READ: u32 = 1;
/// References can be listed.
pub const LIST: u32 = 2;
/// References can be checked.
pub const VALIDATE: u32 = 4;
/// Values can be put and deleted.
pub const WRITE: u32 = 8;
/// A put keeps the versions before it.
pub const ROTATE: u32 = 16;
/// Fetching may ask a person.
pub const BIOMETRIC_PROMPT: u32 = 32;
/// Fetching is on record at the source.
pub const AUDIT_LOGGED: u32 = 64;

/// Text that may be a value: wiped, and never printed.
pub struct Text(Zeroizing<String>);

/// A value that was found.
#[derive(Debug)]
pub struct Found {
    /// The value.
    pub value: Text,
    /// How long it may be kept, in seconds; 0 means not at all, none means as long as you like.
    pub lease_seconds: Option<u64>,
}

/// How a source is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Availability {
    /// The state.
    pub status: Status,
    /// Words for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Whether a source can be asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The source can be asked.
    Available,
    /// A person has to open it first.
    Locked,
    /// It lacks a credential of its own.
    NeedsCredential,
    /// The program behind it is not on this machine.
    NotInstalled,
    /// It can't, for now.
    Unavailable,
}

/// One thing that a source keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What `get` takes.
    pub reference: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
}

/// Why a source did not do it. The words are for the operator; keep values out of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Fault {
    /// The reference is not one.
    #[error("the reference {reference:?} is no good: {reason}")]
    BadReference {
        /// The reference as it was asked for.
        reference: String,
        /// Why it is no reference.
        reason: String,
    },
    /// It lacks a credential of its own.
    #[error("it needs a credential: {detail}")]
    NeedsCredential {
        /// The credential that it lacks.
        detail: String,
    },
    /// Anything else.
    #[error("{detail}")]
    Other {
        /// What went wrong.
        detail: String,
    },
    /// It can't, for now.
    #[error("it is not available: {detail}")]
    Unavailable {
        /// Why it can't.
        detail: String,
    },
    /// The source can't do that at all.
    #[error("it can't {capability}")]
    UnsupportedCapability {
        /// What was asked.
        capability: String,
    },
}

/// What is asked. `P` is the method's parameters.
#[derive(Serialize, Deserialize)]
pub(crate) struct Request<P> {
    pub(crate) jsonrpc: Version,
    pub(crate) id: u64,
    pub(crate) method: String,
    pub(crate) params: P,
}

/// `"2.0"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Version {
    #[default]
    #[serde(rename = "2.0")]
    Two,
}

/// What is answered, its result still unread.
#[derive(Deserialize)]
pub(crate) struct Response<'a> {
    pub(crate) id: u64,
    #[serde(borrow, default)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) error: Option<Fault>,
}

/// The author's answer.
#[derive(Serialize)]
pub(crate) struct Answer<R> {
    pub(crate) jsonrpc: Version,
    pub(crate) id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Fault>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Init<C> {
    pub(crate) source_name: String,
    pub(crate) config: C,
    pub(crate) protocol_version: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct InitReply {
    pub(crate) source_name: String,
    pub(crate) capabilities_bits: u32,
    #[serde(default)]
    pub(crate) plugin_version: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Nothing {}

#[derive(Serialize, Deserialize)]
pub(crate) struct Reference {
    pub(crate) reference: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct PutParams {
    pub(crate) reference: String,
    pub(crate) value: Text,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct GetReply {
    #[serde(default = "yes")]
    pub(crate) found: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lease_seconds: Option<u64>,
}

/// A get reply that is whole: a value, or the word that there is none.
#[derive(Deserialize)]
#[serde(try_from = "GetReply")]
pub(crate) struct Got(pub(crate) Option<Found>);

#[derive(Serialize, Deserialize)]
pub(crate) struct ListReply {
    pub(crate) entries: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ValidateReply {
    pub(crate) ok: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct PutReply {
    pub(crate) replaced: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct DeleteReply {
    pub(crate) existed: bool,
}

fn yes() -> bool {
    true
}

impl TryFrom<GetReply> for Got {
    type Error = &'static str;

    fn try_from(reply: GetReply) -> Result<Self, Self::Error> {
        match reply {
            GetReply { found: false, .. } => Ok(Self(None)),
            GetReply { value: Some(value), lease_seconds, .. } => {
                Ok(Self(Some(Found { value, lease_seconds })))
            }
            GetReply { .. } => Err("a value that was found is missing"),
        }
    }
}

impl Text {
    /// Takes the text over.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text. Name it in no log.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The text's bytes, moved out; the caller wipes them.
    pub fn into_bytes(mut self) -> Vec<u8> {
        std::mem::take(&mut *self.0).into_bytes()
    }
}

impl Found {
    /// A value that may be kept as long as the asker likes.
    pub fn forever(value: Text) -> Self {
        Self { value, lease_seconds: None }
    }
}

impl Availability {
    /// That the source can be asked.
    pub fn available() -> Self {
        Self { status: Status::Available, detail: None }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Text")
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// The words before every method's name.
pub(crate) const METHODS: &str = "secret_source.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_written_as_the_protocol_has_them() {
        let fault = Fault::BadReference { reference: "a".to_owned(), reason: "b".to_owned() };
        let text = serde_json::to_string(&fault).unwrap();
        assert_eq!(text, r#"{"kind":"bad-reference","reference":"a","reason":"b"}"#);
        let read = r#"{"kind":"unsupported-capability","capability":"list","more":1}"#;
        assert!(serde_json::from_str::<Fault>(read).is_ok());
    }

    #[test]
    fn values_are_not_printed() {
        let found = Found::forever(Text::new("sesame".to_owned()));
        assert!(!format!("{found:?}").contains("sesame"));
    }

    #[test]
    fn a_get_reply_of_1_0_is_found() {
        let reply: GetReply = serde_json::from_str(r#"{"value":"v","lease_seconds":3}"#).unwrap();
        assert!(reply.found && reply.value.is_some() && reply.lease_seconds == Some(3));
    }
}
