//! What of requests `h2` resets before anybody has seen them: heads that it takes for malformed, with a `"` or a `<` raw in
//! the path among them, which browsers and curl send and which HTTP/1.1 carries here.
//!
//! `h2` has neither a hook for its judgement nor words for the client: a reset with `PROTOCOL_ERROR`. It is let out as
//! `HTTP_1_1_REQUIRED` (RFC 9113, section 7), at which curl and browsers send the same request over HTTP/1.1: it works
//! there, or is refused in words. Only these four bytes change, so that frames keep their places.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use h2::Reason;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;

use crate::write_through::{end_through, read_through};

use super::frame_heads::{FRAME_HEAD, FrameHeads, payload_length};

const RST_STREAM: u8 = 3;
const RESET: usize = FRAME_HEAD + 4;

/// The streams that a client has opened and nobody was handed yet, and how many of them were reset.
#[derive(Clone, Default)]
pub(super) struct Unseen(Arc<Mutex<Streams>>);

#[derive(Default)]
struct Streams {
    last: u32,
    unseen: Vec<u32>,
    refused: usize,
}

/// A stream that says of resets what the client is to do.
pub(super) struct Redirected<S> {
    inner: S,
    unseen: Unseen,
    frames: FrameHeads,
    /// A reset on its way out, and how much of it has left.
    reset: Option<([u8; RESET], usize)>,
}

impl Unseen {
    /// A head has begun on this stream; its second one ends it.
    pub(super) fn opened(&self, stream: u32) {
        let mut streams = self.0.lock();
        if stream > streams.last {
            streams.last = stream;
            streams.unseen.push(stream);
        }
    }

    /// Somebody was handed the request.
    pub(super) fn handed_out(&self, stream: u32) {
        self.0.lock().unseen.retain(|unseen| *unseen != stream);
    }

    /// How many were refused since this was last asked.
    pub(super) fn take_refused(&self) -> usize {
        std::mem::take(&mut self.0.lock().refused)
    }

    /// What a reset is to be replaced by, if its request was seen by nobody and is malformed.
    fn redirect(&self, reset: [u8; RESET]) -> Option<[u8; RESET]> {
        let [.., s0, s1, s2, s3, r0, r1, r2, r3] = reset;
        let stream = u32::from_be_bytes([s0, s1, s2, s3]);
        let mut streams = self.0.lock();
        let at = streams.unseen.iter().position(|unseen| *unseen == stream)?;
        streams.unseen.swap_remove(at);
        if Reason::from(u32::from_be_bytes([r0, r1, r2, r3])) != Reason::PROTOCOL_ERROR {
            return None;
        }
        streams.refused += 1;
        let mut redirected = reset;
        redirected[FRAME_HEAD..]
            .copy_from_slice(&u32::from(Reason::HTTP_1_1_REQUIRED).to_be_bytes());
        Some(redirected)
    }
}

/// How much of `bytes` may leave before somebody looks again: up to the first whole reset, or a head's end.
fn until_reset(frames: &FrameHeads, bytes: &[u8]) -> usize {
    if frames.of_head() > 0 {
        return bytes.len().min(FRAME_HEAD - frames.of_head());
    }
    let mut at = frames.of_payload();
    while let Some(head) = bytes.get(at..at + FRAME_HEAD) {
        if head[3] == RST_STREAM {
            return if bytes.len() >= at + RESET { at } else { bytes.len() };
        }
        at += FRAME_HEAD + payload_length(head);
    }
    bytes.len()
}

impl<S> Redirected<S> {
    pub(super) fn new(inner: S, unseen: Unseen) -> Self {
        Self { inner, unseen, frames: FrameHeads::default(), reset: None }
    }
}

read_through!(Redirected<S>);

impl<S: AsyncWrite + Unpin> Redirected<S> {
    /// Writes the reset that `bytes` begin with, as it is to be said.
    fn poll_reset(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let (reset, sent) = self.reset.take().unwrap_or_else(|| {
            let mut reset = [0; RESET];
            reset.copy_from_slice(&bytes[..RESET]);
            (self.unseen.redirect(reset).unwrap_or(reset), 0)
        });
        let left = &reset[sent..];
        let written =
            Pin::new(&mut self.inner).poll_write(cx, &left[..left.len().min(bytes.len())]);
        let passed = match &written {
            Poll::Ready(Ok(written)) => *written,
            _ => 0,
        };
        if sent + passed < RESET {
            self.reset = Some((reset, sent + passed));
        }
        self.frames.skip(&left[..passed]);
        written
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Redirected<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let until = until_reset(&this.frames, bytes);
        if this.reset.is_some() || (until == 0 && !bytes.is_empty()) {
            return this.poll_reset(cx, bytes);
        }
        let written = ready!(Pin::new(&mut this.inner).poll_write(cx, &bytes[..until]))?;
        this.frames.skip(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        // Resets are rare: whoever opened nothing that is unseen gets none that changes.
        if this.reset.is_some() || !this.unseen.0.lock().unseen.is_empty() {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return Pin::new(this).poll_write(cx, first.map_or(&[][..], |slice| slice));
        }
        let written = ready!(Pin::new(&mut this.inner).poll_write_vectored(cx, slices))?;
        let mut left = written;
        for slice in slices {
            let passed = left.min(slice.len());
            this.frames.skip(&slice[..passed]);
            left -= passed;
        }
        Poll::Ready(Ok(written))
    }

    end_through!();
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker;

    use super::*;

    /// Takes a few bytes at a time.
    struct Narrow(Vec<u8>, usize);

    impl AsyncWrite for Narrow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = bytes.len().min(self.1);
            self.0.extend_from_slice(&bytes[..taken]);
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, 0, 0, 0, 0, stream][..], payload].concat()
    }

    #[test]
    fn resets_of_what_nobody_saw_ask_for_http_1_1_however_they_leave() {
        let reset = |stream, reason| frame(RST_STREAM, stream, &[0, 0, 0, reason]);
        // A payload that looks like a reset is none.
        let data = frame(0, 9, &reset(5, 1));
        let said =
            |second: Vec<u8>| [&data[..], &reset(1, 1), &second, &data, &reset(7, 8)].concat();
        for width in 1..80 {
            for vectored in [false, true] {
                let unseen = Unseen::default();
                for stream in [1, 3, 5, 7] {
                    unseen.opened(stream);
                }
                for stream in [1, 3] {
                    unseen.handed_out(stream);
                }
                let mut out = Redirected::new(Narrow(Vec::new(), width), unseen.clone());
                let (bytes, waker) = (said(reset(5, 1)), noop_waker());
                let mut cx = Context::from_waker(&waker);
                let mut at = 0;
                while at < bytes.len() {
                    let (left, out) = (&bytes[at..], Pin::new(&mut out));
                    let written = if vectored {
                        out.poll_write_vectored(&mut cx, &[IoSlice::new(&[]), IoSlice::new(left)])
                    } else {
                        out.poll_write(&mut cx, left)
                    };
                    let Poll::Ready(Ok(written)) = written else { panic!() };
                    at += written;
                }
                assert_eq!(out.inner.0, said(reset(5, 13)), "{width}");
                assert_eq!((unseen.take_refused(), unseen.take_refused()), (1, 0));
            }
        }
    }
}
