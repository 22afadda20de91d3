//! HTTP toward the client: hyper's servers behind the guard, with the engine's bounds.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use bytes::BytesMut;
use futures_util::FutureExt as _;
use http::{Request, Response};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::{AnyStream, cut::Severable, idle::IdleTimer};
use crate::{
    Limits,
    guard::{Door, Guard, GuardHandle},
    pipeline::{AnswerBody, Lane},
    refusal::{self, After, Subject},
};

/// What of a request's body may wait for its destination. The client is on this machine, or next to it.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// One stream's answer that waits for a slow reader.
const SEND_BUFFER: usize = 256 << 10;

/// Serves the requests of one HTTP/1 connection by `answer`.
pub(super) async fn serve_http1<F, A>(
    stream: AnyStream,
    already_read: BytesMut,
    door: Door,
    limits: &Limits,
    answer: F,
) where
    F: Fn(Request<Incoming>, GuardHandle) -> A,
    A: Future<Output = Response<AnswerBody>> + Send + 'static,
{
    let (stream, knife) = Severable::new(stream);
    let stream: AnyStream = Box::new(stream);
    let guard = Guard::new(stream, already_read, door, limits);
    let handle = guard.handle();
    let service = service_fn(move |request| {
        // Boxed: hyper moves what it is given four times, which for a request's whole future is
        // more than the nearest cache should bear.
        let answered = answer(request, handle.clone()).boxed();
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let connection = http1::Builder::new()
        .timer(IdleTimer::default())
        .preserve_header_case(true)
        // No `max_headers`: hyper takes 100 fields on its stack, and with any other number it
        // allocates and moves two tables of that size per head. The guard has counted them.
        .max_header_size(limits.head_bytes)
        // The guard times a head that has begun; this is for the time between requests.
        .header_read_timeout(limits.idle_time)
        .serve_connection(TokioIo::new(guard), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    // Other errors are about a client that is gone.
    if connection.as_mut().await.is_err_and(|error| error.is_user()) {
        // An answer's body broke off, and to HTTP/1.0 the end of the connection is the end of the body.
        knife.cut();
    }
}

/// Serves a lane over HTTP/1.
pub(super) async fn serve_lane1(
    lane: Arc<Lane>,
    stream: AnyStream,
    already_read: BytesMut,
    limits: &Limits,
) {
    serve_http1(stream, already_read, Door::Inside, limits, |request, guard| {
        let lane = Arc::clone(&lane);
        async move {
            match guard.verdict() {
                Ok(approved) => lane.answer(request, Some(approved)).await,
                Err(code) => refused_head(&lane, code),
            }
        }
    })
    .await;
}

/// Serves a lane over HTTP/2.
pub(super) async fn serve_lane2(lane: Arc<Lane>, stream: AnyStream, limits: &Limits) {
    let service = service_fn(move |request| {
        let lane = Arc::clone(&lane);
        // Boxed for the same reason as over HTTP/1.
        let answered = async move { lane.answer(request, None).await }.boxed();
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_concurrent_streams(limits.streams)
        // WebSockets (RFC 8441).
        .enable_connect_protocol()
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        // A client that vanished without a word holds nothing for longer than this.
        .keep_alive_interval(Duration::from_mins(1))
        .keep_alive_timeout(Duration::from_secs(20))
        .serve_connection(TokioIo::new(stream), service);
    let _ = connection.await;
}

fn refused_head(lane: &Lane, code: keyless_core::Code) -> Response<AnswerBody> {
    let subject = Subject {
        correlation_id: refusal::correlation_id().unwrap_or_default(),
        authority: lane.authority().cloned(),
        request: None,
    };
    refusal::refuse(&lane.session, &subject, &code.into(), After::Close)
}
