//! Finds the first entry that was changed, removed, reordered or put in.

use std::borrow::Cow;

use serde::Deserialize;

use super::{
    Chain, Entry, GENESIS,
    chain::{OWN_HASH, Sha256Of, field_hash, portable_sha256, prefixed, whole_hash},
};

/// Where a log stops being what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Tampered {
    /// An entry's own hash does not fit its content.
    #[error("entry {sequence} was changed")]
    Changed {
        /// The entry's number.
        sequence: u64,
    },
    /// An entry does not continue the one before.
    #[error("entry {sequence} does not continue the entry before it")]
    Unlinked {
        /// The entry's number.
        sequence: u64,
    },
    /// Numbers are missing, doubled or out of order.
    #[error("entry {expected} is missing")]
    Gap {
        /// The number that should have come.
        expected: u64,
    },
    /// The log ends before the entry that is known to be its last.
    #[error("the log ends at entry {found} but had {expected}")]
    Truncated {
        /// The number of the last entry found.
        found: u64,
        /// The number of the last entry known.
        expected: u64,
    },
    /// Something that is no entry.
    #[error("entry {sequence} can't be read")]
    Unreadable {
        /// The number that it was stored under.
        sequence: u64,
    },
}

/// Verifies a log from its beginning, an entry or a stretch at a time, so that a long log need not
/// be in memory.
#[derive(Debug)]
pub struct Verifier {
    end: Chain,
}

/// Entries that are whole and continue one another, wherever in a log: the costly part of
/// verifying, which can be done for several stretches at once.
#[derive(Debug)]
pub struct Stretch {
    before: Chain,
    end: Chain,
    marked: Option<String>,
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
    hash: &'a str,
    prev_entry_hash: &'a str,
    prev_hash: &'a str,
}

impl Verifier {
    /// At the beginning of a log.
    pub fn new() -> Self {
        Self { end: Chain::genesis() }
    }

    /// Behind an end that somebody vouches for.
    pub fn after(end: Chain) -> Self {
        Self { end }
    }

    /// Takes the next entry.
    pub fn push(&mut self, entry: &Entry) -> Result<(), Tampered> {
        self.join(&Stretch::of_entry(entry)?)
    }

    /// Takes the next stretch.
    pub fn join(&mut self, stretch: &Stretch) -> Result<(), Tampered> {
        stretch.before.continues(&self.end)?;
        self.end.clone_from(&stretch.end);
        Ok(())
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
    /// under; nothing when there are none. The whole hash of the entry `marked` is kept.
    pub fn verify<'a>(
        rows: impl IntoIterator<Item = (u64, &'a str)>,
        marked: Option<u64>,
        sha256: Sha256Of,
    ) -> Result<Option<Self>, Tampered> {
        let mut all: Option<Self> = None;
        for (sequence, text) in rows {
            let one = Self::of_text(sequence, text, sha256)?;
            let stretch = match &mut all {
                None => all.insert(one),
                Some(all) => {
                    one.before.continues(&all.end)?;
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

    /// The whole hash of the entry that was asked for, if it is one of these.
    pub fn marked(&self) -> Option<&str> {
        self.marked.as_deref()
    }

    /// What is hashed is the text as it stands, so nothing in it can change unseen. A text that is
    /// not in our form is an older entry, or none.
    fn of_text(sequence: u64, text: &str, sha256: Sha256Of) -> Result<Self, Tampered> {
        let unreadable = |_| Tampered::Unreadable { sequence };
        let stretch = match without_own_hash(text) {
            None => Self::of_entry(&serde_json::from_str(text).map_err(unreadable)?)?,
            Some(pieces) => {
                Self::of_face(&serde_json::from_str(text).map_err(unreadable)?, pieces, sha256)?
            }
        };
        if stretch.end.sequence() == sequence {
            Ok(stretch)
        } else {
            Err(Tampered::Changed { sequence })
        }
    }

    fn of_face(
        face: &Face<'_>,
        (start, rest): (&str, &str),
        sha256: Sha256Of,
    ) -> Result<Self, Tampered> {
        let Face { action, agent, chain, result, sequence, target, timestamp } = face;
        let words =
            ["\n", timestamp, "\n", &agent.uri, "\n", action, "\n", target, "\n", result, "\n"];
        let whole = sha256(&[start.as_bytes(), rest.as_bytes()]);
        if chain.hash != field_hash(*sequence, &words, chain.prev_hash, sha256)
            || chain.entry_hash != prefixed(&whole)
        {
            return Err(Tampered::Changed { sequence: *sequence });
        }
        let before = (chain.prev_hash, chain.prev_entry_hash);
        Self::between(before, *sequence, (chain.hash, chain.entry_hash))
    }

    fn of_entry(entry: &Entry) -> Result<Self, Tampered> {
        let Entry { agent, chain, sequence, target, timestamp, .. } = entry;
        let (action, result) = (entry.action.as_str(), entry.result.as_str());
        let words =
            ["\n", timestamp, "\n", &agent.uri, "\n", action, "\n", target, "\n", result, "\n"];
        if chain.hash != field_hash(*sequence, &words, &chain.prev_hash, portable_sha256)
            || chain.entry_hash != whole_hash(entry)
        {
            return Err(Tampered::Changed { sequence: *sequence });
        }
        let before = (&*chain.prev_hash, &*chain.prev_entry_hash);
        Self::between(before, *sequence, (&chain.hash, &chain.entry_hash))
    }

    /// One entry, by its hashes and those before it.
    fn between(before: (&str, &str), sequence: u64, own: (&str, &str)) -> Result<Self, Tampered> {
        // Entries are numbered from 1.
        let last = sequence.checked_sub(1).ok_or(Tampered::Gap { expected: 1 })?;
        let (before, end) = (Chain::at(last, before), Chain::at(sequence, own));
        Ok(Self { before, end, marked: None })
    }
}

/// The text before and after an entry's own hash, which is what that hash covers; `None` for a
/// text in another form than [`Outline`](super::Outline) gives.
fn without_own_hash(text: &str) -> Option<(&str, &str)> {
    const LINKS: &str = "\"chain\":{";
    // Inside a string its quotes would be escaped, so the first is the real one.
    let at = text.find(LINKS)?;
    let (start, own) = text.split_at(at + LINKS.len());
    let own = own.strip_prefix(OWN_HASH)?;
    let rest = own.get(GENESIS.len()..)?.strip_prefix("\",")?;
    Some((start, rest))
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
