//! Replaces patterns in a stream, each by its own replacement, in one pass.
//!
//! Replacements are never searched again, so a value that contains a placeholder goes out as it is.
//! Deliberately not here: which replacements a message is entitled to. A rewriter is built from
//! what was already decided.

use std::{borrow::Cow, fmt, ops::Range, sync::Arc};

use zeroize::Zeroizing;

use crate::{
    cover::Cover,
    patterns::PatternSet,
    scanner::{Piece, Scanner},
};

/// Patterns with a replacement each; a clone is a counted reference.
///
/// Either side may be secret: both are zeroized when the last clone goes.
#[derive(Clone)]
pub struct Rewriter {
    patterns: PatternSet,
    pairs: Arc<[Pair]>,
    cover: Cover,
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
        Self { patterns, pairs, cover: Cover::default() }
    }

    /// The same for patterns that nobody who sees a stream go through may learn: what is held back
    /// does not depend on how they begin.
    #[must_use]
    pub fn covered(self) -> Self {
        let cover = Cover::over(self.pairs.iter().map(|pair| pair.pattern.as_slice()));
        Self { cover, ..self }
    }

    /// Begins a stream.
    pub fn stream(&self) -> RewriteStream {
        let scanner = Scanner::under(self.cover, &self.patterns);
        RewriteStream { rewriter: self.clone(), scanner, replaced: 0 }
    }

    /// Rewrites a whole message at once; borrowed if there was nothing to replace.
    pub fn rewrite<'a>(&self, whole: &'a [u8]) -> Cow<'a, [u8]> {
        let mut read = 0;
        let mut out: Option<Vec<u8>> = None;
        while let Some((place, id)) = self.patterns.find(whole, read) {
            let out = out.get_or_insert_with(|| Vec::with_capacity(whole.len()));
            out.extend_from_slice(&whole[read..place.start]);
            out.extend_from_slice(&self.pairs[id.index()].replacement);
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

    /// Appends what `piece` becomes, and gives the number of replacements that it was.
    fn put(&self, piece: &Piece<'_>, chunk: &[u8], out: &mut Vec<u8>) -> u64 {
        match piece {
            Piece::Chunk(range) => out.extend_from_slice(&chunk[range.clone()]),
            Piece::Held(bytes) => out.extend_from_slice(bytes),
            Piece::Match(id) => {
                out.extend_from_slice(&self.pairs[id.index()].replacement);
                return 1;
            }
        }
        0
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
    scanner: Scanner,
    replaced: u64,
}

impl RewriteStream {
    /// Takes the next chunk and appends to `out` all that is now decided.
    pub fn feed(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        let Self { rewriter, scanner, replaced } = self;
        scanner.feed(chunk, |piece| *replaced += rewriter.put(&piece, chunk, out));
    }

    /// As [`feed`](Self::feed); but if all that is now decided is one plain range of the chunk, it
    /// gives that range and appends nothing, so that the caller can pass it on without a copy.
    pub fn feed_or_slice(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Option<Range<usize>> {
        let Self { rewriter, scanner, replaced } = self;
        let (mut plain, mut first) = (None, true);
        scanner.feed(chunk, |piece| {
            if let (true, Piece::Chunk(range)) = (first, &piece) {
                plain = Some(range.clone());
            } else {
                if let Some(range) = plain.take() {
                    out.extend_from_slice(&chunk[range]);
                }
                *replaced += rewriter.put(&piece, chunk, out);
            }
            first = false;
        });
        plain
    }

    /// Takes the end of the stream and appends what was held back. Another may then begin.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let Self { rewriter, scanner, replaced } = self;
        scanner.finish(|piece| *replaced += rewriter.put(&piece, &[], out));
    }

    /// Number of replacements so far.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    /// Number of bytes held back now.
    pub fn held(&self) -> usize {
        self.scanner.held()
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
