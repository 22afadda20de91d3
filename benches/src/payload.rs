//! A body of a known length: one chunk, over and over. It costs its sender nothing but the sending. And
//! one of events, each of which says when it was sent.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Interval, interval};

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

/// Between two events.
const PAUSE: Duration = Duration::from_millis(10);

/// Server-sent events.
pub(crate) struct Events {
    left: usize,
    clock: Interval,
}

impl Events {
    pub(crate) fn new(count: usize) -> Self {
        Self { left: count, clock: interval(PAUSE) }
    }
}

/// Nanoseconds of the machine's clock, which both ends read.
pub(crate) fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        ready!(self.clock.poll_tick(cx));
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(format!("data: {}\n\n", now()).into()))))
    }
}
