//! Room for bodies that are read whole: so many bytes for all sessions together, and for each of them.
//!
//! Room is taken as the bytes come, and free again when the last of them was sent on or dropped. What finds none is
//! refused. Deliberately not here: bodies that stream, which hold a piece at a time.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use keyless_core::{Code, Error, SafeText};

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
}

/// The room that one body takes up.
pub(crate) struct Held {
    all: Place,
    own: Place,
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
        Self { all: Arc::clone(all), own, pause: limits.body_pause }
    }

    /// How long a body that is read may pause.
    pub(crate) fn pause(&self) -> Duration {
        self.pause
    }

    /// The room of a body that is yet to come.
    pub(crate) fn begin(&self) -> Held {
        Held { all: self.all.reserve(), own: self.own.reserve() }
    }

    /// The room of a body of this many bytes.
    pub(crate) fn hold(&self, bytes: usize) -> Result<Held, Error> {
        let mut held = self.begin();
        held.take(bytes)?;
        Ok(held)
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

    /// The bytes, which free the room when they are dropped.
    pub(crate) fn keep<T: AsRef<[u8]> + Send + 'static>(self, data: T) -> Bytes {
        Bytes::from_owner(Kept { data, _held: self })
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
