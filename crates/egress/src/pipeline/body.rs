//! A body that is watched: what ends it early is remembered and logged, and a panic in it ends
//! this body alone, not the other streams of its connection.

use std::{
    error::Error as StdError,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use keyless_core::{Code, Error};

use crate::pool::Connection;

/// What hyper takes as a body's error.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// Where a body leaves the refusal that ended it.
#[derive(Clone, Default)]
pub(super) struct Verdict(Arc<OnceLock<Error>>);

/// A watched body.
pub(super) struct Watched<B> {
    inner: B,
    verdict: Verdict,
    on_refusal: Box<dyn Fn(&Error) + Send>,
    /// What the body comes over: as a rule back in the pool before the client sees the end, so
    /// that its next request finds it there. Dropped after `inner`, which it must outlive.
    source: Option<Connection>,
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
    /// Watches `inner`; `on_refusal` is told of a refusal once, when it is found.
    pub(super) fn new(
        inner: B,
        verdict: Verdict,
        on_refusal: impl Fn(&Error) + Send + 'static,
    ) -> Self {
        Self { inner, verdict, on_refusal: Box::new(on_refusal), source: None }
    }

    /// Keeps the connection that the body comes over until the body is done.
    pub(super) fn over(self, source: Option<Connection>) -> Self {
        Self { source, ..self }
    }

    fn refused(&self, error: Error) {
        (self.on_refusal)(&error);
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
        let inner = &mut self.inner;
        match catch_unwind(AssertUnwindSafe(|| Pin::new(inner).poll_frame(cx))) {
            Ok(Poll::Ready(Some(Err(error)))) => {
                let error: BoxError = error.into();
                if let Some(refusal) = find_refusal(&*error) {
                    self.refused(refusal);
                }
                Poll::Ready(Some(Err(error)))
            }
            Ok(Poll::Ready(None)) => {
                drop(self.source.take());
                Poll::Ready(None)
            }
            Ok(Poll::Ready(frame)) => Poll::Ready(frame.map(|frame| frame.map_err(Into::into))),
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

/// The refusal somewhere among the causes of an error.
fn find_refusal(error: &(dyn StdError + 'static)) -> Option<Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref::<Error>() {
            return Some(refusal.clone());
        }
        // An `io::Error` does not count what it carries among its causes.
        let carried = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(refusal) = carried.and_then(|carried| find_refusal(carried)) {
            return Some(refusal);
        }
        cause = error.source();
    }
    None
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
        let body = Watched::new(Panics, verdict.clone(), |_| {});
        assert!(body.collect().await.is_err());
        assert_eq!(verdict.refusal().unwrap().code(), Code::Internal);
    }

    #[test]
    fn a_refusal_is_found_inside_an_io_error() {
        let inner = io::Error::other(Error::new(Code::BadRequest));
        let outer = io::Error::other(inner);
        assert_eq!(find_refusal(&outer).unwrap().code(), Code::BadRequest);
        assert!(find_refusal(&io::Error::other("else")).is_none());
    }
}
