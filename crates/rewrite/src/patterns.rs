//! The set of patterns that a stream is searched for, and the search in one piece of text.
//!
//! Two layers: a prefilter runs over the text at memory speed and names places where a pattern may
//! start; the dictionary judges such a place exactly. Both tell a place where a pattern may still
//! complete beyond the end of the text from one where nothing can. What is kept between two pieces
//! of text is not decided here but in `scanner.rs`.

mod dictionary;
mod grams;

use std::{cell::OnceCell, fmt, ops::Range, sync::Arc};

use memchr::{memchr_iter, memmem};

pub(crate) use self::grams::{Bitmap, first_word, last_word, word};
use self::{
    dictionary::{Dictionary, Verdict},
    grams::Grams,
};

/// Index of a pattern in the order in which it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PatternId(pub u32);

impl PatternId {
    /// This id as an index into the caller's own list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An immutable set of byte patterns; a clone is a counted reference.
///
/// Patterns may be secret values: every table that holds bytes of them or is computed from them is
/// zeroized when the last clone goes, and `Debug` shows their number alone.
#[derive(Clone)]
pub struct PatternSet(Arc<Inner>);

struct Inner {
    dictionary: Dictionary,
    prefilter: Prefilter,
}

/// How places worth judging are found.
enum Prefilter {
    /// There are no patterns.
    Never,
    /// All patterns begin with the same bytes, this many of them: placeholders of one session.
    Prefix(usize),
    /// Anything else.
    Grams(Grams),
}

impl PatternSet {
    /// Builds the set, in about a millisecond per thousand patterns.
    ///
    /// An empty pattern never matches, but keeps its index. When the same bytes are given twice,
    /// the first index is the one that matches.
    pub fn new<I, P>(patterns: I) -> Self
    where
        I: IntoIterator<Item = P>,
        P: AsRef<[u8]>,
    {
        let patterns: Vec<P> = patterns.into_iter().collect();
        let patterns: Vec<&[u8]> = patterns.iter().map(AsRef::as_ref).collect();
        let dictionary = Dictionary::new(&patterns);
        let prefilter = Prefilter::for_dictionary(&dictionary);
        Self(Arc::new(Inner { dictionary, prefilter }))
    }

    /// The set that matches nothing.
    pub fn empty() -> Self {
        Self::new([[]; 0])
    }

    /// Number of patterns that can match: without empty ones and repetitions.
    pub fn len(&self) -> usize {
        self.0.dictionary.len()
    }

    /// Whether nothing can match.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length of the longest pattern in bytes, 0 for the empty set.
    pub fn longest(&self) -> usize {
        self.0.dictionary.longest()
    }

    /// Length of the shortest pattern in bytes, 0 for the empty set. Nothing shorter holds a match.
    pub fn shortest(&self) -> usize {
        self.0.dictionary.shortest()
    }

    /// The first match at or after `from` in a text that is there as a whole: leftmost, then longest.
    pub fn find(&self, whole: &[u8], from: usize) -> Option<(Range<usize>, PatternId)> {
        if whole.len() - from < self.0.dictionary.shortest() {
            return None;
        }
        match self.search().next(whole, from, Ending::Closed) {
            Found::Match { start, len, pattern } => Some((start..start + len, pattern)),
            Found::Nothing | Found::Undecided { .. } => None,
        }
    }

    pub(crate) fn search(&self) -> Search<'_> {
        Search::new(&self.0)
    }
}

impl Default for PatternSet {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for PatternSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PatternSet").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Prefilter {
    /// A shared prefix is searched for only if it is long enough to be rare; more of it than this
    /// would make one pattern faster to find than ten thousand for no one's benefit.
    const PREFIX: core::ops::RangeInclusive<usize> = 4..=8;

    fn for_dictionary(dictionary: &Dictionary) -> Self {
        let shared = dictionary.shared_prefix().min(*Self::PREFIX.end());
        if dictionary.is_empty() {
            Self::Never
        } else if shared >= *Self::PREFIX.start() {
            Self::Prefix(shared)
        } else {
            Self::Grams(Grams::new(dictionary))
        }
    }

    /// A place with fewer bytes than this after it is not found by the prefilter.
    fn window(&self) -> usize {
        match self {
            Self::Never => 0,
            Self::Prefix(len) => *len,
            Self::Grams(grams) => grams.window(),
        }
    }
}

/// What a search came upon.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The longest pattern that matches at `start`, and no longer one can.
    Match { start: usize, len: usize, pattern: PatternId },
    /// No pattern matches in the text, nor can one that begins in it.
    Nothing,
    /// The text from `start` to its end begins a pattern, so it depends on what follows.
    Undecided { start: usize },
}

/// Whether more text may follow the one at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Closed,
    Open,
}

/// Looking through fewer bytes than this takes less than making a finder for it.
const LONG: usize = 512;

/// A search over pieces of text; made per piece, since it costs next to nothing.
pub(crate) struct Search<'s> {
    inner: &'s Inner,
    /// For what all patterns begin with, made for the first long text.
    // Borrows its needle, so that no copy of pattern bytes outlives the set.
    finder: OnceCell<memmem::Finder<'s>>,
}

impl<'s> Search<'s> {
    fn new(inner: &'s Inner) -> Self {
        Self { inner, finder: OnceCell::new() }
    }

    /// Length of the longest pattern.
    pub(crate) fn longest(&self) -> usize {
        self.inner.dictionary.longest()
    }

    /// Finds the first place at or after `from` where a pattern matches or may still match.
    #[inline]
    pub(crate) fn next(&self, text: &[u8], from: usize, ending: Ending) -> Found {
        match &self.inner.prefilter {
            Prefilter::Never => Found::Nothing,
            Prefilter::Prefix(length) => self.next_with_prefix(*length, text, from, ending),
            Prefilter::Grams(grams) => self.next_with_grams(grams, text, from, ending),
        }
    }

    /// Judges one place alone.
    pub(crate) fn at(&self, text: &[u8], start: usize, ending: Ending) -> Found {
        match self.inner.dictionary.judge(&text[start..], ending) {
            Verdict::Match { len, pattern } => Found::Match { start, len, pattern },
            Verdict::Nothing => Found::Nothing,
            Verdict::Undecided => Found::Undecided { start },
        }
    }

    fn next_with_prefix(
        &self,
        length: usize,
        text: &[u8],
        mut from: usize,
        ending: Ending,
    ) -> Found {
        let prefix = &self.inner.dictionary.first_pattern()[..length];
        while let Some(offset) = self.next_prefix(prefix, &text[from..]) {
            match self.at(text, from + offset, ending) {
                Found::Nothing => from += offset + 1,
                found => return found,
            }
        }
        self.next_in_tail(text, from, ending)
    }

    fn next_prefix(&self, prefix: &'s [u8], text: &[u8]) -> Option<usize> {
        if text.len() < LONG && self.finder.get().is_none() {
            return memchr_iter(prefix[0], text).find(|at| text[*at..].starts_with(prefix));
        }
        self.finder.get_or_init(|| memmem::Finder::new(prefix)).find(text)
    }

    fn next_with_grams(&self, grams: &Grams, text: &[u8], from: usize, ending: Ending) -> Found {
        // A gram at `sample` speaks for the `stride` places that end there.
        let mut sample = from + grams.stride() - 1;
        while let Some(hit) = grams.next_hit(text, sample) {
            for start in hit + 1 - grams.stride()..=hit {
                match self.at(text, start, ending) {
                    Found::Nothing => {}
                    found => return found,
                }
            }
            sample = hit + grams.stride();
        }
        self.next_in_tail(text, from, ending)
    }

    /// Judges the last places one by one, those that the prefilter has too few bytes to see. Where
    /// nothing follows, these are too few for any pattern as well: none is shorter than the window.
    fn next_in_tail(&self, text: &[u8], from: usize, ending: Ending) -> Found {
        if ending == Ending::Closed {
            return Found::Nothing;
        }
        let tail = (text.len() + 1).saturating_sub(self.inner.prefilter.window());
        (from.max(tail)..text.len())
            .map(|start| self.at(text, start, ending))
            .find(|found| *found != Found::Nothing)
            .unwrap_or(Found::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(patterns: &[&str], text: &str) -> Found {
        PatternSet::new(patterns).search().next(text.as_bytes(), 0, Ending::Open)
    }

    fn matched(start: usize, len: usize, id: u32) -> Found {
        Found::Match { start, len, pattern: PatternId(id) }
    }

    #[test]
    fn leftmost_then_longest() {
        assert_eq!(found(&["cd", "bcd", "bc"], "abcd-"), matched(1, 3, 1));
        assert_eq!(found(&["ab", "abcd"], "xabcx"), matched(1, 2, 0));
    }

    #[test]
    fn undecided_while_a_longer_one_may_complete() {
        assert_eq!(found(&["ab", "abcd"], "xab"), Found::Undecided { start: 1 });
        assert_eq!(found(&["ab", "abcd"], "xabc"), Found::Undecided { start: 1 });
        assert_eq!(found(&["ab", "abcd"], "xabcd"), matched(1, 4, 1));
    }

    #[test]
    fn empty_patterns_keep_their_index_and_the_first_twin_wins() {
        let set = PatternSet::new(["", "ab", "ab", "c"]);
        assert_eq!((set.len(), set.longest()), (2, 2));
        assert_eq!(set.search().next(b"ab", 0, Ending::Open), matched(0, 2, 1));
        assert_eq!(set.search().next(b"c", 0, Ending::Open), matched(0, 1, 3));
    }

    #[test]
    fn the_empty_set_finds_nothing() {
        let set = PatternSet::new(["", ""]);
        assert!(set.is_empty());
        assert_eq!(set.search().next(b"anything", 0, Ending::Open), Found::Nothing);
    }

    #[test]
    fn debug_shows_no_pattern() {
        let text = format!("{:?}", PatternSet::new(["hunter2hunter2"]));
        assert_eq!(text, "PatternSet { len: 1, .. }");
    }
}
