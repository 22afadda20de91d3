//! Placeholders that hide behind escapes in a body: `kloak%5F...` in a form, `\u006bloak_...` in
//! JSON. The server would read them as placeholders, and nobody would know why it refuses them.
//!
//! No encoder escapes letters, digits or `_`, so nobody writes them by accident; they are refused
//! with the reason, not swapped. Follows reference/egress.md, trap 13.

use super::{escape::Escape, find::percent_decoded, table::SwapTable};

/// The longest escape: `\u006b`.
const LONGEST_ESCAPE: usize = 6;

/// Looks for hidden placeholders in one body, chunk by chunk.
pub(super) struct Lookout {
    escape: Escape,
    /// The end of what came before: as much as a placeholder takes with all of it escaped.
    tail: Vec<u8>,
}

impl Lookout {
    pub(super) fn new(escape: Escape) -> Self {
        Self { escape, tail: Vec::new() }
    }

    /// The secret of the first hidden placeholder that ends in `chunk`.
    pub(super) fn look(&mut self, table: &SwapTable, chunk: &[u8]) -> Option<usize> {
        if self.escape == Escape::Raw {
            return None;
        }
        let head = &chunk[..chunk.len().min(LONGEST_ESCAPE)];
        let suspicious =
            self.hides_letters(chunk) || self.hides_letters(&[&self.tail, head].concat());
        let found =
            if suspicious { self.first_hidden(table, &[&self.tail, chunk].concat()) } else { None };
        self.keep(chunk, LONGEST_ESCAPE * table.patterns().longest());
        found
    }

    fn keep(&mut self, chunk: &[u8], most: usize) {
        if chunk.len() >= most {
            self.tail.clear();
        }
        self.tail.extend_from_slice(&chunk[chunk.len().saturating_sub(most)..]);
        let surplus = self.tail.len().saturating_sub(most);
        self.tail.drain(..surplus);
    }

    /// Whether an escape stands for something that needs none.
    fn hides_letters(&self, text: &[u8]) -> bool {
        match self.escape {
            Escape::Json => memchr::memmem::find(text, b"\\u00").is_some(),
            Escape::Percent => memchr::memchr_iter(b'%', text).any(|at| {
                // `%3x` to `%7x`: digits, letters and `_`.
                text.get(at + 1).is_none_or(|high| (b'3'..=b'7').contains(high))
            }),
            Escape::Raw => false,
        }
    }

    fn first_hidden(&self, table: &SwapTable, text: &[u8]) -> Option<usize> {
        let (decoded, places) = match self.escape {
            Escape::Json => json_decoded(text),
            Escape::Percent | Escape::Raw => percent_decoded(text),
        };
        let mut from = 0;
        while let Some((range, pattern)) = table.patterns().find(&decoded, from) {
            from = range.end;
            let written = &text[places[range.start]..places[range.end]];
            if written.len() > range.len() && !table.is_spelling(written) {
                return Some(table.spelling(pattern).secret);
            }
        }
        None
    }
}

/// `text` with its escapes for ASCII decoded, and for each decoded byte (and the end) where it
/// began. Others stay as they are: no placeholder has such characters.
pub(super) fn json_decoded(text: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let mut decoded = Vec::with_capacity(text.len());
    let mut places = Vec::with_capacity(text.len() + 1);
    let mut at = 0;
    while at < text.len() {
        places.push(at);
        let (byte, length) = match text[at..] {
            [b'\\', b'u', b'0', b'0', high, low, ..] => {
                let escaped = str::from_utf8(&[high, low])
                    .ok()
                    .and_then(|digits| u8::from_str_radix(digits, 16).ok());
                escaped.map_or((b'\\', 1), |byte| (byte, LONGEST_ESCAPE))
            }
            // An escaped backslash hides nothing of what follows it.
            [b'\\', b'\\', ..] => (b'\\', 2),
            [byte, ..] => (byte, 1),
            [] => break,
        };
        decoded.push(byte);
        at += length;
    }
    places.push(at);
    (decoded, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swap::testing::Bench;

    fn hidden(escape: Escape, chunks: &[&str]) -> bool {
        let bench = Bench::one();
        let mut lookout = Lookout::new(escape);
        chunks.iter().any(|chunk| {
            let chunk = chunk.replace("PLACEHOLDER", bench.placeholder(0));
            lookout.look(&bench.table, chunk.as_bytes()).is_some()
        })
    }

    #[test]
    fn escapes_are_seen_through() {
        let bench = Bench::one();
        let placeholder = bench.placeholder(0);
        let form = placeholder.replace('_', "%5F");
        let json = placeholder.replacen('k', "\\u006b", 1);
        let all: Vec<_> = placeholder.bytes().map(|byte| format!("\\u{byte:04X}")).collect();
        let all = all.concat();
        for (escape, text) in
            [(Escape::Percent, &form), (Escape::Json, &json), (Escape::Json, &all)]
        {
            let text = format!("some=%20\\n{text}&more");
            for cut in 0..text.len() {
                let (before, after) = text.split_at(cut);
                assert!(hidden(escape, &[before, after]), "{escape:?} {before:?} {after:?}");
            }
            assert!(!hidden(Escape::Raw, &[&text]));
        }
    }

    #[test]
    fn plain_ones_and_other_escapes_are_not() {
        for text in
            ["a=PLACEHOLDER&b=%41%5F", "%3D", "\\u0041 PLACEHOLDER", "\\\\u006b", "%", "\\u"]
        {
            assert!(!hidden(Escape::Percent, &[text]), "{text}");
            assert!(!hidden(Escape::Json, &[text]), "{text}");
        }
    }
}
