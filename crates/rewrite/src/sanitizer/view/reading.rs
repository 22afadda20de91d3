//! A text as a reader sees it: with what was struck over gone, and all that has no look of its own.
//!
//! Source: Unicode 17, `Default_Ignorable_Code_Point` and General_Category M; compatibility decompositions of UAX 15.

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use super::{Replacing, Room, Symbol, View, each_pair, thinning::control_sequence};
use crate::invisible::is_ignorable;

const BACKSPACE: u8 = 0x08;

/// Without characters that were struck over, controls beyond ASCII, marks over letters and what has no width, and with plain
/// letters and digits for wide, round and mathematical ones. Nothing when there are none.
pub(in crate::sanitizer) fn as_read<'a>(text: &[u8], room: &'a mut Room) -> Option<View<'a>> {
    let mut odd = Vec::new();
    each_pair(text, may_be_odd, |at| odd.extend(Odd::at(text, at)));
    if odd.is_empty() {
        return None;
    }
    let mut view = Replacing::new(text, room);
    for Odd { at, length, symbol } in odd {
        // Unless it was struck over, or stands within a sequence.
        if at + length > view.kept {
            let start = at.max(view.kept);
            view.replace(start, at + length - start, symbol);
        }
    }
    view.finish()
}

/// What is read otherwise than it is written, and how.
struct Odd {
    at: usize,
    length: usize,
    symbol: Symbol,
}

impl Odd {
    /// What begins here, or is struck over by what stands here.
    fn at(text: &[u8], at: usize) -> Option<Self> {
        if text[at] == BACKSPACE {
            let start = start_of_char(text, at);
            return Some(Self { at: start, length: at + 1 - start, symbol: Symbol::NOTHING });
        }
        // Greek, Cyrillic, most ideographs and Hangul; dashes, quotes and dots: not worth a look into tables.
        if let [0xce..=0xd1 | 0xe4..=0xe9 | 0xeb..=0xec, ..]
        | [0xe2, 0x80, 0x90..=0xa7 | 0xb0..=0xbf, ..] = text[at..]
        {
            return None;
        }
        let char = first_char(&text[at..])?;
        let length = char.len_utf8();
        if is_plain(char) {
            return None;
        }
        if is_unseen(char) {
            let length = match char {
                // A control sequence, introduced by one character.
                '\u{9b}' => length + control_sequence(&text[at + length..]),
                _ => length,
            };
            return Some(Self { at, length, symbol: Symbol::NOTHING });
        }
        in_ascii(char).map(|symbol| Self { at, length, symbol })
    }
}

/// Whether something may begin with this, or is struck over: few comparisons, since every byte is asked.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "without a branch it is done for many bytes at once"
)]
fn may_be_odd(byte: u8, _: u8) -> bool {
    (byte >= 0xcc) | (byte == 0xc2) | (byte == BACKSPACE)
}

/// Where the character before this begins.
fn start_of_char(text: &[u8], at: usize) -> usize {
    let back = text[..at].iter().rev().take(4).position(|byte| byte & 0xc0 != 0x80);
    at - back.map_or(usize::from(at > 0), |back| back + 1)
}

fn first_char(text: &[u8]) -> Option<char> {
    let length = match text.first()? {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return None,
    };
    std::str::from_utf8(text.get(..length)?).ok()?.chars().next()
}

/// What is as it looks, told without a look into tables: letters of Latin, Greek, Cyrillic, kana, ideographs and Hangul,
/// punctuation, arrows, frames and pictures.
fn is_plain(char: char) -> bool {
    matches!(
        char,
        '\u{c0}'..='\u{131}'
            | '\u{370}'..='\u{482}'
            | '\u{48a}'..='\u{587}'
            | '\u{2010}'..='\u{2027}'
            | '\u{2030}'..='\u{205e}'
            | '\u{2190}'..='\u{245f}'
            | '\u{2500}'..='\u{2bff}'
            | '\u{3000}'..='\u{3029}'
            | '\u{3041}'..='\u{3096}'
            | '\u{30a0}'..='\u{30fe}'
            | '\u{3400}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7a3}'
            | '\u{1f300}'..='\u{1faff}'
    )
}

/// Whether a character has no look of its own: it is ignorable, a control, an end of a line or what annotates, or a mark
/// over another.
fn is_unseen(char: char) -> bool {
    is_ignorable(char)
        || matches!(char, '\u{80}'..='\u{9f}' | '\u{2028}'..='\u{2029}' | '\u{fff9}'..='\u{fffb}')
        || is_combining_mark(char)
}

/// The letters and digits of ASCII that a character is another look of, and of wide ones the signs as well.
fn in_ascii(char: char) -> Option<Symbol> {
    let is_wide = ('\u{ff01}'..='\u{ff5e}').contains(&char);
    let (mut symbol, mut is_ascii, mut is_word) = (Symbol::NOTHING, true, is_wide);
    decompose_compatible(char, |part| {
        let place = symbol.bytes.get_mut(usize::from(symbol.length));
        match (u8::try_from(part).ok().filter(u8::is_ascii), place) {
            (Some(byte), Some(place)) => {
                *place = byte;
                symbol.length += 1;
                is_word |= byte.is_ascii_alphanumeric();
            }
            _ => is_ascii = false,
        }
    });
    let fits = usize::from(symbol.length) <= char.len_utf8();
    (is_ascii && is_word && fits).then_some(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        let mut room = Room::default();
        let view = as_read(text.as_bytes(), &mut room)?;
        Some(String::from_utf8(view.bytes().to_vec()).unwrap())
    }

    #[test]
    fn what_is_not_seen_is_gone() {
        for (text, seen) in [
            ("h\u{8}hu\u{8}u", "hu"),
            ("_\u{8}h_\u{8}u", "hu"),
            ("é\u{8}éa", "éa"),
            ("h\u{34f}u\u{e0001}n\u{e0041}t", "hunt"),
            ("h\u{301}u\u{9b}1;31mn", "hun"),
            ("ｈｕｎ①𝐚ﬁ", "hun1afi"),
            ("ｐａ＄＄－ｗ＿０．！", "pa$$-w_0.!"),
            ("\u{8}\u{8}x", "x"),
        ] {
            assert_eq!(read(text).as_deref(), Some(seen), "{text:?}");
        }
        for text in ["plain", "Größe, 日本語、ひらがな", "", "…「」"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
