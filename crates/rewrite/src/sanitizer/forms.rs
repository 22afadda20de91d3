//! The texts to look for, for each kind of view.

use std::{iter::successors, ops::Range, sync::Arc};

use data_encoding::{BASE64, HEXLOWER};
use zeroize::Zeroizing;

use super::{
    FoundAs,
    screen::{MIN_EXACT, of_pattern},
    view,
};
use crate::encodings::{Alphabet, Echo, MIN_ECHO, Shared, echoes, lines, middles};

/// Parts of a value with fewer bytes are left out.
const MIN_PART: usize = 8;
/// What is left of a value in the folded view is looked for there from so many bytes on.
const MIN_FOLDED: usize = 6;
/// What a part is recognised by has no more bytes, however long it is.
const MAX_PIECE: usize = 64;

/// One text to look for.
pub(super) struct Form {
    pub(super) text: Zeroizing<Vec<u8>>,
    pub(super) kind: FoundAs,
    pub(super) part: Part,
    pub(super) shared: Shared,
}

/// What a pattern says when it is found.
pub(super) struct Sought {
    pub(super) value: usize,
    pub(super) form: FoundAs,
    pub(super) part: Part,
    /// The symbols beside it that go with it.
    pub(super) shared: Shared,
}

/// How much of the value a text is.
#[derive(Clone)]
pub(super) enum Part {
    Whole,
    /// What stands at this place of it: one that counts where so much of the rest is beside it.
    Piece {
        at: usize,
        of: Arc<Large>,
    },
}

/// A value of which a large part is looked for as well.
pub(super) struct Large {
    value: Zeroizing<Vec<u8>>,
    /// The fewest bytes of it that count.
    least: usize,
}

impl Large {
    /// What stands at `found` in a text, and in the value at `at`, with what is beside it in both; nothing where that is
    /// too little.
    pub(super) fn around(
        &self,
        text: &[u8],
        found: Range<usize>,
        at: usize,
    ) -> Option<Range<usize>> {
        let Self { value, least } = self;
        let after = value[at + found.len()..].iter().zip(&text[found.end..]);
        let before = value[..at].iter().rev().zip(text[..found.start].iter().rev());
        let start = found.start - before.take_while(|(a, b)| a == b).count();
        let end = found.end + after.take_while(|(a, b)| a == b).count();
        (end - start >= *least).then_some(start..end)
    }
}

fn form(text: Vec<u8>, kind: FoundAs) -> Form {
    whole(Zeroizing::new(text), kind, Shared::default())
}

fn whole(text: Zeroizing<Vec<u8>>, kind: FoundAs, shared: Shared) -> Form {
    Form { text, kind, part: Part::Whole, shared }
}

fn echoed(value: &[u8]) -> impl Iterator<Item = Form> {
    let form =
        |echo: Echo| whole(Zeroizing::new(echo.pattern().to_vec()), echo.found_as(), echo.shared());
    echoes(value).into_iter().map(form)
}

/// Inside anything longer.
fn inside(alphabets: [Alphabet; 2], value: &[u8]) -> impl Iterator<Item = Form> {
    middles(alphabets, value).map(|(text, shared)| whole(text, FoundAs::Base64, shared))
}

/// In the text as it stands: what a thinned view leaves out may hold a value, or be a part of one.
pub(super) fn exact(value: &[u8]) -> Vec<Form> {
    let mut all = written(value);
    all.extend(parts(&joined(value)));
    all.extend(parts(value.trim_ascii_end()));
    all
}

/// Every way of writing a value down.
fn written(value: &[u8]) -> Vec<Form> {
    let mut all: Vec<Form> = echoed(value).collect();
    let trimmed = value.trim_ascii_end();
    // A longer one is among the echoes.
    if trimmed.len() < value.len() && (super::MIN_SANITIZED..MIN_ECHO).contains(&trimmed.len()) {
        all.extend(echoed(trimmed));
    }
    if trimmed.len() >= MIN_PART {
        all.extend(disguised(trimmed));
        all.extend(lines(trimmed).flat_map(disguised));
    } else {
        all.extend(latin(trimmed));
    }
    all
}

/// In the text without white space and what can't be seen: lines joined, colours gone.
pub(super) fn bare(value: &[u8]) -> Vec<Form> {
    let mut all = written(value);
    all.extend(punctuated(value));
    for form in &mut all {
        form.text = joined(&form.text);
    }
    all.retain(|form| form.text.len() >= MIN_PART);
    all.extend(parts(&joined(value)));
    all
}

/// What remains of a text in that view.
pub(super) fn joined(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let [bare, _] = view::remains(text);
    bare
}

/// What no server does, and `rev`, `tr` or a second `base64` do.
fn disguised(value: &[u8]) -> Vec<Form> {
    let mut all = vec![
        form(value.iter().rev().copied().collect(), FoundAs::Plain),
        form(value.iter().map(|byte| rot13(*byte)).collect(), FoundAs::Plain),
    ];
    all.extend(wide(value).map(|text| whole(text, FoundAs::Plain, Shared::default())));
    // By letters, where these have several bytes.
    let turned = beyond_ascii(value).map(|text| text.chars().rev().collect::<String>());
    all.extend(turned.map(|text| form(text.into_bytes(), FoundAs::Plain)));
    all.extend(latin(value));
    all.extend(taken_for_latin(value));
    all.extend(inside(Alphabet::BASE32, value));
    all.extend(inside(Alphabet::BASE32_HEX, value));
    // As PowerShell has it.
    let [little, big] = wide(value);
    all.extend(inside(Alphabet::BASE64, &little).chain(inside(Alphabet::BASE64, &big)));
    let mut reversed = BASE64.encode(value).into_bytes();
    reversed.reverse();
    let padding = reversed.iter().take_while(|byte| **byte == b'=').count();
    all.push(form(reversed.split_off(padding), FoundAs::Base64));
    let once = BASE64.encode(value);
    let hex_of_base64 = HEXLOWER.encode(once.as_bytes()).into_bytes();
    all.push(form(hex_of_base64, FoundAs::Hex));
    let base64_of_hex = HEXLOWER.encode(value).into_bytes();
    for inner in [once.into_bytes(), base64_of_hex] {
        all.extend(inside(Alphabet::BASE64, &inner));
    }
    // Of something longer, and encoded again.
    let mut inner: Vec<_> = middles(Alphabet::BASE64, value).map(|(text, _)| text).collect();
    inner.sort_unstable_by(|one, other| one.as_slice().cmp(other.as_slice()));
    inner.dedup();
    all.extend(inner.iter().flat_map(|inner| inside(Alphabet::BASE64, inner)));
    all
}

/// As UTF-16, the lower byte of each unit first and last; what is no text, with two bytes for each.
fn wide(value: &[u8]) -> [Zeroizing<Vec<u8>>; 2] {
    let mut units = Zeroizing::new(Vec::with_capacity(value.len()));
    match std::str::from_utf8(value) {
        Ok(text) => units.extend(text.encode_utf16()),
        Err(_) => units.extend(value.iter().map(|byte| u16::from(*byte))),
    }
    [
        Zeroizing::new(units.iter().flat_map(|unit| unit.to_le_bytes()).collect()),
        Zeroizing::new(units.iter().flat_map(|unit| unit.to_be_bytes()).collect()),
    ]
}

/// Bytes beyond ASCII, each taken for a character of Latin-1 and written as UTF-8.
fn taken_for_latin(value: &[u8]) -> Option<Form> {
    if value.is_ascii() {
        return None;
    }
    // Room for all of it, so that growing leaves no copies behind.
    let mut text = Zeroizing::new(Vec::with_capacity(value.len() * 2));
    for byte in value {
        text.extend_from_slice(char::from(*byte).encode_utf8(&mut [0; 2]).as_bytes());
    }
    Some(whole(text, FoundAs::Plain, Shared::default()))
}

/// Three fifths of a value in a row, wherever in it (13.2 has its beginning and its end): the pieces of which any such part
/// has one.
fn parts(value: &[u8]) -> Vec<Form> {
    let least = (value.len() * 3).div_ceil(5).max(MIN_PART);
    if least >= value.len() {
        return Vec::new();
    }
    let shortest = (value.len() * 2 / 5).clamp(MIN_PART, MAX_PIECE);
    // One of punctuation would have everything looked at for its sake.
    let can_be_screened = |length: &usize| {
        let mut pieces = pieces(value.len(), least, *length);
        pieces.all(|piece| of_pattern(&value[piece]).len() >= MIN_EXACT)
    };
    let mut lengths = shortest..=least.min(shortest * 2);
    let length = lengths.find(can_be_screened).unwrap_or(shortest);
    let of = Arc::new(Large { value: Zeroizing::new(value.to_vec()), least });
    let piece = |piece: Range<usize>| Form {
        text: Zeroizing::new(value[piece.clone()].to_vec()),
        kind: FoundAs::Plain,
        part: Part::Piece { at: piece.start, of: Arc::clone(&of) },
        shared: Shared::default(),
    };
    pieces(value.len(), least, length).map(piece).collect()
}

/// Pieces of so many bytes, of which any part of a value that has `least` or more has one whole.
fn pieces(size: usize, least: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    // The last part that begins before a piece, and every one that begins behind it, has the next one whole.
    let (slack, ends_at) = (least - length, size - least);
    let places = successors(Some(slack), move |at| (*at < ends_at).then(|| at + slack + 1));
    places.map(move |at| at.min(size - length)).map(move |at| at..at + length)
}

/// In the bare text in lower case and without what separates hex digits and what quotes.
pub(super) fn folded(value: &[u8]) -> Vec<Form> {
    let value = value.trim_ascii_end();
    let hex = HEXLOWER.encode(value).into_bytes();
    let mut all = Vec::new();
    if hex.len() >= MIN_PART {
        all.push(form(hex, FoundAs::Hex));
        // As `od -x` and others with little-endian words write it.
        let swapped: Vec<u8> = value.chunks_exact(2).flat_map(|pair| [pair[1], pair[0]]).collect();
        all.push(form(HEXLOWER.encode(&swapped).into_bytes(), FoundAs::Hex));
        all.extend(wide(value).map(|text| form(HEXLOWER.encode(&text).into_bytes(), FoundAs::Hex)));
        // By bytes and by digits.
        let turned: Vec<u8> = value.iter().rev().copied().collect();
        all.push(form(HEXLOWER.encode(&turned).into_bytes(), FoundAs::Hex));
        all.push(form(
            HEXLOWER.encode(value).into_bytes().into_iter().rev().collect(),
            FoundAs::Hex,
        ));
    }
    let cases = other_cases(value);
    for text in [value].into_iter().chain(cases.iter().map(|text| text.as_slice())) {
        // With something between its characters, an `x` has no escape before it.
        let between = Zeroizing::new(spread(text, b"-"));
        for [_, text] in [view::remains(text), view::remains(&between)] {
            if text.len() >= MIN_FOLDED {
                all.push(whole(text, FoundAs::Plain, Shared::default()));
            }
        }
    }
    all
}

/// What that view leaves too little of, in the ways of writing it that come of themselves.
fn punctuated(value: &[u8]) -> Vec<Form> {
    let value = value.trim_ascii_end();
    if value.len() < MIN_PART || view::remains(value)[1].len() >= MIN_FOLDED {
        return Vec::new();
    }
    let swapped = value.iter().map(|byte| match byte {
        b'a'..=b'z' => byte.to_ascii_uppercase(),
        other => other.to_ascii_lowercase(),
    });
    let mut all = vec![value.to_ascii_uppercase(), value.to_ascii_lowercase(), swapped.collect()];
    all.extend(
        [&b"-"[..], b",", b".", b":", b";", b"|", b"\",\"", b"','"]
            .map(|between| spread(value, between)),
    );
    if value.contains(&b'\'') {
        all.push(quoted(&quoted(value)));
    }
    all.into_iter().map(|text| form(text, FoundAs::Plain)).collect()
}

/// As a shell writes it between single quotes.
fn quoted(value: &[u8]) -> Vec<u8> {
    value.split(|byte| *byte == b'\'').collect::<Vec<_>>().join(&b"'\\''"[..])
}

/// With something between its bytes.
fn spread(value: &[u8], between: &[u8]) -> Vec<u8> {
    value.iter().map(std::slice::from_ref).collect::<Vec<_>>().join(between)
}

/// A value with letters beyond ASCII as upper case, lower case, and what becomes of upper case made lower (`ß` is `ss`
/// then). The view itself does that to ASCII alone.
fn other_cases(value: &[u8]) -> Vec<Zeroizing<Vec<u8>>> {
    let Some(text) = beyond_ascii(value) else { return Vec::new() };
    let upper = Zeroizing::new(text.to_uppercase());
    let all = [upper.to_lowercase(), text.to_lowercase(), text.to_uppercase()];
    all.map(|text| Zeroizing::new(text.into_bytes())).into()
}

/// A value with letters beyond ASCII as one byte for each of Latin-1, which is what `\xfc` stands for in Python.
fn latin(value: &[u8]) -> Option<Form> {
    let text = beyond_ascii(value)?;
    let mut latin = Zeroizing::new(Vec::with_capacity(value.len()));
    for character in text.chars() {
        match u8::try_from(character) {
            Ok(byte) => latin.push(byte),
            Err(_) => latin.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    let is_long = latin.len() >= super::MIN_SANITIZED && latin.len() < value.len();
    is_long.then(|| whole(latin, FoundAs::Plain, Shared::default()))
}

fn beyond_ascii(value: &[u8]) -> Option<&str> {
    if value.is_ascii() { None } else { std::str::from_utf8(value).ok() }
}

/// In a text whose escapes were undone.
pub(super) fn plain(value: &[u8]) -> Vec<Form> {
    let trimmed = value.trim_ascii_end();
    if trimmed.len() < super::MIN_SANITIZED {
        return Vec::new();
    }
    let mut all = vec![form(trimmed.to_vec(), FoundAs::Plain)];
    all.extend(latin(trimmed));
    if trimmed.len() >= MIN_PART {
        all.extend(inside(Alphabet::BASE64, trimmed));
        all.extend(parts(trimmed));
    }
    all
}

fn rot13(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => (byte - b'a' + 13) % 26 + b'a',
        b'A'..=b'Z' => (byte - b'A' + 13) % 26 + b'A',
        other => other,
    }
}
