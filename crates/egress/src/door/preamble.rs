//! The preamble socket: one line, `host:port`, then the client's own bytes.
//! Source: reference/egress.md (d): at most 1024 bytes, within 10 s.

use std::sync::Arc;

use bytes::{Buf as _, BytesMut};
use keyless_core::{Authority, AuthorityError, Code, Error, MAX_PREAMBLE_BYTES, SafeText};
use tokio::{io::AsyncReadExt as _, time::timeout};

use super::{AnyStream, Place, farewell, log, named, one_too_many};
use crate::{Engine, Session, tls::Prefixed};

/// Reads the preamble, of which `received` has arrived already, and serves the rest.
pub(super) async fn serve(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    received: BytesMut,
    stream: AnyStream,
    place: &Place,
) {
    if let Some((authority, stream)) = named(engine, session, received, stream).await {
        named::serve_name(engine, session, stream, authority, place).await;
    }
}

/// Refuses one connection too many, and says so to its client, who begins after the preamble.
pub(super) async fn turn_away(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    received: BytesMut,
    stream: AnyStream,
) {
    let Some(_place) = engine.farewells.enter() else {
        return log(session, None, &Code::TooManyConnections.into());
    };
    if let Some((authority, stream)) = named(engine, session, received, stream).await {
        one_too_many(session, stream, &authority).await;
    }
}

/// Reads the preamble, and gives whom it names and the stream behind it. What can't be read is logged, and told in a line.
async fn named(
    engine: &Engine,
    session: &Session,
    received: BytesMut,
    mut stream: AnyStream,
) -> Option<(Authority, Prefixed<AnyStream>)> {
    let read = timeout(engine.limits.preamble_time, read(received, &mut stream)).await;
    match read.unwrap_or_else(|_| Err(Code::HeadTimeout.into())) {
        Ok(named) => {
            named.map(|(authority, prefix)| (authority, Prefixed { prefix, inner: stream }))
        }
        Err(error) => {
            log(session, None, &error);
            farewell::say_line(stream, &error).await;
            None
        }
    }
}

/// The authority, and what came after its line; nothing when the other side leaves at once.
async fn read(
    mut received: BytesMut,
    stream: &mut AnyStream,
) -> Result<Option<(Authority, BytesMut)>, Error> {
    received.reserve(MAX_PREAMBLE_BYTES);
    loop {
        match Authority::from_preamble(&received) {
            Ok(None) => {}
            Ok(Some((authority, used))) => {
                received.advance(used);
                return Ok(Some((authority, received)));
            }
            Err(error) => return Err(unreadable(&error)),
        }
        match stream.read_buf(&mut received).await {
            Ok(0) if received.is_empty() => return Ok(None),
            Ok(0) | Err(_) => return Err(unreadable(&AuthorityError::Preamble)),
            Ok(_) => {}
        }
    }
}

fn unreadable(error: &AuthorityError) -> Error {
    Error::with(Code::BadRequest, SafeText::words("the preamble: ").and(error.clone()))
}
