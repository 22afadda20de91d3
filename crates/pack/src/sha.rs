//! SHA-256 digests and contents that know theirs.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest; its text is bare lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha([u8; 32]);

/// Bytes and their digest, shared by every target that they go to.
#[derive(Clone, Debug)]
pub struct Content {
    bytes: Arc<[u8]>,
    sha: Sha,
}

impl Sha {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads 64 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 64 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            *byte = u8::try_from(high * 16 + low).ok()?;
        }
        Some(Self(bytes))
    }

    /// The first digits of its text.
    pub fn prefix(&self, digits: usize) -> String {
        let mut text = self.to_string();
        text.truncate(digits);
        text
    }

    /// `sha256:` and the digits, as status and preview write it.
    pub fn tagged(&self) -> String {
        format!("sha256:{self}")
    }
}

impl Content {
    /// Takes bytes and hashes them once.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self { sha: Sha::of(&bytes), bytes }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The digest.
    pub fn sha(&self) -> Sha {
        self.sha
    }

    /// The bytes as text, where they are UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.sha == other.sha
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Sha {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not 64 hex digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_back() {
        let sha = Sha::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha.to_string(), text);
        assert_eq!(Sha::parse(text), Some(sha));
        assert_eq!(Sha::parse("zz"), None);
    }
}
