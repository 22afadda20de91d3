//! The exact half of the search: given the text from one place on, which pattern matches there, and
//! may a longer one still complete?
//!
//! Patterns lie sorted in one zeroized allocation. A pattern that is a prefix of the text, or that
//! the text is a prefix of, is then a neighbour of where the text would be sorted in, or one of that
//! neighbour's own prefixes (`Entry::parent`). A table over the first bytes of the patterns, as many
//! as the shortest one has, answers "nothing" for most places without touching a pattern.
//! Finding the places is not done here.

use core::ops::Range;

use zeroize::Zeroizing;

use super::{Ending, PatternId};

/// Sorted patterns, none empty, none twice.
pub(super) struct Dictionary {
    bytes: Zeroizing<Vec<u8>>,
    entries: Vec<Entry>,
    /// `entries[by_first_byte[b]..by_first_byte[b + 1]]` begin with byte `b`.
    by_first_byte: Vec<usize>,
    keys: Keys,
    longest: usize,
}

struct Entry {
    range: Range<usize>,
    id: PatternId,
    /// The longest other pattern that this one begins with.
    parent: Option<usize>,
}

/// What is known about one place of a text.
pub(super) enum Verdict {
    Match { len: usize, pattern: PatternId },
    Nothing,
    Undecided,
}

impl Dictionary {
    pub(super) fn new(patterns: &[&[u8]]) -> Self {
        let mut order: Vec<usize> = (0..patterns.len()).collect();
        order.retain(|&index| !patterns[index].is_empty());
        // A stable sort: of twins the first stays in front, and is the one that is kept.
        order.sort_by_key(|&index| patterns[index]);
        order.dedup_by_key(|index| patterns[*index]);

        let (bytes, entries) = lay_out(patterns, &order);
        let lengths = || entries.iter().map(|entry| entry.range.len());
        let (shortest, longest) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
        let by_first_byte = (0..=256)
            .map(|byte| entries.partition_point(|e| usize::from(bytes[e.range.start]) < byte))
            .collect();
        let keys = Keys::new(shortest, &entries, &bytes);
        Self { bytes, entries, by_first_byte, keys, longest }
    }

    /// Says what matches at the start of `text`.
    pub(super) fn judge(&self, text: &[u8], ending: Ending) -> Verdict {
        let Some(nearby) = self.nearby(text) else { return Verdict::Nothing };
        let entries = &self.entries[nearby.clone()];
        let next = nearby.start + entries.partition_point(|entry| self.pattern(entry) <= text);
        let longer_may_complete =
            next < nearby.end && self.pattern(&self.entries[next]).starts_with(text);
        if longer_may_complete && ending == Ending::Open {
            return Verdict::Undecided;
        }
        let mut candidate = next.checked_sub(1).filter(|&index| index >= nearby.start);
        while let Some(index) = candidate {
            let entry = &self.entries[index];
            if text.starts_with(self.pattern(entry)) {
                return Verdict::Match { len: entry.range.len(), pattern: entry.id };
            }
            candidate = entry.parent;
        }
        Verdict::Nothing
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn shortest(&self) -> usize {
        self.keys.shortest
    }

    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// The first in sorted order; empty when there is none.
    pub(super) fn first_pattern(&self) -> &[u8] {
        self.entries.first().map_or(&[], |entry| self.pattern(entry))
    }

    /// Number of bytes that all patterns begin with.
    pub(super) fn shared_prefix(&self) -> usize {
        let last = self.entries.last().map_or(&[][..], |entry| self.pattern(entry));
        self.first_pattern().iter().zip(last).take_while(|(a, b)| a == b).count()
    }

    pub(super) fn patterns(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| self.pattern(entry))
    }

    fn pattern(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.range.clone()]
    }

    /// The entries among which a pattern that begins `text`, or that `text` begins, must be.
    fn nearby(&self, text: &[u8]) -> Option<Range<usize>> {
        let Some(key) = text.get(..self.keys.len) else {
            // Too short to match; only the end of a text comes here.
            let first = usize::from(*text.first()?);
            return Some(self.by_first_byte[first]..self.by_first_byte[first + 1]);
        };
        self.keys.get(key, |index| &self.bytes[self.entries[index].range.start..][..key.len()])
    }
}

/// Copies the patterns of `order` into one allocation that never moves.
fn lay_out(patterns: &[&[u8]], order: &[usize]) -> (Zeroizing<Vec<u8>>, Vec<Entry>) {
    let total = order.iter().map(|&index| patterns[index].len()).sum();
    let mut bytes = Zeroizing::new(Vec::with_capacity(total));
    let mut entries: Vec<Entry> = Vec::with_capacity(order.len());
    for &index in order {
        let pattern = patterns[index];
        let mut parent = entries.len().checked_sub(1);
        while let Some(above) = parent {
            if pattern.starts_with(&bytes[entries[above].range.clone()]) {
                break;
            }
            parent = entries[above].parent;
        }
        let range = bytes.len()..bytes.len() + pattern.len();
        bytes.extend_from_slice(pattern);
        let id = PatternId(u32::try_from(index).expect("a set has fewer than 2^32 patterns"));
        entries.push(Entry { range, id, parent });
    }
    (bytes, entries)
}

/// A hash table from the first bytes of patterns to their run of entries.
struct Keys {
    shortest: usize,
    len: usize,
    /// `[tag, start, end]`, free where `end` is 0. Computed from pattern bytes, so zeroized.
    slots: Zeroizing<Vec<[u32; 3]>>,
}

impl Keys {
    /// More bytes than this hardly tell patterns apart any better.
    const MAX_LEN: usize = 16;

    fn new(shortest: usize, entries: &[Entry], bytes: &[u8]) -> Self {
        let len = shortest.min(Self::MAX_LEN);
        // At most an eighth is taken, so that one look nearly always says "nothing".
        let slots = Zeroizing::new(vec![[0; 3]; (entries.len() * 8 + 1).next_power_of_two()]);
        let mut keys = Self { shortest, len, slots };
        let key_of = |entry: &Entry| &bytes[entry.range.start..][..len];
        let mut start = 0;
        for run in entries.chunk_by(|a, b| key_of(a) == key_of(b)) {
            keys.insert(key_of(&run[0]), start..start + run.len());
            start += run.len();
        }
        keys
    }

    fn insert(&mut self, key: &[u8], run: Range<usize>) {
        let (tag, mut slot) = self.place(key);
        while self.slots[slot][2] != 0 {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        let index = |at| u32::try_from(at).expect("a set has fewer than 2^32 patterns");
        self.slots[slot] = [tag, index(run.start), index(run.end)];
    }

    /// The run of entries whose patterns begin with `key`; `key_of` gives an entry's own key.
    fn get<'a>(&self, key: &[u8], key_of: impl Fn(usize) -> &'a [u8]) -> Option<Range<usize>> {
        let (tag, mut slot) = self.place(key);
        loop {
            let [other, start, end] = self.slots[slot];
            if end == 0 {
                return None;
            }
            if other == tag && key_of(start as usize) == key {
                return Some(start as usize..end as usize);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    fn place(&self, key: &[u8]) -> (u32, usize) {
        let hash = hash(key);
        #[expect(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
        let (tag, slot) = ((hash >> 32) as u32, hash as usize);
        (tag, slot & (self.slots.len() - 1))
    }
}

/// Hashes up to 16 bytes. Patterns are ours, so nobody can choose them to collide.
fn hash(key: &[u8]) -> u64 {
    let (first, last) = match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (key.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)), 0),
    };
    let mixed = (first ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let mixed = (mixed ^ mixed >> 32 ^ last).wrapping_mul(0xa076_1d64_78bd_642f);
    mixed ^ mixed >> 29
}
