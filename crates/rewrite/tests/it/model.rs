//! The naive search over a whole buffer: what the engine does, written to be obviously right.

use keyless_rewrite::PatternId;
use proptest::{collection::vec, prelude::*};

/// A part of the text, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Plain(u8),
    Match(PatternId),
}

/// Leftmost, then longest, then first; goes on behind the match.
pub(crate) fn parts(patterns: &[Vec<u8>], text: &[u8]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if let Some(id) = longest_at(patterns, &text[at..]) {
            at += patterns[id].len();
            parts.push(Part::Match(PatternId(u32::try_from(id).expect("few patterns"))));
        } else {
            parts.push(Part::Plain(text[at]));
            at += 1;
        }
    }
    parts
}

/// The first place, behind all decided matches, from where `text` may still become a match.
pub(crate) fn undecided(patterns: &[Vec<u8>], text: &[u8]) -> usize {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if patterns.iter().any(|p| p.len() > rest.len() && p.starts_with(rest)) {
            return at;
        }
        at += longest_at(patterns, rest).map_or(1, |id| patterns[id].len());
    }
    at
}

fn longest_at(patterns: &[Vec<u8>], text: &[u8]) -> Option<usize> {
    (0..patterns.len())
        .filter(|&id| !patterns[id].is_empty() && text.starts_with(&patterns[id]))
        .max_by_key(|&id| (patterns[id].len(), core::cmp::Reverse(id)))
}

/// Cuts `text` into chunks of these sizes, over and over; a size of 0 gives an empty chunk.
pub(crate) fn cut<'a>(mut text: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    let mut sizes = sizes.iter().chain([&1]).cycle();
    while !text.is_empty() {
        let size = *sizes.next().expect("the iterator never ends");
        let (chunk, rest) = text.split_at(size.min(text.len()));
        chunks.push(chunk);
        text = rest;
    }
    chunks
}

/// Sizes of chunks, small ones more often than large ones.
pub(crate) fn sizes() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![4 => 0_usize..4, 2 => 4_usize..40, 1 => 40_usize..400], 0..6)
}
