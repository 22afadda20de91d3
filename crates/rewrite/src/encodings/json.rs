//! The inside of a JSON string as the common writers do it. They differ in what they escape unasked.

use zeroize::Zeroizing;

use super::{LOWER, UPPER};

/// One writer's habits.
pub(super) struct Json {
    /// Characters that are written as `\uXXXX`.
    by_number: fn(char) -> bool,
    slash: &'static [u8],
    digits: &'static [u8; 16],
}

pub(super) static ALL: [Json; 16] = [
    Json { by_number: none, slash: b"/", digits: LOWER },
    Json { by_number: none, slash: b"/", digits: UPPER },
    Json { by_number: none, slash: b"\\/", digits: LOWER },
    Json { by_number: beyond_ascii, slash: b"/", digits: LOWER },
    Json { by_number: beyond_ascii, slash: b"/", digits: UPPER },
    Json { by_number: beyond_ascii, slash: b"\\/", digits: LOWER },
    Json { by_number: unsafe_in_html, slash: b"/", digits: LOWER },
    Json { by_number: unsafe_in_html_gson, slash: b"/", digits: LOWER },
    Json { by_number: unsafe_in_html_dotnet, slash: b"/", digits: UPPER },
    Json { by_number: all_but_alphanumeric, slash: b"/", digits: LOWER },
    Json { by_number: all_but_alphanumeric, slash: b"/", digits: UPPER },
    // With slashes escaped as well: PHP's `JSON_HEX_TAG` and its kin are the first.
    Json { by_number: unsafe_in_html, slash: b"\\/", digits: UPPER },
    Json { by_number: unsafe_in_html_dotnet, slash: b"\\/", digits: LOWER },
    Json { by_number: unsafe_in_html_dotnet, slash: b"\\/", digits: UPPER },
    Json { by_number: unsafe_in_html_symfony, slash: b"\\/", digits: LOWER },
    Json { by_number: unsafe_in_html_symfony, slash: b"\\/", digits: UPPER },
];

/// Writer and writer around it, as where a body is quoted in a log or an event: the same one twice, or the plainest around
/// any. Who writes everything by number does so once.
pub(super) fn nested() -> impl Iterator<Item = (&'static Json, &'static Json)> {
    let inner = ALL.iter().filter(|style| !(style.by_number)('-'));
    inner.flat_map(|style| [(style, &ALL[0]), (style, style)])
}

impl Json {
    /// Bytes that are not UTF-8 can't stand in JSON by number, and stay as they are.
    pub(super) fn write(&self, text: &[u8]) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(text.len() * 6));
        for part in text.utf8_chunks() {
            for character in part.valid().chars() {
                self.write_char(character, &mut out);
            }
            out.extend_from_slice(part.invalid());
        }
        out
    }

    fn write_char(&self, character: char, out: &mut Vec<u8>) {
        match character {
            _ if (self.by_number)(character) => self.write_number(character, out),
            '"' => out.extend_from_slice(b"\\\""),
            '/' => out.extend_from_slice(self.slash),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\0'..='\x1f' => self.write_number(character, out),
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }

    fn write_number(&self, character: char, out: &mut Vec<u8>) {
        for &mut unit in character.encode_utf16(&mut [0; 2]) {
            out.extend_from_slice(b"\\u");
            for shift in [12, 8, 4, 0] {
                out.push(self.digits[usize::from(unit >> shift & 15)]);
            }
        }
    }
}

/// What JSON demands and no more: serde_json, `JSON.stringify`.
fn none(_: char) -> bool {
    false
}

/// Python's `json.dumps`; PHP's `json_encode` (with `\/`).
fn beyond_ascii(character: char) -> bool {
    !character.is_ascii()
}

/// Go's `encoding/json`.
fn unsafe_in_html(character: char) -> bool {
    matches!(character, '<' | '>' | '&' | '\u{2028}' | '\u{2029}')
}

/// Java's Gson.
fn unsafe_in_html_gson(character: char) -> bool {
    unsafe_in_html(character) || matches!(character, '=' | '\'')
}

/// .NET's `System.Text.Json`.
fn unsafe_in_html_dotnet(character: char) -> bool {
    beyond_ascii(character) || matches!(character, '"' | '&' | '\'' | '+' | '<' | '>' | '`')
}

/// Symfony's `JsonResponse`: all of PHP's `JSON_HEX_*`.
fn unsafe_in_html_symfony(character: char) -> bool {
    beyond_ascii(character) || matches!(character, '"' | '&' | '\'' | '<' | '>')
}

/// OWASP's JavaScript rule.
fn all_but_alphanumeric(character: char) -> bool {
    !character.is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(style: &Json, text: &str, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&style.write(text.as_bytes())), expected);
    }

    #[test]
    fn writers_escape_what_their_sources_say() {
        let text = "a\"\\/\n\u{1}é😀<=+";
        check(&ALL[0], text, r#"a\"\\/\n\u0001é😀<=+"#);
        check(&ALL[2], text, r#"a\"\\\/\n\u0001é😀<=+"#);
        check(&ALL[3], text, r#"a\"\\/\n\u0001\u00e9\ud83d\ude00<=+"#);
        check(&ALL[6], text, r#"a\"\\/\n\u0001é😀\u003c=+"#);
        check(&ALL[7], text, r#"a\"\\/\n\u0001é😀\u003c\u003d+"#);
        check(&ALL[8], text, r"a\u0022\\/\n\u0001\u00E9\uD83D\uDE00\u003C=\u002B");
        check(&ALL[15], text, r"a\u0022\\\/\n\u0001\u00E9\uD83D\uDE00\u003C=+");
        check(&ALL[9], "a-/\n", r"a\u002d\u002f\u000a");
    }

    #[test]
    fn bytes_that_are_not_text_stay() {
        assert_eq!(*ALL[3].write(b"a\xff\"b"), b"a\xff\\\"b");
    }
}
