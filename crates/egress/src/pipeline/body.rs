//! A body that is watched: what ends it early is remembered and logged, and a panic in it ends
//! this body alone, not the other streams of its connection.

use std::{
    error::Error as StdError,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use keyless_core::{Code, Error};

use super::{hold::Hold, hop};
use crate::{
    account::{Account, Way},
    pool::Connection,
    refusal,
};

/// What hyper takes as a body's error.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// Where a body leaves the refusal that ended it.
#[derive(Clone, Default)]
pub(super) struct Verdict(Arc<OnceLock<Error>>);

/// A watched body.
pub(super) struct Watched<B> {
    inner: B,
    verdict: Verdict,
    /// What an end too early is, where nothing was refused.
    broke_off: Option<Code>,
    /// What the body comes over: as a rule back in the pool before the client sees the end, so
    /// that its next request finds it there. Dropped after `inner`, which it must outlive.
    source: Option<Connection>,
    hold: Option<Hold>,
    account: Option<(Arc<Account>, Way)>,
    ahead: Ahead,
}

/// What a body gives, or that it is over.
type Given = Option<Result<Frame<Bytes>, BoxError>>;

/// How far the beginning of a body has come.
enum Ahead {
    /// It has begun, or how it begins is of no matter.
    Gone,
    /// It was looked at, and is still to be given.
    Seen(Given),
    /// Nothing was given yet, and its head may still wait for it.
    Unseen,
}

/// The body of an answer that has none: over before it begins, with the length that a GET's would
/// have. Waiting for the upstream's end instead would send an empty frame after the head.
pub(super) struct Nothing(pub(super) SizeHint);

impl Verdict {
    /// The refusal that ended the body, if one did.
    pub(super) fn refusal(&self) -> Option<Error> {
        self.0.get().cloned()
    }
}

impl<B> Watched<B> {
    /// Watches `inner`, and leaves in `verdict` what it was refused for.
    pub(super) fn new(inner: B, verdict: Verdict) -> Self {
        let ahead = Ahead::Gone;
        Self { inner, verdict, broke_off: None, source: None, hold: None, account: None, ahead }
    }

    /// Keeps the connection that the body comes over until the body is done.
    pub(super) fn over(self, source: Option<Connection>) -> Self {
        Self { source, ..self }
    }

    /// Ends an answer's body when what it stands on is withdrawn.
    pub(super) fn held_by(self, hold: Hold) -> Self {
        let account = Some((Arc::clone(hold.account()), Way::Received));
        Self { hold: Some(hold), account, ahead: Ahead::Unseen, ..self }
    }

    /// A request's body: counted as sent, and where it breaks off, that is its sender's doing and
    /// not the destination's.
    pub(super) fn of_request(self, account: &Arc<Account>) -> Self {
        let account = Some((Arc::clone(account), Way::Sent));
        Self { account, broke_off: Some(Code::BadRequest), ..self }
    }

    fn pass(&self, frame: &Frame<Bytes>) -> Result<(), Error> {
        match (&self.account, frame.data_ref()) {
            (Some((account, way)), Some(data)) => account.pass(*way, data.len()),
            _ => Ok(()),
        }
    }

    fn poll_withdrawn(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        match &mut self.hold {
            Some(hold) => hold.poll_withdrawn(cx),
            None => Poll::Pending,
        }
    }

    fn refused(&self, error: Error) {
        if let Some((account, _)) = &self.account {
            account.refused(&error);
        }
        let _ = self.verdict.0.set(error);
    }
}

impl<B> Watched<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    /// Looks at the body's beginning before its head leaves: where that is what ends it, there can still be an answer.
    pub(super) fn poll_begin(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.poll_next(cx).map(|given| {
            let given = match given {
                Some(Err(error)) => return Err(error),
                given => given,
            };
            self.ahead = Ahead::Seen(given);
            Ok(())
        })
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Given> {
        if let Poll::Ready(error) = self.poll_withdrawn(cx) {
            self.refused(error.clone());
            (self.hold, self.account) = (None, None);
            return Poll::Ready(Some(Err(Box::new(error))));
        }
        let inner = &mut self.inner;
        match catch_unwind(AssertUnwindSafe(|| Pin::new(inner).poll_frame(cx))) {
            Ok(Poll::Ready(Some(Err(error)))) => {
                let error: BoxError = error.into();
                let broke_off = |code| Error::with(code, "the body did not arrive whole".into());
                let refusal = refusal::find(&*error).or_else(|| self.broke_off.map(broke_off));
                if let Some(refusal) = refusal {
                    self.refused(refusal);
                }
                Poll::Ready(Some(Err(error)))
            }
            Ok(Poll::Ready(None)) => {
                drop(self.source.take());
                (self.hold, self.account) = (None, None);
                Poll::Ready(None)
            }
            Ok(Poll::Ready(Some(Ok(frame)))) => Poll::Ready(Some(match self.pass(&frame) {
                Ok(()) => Ok(without_fields_of_heads(frame)),
                Err(error) => {
                    self.refused(error.clone());
                    Err(Box::new(error))
                }
            })),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => {
                let error = Error::with(Code::Internal, "a body's handling panicked".into());
                self.refused(error.clone());
                Poll::Ready(Some(Err(Box::new(error))))
            }
        }
    }
}

/// Neither way do trailers say what only a head may.
fn without_fields_of_heads(frame: Frame<Bytes>) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(mut trailers) => {
            hop::strip_trailers(&mut trailers);
            Frame::trailers(trailers)
        }
        Err(frame) => frame,
    }
}

impl<B> Body for Watched<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Given> {
        match std::mem::replace(&mut self.ahead, Ahead::Gone) {
            Ahead::Seen(given) => return Poll::Ready(given),
            Ahead::Gone => return self.poll_next(cx),
            Ahead::Unseen => {}
        }
        let polled = self.poll_next(cx);
        if let Poll::Ready(failed @ Some(Err(_))) = polled {
            // A head is sent with the first bytes of its body, or once there are none. One whose body fails first would be
            // lost with it.
            self.ahead = Ahead::Seen(failed);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.ahead {
            Ahead::Seen(given) => given.is_none(),
            Ahead::Gone | Ahead::Unseen => self.inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.inner.size_hint();
        let seen = match &self.ahead {
            Ahead::Seen(Some(Ok(frame))) => frame.data_ref().map_or(0, Bytes::len) as u64,
            _ => 0,
        };
        match hint.exact() {
            Some(rest) => hint = SizeHint::with_exact(rest + seen),
            None => hint.set_lower(hint.lower() + seen),
        }
        hint
    }
}

impl Body for Nothing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }

    fn size_hint(&self) -> SizeHint {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;
    use http_body_util::BodyExt as _;

    use super::*;

    struct Panics;

    impl Body for Panics {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            panic!("on purpose");
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_this_body() {
        let verdict = Verdict::default();
        let body = Watched::new(Panics, verdict.clone());
        assert!(body.collect().await.is_err());
        assert_eq!(verdict.refusal().unwrap().code(), Code::Internal);
    }

    /// What sends it has its head out by then.
    #[tokio::test]
    async fn an_answer_that_fails_first_lets_its_head_go_before() {
        let ahead = Ahead::Unseen;
        let mut body = Watched { ahead, ..Watched::new(Panics, Verdict::default()) };
        let mut frame = pin!(body.frame());
        assert!(poll!(frame.as_mut()).is_pending());
        assert!(frame.await.is_some_and(|frame| frame.is_err()));
    }
}
