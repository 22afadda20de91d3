//! Takes a coded body apart, at most a piece per step.

use brotli::{BrotliDecompressStream, BrotliResult, BrotliState, enc::StandardAlloc};
use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, InBuffer, Operation, OutBuffer};

use super::{
    Coding, CodingError, PIECE,
    encoder::{Encoder, Kind},
    gzip,
};

/// 8 MiB, the most that an encoder may ask for (RFC 9659).
const ZSTD_WINDOW_LOG: u32 = 23;

/// Takes coded bytes, gives plain ones.
pub(crate) struct Decoder(Decoding);

enum Decoding {
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>, Progress),
    /// Not enough has come to tell zlib's form from the bare one.
    DeflateAhead(Vec<u8>),
    Deflate(Decompress, Form, Progress),
    Gzip(gzip::Members),
    Zstd(zstd::stream::raw::Decoder<'static>, Progress),
}

/// The two things that are called deflate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Bare,
    Zlib,
}

/// How far a coded stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Nothing,
    Within,
    Done,
}

impl Decoder {
    pub(crate) fn new(coding: Coding) -> Result<Self, CodingError> {
        Ok(Self(match coding {
            Coding::Brotli => {
                let alloc = StandardAlloc::default;
                let state = BrotliState::new_strict(alloc(), alloc(), alloc());
                Decoding::Brotli(Box::new(state), Progress::Nothing)
            }
            Coding::Deflate => Decoding::DeflateAhead(Vec::new()),
            Coding::Gzip => Decoding::Gzip(gzip::Members::new()),
            Coding::Zstd => {
                let mut decoder = zstd::stream::raw::Decoder::new().map_err(CodingError::Encode)?;
                decoder
                    .set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG))
                    .map_err(CodingError::Encode)?;
                Decoding::Zstd(decoder, Progress::Nothing)
            }
        }))
    }

    /// Takes from `input` and appends at most [`PIECE`] bytes to `plain`. Call again while it
    /// gives `true`: there is more to come without further input.
    pub(crate) fn step(
        &mut self,
        input: &mut Bytes,
        plain: &mut Vec<u8>,
    ) -> Result<bool, CodingError> {
        if let Decoding::DeflateAhead(ahead) = &mut self.0 {
            let wanted = 2_usize.saturating_sub(ahead.len()).min(input.len());
            ahead.extend_from_slice(&input.split_to(wanted));
            let &[first, second, ..] = ahead.as_slice() else { return Ok(false) };
            let form = Form::of(first, second);
            *input = Bytes::from([ahead.as_slice(), input].concat());
            let decompress = Decompress::new(form == Form::Zlib);
            self.0 = Decoding::Deflate(decompress, form, Progress::Nothing);
        }
        match &mut self.0 {
            Decoding::Brotli(state, progress) => brotli_step(state, progress, input, plain),
            Decoding::DeflateAhead(_) => Ok(false),
            Decoding::Deflate(decompress, _, progress) => {
                deflate_step(decompress, progress, input, plain)
            }
            Decoding::Gzip(members) => members.step(input, plain),
            Decoding::Zstd(decoder, progress) => zstd_step(decoder, progress, input, plain),
        }
    }

    /// Says whether the stream may end here. No bytes at all are an empty body in any coding.
    pub(crate) fn finish(&self) -> Result<(), CodingError> {
        let within = match &self.0 {
            Decoding::Brotli(_, progress)
            | Decoding::Deflate(_, _, progress)
            | Decoding::Zstd(_, progress) => *progress == Progress::Within,
            Decoding::DeflateAhead(ahead) => !ahead.is_empty(),
            Decoding::Gzip(members) => members.is_within(),
        };
        if within { Err(CodingError::Truncated) } else { Ok(()) }
    }

    /// An encoder that makes what this decoder takes; known once the first plain byte is.
    pub(crate) fn encoder(&self) -> Result<Encoder, CodingError> {
        Encoder::new(match &self.0 {
            Decoding::Brotli(..) => Kind::Brotli,
            Decoding::Deflate(_, Form::Bare, _) => Kind::Bare,
            Decoding::Deflate(..) | Decoding::DeflateAhead(_) => Kind::Zlib,
            Decoding::Gzip(_) => Kind::Gzip,
            Decoding::Zstd(..) => Kind::Zstd,
        })
    }
}

impl Progress {
    /// Whether a coding of one stream has something to do with `input`. Nothing may follow its end.
    fn goes_on_with(&mut self, input: &Bytes) -> Result<bool, CodingError> {
        match (*self, input.is_empty()) {
            (Self::Done, false) => Err(CodingError::Corrupt),
            (Self::Done | Self::Nothing, true) => Ok(false),
            (Self::Nothing | Self::Within, _) => {
                *self = Self::Within;
                Ok(true)
            }
        }
    }
}

impl Form {
    /// RFC 1950: method 8 and a check that makes the first two bytes a multiple of 31. The first
    /// block of a bare stream can't look so unless it is odd on purpose.
    fn of(first: u8, second: u8) -> Self {
        let check = u16::from_be_bytes([first, second]) % 31;
        if first & 0x0f == 8 && check == 0 { Self::Zlib } else { Self::Bare }
    }
}

/// Makes room for one piece behind `plain`, lets `fill` write there, and keeps what it wrote.
/// Gives `fill`'s own answer and whether the room was used up.
fn into_room<T>(
    plain: &mut Vec<u8>,
    fill: impl FnOnce(&mut [u8]) -> Result<(usize, T), CodingError>,
) -> Result<(bool, T), CodingError> {
    let start = plain.len();
    plain.resize(start + PIECE, 0);
    let result = fill(&mut plain[start..]);
    let written = result.as_ref().map_or(0, |(written, _)| *written);
    plain.truncate(start + written);
    result.map(|(written, answer)| (written == PIECE, answer))
}

fn brotli_step(
    state: &mut BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    progress: &mut Progress,
    input: &mut Bytes,
    plain: &mut Vec<u8>,
) -> Result<bool, CodingError> {
    if !progress.goes_on_with(input)? {
        return Ok(false);
    }
    let (mut available_in, mut taken) = (input.len(), 0);
    let (_, result) = into_room(plain, |room| {
        let (mut available_out, mut written, mut total) = (room.len(), 0, 0);
        let result = BrotliDecompressStream(
            &mut available_in,
            &mut taken,
            input,
            &mut available_out,
            &mut written,
            room,
            &mut total,
            state,
        );
        Ok((written, result))
    })?;
    input.advance(taken);
    match result {
        BrotliResult::ResultSuccess => {
            *progress = Progress::Done;
            Ok(!input.is_empty())
        }
        BrotliResult::NeedsMoreInput => Ok(false),
        BrotliResult::NeedsMoreOutput => Ok(true),
        BrotliResult::ResultFailure => Err(CodingError::Corrupt),
    }
}

fn deflate_step(
    decompress: &mut Decompress,
    progress: &mut Progress,
    input: &mut Bytes,
    plain: &mut Vec<u8>,
) -> Result<bool, CodingError> {
    if !progress.goes_on_with(input)? {
        return Ok(false);
    }
    let (full, done) = inflate(decompress, input, plain)?;
    if done {
        *progress = Progress::Done;
    }
    Ok(full || !input.is_empty())
}

/// One step of the deflate algorithm. Gives whether the room was used up and whether the stream
/// ended.
pub(super) fn inflate(
    decompress: &mut Decompress,
    input: &mut Bytes,
    plain: &mut Vec<u8>,
) -> Result<(bool, bool), CodingError> {
    let (taken_before, given_before) = (decompress.total_in(), decompress.total_out());
    let (full, status) = into_room(plain, |room| {
        let status = decompress
            .decompress(input, room, FlushDecompress::None)
            .map_err(|_| CodingError::Corrupt)?;
        Ok((usize_from(decompress.total_out() - given_before), status))
    })?;
    let taken = usize_from(decompress.total_in() - taken_before);
    let stuck = taken == 0 && decompress.total_out() == given_before && !input.is_empty();
    input.advance(taken);
    match status {
        Status::StreamEnd => Ok((full, true)),
        Status::Ok | Status::BufError if stuck => Err(CodingError::Corrupt),
        Status::Ok | Status::BufError => Ok((full, false)),
    }
}

fn zstd_step(
    decoder: &mut zstd::stream::raw::Decoder<'static>,
    progress: &mut Progress,
    input: &mut Bytes,
    plain: &mut Vec<u8>,
) -> Result<bool, CodingError> {
    if *progress != Progress::Within && input.is_empty() {
        return Ok(false);
    }
    let mut taken = 0;
    let (full, hint) = into_room(plain, |room| {
        let mut source = InBuffer::around(input.as_ref());
        let mut target = OutBuffer::around(room);
        let hint = decoder.run(&mut source, &mut target).map_err(|_| CodingError::Corrupt)?;
        taken = source.pos();
        Ok((target.pos(), hint))
    })?;
    input.advance(taken);
    *progress = if hint == 0 { Progress::Done } else { Progress::Within };
    Ok(full || !input.is_empty())
}

fn usize_from(difference: u64) -> usize {
    usize::try_from(difference).expect("one step moves no more than a buffer")
}
