//! Tells in one pass where a value may stand, so that the views are made of those places alone.
//!
//! The views leave bytes out and make letters small. The residue of a text is what is left when all is gone
//! that any of them leaves out, and all letters are small: beside the sequences of a terminal it takes no more than a
//! look into a table for a byte. What a view has in a row, the residue has in a row; so where a view contains
//! a pattern, the residue of the text contains the residue of the pattern, and where it doesn't, no
//! view has to be made. What is found here is only a suspicion.

mod escapes;
mod seams;

use std::{iter, ops::Range};

use memchr::memchr;
use zeroize::Zeroizing;

pub(super) use self::{
    escapes::{EscapeScreen, Escapes, Suspicion},
    seams::Seams,
};
use super::{
    packed,
    view::{self, Room},
};
use crate::patterns::{Bitmap, PatternSet, first_word, word};

/// Patterns of the text as it stands that leave less are looked for in all of it: they'd be suspected everywhere.
pub(super) const MIN_EXACT: usize = 6;
/// A pattern of a view that leaves less can't be screened for.
const MIN_THINNED: usize = 4;
/// How many bytes of a text have a mark.
const STRIDE: usize = 64;
/// Where its residue is put: what is written last may have nothing in it.
const ROOM: usize = STRIDE + 2;
const ESC: u8 = 0x1b;

/// What to suspect.
pub(super) struct Screen {
    residues: PatternSet,
    /// How far from where a suspicion begins its match can reach, in bytes of the residue.
    reach: usize,
    /// There are patterns of the text as it stands that are not screened for.
    has_short: bool,
    /// How the others begin.
    beginnings: Beginnings,
}

/// The first bytes of patterns of the text as it stands.
struct Beginnings {
    grams: Bitmap,
    width: usize,
    /// Some have a terminal's sequence in them.
    has_escape: bool,
}

/// What the screen lets through.
pub(super) struct Suspects {
    /// The parts of the text to look at, in order.
    pub(super) parts: Vec<Range<usize>>,
    /// All of the text is to be looked at as it stands.
    pub(super) exact_everywhere: bool,
    pub(super) sequences: Sequences,
    /// Where the strides begin in which something packed may.
    pub(super) packed: Vec<usize>,
}

/// The terminal's sequences that stand in a text as such.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sequences {
    None,
    Plain,
    /// Some may begin strings, which a terminal keeps to itself, however long.
    Strings,
}

impl Screen {
    /// For the patterns of the text as it stands, and those of its thinned views; no value nor pattern is longer than
    /// `longest`. Nothing if one of them can't be screened for.
    pub(super) fn new<'p>(
        exact: impl Iterator<Item = &'p [u8]>,
        thinned: impl Iterator<Item = &'p [u8]>,
        longest: usize,
    ) -> Option<Self> {
        let (long, short): (Vec<_>, Vec<_>) =
            exact.partition(|pattern| of_pattern(pattern).len() >= MIN_EXACT);
        let residues: Vec<_> = long.iter().copied().chain(thinned).map(of_pattern).collect();
        let can_screen = residues.iter().all(|residue| residue.len() >= MIN_THINNED);
        can_screen.then(|| Self {
            residues: PatternSet::new(residues.iter().map(|residue| residue.as_slice())),
            reach: longest + 1,
            has_short: !short.is_empty(),
            beginnings: Beginnings::of(&long),
        })
    }

    /// Looks at a text; `room` is for its residue.
    pub(super) fn suspects(&self, text: &[u8], room: &mut Room) -> Suspects {
        let mut residue = Residue::of(text, room, &self.beginnings);
        let mut hits = std::mem::take(&mut residue.begun);
        let mut from = 0;
        while let Some((hit, _)) = self.residues.find(residue.bytes, from) {
            hits.push(hit.start);
            // Another may begin within it.
            from = hit.start + 1;
        }
        hits.sort_unstable();
        let mut parts: Vec<Range<usize>> = Vec::new();
        for hit in hits {
            // The match itself, and a rest of the value on either side.
            let part = residue.around(hit, self.reach..self.reach * 2);
            match parts.last_mut() {
                Some(last) if part.start <= last.end => last.end = part.end,
                _ => parts.push(part),
            }
        }
        let exact_everywhere = self.has_short || residue.is_cut;
        let Residue { sequences, packed, .. } = residue;
        Suspects { parts, exact_everywhere, sequences, packed }
    }
}

impl Suspects {
    /// Without a screen, all of it.
    pub(super) fn all_of(text: &[u8]) -> Self {
        let parts = iter::once(0..text.len()).collect();
        let strides = text.chunks(STRIDE).zip((0..).step_by(STRIDE));
        let packed = strides
            .filter(|(stride, _)| hints(stride).next().is_some())
            .map(|(_, at)| at)
            .collect();
        Self { parts, exact_everywhere: false, sequences: Sequences::Strings, packed }
    }

    /// Where something packed seems to begin.
    pub(super) fn packed(&self, text: &[u8]) -> impl Iterator<Item = usize> {
        let hinted = self.packed.iter().flat_map(|start| {
            let stride = &text[*start..text.len().min(start + STRIDE)];
            hints(stride).map(move |at| start + at)
        });
        // Where a hint is, or before it, which may be in the stride before.
        let places = hinted.flat_map(|at| at.saturating_sub(packed::BEFORE_HINT)..=at);
        places.filter(|at| packed::begins(&text[*at..]))
    }
}

/// The pairs with which something packed may begin.
fn hints(stride: &[u8]) -> impl Iterator<Item = usize> {
    let (pairs, _) = stride.as_chunks();
    let is_hint = |pair: &[u8; 2]| PAIRS[usize::from(u16::from_le_bytes(*pair))].is_hint != 0;
    (0..).step_by(2).zip(pairs).filter(move |(_, pair)| is_hint(pair)).map(|(at, _)| at)
}

impl Beginnings {
    fn of(patterns: &[&[u8]]) -> Self {
        let width = patterns.iter().map(|pattern| pattern.len()).min().unwrap_or(1).min(8);
        let mut grams = Bitmap::new(patterns.len());
        for pattern in patterns {
            grams.insert(word(&pattern[..width]));
        }
        let has_escape = patterns.iter().any(|pattern| pattern.contains(&ESC));
        Self { grams, width, has_escape }
    }

    /// Whether a pattern may begin with this.
    fn may_be(&self, text: &[u8]) -> bool {
        first_word(text, self.width).is_some_and(|gram| self.grams.known(gram) != 0)
    }
}

/// What is left of a text, and the way back.
struct Residue<'a> {
    bytes: &'a [u8],
    marks: Vec<Mark>,
    end: usize,
    /// Sequences of a terminal were left out: a pattern that has one is not found.
    is_cut: bool,
    /// Where one was left out in which a pattern may begin, in bytes of the residue.
    begun: Vec<usize>,
    /// What was left out.
    sequences: Sequences,
    /// Where the strides begin in which something packed may.
    packed: Vec<usize>,
}

/// A place in the text, and how many bytes of the residue come from before it.
#[derive(Clone, Copy)]
struct Mark {
    there: usize,
    here: usize,
}

impl<'a> Residue<'a> {
    fn of(text: &[u8], room: &'a mut Room, beginnings: &Beginnings) -> Self {
        let room = view::make_filled_room(room, text.len() + ROOM);
        let mut marks = Vec::with_capacity(text.len() / STRIDE + 1);
        let mut mark = Mark { there: 0, here: 0 };
        let (mut begun, mut packed) = (Vec::new(), Vec::new());
        let mut sequences = Sequences::None;
        let mut is_cut = false;
        loop {
            let rest = &text[mark.there..];
            let shown = memchr(ESC, rest).unwrap_or(rest.len());
            mark.squeeze(&rest[..shown], room, &mut marks, &mut packed);
            let sequence = &rest[shown..];
            if sequence.is_empty() {
                break;
            }
            let length = view::unseen(sequence);
            is_cut |= beginnings.has_escape;
            if (1..length).any(|at| beginnings.may_be(&sequence[at..])) {
                begun.push(mark.here);
            }
            // One that is itself left out, too, may begin a string.
            if sequence.get(1).is_some_and(|one| *one == ESC || view::is_string(*one)) {
                sequences = Sequences::Strings;
            } else if sequences == Sequences::None {
                sequences = Sequences::Plain;
            }
            mark.there += length;
        }
        let (bytes, end) = (&room[..mark.here], text.len());
        Self { bytes, marks, end, is_cut, begun, sequences, packed }
    }

    /// The stretch of the text with the byte at `here`, at least as many bytes of the residue before it as the first number
    /// says, and what the second says from there on; with all that is left out before and between them.
    fn around(&self, here: usize, reach: Range<usize>) -> Range<usize> {
        let start = here.checked_sub(reach.start).map_or(0, |first| {
            let after = self.marks.partition_point(|mark| mark.here <= first);
            after.checked_sub(1).map_or(0, |at| self.marks[at].there)
        });
        let after = self.marks.partition_point(|mark| mark.here <= here + reach.end);
        start..self.marks.get(after).map_or(self.end, |mark| mark.there)
    }
}

impl Mark {
    /// Moves over this, which has no sequence of a terminal.
    fn squeeze(
        &mut self,
        mut shown: &[u8],
        room: &mut [u8],
        marks: &mut Vec<Self>,
        packed: &mut Vec<usize>,
    ) {
        while let Some(first) = shown.first() {
            if may_begin(*first) {
                marks.push(*self);
            }
            let room = &mut room[self.here..];
            let room = room.first_chunk_mut().expect("more than a stride");
            let (squeezed, done) = if let Some((block, rest)) = shown.split_first_chunk::<STRIDE>()
            {
                shown = rest;
                (squeezed(block, room), STRIDE)
            } else {
                (squeezed(shown, room), std::mem::take(&mut shown).len())
            };
            if squeezed.has_hint {
                packed.push(self.there);
            }
            self.here += squeezed.length;
            self.there += done;
        }
    }
}

/// What came of a stride.
struct Squeezed {
    /// Of its residue.
    length: usize,
    /// Something packed may begin in it.
    has_hint: bool,
}

/// Puts the residue of at most a stride at the beginning of `room`.
#[inline]
fn squeezed(block: &[u8], room: &mut [u8; ROOM]) -> Squeezed {
    let (mut length, mut hints) = (0, 0);
    let (pairs, rest) = block.as_chunks();
    for pair in pairs {
        let pair = PAIRS[usize::from(u16::from_le_bytes(*pair))];
        let Pair { residue, length: more, is_hint } = pair;
        hints |= is_hint;
        // Without a branch: what goes comes too irregularly to be foreseen.
        let at = length % STRIDE;
        room[at..at + 2].copy_from_slice(&residue);
        length += usize::from(more);
    }
    if let [last] = rest {
        room[length % STRIDE] = RESIDUE[usize::from(*last)];
        length += usize::from(RESIDUE[usize::from(*last)] != 0);
    }
    Squeezed { length, has_hint: hints != 0 }
}

/// Whether a part may begin with this: not behind what an `x` takes back in a view, nor in a character.
fn may_begin(byte: u8) -> bool {
    !view::is_x(byte) && byte & 0xc0 != 0x80
}

/// What is left of a pattern.
pub(super) fn of_pattern(pattern: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut residue = Zeroizing::new(Vec::with_capacity(pattern.len()));
    residue.extend(residues_of(pattern));
    residue
}

fn residues_of(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().map(|byte| RESIDUE[usize::from(*byte)]).filter(|byte| *byte != 0)
}

/// What stays of a byte; 0 when it goes.
static RESIDUE: [u8; 256] = RESIDUES;
const RESIDUES: [u8; 256] = residues();

const fn residues() -> [u8; 256] {
    let mut residues = [0; 256];
    let mut at = 0;
    while at < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "it is below 256")]
        let byte = at as u8;
        residues[at] = match byte {
            // What a thinned view leaves out by itself, or with an `x`; and every byte of the characters of no width,
            // wherever it stands, so that these need not be looked for.
            0..=b' '
            | b'0'
            | b'x'
            | b'X'
            | 0x7f..=0xaf
            | 0xb8
            | 0xbb
            | 0xbf
            | 0xc2
            | 0xe2
            | 0xef => 0,
            _ if view::is_separator(byte) => 0,
            _ => byte.to_ascii_lowercase(),
        };
        at += 1;
    }
    residues
}

/// What stays of two bytes, and whether something packed may begin with them; four bytes, which are read at once.
#[derive(Clone, Copy)]
#[repr(align(4))]
struct Pair {
    residue: [u8; 2],
    length: u8,
    is_hint: u8,
}

/// As `RESIDUE`, but for every two bytes, the first of them the lower.
static PAIRS: [Pair; 1 << 16] = pairs();

#[expect(clippy::large_stack_arrays, reason = "it is on no stack but the compiler's")]
const fn pairs() -> [Pair; 1 << 16] {
    let mut pairs = [Pair { residue: [0; 2], length: 0, is_hint: 0 }; 1 << 16];
    let mut at = 0;
    while at < pairs.len() {
        #[expect(clippy::cast_possible_truncation, reason = "each is below 256")]
        let is_hint = packed::is_hint((at & 0xff) as u8, (at >> 8) as u8) as u8;
        let (first, second) = (RESIDUES[at & 0xff], RESIDUES[at >> 8]);
        let residue = if first == 0 { [second, 0] } else { [first, second] };
        let length = (first != 0) as u8 + (second != 0) as u8;
        pairs[at] = Pair { residue, length, is_hint };
        at += 1;
    }
    pairs
}
