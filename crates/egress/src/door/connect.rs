//! The explicit proxy: CONNECT and absolute-form requests, each with the session's credential.
//!
//! CONNECT is answered 200 only after policy, look-up and zone have passed, and for tunnels after
//! the destination has answered, so that every refusal is an HTTP answer. No name is looked up
//! for who has no credential, or who puts a placeholder where it would be looked up. Source: reference/egress.md (c) 21 and 43; (e) 43, 95 and 103.

use std::{sync::Arc, time::Instant};

use bytes::BytesMut;
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    body::Incoming,
    upgrade::{OnUpgrade, Parts},
};
use hyper_util::rt::TokioIo;
use keyless_core::{Authority, Code, Error, SafeText, Scheme};
use tokio::net::TcpStream;

use super::{
    AnyStream, Place,
    http::{Answering, serve_http1},
    named,
};
use crate::{
    Engine, Session,
    account::Account,
    guard::{Door, Guard, GuardHandle},
    incoming,
    pipeline::{AnswerBody, Bound, Lane, Via},
    reach::Standing,
    refusal::{self, After, Subject},
    session::parse_credential,
    tls::Prefixed,
    tunnel,
    withdrawal::Ground,
};

/// Serves one connection to the proxy.
pub(super) async fn serve(engine: Arc<Engine>, stream: AnyStream, place: Place) {
    let limits = engine.limits.clone();
    serve_http1(stream, BytesMut::new(), Door::Proxy, &limits, move |request, guard| {
        answering(Arc::clone(&engine), request, guard, Arc::clone(&place))
    })
    .await;
}

fn answering(
    engine: Arc<Engine>,
    request: Request<Incoming>,
    guard: GuardHandle,
    place: Place,
) -> Answering {
    answer(engine, request, guard, place).boxed()
}

async fn answer(
    engine: Arc<Engine>,
    mut request: Request<Incoming>,
    guard: GuardHandle,
    place: Place,
) -> Response<AnswerBody> {
    let mut approved = match guard.verdict() {
        Ok(approved) => approved,
        // Whose it is can't be told from a head that can't be read.
        Err(error) => {
            engine.log_stranger(&error);
            return refusal::answer(&error, After::Close);
        }
    };
    let session = match authenticate(&engine, request.headers()) {
        Ok(session) => session,
        Err(error) => return refusal::answer(&error, After::Close),
    };
    if request.method() == Method::CONNECT {
        return connect(&engine, &session, request, place).await;
    }
    approved.say_raw_target(&mut request);
    let bound = Bound::PerRequest;
    let lane = Arc::new(Lane { engine, session, bound, place: Arc::downgrade(&place) });
    lane.answer(request.map(incoming::Incoming::Http1), Via::Http1(approved)).await
}

/// The session whose credential the request carries; who has none is written into the log.
fn authenticate(engine: &Engine, headers: &HeaderMap) -> Result<Arc<Session>, Error> {
    let mut fields = headers.get_all(header::PROXY_AUTHORIZATION).iter();
    let credential = match (fields.next(), fields.next()) {
        (Some(field), None) => parse_credential(field.as_bytes()),
        _ => None,
    };
    let error = Error::from(Code::ProxyAuthRequired);
    let known = credential.and_then(|(id, token)| Some((engine.session(&id)?, token)));
    match known {
        Some((session, token)) if session.knows_token(&token) => return Ok(session),
        Some((session, _)) => {
            if let Some(paced) = engine.strangers.paced(&error) {
                super::log(&session, None, &paced);
            }
        }
        None => engine.log_stranger(&error),
    }
    Err(error)
}

async fn connect(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    mut request: Request<Incoming>,
    place: Place,
) -> Response<AnswerBody> {
    let (mut subject, began) = (Subject::default(), Instant::now());
    match prepare(engine, session, &request, &mut subject).await {
        Err(error) => refusal::refuse(session, &subject, &error, After::Close, began),
        Ok(route) => {
            let upgrade = hyper::upgrade::on(&mut request);
            let (engine, session) = (Arc::clone(engine), Arc::clone(session));
            tokio::spawn(async move {
                carry(engine, session, upgrade, route, &place).await;
            });
            Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync())
        }
    }
}

/// How a tunnel's bytes will travel.
enum Way {
    Intercepted(Authority, Standing),
    Tunnel(TcpStream, Ground, Arc<Account>),
}

async fn prepare(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    request: &Request<Incoming>,
    subject: &mut Subject,
) -> Result<Way, Error> {
    subject.correlation_id = refusal::correlation_id()?;
    refuse_placeholders(session, request)?;
    let authority = target(request)?;
    subject.authority = Some(authority.clone());
    check_host(request, &authority)?;
    // Held while the destination is looked up and dialled. What is intercepted begins with each request anew.
    let flight = engine.begin()?;
    session.check_open()?;
    engine.check(session, &authority)?;
    if !engine.intercepts(session, &authority.host) {
        session.quota().spend_request()?;
    }
    let standing = Standing::judge(engine, session, &authority).await;
    let (pinned, as_of) = standing.pinned()?;
    if engine.intercepts(session, &authority.host) {
        return Ok(Way::Intercepted(authority, standing));
    }
    tunnel::record(session, &subject.correlation_id, &authority, "tunnel")?;
    let upstream = engine.reach().dialer.dial(&pinned).await?;
    let account = Account::open(flight, session, Arc::new(subject.clone()));
    Ok(Way::Tunnel(upstream, Ground::new(engine, session, authority, pinned, as_of), account))
}

/// A placeholder in the head of a CONNECT is for nobody: the destination never sees that head, and a
/// name with it in it would be told to name servers.
fn refuse_placeholders(session: &Session, request: &Request<Incoming>) -> Result<(), Error> {
    let target = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let mut texts = request.headers().values().map(HeaderValue::as_bytes).chain(target);
    if texts.any(|text| session.table().is_in(text)) {
        let detail = "a placeholder stands in the head of a CONNECT".into();
        return Err(Error::with(Code::LocationNotAllowed, detail));
    }
    Ok(())
}

/// Where it is to lead.
fn target(request: &Request<Incoming>) -> Result<Authority, Error> {
    let text = request.uri().authority().ok_or(Code::BadRequest)?.as_str();
    Authority::parse(text).map_err(|error| {
        Error::with(Code::BadRequest, SafeText::words("the CONNECT target: ").and(error))
    })
}

/// A `Host` field, if there is one, must repeat the target.
fn check_host(request: &Request<Incoming>, authority: &Authority) -> Result<(), Error> {
    let bad =
        |why: SafeText| Error::with(Code::BadRequest, SafeText::words("its field Host: ").and(why));
    for host in request.headers().get_all(header::HOST) {
        let host = host.to_str().map_err(|_| bad("it is not text".into()))?;
        // Some clients leave the port away here, whichever it is.
        if host.eq_ignore_ascii_case(&authority.host.to_string()) {
            continue;
        }
        let named = Authority::parse_for(host, Scheme::Https);
        let named = named.map_err(|error| bad(SafeText::default().and(error)))?;
        if named != *authority {
            let words = SafeText::words("the CONNECT is for ").and(authority);
            let words = words.and(", its field Host names ").and(named);
            return Err(Error::with(Code::AuthorityMismatch, words));
        }
    }
    Ok(())
}

async fn carry(
    engine: Arc<Engine>,
    session: Arc<Session>,
    upgrade: OnUpgrade,
    way: Way,
    place: &Place,
) {
    let Ok(upgraded) = upgrade.await else { return };
    let Ok(Parts { io, read_buf, .. }) = upgraded.downcast::<TokioIo<Guard<AnyStream>>>() else {
        return;
    };
    let (inner, rest) = io.into_inner().into_parts();
    let mut prefix = BytesMut::from(read_buf);
    prefix.unsplit(rest);
    let stream = Prefixed { prefix, inner };
    match way {
        Way::Tunnel(upstream, ground, account) => {
            tunnel::join(ground, account, stream, upstream).await;
        }
        Way::Intercepted(authority, standing) => {
            named::intercept(&engine, &session, stream, authority, standing, place).await;
        }
    }
}
