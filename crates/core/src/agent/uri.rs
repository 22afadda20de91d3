//! `nl://VENDOR/AGENT-TYPE/VERSION`: which software an agent is.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The longest URI, in bytes.
const MAX: usize = 512;

/// A well-formed agent URI.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentUri(String);

/// Why a text is no agent URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentUriError {
    /// The agent's type.
    #[error("the agent's type has a-z, 0-9 and inner hyphens, and begins with a letter")]
    AgentType,
    /// The URI as a whole.
    #[error("an agent's URI is nl://vendor/agent-type/version")]
    Shape,
    /// The vendor.
    #[error("the vendor is a domain name in lower case")]
    Vendor,
    /// The version.
    #[error("the version is a semantic version, such as 1.5.2")]
    Version,
}

impl AgentUri {
    /// Parses one.
    pub fn parse(text: &str) -> Result<Self, AgentUriError> {
        let rest = text.strip_prefix("nl://").filter(|_| text.len() <= MAX);
        let parts: Vec<&str> = rest.ok_or(AgentUriError::Shape)?.split('/').collect();
        let [vendor, agent_type, version] = parts[..] else { return Err(AgentUriError::Shape) };
        if !vendor.split('.').all(is_label) {
            return Err(AgentUriError::Vendor);
        }
        if !is_label(agent_type) || !agent_type.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Err(AgentUriError::AgentType);
        }
        if is_version(version) { Ok(Self(text.to_owned())) } else { Err(AgentUriError::Version) }
    }

    /// The whole URI.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The domain of the vendor that makes it.
    pub fn vendor(&self) -> &str {
        self.part(0)
    }

    /// The agent's type, as its vendor calls it.
    pub fn agent_type(&self) -> &str {
        self.part(1)
    }

    /// Its version.
    pub fn version(&self) -> &str {
        self.part(2)
    }

    fn part(&self, index: usize) -> &str {
        self.0["nl://".len()..].split('/').nth(index).expect("a URI has three parts")
    }
}

impl fmt::Display for AgentUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AgentUri {
    type Err = AgentUriError;

    fn from_str(text: &str) -> Result<Self, AgentUriError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for AgentUri {
    type Error = AgentUriError;

    fn try_from(text: String) -> Result<Self, AgentUriError> {
        Self::parse(&text)
    }
}

impl From<AgentUri> for String {
    fn from(uri: AgentUri) -> Self {
        uri.0
    }
}

/// As RFC 1123 has them, in lower case: `3m.com` and `1password.com` are vendors (C-40).
fn is_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !label.is_empty()
        && label.len() <= 63
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Semantic versioning 2.0.0.
fn is_version(version: &str) -> bool {
    let (rest, build) = match version.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (version, None),
    };
    let (numbers, pre) = match rest.split_once('-') {
        Some((numbers, pre)) => (numbers, Some(pre)),
        None => (rest, None),
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let is_word = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let words = [pre, build].into_iter().flatten().all(|words| words.split('.').all(is_word));
    words && numbers.split('.').count() == 3 && numbers.split('.').all(is_number)
}
