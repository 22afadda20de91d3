//! The prefilter for patterns without a common beginning: samples of the text, looked up in a bitmap.
//!
//! Wherever a pattern starts, one of `stride` places in a row is its start, so it is enough to look
//! at one gram (a few bytes) in every `stride`, if all grams at the first `stride` offsets of all
//! patterns are known. Lookups do not depend on each other, which is what makes this faster than a
//! shift table or an automaton. How wide a gram and how long a stride is best depends on the patterns,
//! so it is chosen by estimate; the estimate decides about speed alone, never about what is found.

use zeroize::Zeroizing;

use super::dictionary::Dictionary;

pub(super) struct Grams {
    seen: Seen,
    /// Bytes of a gram.
    width: usize,
    stride: usize,
}

impl Grams {
    /// Expects at least one pattern.
    pub(super) fn new(dictionary: &Dictionary) -> Self {
        let Plan { width, stride, grams } = Plan::best(dictionary);
        let mut seen = Seen::for_grams(grams);
        for pattern in dictionary.patterns() {
            for gram in pattern.windows(width).take(stride) {
                seen.insert(word(gram));
            }
        }
        Self { seen, width, stride }
    }

    /// Number of starting places that one sample speaks for.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Number of bytes that a starting place needs after it to be sampled for certain.
    pub(super) fn window(&self) -> usize {
        self.stride - 1 + self.width
    }

    /// The first of the places `sample`, `sample + stride`, .. at which a known gram may stand.
    pub(super) fn next_hit(&self, text: &[u8], sample: usize) -> Option<usize> {
        match &self.seen {
            Seen::Few(table) => self.next_known(text, sample, |gram| table.known(gram)),
            Seen::Many(bitmap) => self.next_known(text, sample, |gram| bitmap.known(gram)),
        }
    }

    #[inline]
    fn next_known(
        &self,
        text: &[u8],
        mut sample: usize,
        known: impl Fn(u64) -> u8,
    ) -> Option<usize> {
        let (stride, mask) = (self.stride, u64::MAX >> (64 - 8 * self.width));
        // Several at a time while words can be read whole.
        while let Some(block) = text.get(sample..sample + (AT_ONCE - 1) * stride + 8) {
            let known_at = |index: usize| {
                let bytes = block[index * stride..][..8].try_into().expect("eight bytes");
                known(u64::from_le_bytes(bytes) & mask)
            };
            if (0..AT_ONCE).fold(0, |any, index| any | known_at(index)) != 0 {
                let index = (0..AT_ONCE).find(|&index| known_at(index) != 0)?;
                return Some(sample + index * stride);
            }
            sample += AT_ONCE * stride;
        }
        while let Some(gram) = text.get(sample..sample + self.width) {
            if known(word(gram)) != 0 {
                return Some(sample);
            }
            sample += stride;
        }
        None
    }
}

/// Samples that are looked up before the loop asks whether any was known.
const AT_ONCE: usize = 4;

/// Up to eight bytes, the first the lowest.
pub(crate) fn word(gram: &[u8]) -> u64 {
    gram.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// The first `width` bytes of a text, at most eight.
#[inline]
pub(crate) fn first_word(text: &[u8], width: usize) -> Option<u64> {
    match text.first_chunk() {
        Some(eight) => Some(u64::from_le_bytes(*eight) << unused(width) >> unused(width)),
        None => text.get(..width).map(word),
    }
}

/// The last `width` bytes of a text, at most eight.
#[inline]
pub(crate) fn last_word(text: &[u8], width: usize) -> Option<u64> {
    match text.last_chunk() {
        Some(eight) => Some(u64::from_le_bytes(*eight) >> unused(width)),
        None => text.len().checked_sub(width).map(|start| word(&text[start..])),
    }
}

/// The bits of a word that so many bytes leave.
fn unused(width: usize) -> usize {
    64 - 8 * width
}

/// A set of grams with false positives. Computed from pattern bytes, so zeroized.
enum Seen {
    Few(Table),
    Many(Bitmap),
}

impl Seen {
    /// More grams than this crowd the table.
    const FEW: usize = 128;

    fn for_grams(grams: usize) -> Self {
        if grams <= Self::FEW { Self::Few(Table::new()) } else { Self::Many(Bitmap::new(grams)) }
    }

    fn insert(&mut self, gram: u64) {
        match self {
            Self::Few(table) => table.insert(gram),
            Self::Many(bitmap) => {
                bitmap.insert(gram);
            }
        }
    }

    /// Places in the set, for so many grams.
    fn places(grams: usize) -> usize {
        if grams <= Self::FEW { Table::PLACES } else { Bitmap::bits_for(grams) }
    }
}

/// A byte per place: fewer instructions than a bit, but small, so as to stay in the nearest cache.
struct Table(Zeroizing<Vec<u8>>);

impl Table {
    const BITS: u32 = 13;
    const PLACES: usize = 1 << Self::BITS;

    fn new() -> Self {
        Self(Zeroizing::new(vec![0; Self::PLACES]))
    }

    fn insert(&mut self, gram: u64) {
        self.0[Self::place(gram)] = 1;
    }

    /// 1 where `gram` may be in the set, else 0.
    #[inline]
    fn known(&self, gram: u64) -> u8 {
        self.0[Self::place(gram)]
    }

    #[inline]
    fn place(gram: u64) -> usize {
        (hash(gram) >> (64 - Self::BITS)) as usize
    }
}

/// A set with a bit per place.
pub(crate) struct Bitmap {
    words: Zeroizing<Vec<u64>>,
    shift: u32,
}

impl Bitmap {
    /// At most a megabyte, which a second-level cache holds.
    const BITS: core::ops::RangeInclusive<usize> = 1 << 12..=1 << 23;

    /// For about so many grams.
    pub(crate) fn new(grams: usize) -> Self {
        let bits = Self::bits_for(grams);
        let words = Zeroizing::new(vec![0; bits / 64]);
        Self { words, shift: 64 - bits.trailing_zeros() }
    }

    /// A power of two that leaves 127 of 128 places free where it can: a false hit costs far more
    /// than a lookup beyond the nearest cache.
    fn bits_for(grams: usize) -> usize {
        (grams * 128).next_power_of_two().clamp(*Self::BITS.start(), *Self::BITS.end())
    }

    /// Whether it was not there before.
    pub(crate) fn insert(&mut self, gram: u64) -> bool {
        let new = self.known(gram) == 0;
        let (word, bit) = self.place(gram);
        self.words[word] |= 1 << bit;
        new
    }

    /// 1 where `gram` may be in the set, else 0.
    #[inline]
    pub(crate) fn known(&self, gram: u64) -> u8 {
        let (word, bit) = self.place(gram);
        u8::from(self.words[word] >> bit & 1 != 0)
    }

    #[inline]
    fn place(&self, gram: u64) -> (usize, u64) {
        let place = hash(gram) >> self.shift;
        ((place >> 6) as usize, place & 63)
    }
}

/// The high bits are the good ones.
#[inline]
fn hash(gram: u64) -> u64 {
    gram.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A choice of width and stride.
struct Plan {
    width: usize,
    stride: usize,
    /// Different grams at the first `stride` offsets, about.
    grams: usize,
}

impl Plan {
    const MAX_STRIDE: usize = 15;
    const MAX_WIDTH: usize = 8;

    /// The cheapest for these patterns.
    fn best(dictionary: &Dictionary) -> Self {
        let shortest = dictionary.shortest();
        let least = shortest.min(2);
        (least..=shortest.min(Self::MAX_WIDTH))
            .flat_map(|width| Self::of_width(dictionary, width))
            .min_by_key(Self::cost)
            .unwrap_or(Self { width: least, stride: 1, grams: dictionary.len() })
    }

    /// The plans with grams of `width` bytes, one per stride.
    fn of_width(dictionary: &Dictionary, width: usize) -> Vec<Self> {
        let longest_stride = Self::MAX_STRIDE.min(dictionary.shortest() + 1 - width);
        let mut seen = Bitmap::new(dictionary.len() * longest_stride);
        let mut grams = 0;
        (1..=longest_stride)
            .map(|stride| {
                for pattern in dictionary.patterns() {
                    grams += usize::from(seen.insert(word(&pattern[stride - 1..][..width])));
                }
                Self { width, stride, grams }
            })
            .collect()
    }

    /// Estimated thousandths of a cycle per byte of text.
    fn cost(&self) -> u64 {
        /// Cycles of one sample; of a false hit, once and per place to be judged.
        const SAMPLE: u64 = 2;
        const HIT: u64 = 15;
        const JUDGE: u64 = 8;
        /// Text behaves as if it had this many symbols, whatever its alphabet.
        const SYMBOLS: u64 = 20;

        let (grams, stride) = (self.grams as u64, self.stride as u64);
        let possible = (0..self.width).fold(1, |all, _| all * SYMBOLS);
        let by_chance = grams * 1_000_000 / possible;
        let by_hash = grams * 1_000_000 / Seen::places(self.grams) as u64;
        let hits_per_million = (by_chance + by_hash).min(1_000_000);
        (SAMPLE * 1000 + hits_per_million * (HIT + JUDGE * stride) / 1000) / stride
    }
}
