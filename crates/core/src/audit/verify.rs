//! Finds the first entry that was changed, removed, reordered or put in.

use std::borrow::Cow;

use serde::Deserialize;

use super::{
    Chain, Entry, GENESIS, LogKeys, Vouching,
    chain::{
        OWN_HASH, OWN_HMAC, Sha256Of, WholeHashes, field_hash, is_prefixed, portable_sha256,
        prefixed,
    },
    keys::Vouched,
};

/// Where a log stops being what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Tampered {
    /// An entry's own hash does not fit its content.
    #[error("entry {sequence} was changed")]
    Changed {
        /// The entry's number.
        sequence: u64,
        /// What its content gives, and what it says.
        hashes: Option<Box<Mismatch>>,
    },
    /// An entry does not continue the one before.
    #[error("entry {sequence} does not continue the entry before it")]
    Unlinked {
        /// The entry's number.
        sequence: u64,
        /// The hash of the entry before, and what this one says of it.
        hashes: Option<Box<Mismatch>>,
    },
    /// Numbers are missing, doubled or out of order.
    #[error("entry {expected} is missing")]
    Gap {
        /// The number that should have come.
        expected: u64,
    },
    /// Another entry stands in its place.
    #[error("entry {found} stands in the place of entry {sequence}")]
    Misplaced {
        /// The number that it is stored under.
        sequence: u64,
        /// Its own.
        found: u64,
    },
    /// The log ends before the entry that is known to be its last.
    #[error("the log ends at entry {found} but had {expected}")]
    Truncated {
        /// The number of the last entry found.
        found: u64,
        /// The number of the last entry known.
        expected: u64,
    },
    /// An entry has not the HMAC that its key gives: somebody without the key has written it.
    #[error("the HMAC of entry {sequence} is not its key's")]
    Hmac {
        /// The entry's number.
        sequence: u64,
    },
    /// An entry names a key that the log has not.
    #[error("entry {sequence} has an HMAC of the key {key}, which this log has not")]
    UnknownKey {
        /// The entry's number.
        sequence: u64,
        /// What it names.
        key: String,
    },
    /// A key vouches for an entry that came after another had taken its place.
    #[error("entry {sequence} has an HMAC of a key that had been replaced")]
    OldKey {
        /// The entry's number.
        sequence: u64,
    },
    /// Something that is no entry.
    #[error("entry {sequence} can't be read")]
    Unreadable {
        /// The number that it was stored under.
        sequence: u64,
    },
}

/// Two hashes that should be one; nothing for a text that is no hash, since whoever has changed a log may have written
/// anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What should stand there.
    pub expected: Option<String>,
    /// What stands there.
    pub actual: Option<String>,
}

impl Mismatch {
    /// The first of these pairs, what should stand there and what does, that differ.
    pub(super) fn first(pairs: [(&str, &str); 2]) -> Option<Box<Self>> {
        let (expected, actual) = pairs.into_iter().find(|(expected, actual)| expected != actual)?;
        Some(Box::new(Self { expected: hash_of(expected), actual: hash_of(actual) }))
    }

    /// The first of these pairs, a computed digest and the text that an entry has for it, that differ.
    fn of_digests(pairs: [(&[u8; 32], &str); 2]) -> Option<Box<Self>> {
        let differs = |(digest, text): &(&[u8; 32], &str)| !is_prefixed(text, digest);
        let (digest, actual) = pairs.into_iter().find(differs)?;
        Some(Box::new(Self { expected: Some(prefixed(digest)), actual: hash_of(actual) }))
    }
}

fn hash_of(text: &str) -> Option<String> {
    let hex = text.strip_prefix("sha256:").filter(|_| text.len() == GENESIS.len())?;
    let is_hex = hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| text.to_owned())
}

impl Tampered {
    /// The hashes that show it, where it is two that differ.
    pub fn hashes(&self) -> Option<&Mismatch> {
        match self {
            Self::Changed { hashes, .. } | Self::Unlinked { hashes, .. } => hashes.as_deref(),
            _ => None,
        }
    }

    /// In what way, in a word, and at which entry.
    pub fn kind(&self) -> (&'static str, u64) {
        match *self {
            Self::Changed { sequence, .. } => ("hash_mismatch", sequence),
            Self::Misplaced { sequence, .. } | Self::Unlinked { sequence, .. } => {
                ("chain_break", sequence)
            }
            Self::Gap { expected } => ("missing_entry", expected),
            Self::Truncated { found, .. } => ("truncated", found),
            Self::Hmac { sequence } => ("hmac_mismatch", sequence),
            Self::UnknownKey { sequence, .. } | Self::OldKey { sequence } => ("hmac_key", sequence),
            Self::Unreadable { sequence } => ("unreadable", sequence),
        }
    }
}

/// Verifies a log from its beginning, an entry or a stretch at a time, so that a long log need not
/// be in memory.
#[derive(Debug)]
pub struct Verifier {
    end: Chain,
    vouching: Vouching,
}

/// Entries that are whole and continue one another, wherever in a log: the costly part of
/// verifying, which can be done for several stretches at once.
#[derive(Debug)]
pub struct Stretch {
    before: Chain,
    end: Chain,
    marked: Option<String>,
    vouching: Vouching,
}

/// What verifying reads of an entry's text.
#[derive(Deserialize)]
struct Face<'a> {
    #[serde(borrow)]
    action: Cow<'a, str>,
    #[serde(borrow)]
    agent: FaceAgent<'a>,
    #[serde(borrow)]
    chain: FaceLinks<'a>,
    #[serde(borrow)]
    result: Cow<'a, str>,
    sequence: u64,
    #[serde(borrow)]
    target: Cow<'a, str>,
    #[serde(borrow)]
    timestamp: Cow<'a, str>,
}

#[derive(Deserialize)]
struct FaceAgent<'a> {
    #[serde(borrow)]
    uri: Cow<'a, str>,
}

#[derive(Deserialize)]
struct FaceLinks<'a> {
    entry_hash: &'a str,
    #[serde(default)]
    entry_hmac: Option<&'a str>,
    hash: &'a str,
    #[serde(default)]
    hmac: Option<&'a str>,
    #[serde(default)]
    hmac_key_id: Option<&'a str>,
    prev_entry_hash: &'a str,
    prev_hash: &'a str,
}

impl Verifier {
    /// At the beginning of a log.
    pub fn new() -> Self {
        Self::after(Chain::genesis())
    }

    /// Behind an end that somebody vouches for.
    pub fn after(end: Chain) -> Self {
        Self { end, vouching: Vouching::default() }
    }

    /// Takes the next entry, without asking a key.
    pub fn push(&mut self, entry: &Entry) -> Result<(), Tampered> {
        self.join(&Stretch::of_entry(entry, None)?)
    }

    /// Takes the next stretch.
    pub fn join(&mut self, stretch: &Stretch) -> Result<(), Tampered> {
        stretch.before.continues(&self.end)?;
        self.vouching.join(&stretch.vouching)?;
        self.end.clone_from(&stretch.end);
        Ok(())
    }

    /// What the keys say of what was taken.
    pub fn vouching(&self) -> &Vouching {
        &self.vouching
    }

    /// The end of what was taken.
    pub fn end(&self) -> &Chain {
        &self.end
    }

    /// Ends the log, whose last entry is known to have the number `expected`. Gives the number of entries.
    pub fn finish(self, expected: u64) -> Result<u64, Tampered> {
        match self.end.sequence() {
            found if found != expected => Err(Tampered::Truncated { found, expected }),
            found => Ok(found),
        }
    }
}

impl Default for Verifier {
    fn default() -> Self {
        Self::new()
    }
}

impl Stretch {
    /// Verifies stored entries that follow one another, each with the number that it is stored
    /// under; nothing when there are none. The whole hash of the entry `marked` is kept. With `keys`, each HMAC is
    /// judged as well.
    pub fn verify<'a>(
        rows: impl IntoIterator<Item = (u64, &'a str)>,
        marked: Option<u64>,
        sha256: Sha256Of,
        keys: Option<&dyn LogKeys>,
    ) -> Result<Option<Self>, Tampered> {
        let mut all: Option<Self> = None;
        for (sequence, text) in rows {
            let one = Self::of_text(sequence, text, sha256, keys)?;
            let stretch = match &mut all {
                None => all.insert(one),
                Some(all) => {
                    one.before.continues(&all.end)?;
                    all.vouching.join(&one.vouching)?;
                    all.end = one.end;
                    all
                }
            };
            if marked == Some(sequence) {
                stretch.marked = Some(stretch.end.entry_hash().to_owned());
            }
        }
        Ok(all)
    }

    /// Where the last of them ends.
    pub fn end(&self) -> &Chain {
        &self.end
    }

    /// What the keys say of them.
    pub fn vouching(&self) -> &Vouching {
        &self.vouching
    }

    /// The whole hash of the entry that was asked for, if it is one of these.
    pub fn marked(&self) -> Option<&str> {
        self.marked.as_deref()
    }

    /// What is hashed is the text as it stands, so nothing in it can change unseen. A text that is
    /// not in our form is an older entry, or none.
    fn of_text(
        sequence: u64,
        text: &str,
        sha256: Sha256Of,
        keys: Option<&dyn LogKeys>,
    ) -> Result<Self, Tampered> {
        let unreadable = |_| Tampered::Unreadable { sequence };
        let stretch = match Pieces::of(text) {
            None => Self::of_entry(&serde_json::from_str(text).map_err(unreadable)?, keys)?,
            Some(pieces) => {
                let face = serde_json::from_str(text).map_err(unreadable)?;
                Self::of_face(&face, &pieces, sha256, keys)?
            }
        };
        match stretch.end.sequence() {
            found if found == sequence => Ok(stretch),
            found => Err(Tampered::Misplaced { sequence, found }),
        }
    }

    fn of_face(
        face: &Face<'_>,
        pieces: &Pieces<'_>,
        sha256: Sha256Of,
        keys: Option<&dyn LogKeys>,
    ) -> Result<Self, Tampered> {
        let Face { action, agent, chain, result, sequence, target, timestamp } = face;
        let words =
            ["\n", timestamp, "\n", &agent.uri, "\n", action, "\n", target, "\n", result, "\n"];
        let content = || sha256(&[pieces.start.as_bytes(), pieces.rest.as_bytes()]);
        let whole = [pieces.start, pieces.hmac, pieces.rest].map(str::as_bytes);
        let whole = own_hash(sha256(&whole), chain.entry_hash, content);
        let hash = field_hash(*sequence, &words, chain.prev_hash, sha256);
        let pairs = [(&hash, chain.hash), (&whole, chain.entry_hash)];
        if let Some(hashes) = Mismatch::of_digests(pairs) {
            return Err(Tampered::Changed { sequence: *sequence, hashes: Some(hashes) });
        }
        let vouched = Vouched {
            hash: chain.hash,
            entry_hash: chain.entry_hash,
            content: &content,
            hmac: chain.hmac,
            entry_hmac: chain.entry_hmac,
            key: chain.hmac_key_id,
        };
        Self::one(*sequence, (chain.prev_hash, chain.prev_entry_hash), &vouched, keys)
    }

    fn of_entry(entry: &Entry, keys: Option<&dyn LogKeys>) -> Result<Self, Tampered> {
        let Entry { agent, chain, sequence, target, timestamp, .. } = entry;
        let (action, result) = (entry.action.as_str(), entry.result.as_str());
        let words =
            ["\n", timestamp, "\n", &agent.uri, "\n", action, "\n", target, "\n", result, "\n"];
        let hash = field_hash(*sequence, &words, &chain.prev_hash, portable_sha256);
        let WholeHashes { own, content } = WholeHashes::of(entry);
        let own = own_hash(own, &chain.entry_hash, || content);
        let pairs = [(&hash, &*chain.hash), (&own, &chain.entry_hash)];
        if let Some(hashes) = Mismatch::of_digests(pairs) {
            return Err(Tampered::Changed { sequence: *sequence, hashes: Some(hashes) });
        }
        let vouched = Vouched {
            hash: &chain.hash,
            entry_hash: &chain.entry_hash,
            content: &|| content,
            hmac: chain.hmac.as_deref(),
            entry_hmac: chain.entry_hmac.as_deref(),
            key: chain.hmac_key_id.as_deref(),
        };
        Self::one(*sequence, (&chain.prev_hash, &chain.prev_entry_hash), &vouched, keys)
    }

    /// One entry, by the hashes before it and its own, which were found right.
    fn one(
        sequence: u64,
        before: (&str, &str),
        own: &Vouched<'_>,
        keys: Option<&dyn LogKeys>,
    ) -> Result<Self, Tampered> {
        // Entries are numbered from 1.
        let last = sequence.checked_sub(1).ok_or(Tampered::Gap { expected: 1 })?;
        let vouching = match keys {
            None => Vouching::default(),
            Some(keys) => Vouching::of(sequence, own, keys)?,
        };
        let (before, end) =
            (Chain::at(last, before), Chain::at(sequence, (own.hash, own.entry_hash)));
        Ok(Self { before, end, marked: None, vouching })
    }
}

/// What an entry's own hash has to be: `whole`, which covers its HMAC. Keyless once left the HMAC out of it, so an entry
/// that says the hash of its content alone is one of those; no other says both.
fn own_hash(whole: [u8; 32], said: &str, content: impl FnOnce() -> [u8; 32]) -> [u8; 32] {
    if is_prefixed(said, &whole) {
        return whole;
    }
    let content = content();
    if is_prefixed(said, &content) { content } else { whole }
}

/// An entry's text around its own hash, which is over all the three.
struct Pieces<'a> {
    start: &'a str,
    /// The entry's HMAC; empty where it has none.
    hmac: &'a str,
    rest: &'a str,
}

impl<'a> Pieces<'a> {
    /// `None` for a text in another form than [`Outline`](super::Outline) gives.
    fn of(text: &'a str) -> Option<Self> {
        const LINKS: &str = "\"chain\":{";
        // Inside a string its quotes would be escaped, so the first is the real one.
        let at = text.find(LINKS)?;
        let (start, own) = text.split_at(at + LINKS.len());
        let own = own.strip_prefix(OWN_HASH)?;
        let rest = own.get(GENESIS.len()..)?.strip_prefix("\",")?;
        let Some(hmac) = rest.strip_prefix(OWN_HMAC) else {
            return Some(Self { start, hmac: "", rest });
        };
        let behind = hmac.get(GENESIS.len()..)?.strip_prefix("\",")?;
        let (hmac, rest) = rest.split_at(rest.len() - behind.len());
        Some(Self { start, hmac, rest })
    }
}

/// Verifies a whole log that is known to end with `head`. Gives the number of entries.
pub fn verify<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
    head: &Chain,
) -> Result<u64, Tampered> {
    let mut verifier = Verifier::new();
    for entry in entries {
        verifier.push(entry)?;
    }
    verifier.finish(head.sequence())
}
