//! A session's name, as an orchestrator gives it: in placeholders' derivation, file names, audit entries.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The longest name in bytes.
const MAX_BYTES: usize = 128;

/// 1 to 128 letters, digits, `-`, `_` and `.`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

/// Why a text is no [`SessionId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not 1 to 128 letters, digits, `-`, `_` and `.`")]
pub struct SessionIdError;

impl SessionId {
    /// Checks the grammar.
    pub fn parse(text: &str) -> Result<Self, SessionIdError> {
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if (1..=MAX_BYTES).contains(&text.len()) && text.bytes().all(fine) {
            Ok(Self(text.to_owned()))
        } else {
            Err(SessionIdError)
        }
    }

    /// The session of the guest with this vsock context id, where no name was given.
    pub fn of_guest(cid: u32) -> Self {
        Self(format!("cid-{cid}"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SessionId {
    type Err = SessionIdError;

    fn from_str(text: &str) -> Result<Self, SessionIdError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for SessionId {
    type Error = SessionIdError;

    fn try_from(text: String) -> Result<Self, SessionIdError> {
        Self::parse(&text)
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}
