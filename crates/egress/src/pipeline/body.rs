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

use super::hold::Hold;
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
        Self { inner, verdict, broke_off: None, source: None, hold: None, account: None }
    }

    /// Keeps the connection that the body comes over until the body is done.
    pub(super) fn over(self, source: Option<Connection>) -> Self {
        Self { source, ..self }
    }

    /// Ends the body when what it stands on is withdrawn.
    pub(super) fn held_by(self, hold: Hold) -> Self {
        let account = Some((Arc::clone(hold.account()), Way::Received));
        Self { hold: Some(hold), account, ..self }
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

impl<B> Body for Watched<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
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
                Ok(()) => Ok(frame),
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

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
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
}
