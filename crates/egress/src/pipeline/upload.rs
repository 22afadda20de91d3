//! A request's body on its way to a destination that speaks HTTP/1.1, where what nobody reads of it is taken for the next
//! request.
//!
//! Whoever writes a body chooses its bytes, and some servers answer without reading it. What they leave is a request to them
//! that no rule, no person and no entry has seen, or the beginning of one that the next request's head completes. So
//!
//! - a body with a method that has no use for one goes with `Connection: close`: behind such a request a server takes no
//!   other from its connection (RFC 9112, section 9.6);
//! - a connection whose answer comes before the body's end, or refuses a body, is not used again, and what a refusal or the
//!   answer's end finds unsent is not sent;
//! - where the client waits to be asked for the body (`Expect`), the destination is not given it unasked: some take their
//!   final answer for the end of such a request.
//!
//! What remains is a server that says yes to a POST, PUT or PATCH and leaves its body unread (SECURITY.md).
//! Source: reference/egress.md (c) 20 and 23.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};

use super::body::BoxError;

/// How long a body waits to be asked for, as with curl: a server may not know `Expect` (RFC 9110, section 10.1.1).
const UNASKED: Duration = Duration::from_secs(1);

/// A body that tells how far it has come.
pub(super) struct Upload<B> {
    inner: B,
    /// How much of it is to come, where that is known: nobody asks for the end of it then.
    left: Option<u64>,
    progress: Progress,
    unasked: Option<Pin<Box<Sleep>>>,
}

/// How far a request's body has come, for whoever has its answer.
#[derive(Clone)]
pub(super) struct Progress {
    shared: Arc<Mutex<Shared>>,
    /// The method has a use for a body.
    is_usual: bool,
}

struct Shared {
    stage: Stage,
    /// Of who waits to be asked.
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// To be sent once the destination asks for it.
    Awaited,
    /// All of it was given to the connection.
    Over,
    /// Nothing more of it is given.
    Stopped,
    UnderWay,
}

impl<B: Body<Data = Bytes>> Upload<B> {
    /// Watches over the body of a request that is about to be sent over HTTP/1.1.
    pub(super) fn of(request: Request<B>) -> (Request<Self>, Progress) {
        let (mut parts, inner) = request.into_parts();
        let is_usual = has_use_for_body(&parts.method);
        if !is_usual {
            // In one word: some servers look for no other beside it.
            parts.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            parts.headers.remove(header::TE);
        }
        let stage = if waits(&parts.headers) { Stage::Awaited } else { Stage::UnderWay };
        let shared = Arc::new(Mutex::new(Shared { stage, waker: None }));
        let progress = Progress { shared, is_usual };
        let left = inner.size_hint().exact();
        let body = Self { inner, left, progress: progress.clone(), unasked: None };
        (Request::from_parts(parts, body), progress)
    }

    fn has_ended(&mut self, frame: &Frame<Bytes>) -> bool {
        if let (Some(left), Some(data)) = (&mut self.left, frame.data_ref()) {
            *left = left.saturating_sub(data.len() as u64);
        }
        self.left == Some(0) || frame.is_trailers() || self.inner.is_end_stream()
    }
}

impl Progress {
    /// The destination asks for the body.
    pub(super) fn asked(&self) {
        self.step(Stage::Awaited, Stage::UnderWay);
    }

    /// Whether the connection is good for another request after an answer with this head, which has just come.
    pub(super) fn answered(&self, status: StatusCode) -> bool {
        let mut shared = self.shared.lock();
        match shared.stage {
            Stage::Over => self.is_usual && !refuses_body(status),
            // Both may speak at once; the rest is cut off with the connection, when the answer is over.
            Stage::UnderWay if self.is_usual && status.is_success() => false,
            _ => {
                shared.stage = Stage::Stopped;
                false
            }
        }
    }

    fn step(&self, from: Stage, to: Stage) {
        let mut shared = self.shared.lock();
        if shared.stage == from {
            shared.stage = to;
        }
        if let Some(waker) = shared.waker.take() {
            waker.wake();
        }
    }

    fn stage(&self, cx: &Context<'_>) -> Stage {
        let mut shared = self.shared.lock();
        if shared.stage == Stage::Awaited {
            shared.waker = Some(cx.waker().clone());
        }
        shared.stage
    }
}

/// Where a body has a meaning; with others, servers seldom look whether there is one (RFC 9110, section 9.3).
pub(super) fn has_use_for_body(method: &Method) -> bool {
    matches!(*method, Method::PATCH | Method::POST | Method::PUT)
}

/// Answers that a server may give by a request's head alone.
fn refuses_body(status: StatusCode) -> bool {
    let asks_elsewhere =
        matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    status.is_client_error() || status.is_server_error() || asks_elsewhere
}

fn waits(headers: &HeaderMap) -> bool {
    let expected = headers.get(header::EXPECT);
    expected.is_some_and(|expected| expected.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

impl<B> Body for Upload<B>
where
    B: Body<Data = Bytes, Error = BoxError> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.progress.stage(cx) {
            // Whoever reads the answer ends this with the connection.
            Stage::Stopped => return Poll::Pending,
            Stage::Awaited => {
                let unasked = self.unasked.get_or_insert_with(|| Box::pin(sleep(UNASKED)));
                ready!(unasked.as_mut().poll(cx));
                self.progress.asked();
            }
            Stage::Over | Stage::UnderWay => {}
        }
        let next = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        let has_ended = match &next {
            None => true,
            Some(Ok(frame)) => self.has_ended(frame),
            Some(Err(_)) => false,
        };
        if has_ended {
            self.progress.step(Stage::UnderWay, Stage::Over);
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::poll;
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    fn upload(
        method: &Method,
        expects: bool,
    ) -> (Request<impl Body<Data = Bytes, Error = BoxError> + Unpin>, Progress) {
        let mut request = Request::new(
            Full::from("body").map_err(|never: Infallible| -> BoxError { match never {} }),
        );
        *request.method_mut() = method.clone();
        for (name, value) in [(header::TE, "trailers"), (header::CONNECTION, "te")] {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        if expects {
            let value = HeaderValue::from_static("100-Continue");
            request.headers_mut().insert(header::EXPECT, value);
        }
        Upload::of(request)
    }

    #[tokio::test]
    async fn a_connection_is_kept_after_a_body_that_was_wanted_whole() {
        for (method, status, sends, is_kept) in [
            (Method::POST, 200, true, true),
            (Method::PUT, 302, true, true),
            (Method::POST, 200, false, false),
            (Method::POST, 401, true, false),
            (Method::PATCH, 503, true, false),
            (Method::POST, 307, true, false),
            (Method::GET, 200, true, false),
            (Method::DELETE, 204, true, false),
            (Method::OPTIONS, 200, false, false),
        ] {
            let (request, progress) = upload(&method, false);
            let said = &request.headers()[header::CONNECTION];
            let welcomes_trailers = request.headers().contains_key(header::TE);
            let expected = if has_use_for_body(&method) { ("te", true) } else { ("close", false) };
            assert_eq!((said.to_str().unwrap(), welcomes_trailers), expected, "{method}");
            let mut body = request.into_body();
            if sends {
                assert!(body.frame().await.is_some());
            }
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(progress.answered(status), is_kept, "{method} {status} {sends}");
            // What both may say at once goes on.
            let goes_on = !sends && method == Method::POST;
            if !sends {
                assert_eq!(poll!(body.frame()).is_ready(), goes_on, "{method}");
            }
        }
    }

    #[tokio::test]
    async fn a_body_that_is_to_be_asked_for_waits_for_that() {
        for asks in [true, false] {
            let (request, progress) = upload(&Method::POST, true);
            let mut body = request.into_body();
            assert!(poll!(body.frame()).is_pending());
            if asks {
                progress.asked();
                assert!(poll!(body.frame()).is_ready());
            } else {
                assert!(body.frame().await.is_some(), "it does not wait for ever");
            }
            assert!(progress.answered(StatusCode::OK));
        }
        let (request, progress) = upload(&Method::POST, true);
        let mut body = request.into_body();
        assert!(!progress.answered(StatusCode::OK), "nobody asked for it");
        progress.asked();
        assert!(poll!(body.frame()).is_pending());
    }
}
