//! A body on its way into a stream, as fast as the other side takes it.

use std::{
    error::Error as StdError,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::{Body as _, Frame};

use super::Outgoing;

type BoxError = Box<dyn StdError + Send + Sync>;

/// Sends a body to its end. One that breaks off resets the stream, and so does dropping this.
pub(super) async fn send(mut body: Outgoing, mut to: SendStream<Bytes>) {
    while let Some(next) = next_frame(&mut body, &mut to).await {
        let sent = match next {
            None => to.send_data(Bytes::new(), true).map(|()| true),
            Some(Err(error)) => return to.send_reset(reason_of(&*error)),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    let ends = body.is_end_stream();
                    if !data.is_empty() && !has_room(&mut to).await {
                        return;
                    }
                    to.send_data(data, ends).map(|()| ends)
                }
                Err(frame) => send_trailers(frame, &mut to),
            },
        };
        match sent {
            Ok(true) => return,
            Ok(false) => {}
            Err(_) => return to.send_reset(Reason::INTERNAL_ERROR),
        }
    }
}

/// What the body gives next; nothing once the other side does not want it any more. Room is asked for
/// only when there is something to send: it is taken from what all streams share.
async fn next_frame(
    body: &mut Outgoing,
    to: &mut SendStream<Bytes>,
) -> Option<Option<Result<Frame<Bytes>, BoxError>>> {
    poll_fn(|cx| match to.poll_reset(cx) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => Pin::new(&mut *body).poll_frame(cx).map(Some),
    })
    .await
}

/// Waits for room for at least one byte; `h2` keeps the others until there is room for them too.
async fn has_room(to: &mut SendStream<Bytes>) -> bool {
    to.reserve_capacity(1);
    while to.capacity() == 0 {
        let next = |cx: &mut Context<'_>| match to.poll_reset(cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => to.poll_capacity(cx),
        };
        if !matches!(poll_fn(next).await, Some(Ok(_))) {
            return false;
        }
    }
    true
}

/// Whether the body ends with this frame, which is none of its data.
fn send_trailers(frame: Frame<Bytes>, to: &mut SendStream<Bytes>) -> Result<bool, h2::Error> {
    let Ok(trailers) = frame.into_trailers() else { return Ok(false) };
    to.reserve_capacity(0);
    to.send_trailers(trailers).map(|()| true)
}

/// Why a stream is reset whose body broke off: what the other stream was reset for, if that is why. Where that was no
/// fault it is one here, since some take a body for whole that ends so.
fn reason_of(error: &(dyn StdError + 'static)) -> Reason {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(reason) = error.downcast_ref::<h2::Error>().and_then(h2::Error::reason) {
            return if reason == Reason::NO_ERROR { Reason::INTERNAL_ERROR } else { reason };
        }
        cause = error.source();
    }
    Reason::INTERNAL_ERROR
}
