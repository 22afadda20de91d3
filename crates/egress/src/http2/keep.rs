//! A body as it is sent, kept for as long as its destination may still say that it did nothing with it.
//!
//! What is kept is the bytes themselves, not a copy: there may be values among them.

use std::{
    collections::VecDeque,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;

use super::Outgoing;

/// A body of which more than this is gone is not sent again.
const MOST: usize = 64 << 10;

/// What there is of a body that was handed out to be sent.
pub(super) enum Keeper {
    Given(Arc<Mutex<Keep>>),
    /// All of it: there was nothing to hand out.
    Nothing(Outgoing),
}

/// The body that is sent.
struct Sending(Arc<Mutex<Keep>>);

pub(super) struct Keep {
    body: Outgoing,
    /// What it gave; none where nobody will ask for it.
    given: Option<Given>,
}

#[derive(Default)]
struct Given {
    data: VecDeque<Bytes>,
    /// Of all of it.
    bytes: usize,
    trailers: Option<HeaderMap>,
    is_over: bool,
}

/// A body from its beginning again.
struct Again {
    given: Given,
    rest: Outgoing,
}

type Polled = Poll<Option<Result<Frame<Bytes>, <Outgoing as Body>::Error>>>;

/// Gives a body to be sent, if there is one, and keeps what it gives.
pub(super) fn keep(body: Outgoing) -> (Option<Outgoing>, Keeper) {
    if body.is_end_stream() {
        return (None, Keeper::Nothing(body));
    }
    let keep = Arc::new(Mutex::new(Keep { body, given: Some(Given::default()) }));
    (Some(Sending(Arc::clone(&keep)).boxed_unsync()), Keeper::Given(keep))
}

impl Keeper {
    /// The body from its beginning, if all of it can be had. Nothing more is given to whoever was sending it.
    pub(super) fn take(self) -> Option<Outgoing> {
        let keep = match self {
            Self::Given(keep) => keep,
            Self::Nothing(body) => return Some(body),
        };
        let mut keep = keep.lock();
        let given = keep.given.take()?;
        let rest = mem::take(&mut keep.body);
        Some(Again { given, rest }.boxed_unsync())
    }

    /// Keeps nothing more: the destination has it.
    pub(super) fn let_go(self) {
        if let Self::Given(keep) = self {
            keep.lock().given = None;
        }
    }
}

impl Keep {
    fn remember(&mut self, frame: &Frame<Bytes>) {
        let Some(given) = &mut self.given else { return };
        match frame.data_ref() {
            // Of frames with nothing in them there may be any number.
            Some(data) if data.is_empty() => {}
            Some(data) => {
                given.bytes += data.len();
                given.data.push_back(data.clone());
            }
            None => given.trailers = frame.trailers_ref().cloned(),
        }
        if given.bytes > MOST {
            self.given = None;
        }
    }
}

impl Body for Sending {
    type Data = Bytes;
    type Error = <Outgoing as Body>::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        let mut keep = self.0.lock();
        let next = ready!(Pin::new(&mut keep.body).poll_frame(cx));
        match &next {
            Some(Ok(frame)) => keep.remember(frame),
            // A body that broke off is not one to send.
            Some(Err(_)) => keep.given = None,
            None => keep.given.iter_mut().for_each(|given| given.is_over = true),
        }
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().body.size_hint()
    }
}

impl Body for Again {
    type Data = Bytes;
    type Error = <Outgoing as Body>::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        if let Some(data) = self.given.data.pop_front() {
            self.given.bytes -= data.len();
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        match self.given.trailers.take() {
            Some(trailers) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            None if self.given.is_over => Poll::Ready(None),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        let Given { data, trailers, is_over, .. } = &self.given;
        data.is_empty() && trailers.is_none() && (*is_over || self.rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let given = self.given.bytes;
        let rest = if self.given.is_over { SizeHint::with_exact(0) } else { self.rest.size_hint() };
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + given as u64);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + given as u64);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::StreamBody;

    use super::*;

    fn body<const N: usize>(parts: [Result<&'static [u8], &'static str>; N]) -> Outgoing {
        let frames = parts.map(|part| match part {
            Ok(data) => Ok(Frame::data(Bytes::from_static(data))),
            Err(error) => Err(error.into()),
        });
        StreamBody::new(stream::iter(frames)).boxed_unsync()
    }

    #[tokio::test]
    async fn what_was_given_comes_again_before_the_rest() {
        let (sending, keeper) = keep(body([Ok(b"one "), Ok(b"two")]));
        let mut sending = sending.unwrap();
        assert!(sending.frame().await.is_some());
        let again = keeper.take().unwrap();
        assert!(sending.frame().await.is_none());
        assert_eq!(again.collect().await.unwrap().to_bytes(), "one two");
    }

    #[tokio::test]
    async fn what_broke_off_or_is_too_long_is_not_sent_again() {
        static LONG: [u8; MOST] = [0; MOST];
        for second in [Err("broken"), Ok(&LONG[..])] {
            let (sending, keeper) = keep(body([Ok(b"one"), second]));
            let mut sending = sending.unwrap();
            while sending.frame().await.is_some() {}
            assert!(keeper.take().is_none());
        }
    }

    #[tokio::test]
    async fn frames_without_data_are_not_kept() {
        let (sending, keeper) = keep(body([Ok(b""), Ok(b"one"), Ok(b"")]));
        let mut sending = sending.unwrap();
        while sending.frame().await.is_some() {}
        let Keeper::Given(keep) = keeper else { panic!("it has data") };
        assert_eq!(
            keep.lock().given.as_ref().map(|given| (given.data.len(), given.bytes)),
            Some((1, 3))
        );
    }
}
