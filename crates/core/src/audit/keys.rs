//! The log's keys, which vouch for its entries one by one (NL-5.13), and what they say of a log.
//!
//! The keys themselves are elsewhere: who has them gives an HMAC-SHA256.

use std::fmt;

use super::{
    Tampered,
    chain::{is_prefixed, prefixed},
};

const PREFIX: &str = "log-";

/// Which key of the log; `log-1`, `log-2` and so on. A later one took the place of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogKeyId(u32);

/// A key that vouches for new entries.
#[derive(Clone, Copy)]
pub struct EntryKey<'a> {
    /// Which one.
    pub id: LogKeyId,
    /// Its HMAC-SHA256.
    pub hmac: &'a dyn Fn(&str) -> [u8; 32],
}

/// The keys of a log, to verify by.
pub trait LogKeys: Sync {
    /// The HMAC-SHA256 of this key; `None` when there is no such key.
    fn hmac(&self, key: LogKeyId, text: &str) -> Option<[u8; 32]>;
}

/// What the keys say of entries that follow one another; of none, where no keys were at hand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vouching {
    /// How many a key vouches for.
    pub with: u64,
    /// How many have no HMAC: who wrote them had no key.
    pub without: u64,
    /// The first and the last key.
    pub keys: Option<(LogKeyId, LogKeyId)>,
    /// The number of the first entry that a key vouches for.
    first: u64,
}

/// What an entry has for the keys to judge.
pub(super) struct Vouched<'a> {
    pub(super) hash: &'a str,
    pub(super) entry_hash: &'a str,
    /// The hash that its own HMAC is made of.
    pub(super) content: &'a dyn Fn() -> [u8; 32],
    pub(super) hmac: Option<&'a str>,
    pub(super) entry_hmac: Option<&'a str>,
    pub(super) key: Option<&'a str>,
}

impl LogKeyId {
    /// The one that a log begins with.
    pub const FIRST: Self = Self(1);

    /// The key of this number; they are numbered from 1.
    pub fn new(number: u32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// Reads `log-2`, in no other form.
    pub fn parse(text: &str) -> Option<Self> {
        let id = Self::new(text.strip_prefix(PREFIX)?.parse().ok()?)?;
        (id.to_string() == text).then_some(id)
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The one that takes its place.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for LogKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

impl fmt::Debug for EntryKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Vouching {
    /// Judges the entry of this number.
    pub(super) fn of(
        sequence: u64,
        entry: &Vouched<'_>,
        keys: &dyn LogKeys,
    ) -> Result<Self, Tampered> {
        let (hmac, entry_hmac, id) = match (entry.hmac, entry.entry_hmac, entry.key) {
            (None, None, None) => return Ok(Self { without: 1, ..Self::default() }),
            (Some(hmac), Some(entry_hmac), Some(id)) => (hmac, entry_hmac, id),
            _ => return Err(Tampered::Hmac { sequence }),
        };
        let unknown = || Tampered::UnknownKey { sequence, key: id.to_owned() };
        let key = LogKeyId::parse(id).ok_or_else(unknown)?;
        let content = prefixed(&(entry.content)());
        for (hash, hmac) in [(entry.hash, hmac), (&content, entry_hmac)] {
            if !is_prefixed(hmac, &keys.hmac(key, hash).ok_or_else(unknown)?) {
                return Err(Tampered::Hmac { sequence });
            }
        }
        Ok(Self { with: 1, without: 0, keys: Some((key, key)), first: sequence })
    }

    /// Adds what is said of the entries that follow. A key that was replaced does not come back.
    pub fn join(&mut self, later: &Self) -> Result<(), Tampered> {
        self.with += later.with;
        self.without += later.without;
        let Some((next, last)) = later.keys else { return Ok(()) };
        match self.keys {
            Some((_, before)) if next < before => Err(Tampered::OldKey { sequence: later.first }),
            Some((first, _)) => {
                self.keys = Some((first, last));
                Ok(())
            }
            None => {
                (self.keys, self.first) = (later.keys, later.first);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_one_form() {
        for number in [1, 2, 10, u32::MAX] {
            let id = LogKeyId::new(number).unwrap();
            assert_eq!(LogKeyId::parse(&id.to_string()), Some(id));
        }
        for text in ["", "log-", "log-0", "log-01", "log-+1", "log-4294967296", "LOG-1", "log-1 "] {
            assert_eq!(LogKeyId::parse(text), None, "{text}");
        }
        assert!(LogKeyId::FIRST < LogKeyId::FIRST.next());
    }
}
