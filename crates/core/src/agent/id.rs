//! An instance's name, and the look of a credential.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// What every credential that Keyless makes begins with.
pub const CREDENTIAL_PREFIX: &str = "nlk_";
/// The fewest characters after the prefix that may be a credential.
const MIN_CREDENTIAL: usize = 32;

/// A UUID of version 4, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InstanceId(String);

impl InstanceId {
    /// Parses one; letters may be of either case.
    pub fn parse(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        let groups: Vec<&str> = lower.split('-').collect();
        let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        let is_hex = lower.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
        let is_v4 = lengths == [8, 4, 4, 4, 12]
            && groups[2].starts_with('4')
            && groups[3].starts_with(['8', '9', 'a', 'b']);
        (is_hex && is_v4).then_some(Self(lower))
    }

    /// The UUID.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for InstanceId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).ok_or("not a UUID of version 4")
    }
}

impl TryFrom<String> for InstanceId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<InstanceId> for String {
    fn from(id: InstanceId) -> Self {
        id.0
    }
}

/// Whether a text looks like a credential: `nlk_`, a word of the vendor's, 32 or more letters and digits.
pub fn is_credential(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(CREDENTIAL_PREFIX) else { return false };
    let secret = match rest.split_once('_') {
        Some((word, secret))
            if !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase()) =>
        {
            secret
        }
        Some(_) => return false,
        None => rest,
    };
    secret.len() >= MIN_CREDENTIAL && secret.bytes().all(|b| b.is_ascii_alphanumeric())
}
