//! The trailers of a request. Nothing is put in there, since no secret has them among its locations, and a placeholder in
//! them is refused with the reason, as it is in a header's name.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use keyless_core::Error;

use super::{find::contains, head::misplaced, table::SwapTable};
use crate::passage::PassageError;

/// A body whose trailers are looked through.
pub(crate) struct WatchedTrailers<B> {
    inner: B,
    /// None toward a host that no secret names: placeholders are worth nothing there.
    table: Option<Arc<SwapTable>>,
}

impl<B> WatchedTrailers<B> {
    pub(super) fn new(inner: B, table: Option<Arc<SwapTable>>) -> Self {
        Self { inner, table }
    }

    fn check(&self, trailers: &HeaderMap) -> Result<(), Error> {
        let Some(table) = &self.table else { return Ok(()) };
        let has_one = trailers.iter().any(|(name, value)| {
            contains(table.folded(), name.as_str().as_bytes())
                || contains(table.patterns(), value.as_bytes())
        });
        if has_one {
            return Err(misplaced("a trailer, where nothing is swapped; send it as a header"));
        }
        Ok(())
    }
}

impl<B, E> Body for WatchedTrailers<B>
where
    B: Body<Data = Bytes, Error = PassageError<E>> + Unpin,
{
    type Data = Bytes;
    type Error = PassageError<E>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, PassageError<E>>>> {
        let next = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(Ok(frame)) = &next
            && let Some(trailers) = frame.trailers_ref()
            && let Err(error) = self.check(trailers)
        {
            return Poll::Ready(Some(Err(PassageError::Refused(error))));
        }
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
