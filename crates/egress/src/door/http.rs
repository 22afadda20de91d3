//! HTTP toward the client: hyper's server behind the guard, or our own for HTTP/2, with the engine's bounds.

use std::{convert::Infallible, future::ready, pin::pin, sync::Arc, time::Instant};

use bytes::BytesMut;
use futures_util::{FutureExt as _, future::BoxFuture};
use http::{Request, Response, Version};
use http_body::Body as _;
use hyper::{ext::ReasonPhrase, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;

use super::{AnyStream, cut::Severable, idle::IdleTimer};
use crate::{
    Limits,
    guard::{Door, Guard, GuardHandle},
    http2,
    incoming::Incoming,
    pipeline::{AnswerBody, Lane, Via},
    refusal::{self, After, Subject},
};

/// The answer to a request. Boxed: hyper moves what it is given four times, which for a request's whole future is more than
/// the nearest cache should bear.
pub(super) type Answering = BoxFuture<'static, Response<AnswerBody>>;

/// Serves the requests of one HTTP/1 connection by `answer`.
pub(super) async fn serve_http1(
    stream: AnyStream,
    already_read: BytesMut,
    door: Door,
    limits: &Limits,
    answer: impl Fn(Request<hyper::body::Incoming>, GuardHandle) -> Answering,
) {
    let (stream, knife) = Severable::new(stream);
    let stream: AnyStream = Box::new(stream);
    let guard = Guard::new(stream, already_read, door, limits);
    let handle = guard.handle();
    let service = service_fn(|request| {
        let client = request.version();
        let answering = answer(request, handle.clone());
        async move { Ok::<_, Infallible>(fit(answering.await, client)) }
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

/// To HTTP/1.0 an answer of no length ends with its connection, which hyper would else call kept. A status that hyper knows no
/// reason for has none, where it would say `<none>`.
fn fit(mut answer: Response<AnswerBody>, client: Version) -> Response<AnswerBody> {
    let reasons = answer.extensions();
    if answer.status().canonical_reason().is_none() && reasons.get::<ReasonPhrase>().is_none() {
        answer.extensions_mut().insert(ReasonPhrase::from_static(b""));
    }
    if client == Version::HTTP_10 && answer.body().size_hint().exact().is_none() {
        *answer.version_mut() = client;
    }
    answer
}

/// Serves a lane over HTTP/1.
pub(super) async fn serve_lane1(
    lane: Arc<Lane>,
    stream: AnyStream,
    already_read: BytesMut,
    limits: &Limits,
) {
    serve_http1(stream, already_read, Door::Inside, limits, |mut request, guard| {
        match guard.verdict() {
            Ok(mut approved) => {
                approved.say_raw_target(&mut request);
                Arc::clone(&lane).answer(request.map(Incoming::Http1), Via::Http1(approved))
            }
            Err(error) => ready(refused_head(&lane, &error)).boxed(),
        }
    })
    .await;
}

/// Serves a lane over HTTP/2.
pub(super) async fn serve_lane2(lane: Arc<Lane>, stream: AnyStream, limits: &Limits) {
    let log = |error: &keyless_core::Error| {
        let subject = lane.authority().map(Subject::of_connection).unwrap_or_default();
        refusal::log(&lane.session, &subject, error);
    };
    let answer = |request: Request<http2::Incoming>, hints| {
        Arc::clone(&lane).answer(request.map(Incoming::Http2), Via::Http2(hints))
    };
    let serving = http2::serve(stream, limits, answer, log);
    if let Err(error) = Box::pin(serving).await {
        log(&error);
    }
}

fn refused_head(lane: &Lane, error: &keyless_core::Error) -> Response<AnswerBody> {
    let subject = Subject {
        correlation_id: refusal::correlation_id().unwrap_or_default(),
        authority: lane.authority().cloned(),
        ..Subject::default()
    };
    refusal::refuse(&lane.session, &subject, error, After::Close, Instant::now())
}
