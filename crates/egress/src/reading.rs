//! Room for bodies that are read whole: so many bytes for all sessions together, and for each of them.
//!
//! Room is taken as the bytes come, and free again when the last of them was sent on or dropped. What finds none is
//! refused, and so is what comes so slowly that it would keep its room for good. Deliberately not here: bodies that stream, which hold a piece at a time.

use std::{pin::pin, sync::Arc, task::Poll, time::Duration};

use bytes::Bytes;
use futures_util::poll;
use keyless_core::{Code, Error, SafeText};
use tokio::time::{Instant, timeout};

use crate::{
    Limits,
    room::{Place, Room},
};

/// Where the bodies of one session are read.
#[derive(Clone)]
pub(crate) struct Reading {
    all: Arc<Room>,
    own: Arc<Room>,
    pause: Duration,
    rate: usize,
}

/// How fast one body has to come: it may not stand still for longer than a pause, and has as a whole two of them and the
/// time of its bytes at the least rate.
pub(crate) struct Pace {
    begun: Instant,
    pause: Duration,
    rate: usize,
}

/// How a body fell short of its pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// Nothing came for so long.
    Paused(Duration),
    /// Fewer bytes a second came than these.
    Slow(usize),
}

/// The room that one body takes up.
pub(crate) struct Held {
    all: Place,
    own: Place,
}

/// What came so far of a body that is read. One that comes in one piece is not copied.
#[derive(Default)]
pub(crate) struct Gathered {
    first: Bytes,
    all: Vec<u8>,
}

/// Bytes and their room, which go together.
struct Kept<T> {
    data: T,
    _held: Held,
}

impl Reading {
    /// Of a new session, in the room of all.
    pub(crate) fn new(all: &Arc<Room>, limits: &Limits) -> Self {
        let own = Room::of(limits.whole_bytes_per_session);
        Self { all: Arc::clone(all), own, pause: limits.body_pause, rate: limits.body_rate }
    }

    /// The pace of a body that is read from now on.
    pub(crate) fn pace(&self) -> Pace {
        Pace { begun: Instant::now(), pause: self.pause, rate: self.rate.max(1) }
    }

    /// The room of a body that is yet to come.
    pub(crate) fn begin(&self) -> Held {
        Held { all: self.all.reserve(), own: self.own.reserve() }
    }

    /// The room of a body that need not be read whole; none where that would leave less than half of it to those that have to.
    pub(crate) fn spare(&self, bytes: usize) -> Option<Held> {
        let mut held = self.begin();
        held.take_spare(bytes).then_some(held)
    }

    /// The room of a body of this many bytes.
    pub(crate) fn hold(&self, bytes: usize) -> Result<Held, Error> {
        let mut held = self.begin();
        held.take(bytes)?;
        Ok(held)
    }
}

impl Pace {
    /// Waits for what comes next of a body of which so many bytes came so far.
    pub(crate) async fn wait<F: Future>(&self, so_far: usize, next: F) -> Result<F::Output, Late> {
        let mut next = pin!(next);
        // What is here already needs neither clock nor timer.
        if let Poll::Ready(next) = poll!(next.as_mut()) {
            return Ok(next);
        }
        let left = self.most(so_far).saturating_sub(self.begun.elapsed());
        let late = if left < self.pause { Late::Slow(self.rate) } else { Late::Paused(self.pause) };
        timeout(left.min(self.pause), next).await.map_err(|_| late)
    }

    /// How long so many bytes may take.
    pub(crate) fn most(&self, bytes: usize) -> Duration {
        2 * self.pause + Duration::from_secs((bytes / self.rate) as u64)
    }
}

impl Late {
    /// What the sender of a request is told.
    pub(crate) fn refusal(self) -> Error {
        let words = match self {
            Self::Paused(pause) => SafeText::words("nothing more of its body came for ")
                .and(pause.as_secs())
                .and(" seconds"),
            Self::Slow(rate) => {
                SafeText::words("its body has to be read whole, and comes with less than ")
                    .and(rate as u64)
                    .and(" bytes a second; have all of it ready before it is sent")
            }
        };
        Error::with(Code::BadRequest, words)
    }
}

impl Held {
    /// Takes room for more of the body. What was taken so far stays taken if there is no more.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Error> {
        if !self.own.grow(bytes) {
            return Err(crowded("by this session"));
        }
        if !self.all.grow(bytes) {
            return Err(crowded("by all sessions together"));
        }
        Ok(())
    }

    /// Takes room for more of a body that need not be read whole, if there is enough to spare.
    pub(crate) fn take_spare(&mut self, bytes: usize) -> bool {
        self.own.grow_by_half(bytes) && self.all.grow_by_half(bytes)
    }

    /// The bytes, which free the room when they are dropped.
    pub(crate) fn keep<T: AsRef<[u8]> + Send + 'static>(self, data: T) -> Bytes {
        Bytes::from_owner(Kept { data, _held: self })
    }
}

impl Gathered {
    pub(crate) fn add(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        self.all.extend_from_slice(&core::mem::take(&mut self.first));
        self.all.extend_from_slice(&data);
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.all.len()
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.into() }
    }
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Kept<T> {
    fn as_ref(&self) -> &[u8] {
        self.data.as_ref()
    }
}

fn crowded(by_whom: &'static str) -> Error {
    let words = SafeText::words("too many bodies that have to be read whole are held ");
    let words = words.and(by_whom).and("; retry once requests with large bodies are over");
    Error::with(Code::TooManyConnections, words)
}
