//! A body as it comes over one stream. What was read makes room for more.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::RecvStream;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};

use super::{Hints, said_length};
use crate::room::Place;

/// A body over HTTP/2.
pub(crate) struct Incoming {
    stream: RecvStream,
    /// What is still to come, where the head said how much.
    left: Option<u64>,
    data_done: bool,
    /// For a client that waits until its body is asked for.
    awaited: Option<Hints>,
    /// Its request's place among its connection's.
    _place: Option<Arc<Place>>,
}

impl Incoming {
    pub(super) fn new(stream: RecvStream, headers: &HeaderMap) -> Self {
        let left = said_length(headers);
        Self { stream, left, data_done: false, awaited: None, _place: None }
    }

    /// Says 100 by `hints` when the body is first asked for.
    pub(super) fn awaited(self, hints: Option<Hints>) -> Self {
        Self { awaited: hints, ..self }
    }

    /// Keeps `place` as long as there is this body.
    pub(super) fn with(self, place: Arc<Place>) -> Self {
        Self { _place: Some(place), ..self }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.data_done {
            if let Some(data) = ready!(self.stream.poll_data(cx)) {
                let data = data?;
                // Its stream may be over by now, and then nobody waits for room.
                let _ = self.stream.flow_control().release_capacity(data.len());
                self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            self.data_done = true;
        }
        let trailers = ready!(self.stream.poll_trailers(cx))?;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if let Some(hints) = self.awaited.take() {
            hints.send(StatusCode::CONTINUE, HeaderMap::new());
        }
        // A reset is none of what came whole: `h2` gives it as an error only where the end had not come. Whatever its
        // reason, NO_ERROR as well, the rest is missing then (RFC 9113, section 8.1).
        self.poll_next(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
