//! Replaces patterns in a stream, each by its own replacement, in one pass.
//!
//! Replacements are never searched again, so a value that contains a placeholder goes out as it is.
//! Deliberately not here: which replacements a message is entitled to. A rewriter is built from
//! what was already decided.

use std::{borrow::Cow, fmt, ops::Range, sync::Arc};

use zeroize::Zeroizing;

use crate::{
    cover::Cover,
    patterns::{PatternId, PatternSet},
    sanitizer::FoundAs,
    scanner::{Piece, Scanner},
    tally::Tally,
    wrapped::{Passed, Unwrapping, Wrapped},
};

/// Patterns with a replacement each; a clone is a counted reference.
///
/// Either side may be secret: both are zeroized when the last clone goes.
#[derive(Clone)]
pub struct Rewriter {
    patterns: PatternSet,
    pairs: Arc<[Pair]>,
    cover: Cover,
    /// What comes first.
    wrapped: Option<Arc<Wrapped>>,
    /// What each pattern is, where that is told.
    kinds: Option<Arc<Kinds>>,
}

/// Which value each pattern is, and in which form: those of the pairs, and those that line ends cut.
pub(crate) struct Kinds {
    pub(crate) pairs: Vec<(usize, FoundAs)>,
    pub(crate) wrapped: Vec<(usize, FoundAs)>,
}

struct Pair {
    pattern: Zeroizing<Vec<u8>>,
    replacement: Zeroizing<Vec<u8>>,
}

impl Rewriter {
    /// Takes pairs of pattern and replacement. Empty patterns and repetitions as in [`PatternSet::new`].
    pub fn new(pairs: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> Self {
        let wrap = |(pattern, replacement)| Pair {
            pattern: Zeroizing::new(pattern),
            replacement: Zeroizing::new(replacement),
        };
        let pairs: Arc<[Pair]> = pairs.into_iter().map(wrap).collect();
        let patterns = PatternSet::new(pairs.iter().map(|pair| &*pair.pattern));
        Self { patterns, pairs, cover: Cover::default(), wrapped: None, kinds: None }
    }

    /// This rewriter for patterns that nobody who sees a stream go through may learn: what is held back
    /// does not depend on how they begin.
    #[must_use]
    pub fn covered(self) -> Self {
        let cover = Cover::over(self.pairs.iter().map(|pair| pair.pattern.as_slice()));
        Self { cover, ..self }
    }

    /// This rewriter, which first replaces patterns that line ends cut.
    #[must_use]
    pub(crate) fn behind(self, wrapped: Option<Arc<Wrapped>>) -> Self {
        Self { wrapped, ..self }
    }

    /// This rewriter, which tells what it has replaced.
    #[must_use]
    pub(crate) fn telling(self, kinds: Kinds) -> Self {
        Self { kinds: Some(Arc::new(kinds)), ..self }
    }

    /// Begins a stream.
    pub fn stream(&self) -> RewriteStream {
        let scanner = Scanner::under(self.cover, &self.patterns);
        let unwrapping = self.wrapped.as_ref().map(Unwrapping::new);
        let tally = Tally::default();
        RewriteStream { rewriter: self.clone(), unwrapping, scanner, replaced: 0, tally }
    }

    /// Rewrites a whole message at once; borrowed if there was nothing to replace.
    pub fn rewrite<'a>(&self, whole: &'a [u8]) -> Cow<'a, [u8]> {
        self.rewrite_and_tell(whole, &mut Tally::default())
    }

    /// As [`Self::rewrite`], and counts what a scrubber has replaced.
    pub fn rewrite_and_tell<'a>(&self, whole: &'a [u8], tally: &mut Tally) -> Cow<'a, [u8]> {
        let wrapped = self.wrapped.as_ref();
        match wrapped.and_then(|wrapped| wrapped.rewrite(whole, |id| self.note_wrapped(id, tally)))
        {
            Some(text) => Cow::Owned(self.rewrite_lines(&text, tally).into_owned()),
            None => self.rewrite_lines(whole, tally),
        }
    }

    fn note(&self, id: PatternId, tally: &mut Tally) {
        if let Some(kinds) = &self.kinds {
            let (value, form) = kinds.pairs[id.index()];
            tally.note_as(value, form);
        }
    }

    fn note_wrapped(&self, id: PatternId, tally: &mut Tally) {
        if let Some(kinds) = &self.kinds {
            let (value, form) = kinds.wrapped[id.index()];
            tally.note_as(value, form);
        }
    }

    fn rewrite_lines<'a>(&self, whole: &'a [u8], tally: &mut Tally) -> Cow<'a, [u8]> {
        let mut read = 0;
        let mut out: Option<Vec<u8>> = None;
        while let Some((place, id)) = self.patterns.find(whole, read) {
            let out = out.get_or_insert_with(|| Vec::with_capacity(whole.len()));
            out.extend_from_slice(&whole[read..place.start]);
            out.extend_from_slice(&self.pairs[id.index()].replacement);
            self.note(id, tally);
            read = place.end;
        }
        if let Some(out) = &mut out {
            out.extend_from_slice(&whole[read..]);
        }
        out.map_or(Cow::Borrowed(whole), Cow::Owned)
    }

    /// Whether there is nothing to replace.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The patterns, by index in the order of the pairs.
    pub fn patterns(&self) -> &PatternSet {
        &self.patterns
    }
}

impl fmt::Debug for Rewriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rewriter").field("patterns", &self.patterns).finish_non_exhaustive()
    }
}

/// One stream on its way through a [`Rewriter`].
pub struct RewriteStream {
    rewriter: Rewriter,
    unwrapping: Option<Unwrapping>,
    scanner: Scanner,
    replaced: u64,
    tally: Tally,
}

/// A part of what comes out.
enum Out<'a> {
    /// This range of the chunk just fed.
    Chunk(Range<usize>),
    Other(&'a [u8]),
}

impl RewriteStream {
    /// Takes the next chunk and appends to `out` all that is now decided.
    pub fn feed(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        self.pass(chunk, |part| match part {
            Out::Chunk(range) => out.extend_from_slice(&chunk[range]),
            Out::Other(bytes) => out.extend_from_slice(bytes),
        });
    }

    /// As [`feed`](Self::feed); but if all that is now decided is one plain range of the chunk, it
    /// gives that range and appends nothing, so that the caller can pass it on without a copy.
    pub fn feed_or_slice(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Option<Range<usize>> {
        let (mut plain, mut first) = (None, true);
        self.pass(chunk, |part| {
            if let (true, Out::Chunk(range)) = (first, &part) {
                plain = Some(range.clone());
            } else {
                if let Some(range) = plain.take() {
                    out.extend_from_slice(&chunk[range]);
                }
                match part {
                    Out::Chunk(range) => out.extend_from_slice(&chunk[range]),
                    Out::Other(bytes) => out.extend_from_slice(bytes),
                }
            }
            first = false;
        });
        plain
    }

    /// Takes the end of the stream and appends what was held back. Another may then begin.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let Self { rewriter, unwrapping, scanner, replaced, tally } = self;
        let mut line = Line { rewriter, scanner, replaced, tally };
        let mut sink = |part: Out<'_>| {
            if let Out::Other(bytes) = part {
                out.extend_from_slice(bytes);
            }
        };
        if let Some(unwrapping) = unwrapping {
            unwrapping.finish(|passed| line.take(passed, &[], &mut sink));
        }
        line.finish(&mut sink);
    }

    fn pass(&mut self, chunk: &[u8], mut sink: impl FnMut(Out<'_>)) {
        let Self { rewriter, unwrapping, scanner, replaced, tally } = self;
        let mut line = Line { rewriter, scanner, replaced, tally };
        match unwrapping {
            Some(unwrapping) => {
                unwrapping.feed(chunk, |passed| line.take(passed, chunk, &mut sink));
            }
            None => line.take(Passed::Chunk(0..chunk.len()), chunk, &mut sink),
        }
    }

    /// Number of replacements so far.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    /// What a scrubber's stream has replaced since it was last asked.
    pub fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Number of bytes held back now.
    pub fn held(&self) -> usize {
        self.scanner.held() + self.unwrapping.as_ref().map_or(0, Unwrapping::held)
    }
}

/// What is behind the search for what line ends cut.
struct Line<'s> {
    rewriter: &'s Rewriter,
    scanner: &'s mut Scanner,
    replaced: &'s mut u64,
    tally: &'s mut Tally,
}

impl Line<'_> {
    fn take(&mut self, passed: Passed<'_>, chunk: &[u8], sink: &mut impl FnMut(Out<'_>)) {
        let (bytes, start) = match passed {
            Passed::Chunk(range) => (&chunk[range.clone()], Some(range.start)),
            Passed::Other(bytes) => (bytes, None),
            Passed::Marker(id, bytes) => {
                *self.replaced += 1;
                self.rewriter.note_wrapped(id, self.tally);
                (bytes, None)
            }
        };
        let Self { rewriter, scanner, replaced, tally } = self;
        scanner.feed(bytes, |piece| match (piece, start) {
            (Piece::Chunk(range), Some(start)) => {
                sink(Out::Chunk(start + range.start..start + range.end));
            }
            (Piece::Chunk(range), None) => sink(Out::Other(&bytes[range])),
            (Piece::Held(bytes), _) => sink(Out::Other(bytes)),
            (Piece::Match(id), _) => {
                **replaced += 1;
                rewriter.note(id, tally);
                sink(Out::Other(&rewriter.pairs[id.index()].replacement));
            }
        });
    }

    fn finish(self, sink: &mut impl FnMut(Out<'_>)) {
        let Self { rewriter, scanner, replaced, tally } = self;
        scanner.finish(|piece| match piece {
            Piece::Chunk(_) => {}
            Piece::Held(bytes) => sink(Out::Other(bytes)),
            Piece::Match(id) => {
                *replaced += 1;
                rewriter.note(id, tally);
                sink(Out::Other(&rewriter.pairs[id.index()].replacement));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewriter(pairs: &[(&str, &str)]) -> Rewriter {
        Rewriter::new(pairs.iter().map(|(pattern, with)| ((*pattern).into(), (*with).into())))
    }

    #[test]
    fn a_replacement_is_not_searched_again() {
        let swap = rewriter(&[("ab", "xab"), ("xa", "!")]);
        assert_eq!(*swap.rewrite(b"abab"), *b"xabxab");
    }

    #[test]
    fn untouched_messages_are_borrowed() {
        let swap = rewriter(&[("placeholder", "value")]);
        assert!(matches!(swap.rewrite(b"no place for it: placehold"), Cow::Borrowed(_)));
    }

    #[test]
    fn replaced_counts_matches_in_chunks_and_at_the_end() {
        let mut stream = rewriter(&[("ab", "1"), ("abc", "2")]).stream();
        let mut out = Vec::new();
        stream.feed(b"abcab", &mut out);
        assert_eq!((out.as_slice(), stream.replaced(), stream.held()), (&b"2"[..], 1, 2));
        stream.finish(&mut out);
        assert_eq!((out.as_slice(), stream.replaced(), stream.held()), (&b"21"[..], 2, 0));
    }

    #[test]
    fn plain_chunks_are_passed_on_and_others_copied() {
        let mut stream = rewriter(&[("ab", "1")]).stream();
        let mut out = Vec::new();
        assert_eq!(stream.feed_or_slice(b"xyz", &mut out), Some(0..3));
        assert_eq!(stream.feed_or_slice(b"xya", &mut out), Some(0..2));
        assert_eq!((out.len(), stream.held()), (0, 1));
        assert_eq!(stream.feed_or_slice(b"bxx", &mut out), None);
        assert_eq!(stream.feed_or_slice(b"xabx", &mut out), None);
        assert_eq!((out.as_slice(), stream.replaced()), (&b"1xxx1x"[..], 2));
    }

    #[test]
    fn debug_shows_neither_side() {
        let text = format!("{:?}", rewriter(&[("hunter2", "kloak_1")]));
        assert_eq!(text, "Rewriter { patterns: PatternSet { len: 1, .. }, .. }");
    }
}
