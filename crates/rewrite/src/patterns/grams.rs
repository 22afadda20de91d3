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
    /// A set of hashed grams. Computed from pattern bytes, so zeroized.
    seen: Bitmap,
    /// Bytes of a gram.
    width: usize,
    stride: usize,
}

impl Grams {
    /// Expects at least one pattern.
    pub(super) fn new(dictionary: &Dictionary) -> Self {
        let Plan { width, stride, grams } = Plan::best(dictionary);
        let mut seen = Bitmap::for_grams(grams);
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
    pub(super) fn next_hit(&self, text: &[u8], mut sample: usize) -> Option<usize> {
        let (stride, mask) = (self.stride, u64::MAX >> (64 - 8 * self.width));
        // Four at a time while words can be read whole; the loop below then finds which it was.
        while let Some(block) = text.get(sample..sample + 3 * stride + 8) {
            let known = |at: usize| {
                let bytes = block[at..at + 8].try_into().expect("the range is eight bytes");
                self.seen.bit(u64::from_le_bytes(bytes) & mask)
            };
            if known(0) | known(stride) | known(2 * stride) | known(3 * stride) != 0 {
                break;
            }
            sample += 4 * stride;
        }
        while let Some(gram) = text.get(sample..sample + self.width) {
            if self.seen.bit(word(gram)) != 0 {
                return Some(sample);
            }
            sample += stride;
        }
        None
    }
}

/// Up to eight bytes, the first the lowest.
fn word(gram: &[u8]) -> u64 {
    gram.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// A set of words with false positives.
struct Bitmap {
    words: Zeroizing<Vec<u64>>,
    shift: u32,
}

impl Bitmap {
    /// From half a kilobyte up, to keep tables of small sets warm; at most what a second-level cache holds.
    const BITS: core::ops::RangeInclusive<usize> = 1 << 12..=1 << 21;

    fn for_grams(grams: usize) -> Self {
        let bits = Self::bits_for(grams);
        let words = Zeroizing::new(vec![0; bits / 64]);
        Self { words, shift: 64 - bits.trailing_zeros() }
    }

    /// A power of two that leaves 31 of 32 bits free where it can.
    fn bits_for(grams: usize) -> usize {
        (grams * 32).next_power_of_two().clamp(*Self::BITS.start(), *Self::BITS.end())
    }

    /// Whether it was not there before.
    fn insert(&mut self, gram: u64) -> bool {
        let (word, bit) = self.place(gram);
        let new = self.words[word] >> bit & 1 == 0;
        self.words[word] |= 1 << bit;
        new
    }

    /// 1 where `gram` may be in the set, else 0.
    #[inline]
    fn bit(&self, gram: u64) -> u64 {
        let (word, bit) = self.place(gram);
        self.words[word] >> bit & 1
    }

    #[inline]
    fn place(&self, gram: u64) -> (usize, u64) {
        let hash = gram.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        ((hash >> 6) as usize, hash & 63)
    }
}

/// A choice of width and stride.
struct Plan {
    width: usize,
    stride: usize,
    /// Different grams at the first `stride` offsets, about.
    grams: usize,
}

impl Plan {
    const MAX_STRIDE: usize = 8;
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
        let mut seen = Bitmap::for_grams(dictionary.len() * longest_stride);
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
        let by_hash = grams * 1_000_000 / Bitmap::bits_for(self.grams) as u64;
        let hits_per_million = (by_chance + by_hash).min(1_000_000);
        (SAMPLE * 1000 + hits_per_million * (HIT + JUDGE * stride) / 1000) / stride
    }
}
