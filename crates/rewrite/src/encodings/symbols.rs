//! Base64 and base32 of a value: alone, or as part of something longer (`user:value` in a Basic header).
//!
//! A symbol stands for six bits or five, so three bytes make four symbols, or five bytes eight. Where a value starts in
//! the middle of such a group, or ends there, the symbols at that end carry bits of its neighbours too; only the symbols
//! between them are known. What remains outside is at most four bits of the value at either end.

use data_encoding::{BASE32, BASE32HEX, BASE64, BASE64URL, Encoding};
use zeroize::Zeroizing;

/// Whether the symbols beside a found text carry bits of the value, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    pub(crate) before: bool,
    pub(crate) after: bool,
}

/// How a value stands to the groups of a longer text.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Bytes of a group before it.
    before: usize,
    /// Its own.
    length: usize,
}

impl Place {
    /// Of a value that a group begins with.
    pub(super) fn first(length: usize) -> Self {
        Self { before: 0, length }
    }

    /// Bytes of the value.
    pub(super) fn length(self) -> usize {
        self.length
    }

    fn after(self) -> usize {
        self.before + self.length
    }
}

/// What decodes to a letter or a sign whatever bits of a value stand beside its own: those of its first byte, then those
/// of its last.
const BESIDE: [u8; 2] = [b'1', b'h'];

/// What a marker is made longer with.
pub(super) const PADDING: u8 = b'*';

/// Which symbols stand for the bits.
#[derive(Clone, Copy)]
pub(crate) enum Alphabet {
    Base32,
    /// As some write it who don't mind RFC 4648.
    Base32Lower,
    /// The alphabet of RFC 4648, section 7, whose symbols sort as the bytes do.
    Base32Hex,
    Base32HexLower,
    Base64,
    Base64Url,
}

impl Alphabet {
    pub(crate) const BASE32: [Self; 2] = [Self::Base32, Self::Base32Lower];
    pub(crate) const BASE32_HEX: [Self; 2] = [Self::Base32Hex, Self::Base32HexLower];
    pub(crate) const BASE64: [Self; 2] = [Self::Base64, Self::Base64Url];

    /// The value alone, padded. Without padding it is found by its middle.
    pub(super) fn whole(self, value: &[u8]) -> Zeroizing<Vec<u8>> {
        let mut text = self.encoding().encode(value).into_bytes();
        if matches!(self, Self::Base32Lower | Self::Base32HexLower) {
            text.make_ascii_lowercase();
        }
        Zeroizing::new(text)
    }

    /// For each way in which a value may stand to the groups: the symbols that depend on it alone, and what those beside
    /// them carry of it.
    pub(crate) fn middles(
        self,
        value: &[u8],
    ) -> impl Iterator<Item = (Zeroizing<Vec<u8>>, Shared)> {
        self.placed(value).map(move |(text, place)| (text, self.shared(place)))
    }

    /// As [`Self::middles`], but with how the value stands in the symbols.
    pub(super) fn placed(self, value: &[u8]) -> impl Iterator<Item = (Zeroizing<Vec<u8>>, Place)> {
        let place = |before| Place { before, length: value.len() };
        (0..self.group()).map(move |before| (self.middle(value, before), place(before)))
    }

    pub(super) fn shared(self, place: Place) -> Shared {
        let cuts_a_group = |bytes: usize| !bytes.is_multiple_of(self.group());
        Shared { before: cuts_a_group(place.before), after: cuts_a_group(place.after()) }
    }

    /// `marker` at the place of a value, so that what surrounds it decodes as before: padded until the groups behind it
    /// are whole again, and as far as `least` bytes.
    pub(super) fn marker_at(self, place: Place, marker: &[u8], least: usize) -> Zeroizing<Vec<u8>> {
        let mut text = self.beside_first(place);
        text.extend_from_slice(marker);
        let beside_last = usize::from(self.shared(place).after);
        let is_whole = |length: usize| length % self.group() == place.length % self.group();
        while text.len() + beside_last < least || !is_whole(text.len() + beside_last) {
            text.push(PADDING);
        }
        text.extend_from_slice(&BESIDE[1..][..beside_last]);
        self.middle(&text, place.before)
    }

    /// The marker in as many symbols as the value has at `place`; a longer marker is cut.
    pub(super) fn marker_within(self, place: Place, marker: &[u8]) -> Zeroizing<Vec<u8>> {
        let beside_last = usize::from(self.shared(place).after);
        let mut text = self.beside_first(place);
        text.extend_from_slice(marker);
        text.resize(place.length - beside_last.min(place.length), PADDING);
        text.extend_from_slice(&BESIDE[1..][..beside_last]);
        self.middle(&text, place.before)
    }

    fn beside_first(self, place: Place) -> Vec<u8> {
        let is_shared = self.shared(place).before;
        BESIDE[..usize::from(is_shared)].to_vec()
    }

    /// The symbols that depend on `value` alone when `before` bytes of a group stand before it.
    fn middle(self, value: &[u8], before: usize) -> Zeroizing<Vec<u8>> {
        let mut placed = Zeroizing::new(Vec::with_capacity(before + value.len()));
        placed.resize(before, 0);
        placed.extend_from_slice(value);
        let whole = self.whole(&placed);
        let (first, end) = ((before * 8).div_ceil(self.bits()), placed.len() * 8 / self.bits());
        Zeroizing::new(whole[first.min(end)..end].to_vec())
    }

    /// Bits of a symbol.
    fn bits(self) -> usize {
        self.encoding().bit_width()
    }

    /// Bytes that make whole symbols.
    fn group(self) -> usize {
        match self {
            Self::Base32 | Self::Base32Lower | Self::Base32Hex | Self::Base32HexLower => 5,
            Self::Base64 | Self::Base64Url => 3,
        }
    }

    fn encoding(self) -> Encoding {
        match self {
            Self::Base32 | Self::Base32Lower => BASE32,
            Self::Base32Hex | Self::Base32HexLower => BASE32HEX,
            Self::Base64 => BASE64,
            Self::Base64Url => BASE64URL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_stands_in_any_surroundings() {
        let value = b"\xfb\xef\xbes3cret-value";
        for before in 0..11 {
            for after in 0..6 {
                let text = [&vec![b'u'; before], &value[..], &vec![b'z'; after]].concat();
                for alphabet in [Alphabet::BASE32, Alphabet::BASE32_HEX, Alphabet::BASE64].concat()
                {
                    let whole = String::from_utf8(alphabet.whole(&text).to_vec()).unwrap();
                    let middle = alphabet.middle(value, before % alphabet.group());
                    assert!(whole.contains(core::str::from_utf8(&middle).unwrap()));
                }
            }
        }
    }

    #[test]
    fn a_marker_leaves_what_surrounds_it_as_it_was() {
        for length in 8..50 {
            let value = vec![b'v'; length];
            for before in 0..9 {
                for after in 0..5 {
                    let text = [&vec![b'u'; before], &value[..], &vec![b'z'; after]].concat();
                    let encoded =
                        String::from_utf8(Alphabet::Base64.whole(&text).to_vec()).unwrap();
                    let (middle, place) = Alphabet::Base64.placed(&value).nth(before % 3).unwrap();
                    let middle = core::str::from_utf8(&middle).unwrap();
                    let within = Alphabet::Base64.marker_within(place, b"kloak_1");
                    assert_eq!(within.len(), middle.len());
                    for marker in [Alphabet::Base64.marker_at(place, b"kloak_1", 0), within] {
                        let marker = core::str::from_utf8(&marker).unwrap();
                        let scrubbed = encoded.replacen(middle, marker, 1);
                        let decoded = BASE64.decode(scrubbed.as_bytes()).unwrap();
                        assert!(decoded.starts_with(&text[..before]), "{length} {before} {after}");
                        assert!(decoded.ends_with(&vec![b'z'; after]), "{length} {before} {after}");
                        let decoded = String::from_utf8(decoded).unwrap();
                        assert!(length < 9 || decoded.contains("kloak_1"), "{decoded}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_middle_is_as_long_as_it_can_be() {
        let lengths = |alphabet: Alphabet, length| {
            let value = vec![b'x'; length];
            alphabet.middles(&value).map(|(text, _)| text.len()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(Alphabet::Base64, 8), [10, 10, 10]);
        assert_eq!(lengths(Alphabet::Base64, 9), [12, 11, 11]);
        assert_eq!(lengths(Alphabet::Base64, 10), [13, 12, 13]);
        assert_eq!(lengths(Alphabet::Base64, 0), [0, 0, 0]);
        assert_eq!(lengths(Alphabet::Base32, 10), [16, 15, 15, 15, 15]);
        assert_eq!(lengths(Alphabet::Base32, 11), [17, 17, 16, 17, 17]);
    }
}
