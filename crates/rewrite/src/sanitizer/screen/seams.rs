//! Tells at which escapes a value may be broken, so that only then all are undone to look at what it leaves.
//!
//! JSON writes a line end as `\n` and a colour as `\u001b[31m`, and most texts of several lines have no value in them.
//! Where a thinned view of what is undone contains a pattern, its residue contains the pattern's (`screen.rs`), and
//! half of that stands before the first escape in it, where nothing is undone, or from there on. An escape that leaves
//! what its text leaves is no seam: the residue of the text as it stands shows what is there.

use std::ops::Range;

use memchr::{memchr, memrchr};
use zeroize::Zeroizing;

use super::{ESC, RESIDUE, Sequences, of_pattern, residues_of};
use crate::{
    patterns::{Bitmap, word},
    sanitizer::view::{self, Escape, Escaping},
};

/// The longest gram that is known, in bytes.
const MAX_WIDTH: usize = 8;
/// As much of a residue as is asked for: with many values some grams are known that are none of theirs.
const MAX_SPAN: usize = 16;
/// What is looked at first, and how far.
const NEAR_WIDTH: usize = 4;
const MAX_NEAR: usize = 32;
/// How far is looked to either side of an escape, in bytes that are shown and others escapes.
const MAX_STEPS: usize = 128;
/// How far is looked to either side of an escape where letters are coloured, in bytes.
const MAX_COLOURED: usize = 512;
/// No parameters of a terminal's sequence leave more, where it is cut.
const MAX_CUT: usize = 20;
/// No sequence that is left out is longer.
const MAX_SEQUENCE: usize = MAX_CUT + 4;

/// What is known of the residues of the patterns of thinned views.
pub(in crate::sanitizer) struct Seams {
    /// Everything of `width` bytes that one of them contains.
    grams: Bitmap,
    width: usize,
    /// Half of the shortest, or enough of it.
    span: usize,
    /// As `grams`, but of `near_width` bytes, which rule out most escapes.
    near: Bitmap,
    near_width: usize,
}

/// A residue that grows to one side.
struct Trail<'s> {
    seams: &'s Seams,
    /// Its last gram.
    word: u64,
    length: usize,
}

impl Seams {
    /// For these patterns, each of which leaves something.
    pub(in crate::sanitizer) fn new<'p>(patterns: impl Iterator<Item = &'p [u8]>) -> Self {
        let residues: Vec<_> = patterns.map(of_pattern).collect();
        let lengths = || residues.iter().map(|residue| residue.len());
        let span = (lengths().min().unwrap_or(0) / 2).clamp(1, MAX_SPAN);
        let width = span.min(MAX_WIDTH);
        let mut grams = Bitmap::new(lengths().sum::<usize>() * 2);
        for gram in residues.iter().flat_map(|residue| residue.windows(width)) {
            grams.insert(word(gram));
            grams.insert(other(word(gram)));
        }
        let near_width = width.min(NEAR_WIDTH);
        let mut near = Bitmap::new(lengths().sum());
        for gram in residues.iter().flat_map(|residue| residue.windows(near_width)) {
            near.insert(word(gram));
        }
        Self { grams, width, span, near, near_width }
    }

    /// Whether an escape leaves the same when it is undone.
    pub(super) fn leaves_all(text: &[u8], escaping: Escaping, escape: &Escape) -> bool {
        if escaping == Escaping::Percent {
            return false;
        }
        let written = &text[escape.at..escape.at + escape.length];
        residues_of(written).eq(residues_of(escape.symbol.bytes()))
    }

    /// Whether a value may be broken at this escape, or have it inside and be broken elsewhere. It stands for these bytes.
    #[inline]
    pub(super) fn may_be_at(
        &self,
        text: &[u8],
        escape: Range<usize>,
        symbol: &[u8],
        escaping: Escaping,
        raw: Sequences,
    ) -> bool {
        let (before, from) = (&text[..escape.start], &text[escape.start..]);
        let follows = match (raw, self.unknown_before(before)) {
            (Sequences::Strings, _) | (_, None) => true,
            (Sequences::None, Some(_)) => false,
            (Sequences::Plain, Some(from)) => {
                has_sequence_behind(before, from) && self.ends_coloured(before)
            }
        };
        follows
            || !self.is_unknown_behind(symbol, &text[escape.end..], escaping)
                && self.begins(from, escaping)
    }

    /// Where the last of this begins that is no end of such a residue, if there is so much; the nearest gram, which is none of
    /// a pattern in the common case, tells that fast.
    #[inline]
    fn unknown_before(&self, text: &[u8]) -> Option<usize> {
        let (mut gram, mut length) = (0, 0);
        for (at, byte) in text.iter().enumerate().rev().take(MAX_NEAR) {
            let residue = RESIDUE[usize::from(*byte)];
            if residue != 0 {
                gram = gram << 8 | u64::from(residue);
                length += 1;
                if length == self.near_width {
                    if self.near.known(gram) == 0 {
                        return Some(at);
                    }
                    break;
                }
            }
        }
        self.unknown_trail_before(text)
    }

    fn unknown_trail_before(&self, text: &[u8]) -> Option<usize> {
        let mut trail = Trail::new(self);
        for (at, byte) in text.iter().enumerate().rev().take(MAX_STEPS) {
            if let Some(is_known) = trail.goes_back(RESIDUE[usize::from(*byte)]) {
                return (!is_known).then_some(at);
            }
        }
        (text.len() <= MAX_STEPS).then_some(0)
    }

    /// Whether the nearest gram from an escape on, which stands for this, is none of a pattern.
    #[inline]
    fn is_unknown_behind(&self, symbol: &[u8], rest: &[u8], escaping: Escaping) -> bool {
        let (mut gram, mut length) = (0, 0);
        let mut grows = |residue: u8| {
            gram |= u64::from(residue) << (8 * length);
            length += usize::from(residue != 0);
            (length == self.near_width).then_some(gram)
        };
        for byte in symbol {
            if *byte == ESC {
                return false;
            }
            if let Some(gram) = grows(RESIDUE[usize::from(*byte)]) {
                return self.near.known(gram) == 0;
            }
        }
        for pair in rest.windows(2).take(MAX_NEAR) {
            let is_more = match escaping {
                Escaping::Percent => pair[0] == b'%' && pair[1] >= b'0',
                Escaping::Text => {
                    pair[0] == b'\\' && pair[1] != b'"' || pair[0] == b'&' && pair[1] > b' '
                }
            };
            // Another, or a sequence.
            if is_more || pair[0] == ESC {
                return false;
            }
            if let Some(gram) = grows(RESIDUE[usize::from(pair[0])]) {
                return self.near.known(gram) == 0;
            }
        }
        false
    }

    #[inline]
    fn knows(&self, gram: u64) -> bool {
        self.grams.known(gram) != 0 && self.grams.known(other(gram)) != 0
    }

    /// Whether such a residue ends with this, which has sequences near its end.
    fn ends_coloured(&self, text: &[u8]) -> bool {
        let near = &text[text.len().saturating_sub(MAX_COLOURED)..];
        let Some(residue) = shown(near) else { return true };
        let is_enough = near.len() == text.len() || residue.len() >= self.span + MAX_CUT;
        let mut trail = Trail::new(self);
        !is_enough || residue.iter().rev().find_map(|byte| trail.goes_back(*byte)) == Some(true)
    }

    /// Whether such a residue begins with this, once it is undone.
    fn begins(&self, text: &[u8], escaping: Escaping) -> bool {
        let mut trail = Trail::new(self);
        let mut rest = text;
        for _ in 0..MAX_STEPS {
            // The text ends before a match would.
            let Some(first) = rest.first() else { return false };
            let escape = if escaping.begins(*first) { escaping.at(rest, 0) } else { None };
            let bytes = escape.as_ref().map_or(&rest[..1], |escape| escape.symbol.bytes());
            for byte in bytes {
                if *byte == ESC {
                    return self.begins_coloured(text, escaping);
                }
                if let Some(is_known) = trail.goes_on(RESIDUE[usize::from(*byte)]) {
                    return is_known;
                }
            }
            rest = &rest[escape.map_or(1, |escape| escape.length)..];
        }
        true
    }

    fn begins_coloured(&self, mut rest: &[u8], escaping: Escaping) -> bool {
        let mut undone = Zeroizing::new(Vec::with_capacity(MAX_COLOURED + 4));
        while let Some(first) = rest.first()
            && undone.len() < MAX_COLOURED
        {
            let escape = if escaping.begins(*first) { escaping.at(rest, 0) } else { None };
            undone.extend_from_slice(escape.as_ref().map_or(&rest[..1], |one| one.symbol.bytes()));
            rest = &rest[escape.map_or(1, |escape| escape.length)..];
        }
        let Some(residue) = shown(&undone) else { return true };
        let mut trail = Trail::new(self);
        let is_known = residue.iter().find_map(|byte| trail.goes_on(*byte));
        is_known.unwrap_or(!rest.is_empty())
    }
}

impl<'s> Trail<'s> {
    fn new(seams: &'s Seams) -> Self {
        Self { seams, word: 0, length: 0 }
    }

    /// Whether it is known, once that can be told, with this at its end.
    fn goes_on(&mut self, residue: u8) -> Option<bool> {
        let last = 8 * (self.seams.width - 1);
        let word = self.word >> 8 | u64::from(residue) << last;
        self.grows(residue, word)
    }

    /// Whether it is known, once that can be told, with this before its beginning.
    fn goes_back(&mut self, residue: u8) -> Option<bool> {
        let unused = 64 - 8 * self.seams.width;
        let word = (self.word << 8 | u64::from(residue)) << unused >> unused;
        self.grows(residue, word)
    }

    fn grows(&mut self, residue: u8, word: u64) -> Option<bool> {
        if residue == 0 {
            return None;
        }
        self.word = word;
        self.length += 1;
        if self.length < self.seams.width {
            None
        } else if !self.seams.knows(word) {
            Some(false)
        } else {
            (self.length >= self.seams.span).then_some(true)
        }
    }
}

/// Whether some of the bytes from here on belong to a sequence.
#[inline]
#[expect(
    clippy::needless_bitwise_bool,
    reason = "without a branch it is done for many bytes at once"
)]
fn has_sequence_behind(text: &[u8], from: usize) -> bool {
    if let Some(near) = text.last_chunk::<{ MAX_SEQUENCE + MAX_NEAR }>()
        && text.len() - from <= MAX_NEAR
        && !near.iter().fold(false, |any, byte| any | (*byte == ESC))
    {
        return false;
    }
    let near = from.saturating_sub(MAX_SEQUENCE);
    memrchr(ESC, &text[near..]).is_some_and(|at| {
        let sequence = &text[near + at..];
        near + at + view::unseen(sequence) > from || view::goes_on(sequence)
    })
}

/// Stands for a gram at a second place of the set, so that hardly any other is taken for it.
pub(super) fn other(word: u64) -> u64 {
    !word.rotate_left(29)
}

/// The residue of this without sequences of a terminal; nothing where what stands before it or behind it may be of one,
/// or of a string.
fn shown(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut residue = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text;
    while let Some(at) = memchr(ESC, rest) {
        let sequence = &rest[at..];
        let is_odd = |next: &u8| *next == ESC || view::is_string(*next);
        if view::goes_on(sequence) || sequence.get(1).is_some_and(is_odd) {
            return None;
        }
        residue.extend(residues_of(&rest[..at]));
        rest = &sequence[view::unseen(sequence)..];
    }
    residue.extend(residues_of(rest));
    Some(residue)
}
