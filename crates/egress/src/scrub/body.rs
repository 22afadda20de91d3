//! The body of a response on its way through the scrub, frame by frame.
//!
//! Back pressure is the reader's: a frame is taken only when nothing is left of the one before, and
//! at most a piece is decoded at a time. Bytes are held back only where a value may be starting.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use keyless_rewrite::RewriteStream;

use super::{
    scrub_values,
    values::{Lengths, Slot},
};
use crate::coding::{CodingError, Recoder};

/// A response's body, scrubbed.
pub(crate) struct ScrubBody<B>(State<B>);

enum State<B> {
    Pass(B),
    Scrub(Box<Scrubbing<B>>),
    Whole { data: Bytes, trailers: Option<HeaderMap> },
}

/// Why a body ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScrubBodyError<E> {
    /// It can't be decoded, so it can't be looked into.
    #[error("the response body can't be looked into")]
    Coding(#[from] CodingError),
    /// The upstream broke off.
    #[error("the response body broke off")]
    Inner(#[source] E),
}

/// A body that is scrubbed as it passes.
pub(super) struct Scrubbing<B> {
    inner: B,
    phase: Phase,
    /// Coded or plain bytes that were not yet looked at.
    input: Bytes,
    /// The decoder has more to give without input.
    more: bool,
    recoder: Option<Recoder>,
    slot: Arc<Slot>,
    /// How many values the youngest layer knows.
    known: usize,
    /// One after another: a value that was released while this body came gets a layer of its own
    /// behind the others, since those may hold bytes back.
    layers: Vec<RewriteStream>,
    lengths: Lengths,
    trailers: Option<HeaderMap>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    Ending,
    Trailers,
    Done,
}

type Polled<E> = Poll<Option<Result<Frame<Bytes>, ScrubBodyError<E>>>>;

impl<B> ScrubBody<B> {
    /// A body that nothing is looked for in.
    pub(crate) fn untouched(body: B) -> Self {
        Self(State::Pass(body))
    }

    pub(super) fn whole(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self(State::Whole { data, trailers })
    }

    pub(super) fn scrubbing(scrubbing: Scrubbing<B>) -> Self {
        Self(State::Scrub(Box::new(scrubbing)))
    }
}

impl<B> Body for ScrubBody<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = ScrubBodyError<B::Error>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled<B::Error> {
        match &mut self.0 {
            State::Pass(body) => {
                let polled = Pin::new(body).poll_frame(cx);
                polled.map(|frame| frame.map(|frame| frame.map_err(ScrubBodyError::Inner)))
            }
            State::Scrub(scrubbing) => scrubbing.poll(cx),
            State::Whole { data, trailers } => Poll::Ready(match core::mem::take(data) {
                data if !data.is_empty() => Some(Ok(Frame::data(data))),
                _ => trailers.take().map(|trailers| Ok(Frame::trailers(trailers))),
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            State::Pass(body) => body.is_end_stream(),
            State::Scrub(scrubbing) => scrubbing.phase == Phase::Done,
            State::Whole { data, trailers } => data.is_empty() && trailers.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            State::Pass(body) => body.size_hint(),
            State::Scrub(scrubbing) if scrubbing.is_untouched() => scrubbing.inner.size_hint(),
            State::Scrub(_) => SizeHint::default(),
            State::Whole { data, .. } => SizeHint::with_exact(data.len() as u64),
        }
    }
}

impl<B> Scrubbing<B> {
    pub(super) fn new(
        inner: B,
        slot: Arc<Slot>,
        recoder: Option<Recoder>,
        lengths: Lengths,
    ) -> Self {
        let known = slot.known();
        Self {
            inner,
            phase: Phase::Reading,
            input: Bytes::new(),
            more: false,
            recoder,
            known: known.count(),
            layers: Vec::from_iter((known.count() > 0).then(|| known.rewriter(lengths).stream())),
            slot,
            lengths,
            trailers: None,
        }
    }

    /// Whether the length is the upstream's own and nothing of it was taken yet.
    fn is_untouched(&self) -> bool {
        self.lengths == Lengths::Kept
            && self.recoder.is_none()
            && self.layers.iter().all(|layer| layer.held() == 0)
    }
}

impl<B> Scrubbing<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Polled<B::Error> {
        let polled = self.poll_next(cx);
        if matches!(polled, Poll::Ready(Some(Err(_)) | None)) {
            self.phase = Phase::Done;
        }
        polled
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Polled<B::Error> {
        loop {
            if self.layers.is_empty() && self.recoder.is_none() && !self.input.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(core::mem::take(&mut self.input)))));
            }
            while !self.input.is_empty() || self.more {
                let out = self.step()?;
                if !out.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(out))));
                }
            }
            match self.phase {
                Phase::Reading => match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                    None => self.phase = Phase::Ending,
                    Some(frame) => match frame.map_err(ScrubBodyError::Inner)?.into_data() {
                        Ok(data) => self.take(data),
                        Err(other) => self.trailers = other.into_trailers().ok(),
                    },
                },
                Phase::Ending => {
                    let rest = self.end()?;
                    self.phase = Phase::Trailers;
                    if !rest.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(rest))));
                    }
                }
                Phase::Trailers => {
                    self.phase = Phase::Done;
                    let trailers = self.trailers.take().map(|mut trailers| {
                        scrub_values(&self.slot.known(), &mut trailers);
                        Ok(Frame::trailers(trailers))
                    });
                    return Poll::Ready(trailers);
                }
                Phase::Done => return Poll::Ready(None),
            }
        }
    }

    fn take(&mut self, data: Bytes) {
        let known = self.slot.known();
        if known.count() != self.known {
            self.known = known.count();
            self.layers.push(known.rewriter(self.lengths).stream());
        }
        self.input = data;
    }

    /// Scrubs the next piece of input, and gives what it becomes.
    fn step(&mut self) -> Result<Bytes, CodingError> {
        let Some(recoder) = &mut self.recoder else {
            let chunk = core::mem::take(&mut self.input);
            return Ok(pass_through(&mut self.layers, chunk));
        };
        let mut plain = Vec::new();
        self.more = recoder.decode(&mut self.input, &mut plain)?;
        let scrubbed = pass_through(&mut self.layers, plain.into());
        let mut coded = Vec::new();
        recoder.encode(&scrubbed, &mut coded)?;
        if self.input.is_empty() && !self.more {
            recoder.flush(&mut coded)?;
        }
        Ok(coded.into())
    }

    /// Gives everything that was held back, through the layers behind, and ends the coding.
    fn end(&mut self) -> Result<Bytes, CodingError> {
        let mut rest = Vec::new();
        for layer in &mut self.layers {
            let mut out = Vec::new();
            layer.feed(&rest, &mut out);
            layer.finish(&mut out);
            rest = out;
        }
        let Some(recoder) = &mut self.recoder else { return Ok(rest.into()) };
        let mut coded = Vec::new();
        recoder.encode(&rest, &mut coded)?;
        recoder.finish(&mut coded)?;
        Ok(coded.into())
    }
}

/// What `chunk` becomes; the chunk itself, without a copy, where nothing is found.
fn pass_through(layers: &mut [RewriteStream], chunk: Bytes) -> Bytes {
    layers.iter_mut().fold(chunk, |chunk, layer| {
        let mut out = Vec::new();
        let plain = layer.feed_or_slice(&chunk, &mut out);
        plain.map_or_else(|| out.into(), |range| chunk.slice(range))
    })
}
