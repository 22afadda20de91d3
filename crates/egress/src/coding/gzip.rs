//! Gzip's framing around deflate: members with a header and a checked trailer, one after another.
//! Written here because flate2's own reader can't be fed in pieces with a bound on what it gives.
//! Follows RFC 1952.

use bytes::{Buf, Bytes};
use flate2::{Crc, Decompress};

use super::{CodingError, decoder::inflate};

/// The longest header that is taken, in bytes; real ones have ten and perhaps a file's name.
const MAX_HEADER: usize = 64 * 1024;
const FIXED_HEADER: usize = 10;
const TRAILER: usize = 8;

const HAS_CHECK: u8 = 1 << 1;
const HAS_EXTRA: u8 = 1 << 2;
const HAS_NAME: u8 = 1 << 3;
const HAS_COMMENT: u8 = 1 << 4;

/// A run of gzip members.
pub(super) struct Members {
    state: State,
    crc: Crc,
    seen_any: bool,
}

enum State {
    Header(Vec<u8>),
    Body(Box<Decompress>),
    Trailer(Vec<u8>),
    /// Zeros after the last member, which tape-minded tools leave.
    Padding,
}

impl Members {
    pub(super) fn new() -> Self {
        Self { state: State::Header(Vec::new()), crc: Crc::new(), seen_any: false }
    }

    /// As [`Decoder::step`](super::decoder::Decoder::step).
    pub(super) fn step(
        &mut self,
        input: &mut Bytes,
        plain: &mut Vec<u8>,
    ) -> Result<bool, CodingError> {
        match &mut self.state {
            State::Header(head)
                if self.seen_any && head.is_empty() && input.first() == Some(&0) =>
            {
                self.state = State::Padding;
            }
            State::Header(head) => {
                // Byte by byte past the fixed part would be slow; a header comes in one piece.
                let before = head.len();
                head.extend_from_slice(&input[..input.len().min(MAX_HEADER + 1 - before)]);
                match header_len(head)? {
                    None if head.len() > MAX_HEADER => return Err(CodingError::Corrupt),
                    None => input.clear(),
                    Some(length) => {
                        input.advance(length - before);
                        self.crc = Crc::new();
                        self.state = State::Body(Box::new(Decompress::new(false)));
                    }
                }
            }
            State::Body(decompress) => {
                let start = plain.len();
                let (full, done) = inflate(decompress, input, plain)?;
                self.crc.update(&plain[start..]);
                if done {
                    self.state = State::Trailer(Vec::with_capacity(TRAILER));
                }
                return Ok(full || !input.is_empty());
            }
            State::Trailer(trailer) => {
                let wanted = (TRAILER - trailer.len()).min(input.len());
                trailer.extend_from_slice(&input.split_to(wanted));
                if trailer.len() == TRAILER {
                    self.check_trailer()?;
                    self.seen_any = true;
                    self.state = State::Header(Vec::new());
                }
            }
            State::Padding if input.iter().all(|byte| *byte == 0) => input.clear(),
            State::Padding => return Err(CodingError::Corrupt),
        }
        Ok(!input.is_empty())
    }

    /// Whether an end here would be one too early.
    pub(super) fn is_within(&self) -> bool {
        match &self.state {
            State::Header(head) => !head.is_empty(),
            State::Body(_) | State::Trailer(_) => true,
            State::Padding => false,
        }
    }

    fn check_trailer(&self) -> Result<(), CodingError> {
        let State::Trailer(trailer) = &self.state else { return Ok(()) };
        let word = |at: usize| {
            u32::from_le_bytes(trailer[at..at + 4].try_into().expect("the trailer has eight bytes"))
        };
        let fits = word(0) == self.crc.sum() && word(4) == self.crc.amount();
        if fits { Ok(()) } else { Err(CodingError::Corrupt) }
    }
}

/// The length of the header at the beginning of `head`, once all of it is there.
fn header_len(head: &[u8]) -> Result<Option<usize>, CodingError> {
    let known = head.len().min(3);
    if head[..known] != [0x1f, 0x8b, 8][..known] {
        return Err(CodingError::Corrupt);
    }
    if head.len() < FIXED_HEADER {
        return Ok(None);
    }
    let flags = head[3];
    let mut length = FIXED_HEADER;
    if flags & HAS_EXTRA != 0 {
        let Some(&[low, high]) = head[length..].first_chunk::<2>() else { return Ok(None) };
        length += 2 + usize::from(u16::from_le_bytes([low, high]));
    }
    for flag in [HAS_NAME, HAS_COMMENT] {
        if flags & flag != 0 {
            let rest = head.get(length..).unwrap_or_default();
            let Some(end) = rest.iter().position(|byte| *byte == 0) else { return Ok(None) };
            length += end + 1;
        }
    }
    if flags & HAS_CHECK != 0 {
        length += 2;
    }
    Ok((head.len() >= length).then_some(length))
}
