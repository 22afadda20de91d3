//! Tells which escapes of a text may stand in a value, or beside one, so that only what is around these is undone.
//!
//! Programs escape quotes and line ends all the time, and values hardly ever. An escape matters where the byte that
//! it stands for is one of a pattern, and as many bytes of a pattern as the screen knows stand before it or behind it:
//! a pattern with the escape in it or at its end is at least twice as long, so it goes on that far to one side. Before
//! the first such escape of a match nothing is escaped, so that side is looked at in the text as it stands. A match with
//! no escape at all is found without this. What is escaped twice has an escape that stands for a part of another; then
//! everything is undone. What is broken into lines, and escaped then, is told by its seams (`seams.rs`).

use std::ops::Range;

use memchr::memchr3;
use zeroize::Zeroizing;

use super::{
    super::{
        is_symbol,
        view::{Escape, Escaping, Room, View, each_pair},
    },
    Sequences,
    seams::{Seams, other},
};
use crate::patterns::{Bitmap, first_word, last_word, word};

/// One escape in this many bytes, or more: then it costs less to undo all than to ask for each.
const DENSE: usize = 12;
/// How far a text is from its beginning before that is said of it.
const MANY: usize = 1024;
/// How far is looked behind an escape, in bytes that are shown and others escapes.
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
    /// Where a value may be broken; nothing where it may be anywhere.
    seams: Option<Seams>,
    /// A quote where a backslash before it makes an escape that matters to no match, the commonest of all; else what makes
    /// none there.
    harmless: u8,
}

/// Which escapes of a text matter.
#[derive(Default)]
pub(in crate::sanitizer) struct Suspicion {
    /// All of them, and what is undone may be undone again.
    pub(in crate::sanitizer) everywhere: bool,
    /// A value may be broken at some of them.
    pub(in crate::sanitizer) broken: bool,
    /// The places of the escapes that matter, where not all do.
    at: Vec<usize>,
    reach: usize,
}

/// The escapes of a text.
pub(in crate::sanitizer) struct Escapes<'t> {
    text: &'t [u8],
    escaping: Escaping,
    all: Vec<Place>,
}

/// Where an escape stands, but not for what: that may be a part of a value.
struct Place {
    at: usize,
    length: usize,
    /// Where its symbol begins in the view, and how many bytes that has.
    here: usize,
    width: usize,
}

impl EscapeScreen {
    /// For all that a match may come to, when stretched as well; no pattern is shorter than `shortest`.
    pub(in crate::sanitizer) fn new(
        matches: &[&[u8]],
        shortest: usize,
        seams: Option<Seams>,
    ) -> Self {
        let lengths = || matches.iter().map(|text| text.len());
        let width = (shortest / 2).clamp(1, MAX_WIDTH);
        let mut bytes: Zeroizing<Vec<bool>> =
            Zeroizing::new((0..=u8::MAX).map(is_symbol).collect());
        let mut grams = Bitmap::new(lengths().sum::<usize>() * 2);
        for text in matches {
            text.iter().for_each(|byte| bytes[usize::from(*byte)] = true);
            for gram in text.windows(width) {
                grams.insert(word(gram));
                grams.insert(other(word(gram)));
            }
        }
        let longest = lengths().max().unwrap_or(0);
        let harmless = if bytes[usize::from(b'"')] { 0xff } else { b'"' };
        Self { bytes, grams, width, reach: longest + 2, seams, harmless }
    }

    /// Looks at a text with such sequences, for percent escapes and for the others.
    pub(in crate::sanitizer) fn suspicions(&self, text: &[u8], raw: Sequences) -> [Suspicion; 2] {
        let mut all = [(); 2].map(|()| Suspicion { reach: self.reach, ..Suspicion::default() });
        let Some(first) = memchr3(b'%', b'&', b'\\', text) else { return all };
        let mut count = 0;
        // Those within another don't matter: what has one inside stands for what may begin one, so all is undone.
        each_pair(&text[first..], may_be_one(self.harmless), |at| {
            let at = first + at;
            // By far the most are line ends.
            if text[at] == b'\\' && text.get(at + 1).is_some_and(|next| self.is_bare_break(*next)) {
                let into = &mut all[1];
                if !into.everywhere && !into.broken {
                    into.broken = self.may_be_broken(text, at..at + 2, &[], Escaping::Text, raw);
                }
                return;
            }
            let (which, escaping) = match text[at] {
                b'%' => (0, Escaping::Percent),
                _ => (1, Escaping::Text),
            };
            if !all[which].everywhere
                && let Some(escape) = escaping.at(text, at)
            {
                count += 1;
                self.look_at(text, escaping, &escape, raw, &mut all[which]);
                all[which].everywhere |= count * DENSE > at + MANY;
            }
        });
        all
    }

    /// Whether a backslash before this makes an escape of a line end or a tab that is in no match.
    fn is_bare_break(&self, byte: u8) -> bool {
        let stands_for = match byte {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            _ => return false,
        };
        !self.bytes[usize::from(stands_for)]
    }

    fn look_at(
        &self,
        text: &[u8],
        escaping: Escaping,
        escape: &Escape,
        raw: Sequences,
        into: &mut Suspicion,
    ) {
        let bytes = escape.symbol.bytes();
        let before = &text[escape.at.saturating_sub(escaping.longest() - 1)..escape.at];
        let follows = || before.iter().any(|byte| escaping.begins(*byte));
        into.everywhere |= match bytes {
            [] => follows(),
            [byte] => escaping.begins(*byte) || escaping.goes_on(*byte) && follows(),
            _ => false,
        };
        let is_sought = |byte: &u8| self.bytes[usize::from(*byte)];
        if !into.everywhere && !into.broken && !Seams::leaves_all(text, escaping, escape) {
            let place = escape.at..escape.at + escape.length;
            into.broken = self.may_be_broken(text, place, bytes, escaping, raw);
        }
        let may_match = bytes.is_empty() || bytes.iter().any(is_sought);
        if may_match && !into.everywhere && self.may_be_inside(text, escaping, escape) {
            into.at.push(escape.at);
        }
    }

    fn may_be_broken(
        &self,
        text: &[u8],
        escape: Range<usize>,
        symbol: &[u8],
        escaping: Escaping,
        raw: Sequences,
    ) -> bool {
        let may_be = |seams: &Seams| seams.may_be_at(text, escape, symbol, escaping, raw);
        self.seams.as_ref().is_none_or(may_be)
    }

    /// Whether a match may have this escape inside, or beside it.
    fn may_be_inside(&self, text: &[u8], escaping: Escaping, escape: &Escape) -> bool {
        // Some of several bytes may stand in a match, and others not, so that the neighbours say little.
        if escape.symbol.bytes().len() > 1 {
            return true;
        }
        last_word(&text[..escape.at], self.width).is_some_and(|gram| self.knows(gram))
            || self.knows_what_follows(&text[escape.at + escape.length..], escaping)
    }

    fn knows_what_follows(&self, mut rest: &[u8], escaping: Escaping) -> bool {
        if let Some(near) = rest.first_chunk::<MAX_WIDTH>()
            && !near.iter().fold(false, |any, byte| any | escaping.begins(*byte))
        {
            return first_word(rest, self.width).is_some_and(|gram| self.knows(gram));
        }
        let mut gram = Zeroizing::new([0; MAX_WIDTH]);
        let mut length = 0;
        for _ in 0..MAX_STEPS {
            // The text ends before a match would.
            let Some(first) = rest.first() else { return false };
            let escape = if escaping.begins(*first) { escaping.at(rest, 0) } else { None };
            let bytes = escape.as_ref().map_or(&rest[..1], |escape| escape.symbol.bytes());
            for byte in bytes {
                gram[length] = *byte;
                length += 1;
                if length == self.width {
                    return self.knows(word(&gram[..length]));
                }
            }
            rest = &rest[escape.map_or(1, |escape| escape.length)..];
        }
        true
    }

    #[inline]
    fn knows(&self, gram: u64) -> bool {
        self.grams.known(gram) & self.grams.known(other(gram)) != 0
    }
}

/// Whether an escape may begin with these two bytes that isn't one of the harmless.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "without a branch it is done for many bytes at once"
)]
fn may_be_one(harmless: u8) -> impl Fn(u8, u8) -> bool {
    move |byte, next| {
        let in_entity = (next >= b'0') | (next == b'#') | (next == b'+');
        (byte == b'%') & (next >= b'0')
            | (byte == b'&') & in_entity
            | (byte == b'\\') & (next != harmless)
    }
}

impl Suspicion {
    /// Without a screen, all of them.
    pub(in crate::sanitizer) fn of_everything() -> Self {
        Self { everywhere: true, ..Self::default() }
    }

    pub(in crate::sanitizer) fn has_no_parts(&self) -> bool {
        self.at.is_empty()
    }

    /// The parts of the text around the escapes that matter, in order.
    pub(in crate::sanitizer) fn parts(&self, escapes: &Escapes<'_>) -> Vec<Range<usize>> {
        let mut parts: Vec<Range<usize>> = Vec::new();
        for at in &self.at {
            let place = &escapes.all[escapes.all.partition_point(|place| place.at < *at)];
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
}

impl<'t> Escapes<'t> {
    /// The escapes of this text.
    pub(in crate::sanitizer) fn of(text: &'t [u8], escaping: Escaping) -> Self {
        let mut all = Vec::new();
        let mut saved = 0;
        escaping.each(text, |Escape { at, length, symbol }| {
            let width = symbol.bytes().len();
            all.push(Place { at, length, here: at - saved, width });
            saved += length - width;
        });
        Self { text, escaping, all }
    }

    /// A part of the text, which cuts none of them, with those in it undone.
    pub(in crate::sanitizer) fn undone<'a>(
        &self,
        part: Range<usize>,
        room: &'a mut Room,
    ) -> Option<View<'a>> {
        let first = self.all.partition_point(|place| place.at < part.start);
        let inside = self.all[first..].iter().map(|place| place.at);
        let inside = inside.take_while(|at| *at < part.end);
        self.escaping.undone_at(self.text, part.clone(), inside, room)
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
