//! Content codings, one step at a time: gzip, br, zstd and deflate, so that a body can be looked
//! into on its way and coded again as it was.
//!
//! Every step gives at most [`PIECE`] bytes, so that a decompression bomb costs time and no memory,
//! and a decoder gives all that it can at once, so that no event waits. What is done with the plain
//! bytes is not decided here. Follows RFC 9110 section 8.4, RFC 1950 to 1952, 7932 and 9659 (which
//! bounds zstd's window), and reference/egress.md, traps 14 and 24.

mod gzip;
mod recoder;

use std::io::{self, Write};

use brotli::{BrotliDecompressStream, BrotliResult, BrotliState, enc::StandardAlloc};
use bytes::{Buf, Bytes};
use flate2::{Compression, Decompress, FlushDecompress, Status};
use http::{HeaderMap, HeaderValue, header};
use zstd::stream::raw::{DParameter, InBuffer, Operation, OutBuffer};

pub(crate) use self::recoder::Recoder;

/// The most plain bytes that one step of a decoder gives.
pub(crate) const PIECE: usize = 64 * 1024;

/// 8 MiB, the most that an encoder may ask for (RFC 9659).
const ZSTD_WINDOW_LOG: u32 = 23;
/// Fast ones: the bytes cross a network once.
const ZSTD_LEVEL: i32 = 1;
const BROTLI_QUALITY: u32 = 3;
const BROTLI_WINDOW_BITS: u32 = 18;

/// A coding that we can look into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Brotli,
    /// zlib's form, or bare as some servers send it.
    Deflate,
    Gzip,
    Zstd,
}

/// What a message's `Content-Encoding` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coded {
    /// As is.
    Identity,
    /// By one coding that we know.
    By(Coding),
    /// By another, or by several.
    Opaque,
}

/// Why a body can't be decoded or coded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CodingError {
    /// Not what its `Content-Encoding` says.
    #[error("the body is not in its coding")]
    Corrupt,
    /// It ended in the middle.
    #[error("the body ended before its coding did")]
    Truncated,
    /// An encoder failed.
    #[error("the body could not be coded")]
    Encode(#[source] io::Error),
}

impl Coding {
    /// Every one, for tests.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 4] = [Self::Brotli, Self::Deflate, Self::Gzip, Self::Zstd];

    fn parse(token: &str) -> Option<Self> {
        match token.to_ascii_lowercase().as_str() {
            "br" => Some(Self::Brotli),
            "deflate" => Some(Self::Deflate),
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
}

impl Coded {
    /// Reads `Content-Encoding`.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut coded = Self::Identity;
        for value in headers.get_all(header::CONTENT_ENCODING) {
            let Ok(list) = value.to_str() else { return Self::Opaque };
            for token in list.split(',').map(str::trim).filter(|token| !token.is_empty()) {
                coded = match (coded, Coding::parse(token)) {
                    // S3's chunk framing leaves the bytes readable; see `swap/digest.rs`.
                    (coded, None) if is_plain(token) => coded,
                    (Self::Identity, Some(coding)) => Self::By(coding),
                    _ => return Self::Opaque,
                };
            }
        }
        coded
    }
}

fn is_plain(token: &str) -> bool {
    token.eq_ignore_ascii_case("identity") || token.eq_ignore_ascii_case("aws-chunked")
}

/// Leaves only codings that we can look into in `Accept-Encoding`. An absent header stays absent.
pub(crate) fn narrow_accept_encoding(headers: &mut HeaderMap) {
    // A range of a coded body can't be decoded by itself.
    if headers.contains_key(header::RANGE) {
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        return;
    }
    let known = |item: &&str| {
        let token = item.split(';').next().unwrap_or_default().trim();
        token.eq_ignore_ascii_case("identity") || Coding::parse(token).is_some()
    };
    let values: Vec<String> = (headers.get_all(header::ACCEPT_ENCODING).iter())
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect();
    let items = || values.iter().flat_map(|list| list.split(',')).map(str::trim);
    if values.is_empty() || items().all(|item| known(&item)) {
        return;
    }
    let kept: Vec<&str> = items().filter(known).collect();
    let narrowed = if kept.is_empty() { "identity".to_owned() } else { kept.join(", ") };
    let narrowed = HeaderValue::try_from(narrowed).unwrap_or(HeaderValue::from_static("identity"));
    headers.insert(header::ACCEPT_ENCODING, narrowed);
}

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
        Ok(Encoder(match &self.0 {
            Decoding::Brotli(..) => Encoding::Brotli(Box::new(brotli::CompressorWriter::new(
                Vec::new(),
                4096,
                BROTLI_QUALITY,
                BROTLI_WINDOW_BITS,
            ))),
            Decoding::Deflate(_, Form::Bare, _) => {
                Encoding::Bare(flate2::write::DeflateEncoder::new(Vec::new(), Compression::fast()))
            }
            Decoding::Deflate(..) | Decoding::DeflateAhead(_) => {
                Encoding::Zlib(flate2::write::ZlibEncoder::new(Vec::new(), Compression::fast()))
            }
            Decoding::Gzip(_) => {
                Encoding::Gzip(flate2::write::GzEncoder::new(Vec::new(), Compression::fast()))
            }
            Decoding::Zstd(..) => Encoding::Zstd(
                zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)
                    .map_err(CodingError::Encode)?,
            ),
        }))
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

/// Takes plain bytes, gives coded ones.
pub(crate) struct Encoder(Encoding);

enum Encoding {
    Bare(flate2::write::DeflateEncoder<Vec<u8>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
    Zlib(flate2::write::ZlibEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    /// Takes `plain`; appends to `coded` what is ready.
    pub(crate) fn write(&mut self, plain: &[u8], coded: &mut Vec<u8>) -> Result<(), CodingError> {
        let writer = self.writer();
        writer.write_all(plain).map_err(CodingError::Encode)?;
        self.drain(coded);
        Ok(())
    }

    /// Appends everything that was taken so far in a form that the other side can decode now.
    pub(crate) fn flush(&mut self, coded: &mut Vec<u8>) -> Result<(), CodingError> {
        let writer = self.writer();
        writer.flush().map_err(CodingError::Encode)?;
        self.drain(coded);
        Ok(())
    }

    /// Appends the end of the stream.
    pub(crate) fn finish(self, coded: &mut Vec<u8>) -> Result<(), CodingError> {
        let rest = match self.0 {
            Encoding::Bare(encoder) => encoder.finish(),
            Encoding::Brotli(encoder) => Ok(encoder.into_inner()),
            Encoding::Gzip(encoder) => encoder.finish(),
            Encoding::Zlib(encoder) => encoder.finish(),
            Encoding::Zstd(encoder) => encoder.finish(),
        };
        coded.extend_from_slice(&rest.map_err(CodingError::Encode)?);
        Ok(())
    }

    fn drain(&mut self, coded: &mut Vec<u8>) {
        let ready = match &mut self.0 {
            Encoding::Bare(encoder) => encoder.get_mut(),
            Encoding::Brotli(encoder) => encoder.get_mut(),
            Encoding::Gzip(encoder) => encoder.get_mut(),
            Encoding::Zlib(encoder) => encoder.get_mut(),
            Encoding::Zstd(encoder) => encoder.get_mut(),
        };
        coded.append(ready);
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.0 {
            Encoding::Bare(encoder) => encoder,
            Encoding::Brotli(encoder) => encoder.as_mut(),
            Encoding::Gzip(encoder) => encoder,
            Encoding::Zlib(encoder) => encoder,
            Encoding::Zstd(encoder) => encoder,
        }
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
    if *progress == Progress::Done {
        return if input.is_empty() { Ok(false) } else { Err(CodingError::Corrupt) };
    }
    if *progress == Progress::Nothing && input.is_empty() {
        return Ok(false);
    }
    *progress = Progress::Within;
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
    if *progress == Progress::Done {
        return if input.is_empty() { Ok(false) } else { Err(CodingError::Corrupt) };
    }
    if *progress == Progress::Nothing && input.is_empty() {
        return Ok(false);
    }
    *progress = Progress::Within;
    let (full, done) = inflate(decompress, input, plain)?;
    if done {
        *progress = Progress::Done;
    }
    Ok(full || !input.is_empty())
}

/// One step of the deflate algorithm. Gives whether the room was used up and whether the stream
/// ended.
fn inflate(
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

#[cfg(test)]
pub(crate) mod tests;
