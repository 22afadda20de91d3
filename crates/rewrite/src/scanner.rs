//! Searches a stream that arrives in chunks, and says of each byte what it is as soon as that is certain.
//!
//! Between chunks it keeps the bytes from the first place at which a pattern may still complete, and
//! nothing else but what a cover has wait with them. What becomes of a match is the caller's matter
//! (`rewriter.rs` is one such caller).

use core::ops::Range;

use zeroize::Zeroizing;

use crate::{
    cover::Cover,
    patterns::{Ending, Found, PatternId, PatternSet, Search},
};

/// A part of the stream whose fate is decided. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Plain bytes: this range of the chunk just fed, for callers who slice instead of copying.
    Chunk(Range<usize>),
    /// Plain bytes of earlier chunks, which were held back.
    Held(&'a [u8]),
    /// An occurrence of a pattern.
    Match(PatternId),
}

/// One pass over one stream. Small and cheap to make: one per message.
///
/// The pieces in order, each match as its pattern, are the input, byte for byte.
pub struct Scanner {
    patterns: PatternSet,
    held: Held,
    cover: Cover,
}

impl Scanner {
    /// A scanner at the start of a stream; it allocates only once it must hold bytes back.
    pub fn new(patterns: &PatternSet) -> Self {
        Self { patterns: patterns.clone(), held: Held::default(), cover: Cover::default() }
    }

    /// As [`Self::new`], under a cover.
    pub(crate) fn under(cover: Cover, patterns: &PatternSet) -> Self {
        Self { cover, ..Self::new(patterns) }
    }

    /// Takes the next chunk and gives `sink` every piece that is now decided.
    pub fn feed(&mut self, chunk: &[u8], mut sink: impl FnMut(Piece<'_>)) {
        let Self { patterns, held, cover } = self;
        let search = patterns.search();
        let covered = cover.begins(&held.0, chunk, search.longest());
        let covered_here = covered.saturating_sub(held.0.len());
        let Some(mut at) = held.settle(&search, chunk, covered, &mut sink) else { return };
        let mut plain = at;
        let decided = loop {
            match search.next(chunk, at, Ending::Open) {
                Found::Match { start, len, pattern } if start < covered_here => {
                    emit_chunk(plain..start, &mut sink);
                    sink(Piece::Match(pattern));
                    at = start + len;
                    plain = at;
                }
                Found::Nothing => break covered_here.max(at),
                Found::Match { start, .. } | Found::Undecided { start } => {
                    break start.min(covered_here).max(at);
                }
            }
        };
        emit_chunk(plain..decided, &mut sink);
        held.append(&chunk[decided..], search.longest());
    }

    /// Takes the end of the stream: nothing is held any more. The scanner may then begin another.
    pub fn finish(&mut self, mut sink: impl FnMut(Piece<'_>)) {
        let held = &self.held.0;
        let search = self.patterns.search();
        let mut plain = 0;
        while let Found::Match { start, len, pattern } = search.next(held, plain, Ending::Closed) {
            emit_held(&held[plain..start], &mut sink);
            sink(Piece::Match(pattern));
            plain = start + len;
        }
        emit_held(&held[plain..], &mut sink);
        self.held.0.clear();
    }

    /// Number of bytes held back now: less than the longest pattern has.
    pub fn held(&self) -> usize {
        self.held.0.len()
    }
}

/// The bytes from the first undecided place on. Part of a value perhaps, so zeroized.
#[derive(Default)]
struct Held(Zeroizing<Vec<u8>>);

impl Held {
    /// Enough of the next chunk to decide nearly always, and little to copy.
    const FIRST_LOAN: usize = 32;

    /// Decides about the held bytes with the help of `chunk`, as little of it as it takes, up to
    /// the place from which on they are `covered`, counted over both.
    ///
    /// Gives the place in `chunk` where the search goes on, or `None` if all of it is held as well.
    fn settle(
        &mut self,
        search: &Search<'_>,
        chunk: &[u8],
        covered: usize,
        sink: &mut impl FnMut(Piece<'_>),
    ) -> Option<usize> {
        let ours = self.0.len();
        let (mut at, mut plain, mut lent) = (0, 0, 0);
        while at < ours {
            if at >= covered {
                // What is covered is less than the longest pattern, so `chunk` is, too.
                self.append(&chunk[lent..], search.longest());
                emit_held(&self.0[plain..at], sink);
                self.0.drain(..at);
                return None;
            }
            match search.at(&self.0, at, Ending::Open) {
                Found::Match { len, pattern, .. } => {
                    emit_held(&self.0[plain..at], sink);
                    sink(Piece::Match(pattern));
                    at += len;
                    plain = at;
                }
                Found::Nothing => at += 1,
                Found::Undecided { .. } if lent < chunk.len() => {
                    let loan = (lent * 2).max(Self::FIRST_LOAN).min(search.longest());
                    let loan = loan.min(chunk.len());
                    self.append(&chunk[lent..loan], search.longest());
                    lent = loan;
                }
                Found::Undecided { .. } => {
                    emit_held(&self.0[plain..at], sink);
                    self.0.drain(..at);
                    return None;
                }
            }
        }
        emit_held(&self.0[plain.min(ours)..ours], sink);
        self.0.clear();
        Some(at - ours)
    }

    /// Appends without ever moving the bytes, which would leave a copy of them behind.
    fn append(&mut self, bytes: &[u8], longest: usize) {
        if bytes.is_empty() {
            return;
        }
        if self.0.capacity() == 0 {
            // Less than the longest pattern is held, and no more than that is lent.
            self.0.reserve_exact(longest * 2);
        }
        self.0.extend_from_slice(bytes);
    }
}

fn emit_chunk(range: Range<usize>, sink: &mut impl FnMut(Piece<'_>)) {
    if !range.is_empty() {
        sink(Piece::Chunk(range));
    }
}

fn emit_held(bytes: &[u8], sink: &mut impl FnMut(Piece<'_>)) {
    if !bytes.is_empty() {
        sink(Piece::Held(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the chunks and writes each piece down: plain bytes as they are, a match as `<id>`.
    fn run(patterns: &[&str], chunks: &[&str]) -> Vec<String> {
        let mut scanner = Scanner::new(&PatternSet::new(patterns));
        let mut seen = Vec::new();
        for chunk in chunks {
            scanner.feed(chunk.as_bytes(), |piece| seen.push(show(&piece, chunk)));
        }
        scanner.finish(|piece| seen.push(show(&piece, "")));
        seen
    }

    fn show(piece: &Piece<'_>, chunk: &str) -> String {
        match piece {
            Piece::Chunk(range) => chunk[range.clone()].to_owned(),
            Piece::Held(bytes) => format!("held {}", String::from_utf8_lossy(bytes)),
            Piece::Match(id) => format!("<{}>", id.index()),
        }
    }

    #[test]
    fn a_match_over_three_chunks() {
        assert_eq!(run(&["kloak_1"], &["a klo", "ak", "_1 b"]), ["a ", "<0>", " b"]);
    }

    #[test]
    fn a_false_start_is_given_as_held() {
        assert_eq!(run(&["kloak_1"], &["klo", "ck"]), ["held klo", "c", "held k"]);
    }

    #[test]
    fn the_start_of_another_match_hides_in_a_false_one() {
        assert_eq!(run(&["aab"], &["aa", "ab"]), ["held a", "<0>"]);
    }

    #[test]
    fn the_end_decides_for_the_shorter() {
        assert_eq!(run(&["ab", "abcd", "c"], &["ab", "c"]), ["<0>", "<2>"]);
    }

    #[test]
    fn a_scanner_starts_afresh_after_the_end() {
        let mut scanner = Scanner::new(&PatternSet::new(["abc"]));
        scanner.feed(b"ab", |_| panic!("undecided"));
        scanner.finish(|piece| assert_eq!(piece, Piece::Held(b"ab")));
        scanner.feed(b"c", |piece| assert_eq!(piece, Piece::Chunk(0..1)));
        assert_eq!(scanner.held(), 0);
    }
}
