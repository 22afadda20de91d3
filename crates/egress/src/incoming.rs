//! A body as it comes in, over either version of HTTP.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::http2;

/// The body of a client's request, or of a destination's answer.
pub(crate) enum Incoming {
    Http1(hyper::body::Incoming),
    Http2(http2::Incoming),
}

/// Why a body did not arrive whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IncomingError {
    #[error("the body over HTTP/1 broke off")]
    Http1(#[source] hyper::Error),
    #[error("the body over HTTP/2 broke off")]
    Http2(#[source] h2::Error),
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = IncomingError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, IncomingError>>> {
        match &mut *self {
            Self::Http1(body) => {
                let polled = Pin::new(body).poll_frame(cx);
                polled.map(|frame| frame.map(|frame| frame.map_err(IncomingError::Http1)))
            }
            Self::Http2(body) => {
                let polled = Pin::new(body).poll_frame(cx);
                polled.map(|frame| frame.map(|frame| frame.map_err(IncomingError::Http2)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(body) => body.size_hint(),
            Self::Http2(body) => body.size_hint(),
        }
    }
}
