//! The inside of a string as shells, databases and languages quote it. They differ in what they do to the quotes.
//!
//! A value without quotes, backslashes, control characters and letters beyond ASCII looks in all of them as it is.

use zeroize::Zeroizing;

/// One writer's habits.
pub(super) struct Quoted {
    apostrophe: Run,
    quote: &'static str,
    backslash: &'static str,
    others: Others,
}

/// What becomes of apostrophes in a row: as they stand in a text in apostrophes, which ends before them and begins anew
/// behind them. Where a value begins or ends with some, the outermost byte of that is not always written.
struct Run {
    before: &'static str,
    each: &'static str,
    after: &'static str,
}

/// What becomes of control characters and of letters beyond ASCII.
#[derive(Clone, Copy)]
enum Others {
    Kept,
    /// `$'...'` of bash, with the letters of UTF-8 as they are.
    AnsiC,
    /// `$'...'` of bash in a locale without letters of UTF-8.
    AnsiCOctal,
    /// Python's `repr`.
    Python,
    /// Python's `ascii`.
    PythonAscii,
    /// Python's `repr` of bytes.
    PythonBytes,
    /// JavaScript and MySQL: line ends and tabs alone.
    Script,
}

/// No byte becomes more; behind the last one apostrophes may need as many again.
const LONGEST: usize = 5;

pub(super) static ALL: [Quoted; 15] = [
    // POSIX shells, `set -x` and `${x@Q}` of bash.
    Quoted { apostrophe: each("'\\''"), quote: "\"", backslash: "\\", others: Others::Kept },
    // Python's `shlex.quote`.
    Quoted { apostrophe: each("'\"'\"'"), quote: "\"", backslash: "\\", others: Others::Kept },
    // `set -x` of dash and busybox.
    Quoted { apostrophe: DASH, quote: "\"", backslash: "\\", others: Others::Kept },
    // mksh and others that quote nothing where there is nothing.
    Quoted { apostrophe: SPARING, quote: "\"", backslash: "\\", others: Others::Kept },
    // SQL, YAML, PowerShell.
    Quoted { apostrophe: each("''"), quote: "\"", backslash: "\\", others: Others::Kept },
    // CSV, names in SQL.
    Quoted { apostrophe: each("'"), quote: "\"\"", backslash: "\\", others: Others::Kept },
    // PHP's `addslashes`.
    Quoted { apostrophe: each("\\'"), quote: "\\\"", backslash: "\\\\", others: Others::Kept },
    Quoted { apostrophe: each("\\'"), quote: "\\\"", backslash: "\\\\", others: Others::Script },
    // Python, in apostrophes and in quotes.
    Quoted { apostrophe: each("\\'"), quote: "\"", backslash: "\\\\", others: Others::Python },
    Quoted { apostrophe: each("'"), quote: "\"", backslash: "\\\\", others: Others::Python },
    Quoted { apostrophe: each("\\'"), quote: "\"", backslash: "\\\\", others: Others::PythonAscii },
    Quoted { apostrophe: each("'"), quote: "\"", backslash: "\\\\", others: Others::PythonAscii },
    Quoted { apostrophe: each("'"), quote: "\"", backslash: "\\\\", others: Others::PythonBytes },
    Quoted { apostrophe: each("\\'"), quote: "\"", backslash: "\\\\", others: Others::AnsiC },
    Quoted { apostrophe: each("\\'"), quote: "\"", backslash: "\\\\", others: Others::AnsiCOctal },
];

const DASH: Run = Run { before: "'\"", each: "'", after: "\"'" };
const SPARING: Run = Run { before: "'", each: "\\'", after: "'" };

const fn each(each: &'static str) -> Run {
    Run { before: "", each, after: "" }
}

impl Quoted {
    pub(super) fn write(&self, text: &[u8]) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity((text.len() + 1) * LONGEST));
        let mut left = text.len();
        for run in text.chunk_by(|a, b| (*a == b'\'') == (*b == b'\'')) {
            left -= run.len();
            if run[0] == b'\'' {
                self.apostrophe.write(run.len(), left == 0, &mut out);
            } else {
                self.write_others(run, &mut out);
            }
        }
        out
    }

    /// Bytes that are not UTF-8 have no letters' names, and stay where only these are escaped.
    fn write_others(&self, run: &[u8], out: &mut Vec<u8>) {
        for part in run.utf8_chunks() {
            for character in part.valid().chars() {
                match character {
                    '"' => out.extend_from_slice(self.quote.as_bytes()),
                    '\\' => out.extend_from_slice(self.backslash.as_bytes()),
                    ' '..='~' => out.extend(u8::try_from(character)),
                    _ => self.others.write(character, out),
                }
            }
            for byte in part.invalid() {
                self.others.write_byte(*byte, out);
            }
        }
    }
}

impl Run {
    fn write(&self, count: usize, is_last: bool, out: &mut Vec<u8>) {
        let (before, after) = (self.before.as_bytes(), self.after.as_bytes());
        let is_first = out.is_empty();
        out.extend_from_slice(if is_first { before.get(1..).unwrap_or_default() } else { before });
        for _ in 0..count {
            out.extend_from_slice(self.each.as_bytes());
        }
        let kept = after.len().saturating_sub(usize::from(is_last));
        out.extend_from_slice(&after[..kept]);
    }
}

impl Others {
    fn write(self, character: char, out: &mut Vec<u8>) {
        let by_name = match (self, character) {
            (Self::Kept, _) => None,
            (_, '\n') => Some(b'n'),
            (_, '\r') => Some(b'r'),
            (_, '\t') => Some(b't'),
            (Self::AnsiC | Self::AnsiCOctal, _) => match character {
                '\u{7}' => Some(b'a'),
                '\u{8}' => Some(b'b'),
                '\u{b}' => Some(b'v'),
                '\u{c}' => Some(b'f'),
                '\u{1b}' => Some(b'E'),
                _ => None,
            },
            _ => None,
        };
        if let Some(name) = by_name {
            return out.extend_from_slice(&[b'\\', name]);
        }
        let is_kept = match self {
            Self::Kept | Self::Script => true,
            Self::AnsiC | Self::Python => !character.is_control(),
            Self::AnsiCOctal | Self::PythonAscii | Self::PythonBytes => false,
        };
        match (self, u32::from(character)) {
            (Self::Python | Self::PythonAscii, code) if !is_kept => write_code(code, out),
            _ => {
                let mut room = Zeroizing::new([0; 4]);
                for byte in character.encode_utf8(&mut *room).bytes() {
                    if is_kept { out.push(byte) } else { self.write_byte(byte, out) }
                }
            }
        }
    }

    /// Of no letter, or of one that is written byte by byte.
    fn write_byte(self, byte: u8, out: &mut Vec<u8>) {
        match self {
            Self::Kept | Self::Python | Self::PythonAscii | Self::Script => out.push(byte),
            Self::AnsiC | Self::AnsiCOctal => {
                let digits = [byte >> 6, byte >> 3 & 7, byte & 7].map(|digit| b'0' + digit);
                out.extend_from_slice(&[b'\\', digits[0], digits[1], digits[2]]);
            }
            Self::PythonBytes => write_code(byte.into(), out),
        }
    }
}

/// As Python escapes it: with two digits, four or eight.
fn write_code(code: u32, out: &mut Vec<u8>) {
    let (letter, digits) = match code {
        0..=0xff => (b'x', 2),
        0x100..=0xffff => (b'u', 4),
        _ => (b'U', 8),
    };
    out.extend_from_slice(&[b'\\', letter]);
    for at in (0..digits).rev() {
        let digit = usize::try_from(code >> (at * 4) & 15).expect("it is below 16");
        out.push(super::LOWER[digit]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(style: usize, text: &str, expected: &str) {
        let written = ALL[style].write(text.as_bytes());
        assert_eq!(String::from_utf8_lossy(&written), expected);
    }

    #[test]
    fn writers_quote_what_their_sources_say() {
        let text = "it's ''a\"b\\c";
        check(0, text, r#"it'\''s '\'''\''a"b\c"#);
        check(1, text, r#"it'"'"'s '"'"''"'"'a"b\c"#);
        check(2, text, r#"it'"'"'s '"''"'a"b\c"#);
        check(3, text, r#"it'\''s '\'\''a"b\c"#);
        check(4, text, r#"it''s ''''a"b\c"#);
        check(5, text, r#"it's ''a""b\c"#);
        check(6, text, r#"it\'s \'\'a\"b\\c"#);
        let text = "Zürich€🔑'\n\u{1b}\u{7f}";
        check(7, text, "Zürich€🔑\\'\\n\u{1b}\u{7f}");
        check(8, text, r"Zürich€🔑\'\n\x1b\x7f");
        check(9, text, r"Zürich€🔑'\n\x1b\x7f");
        check(10, text, r"Z\xfcrich\u20ac\U0001f511\'\n\x1b\x7f");
        check(12, text, r"Z\xc3\xbcrich\xe2\x82\xac\xf0\x9f\x94\x91'\n\x1b\x7f");
        check(13, text, r"Zürich€🔑\'\n\E\177");
        check(14, text, r"Z\303\274rich\342\202\254\360\237\224\221\'\n\E\177");
    }

    #[test]
    fn apostrophes_at_the_ends_are_found_whether_or_not_nothing_is_quoted_beside_them() {
        check(0, "'a'", r"'\''a'\''");
        // `''"'"'a'"'"` of dash.
        check(2, "'a'", r#""'"'a'"'""#);
        // `\''a'\'` of mksh.
        check(3, "'a'", r"\''a'\'");
    }

    #[test]
    fn bytes_that_are_not_text_stay_or_have_numbers() {
        assert_eq!(*ALL[8].write(b"a\xff'"), b"a\xff\\'");
        assert_eq!(*ALL[12].write(b"a\xff'"), b"a\\xff'");
        assert_eq!(*ALL[14].write(b"a\xff'"), b"a\\377\\'");
    }

    #[test]
    fn nothing_grows_beyond_the_room_made_for_it() {
        for style in &ALL {
            for text in ["'", "a'", "\"", "\\", "ü", "€", "🔑", "\u{1b}", "'''"] {
                assert!(style.write(text.as_bytes()).len() <= (text.len() + 1) * LONGEST);
            }
        }
    }
}
