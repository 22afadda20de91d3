//! S3's payloads that are signed in chunks: each chunk's signature is checked with the agent's
//! placeholder and made anew with the real key, as the payload passes.
//!
//! A chunk's signature stands before its data, so a chunk is held until it is whole, and signed ones
//! have a bound. Nothing changes its length: sizes, data and trailers leave as they came. After the
//! last chunk may come trailers, with a signature of their own. Source:
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html>.

use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes, BytesMut};
use keyless_core::{Error, SigV4Chain};
use subtle::ConstantTimeEq as _;

use super::refused;
use crate::passage::Change;

/// The longest chunk that is held to be signed; SDKs send 64 or 128 KiB.
const MAX_CHUNK: usize = 1 << 20;
/// The longest line: a size, or a trailer.
const MAX_LINE: usize = 8 << 10;
/// The most bytes of trailers.
const MAX_TRAILERS: usize = 16 << 10;

const CHUNK_SIGNATURE: &[u8] = b"chunk-signature=";
const TRAILER_SIGNATURE: &[u8] = b"x-amz-trailer-signature:";
const END_OF_LINE: &[u8] = b"\r\n";

/// The payload of one request, signed anew.
pub(crate) struct ChunkSigner {
    /// As the agent signs, with its placeholder.
    theirs: SigV4Chain,
    /// As it leaves, with the real key.
    ours: SigV4Chain,
    has_trailers: bool,
    came: BytesMut,
    state: State,
    is_over: bool,
}

enum State {
    /// Before a chunk's size.
    Chunk,
    /// Among the trailers: what is signed of those that came.
    Trailers(Vec<u8>),
    /// Before the empty line at the end.
    LastLine,
    Done,
}

/// A line `SIZE;chunk-signature=SIGNATURE`.
struct ChunkHead<'a> {
    size: usize,
    /// All of it up to the signature.
    before: &'a [u8],
    signature: &'a [u8],
}

impl ChunkSigner {
    pub(super) fn new(theirs: SigV4Chain, ours: SigV4Chain, has_trailers: bool) -> Self {
        let (came, state) = (BytesMut::new(), State::Chunk);
        Self { theirs, ours, has_trailers, came, state, is_over: false }
    }

    /// Moves on by one chunk or line, if it is whole.
    fn step(&mut self) -> Result<Option<Bytes>, Error> {
        match &mut self.state {
            State::Chunk => self.chunk(),
            State::Trailers(_) => self.trailer(),
            State::LastLine => self.last_line(),
            State::Done if self.came.is_empty() => Ok(None),
            State::Done => Err(refused("something follows its last chunk")),
        }
    }

    fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(line) = line_of(&self.came)? else { return Ok(None) };
        let head = ChunkHead::parse(line)?;
        let start = line.len() + END_OF_LINE.len();
        let is_last = head.size == 0;
        // The line end after the last chunk's data is that of the trailers.
        let end = if is_last { start } else { start + head.size + END_OF_LINE.len() };
        let Some(chunk) = self.came.get(start..end) else { return Ok(None) };
        let data = &chunk[..head.size];
        if !is_last && &chunk[head.size..] != END_OF_LINE {
            return Err(refused("a chunk is not as long as it says"));
        }
        check(self.theirs.chunk(data), head.signature)?;
        let signature = self.ours.chunk(data);
        let mut out = BytesMut::with_capacity(end);
        for part in [head.before, signature.as_bytes(), END_OF_LINE, chunk] {
            out.extend_from_slice(part);
        }
        self.came.advance(end);
        self.state = match (is_last, self.has_trailers) {
            (false, _) => State::Chunk,
            (true, true) => State::Trailers(Vec::new()),
            (true, false) => State::LastLine,
        };
        Ok(Some(out.freeze()))
    }

    fn trailer(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(line) = line_of(&self.came)? else { return Ok(None) };
        let State::Trailers(signed) = &mut self.state else { return Ok(None) };
        let end = line.len() + END_OF_LINE.len();
        if let Some(signature) = line.strip_prefix(TRAILER_SIGNATURE) {
            check(self.theirs.trailers(signed), signature)?;
            let signature = self.ours.trailers(signed);
            let out = [TRAILER_SIGNATURE, signature.as_bytes(), END_OF_LINE].concat();
            self.came.advance(end);
            self.state = State::LastLine;
            return Ok(Some(out.into()));
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let colon = colon.ok_or_else(|| refused("its trailers have no signature"))?;
        signed.extend_from_slice(&line[..colon].to_ascii_lowercase());
        signed.push(b':');
        signed.extend_from_slice(line[colon + 1..].trim_ascii());
        signed.push(b'\n');
        if signed.len() > MAX_TRAILERS {
            return Err(refused("its trailers are too long"));
        }
        Ok(Some(self.came.split_to(end).freeze()))
    }

    fn last_line(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(line) = line_of(&self.came)? else { return Ok(None) };
        if !line.is_empty() {
            return Err(refused("its last chunk does not end with an empty line"));
        }
        self.state = State::Done;
        Ok(Some(self.came.split_to(END_OF_LINE.len()).freeze()))
    }
}

impl Change for ChunkSigner {
    fn take(&mut self, data: Bytes) {
        self.came.extend_from_slice(&data);
    }

    fn end(&mut self) {
        self.is_over = true;
    }

    fn poll_give(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        let given = self.step()?;
        // Some leave the last empty line away; nothing is signed by it.
        let is_whole = matches!(self.state, State::Done | State::LastLine) && self.came.is_empty();
        if given.is_none() && self.is_over && !is_whole {
            return Poll::Ready(Err(refused("its payload ends within a chunk")));
        }
        Poll::Ready(Ok(given))
    }

    fn keeps_length(&self) -> bool {
        self.came.is_empty()
    }
}

/// What leaves of a payload that comes in these pieces: for the fuzz target, and tests.
pub fn resigned<'a>(
    [theirs, ours]: [SigV4Chain; 2],
    has_trailers: bool,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<u8>, Error> {
    let mut signer = ChunkSigner::new(theirs, ours, has_trailers);
    let mut out = Vec::new();
    for piece in pieces {
        signer.take(Bytes::copy_from_slice(piece));
        while let Some(given) = signer.step()? {
            out.extend_from_slice(&given);
        }
    }
    signer.end();
    let mut cx = Context::from_waker(std::task::Waker::noop());
    while let Poll::Ready(Some(given)) = signer.poll_give(&mut cx)? {
        out.extend_from_slice(&given);
    }
    Ok(out)
}

impl<'a> ChunkHead<'a> {
    fn parse(line: &'a [u8]) -> Result<Self, Error> {
        let unknown = || refused("a chunk begins with something else than its size and signature");
        let at = line.iter().position(|byte| *byte == b';').ok_or_else(unknown)?;
        let signature = line[at + 1..].strip_prefix(CHUNK_SIGNATURE).ok_or_else(unknown)?;
        let digits = &line[..at];
        let are_hex = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
        let size = str::from_utf8(digits).ok().filter(|_| are_hex).ok_or_else(unknown)?;
        // More digits than fit are too long as well.
        let size = usize::from_str_radix(size, 16).unwrap_or(usize::MAX);
        if size > MAX_CHUNK {
            return Err(refused("a chunk is longer than 1 MiB"));
        }
        let before = &line[..line.len() - signature.len()];
        Ok(Self { size, before, signature })
    }
}

/// The first line, without its end.
fn line_of(came: &[u8]) -> Result<Option<&[u8]>, Error> {
    let looked_at = &came[..came.len().min(MAX_LINE)];
    match looked_at.windows(END_OF_LINE.len()).position(|two| two == END_OF_LINE) {
        Some(end) => Ok(Some(&came[..end])),
        None if came.len() >= MAX_LINE => Err(refused("a line of its chunks is too long")),
        None => Ok(None),
    }
}

fn check(ours: &str, given: &[u8]) -> Result<(), Error> {
    let same = ours.as_bytes().ct_eq(given).into();
    if same {
        Ok(())
    } else {
        Err(refused("a chunk is not signed with the secret key's placeholder"))
    }
}

#[cfg(test)]
mod tests;
