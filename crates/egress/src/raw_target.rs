//! A request target as the client has sent it, where that has letters that no `http::Uri` holds.
//!
//! On its way through hyper and the swap such a target is escaped. Over HTTP/1.1, and if nothing has changed it meanwhile,
//! the destination gets it byte for byte: some clients have signed it so.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, uri::PathAndQuery};
use parking_lot::Mutex;
use tokio::io::AsyncWrite;

use crate::write_through::{end_through, read_through};

/// Path and query, once as they came and once escaped: an extension of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawTarget {
    pub(crate) raw: Bytes,
    pub(crate) escaped: Bytes,
}

/// The target of the request that is written next over a connection, if it is to be another than it says.
#[derive(Clone, Default)]
pub(crate) struct NextTarget(Arc<Mutex<Option<RawTarget>>>);

/// A connection to a destination that writes targets as they came.
pub(crate) struct Retargeted<S> {
    inner: S,
    next: NextTarget,
    /// A request line on its way out, and how long the one is that it stands for.
    line: Option<(VecDeque<u8>, usize)>,
}

impl NextTarget {
    /// Notes the target of `request`, which is about to be written.
    pub(crate) fn note<B>(&self, request: &Request<B>) {
        let target = request.uri().path_and_query().map_or("", PathAndQuery::as_str);
        let raw = request.extensions().get::<RawTarget>();
        let raw = raw.filter(|raw| raw.escaped == target.as_bytes()).cloned();
        *self.0.lock() = raw;
    }

    /// What takes the place of the request line that `bytes` begin with, up to its target's end, and that one's length.
    fn take(&self, bytes: &[u8]) -> Option<(VecDeque<u8>, usize)> {
        let RawTarget { raw, escaped } = self.0.lock().take()?;
        let from = bytes.iter().position(|byte| *byte == b' ')? + 1;
        let after = bytes[from..].strip_prefix(&escaped[..])?;
        let line = || [&bytes[..from], &raw].concat().into();
        after.starts_with(b" HTTP/1.1\r\n").then(|| (line(), from + escaped.len()))
    }
}

impl<S> Retargeted<S> {
    pub(crate) fn new(inner: S) -> (Self, NextTarget) {
        let next = NextTarget::default();
        (Self { inner, next: next.clone(), line: None }, next)
    }
}

impl<S: AsyncWrite + Unpin> Retargeted<S> {
    /// Writes another line in place of the one that `bytes` begin with, if there is one: all of it.
    fn poll_line(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<Option<usize>>> {
        if self.line.is_none() {
            self.line = self.next.take(bytes);
        }
        let Some((line, stands_for)) = &mut self.line else { return Poll::Ready(Ok(None)) };
        while !line.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, line.as_slices().0))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            line.drain(..written);
        }
        let length = *stands_for;
        self.line = None;
        Poll::Ready(Ok(Some(length)))
    }
}

read_through!(Retargeted<S>);

impl<S: AsyncWrite + Unpin> AsyncWrite for Retargeted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match ready!(self.poll_line(cx, bytes))? {
            Some(length) => Poll::Ready(Ok(length)),
            None => Pin::new(&mut self.inner).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = slices.iter().find(|slice| !slice.is_empty());
        match ready!(self.poll_line(cx, first.map_or(&[][..], |slice| slice)))? {
            Some(length) => Poll::Ready(Ok(length)),
            None => Pin::new(&mut self.inner).poll_write_vectored(cx, slices),
        }
    }

    end_through!();
}
