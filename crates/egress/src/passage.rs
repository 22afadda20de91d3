//! A body on its way through a change, frame by frame: what swap and scrub have in common.
//!
//! Back pressure is the reader's: a frame is taken only when nothing is left of the one before.
//! What is changed, and how, is the [`Change`]'s alone.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use keyless_core::Error;
use tokio::time::timeout;

/// How long a head waits for the first bytes of its body, where those can show it to be a lie.
const LOOK_AHEAD: Duration = Duration::from_secs(1);

/// What is done to the bytes of one body. Never sees the body itself.
pub(crate) trait Change {
    /// Takes the next bytes; only when there was nothing more to give.
    fn take(&mut self, data: Bytes);

    /// No bytes come after those that were taken.
    fn end(&mut self);

    /// Gives the next bytes that may leave; `None` when there are none before more is taken.
    fn poll_give(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>>;

    /// Changes the trailers, the last to leave.
    fn trailers(&self, _trailers: &mut HeaderMap) {}

    /// Whether as many bytes will be given as are still to be taken.
    fn keeps_length(&self) -> bool;
}

/// A body and what is done to it.
pub(crate) struct Passage<B, C>(State<B, C>);

enum State<B, C> {
    Changing(Box<Changing<B, C>>),
    Pass(B),
    Whole { data: Bytes, trailers: Option<HeaderMap> },
}

struct Changing<B, C> {
    inner: B,
    change: C,
    phase: Phase,
    /// What was looked at before anything left.
    ahead: VecDeque<Frame<Bytes>>,
    trailers: Option<HeaderMap>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    Ending,
    Done,
}

/// Why a body ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassageError<E> {
    /// Its sender broke off.
    #[error("the body broke off")]
    Inner(#[source] E),
    /// It may not go on.
    #[error("refused in the middle of the body")]
    Refused(#[source] Error),
}

type Polled<E> = Poll<Option<Result<Frame<Bytes>, PassageError<E>>>>;

impl<B, C> Passage<B, C> {
    /// A body that nothing is done to.
    pub(crate) fn untouched(body: B) -> Self {
        Self(State::Pass(body))
    }

    /// A body that is there already.
    pub(crate) fn whole(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self(State::Whole { data, trailers })
    }

    /// All of the body, where it is there already.
    pub(crate) fn whole_bytes(&self) -> Option<&Bytes> {
        match &self.0 {
            State::Whole { data, .. } => Some(data),
            State::Changing(_) | State::Pass(_) => None,
        }
    }

    /// A body that is changed as it passes; of its trailers, those that were already read.
    pub(crate) fn changing(inner: B, change: C, trailers: Option<HeaderMap>) -> Self {
        let ahead = VecDeque::new();
        let changing = Changing { inner, change, phase: Phase::Reading, ahead, trailers };
        Self(State::Changing(Box::new(changing)))
    }
}

impl<B, C> Passage<B, C>
where
    B: Body<Data = Bytes> + Unpin,
    C: Change,
{
    /// Changes `enough` bytes before the head leaves, or all when there are fewer: what is wrong
    /// with them can still be an answer. Gives up on bytes that don't come.
    pub(crate) async fn look_ahead(&mut self, enough: usize) -> Result<(), PassageError<B::Error>> {
        let State::Changing(changing) = &mut self.0 else { return Ok(()) };
        let looking = async {
            let mut seen = 0;
            while seen < enough {
                let next = core::future::poll_fn(|cx| changing.poll_next(cx)).await;
                let Some(frame) = next.transpose()? else { break };
                seen += frame.data_ref().map_or(0, Bytes::len);
                changing.ahead.push_back(frame);
            }
            Ok(())
        };
        timeout(LOOK_AHEAD, looking).await.unwrap_or(Ok(()))
    }
}

impl<B, C> Body for Passage<B, C>
where
    B: Body<Data = Bytes> + Unpin,
    C: Change + Unpin,
{
    type Data = Bytes;
    type Error = PassageError<B::Error>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled<B::Error> {
        match &mut self.0 {
            State::Changing(changing) => match changing.ahead.pop_front() {
                Some(frame) => Poll::Ready(Some(Ok(frame))),
                None => changing.poll_next(cx),
            },
            State::Pass(body) => {
                let polled = Pin::new(body).poll_frame(cx);
                polled.map(|frame| frame.map(|frame| frame.map_err(PassageError::Inner)))
            }
            State::Whole { data, trailers } => Poll::Ready(match core::mem::take(data) {
                data if !data.is_empty() => Some(Ok(Frame::data(data))),
                _ => trailers.take().map(|trailers| Ok(Frame::trailers(trailers))),
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            State::Changing(changing) => changing.phase == Phase::Done && changing.ahead.is_empty(),
            State::Pass(body) => body.is_end_stream(),
            State::Whole { data, trailers } => data.is_empty() && trailers.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            State::Changing(changing) => changing.size_hint(),
            State::Pass(body) => body.size_hint(),
            State::Whole { data, .. } => SizeHint::with_exact(data.len() as u64),
        }
    }
}

impl<B, C> Changing<B, C>
where
    B: Body<Data = Bytes> + Unpin,
    C: Change,
{
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Polled<B::Error> {
        let polled = self.poll_phase(cx);
        if matches!(polled, Poll::Ready(Some(Err(_)) | None)) {
            self.phase = Phase::Done;
        }
        polled
    }

    fn poll_phase(&mut self, cx: &mut Context<'_>) -> Polled<B::Error> {
        loop {
            if self.phase == Phase::Done {
                return Poll::Ready(None);
            }
            let given = ready!(self.change.poll_give(cx)).map_err(PassageError::Refused)?;
            if let Some(bytes) = given {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if self.phase == Phase::Ending {
                self.phase = Phase::Done;
                let trailers = self.trailers.take().map(|mut trailers| {
                    self.change.trailers(&mut trailers);
                    Ok(Frame::trailers(trailers))
                });
                return Poll::Ready(trailers);
            }
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                None => {
                    self.phase = Phase::Ending;
                    self.change.end();
                }
                Some(frame) => match frame.map_err(PassageError::Inner)?.into_data() {
                    Ok(data) => self.change.take(data),
                    Err(other) => self.trailers = other.into_trailers().ok(),
                },
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        if self.ahead.is_empty() && self.change.keeps_length() {
            return self.inner.size_hint();
        }
        // With a length, HTTP/1 has no place for trailers.
        if self.phase == Phase::Done && self.ahead.iter().all(Frame::is_data) {
            let data = self.ahead.iter().filter_map(Frame::data_ref);
            return SizeHint::with_exact(data.map(|data| data.len() as u64).sum());
        }
        SizeHint::default()
    }
}
