//! The body of a request on its way through the swap.
//!
//! At most a piece is decoded or put together at a time. Where a secret comes up for the first
//! time, nothing from there on leaves before the broker has released it.

use std::{
    collections::VecDeque,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use keyless_core::{Code, Error, Location};
use keyless_rewrite::{PatternId, Piece, Scanner};

use super::{
    digest::Bound,
    escape::Escape,
    hidden::Lookout,
    ledger::{Fate, Ledger, Values},
    parts::{Delimiter, Watch},
    plan::{Framing, Stream, refused},
};
use crate::{
    coding::{PIECE, Recoder},
    passage::{Change, Passage},
};

/// Plain bytes from this length on are handed on as they are, shorter ones are put together.
const COPY_BELOW: usize = 4 * 1024;

/// A request's body, swapped.
pub(crate) type SwapBody<B> = Passage<B, Swapping>;

/// The swap of one body.
pub(crate) struct Swapping {
    /// Coded or plain bytes that were not yet looked at.
    input: Bytes,
    /// The decoder has more to give without input.
    more: bool,
    end: End,
    recoder: Option<Recoder>,
    scanner: Scanner,
    lookout: Lookout,
    /// What was found and has not yet left.
    queue: VecDeque<Item>,
    out: Vec<u8>,
    swap: Swap,
    release: Option<BoxFuture<'static, (Ledger, Result<Values, Error>)>>,
    framing: Framing,
}

/// How far the end has come: what holds bytes back gives them in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Scanner,
    Coding,
    Over,
}

/// What is needed to decide about a placeholder and to put its value there.
struct Swap {
    /// Away while the broker is asked.
    ledger: Option<Ledger>,
    values: Values,
    location: Location,
    escape: Escape,
    bound: Bound,
    /// Of a multipart body, whose parts may say their lengths.
    parts: Option<Watch>,
}

enum Item {
    Plain(Bytes),
    Placeholder(PatternId),
    /// One that was judged, and whose value may be here already.
    Judged(PatternId),
    /// One whose value was asked for.
    Asked(PatternId),
}

impl Swapping {
    /// The swap of what follows `begun`.
    pub(super) fn new<B>(stream: Stream<B>, ledger: Ledger, framing: Framing) -> (B, Self) {
        let mut swapping = Self {
            input: stream.begun,
            recoder: stream.recoder,
            framing,
            ..Self::plain(ledger, Location::Body, stream.escape, stream.bound)
        };
        swapping.swap.parts = stream.delimiter.map(Delimiter::watch);
        (stream.body, swapping)
    }

    /// The swap of a WebSocket's message.
    pub(super) fn of_message(ledger: Ledger, escape: Escape) -> Self {
        Self::plain(ledger, Location::Websocket, escape, Bound::No)
    }

    fn plain(ledger: Ledger, location: Location, escape: Escape, bound: Bound) -> Self {
        let values = ledger.no_values();
        Self {
            input: Bytes::new(),
            more: false,
            end: End::Open,
            recoder: None,
            scanner: Scanner::new(ledger.table().patterns()),
            lookout: Lookout::new(escape),
            queue: VecDeque::new(),
            out: Vec::new(),
            swap: Swap { ledger: Some(ledger), values, location, escape, bound, parts: None },
            release: None,
            framing: Framing::Anew,
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
                        self.swap.look(&bytes);
                        return Ok(Some(bytes));
                    }
                    self.queue.push_front(Item::Plain(bytes));
                    break;
                }
                Item::Plain(bytes) => {
                    self.swap.look(&bytes);
                    self.put(&bytes)?;
                }
                Item::Placeholder(pattern) => match self.swap.judge(pattern)? {
                    Fate::Left => {
                        let table = self.swap.ledger()?.table().clone();
                        self.put(table.spelling(pattern).text.as_bytes())?;
                    }
                    Fate::Swapped => self.queue.push_front(Item::Judged(pattern)),
                },
                Item::Judged(pattern) if !self.swap.has_value(pattern)? => {
                    self.queue.push_front(Item::Asked(pattern));
                    self.ask_for_release();
                    break;
                }
                // Its use went with what was asked: a value whose permit has run out since is not asked for again, for
                // there would be nothing to ask, and no end to it.
                Item::Judged(pattern) | Item::Asked(pattern) => {
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
        let ledger = self.swap.ledger.as_mut().ok_or(Code::Internal)?;
        ledger.look(&chunk)?;
        if let Some(secret) = self.lookout.look(ledger.table(), &chunk) {
            ledger.refuse_hidden(secret, self.swap.location)?;
        }
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

impl Change for Swapping {
    fn take(&mut self, data: Bytes) {
        self.input = data;
    }

    fn end(&mut self) {
        self.end = End::Scanner;
    }

    fn poll_give(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        loop {
            if self.release.is_some() {
                ready!(self.poll_release(cx))?;
            }
            if let Some(ready) = self.drain()? {
                return Poll::Ready(Ok(Some(ready)));
            }
            if self.release.is_some() || !self.queue.is_empty() {
                continue;
            }
            if !self.input.is_empty() || self.more {
                self.scan()?;
                continue;
            }
            match self.end {
                End::Open | End::Over => return Poll::Ready(Ok(None)),
                End::Scanner => {
                    let queue = &mut self.queue;
                    self.scanner.finish(|piece| queue.push_back(Item::owned(&piece)));
                    self.end = End::Coding;
                }
                End::Coding => {
                    if let Some(recoder) = &mut self.recoder {
                        recoder.finish(&mut self.out).map_err(|error| refused(&error))?;
                    }
                    self.end = End::Over;
                }
            }
        }
    }

    fn keeps_length(&self) -> bool {
        self.framing == Framing::Kept && self.queue.is_empty() && self.scanner.held() == 0
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
        match ledger.judge(secret, self.location)? {
            Fate::Swapped if self.bound == Bound::Digest => Err(Code::BodyDigest.into()),
            fate => Ok(fate),
        }
    }

    /// Looks at what is sent as it came.
    fn look(&mut self, plain: &[u8]) {
        if let Some(parts) = &mut self.parts {
            parts.look(plain);
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
        let value = self.values.open(found.secret)?;
        let escape = self.escape.for_spelling(found.spelling);
        let mut spelled = zeroize::Zeroizing::new(Vec::with_capacity(escape.length(value)));
        escape.write(value, &mut spelled);
        self.bound.check(found.text.len(), spelled.len())?;
        if let Some(parts) = &self.parts {
            parts.check(found.text.len(), spelled.len())?;
        }
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
