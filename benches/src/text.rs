//! Texts of the kinds that go over a wire, and tokens. All from a seed.

const TOKEN: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A small generator (SplitMix64): the same numbers on every run and machine.
pub struct Random(u64);

impl Random {
    /// A generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).expect("a usize is at most 64 bits");
        usize::try_from(self.number() % limit).expect("below a usize")
    }

    /// `length` letters of `alphabet`.
    pub fn letters(&mut self, alphabet: &[u8], length: usize) -> String {
        (0..length).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }

    /// A token of `length` characters of Crockford's base32.
    pub fn token(&mut self, length: usize) -> String {
        self.letters(TOKEN, length)
    }
}

/// Records such as an API answers with: keys, words, numbers, ids.
pub fn json(length: usize) -> Vec<u8> {
    let words = ["merge", "request", "keyless", "review", "token", "branch", "main", "status"];
    let mut random = Random::new(1);
    let mut text = Vec::with_capacity(length + 256);
    while text.len() < length {
        let (id, sha) = (random.number() % 1_000_000, random.letters(b"0123456789abcdef", 40));
        let title: Vec<&str> = (0..9).map(|_| words[random.below(words.len())]).collect();
        let record = format!(
            "{{\"id\":{id},\"sha\":\"{sha}\",\"title\":\"{}\",\"url\":\"https://api.bench.test/k/{id}\",\"draft\":false}},\n",
            title.join(" ")
        );
        text.extend_from_slice(record.as_bytes());
    }
    text.truncate(length);
    text
}

/// What a program tells of its work on a terminal: colours, letters with accents, blanks, and escapes of URLs and of JSON.
pub fn log(length: usize) -> Vec<u8> {
    let words =
        ["merge", "100%", "caf\u{e9}", "a && b", "\u{2014}", "main", "\\\"ok\\\"", "%2Fapi"];
    let mut random = Random::new(4);
    let mut text = Vec::with_capacity(length + 256);
    while text.len() < length {
        let id = random.number() % 1_000_000;
        let title: Vec<&str> = (0..9).map(|_| words[random.below(words.len())]).collect();
        let line = format!(
            "2026-11-22T10:00:00.{id:06}Z \u{1b}[32mINFO\u{1b}[0m keyless::egress: {} id={id}\n",
            title.join(" ")
        );
        text.extend_from_slice(line.as_bytes());
    }
    text.truncate(length);
    text
}

/// An attachment as mail and JSON carry it.
pub fn base64(length: usize) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut random = Random::new(2);
    (0..length).map(|_| alphabet[random.below(64)]).collect()
}

/// A compressed file, as a scanner sees it.
pub fn binary(length: usize) -> Vec<u8> {
    let mut random = Random::new(3);
    let mut bytes: Vec<u8> =
        (0..length.div_ceil(8)).flat_map(|_| random.number().to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}
