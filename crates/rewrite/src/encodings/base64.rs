//! Base64 of a value: alone, or as part of something longer (`user:value` in a Basic header).
//!
//! Three bytes make four symbols. Where a value starts in the middle of three, or ends there, the
//! symbols at that end carry bits of its neighbours too; only the symbols between them are known.
//! What remains outside is at most four bits of the value at either end.

use data_encoding::{BASE64, BASE64URL, Encoding};
use zeroize::Zeroizing;

/// Whether the symbols beside a found text carry bits of the value, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    pub(crate) before: bool,
    pub(crate) after: bool,
}

impl Shared {
    /// Beside the middle of a value of `length` bytes behind `before` others.
    pub(super) fn of(length: usize, before: usize) -> Self {
        Self { before: !before.is_multiple_of(3), after: !(before + length).is_multiple_of(3) }
    }
}

/// Which symbols stand for 62 and 63.
#[derive(Clone, Copy)]
pub(super) enum Alphabet {
    Standard,
    UrlSafe,
}

impl Alphabet {
    pub(super) const ALL: [Self; 2] = [Self::Standard, Self::UrlSafe];

    /// The value alone, padded. Without padding it is found by its middle.
    pub(super) fn whole(self, value: &[u8]) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.encoding().encode(value).into_bytes())
    }

    /// The symbols that depend on `value` alone when `before` bytes (0, 1 or 2) of a group of three
    /// stand before it.
    pub(super) fn middle(self, value: &[u8], before: usize) -> Zeroizing<Vec<u8>> {
        let mut placed = Zeroizing::new(Vec::with_capacity(before + value.len()));
        placed.resize(before, 0);
        placed.extend_from_slice(value);
        let whole = self.whole(&placed);
        let (first, end) = ((before * 8).div_ceil(6), placed.len() * 8 / 6);
        Zeroizing::new(whole[first.min(end)..end].to_vec())
    }

    fn encoding(self) -> Encoding {
        match self {
            Self::Standard => BASE64,
            Self::UrlSafe => BASE64URL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_stands_in_any_surroundings() {
        let value = b"\xfb\xef\xbes3cret-value";
        for before in 0..9 {
            for after in 0..4 {
                let text = [&vec![b'u'; before], &value[..], &vec![b'z'; after]].concat();
                for alphabet in Alphabet::ALL {
                    let whole = String::from_utf8(alphabet.whole(&text).to_vec()).unwrap();
                    let middle = alphabet.middle(value, before % 3);
                    assert!(whole.contains(core::str::from_utf8(&middle).unwrap()));
                }
            }
        }
    }

    #[test]
    fn the_middle_is_as_long_as_it_can_be() {
        let lengths =
            |len| [0, 1, 2].map(|before| Alphabet::Standard.middle(&vec![b'x'; len], before).len());
        assert_eq!(lengths(8), [10, 10, 10]);
        assert_eq!(lengths(9), [12, 11, 11]);
        assert_eq!(lengths(10), [13, 12, 13]);
        assert_eq!(lengths(0), [0, 0, 0]);
    }
}
