//! The bytes of a CONNECT over one stream (RFC 8441): the request's body one way, the answer's the other.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use h2::Reason;
use http_body::{Body, Frame};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};

use crate::incoming::{Incoming, IncomingError};

/// What waits for a slow reader, apart from what its stream holds.
const BUFFER: usize = 16 << 10;

/// The server's end.
pub(crate) struct Tunnel {
    from_client: Incoming,
    /// What was read and not yet taken.
    left: Bytes,
    to_client: DuplexStream,
}

/// What is written into a tunnel, as an answer's body.
pub(crate) struct TunnelBody {
    written: DuplexStream,
    buffer: Box<[u8]>,
}

/// Makes a tunnel of a request's body, and the body to answer with.
pub(crate) fn tunnel(from_client: Incoming) -> (Tunnel, TunnelBody) {
    let (to_client, written) = duplex(BUFFER);
    let buffer = vec![0; BUFFER].into_boxed_slice();
    (Tunnel { from_client, left: Bytes::new(), to_client }, TunnelBody { written, buffer })
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.left.is_empty() {
            match ready!(Pin::new(&mut self.from_client).poll_frame(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(Ok(frame)) => self.left = frame.into_data().unwrap_or_default(),
                Some(Err(error)) if is_cancel(&error) => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            }
        }
        let count = into.remaining().min(self.left.len());
        into.put_slice(&self.left[..count]);
        self.left.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.to_client).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to_client).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to_client).poll_shutdown(cx)
    }
}

impl Body for TunnelBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Self { written, buffer } = &mut *self;
        let mut read = ReadBuf::new(buffer);
        ready!(Pin::new(written).poll_read(cx, &mut read))?;
        let data = Some(read.filled()).filter(|data| !data.is_empty());
        Poll::Ready(data.map(|data| Ok(Frame::data(Bytes::copy_from_slice(data)))))
    }
}

/// Whether the client has just gone. Some say so without a fault, as Node does.
fn is_cancel(error: &IncomingError) -> bool {
    let IncomingError::Http2(error) = error else { return false };
    matches!(error.reason(), Some(Reason::CANCEL | Reason::NO_ERROR))
}
