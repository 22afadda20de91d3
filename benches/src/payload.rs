//! A body of a known length: one chunk, over and over. It costs its sender nothing but the sending.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::text;

/// What a body is cut into.
const CHUNK: usize = 64 << 10;

/// The body of every request and answer here.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    chunk: Bytes,
    left: u64,
}

impl Payload {
    pub(crate) fn empty() -> Self {
        Self { chunk: Bytes::new(), left: 0 }
    }

    pub(crate) fn once(chunk: Bytes) -> Self {
        Self { left: chunk.len() as u64, chunk }
    }

    /// `length` bytes of text in base64's letters.
    pub(crate) fn of_length(length: u64) -> Self {
        Self { chunk: text::base64(CHUNK).into(), left: length }
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.chunk.len());
        self.left -= length as u64;
        Poll::Ready(Some(Ok(Frame::data(self.chunk.slice(..length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
