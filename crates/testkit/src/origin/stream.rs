//! Bodies that take their time or their size: events, chosen chunks, large, slow in both directions.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::{
    HeaderValue, Request, StatusCode,
    header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::{sync::Notify, time::sleep};

use super::{
    echo,
    handler::{Reply, ReplyBody, RequestBody, reply},
};

/// Sends `count` server-sent events that repeat [`echo::text_of`] the request, `pause` ms apart.
pub async fn events(request: Request<RequestBody>, count: u64, pause: u64) -> Reply {
    let (parts, body) = request.into_parts();
    let _ = body.collect().await;
    let text = echo::text_of(&parts);
    let events = stream::unfold(0, move |index| {
        let event = format!("id: {index}\ndata: {text}\n\n");
        async move {
            if index == count {
                return None;
            }
            if index > 0 {
                sleep(Duration::from_millis(pause)).await;
            }
            Some((Bytes::from(event), index + 1))
        }
    });
    let mut reply = Reply::new(streamed(events));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply
}

/// Sends the request's head and body in frames of these sizes, in rotation; one frame when empty.
///
/// On HTTP/1.1 every frame is one chunk of the chunked coding.
pub async fn chunks(request: Request<RequestBody>, sizes: &[usize]) -> Reply {
    let mut rest = echo::whole(request).await;
    let mut sizes = sizes.iter().copied().cycle();
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let size = sizes.next().unwrap_or(rest.len()).min(rest.len());
        frames.push(rest.split_to(size));
    }
    Reply::new(streamed(stream::iter(frames)))
}

/// Sends `length` bytes with a Content-Length, as fast as the client reads, in constant memory.
pub fn download(length: u64) -> Reply {
    let frames = stream::unfold(length, |left| async move {
        let size = left.min(FILL.len() as u64);
        (size > 0).then(|| (fill(size), left - size))
    });
    sized(frames, length)
}

/// Sends `length` bytes with a Content-Length, `chunk` at a time, `pause` ms apart.
pub fn drip(length: u64, chunk: u64, pause: u64) -> Reply {
    let frames = stream::unfold(length, move |left| async move {
        let size = left.min(chunk.clamp(1, FILL.len() as u64));
        if size == 0 {
            return None;
        }
        sleep(Duration::from_millis(pause)).await;
        Some((fill(size), left - size))
    });
    sized(frames, length)
}

/// Sends `first`, and `rest` once `go_on` was told.
pub fn in_two(first: Bytes, rest: Bytes, go_on: Arc<Notify>) -> Reply {
    let first = stream::once(async { first });
    let rest = stream::once(async move {
        go_on.notified().await;
        rest
    });
    Reply::new(streamed(first.chain(rest)))
}

/// Reads the body to its end, `pause` ms after each frame, and tells how many bytes it had.
pub async fn sink(request: Request<RequestBody>, pause: u64) -> Reply {
    let mut body = request.into_body();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return reply(StatusCode::BAD_REQUEST, "the body broke off\n");
        };
        length += frame.data_ref().map_or(0, Bytes::len);
        if pause > 0 {
            sleep(Duration::from_millis(pause)).await;
        }
    }
    reply(StatusCode::OK, format!("{length}\n"))
}

static FILL: [u8; 64 << 10] = [b'.'; 64 << 10];

fn fill(size: u64) -> Bytes {
    let size = usize::try_from(size).expect("at most the length of FILL");
    Bytes::from_static(&FILL[..size])
}

fn sized(frames: impl Stream<Item = Bytes> + Send + 'static, length: u64) -> Reply {
    let mut reply = Reply::new(streamed(frames));
    reply.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    reply
}

/// Makes a body of frames that come when they come.
pub fn streamed(frames: impl Stream<Item = Bytes> + Send + 'static) -> ReplyBody {
    let frames = frames.map(|bytes| Ok::<_, io::Error>(Frame::data(bytes)));
    StreamBody::new(frames).boxed_unsync()
}
