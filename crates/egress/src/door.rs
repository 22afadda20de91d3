//! Where connections come in: the explicit proxy, the preamble socket, the funnel's own hand-over.
//!
//! Every door ends in the same place: a session, a destination that policy lets through, and a
//! stream. What no secret names is tunnelled; the rest goes through TLS and the pipeline.
//! Source: design.md, section 5; reference/egress.md (c) 21 and 34.

mod connect;
mod cut;
mod farewell;
mod http;
mod idle;
mod named;
mod postgres;
mod preamble;

use std::{any::Any, sync::Arc, time::Duration};

use bytes::BytesMut;
use keyless_core::{Authority, Code, Error};
use keyless_sockets::{Accepting, Handed};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixListener},
    time::timeout,
};

pub use self::postgres::parse_startup;
pub(crate) use self::{cut::Cut, named::serve_stream};
use crate::{Engine, Session, refusal, tls::Prefixed};

/// A connection's place among those that may be open; shared by the tasks that it becomes.
type Place = Arc<crate::room::Place>;

/// Serves the explicit proxy.
pub(crate) async fn serve_proxy(engine: &Arc<Engine>, listener: TcpListener) {
    let mut accepting = Accepting::at(listener);
    loop {
        let (stream, _) = accepting.next().await;
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        let engine = Arc::clone(engine);
        match place(&engine) {
            Some(place) => tokio::spawn(connect::serve(engine, Box::new(stream), place)),
            None => tokio::spawn(turn_away(stream)),
        };
    }
}

/// Serves the preamble socket of one session.
pub(crate) async fn serve_unix(
    engine: &Arc<Engine>,
    listener: UnixListener,
    session: &Arc<Session>,
) {
    let mut accepting = Accepting::at(listener);
    loop {
        let stream = accepting.next().await;
        let (engine, session) = (Arc::clone(engine), Arc::clone(session));
        tokio::spawn(async move {
            let stream = Box::new(Handed::new(stream));
            serve_preamble(&engine, &session, BytesMut::new(), stream).await;
        });
    }
}

/// Serves one connection that begins with a preamble, of which `received` has been read.
pub(crate) async fn serve_preamble(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    received: BytesMut,
    stream: AnyStream,
) {
    match place(engine) {
        Some(place) => preamble::serve(engine, session, received, stream, &place).await,
        None => preamble::turn_away(engine, session, received, stream).await,
    }
}

fn place(engine: &Arc<Engine>) -> Option<Place> {
    engine.room.enter().map(Arc::new)
}

/// Answers 503 to one connection too many. Its head is read first: closing over unread bytes
/// resets the connection, and the answer would be lost.
async fn turn_away(mut stream: TcpStream) {
    let mut head = BytesMut::with_capacity(4096);
    let _ = timeout(Duration::from_secs(1), stream.read_buf(&mut head)).await;
    let _ = stream.write_all(&refusal::raw_answer(&Code::TooManyConnections.into())).await;
    let _ = stream.shutdown().await;
}

/// Logs that a connection is one too many, and tells its client in its own protocol. TLS gets an alert, since a handshake would
/// cost what the bound is to save.
async fn one_too_many(session: &Session, stream: Prefixed<AnyStream>, authority: &Authority) {
    let error = Code::TooManyConnections.into();
    log(session, Some(authority), &error);
    farewell::say(stream, authority, &error).await;
}

/// Logs a refusal of a connection as a whole.
fn log(session: &Session, authority: Option<&Authority>, error: &Error) {
    let subject = refusal::Subject {
        correlation_id: refusal::correlation_id().unwrap_or_default(),
        authority: authority.cloned(),
        ..refusal::Subject::default()
    };
    refusal::log(session, &subject, error);
}

/// Any stream that a door can serve.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Which kind it is, for [`Cut`].
    fn as_any(&self) -> &dyn Any;
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// One of them. What the doors do is long, and would be compiled anew for each kind.
pub(crate) type AnyStream = Box<dyn Stream>;

fn prefixed(inner: AnyStream) -> Prefixed<AnyStream> {
    Prefixed { prefix: BytesMut::new(), inner }
}
