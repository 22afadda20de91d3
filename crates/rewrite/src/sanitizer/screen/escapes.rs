//! Tells which escapes of a text may stand in a value, or beside one, so that only what is around these is undone.
//!
//! Programs escape quotes and line ends all the time, and values hardly ever. An escape matters where the byte that
//! it stands for is one of a pattern, and as many bytes of a pattern as the screen knows stand before it or behind it:
//! a pattern with the escape in it or at its end is at least twice as long, so it goes on that far to one side. Before
//! the first such escape of a match nothing is escaped, so that side is looked at in the text as it stands. A match with
//! no escape at all is found without this. What is escaped twice has an escape that stands for a part of another; then
//! everything is undone.

use std::{iter, ops::Range};

use zeroize::Zeroizing;

use super::super::{
    is_symbol,
    view::{Escape, Escaping, Room, View},
};
use crate::patterns::{Bitmap, word};

/// One escape in this many bytes, or more: then it costs less to undo all than to ask for each.
const DENSE: usize = 12;
/// The most escapes that are looked at behind one.
const MAX_STEPS: usize = 16;
/// The longest gram that is known, in bytes.
const MAX_WIDTH: usize = 8;

/// What is known of the patterns of a text whose escapes were undone.
pub(in crate::sanitizer) struct EscapeScreen {
    /// Which bytes they are made of, and the symbols that are stretched over beside them.
    bytes: Zeroizing<Vec<bool>>,
    /// Everything of `width` bytes that one of them contains.
    grams: Bitmap,
    width: usize,
    /// How far from an escape a match with it goes, in bytes of the view.
    reach: usize,
}

/// The escapes of a text.
pub(in crate::sanitizer) struct Escapes<'t> {
    text: &'t [u8],
    escaping: Escaping,
    all: Vec<Place>,
    /// What is undone may be undone again.
    pub(in crate::sanitizer) may_be_twice: bool,
}

/// Where an escape stands, but not for what: that may be a part of a value.
struct Place {
    at: usize,
    length: usize,
    /// Where its symbol begins in the view, and how many bytes that has.
    here: usize,
    width: usize,
    /// They may stand in a match.
    may_match: bool,
}

impl EscapeScreen {
    /// For all that a match may come to, when stretched as well; no pattern is shorter than `shortest`.
    pub(in crate::sanitizer) fn new(matches: &[&[u8]], shortest: usize) -> Self {
        let lengths = || matches.iter().map(|text| text.len());
        let width = (shortest / 2).clamp(1, MAX_WIDTH);
        let mut bytes: Zeroizing<Vec<bool>> =
            Zeroizing::new((0..=u8::MAX).map(is_symbol).collect());
        let mut grams = Bitmap::new(lengths().sum());
        for text in matches {
            text.iter().for_each(|byte| bytes[usize::from(*byte)] = true);
            for gram in text.windows(width) {
                grams.insert(word(gram));
            }
        }
        let longest = lengths().max().unwrap_or(0);
        Self { bytes, grams, width, reach: longest + 2 }
    }

    /// The parts of the text around the escapes that matter, in order.
    pub(in crate::sanitizer) fn parts(&self, escapes: &Escapes<'_>) -> Vec<Range<usize>> {
        if escapes.may_be_twice || escapes.all.len() * DENSE > escapes.text.len() {
            return escapes.everywhere();
        }
        let mut parts: Vec<Range<usize>> = Vec::new();
        for (index, place) in escapes.all.iter().enumerate() {
            if !place.may_match || !self.may_be_inside(escapes, index) {
                continue;
            }
            let start = escapes.original(place.here.saturating_sub(self.reach)).start;
            let end = escapes.original(place.here + place.width + self.reach).end;
            let end = end.min(escapes.text.len());
            match parts.last_mut() {
                Some(last) if start <= last.end => last.end = end,
                _ => parts.push(start..end),
            }
        }
        parts
    }

    /// Whether a match may have this escape inside, or beside it.
    fn may_be_inside(&self, escapes: &Escapes<'_>, index: usize) -> bool {
        let place = &escapes.all[index];
        // Some of several bytes may stand in a match, and others not, so that the neighbours say little.
        if place.width > 1 {
            return true;
        }
        let before = place.at.checked_sub(self.width).map(|start| &escapes.text[start..place.at]);
        before.is_some_and(|gram| self.knows(gram)) || self.knows_what_follows(escapes, index)
    }

    fn knows_what_follows(&self, escapes: &Escapes<'_>, index: usize) -> bool {
        let mut gram = Zeroizing::new([0; MAX_WIDTH]);
        let (mut length, mut at) = (0, escapes.all[index].end());
        let mut after = escapes.all[index + 1..].iter();
        for _ in 0..MAX_STEPS {
            let next = after.next();
            let shown = &escapes.text[at..next.map_or(escapes.text.len(), |next| next.at)];
            let undone = next.and_then(|next| escapes.escaping.at(escapes.text, next.at));
            let symbol = undone.map(|escape| escape.symbol);
            for piece in [shown, symbol.as_ref().map_or(&[], |symbol| symbol.bytes())] {
                let kept = piece.len().min(self.width - length);
                gram[length..][..kept].copy_from_slice(&piece[..kept]);
                length += kept;
            }
            match next {
                _ if length == self.width => return self.knows(&gram[..length]),
                // The text ends before a match would.
                None => return false,
                Some(next) => at = next.end(),
            }
        }
        true
    }

    fn knows(&self, gram: &[u8]) -> bool {
        self.grams.known(word(gram)) != 0
    }
}

impl<'t> Escapes<'t> {
    /// Those of this text; without a screen they all may stand in a match.
    pub(in crate::sanitizer) fn of(
        text: &'t [u8],
        escaping: Escaping,
        screen: Option<&EscapeScreen>,
    ) -> Self {
        let mut escapes = Self { text, escaping, all: Vec::new(), may_be_twice: screen.is_none() };
        // How much shorter the view is up to here, and where something in it may begin another escape.
        let (mut saved, mut begun) = (0, None);
        escaping.each(text, |found| match found {
            Err(at) => begun = Some(at - saved),
            Ok(Escape { at, length, symbol }) => {
                let (here, bytes) = (at - saved, symbol.bytes());
                let follows = begun.is_some_and(|begun| here - begun < escaping.longest());
                escapes.may_be_twice |= match bytes {
                    [] => follows,
                    [byte] => escaping.begins(*byte) || follows && escaping.goes_on(*byte),
                    _ => false,
                };
                let is_sought = |byte: &u8| screen.is_none_or(|one| one.bytes[usize::from(*byte)]);
                let may_match = bytes.is_empty() || bytes.iter().any(is_sought);
                escapes.all.push(Place { at, length, here, width: bytes.len(), may_match });
                saved += length - bytes.len();
            }
        });
        escapes
    }

    pub(in crate::sanitizer) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of the text, as the parts of it to look at.
    pub(in crate::sanitizer) fn everywhere(&self) -> Vec<Range<usize>> {
        iter::once(0..self.text.len()).collect()
    }

    /// A part of the text, which cuts none of them, with those in it undone.
    pub(in crate::sanitizer) fn undone<'a>(
        &self,
        part: Range<usize>,
        room: &'a mut Room,
    ) -> View<'a> {
        let first = self.all.partition_point(|place| place.at < part.start);
        let inside = self.all[first..].iter().map(|place| place.at);
        self.escaping.undone(self.text, part.clone(), inside.take_while(|at| *at < part.end), room)
    }

    /// What stands in the text for the byte of the view at `here`.
    fn original(&self, here: usize) -> Range<usize> {
        let after = self.all.partition_point(|place| place.here <= here);
        let Some(place) = after.checked_sub(1).map(|at| &self.all[at]) else { return here..here };
        if here < place.here + place.width {
            return place.at..place.end();
        }
        let at = place.end() + (here - place.here - place.width);
        at..at
    }
}

impl Place {
    fn end(&self) -> usize {
        self.at + self.length
    }
}
