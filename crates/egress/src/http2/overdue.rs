//! What a client takes too long for: a head that does not end, and a connection that nothing is asked over.
//!
//! `h2` has no clock for either. Streams that are open may be silent for as long as they like: events, calls of gRPC and
//! WebSockets are.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use super::{
    frame_heads::{FRAME_HEAD, FrameHeads, Step},
    unfit::Unseen,
};
use crate::{Limits, write_through::write_through};

const PREFACE: usize = 24;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// A stream of frames that notes since when a head is under way.
pub(super) struct Watched<S> {
    inner: S,
    frames: Frames,
    head: HeadSince,
    unseen: Unseen,
}

/// Since when a head, or a trailer block, has begun and not ended.
type HeadSince = Arc<Mutex<Option<Instant>>>;

/// Looks at the clock for one connection.
pub(super) struct Overdue {
    head: HeadSince,
    head_time: Duration,
    idle_time: Duration,
    /// Since when no stream is open.
    idle: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

/// What has taken too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    Head,
    Request,
}

/// The heads and trailer blocks of a stream of frames.
struct Frames {
    heads: FrameHeads,
    /// A header block is open.
    is_open: bool,
    /// It ends with the current frame.
    ends: bool,
    /// The streams on which heads began since somebody looked.
    begun: Vec<u32>,
}

impl Frames {
    fn new() -> Self {
        Self { heads: FrameHeads::after(PREFACE), is_open: false, ends: false, begun: Vec::new() }
    }

    /// Takes up some bytes; whether they went beyond the head that was open before them.
    fn feed(&mut self, mut bytes: &[u8]) -> bool {
        let mut passed = !self.is_under_way();
        while let Some(step) = self.heads.step(&mut bytes) {
            if let Step::Head(head) = step {
                self.begin_frame(head);
            }
            if self.heads.of_payload() == 0 && self.ends {
                (self.is_open, self.ends) = (false, false);
            }
            passed |= !self.is_under_way();
        }
        passed
    }

    fn begin_frame(&mut self, [_, _, _, kind, flags, stream @ ..]: [u8; FRAME_HEAD]) {
        if kind == HEADERS {
            self.begun.push(u32::from_be_bytes(stream) & !(1 << 31));
        }
        if matches!(kind, HEADERS | CONTINUATION) {
            (self.is_open, self.ends) = (true, flags & END_HEADERS != 0);
        }
    }

    /// Of a frame that has not told its kind it may be the kind.
    fn is_under_way(&self) -> bool {
        self.is_open || self.heads.of_head() > 0
    }
}

impl<S> Watched<S> {
    pub(super) fn new(inner: S, limits: &Limits, unseen: Unseen) -> (Self, Overdue) {
        let head = HeadSince::default();
        let overdue = Overdue {
            head: Arc::clone(&head),
            head_time: limits.head_time,
            idle_time: limits.idle_time,
            idle: None,
            timer: Box::pin(sleep(limits.idle_time)),
        };
        (Self { inner, frames: Frames::new(), head, unseen }, overdue)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, into));
        let passed = self.frames.feed(&into.filled()[before..]);
        let this = &mut *self;
        this.frames.begun.drain(..).for_each(|stream| this.unseen.opened(stream));
        let mut since = self.head.lock();
        if !self.frames.is_under_way() {
            *since = None;
        } else if passed || since.is_none() {
            *since = Some(Instant::now());
        }
        drop(since);
        Poll::Ready(read)
    }
}

write_through!(Watched<S>);

impl Overdue {
    /// Ready when something has taken too long. To be polled after the connection, which reads.
    pub(super) fn poll_late(&mut self, cx: &mut Context<'_>, has_streams: bool) -> Poll<Late> {
        self.idle = if has_streams { None } else { self.idle.or_else(|| Some(Instant::now())) };
        let head = self.head.lock().map(|since| since + self.head_time);
        let idle = self.idle.map(|since| since + self.idle_time);
        loop {
            let now = Instant::now();
            if head.is_some_and(|until| until <= now) {
                return Poll::Ready(Late::Head);
            }
            if idle.is_some_and(|until| until <= now) {
                return Poll::Ready(Late::Request);
            }
            let until = head.into_iter().chain(idle).min().unwrap_or(now + self.idle_time);
            // One that is due sooner is moved on only then.
            if self.timer.deadline() > until || self.timer.deadline() <= now {
                self.timer.as_mut().reset(until);
            }
            ready!(self.timer.as_mut().poll(cx));
        }
    }

    /// From here on a connection without streams has so long to end.
    pub(super) fn hurry(&mut self, time: Duration) {
        (self.idle, self.idle_time) = (None, time);
    }
}

/// Whether a head is under way after these pieces of a client's HTTP/2 connection, its preface among them.
pub fn is_head_under_way<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut frames = Frames::new();
    for piece in pieces {
        frames.feed(piece);
        frames.begun.clear();
    }
    frames.is_under_way()
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, 1][..], payload].concat()
    }

    fn after(pieces: &[&[u8]]) -> bool {
        let preface: &[u8] = &[0; PREFACE];
        is_head_under_way(iter::once(preface).chain(pieces.iter().copied()))
    }

    #[test]
    fn a_head_is_under_way_from_its_first_byte_to_its_last() {
        let (settings, data) = (frame(4, 0, &[0; 6]), frame(0, 0, &[0; 40]));
        let whole = frame(HEADERS, END_HEADERS, &[7; 5]);
        let (first, last) = (frame(HEADERS, 0, &[7; 5]), frame(CONTINUATION, END_HEADERS, &[]));
        for (bytes, expected) in [
            (settings.clone(), false),
            (settings[..12].to_vec(), false),
            (data[..20].to_vec(), false),
            (whole.clone(), false),
            (whole[..13].to_vec(), true),
            (whole[..2].to_vec(), true),
            (first.clone(), true),
            ([&first[..], &frame(CONTINUATION, 0, &[1])].concat(), true),
            ([&first[..], &last, &data].concat(), false),
        ] {
            assert_eq!(after(&[&bytes]), expected, "{bytes:?}");
            let single: Vec<_> = bytes.chunks(1).collect();
            assert_eq!(after(&single), expected, "{bytes:?} one by one");
        }
    }

    #[test]
    fn the_next_head_has_a_time_of_its_own() {
        let whole = frame(HEADERS, END_HEADERS, &[7; 5]);
        let mut frames = Frames::new();
        frames.feed(&[0; PREFACE]);
        assert!(frames.feed(&whole[..4]) && !frames.feed(&whole[4..8]));
        assert!(frames.feed(&[&whole[8..], &whole[..4]].concat()));
    }
}
