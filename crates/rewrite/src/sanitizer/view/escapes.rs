//! Texts whose escapes were undone, wherever they have some.

use std::ops::Range;

use memchr::{memchr_iter, memchr2_iter};

use super::{Room, Symbol, View, replaced};

/// A way of writing bytes as others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::sanitizer) enum Escaping {
    /// Percent escapes; a `+` for a blank is none.
    Percent,
    /// The escapes of JSON, C, shells and HTML.
    Text,
}

/// One of them, and what it stands for.
pub(in crate::sanitizer) struct Escape {
    pub(in crate::sanitizer) at: usize,
    pub(in crate::sanitizer) length: usize,
    pub(in crate::sanitizer) symbol: Symbol,
}

impl Escaping {
    /// Tells `then` each escape of a text, in order, and where something only begins as one does.
    pub(in crate::sanitizer) fn each(
        self,
        text: &[u8],
        mut then: impl FnMut(Result<Escape, usize>),
    ) {
        let mut end = 0;
        let look = |at: usize| {
            // Unless it belongs to the one before.
            if at >= end {
                let escape = self.at(text, at);
                end = escape.as_ref().map_or(at, |escape| at + escape.length);
                then(escape.ok_or(at));
            }
        };
        match self {
            Self::Percent => memchr_iter(b'%', text).for_each(look),
            Self::Text => memchr2_iter(b'\\', b'&', text).for_each(look),
        }
    }

    /// The one that begins here.
    pub(in crate::sanitizer) fn at(self, text: &[u8], at: usize) -> Option<Escape> {
        let (length, symbol) = self.decode(&text[at..])?;
        Some(Escape { at, length, symbol })
    }

    /// No escape has more bytes, but for line ends that are escaped within it.
    pub(in crate::sanitizer) fn longest(self) -> usize {
        match self {
            Self::Percent => 3,
            Self::Text => 11,
        }
    }

    /// Whether an escape may begin with this byte.
    pub(in crate::sanitizer) fn begins(self, byte: u8) -> bool {
        match self {
            Self::Percent => byte == b'%',
            Self::Text => matches!(byte, b'\\' | b'&'),
        }
    }

    /// Whether this byte may be in it where it stands for itself no more, behind its first.
    pub(in crate::sanitizer) fn goes_on(self, byte: u8) -> bool {
        match self {
            Self::Percent => byte.is_ascii_hexdigit(),
            Self::Text => is_named(byte) || byte == b';',
        }
    }

    /// What stands at the beginning of this, and how long it is.
    fn decode(self, rest: &[u8]) -> Option<(usize, Symbol)> {
        match (self, rest) {
            (Self::Percent, [b'%', high, low, ..]) => Some((3, Symbol::byte(byte(*high, *low)?))),
            (Self::Text, [b'\\', rest @ ..]) => {
                backslash(rest).map(|(length, symbol)| (length + 1, symbol))
            }
            (Self::Text, [b'&', rest @ ..]) => {
                entity(rest).map(|(length, char)| (length + 1, Symbol::char(char)))
            }
            _ => None,
        }
    }

    /// A part of a text with its escapes undone, which are at these places of the text.
    pub(in crate::sanitizer) fn undone<'a>(
        self,
        text: &[u8],
        part: Range<usize>,
        escapes: impl Iterator<Item = usize>,
        room: &'a mut Room,
    ) -> View<'a> {
        let places = escapes.filter_map(|at| {
            let (length, symbol) = self.decode(&text[at..])?;
            Some((at - part.start, length, symbol))
        });
        replaced(&text[part.clone()], room, places)
    }
}

/// What a backslash and this stand for, and how much of this.
fn backslash(rest: &[u8]) -> Option<(usize, Symbol)> {
    match rest {
        [b'u', a, b, c, d, ..] => {
            let code = [a, b, c, d]
                .into_iter()
                .try_fold(0, |sum, digit| Some(sum << 4 | u32::from(nibble(*digit)?)))?;
            Some((5, Symbol::char(char::from_u32(code)?)))
        }
        [b'x', high, low, ..] => Some((3, Symbol::byte(byte(*high, *low)?))),
        [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
            Some((3, Symbol::byte((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))))
        }
        [b'n', ..] => Some((1, Symbol::byte(b'\n'))),
        [b'r', ..] => Some((1, Symbol::byte(b'\r'))),
        [b't', ..] => Some((1, Symbol::byte(b'\t'))),
        [b'\n', ..] => Some((1, Symbol::NOTHING)),
        [other, ..] if other.is_ascii_punctuation() || *other == b' ' => {
            Some((1, Symbol::byte(*other)))
        }
        _ => None,
    }
}

/// What an ampersand and this stand for, and how much of this.
fn entity(rest: &[u8]) -> Option<(usize, char)> {
    let end = rest.iter().take(10).position(|byte| !is_named(*byte))?;
    let name = rest[end..].starts_with(b";").then(|| std::str::from_utf8(&rest[..end]).ok())??;
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

/// Whether it may stand in an entity; a number may have a sign.
fn is_named(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'#' | b'+')
}

fn byte(high: u8, low: u8) -> Option<u8> {
    Some(nibble(high)? << 4 | nibble(low)?)
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
