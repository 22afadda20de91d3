//! What answers a request: a handler is one async function from a request to a reply.
//!
//! The kinds of reply live in `echo`, `stream` and `websocket`; [`Handler::standard`] offers them all by path.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;

use super::{
    echo::{self, Coding},
    gate::Gate,
    stream,
    transcript::{Entry, Log},
    websocket,
};

/// The body of a reply.
pub type ReplyBody = UnsyncBoxBody<Bytes, io::Error>;

/// A reply.
pub type Reply = Response<ReplyBody>;

/// One async function that answers requests. Clones share it.
#[derive(Clone)]
pub struct Handler {
    answer: Arc<dyn Fn(Request<RequestBody>) -> Answer + Send + Sync>,
}

type Answer = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// The body of a request, noted in the origin's record as it is read.
pub struct RequestBody {
    inner: Incoming,
    log: Log,
    entry: Entry,
}

impl Handler {
    /// Answers with `answer`.
    pub fn new<F, A>(answer: F) -> Self
    where
        F: Fn(Request<RequestBody>) -> A + Send + Sync + 'static,
        A: Future<Output = Reply> + Send + 'static,
    {
        Self { answer: Arc::new(move |request| Box::pin(answer(request))) }
    }

    /// Reads the request to its end and answers 200 with `text`.
    pub fn text(text: impl Into<Bytes>) -> Self {
        let text: Bytes = text.into();
        Self::new(move |request| {
            let text = text.clone();
            async move {
                let _ = request.into_body().collect().await;
                reply(StatusCode::OK, text)
            }
        })
    }

    /// Answers by the first segments of the path; `N` and the like come from the query.
    ///
    /// | path | answer |
    /// |---|---|
    /// | `/echo`, `/echo/gzip`, `/br`, `/zstd`, `/deflate` | the request's head and body, in that coding |
    /// | `/echo/headers` | [`echo::text_of`] in `X-Echo`, `Location`, `Set-Cookie`, `WWW-Authenticate` |
    /// | `/echo/trailers` | the same in the trailer `X-Echo` |
    /// | `/events?n=N&ms=T` | N server-sent events that echo, T ms apart |
    /// | `/chunks?sizes=A,B,..` | the echo, one frame per size, sizes in rotation |
    /// | `/bytes?n=N` | N bytes with Content-Length |
    /// | `/drip?n=N&chunk=C&ms=T` | N bytes, C at a time, T ms apart |
    /// | `/sink?ms=T` | reads the body, T ms between frames, and tells its length |
    /// | `/websocket` | 101, then every message back |
    /// | `/unwilling` | 417 without reading the body |
    /// | `/status/CODE` | that status, empty |
    /// | anything else | the echo |
    pub fn standard() -> Self {
        Self::new(standard)
    }

    /// Answers as `self` to requests that pass `gate`, and 401 to others.
    #[must_use]
    pub fn behind(self, gate: Gate) -> Self {
        let gate = Arc::new(gate);
        Self::new(move |request| {
            let (gate, inner) = (Arc::clone(&gate), self.clone());
            async move {
                if gate.admits(request.headers()) {
                    inner.call(request).await
                } else {
                    gate.refusal()
                }
            }
        })
    }

    pub(super) fn call(&self, request: Request<RequestBody>) -> Answer {
        (self.answer)(request)
    }
}

async fn standard(request: Request<RequestBody>) -> Reply {
    let uri = request.uri().clone();
    let number = |name: &str, default: u64| number(&uri, name).unwrap_or(default);
    match uri.path().trim_start_matches('/') {
        "echo/gzip" => echo::body(request, Coding::Gzip).await,
        "echo/br" => echo::body(request, Coding::Brotli).await,
        "echo/zstd" => echo::body(request, Coding::Zstd).await,
        "echo/deflate" => echo::body(request, Coding::Deflate).await,
        "echo/headers" => echo::headers(request).await,
        "echo/trailers" => echo::trailers(request).await,
        "events" => stream::events(request, number("n", 3), number("ms", 0)).await,
        "chunks" => stream::chunks(request, &sizes(&uri)).await,
        "bytes" => stream::download(number("n", 1 << 20)),
        "drip" => stream::drip(number("n", 100), number("chunk", 10), number("ms", 1)),
        "sink" => stream::sink(request, number("ms", 0)).await,
        "websocket" => websocket::accept(request),
        "unwilling" => reply(StatusCode::EXPECTATION_FAILED, "no body wanted\n"),
        path => match path.strip_prefix("status/").and_then(|code| code.parse().ok()) {
            Some(status) => reply::<&'static str>(status, ""),
            None => echo::body(request, Coding::Identity).await,
        },
    }
}

/// Makes a reply of a whole body; its length is told.
pub fn reply<B: Into<Bytes>>(status: StatusCode, body: B) -> Reply {
    let mut reply = Response::new(full(body));
    *reply.status_mut() = status;
    reply
}

/// Makes a body of bytes at hand.
pub(crate) fn full(body: impl Into<Bytes>) -> ReplyBody {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Returns a parameter of the query as it stands, without percent-decoding.
pub(crate) fn query<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    uri.query()?
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(key, value)| (key == name).then_some(value))
}

fn number(uri: &Uri, name: &str) -> Option<u64> {
    query(uri, name)?.parse().ok()
}

fn sizes(uri: &Uri) -> Vec<usize> {
    query(uri, "sizes")
        .unwrap_or_default()
        .split(',')
        .filter_map(|size| size.parse().ok().filter(|&size| size > 0))
        .collect()
}

impl RequestBody {
    pub(super) fn new(inner: Incoming, log: Log, entry: Entry) -> Self {
        if inner.is_end_stream() {
            log.body_end(entry);
        }
        Self { inner, log, entry }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx)).transpose()?;
        if let Some(data) = frame.as_ref().and_then(Frame::data_ref) {
            self.log.body_chunk(self.entry, data);
        }
        if let Some(trailers) = frame.as_ref().and_then(Frame::trailers_ref) {
            let trailers: &HeaderMap = trailers;
            self.log.body_trailers(self.entry, trailers);
        }
        if frame.is_none() || self.inner.is_end_stream() {
            self.log.body_end(self.entry);
        }
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
