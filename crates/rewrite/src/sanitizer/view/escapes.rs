//! Texts whose escapes were undone, wherever they have some.

use std::ops::Range;

use super::{Replacing, Room, Symbol, View};
use crate::sanitizer::FoundAs;

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
    /// Tells `then` each escape of a text, in order.
    pub(in crate::sanitizer) fn each(self, text: &[u8], mut then: impl FnMut(Escape)) {
        let mut end = 0;
        let look = |at: usize| {
            // Unless it belongs to the one before.
            if at >= end
                && let Some(escape) = self.at(text, at)
            {
                end = at + escape.length;
                then(escape);
            }
        };
        match self {
            Self::Percent => each_pair(text, |byte, _| byte == b'%', look),
            Self::Text => each_pair(text, |byte, _| matches!(byte, b'\\' | b'&'), look),
        }
    }

    /// What a value is said to be found as, whatever it is underneath.
    pub(in crate::sanitizer) fn label(self) -> Option<FoundAs> {
        match self {
            Self::Percent => Some(FoundAs::Percent),
            Self::Text => None,
        }
    }

    /// The one that begins here.
    pub(in crate::sanitizer) fn at(self, text: &[u8], at: usize) -> Option<Escape> {
        let (length, symbol) = self.decode(&text[at..])?;
        Some(Escape { at, length, symbol })
    }

    /// No escape has more bytes.
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

    /// Whether this byte may be in one behind its first.
    pub(in crate::sanitizer) fn goes_on(self, byte: u8) -> bool {
        match self {
            Self::Percent => byte.is_ascii_hexdigit(),
            Self::Text => is_named(byte) || matches!(byte, b';' | b'{' | b'}'),
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

    /// A text with its escapes undone; nothing when there are none.
    pub(in crate::sanitizer) fn undone<'a>(
        self,
        text: &[u8],
        room: &'a mut Room,
    ) -> Option<View<'a>> {
        let mut view = Replacing::new(text, room);
        self.each(text, |Escape { at, length, symbol }| view.replace(at, length, symbol));
        view.finish()
    }

    /// A part of a text with those escapes undone that begin at these places of the text.
    pub(in crate::sanitizer) fn undone_at<'a>(
        self,
        text: &[u8],
        part: Range<usize>,
        places: impl Iterator<Item = usize>,
        room: &'a mut Room,
    ) -> Option<View<'a>> {
        let mut view = Replacing::new(&text[part.clone()], room);
        for Escape { at, length, symbol } in places.filter_map(|at| self.at(text, at)) {
            view.replace(at - part.start, length, symbol);
        }
        view.finish()
    }
}

/// Tells `then` where a byte is that is looked for, by itself and the one behind it (0xff at the end). They stand close
/// together: so 64 bytes at a time become a bit each, which costs less than to set out anew behind every one.
pub(in crate::sanitizer) fn each_pair(
    text: &[u8],
    is_one: impl Fn(u8, u8) -> bool,
    mut then: impl FnMut(usize),
) {
    let mut start = 0;
    while let Some(block) = text[start..].first_chunk::<65>() {
        let mut flags = [0; 64];
        for (flag, (byte, next)) in flags.iter_mut().zip(block[..64].iter().zip(&block[1..])) {
            *flag = u8::from(is_one(*byte, *next));
        }
        let mut bits = flags.as_chunks().0.iter().rev().fold(0, |bits, flags| {
            // The lowest bit of each byte, beside the others at the top.
            bits << 8 | u64::from_le_bytes(*flags).wrapping_mul(0x0102_0408_1020_4080) >> 56
        });
        while bits != 0 {
            then(start + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
        start += 64;
    }
    for at in start..text.len() {
        if is_one(text[at], text.get(at + 1).copied().unwrap_or(0xff)) {
            then(at);
        }
    }
}

/// What a backslash and this stand for, and how much of this.
fn backslash(rest: &[u8]) -> Option<(usize, Symbol)> {
    match rest {
        // Of JavaScript, Rust and Perl.
        [b'u' | b'x', b'{', rest @ ..] => {
            let end = rest.iter().take(7).position(|byte| *byte == b'}').filter(|end| *end > 0)?;
            Some((end + 3, by_number(&rest[..end])?))
        }
        [b'u', rest @ ..] => Some((5, by_number(rest.get(..4)?)?)),
        // Of Python.
        [b'U', rest @ ..] => Some((9, by_number(rest.get(..8)?)?)),
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

/// The character with this number, in hex digits.
fn by_number(digits: &[u8]) -> Option<Symbol> {
    let add = |sum: u32, digit: &u8| sum.checked_mul(16)?.checked_add(nibble(*digit)?.into());
    char::from_u32(digits.iter().try_fold(0, add)?).map(Symbol::char)
}

/// How much is looked at behind an ampersand.
const MAX_ENTITY: usize = 10;

/// What an ampersand and this stand for, and how much of this.
fn entity(rest: &[u8]) -> Option<(usize, char)> {
    let rest = &rest[..rest.len().min(MAX_ENTITY)];
    let (length, code) = match rest {
        [b'#', b'x' | b'X', digits @ ..] => {
            let (count, code) = number(digits, 16)?;
            (count + 2, code)
        }
        [b'#', digits @ ..] => {
            let (count, code) = number(digits, 10)?;
            (count + 1, code)
        }
        _ => {
            let end = rest.iter().position(|byte| *byte == b';')?;
            let code = match &rest[..end] {
                b"amp" => 0x26,
                b"lt" => 0x3c,
                b"gt" => 0x3e,
                b"quot" => 0x22,
                b"apos" => 0x27,
                _ => return None,
            };
            (end, code)
        }
    };
    // Browsers read a number without its semicolon as well.
    Some((length + usize::from(rest.get(length) == Some(&b';')), char::from_u32(code)?))
}

/// The number that stands at the beginning of this, which may have a sign, and how much of it that is.
fn number(text: &[u8], base: u32) -> Option<(usize, u32)> {
    let sign = usize::from(text.first() == Some(&b'+'));
    let digits = text[sign..].iter().map_while(|byte| char::from(*byte).to_digit(base));
    let (mut count, mut code) = (0, 0_u32);
    for digit in digits {
        (count, code) = (count + 1, code.checked_mul(base)?.checked_add(digit)?);
    }
    (count > 0).then_some((sign + count, code))
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
