//! Finds values in the output of a program, in every form that a program might give them.
//!
//! Where the scrub (`encodings.rs`) looks for what servers echo, this looks for what somebody tries who
//! wants to get a value past a filter: broken into lines, coloured, spelled in hex with colons, escaped
//! twice, reversed, cut, struck over, in wide letters. It does so by looking at several views of the same text, each with the way
//! back to the original, and takes out the union. One pass over the original: a marker is never looked
//! at. What no scanner can find (a cipher, a picture) stays; rule 1 of the design is for that.
//! Source: reference/nl.md, 13.2.

mod forms;
mod packed;
mod screen;
mod view;

use std::{borrow::Cow, iter, ops::Range};

use zeroize::Zeroizing;

pub(crate) use self::packed::MAX_IN_TEXT;
use self::{
    forms::{Form, Part, Sought},
    packed::{TIMES_TEXT, Unpacker},
    screen::{EscapeScreen, Escapes, Screen, Seams, Sequences, Suspects, Suspicion},
    view::{Escaping, Room, View, as_read, thinned, without_strings},
};
use crate::{encodings::Shared, patterns::PatternSet};

/// Values with fewer bytes are not looked for: they stand everywhere (NL-2.6.5).
pub const MIN_SANITIZED: usize = 4;
/// How much of a text is looked at in one go, unless values are long: its views stay in a processor's own memory.
const SEGMENT: usize = 128 << 10;
/// The most that is looked at in one go.
const MAX_SEGMENT: usize = 1 << 20;

/// How a value was written where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FoundAs {
    /// As it is, or as a text form that keeps its letters.
    Plain,
    /// Base64 and its relatives.
    Base64,
    /// Hexadecimal digits.
    Hex,
    /// Percent escapes.
    Percent,
}

/// One place where a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The bytes of the text.
    pub range: Range<usize>,
    /// Which value, by its position among those given.
    pub value: usize,
    /// How it is written.
    pub form: FoundAs,
}

/// What to look for: built once for an action.
pub struct Sanitizer {
    /// The longest value, in bytes.
    longest_value: usize,
    /// Nothing where everything is suspect.
    screen: Option<Screen>,
    /// The screen for what is escaped.
    escapes: Option<EscapeScreen>,
    exact: Patterns,
    bare: Patterns,
    folded: Patterns,
    plain: Patterns,
}

/// Patterns of one kind of view, and what each of them says.
struct Patterns {
    set: PatternSet,
    /// All that each text may be.
    sought: Vec<Vec<Sought>>,
    /// The next shorter pattern that each begins with: where both stand the set tells of the longer one alone.
    shorter: Vec<Option<Beginning>>,
}

/// A pattern that a longer one begins with.
#[derive(Clone, Copy)]
struct Beginning {
    index: usize,
    length: usize,
}

/// Where the views of one segment stand, and then those of the next; and what was found in them.
#[derive(Default)]
struct Desk {
    residue: Room,
    thinned: [Room; 2],
    strings: Room,
    read: Room,
    /// Where something packed seems to begin.
    packed: Vec<usize>,
    found: Vec<Finding>,
}

impl Sanitizer {
    /// For these values, and for large parts of them; what is shorter than [`MIN_SANITIZED`] is not looked for.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self::of(values, true)
    }

    /// For these values alone. Who may have it look at what they like, and sees what becomes of that, would learn of a part how
    /// the value goes on: what goes with it is the value's.
    pub fn of_wholes<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self::of(values, false)
    }

    fn of<'a>(values: impl IntoIterator<Item = &'a [u8]>, in_parts: bool) -> Self {
        let values: Vec<(usize, Zeroizing<Vec<u8>>)> = values
            .into_iter()
            .enumerate()
            .flat_map(|(at, value)| readings(value).map(move |text| (at, text)))
            .collect();
        let of = |list: fn(&[u8]) -> Vec<Form>| {
            let long = values.iter().filter(|(_, value)| value.len() >= MIN_SANITIZED);
            let all =
                long.flat_map(|(at, value)| list(value).into_iter().map(move |form| (form, *at)));
            let is_whole = |form: &Form| matches!(form.part, Part::Whole);
            all.filter(|(form, _)| in_parts || is_whole(form)).collect::<Vec<_>>()
        };
        let (exact, bare) = (of(forms::exact), of(forms::bare));
        let (folded, plain) = (of(forms::folded), of(forms::plain));
        let lengths = texts(&exact).chain(texts(&bare)).chain(texts(&folded)).map(<[u8]>::len);
        let longest = lengths.chain(values.iter().map(|(_, value)| value.len())).max().unwrap_or(0);
        let screen = Screen::new(texts(&exact), texts(&bare).chain(texts(&folded)), longest);
        // Among them the value as a whole, which a part may stretch to.
        let matches: Vec<&[u8]> = texts(&plain).collect();
        let shortest = texts(&plain).map(<[u8]>::len).min().unwrap_or(0);
        let seams = screen.is_some().then(|| Seams::new(texts(&bare).chain(texts(&folded))));
        let escapes = Some(EscapeScreen::new(&matches, shortest, seams));
        let longest_value =
            values.iter().map(|(_, value)| forms::joined(value).len()).max().unwrap_or(0);
        let [exact, bare, folded, plain] = [exact, bare, folded, plain].map(Patterns::new);
        Self { longest_value, screen, escapes, exact, bare, folded, plain }
    }

    /// Every place where a value stands, in order, none overlapping another.
    pub fn find(&self, text: &[u8]) -> Vec<Finding> {
        self.find_within(text, &mut Self::unpacking(text.len()).saturating_add(MAX_IN_TEXT))
    }

    /// What a text of this length adds to what may be read and unpacked of packed ones.
    pub(crate) fn unpacking(length: usize) -> usize {
        length.saturating_mul(TIMES_TEXT)
    }

    /// What is found in `text`, with no more than `left` bytes read and unpacked of what is packed.
    pub(crate) fn find_within(&self, text: &[u8], left: &mut usize) -> Vec<Finding> {
        let mut desk = Desk::default();
        let mut undone = <[Room; 2]>::default();
        if self.exact.set.is_empty() && self.bare.set.is_empty() {
            return Vec::new();
        }
        self.find_in(text, &mut undone, &mut desk);
        self.find_packed(text, left, &mut undone, &mut desk);
        merged(desk.found)
    }

    fn find_in(&self, text: &[u8], undone: &mut [Room], desk: &mut Desk) {
        let overlap = self.overlap();
        let length = (overlap * 8).clamp(SEGMENT, MAX_SEGMENT);
        let mut start = 0;
        loop {
            let end = text.len().min(start + length);
            let segment = &text[start..end];
            let (from, packed_from) = (desk.found.len(), desk.packed.len());
            self.find_in_segment(segment, undone, desk);
            for finding in &mut desk.found[from..] {
                finding.range = finding.range.start + start..finding.range.end + start;
            }
            desk.packed[packed_from..].iter_mut().for_each(|place| *place += start);
            if end == text.len() {
                break;
            }
            start = end - overlap;
        }
    }

    /// What is packed, of which all is taken out if a value is in it.
    fn find_packed(&self, text: &[u8], left: &mut usize, undone: &mut [Room], desk: &mut Desk) {
        let mut places = std::mem::take(&mut desk.packed);
        if places.is_empty() {
            return;
        }
        places.sort_unstable();
        places.dedup();
        let mut unpacker = Unpacker::with(*left);
        for place in places {
            let Some(content) = unpacker.unpack(text, place) else { continue };
            let from = desk.found.len();
            self.find_in(content.bytes, undone, desk);
            for finding in &mut desk.found[from..] {
                (finding.range, finding.form) = (content.range.clone(), content.form);
            }
            // What is packed once more is not looked into.
            desk.packed.clear();
        }
        *left = unpacker.left();
    }

    /// How far what is looked at in one go reaches back: separators and escapes make a form several times as long.
    pub(crate) fn overlap(&self) -> usize {
        (self.longest() * 4).clamp(256, MAX_SEGMENT / 2)
    }

    /// The longest form without anything between its parts: common escapes take six bytes for one.
    pub(crate) fn reach(&self) -> usize {
        self.longest().max(self.longest_value * 6)
    }

    fn longest(&self) -> usize {
        self.exact.set.longest().max(self.bare.set.longest())
    }

    fn find_in_segment(&self, segment: &[u8], undone: &mut [Room], desk: &mut Desk) {
        self.find_as_it_stands(segment, undone, desk);
        let mut room = std::mem::take(&mut desk.read);
        if let Some(read) = as_read(segment, &mut room) {
            let (from, packed) = (desk.found.len(), desk.packed.len());
            self.find_as_it_stands(read.bytes(), undone, desk);
            desk.packed.truncate(packed);
            for finding in &mut desk.found[from..] {
                finding.range = read.original(finding.range.clone());
            }
        }
        desk.read = room;
    }

    fn find_as_it_stands(&self, segment: &[u8], undone: &mut [Room], desk: &mut Desk) {
        let whole = View::whole(segment);
        let suspects = self.suspects(segment, &mut desk.residue);
        desk.packed.extend(suspects.packed(segment));
        if suspects.exact_everywhere {
            search(&whole, &self.exact, None, &mut desk.found);
        } else {
            for part in &suspects.parts {
                let part = View::part(&whole, part.clone());
                search(&part, &self.exact, None, &mut desk.found);
            }
        }
        self.find_thinned(&whole, &suspects, None, desk);
        let [percent, text] = self.suspicions(segment, suspects.sequences);
        self.find_undone(&whole, &suspects, Escaping::Percent, &percent, undone, desk);
        self.find_undone(&whole, &suspects, Escaping::Text, &text, undone, desk);
    }

    /// What stands there once its escapes are undone, broken into lines or not, and once those are undone that come of
    /// it.
    fn find_undone(
        &self,
        text: &View<'_>,
        suspects: &Suspects,
        escaping: Escaping,
        suspicion: &Suspicion,
        rooms: &mut [Room],
        desk: &mut Desk,
    ) {
        let Some((room, more)) = rooms.split_first_mut() else { return };
        if !suspicion.everywhere {
            self.find_undone_in_parts(text, escaping, suspicion, room, &mut desk.found);
        }
        let label = escaping.label();
        if !suspicion.everywhere && !suspicion.broken && suspects.sequences != Sequences::Strings {
            // What is undone elsewhere leaves the residue that was looked at.
            for part in &suspects.parts {
                if let Some(undone) = escaping.undone(&text.bytes()[part.clone()], room) {
                    let undone = undone.over(text, part.start);
                    self.search_thinned(&undone, 0..undone.bytes().len(), label, desk);
                }
            }
            return;
        }
        let Some(undone) = escaping.undone(text.bytes(), room) else { return };
        let undone = undone.over(text, 0);
        if suspicion.everywhere {
            search(&undone, &self.plain, label, &mut desk.found);
        }
        let suspects = self.suspects(undone.bytes(), &mut desk.residue);
        self.find_thinned(&undone, &suspects, label, desk);
        if suspicion.everywhere {
            let [percent, others] = self.suspicions(undone.bytes(), suspects.sequences);
            let suspicion = if escaping == Escaping::Percent { percent } else { others };
            self.find_undone(&undone, &suspects, escaping, &suspicion, more, desk);
        }
    }

    fn find_undone_in_parts(
        &self,
        text: &View<'_>,
        escaping: Escaping,
        suspicion: &Suspicion,
        room: &mut Room,
        found: &mut Vec<Finding>,
    ) {
        if suspicion.has_no_parts() {
            return;
        }
        let escapes = Escapes::of(text.bytes(), escaping);
        for part in suspicion.parts(&escapes) {
            if let Some(undone) = escapes.undone(part.clone(), room) {
                search(&undone.over(text, part.start), &self.plain, escaping.label(), found);
            }
        }
    }

    fn suspicions(&self, text: &[u8], raw: Sequences) -> [Suspicion; 2] {
        let all = || [(); 2].map(|()| Suspicion::of_everything());
        self.escapes.as_ref().map_or_else(all, |screen| screen.suspicions(text, raw))
    }

    fn suspects(&self, text: &[u8], room: &mut Room) -> Suspects {
        self.screen.as_ref().map_or_else(|| Suspects::all_of(text), |one| one.suspects(text, room))
    }

    /// What stands there without what can't be seen.
    fn find_thinned(
        &self,
        text: &View<'_>,
        suspects: &Suspects,
        label: Option<FoundAs>,
        desk: &mut Desk,
    ) {
        for part in &suspects.parts {
            self.search_thinned(text, part.clone(), label, desk);
        }
        let mut room = std::mem::take(&mut desk.strings);
        if suspects.sequences == Sequences::Strings
            && let Some(seen) = without_strings(text.bytes(), &mut room)
        {
            let seen = seen.over(text, 0);
            for part in self.suspects(seen.bytes(), &mut desk.residue).parts {
                self.search_thinned(&seen, part, label, desk);
            }
        }
        desk.strings = room;
    }

    fn search_thinned(
        &self,
        text: &View<'_>,
        part: Range<usize>,
        label: Option<FoundAs>,
        Desk { thinned: rooms, found, .. }: &mut Desk,
    ) {
        let [bare, folded] =
            thinned(&text.bytes()[part.clone()], rooms).map(|view| view.over(text, part.start));
        search(&bare, &self.bare, label, found);
        search(&folded, &self.folded, label, found);
    }
}

fn search(view: &View<'_>, patterns: &Patterns, label: Option<FoundAs>, found: &mut Vec<Finding>) {
    let bytes = view.bytes();
    let mut at = 0;
    while let Some((range, id)) = patterns.set.find(bytes, at) {
        // Another may begin within it.
        at = range.start + 1;
        for (sought, range) in patterns.sought_at(range, id.index()) {
            let Some(range) = sought.stretched(bytes, range) else { continue };
            let form = label.unwrap_or(sought.form);
            found.push(Finding { range: view.original(range), value: sought.value, form });
        }
    }
}

/// A value, and what it says where there are escapes in it: a key in a JSON file is printed without them.
fn readings(value: &[u8]) -> impl Iterator<Item = Zeroizing<Vec<u8>>> {
    let undone = [Escaping::Text, Escaping::Percent].into_iter().filter_map(|escaping| {
        let mut room = Room::default();
        escaping.undone(value, &mut room).map(|view| Zeroizing::new(view.bytes().to_vec()))
    });
    let undone: Vec<_> = undone.collect();
    iter::once(Zeroizing::new(value.to_vec())).chain(undone)
}

impl Sought {
    /// What was found, with the rest of the value beside it: a part goes on as far as the value does, and symbols of
    /// base64 that have bits of the value and of its neighbour go with it. Nothing where it is too small a part.
    fn stretched(&self, bytes: &[u8], range: Range<usize>) -> Option<Range<usize>> {
        match &self.part {
            Part::Whole => Some(with_shared(self.shared, bytes, range)),
            Part::Piece { at, of } => of.around(bytes, range, *at),
        }
    }
}

impl Patterns {
    fn new(mut forms: Vec<(Form, usize)>) -> Self {
        // In a stable way: of alike ones the first gives the name.
        forms.sort_by(|(one, _), (other, _)| one.text.cmp(&other.text));
        let mut sought: Vec<Vec<Sought>> = Vec::new();
        let mut texts: Vec<Zeroizing<Vec<u8>>> = Vec::new();
        for (Form { text, kind: form, part, shared }, value) in forms {
            let one = Sought { value, form, part, shared };
            match sought.last_mut() {
                Some(alike) if texts.last() == Some(&text) => alike.push(one),
                _ => {
                    texts.push(text);
                    sought.push(vec![one]);
                }
            }
        }
        // In this order what a text begins with stands before it, and what does not begin it is between them.
        let mut beginnings: Vec<usize> = Vec::new();
        let shorter = texts.iter().enumerate().map(|(index, text)| {
            while beginnings.pop_if(|last| !text.starts_with(&texts[*last])).is_some() {}
            let shorter = beginnings.last().copied();
            beginnings.push(index);
            shorter.map(|index| Beginning { index, length: texts[index].len() })
        });
        let shorter = shorter.collect();
        Self { set: PatternSet::new(texts.iter().map(|text| text.as_slice())), sought, shorter }
    }

    /// What stands where a pattern was found: it, and those that it begins with.
    fn sought_at(
        &self,
        found: Range<usize>,
        index: usize,
    ) -> impl Iterator<Item = (&Sought, Range<usize>)> {
        let longest = Beginning { index, length: found.len() };
        iter::successors(Some(longest), |one| self.shorter[one.index]).flat_map(move |one| {
            let range = found.start..found.start + one.length;
            self.sought[one.index].iter().map(move |sought| (sought, range.clone()))
        })
    }
}

fn with_shared(shared: Shared, bytes: &[u8], range: Range<usize>) -> Range<usize> {
    let before = shared.before && bytes[..range.start].last().is_some_and(|byte| is_symbol(*byte));
    let after = shared.after && bytes.get(range.end).is_some_and(|byte| is_symbol(*byte));
    range.start - usize::from(before)..range.end + usize::from(after)
}

/// Whether it may be a symbol of base64 or base32.
fn is_symbol(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}

fn texts(forms: &[(Form, usize)]) -> impl Iterator<Item = &[u8]> {
    forms.iter().map(|(form, _)| form.text.as_slice())
}

/// The findings without overlap; where several meet, the longest gives its name.
fn merged(mut found: Vec<Finding>) -> Vec<Finding> {
    // Of those of one range the one that takes the least undoing gives the name, whichever view was looked at first.
    found.sort_by_key(|finding| {
        (finding.range.start, std::cmp::Reverse(finding.range.end), finding.form, finding.value)
    });
    let mut all: Vec<Finding> = Vec::with_capacity(found.len());
    let mut widest = 0;
    for finding in found {
        match all.last_mut() {
            Some(last) if finding.range.start < last.range.end => {
                if finding.range.len() > widest {
                    widest = finding.range.len();
                    (last.value, last.form) = (finding.value, finding.form);
                }
                last.range.end = last.range.end.max(finding.range.end);
            }
            _ => {
                widest = finding.range.len();
                all.push(finding);
            }
        }
    }
    all
}

/// Puts findings of several views of one text together: in order, without overlap.
pub fn merge_findings(findings: impl IntoIterator<Item = Finding>) -> Vec<Finding> {
    merged(findings.into_iter().collect())
}

/// The text with a marker in the place of each finding; these must be in order, without overlap. Nothing is written
/// anew where nothing was found.
pub fn redact<'t>(
    text: &'t [u8],
    findings: &[Finding],
    mut marker: impl FnMut(&Finding) -> String,
) -> Cow<'t, [u8]> {
    if findings.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for finding in findings {
        out.extend_from_slice(&text[at..finding.range.start]);
        out.extend_from_slice(marker(finding).as_bytes());
        at = finding.range.end;
    }
    out.extend_from_slice(&text[at..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
