//! In how many strings of JSON a place stands: that of a body, and those in the text of another (arguments of a call,
//! GraphQL's own strings).
//!
//! Told by the quotes before it, as often escaped as they are. Quotes of prose count as well: where they stand in pairs,
//! nothing comes of it. Deliberately not here: how a value is spelled there (`escape.rs`).

use memchr::memchr_iter;

/// Deeper, a value is spelled as at this depth: each string more may double it.
const DEEPEST: u32 = 4;

/// Reads a text from its beginning on.
#[derive(Default)]
pub(super) struct Nesting {
    open: u32,
    at: usize,
}

impl Nesting {
    /// How many strings are open at `place`, which is behind all places that were asked about before.
    pub(super) fn strings(&mut self, text: &[u8], place: usize) -> u32 {
        for quote in memchr_iter(b'"', &text[self.at..place]) {
            let before = text[..self.at + quote].iter().rev();
            let backslashes = before.take_while(|byte| **byte == b'\\').count();
            // Each string around it has had them doubled, and one more put before the quote.
            let level = backslashes.trailing_ones();
            if level < self.open {
                self.open = level;
            } else if level == self.open {
                self.open += 1;
            }
        }
        self.at = place;
        self.open.min(DEEPEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quotes_before_a_place_tell_where_it_stands() {
        for (text, expected) in [
            (r#"{"a":"#, 0),
            (r#"{"a":""#, 1),
            (r#"{"a":"x\\"#, 1),
            (r#"{"a":"C:\\","b":""#, 1),
            (r#"{"a":"{\"b\": \""#, 2),
            (r#"{"a":"{\"b\": \"c\\\\\", \"d\": \""#, 2),
            (r#"{"a":"{\"b\": \"c\"}"#, 1),
            (r#"{"a":"{\"b\": \"c\"}","d":""#, 1),
            (r#"{"a":"{\"b\": \"{\\\"c\\\":\\\""#, 3),
            (r#"{"a":"she said \"no\", and "#, 1),
            (r#"{"a":"5\" and more","b":""#, 1),
            (r#"{"a":"\\\"", "b":""#, 1),
        ] {
            assert_eq!(Nesting::default().strings(text.as_bytes(), text.len()), expected, "{text}");
            let mut nesting = Nesting::default();
            for place in 0..text.len() {
                nesting.strings(text.as_bytes(), place);
            }
            assert_eq!(nesting.strings(text.as_bytes(), text.len()), expected, "{text}");
        }
    }
}
