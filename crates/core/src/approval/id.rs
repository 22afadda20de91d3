//! What a request is: 128 random bits; and what it is called: `prov-` and the first twelve hexadecimal digits of them.

use std::fmt;

use serde::{Deserialize, Serialize};

const PREFIX: &str = "prov-";
const DIGITS: usize = 12;
const FULL_DIGITS: usize = 32;

/// A request's identity: 128 random bits, so that no two requests ever are one, also long after their names are free again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FullRequestId(String);

/// A request's name, by which it is shown and looked up. Unique among the requests that are kept, because the store refuses
/// a second one; nothing rests on it being secret, as only the session that asked may poll.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RequestId(String);

impl RequestId {
    /// Reads a name; `None` when it has another shape.
    pub fn parse(text: &str) -> Option<Self> {
        are_digits(text.strip_prefix(PREFIX)?, DIGITS).then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FullRequestId {
    /// The identity that random bytes are.
    pub fn from_random(bytes: [u8; FULL_DIGITS / 2]) -> Self {
        Self(format!("{:032x}", u128::from_be_bytes(bytes)))
    }

    /// Reads what [`as_str`](Self::as_str) gave; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        are_digits(text, FULL_DIGITS).then(|| Self(text.to_owned()))
    }

    /// Its 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the request is called.
    pub fn name(&self) -> RequestId {
        RequestId(format!("{PREFIX}{}", &self.0[..DIGITS]))
    }
}

fn are_digits(text: &str, count: usize) -> bool {
    text.len() == count && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for RequestId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a request is called `prov-` and 12 hexadecimal digits")
    }
}

impl From<RequestId> for String {
    fn from(id: RequestId) -> Self {
        id.0
    }
}
