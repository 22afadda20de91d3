//! The origin: HTTPS, HTTP/1.1, and four things to ask for.
//!
//! `/small` answers 1 KiB of JSON, `/sink` swallows a body, `/bytes/N` answers N bytes, `/events/N` sends
//! N server-sent events, each with the time of its sending. Every answer
//! says in `x-credential` whether the request brought the real value.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt, Either};
use hyper::{
    Request, Response,
    body::Incoming,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::{
    Result, keyless,
    payload::{Events, Payload},
    text,
};

/// Where the answer says what arrived: [`VALUE`] or `other`.
pub(crate) const CREDENTIAL: &str = "x-credential";
/// The real value arrived.
pub(crate) const VALUE: &str = "value";

struct Answers {
    small: Bytes,
    expected: HeaderValue,
}

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener, tls: ServerConfig) -> Result<Infallible> {
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let expected = format!("Bearer {}", keyless::value(0));
    let answers = Arc::new(Answers { small: text::json(1024).into(), expected: expected.parse()? });
    loop {
        let (stream, _) = listener.accept().await?;
        let (acceptor, answers) = (acceptor.clone(), Arc::clone(&answers));
        tokio::spawn(async move {
            // A client that goes away is no news.
            let _ = serve_connection(stream, &acceptor, answers).await;
        });
    }
}

async fn serve_connection(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    answers: Arc<Answers>,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let service = service_fn(move |request| answer(request, Arc::clone(&answers)));
    Ok(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?)
}

async fn answer(
    request: Request<Incoming>,
    answers: Arc<Answers>,
) -> Result<Response<Either<Payload, Events>>> {
    let arrived = request.headers().get(AUTHORIZATION) == Some(&answers.expected);
    let path = request.uri().path().to_owned();
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    let mut kind = "application/json";
    let payload = match path[1..].split_once('/') {
        Some(("bytes", length)) => Either::Left(Payload::of_length(length.parse()?)),
        Some(("events", count)) => {
            kind = "text/event-stream";
            Either::Right(Events::new(count.parse()?))
        }
        _ if path == "/small" => Either::Left(Payload::once(answers.small.clone())),
        _ => Either::Left(Payload::empty()),
    };
    Ok(Response::builder()
        .header(CONTENT_TYPE, kind)
        .header(CREDENTIAL, if arrived { VALUE } else { "other" })
        .body(payload)?)
}
