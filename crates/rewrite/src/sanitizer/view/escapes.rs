//! Texts whose escapes were undone, wherever they have some.

use memchr::{memchr, memchr2};

use super::{Room, Symbol, View, replaced};

/// With percent escapes undone, and `+` for blanks left as it is.
pub(in crate::sanitizer) fn percent_decoded<'a>(
    text: &[u8],
    room: &'a mut Room,
) -> Option<View<'a>> {
    replaced(
        text,
        room,
        |rest| memchr(b'%', rest),
        |rest| match rest {
            [b'%', high, low, ..] => Some((3, Symbol::Byte(byte(*high, *low)?))),
            _ => None,
        },
    )
}

/// With the escapes of JSON, C, shells and HTML undone.
pub(in crate::sanitizer) fn decoded<'a>(text: &[u8], room: &'a mut Room) -> Option<View<'a>> {
    replaced(
        text,
        room,
        |rest| memchr2(b'\\', b'&', rest),
        |rest| match rest {
            [b'\\', rest @ ..] => backslash(rest).map(|(length, symbol)| (length + 1, symbol)),
            [b'&', rest @ ..] => {
                entity(rest).map(|(length, char)| (length + 1, Symbol::Char(char)))
            }
            _ => None,
        },
    )
}

/// What a backslash and this stand for, and how much of this.
fn backslash(rest: &[u8]) -> Option<(usize, Symbol)> {
    match rest {
        [b'u', a, b, c, d, ..] => {
            let code = [a, b, c, d]
                .into_iter()
                .try_fold(0, |sum, digit| Some(sum << 4 | u32::from(nibble(*digit)?)))?;
            Some((5, Symbol::Char(char::from_u32(code)?)))
        }
        [b'x', high, low, ..] => Some((3, Symbol::Byte(byte(*high, *low)?))),
        [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
            Some((3, Symbol::Byte((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))))
        }
        [b'n', ..] => Some((1, Symbol::Byte(b'\n'))),
        [b'r', ..] => Some((1, Symbol::Byte(b'\r'))),
        [b't', ..] => Some((1, Symbol::Byte(b'\t'))),
        [b'\n', ..] => Some((1, Symbol::Nothing)),
        [other, ..] if other.is_ascii_punctuation() || *other == b' ' => {
            Some((1, Symbol::Byte(*other)))
        }
        _ => None,
    }
}

/// What an ampersand and this stand for, and how much of this.
fn entity(rest: &[u8]) -> Option<(usize, char)> {
    let end = rest.iter().take(10).position(|byte| *byte == b';')?;
    let name = std::str::from_utf8(&rest[..end]).ok()?;
    let code = match name {
        "amp" => 0x26,
        "lt" => 0x3c,
        "gt" => 0x3e,
        "quot" => 0x22,
        "apos" => 0x27,
        _ => match name.strip_prefix("#x").or_else(|| name.strip_prefix("#X")) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => name.strip_prefix('#')?.parse().ok()?,
        },
    };
    Some((end + 1, char::from_u32(code)?))
}

fn byte(high: u8, low: u8) -> Option<u8> {
    Some(nibble(high)? << 4 | nibble(low)?)
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
