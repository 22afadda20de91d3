//! The body of a request on its way through the swap, frame by frame.
//!
//! Back pressure is the reader's: a frame is taken only when nothing is left of the one before, and
//! at most a piece is decoded or put together at a time. Where a secret comes up for the first
//! time, nothing from there on leaves before the broker has released it.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use keyless_core::{Code, Error, Location};
use keyless_rewrite::{PatternId, Piece, Scanner};

use super::{
    escape::Escape,
    ledger::{Fate, Ledger, Values},
    plan::{Framing, Stream, refused},
};
use crate::coding::{PIECE, Recoder};

/// Plain bytes from this length on are handed on as they are, shorter ones are put together.
const COPY_BELOW: usize = 4 * 1024;

/// A request's body, swapped.
pub(crate) struct SwapBody<B>(State<B>);

enum State<B> {
    Pass(B),
    Stream(Box<Streaming<B>>),
    Whole { data: Bytes, trailers: Option<HeaderMap> },
}

/// Why a body ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SwapBodyError<E> {
    /// The agent's side broke off.
    #[error("the request body broke off")]
    Inner(#[source] E),
    /// Something in it is refused, or could not be released.
    #[error("refused in the middle of the body")]
    Refused(#[source] Error),
}

/// A body that is swapped as it passes.
pub(super) struct Streaming<B> {
    inner: B,
    phase: Phase,
    /// Coded or plain bytes that were not yet looked at.
    input: Bytes,
    /// The decoder has more to give without input.
    more: bool,
    recoder: Option<Recoder>,
    scanner: Scanner,
    /// What was found and has not yet left.
    queue: VecDeque<Item>,
    out: Vec<u8>,
    trailers: Option<HeaderMap>,
    swap: Swap,
    release: Option<BoxFuture<'static, (Ledger, Result<Values, Error>)>>,
    framing: Framing,
}

/// What is needed to decide about a placeholder and to put its value there.
struct Swap {
    /// Away while the broker is asked.
    ledger: Option<Ledger>,
    values: Values,
    escape: Escape,
    bound: bool,
}

enum Item {
    Plain(Bytes),
    Placeholder(PatternId),
    /// One that was judged and waits for its value.
    Judged(PatternId),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    /// The body has come to its end, the scanner not.
    Ending,
    /// The scanner has, the coding not.
    Closing,
    Trailers,
    Done,
}

type Polled<E> = Poll<Option<Result<Frame<Bytes>, SwapBodyError<E>>>>;

impl<B> SwapBody<B> {
    /// A body that nothing is looked for in.
    pub(crate) fn untouched(body: B) -> Self {
        Self(State::Pass(body))
    }

    pub(super) fn whole(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self(State::Whole { data, trailers })
    }

    pub(super) fn streaming(streaming: Streaming<B>) -> Self {
        Self(State::Stream(Box::new(streaming)))
    }
}

impl<B> Body for SwapBody<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = SwapBodyError<B::Error>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled<B::Error> {
        match &mut self.0 {
            State::Pass(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|f| f.map_err(SwapBodyError::Inner))),
            State::Stream(streaming) => streaming.poll(cx),
            State::Whole { data, trailers } => Poll::Ready(match core::mem::take(data) {
                data if !data.is_empty() => Some(Ok(Frame::data(data))),
                _ => trailers.take().map(|trailers| Ok(Frame::trailers(trailers))),
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            State::Pass(body) => body.is_end_stream(),
            State::Stream(streaming) => streaming.phase == Phase::Done,
            State::Whole { data, trailers } => data.is_empty() && trailers.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            State::Pass(body) => body.size_hint(),
            State::Stream(streaming) if streaming.is_untouched() => streaming.inner.size_hint(),
            State::Stream(_) => SizeHint::default(),
            State::Whole { data, .. } => SizeHint::with_exact(data.len() as u64),
        }
    }
}

impl<B> Streaming<B> {
    pub(super) fn new(stream: Stream<B>, ledger: Ledger, framing: Framing) -> Self {
        let table = ledger.table();
        Self {
            inner: stream.body,
            phase: Phase::Reading,
            input: stream.begun,
            more: false,
            recoder: stream.recoder,
            scanner: Scanner::new(table.patterns()),
            queue: VecDeque::new(),
            out: Vec::new(),
            trailers: stream.trailers,
            swap: Swap {
                ledger: Some(ledger),
                values: Values::default(),
                escape: stream.escape,
                bound: stream.bound,
            },
            release: None,
            framing,
        }
    }

    /// Whether the length is the sender's own and nothing of it was taken yet.
    fn is_untouched(&self) -> bool {
        self.framing == Framing::Kept && self.queue.is_empty() && self.scanner.held() == 0
    }
}

impl<B> Streaming<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Polled<B::Error> {
        let polled = self.poll_next(cx);
        if matches!(polled, Poll::Ready(Some(Err(_)) | None)) {
            self.phase = Phase::Done;
            self.queue.clear();
        }
        polled
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Polled<B::Error> {
        loop {
            if self.phase == Phase::Done {
                return Poll::Ready(None);
            }
            if self.release.is_some() {
                ready!(self.poll_release(cx)).map_err(SwapBodyError::Refused)?;
            }
            if let Some(ready) = self.drain().map_err(SwapBodyError::Refused)? {
                return Poll::Ready(Some(Ok(Frame::data(ready))));
            }
            if self.release.is_some() || !self.queue.is_empty() {
                continue;
            }
            if !self.input.is_empty() || self.more {
                self.scan().map_err(SwapBodyError::Refused)?;
                continue;
            }
            match self.phase {
                Phase::Reading => match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                    None => self.phase = Phase::Ending,
                    Some(frame) => match frame.map_err(SwapBodyError::Inner)?.into_data() {
                        Ok(data) => self.input = data,
                        Err(other) => self.trailers = other.into_trailers().ok(),
                    },
                },
                Phase::Ending => {
                    let queue = &mut self.queue;
                    self.scanner.finish(|piece| queue.push_back(Item::owned(&piece)));
                    self.phase = Phase::Closing;
                }
                Phase::Closing => {
                    if let Some(recoder) = &mut self.recoder {
                        let finished = recoder.finish(&mut self.out);
                        finished.map_err(|error| SwapBodyError::Refused(refused(&error)))?;
                    }
                    self.phase = Phase::Trailers;
                }
                Phase::Trailers | Phase::Done => {
                    self.phase = Phase::Done;
                    let trailers = self.trailers.take();
                    return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))));
                }
            }
        }
    }

    fn poll_release(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let Some(release) = &mut self.release else { return Poll::Ready(Ok(())) };
        let (ledger, values) = ready!(release.as_mut().poll(cx));
        self.release = None;
        self.swap.ledger = Some(ledger);
        self.swap.values.renew(values?);
        Poll::Ready(Ok(()))
    }

    /// Moves the queue on as far as it goes. Gives bytes that may leave, once there are enough of
    /// them or nothing more to put with them.
    fn drain(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(item) = self.queue.pop_front() {
            match item {
                Item::Plain(bytes) if self.recoder.is_none() && bytes.len() >= COPY_BELOW => {
                    if self.out.is_empty() {
                        return Ok(Some(bytes));
                    }
                    self.queue.push_front(Item::Plain(bytes));
                    break;
                }
                Item::Plain(bytes) => self.put(&bytes)?,
                Item::Placeholder(pattern) => match self.swap.judge(pattern)? {
                    Fate::Left => {
                        let table = self.swap.ledger()?.table().clone();
                        self.put(table.spelling(pattern).text.as_bytes())?;
                    }
                    Fate::Swapped => self.queue.push_front(Item::Judged(pattern)),
                },
                Item::Judged(pattern) if !self.swap.has_value(pattern)? => {
                    self.queue.push_front(Item::Judged(pattern));
                    self.ask_for_release();
                    break;
                }
                Item::Judged(pattern) => {
                    let value = self.swap.value(pattern, self.framing)?;
                    self.put(&value)?;
                }
            }
            if self.out.len() >= PIECE {
                break;
            }
        }
        let starved = self.queue.is_empty() && self.input.is_empty() && !self.more;
        if let Some(recoder) = &mut self.recoder
            && starved
        {
            recoder.flush(&mut self.out).map_err(|error| refused(&error))?;
        }
        let ready = !self.out.is_empty() && (starved || !self.queue.is_empty());
        Ok(ready.then(|| core::mem::take(&mut self.out).into()))
    }

    fn put(&mut self, plain: &[u8]) -> Result<(), Error> {
        if let Some(recoder) = &mut self.recoder {
            return recoder.encode(plain, &mut self.out).map_err(|error| refused(&error));
        }
        self.out.extend_from_slice(plain);
        Ok(())
    }

    /// Looks through the next piece of input.
    fn scan(&mut self) -> Result<(), Error> {
        let chunk = match &mut self.recoder {
            None => core::mem::take(&mut self.input),
            Some(recoder) => {
                let mut plain = Vec::new();
                let more = recoder.decode(&mut self.input, &mut plain);
                self.more = more.map_err(|error| refused(&error))?;
                plain.into()
            }
        };
        let queue = &mut self.queue;
        self.scanner.feed(&chunk, |piece| {
            queue.push_back(match piece {
                Piece::Chunk(range) => Item::Plain(chunk.slice(range)),
                other => Item::owned(&other),
            });
        });
        Ok(())
    }

    fn ask_for_release(&mut self) {
        if let Some(mut ledger) = self.swap.ledger.take() {
            self.release = Some(Box::pin(async move {
                let values = ledger.release().await;
                (ledger, values)
            }));
        }
    }
}

impl Item {
    fn owned(piece: &Piece<'_>) -> Self {
        match piece {
            Piece::Match(pattern) => Self::Placeholder(*pattern),
            Piece::Held(bytes) => Self::Plain(Bytes::copy_from_slice(bytes)),
            Piece::Chunk(_) => Self::Plain(Bytes::new()),
        }
    }
}

impl Swap {
    fn judge(&mut self, pattern: PatternId) -> Result<Fate, Error> {
        let ledger = self.ledger.as_mut().ok_or(Code::Internal)?;
        let secret = ledger.table().spelling(pattern).secret;
        match ledger.judge(secret, Location::Body)? {
            Fate::Swapped if self.bound => Err(Code::BodyDigest.into()),
            fate => Ok(fate),
        }
    }

    fn has_value(&self, pattern: PatternId) -> Result<bool, Error> {
        Ok(self.values.has(self.ledger()?.table().spelling(pattern).secret))
    }

    fn value(
        &self,
        pattern: PatternId,
        framing: Framing,
    ) -> Result<zeroize::Zeroizing<Vec<u8>>, Error> {
        let found = self.ledger()?.table().spelling(pattern);
        let mut spelled = zeroize::Zeroizing::new(Vec::new());
        let value = self.values.open(found.secret)?;
        self.escape.for_spelling(found.spelling).write(value, &mut spelled);
        if framing == Framing::Kept && spelled.len() != found.text.len() {
            let detail = "the value changed its length in the middle of the request".into();
            return Err(Error::with(Code::SecretUnavailable, detail));
        }
        Ok(spelled)
    }

    fn ledger(&self) -> Result<&Ledger, Error> {
        self.ledger.as_ref().ok_or(Code::Internal.into())
    }
}
