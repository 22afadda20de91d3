//! Servers that close a connection without TLS's own goodbye, as many do.
//!
//! A length or chunks tell an answer's end by themselves, and what is less than they say is cut off whatever the
//! connection says. Only an answer that tells no length ends with its connection; without a goodbye it is over all the
//! same, as it is for curl, Node and Python. To refuse it would cost its end what is held back for the scrub.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

use crate::write_through::write_through;

/// A stream over TLS whose end is an end, however it came.
pub(super) struct Ragged<S> {
    inner: S,
}

impl<S> Ragged<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Ragged<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.inner).poll_read(cx, buf)) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            read => Poll::Ready(read),
        }
    }
}

write_through!(Ragged<S>);
