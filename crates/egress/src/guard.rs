//! Stands between a client's bytes and hyper's HTTP/1 parser, and lets only strictly framed
//! requests through.
//!
//! hyper takes what is harmless to hyper (bare line feeds, Content-Length beside
//! Transfer-Encoding, two `Host` fields). A proxy that holds credentials takes none of it: what two
//! readers can read differently is refused. The guard hands hyper one whole head at a time and says
//! for each, in order, whether it may pass; in place of a bad one it hands over an empty request,
//! so that the refusal is an ordinary answer in the ordinary order. It also knows where bodies end,
//! so that the next head is found without guessing.
//! Source: reference/egress.md (c) 20, 21 and 30; (e) 57 to 64.

mod chunks;
mod handle;
mod head;
mod line;
mod stream;

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::BytesMut;
use keyless_core::Error;
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};

use self::chunks::{Chunks, TrailerBounds};
pub(crate) use self::handle::{Approved, GuardHandle, UpgradePass};
pub use self::head::{Door, Framing, parse_head};
pub(crate) use self::head::{too_many_bytes, too_many_fields};
use self::{
    handle::{Decision, Shared},
    head::with_target_escaped,
};
use crate::{Limits, raw_target::RawTarget};

/// What hyper reads in place of a head that is refused.
const REFUSED_HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: refused.invalid\r\n\r\n";

/// A client's connection, guarded.
pub(crate) struct Guard<S> {
    inner: S,
    /// What was read; the first `approved` bytes are for hyper.
    buffer: BytesMut,
    approved: usize,
    state: State,
    timer: Option<Pin<Box<Sleep>>>,
    rules: Rules,
    /// Nothing of an answer has been written since the last flush: interim answers may go here.
    between_answers: bool,
    shared: Arc<Mutex<Shared>>,
}

struct Rules {
    door: Door,
    head_bytes: usize,
    head_fields: usize,
    head_time: Duration,
}

enum State {
    /// Collecting a head; this many bytes have been looked at.
    Head {
        scanned: usize,
    },
    /// A body with this many bytes to come.
    Body(u64),
    Chunked(Chunks),
    /// An upgrade was asked for; the service decides what the next bytes are.
    Paused,
    /// Not HTTP any more.
    Raw,
    /// A chunk or trailer that no careful reader takes.
    Broken(Error),
    /// Refused: nothing more is read.
    Ended,
}

impl<S> Guard<S> {
    /// Guards `inner`, of which `already_read` has been read.
    pub(crate) fn new(inner: S, already_read: BytesMut, door: Door, limits: &Limits) -> Self {
        let rules = Rules {
            door,
            head_bytes: limits.head_bytes,
            head_fields: limits.head_fields,
            head_time: limits.head_time,
        };
        Self {
            inner,
            buffer: already_read,
            approved: 0,
            state: State::Head { scanned: 0 },
            timer: None,
            rules,
            between_answers: true,
            shared: Arc::default(),
        }
    }

    pub(crate) fn handle(&self) -> GuardHandle {
        GuardHandle(Arc::clone(&self.shared))
    }

    /// The connection and what was read from it but not handed to hyper.
    pub(crate) fn into_parts(self) -> (S, BytesMut) {
        (self.inner, self.buffer)
    }

    /// Looks at what was read; `true` when something was approved or the state has changed.
    fn advance(&mut self) -> bool {
        let fresh = self.buffer.len() - self.approved;
        match &mut self.state {
            State::Head { .. } if fresh > 0 => self.advance_head(),
            State::Body(left) if fresh > 0 => {
                let taken = fresh.min(usize::try_from(*left).unwrap_or(usize::MAX));
                self.approved += taken;
                *left -= taken as u64;
                if *left == 0 {
                    self.state = State::Head { scanned: 0 };
                }
                true
            }
            State::Chunked(chunks) if fresh > 0 => {
                let progress = chunks.take(&self.buffer[self.approved..]);
                self.approved += progress.taken;
                match progress.end {
                    None => {}
                    Some(Ok(())) => self.state = State::Head { scanned: 0 },
                    Some(Err(error)) => self.state = State::Broken(error),
                }
                true
            }
            State::Paused => match self.shared.lock().decision.take() {
                None => false,
                Some(Decision::NextHead) => {
                    self.state = State::Head { scanned: 0 };
                    true
                }
                Some(Decision::Raw) => {
                    self.state = State::Raw;
                    true
                }
            },
            State::Raw if fresh > 0 => {
                self.approved = self.buffer.len();
                true
            }
            _ => false,
        }
    }

    fn advance_head(&mut self) -> bool {
        let State::Head { scanned } = &mut self.state else { return false };
        match line::find_head_end(&self.buffer, scanned) {
            Ok(Some(end)) if end > self.rules.head_bytes => {
                self.refuse(too_many_bytes(self.rules.head_bytes));
            }
            Ok(Some(end)) => {
                self.timer = None;
                match self.parse(end) {
                    Ok((end, framing, raw)) => self.approve(end, framing, raw),
                    Err(error) => self.refuse(error),
                }
            }
            Ok(None) if self.buffer.len() > self.rules.head_bytes => {
                self.refuse(too_many_bytes(self.rules.head_bytes));
            }
            Ok(None) => return false,
            Err(error) => self.refuse(error),
        }
        true
    }

    /// Reads the head that ends at `end`; once more with its target escaped, where that is all it lacks. Gives its end then, and
    /// the target as it came.
    fn parse(&mut self, end: usize) -> Result<(usize, Framing, Option<RawTarget>), Error> {
        let Rules { door, head_bytes, head_fields, .. } = self.rules;
        let refused = match parse_head(&self.buffer[..end], door, head_fields) {
            Ok(framing) => return Ok((end, framing, None)),
            Err(error) => error,
        };
        let Some((escaped, raw)) = with_target_escaped(&self.buffer[..end]) else {
            return Err(refused);
        };
        if escaped.len() > head_bytes {
            return Err(too_many_bytes(head_bytes));
        }
        let framing = parse_head(&escaped, door, head_fields)?;
        let rest = self.buffer.split_off(end);
        self.buffer = BytesMut::from(&escaped[..]);
        self.buffer.unsplit(rest);
        Ok((escaped.len(), framing, Some(raw)))
    }

    fn approve(&mut self, end: usize, framing: Framing, raw: Option<RawTarget>) {
        self.approved = end;
        self.state = match framing {
            Framing::Empty | Framing::Length(0) => State::Head { scanned: 0 },
            Framing::Length(length) => State::Body(length),
            Framing::Chunked => State::Chunked(Chunks::new(TrailerBounds {
                bytes: self.rules.head_bytes,
                fields: self.rules.head_fields,
            })),
            Framing::Tunnel => State::Raw,
            Framing::Upgrade => State::Paused,
        };
        self.shared.lock().verdicts.push_back(Ok((framing, raw)));
    }

    fn refuse(&mut self, error: Error) {
        self.buffer.clear();
        self.buffer.extend_from_slice(REFUSED_HEAD);
        self.approved = REFUSED_HEAD.len();
        self.state = State::Ended;
        self.timer = None;
        self.shared.lock().verdicts.push_back(Err(error));
    }

    /// Whether the time for a head that has begun is over.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.buffer.is_empty() || !matches!(self.state, State::Head { .. }) {
            return Poll::Pending;
        }
        let time = self.rules.head_time;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(time)));
        timer.as_mut().poll(cx)
    }

    /// Whether bytes may go to the reader without being looked at, and how many.
    fn unguarded(&self) -> usize {
        match self.state {
            State::Raw => usize::MAX,
            State::Body(left) => usize::try_from(left).unwrap_or(usize::MAX),
            _ => 0,
        }
    }
}
