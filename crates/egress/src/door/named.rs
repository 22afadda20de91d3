//! From a stream and the name that it is for to a tunnel or a lane.

use std::{net::SocketAddr, sync::Arc};

use keyless_core::{Authority, Code, Error, Host, SafeText, Scheme};
use tokio::net::TcpStream;

use super::{
    AnyStream, Place,
    farewell::{self, Protocol},
    http, log, one_too_many, postgres, prefixed,
};
use crate::{
    Engine, Session,
    account::Account,
    engine::{Flight, Target},
    pipeline::{Bound, Lane},
    reach::Standing,
    refusal::Subject,
    tls::{self, FirstBytes, Prefixed, Spoken},
    tunnel,
    withdrawal::Ground,
};

/// Serves a stream that the funnel hands over.
pub(crate) async fn serve_stream(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    stream: AnyStream,
    target: Target,
) {
    let authority = match target {
        Target::Name(authority) => authority,
        Target::RawAddress(address) => of_address(address),
    };
    if let Some(place) = super::place(engine) {
        serve_name(engine, session, prefixed(stream), authority, &place).await;
    } else if let Some(_place) = engine.farewells.enter() {
        one_too_many(session, prefixed(stream), &authority).await;
    } else {
        log(session, Some(&authority), &Code::TooManyConnections.into());
    }
}

/// Serves a stream for `authority`. A refusal is the last word to the client, in its own protocol;
/// where TLS is intercepted, it is the answer to every request instead.
pub(super) async fn serve_name(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    stream: Prefixed<AnyStream>,
    authority: Authority,
    place: &Place,
) {
    let intercepted = engine.intercepts(session, &authority.host);
    let begun = engine.begin().and_then(|flight| {
        if !intercepted {
            session.check_open()?;
        }
        engine.check(session, &authority)?;
        Ok(flight)
    });
    let flight = match begun {
        Ok(flight) => flight,
        Err(error) => return refuse(session, stream, &authority, &error).await,
    };
    let standing = Standing::judge(engine, session, &authority).await;
    if intercepted {
        // Each request inside begins for itself; until one comes, no drain has to wait.
        drop(flight);
        return intercept(engine, session, stream, authority, standing, place).await;
    }
    serve_tunnel(engine, session, stream, &authority, &standing, flight).await;
}

async fn serve_tunnel(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    stream: Prefixed<AnyStream>,
    authority: &Authority,
    standing: &Standing,
    flight: Flight,
) {
    match dial_and_record(engine, session, authority, standing, flight).await {
        Ok((upstream, ground, account)) => tunnel::join(ground, account, stream, upstream).await,
        Err(error) => refuse(session, stream, authority, &error).await,
    }
}

/// Serves a protocol that is not HTTP. At the very port that a secret names, a login to PostgreSQL is
/// carried, and what no value can be put into is refused with the reason; elsewhere it is a tunnel
/// like any other.
async fn serve_foreign(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    stream: Prefixed<AnyStream>,
    authority: Authority,
    standing: Standing,
    protocol: Protocol,
) {
    if !session.is_destination(&authority) {
        return match engine.begin() {
            Ok(flight) => {
                serve_tunnel(engine, session, stream, &authority, &standing, flight).await;
            }
            Err(error) => refuse(session, stream, &authority, &error).await,
        };
    }
    if protocol == Protocol::Postgres {
        return postgres::serve(engine, session, stream, authority, standing).await;
    }
    let detail = SafeText::words("it speaks ").and(protocol.name());
    let error = Error::with(Code::ProtocolRefused, detail);
    refuse(session, stream, &authority, &error).await;
}

/// Logs the refusal, and tells the client.
async fn refuse(
    session: &Session,
    stream: Prefixed<AnyStream>,
    authority: &Authority,
    error: &Error,
) {
    log(session, Some(authority), error);
    farewell::say(stream, authority, error).await;
}

/// Opens the other side of a tunnel, in the log before anywhere else.
pub(super) async fn dial_and_record(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    authority: &Authority,
    standing: &Standing,
    flight: Flight,
) -> Result<(TcpStream, Ground, Arc<Account>), Error> {
    session.quota().spend_request()?;
    let (pinned, as_of) = standing.pinned()?;
    // Behind the version that the tunnel stands on, so that a hold is seen here or there.
    session.check_open()?;
    let subject = Subject::of_connection(authority);
    tunnel::record(session, &subject.correlation_id, authority, "tunnel")?;
    let upstream = engine.reach().dialer.dial(&pinned).await?;
    let account = Account::open(flight, session, Arc::new(subject));
    let ground = Ground::new(engine, session, authority.clone(), pinned, as_of);
    Ok((upstream, ground, account))
}

/// Serves the requests inside a stream to a host that some secret names.
pub(super) async fn intercept(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    mut stream: Prefixed<AnyStream>,
    authority: Authority,
    standing: Standing,
    place: &Place,
) {
    let limits = &engine.limits;
    // A server that speaks first is known by its port alone.
    if let Some(protocol) = Protocol::of_port(authority.port) {
        return serve_foreign(engine, session, stream, authority, standing, protocol).await;
    }
    let lane = |scheme, authority, standing| {
        let bound = Bound::To { scheme, authority, standing };
        let (engine, session) = (Arc::clone(engine), Arc::clone(session));
        Arc::new(Lane { engine, session, bound, place: Arc::downgrade(place) })
    };
    match tls::read_first(&mut stream, limits.head_time).await {
        Ok(FirstBytes::Nothing) => {}
        Ok(FirstBytes::Plain) => {
            let recognised = farewell::recognise(&mut stream).await;
            if let Some(protocol) = recognised.filter(|protocol| !protocol.may_be_http()) {
                return serve_foreign(engine, session, stream, authority, standing, protocol).await;
            }
            let Prefixed { prefix, inner } = stream;
            http::serve_lane1(lane(Scheme::Http, authority, standing), inner, prefix, limits).await;
        }
        Ok(FirstBytes::Tls) => {
            let (host, time) = (&authority.host, limits.head_time);
            match tls::accept(session, host, Spoken::Http, stream, time).await {
                Err(error) => log(session, Some(&authority), &error),
                Ok(tls) if tls.get_ref().1.alpn_protocol() == Some(b"h2") => {
                    let lane = lane(Scheme::Https, authority, standing);
                    http::serve_lane2(lane, Box::new(tls), limits).await;
                }
                Ok(tls) => {
                    let lane = lane(Scheme::Https, authority, standing);
                    let nothing = bytes::BytesMut::new();
                    http::serve_lane1(lane, Box::new(tls), nothing, limits).await;
                }
            }
        }
        Err(error) => log(session, Some(&authority), &error),
    }
}

fn of_address(address: SocketAddr) -> Authority {
    Authority { host: Host::Ip(address.ip()), port: address.port() }
}
