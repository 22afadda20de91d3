//! Placeholders in a text that is there as a whole: where they stand, and putting values there.

use core::ops::Range;
use std::sync::LazyLock;

use keyless_core::{Error, PLACEHOLDER_PREFIX};
use keyless_rewrite::PatternSet;
use memchr::memmem::Finder;
use zeroize::Zeroizing;

use super::{escape::Escape, ledger::Values, nesting::Nesting, table::SwapTable};

/// One placeholder in a text.
#[derive(Clone, Debug)]
pub(super) struct Find {
    /// Where, in the bytes as they were sent.
    pub(super) range: Range<usize>,
    /// Index of the secret.
    pub(super) secret: usize,
    /// How the value is spelled there.
    pub(super) escape: Escape,
    /// In how many strings of JSON it stands, where the place is JSON.
    strings: u32,
}

impl Find {
    /// How long the value is as it will stand there.
    pub(super) fn length(&self, values: &Values) -> Result<usize, Error> {
        Ok(self.escape.length_within(self.strings, values.open(self.secret)?))
    }
}

/// Finds every placeholder in `text`.
pub(super) fn find(table: &SwapTable, text: &[u8], escape: Escape) -> Vec<Find> {
    let (mut finds, mut nesting) = (Vec::new(), Nesting::default());
    let mut from = 0;
    while let Some((range, pattern)) = table.patterns().find(text, from) {
        let found = table.spelling(pattern);
        let escape = escape.for_spelling(found.spelling);
        from = range.end;
        let strings = if escape == Escape::Json { nesting.strings(text, range.start) } else { 0 };
        finds.push(Find { range, secret: found.secret, escape, strings });
    }
    finds
}

/// Finds every placeholder in a path or query, however much of it is percent-encoded.
pub(super) fn find_in_target(table: &SwapTable, text: &[u8]) -> Vec<Find> {
    if !text.contains(&b'%') {
        return find(table, text, Escape::Percent);
    }
    let (decoded, places) = percent_decoded(text);
    let mut finds = find(table, &decoded, Escape::Percent);
    for found in &mut finds {
        found.range = places[found.range.start]..places[found.range.end];
    }
    finds
}

/// Whether any of `patterns` is in `text`.
pub(super) fn contains(patterns: &PatternSet, text: &[u8]) -> bool {
    patterns.find(text, 0).is_some()
}

/// Whether `text` holds something of our placeholders' form that is none of `finds`.
pub(super) fn has_stranger(text: &[u8], finds: &[Find]) -> bool {
    // Made once: every field of every request comes by here.
    static STEM: LazyLock<Finder<'static>> = LazyLock::new(|| {
        Finder::new(&PLACEHOLDER_PREFIX.as_bytes()[..PLACEHOLDER_PREFIX.len() - 1])
    });
    if text.len() < PLACEHOLDER_PREFIX.len() + 26 {
        return false;
    }
    let stem = STEM.needle();
    let mut from = 0;
    while let Some(offset) = STEM.find(&text[from..]) {
        let start = from + offset;
        let ours = finds.iter().any(|found| found.range.contains(&start));
        if !ours && is_our_form(&text[start + stem.len()..]) {
            return true;
        }
        from = start + stem.len();
    }
    false
}

/// `text` with the values of `finds` in their places.
pub(super) fn splice(
    text: &[u8],
    finds: &[Find],
    values: &Values,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    // Room for all of it: what outgrows its room leaves a copy behind that nobody wipes.
    let mut room = text.len();
    for found in finds {
        room = room - found.range.len() + found.length(values)?;
    }
    let mut out = Zeroizing::new(Vec::with_capacity(room));
    let mut done = 0;
    for found in finds {
        out.extend_from_slice(&text[done..found.range.start]);
        found.escape.write_within(found.strings, values.open(found.secret)?, &mut out);
        done = found.range.end;
    }
    out.extend_from_slice(&text[done..]);
    Ok(out)
}

/// `text` with its escapes decoded, and for each decoded byte (and the end) where it began.
pub(super) fn percent_decoded(text: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let mut decoded = Vec::with_capacity(text.len());
    let mut places = Vec::with_capacity(text.len() + 1);
    let mut at = 0;
    while at < text.len() {
        places.push(at);
        let escaped = match text[at..] {
            [b'%', high, low, ..] => nibble(high).zip(nibble(low)),
            _ => None,
        };
        let (byte, length) = escaped.map_or((text[at], 1), |(high, low)| (high << 4 | low, 3));
        decoded.push(byte);
        at += length;
    }
    places.push(at);
    (decoded, places)
}

/// What follows the stem `kloak`: a separator and 26 characters of Crockford's base32.
fn is_our_form(rest: &[u8]) -> bool {
    const SEPARATORS: [&[u8]; 4] = [b"_", b":", b"%3A", b"%3a"];
    let crockford =
        |byte: &u8| byte.is_ascii_digit() || (byte.is_ascii_uppercase() && !b"ILOU".contains(byte));
    SEPARATORS
        .iter()
        .filter_map(|separator| rest.strip_prefix(*separator))
        .any(|tail| tail.first_chunk::<26>().is_some_and(|tail| tail.iter().all(crockford)))
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
