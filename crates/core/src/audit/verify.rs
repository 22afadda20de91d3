//! Finds the first entry that was changed, removed, reordered or put in.

use super::{
    Chain, Entry, GENESIS,
    chain::{field_hash, whole_hash},
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
}

/// Verifies entry after entry, so that a long log need not be in memory.
#[derive(Debug)]
pub struct Verifier {
    sequence: u64,
    hash: String,
    entry_hash: String,
}

impl Verifier {
    /// At the beginning of a log.
    pub fn new() -> Self {
        Self { sequence: 0, hash: GENESIS.to_owned(), entry_hash: GENESIS.to_owned() }
    }

    /// Takes the next entry.
    pub fn push(&mut self, entry: &Entry) -> Result<(), Tampered> {
        let sequence = entry.sequence;
        if sequence != self.sequence + 1 {
            return Err(Tampered::Gap { expected: self.sequence + 1 });
        }
        if entry.chain.prev_hash != self.hash || entry.chain.prev_entry_hash != self.entry_hash {
            return Err(Tampered::Unlinked { sequence });
        }
        if entry.chain.hash != field_hash(entry) || entry.chain.entry_hash != whole_hash(entry) {
            return Err(Tampered::Changed { sequence });
        }
        self.sequence = sequence;
        self.hash.clone_from(&entry.chain.hash);
        self.entry_hash.clone_from(&entry.chain.entry_hash);
        Ok(())
    }

    /// Ends the log, which is known to end with `head`. Gives the number of entries.
    pub fn finish(self, head: &Chain) -> Result<u64, Tampered> {
        match Chain::sequence(head) {
            expected if expected != self.sequence => {
                Err(Tampered::Truncated { found: self.sequence, expected })
            }
            _ => Ok(self.sequence),
        }
    }
}

impl Default for Verifier {
    fn default() -> Self {
        Self::new()
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
    verifier.finish(head)
}
