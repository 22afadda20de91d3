//! From a stream and the name that it is for to a tunnel or a lane.

use std::{net::SocketAddr, sync::Arc};

use keyless_core::{Authority, Error, Host, Scheme};
use tokio::net::TcpStream;

use super::{Stream, check_raw, http, log, prefixed};
use crate::{
    Engine, Session,
    dial::Pinned,
    engine::Target,
    pipeline::{Bound, Lane},
    refusal,
    tls::{self, FirstBytes, Prefixed},
    tunnel,
};

/// Serves a stream that the funnel hands over.
pub(crate) async fn serve_stream<S: Stream>(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    stream: S,
    target: Target,
) {
    let authority = match target {
        Target::Name(authority) => authority,
        Target::RawAddress(address) => of_address(address),
    };
    match super::place(engine) {
        Some(_place) => serve_name(engine, session, prefixed(stream), authority).await,
        None => log(session, Some(&authority), &keyless_core::Code::TooManyConnections.into()),
    }
}

/// Serves a stream for `authority`. There is nobody to answer before HTTP begins, so a refusal
/// closes the stream; where TLS is intercepted, it is the answer to every request instead.
pub(super) async fn serve_name<S: Stream>(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    stream: Prefixed<S>,
    authority: Authority,
) {
    let allowed = match engine.check(session, &authority) {
        Ok(()) => check_raw(engine, session, &authority),
        Err(error) => Err(error),
    };
    if let Err(error) = allowed {
        return log(session, Some(&authority), &error);
    }
    let pinned = engine.dialer.pin(&authority).await;
    if session.intercepts(&authority.host) {
        return intercept(engine, session, stream, authority, pinned).await;
    }
    match dial_and_record(engine, session, &authority, pinned).await {
        Ok(upstream) => tunnel::join(session, stream, upstream).await,
        Err(error) => log(session, Some(&authority), &error),
    }
}

/// Opens the other side of a tunnel, in the log before anywhere else.
pub(super) async fn dial_and_record(
    engine: &Engine,
    session: &Session,
    authority: &Authority,
    pinned: Result<Pinned, Error>,
) -> Result<TcpStream, Error> {
    let pinned = pinned?;
    tunnel::record(session, &refusal::correlation_id()?, authority, "tunnel")?;
    engine.dialer.dial(&pinned).await
}

/// Serves the requests inside a stream to a host that some secret names.
pub(super) async fn intercept<S: Stream>(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    mut stream: Prefixed<S>,
    authority: Authority,
    pinned: Result<Pinned, Error>,
) {
    let limits = &engine.limits;
    let lane = |scheme, authority| {
        let bound = Bound::To { scheme, authority, pinned };
        Arc::new(Lane { engine: Arc::clone(engine), session: Arc::clone(session), bound })
    };
    match tls::read_first(&mut stream, limits.head_time).await {
        Ok(FirstBytes::Nothing) => {}
        Ok(FirstBytes::Plain) => {
            let Prefixed { prefix, inner } = stream;
            http::serve_lane1(lane(Scheme::Http, authority), inner, prefix, limits).await;
        }
        Ok(FirstBytes::Tls) => {
            match tls::accept(session, &authority.host, stream, limits.head_time).await {
                Err(error) => log(session, Some(&authority), &error),
                Ok(tls) if tls.get_ref().1.alpn_protocol() == Some(b"h2") => {
                    http::serve_lane2(lane(Scheme::Https, authority), tls, limits).await;
                }
                Ok(tls) => {
                    let lane = lane(Scheme::Https, authority);
                    http::serve_lane1(lane, tls, bytes::BytesMut::new(), limits).await;
                }
            }
        }
        Err(error) => log(session, Some(&authority), &error),
    }
}

fn of_address(address: SocketAddr) -> Authority {
    Authority { host: Host::Ip(address.ip()), port: address.port() }
}
