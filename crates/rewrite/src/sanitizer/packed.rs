//! Looks into what is compressed: gzip and zlib, as they stand, in base64 and in hex.
//!
//! Nearly every place where something packed seems to begin is none, and shows it within a few bytes: more is read of one step
//! by step. What is read and unpacked is bounded for each and for a text as a whole, so that neither a bomb nor a text full of
//! beginnings costs more than the text itself by a constant. What is packed twice, or in another way, is not looked into. Source: reference/nl.md, 13.2.

use std::ops::Range;

use flate2::{Decompress, FlushDecompress, Status};

use super::{
    FoundAs, MIN_SANITIZED,
    view::{self, Room},
};

/// The most that is unpacked of one.
pub(super) const MAX_UNPACKED: usize = 1 << 20;
/// The most that is read and unpacked in one text, beside so many times its own length.
pub(crate) const MAX_IN_TEXT: usize = 8 << 20;
pub(super) const TIMES_TEXT: usize = 4;
/// The most that is read of one: deflate makes hardly anything longer.
const MAX_PACKED: usize = MAX_UNPACKED + (64 << 10);
/// As many bytes tell of most that they are none; what may be one is read to so many times as many.
const PROBE: usize = 64;
const PROBED: usize = 1 << 10;
const STEP: usize = 8;
/// What a try costs, and each of several that follow one another, in bytes that are unpacked.
const TRY: usize = 4 << 10;

const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
/// The second bytes of zlib, for each of its levels; the first is `x`.
const LEVELS: [u8; 4] = [0x01, b'^', 0x9c, 0xda];

/// Something packed, as it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed {
    written: FoundAs,
    is_gzip: bool,
}

/// What was packed.
pub(super) struct Content<'a> {
    pub(super) bytes: &'a [u8],
    /// Where it stood in the text.
    pub(super) range: Range<usize>,
    pub(super) form: FoundAs,
}

/// Unpacks what stands in one text.
pub(super) struct Unpacker {
    inflate: Decompress,
    data: Room,
    unpacked: Room,
    left: usize,
}

/// How far before a hint something packed may begin.
pub(super) const BEFORE_HINT: usize = 3;

/// Whether something packed may begin with this pair of bytes, or shortly before it. Wherever it begins, there is a hint at
/// an even place, and one at an odd.
pub(super) const fn is_hint(first: u8, second: u8) -> bool {
    let as_it_stands = matches!(
        (first, second),
        (0x1f, 0x8b)
            | (0x8b, 8)
            | (b'x', 0x01 | b'^' | 0x9c | 0xda)
            | (0x01 | b'^' | 0x9c | 0xda, _)
    );
    let in_base64 = matches!(
        (first, second),
        (b'H', b'4')
            | (b'4', b's')
            | (b'e', b'A' | b'F' | b'J' | b'N')
            | (b'A', b'E'..=b'H')
            | (b'F', b'4'..=b'7')
            | (b'J', b'w'..=b'z')
            | (b'N', b'o'..=b'r')
    );
    // Its bytes together or apart.
    let in_hex = matches!(
        (first, second),
        (b'1', b'f' | b'F')
            | (b'f' | b'F', b'8' | b'\\')
            | (b'7', b'8')
            | (
                b'8',
                b'0' | b'5' | b'9' | b'b' | b'B' | b'd' | b'D' | b' ' | b':' | b',' | b'-' | b'\\'
            )
    );
    as_it_stands || in_base64 || in_hex
}

/// Whether something packed seems to begin here.
pub(super) fn begins(text: &[u8]) -> bool {
    Packed::at(text).is_some()
}

impl Packed {
    /// What this text begins with.
    fn at(text: &[u8]) -> Option<Self> {
        let (written, is_gzip) = match text {
            [0x1f, 0x8b, 8, ..] => (FoundAs::Plain, true),
            [b'x', level, ..] if LEVELS.contains(level) => (FoundAs::Plain, false),
            [b'H', b'4', b's', b'I', ..] => (FoundAs::Base64, true),
            [b'e', b'A', b'E'..=b'H', ..]
            | [b'e', b'F', b'4'..=b'7', ..]
            | [b'e', b'J', b'w'..=b'z', ..]
            | [b'e', b'N', b'o'..=b'r', ..] => (FoundAs::Base64, false),
            [b'1', b'f' | b'F', ..] => (FoundAs::Hex, true),
            [b'7', b'8', ..] => (FoundAs::Hex, false),
            _ => return None,
        };
        if written == FoundAs::Hex {
            let mut first = [0; 3];
            let read = Digits::of(FoundAs::Hex, text).read(&mut first.iter_mut());
            let fits = if is_gzip { first == GZIP } else { LEVELS.contains(&first[1]) };
            if read < first.len() || !fits {
                return None;
            }
        }
        Some(Self { written, is_gzip })
    }

    /// Where what is deflated begins in these bytes; nothing where their head does not end.
    fn head(self, data: &[u8]) -> Option<usize> {
        if self.is_gzip { gzip_head(data) } else { Some(2) }
    }

    /// What follows that: a checksum, and for gzip a length.
    fn tail(self) -> usize {
        if self.is_gzip { 8 } else { 4 }
    }
}

/// RFC 1952, section 2.3.
fn gzip_head(data: &[u8]) -> Option<usize> {
    const CHECKED: u8 = 2;
    const EXTRA: u8 = 4;
    const NAMED: u8 = 8;
    const COMMENTED: u8 = 16;
    let flags = *data.get(3)?;
    let mut at = 10;
    if flags & EXTRA != 0 {
        let length = data.get(at..at + 2)?;
        at += 2 + usize::from(u16::from_le_bytes([length[0], length[1]]));
    }
    for text in [NAMED, COMMENTED] {
        if flags & text != 0 {
            at += data.get(at..)?.iter().position(|byte| *byte == 0)? + 1;
        }
    }
    at += if flags & CHECKED == 0 { 0 } else { 2 };
    (at < data.len()).then_some(at)
}

impl Unpacker {
    /// For so many bytes that are read and unpacked.
    pub(super) fn with(left: usize) -> Self {
        let (data, unpacked) = (Room::default(), Room::default());
        Self { inflate: Decompress::new(false), data, unpacked, left }
    }

    /// What is left of them.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Unpacks what begins in the text at this place, if something does.
    pub(super) fn unpack(&mut self, text: &[u8], start: usize) -> Option<Content<'_>> {
        let rest = text.get(start..)?;
        let packed = Packed::at(rest)?;
        let (mut bytes, mut most) = (PROBE, PROBED);
        let used = loop {
            let came = self.inflate(packed, rest, bytes, most);
            self.left = self.left.saturating_sub(self.unpacked.len());
            match came? {
                Inflated::All(used) => break used,
                Inflated::Some(used) if bytes >= MAX_PACKED => break used,
                Inflated::Some(_) => {}
            }
            bytes = (bytes * STEP).min(MAX_PACKED);
            most = if bytes < MAX_PACKED { (most * STEP).min(MAX_UNPACKED) } else { MAX_UNPACKED };
        };
        if self.unpacked.len() < MIN_SANITIZED {
            return None;
        }
        let length = Digits::of(packed.written, rest).end_of(used);
        Some(Content { bytes: &self.unpacked, range: start..start + length, form: packed.written })
    }

    /// Unpacks as much as comes of so many bytes; `None` where that is nothing, or too much was unpacked before.
    fn inflate(
        &mut self,
        packed: Packed,
        text: &[u8],
        bytes: usize,
        most: usize,
    ) -> Option<Inflated> {
        let Self { inflate, data, unpacked, left } = self;
        let data = if packed.written == FoundAs::Plain {
            &text[..text.len().min(bytes)]
        } else {
            let room = view::make_filled_room(data, bytes.min(text.len()));
            let read = Digits::of(packed.written, text).read(&mut room.iter_mut());
            &room[..read]
        };
        *left = left.checked_sub(data.len())?;
        view::make_room(unpacked, most);
        unpacked.clear();
        let all_there = data.len() < bytes;
        let end = |used| if all_there { Inflated::All(used) } else { Inflated::Some(used) };
        let mut used = 0;
        loop {
            let Some(head) = packed.head(&data[used..]) else {
                // A long name may stand in it.
                return (used > 0 || !all_there).then(|| end(used));
            };
            let Some(rest) = left.checked_sub(TRY) else {
                return (used > 0).then_some(Inflated::All(used));
            };
            *left = rest;
            inflate.reset(false);
            let ended = inflate_all(inflate, &data[used + head..], unpacked, most);
            used += head + usize::try_from(inflate.total_in()).unwrap_or(usize::MAX);
            match ended {
                Ended::Failed if unpacked.len() < MIN_SANITIZED => return None,
                Ended::Failed => return Some(Inflated::All(used.min(data.len()))),
                Ended::Full => return Some(Inflated::Some(used.min(data.len()))),
                Ended::Open => return Some(end(used.min(data.len()))),
                Ended::Whole => {}
            }
            used = data.len().min(used + packed.tail());
            // One may follow the other (RFC 1952, section 2.2).
            if !packed.is_gzip || !data[used..].starts_with(&GZIP) {
                return Some(if used < data.len() { Inflated::All(used) } else { end(used) });
            }
        }
    }
}

/// What came of an attempt, with the bytes that it took.
enum Inflated {
    All(usize),
    /// There may be more than was read, or more of it than there is room for.
    Some(usize),
}

enum Ended {
    Failed,
    /// There is no room for more.
    Full,
    Open,
    Whole,
}

/// Appends what comes of `data`, up to `most` in all.
fn inflate_all(inflate: &mut Decompress, data: &[u8], out: &mut Vec<u8>, most: usize) -> Ended {
    loop {
        let (read, written) = (inflate.total_in(), out.len());
        let taken = usize::try_from(read).unwrap_or(usize::MAX).min(data.len());
        match inflate.decompress_vec(&data[taken..], out, FlushDecompress::None) {
            Ok(Status::StreamEnd) => return Ended::Whole,
            Err(_) => return Ended::Failed,
            Ok(_) if out.len() >= most => return Ended::Full,
            Ok(_) if inflate.total_in() == read && out.len() == written => return Ended::Open,
            Ok(_) => {}
        }
    }
}

/// The bytes that stand in a text, where they are written in digits.
#[derive(Clone)]
struct Digits<'t> {
    text: &'t [u8],
    at: usize,
    written: FoundAs,
}

impl<'t> Digits<'t> {
    fn of(written: FoundAs, text: &'t [u8]) -> Self {
        Self { text, at: 0, written }
    }

    fn bits(&self) -> usize {
        match self.written {
            FoundAs::Base64 => 6,
            FoundAs::Hex => 4,
            FoundAs::Plain | FoundAs::Percent => 8,
        }
    }

    /// Puts the bytes there; gives how many there were.
    fn read<'r>(mut self, room: &mut impl Iterator<Item = &'r mut u8>) -> usize {
        let (mut word, mut bits, mut count) = (0_u32, 0, 0);
        let width = self.bits();
        for digit in self.by_ref() {
            word = word << width | u32::from(digit);
            bits += width;
            if bits >= 8 {
                bits -= 8;
                let Some(place) = room.next() else { break };
                *place = u8::try_from(word >> bits & 0xff).unwrap_or(0);
                count += 1;
            }
        }
        count
    }

    /// Where so many bytes end in the text, with the padding behind them.
    fn end_of(mut self, bytes: usize) -> usize {
        if self.bits() == 8 {
            return bytes.min(self.text.len());
        }
        let digits = (bytes * 8).div_ceil(self.bits());
        let all = self.by_ref().take(digits).count();
        debug_assert!(all <= digits, "no more were asked for");
        let padding = self.text[self.at..].iter().take(2).take_while(|byte| **byte == b'=').count();
        self.at + padding
    }

    fn value(&self, byte: u8) -> Option<u8> {
        match (self.written, byte) {
            (FoundAs::Hex, b'0'..=b'9') => Some(byte - b'0'),
            (FoundAs::Hex, b'a'..=b'f') => Some(byte - b'a' + 10),
            (FoundAs::Hex, b'A'..=b'F') => Some(byte - b'A' + 10),
            (FoundAs::Base64, b'A'..=b'Z') => Some(byte - b'A'),
            (FoundAs::Base64, b'a'..=b'z') => Some(byte - b'a' + 26),
            (FoundAs::Base64, b'0'..=b'9') => Some(byte - b'0' + 52),
            (FoundAs::Base64, b'+' | b'-') => Some(62),
            (FoundAs::Base64, b'/' | b'_') => Some(63),
            (FoundAs::Plain | FoundAs::Percent, byte) => Some(byte),
            _ => None,
        }
    }

    /// How many bytes stand between two digits here: white space, line ends as strings of JSON have them, and what stands
    /// between the bytes of a dump.
    fn gap(&self) -> usize {
        let text = &self.text[self.at..];
        let slashes = text.iter().take_while(|byte| **byte == b'\\').count();
        match (text.first(), text.get(slashes), self.written) {
            (Some(b'\\'), Some(b'/'), FoundAs::Base64) => slashes,
            (Some(b'\\'), Some(b'n' | b'r' | b't'), _)
            | (Some(b'\\'), Some(b'x'), FoundAs::Hex) => slashes + 1,
            (Some(b' ' | b'\t' | b'\r' | b'\n'), ..)
            | (Some(b':' | b',' | b'-'), _, FoundAs::Hex) => 1,
            _ => 0,
        }
    }
}

impl Iterator for Digits<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.at)?;
            if let Some(value) = self.value(byte) {
                self.at += 1;
                return Some(value);
            }
            let gap = self.gap();
            if gap == 0 {
                return None;
            }
            self.at += gap;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use data_encoding::{BASE64, HEXLOWER};
    use flate2::{
        Compression,
        write::{GzEncoder, ZlibEncoder},
    };

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(text: &[u8], level: u32) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(level));
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(text: &[u8], start: usize) -> Option<(Vec<u8>, Range<usize>)> {
        let mut unpacker = Unpacker::with(MAX_IN_TEXT);
        let content = unpacker.unpack(text, start)?;
        Some((content.bytes.to_vec(), content.range))
    }

    #[test]
    fn what_is_packed_ends_where_it_does() {
        let words = "what is packed, and long enough to be packed at all. ".repeat(40);
        for text in [&b"some words"[..], words.as_bytes()] {
            let packed = [gzip(text), zlib(text, 0), zlib(text, 1), zlib(text, 6), zlib(text, 9)];
            for packed in packed {
                for written in
                    [packed.clone(), BASE64.encode(&packed).into(), HEXLOWER.encode(&packed).into()]
                {
                    let around = [b"<<", &written[..], b">>"].concat();
                    let found = unpacked(&around, 2);
                    assert_eq!(found, Some((text.to_vec(), 2..2 + written.len())));
                }
            }
        }
    }

    #[test]
    fn every_beginning_is_hinted_at() {
        let packed = [
            gzip(b"words"),
            zlib(b"words", 0),
            zlib(b"words", 1),
            zlib(b"words", 6),
            zlib(b"words", 9),
        ];
        let apart = |packed: &Vec<u8>| {
            packed.iter().map(|byte| format!("{byte:02X} ")).collect::<Vec<_>>().concat()
        };
        for packed in packed {
            let texts = [
                packed.clone(),
                BASE64.encode(&packed).into(),
                HEXLOWER.encode(&packed).into(),
                apart(&packed).into(),
                apart(&packed).replace(' ', "\\x").into(),
            ];
            for text in texts {
                assert!(Packed::at(&text).is_some());
                let is_hint = |pair: &[u8]| super::is_hint(pair[0], pair[1]);
                for first in [0, 1] {
                    let mut pairs = text[first..].chunks_exact(2).take(2);
                    assert!(pairs.any(is_hint), "{first}: {:?}", &text[..6]);
                }
            }
        }
    }

    #[test]
    fn a_bomb_is_unpacked_to_a_bound_and_only_so_many_are() {
        let bomb = gzip(&vec![0; MAX_UNPACKED * 4]);
        let text = bomb.repeat(40);
        let mut unpacker = Unpacker::with(MAX_IN_TEXT + TIMES_TEXT * text.len());
        let mut all = 0;
        for start in (0..text.len()).step_by(bomb.len()) {
            let Some(content) = unpacker.unpack(&text, start) else { break };
            assert!(content.bytes.len() <= MAX_UNPACKED);
            all += content.bytes.len();
        }
        assert!(all <= MAX_IN_TEXT + TIMES_TEXT * text.len() + MAX_UNPACKED, "{all}");
    }

    /// Neither what decodes for long and comes to nothing, nor many small ones in a row, get round the bound.
    #[test]
    fn what_is_read_counts_and_so_does_each_of_a_row() {
        let members = gzip(b"").repeat(1 << 14);
        let mut unpacker = Unpacker::with(MAX_IN_TEXT);
        for start in (0..members.len()).step_by(gzip(b"").len()) {
            unpacker.unpack(&members, start);
        }
        assert!(unpacker.left() < TRY);
        // Of something that fails early, no more than the beginning is read.
        let mut unpacker = Unpacker::with(MAX_IN_TEXT);
        let broken = [b"eJw", &b"A8_-z0Lq".repeat(1 << 16)[..]].concat();
        unpacker.unpack(&broken, 0);
        assert!(MAX_IN_TEXT - unpacker.left() < 256 << 10, "{}", unpacker.left());
    }

    #[test]
    fn a_beginning_alone_is_nothing() {
        for text in [&b"H4sI"[..], b"eJw=", b"\x1f\x8b\x08", b"1f8b08", b"78da", b"x^", b""] {
            assert_eq!(unpacked(text, 0), None);
        }
    }
}
