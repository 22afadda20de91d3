//! What a request is called: `prov-` and twelve hexadecimal digits.

use std::fmt;

use serde::{Deserialize, Serialize};

const PREFIX: &str = "prov-";
const DIGITS: usize = 12;

/// A request's name. Unguessable as far as 48 bits go, and unique because the store refuses a
/// second one; nothing rests on it being secret, as only the session that asked may poll.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RequestId(String);

impl RequestId {
    /// The name that random bytes give.
    pub fn from_random(bytes: [u8; DIGITS / 2]) -> Self {
        use fmt::Write;
        let mut name = PREFIX.to_owned();
        for byte in bytes {
            write!(name, "{byte:02x}").expect("writing to a String does not fail");
        }
        Self(name)
    }

    /// Reads a name; `None` when it has another shape.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        let fine = |b: u8| b.is_ascii_digit() || matches!(b, b'a'..=b'f');
        (digits.len() == DIGITS && digits.bytes().all(fine)).then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
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
