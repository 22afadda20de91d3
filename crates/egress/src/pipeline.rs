//! One request: from a parsed head to an answer.
//!
//! agree on one authority -> take a connection (its certificate is verified by then) -> swap ->
//! send -> scrub. Every way out is an answer; a panic in one request is a 500 for that request.
//! Deliberately not here: how bytes are swapped and scrubbed (`swap`, `scrub`), how heads are
//! framed (`guard`).

mod agreement;
mod body;
mod exchange;
mod forwards;
mod hold;
mod hop;
mod interim;
mod minting;
mod renewal;
mod seal;
mod upload;
mod websocket;

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
    time::Instant,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use h2::ext::Protocol;
use http::{Method, Request, Response, Version, header, uri::PathAndQuery};
use http_body_util::combinators::UnsyncBoxBody;
use keyless_core::{Authority, Code, Error, Scheme};

use self::{
    agreement::Agreed, body::BoxError, exchange::Exchange, interim::Line, minting::Minting,
    websocket::Opening,
};
use crate::{
    Engine, Session,
    account::Account,
    dial::Pinned,
    guard::{Approved, too_many_bytes, too_many_fields},
    http2::Hints,
    incoming::Incoming,
    pool::{Key, Owner},
    reach::Standing,
    refusal::{self, After, Form, Subject},
    room::Place,
    swap::{self, SwapTable},
    tls::ClientIdentity,
    tunnel,
    withdrawal::Ground,
};

/// The body of an answer to the client.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// What the requests of one client connection have in common.
pub(crate) struct Lane {
    pub(crate) engine: Arc<Engine>,
    pub(crate) session: Arc<Session>,
    pub(crate) bound: Bound,
    /// The connection's. A WebSocket has it once HTTP is over; what goes on without its client has none.
    pub(crate) place: Weak<Place>,
}

/// What a request came over, and what its answer may need of it.
pub(crate) enum Via {
    /// The guard has approved it.
    Http1(Approved),
    Http2(Hints),
}

/// Where the requests of a connection may go.
pub(crate) enum Bound {
    /// Each request names its own destination: absolute-form at the explicit proxy.
    PerRequest,
    /// To the destination that the connection was opened for, if it may be reached at all.
    To { scheme: Scheme, authority: Authority, standing: Standing },
}

/// A request that has its destination, and everything that goes with it.
struct Task<'a> {
    lane: &'a Lane,
    scheme: Scheme,
    authority: &'a Authority,
    key: Key,
    subject: Arc<Subject>,
    account: Arc<Account>,
    /// What the connection to the destination is authenticated with.
    identity: Option<ClientIdentity>,
    /// The session's secrets as they were when the request began.
    table: Arc<SwapTable>,
    /// The session's version at which the destination was judged.
    as_of: u64,
    minting: Minting,
}

impl Task<'_> {
    /// What the request and its answer stand on.
    fn ground(&self) -> Ground {
        Ground {
            engine: Arc::clone(&self.lane.engine),
            session: Arc::clone(&self.lane.session),
            table: Arc::clone(&self.table),
            authority: self.authority.clone(),
            pinned: self.key.pinned.clone(),
            as_of: self.as_of,
        }
    }
}

impl Lane {
    /// The destination, when it is the connection's.
    pub(crate) fn authority(&self) -> Option<&Authority> {
        match &self.bound {
            Bound::PerRequest => None,
            Bound::To { authority, .. } => Some(authority),
        }
    }

    /// Answers one request. Boxed where it is made: all that a request may need is some KiB, which everybody who hands it
    /// on would copy.
    pub(crate) fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        via: Via,
    ) -> BoxFuture<'static, Response<AnswerBody>> {
        let minting = Minting::of(&self.session.table());
        let until_read = minting.clone();
        // Made where it stays: `Box::pin` would make it on the stack and move all of it, though most of it has nothing in it yet.
        let room = Box::new_uninit();
        let work = Box::write(room, async move { self.answer_one(request, via, minting).await });
        minting::lasting(Box::into_pin(work), until_read)
    }

    async fn answer_one(
        &self,
        request: Request<Incoming>,
        via: Via,
        minting: Minting,
    ) -> Response<AnswerBody> {
        // What is refused before the destination is settled names it all the same.
        let named = || agreement::agree(&request, &self.bound).ok().map(|agreed| agreed.authority);
        let authority = self.authority().cloned().or_else(named);
        let request_said = Some(said_of(&request));
        let form = Form::of(&request);
        let subject = Subject { authority, request: request_said, form, ..Subject::default() };
        let mut subject = Arc::new(subject);
        let began = Instant::now();
        let tried = AssertUnwindSafe(self.try_answer(request, via, &mut subject, minting));
        let Refused { error, logged, sent } = match tried.catch_unwind().await {
            Ok(Ok(response)) => return response,
            Ok(Err(refused)) => refused,
            Err(_) => Error::with(Code::Internal, "the request's handling panicked".into()).into(),
        };
        let keep = !logged && error.code() != Code::Internal;
        let response = form.answer(&error, if keep { after(error.code()) } else { After::Close });
        if !logged {
            let so_far = refusal::so_far(&response, sent, began);
            refusal::log_so_far(&self.session, &subject, &error, so_far);
        }
        response
    }

    async fn try_answer(
        &self,
        mut request: Request<Incoming>,
        via: Via,
        subject: &mut Arc<Subject>,
        minting: Minting,
    ) -> Result<Response<AnswerBody>, Refused> {
        // Nobody else has it before the task does, so nothing is copied.
        Arc::make_mut(subject).correlation_id = refusal::correlation_id()?;
        // Held from here on: a drain waits for a request whose destination is still being looked up.
        let flight = self.engine.begin()?;
        self.session.check_open()?;
        self.session.quota().spend_request()?;
        self.check_head(&request)?;
        let Agreed { scheme, authority } = agreement::agree(&request, &self.bound)?;
        if subject.authority.as_ref() != Some(&authority) {
            Arc::make_mut(subject).authority = Some(authority.clone());
        }
        if let Some(answer) = forwards::spend(&mut request) {
            return Ok(answer);
        }
        let request = self.judge_cleartext(scheme, &authority, subject, request)?;
        let (pinned, as_of) = self.pin(scheme, &authority, subject).await?;
        let table = self.session.table();
        // One that needs no value asks the broker for nothing else.
        self.session.check_log()?;
        // Before anything is released to it: what was is on record when it is over.
        let account = Account::open(flight, &self.session, Arc::clone(subject));
        let (identity, request) =
            self.identify(&table, scheme, &authority, subject, request).await?;
        let key = Key {
            owner: Owner::Session(self.session.shared_id()),
            scheme,
            authority: authority.clone(),
            pinned,
            generation: self.engine.roots().generation,
            identity: identity.as_ref().map(ClientIdentity::fingerprint),
        };
        let (subject, authority) = (Arc::clone(subject), &authority);
        let task = Task {
            lane: self,
            scheme,
            authority,
            key,
            subject,
            account,
            identity,
            table,
            as_of,
            minting,
        };
        let (line, upgrade) = match via {
            Via::Http1(Approved { guard, upgrade, .. }) => (Line::Http1(guard), upgrade),
            Via::Http2(hints) => (Line::Http2(hints), None),
        };
        let opening = match upgrade.filter(|_| request.version() == Version::HTTP_11) {
            Some(pass) => Some(Opening::Http1(pass)),
            None => (request.method() == Method::CONNECT).then_some(Opening::Http2),
        };
        let answered = match opening {
            // Rare, and large: not part of every request's future.
            Some(opening) => Box::pin(websocket::open(&task, request, opening)).await,
            None => Exchange::new(&task).run(request, line).await,
        };
        answered.map_err(|refused| Refused { sent: task.account.sent(), ..refused })
    }

    /// The client certificate that some secret has for the destination. A connection that it
    /// authenticates says more than the request, so each request is judged before it goes there.
    async fn identify(
        &self,
        table: &Arc<SwapTable>,
        scheme: Scheme,
        authority: &Authority,
        subject: &Subject,
        request: Request<Incoming>,
    ) -> Result<(Option<ClientIdentity>, Request<Incoming>), Error> {
        if !table.has_client_keys() {
            return Ok((None, request));
        }
        let route = judged_route(scheme, authority, subject);
        let (parts, body) = request.into_parts();
        let identity = Box::pin(swap::client_identity(table, &route, &parts)).await?;
        Ok((identity, Request::from_parts(parts, body)))
    }

    /// A credential in cleartext is refused as such before anything is looked up or dialled: the
    /// port may well be closed, and then nobody would learn why the request is wrong.
    fn judge_cleartext(
        &self,
        scheme: Scheme,
        authority: &Authority,
        subject: &Subject,
        request: Request<Incoming>,
    ) -> Result<Request<Incoming>, Error> {
        if scheme == Scheme::Https || !self.session.intercepts(&authority.host) {
            return Ok(request);
        }
        let route = judged_route(scheme, authority, subject);
        let (parts, body) = request.into_parts();
        swap::judge_head(&self.session.table(), &route, &parts)?;
        Ok(Request::from_parts(parts, body))
    }

    /// What only HTTP/2 can bring this far: over HTTP/1 the guard has seen to it.
    fn check_head(&self, request: &Request<Incoming>) -> Result<(), Error> {
        if request.method() == Method::CONNECT {
            match request.extensions().get::<Protocol>().map(Protocol::as_str) {
                Some("websocket") => {}
                Some(_) => return Err(Code::UpgradeRefused.into()),
                None => {
                    let detail = "a tunnel inside a tunnel".into();
                    return Err(Error::with(Code::BadRequest, detail));
                }
            }
        }
        if request.version() == Version::HTTP_2
            && size_of_head(request) > self.engine.limits.head_bytes
        {
            return Err(too_many_bytes(self.engine.limits.head_bytes));
        }
        if request.version() == Version::HTTP_2 {
            check_http2_head(request)?;
        }
        // HTTP/2 may split one cookie field into many.
        let crumbs = request.headers().get_all(header::COOKIE).iter().count();
        let fields = request.headers().len() - crumbs.saturating_sub(1);
        if request.version() == Version::HTTP_2 && fields > self.engine.limits.head_fields {
            Err(too_many_fields(self.engine.limits.head_fields))
        } else {
            Ok(())
        }
    }

    /// The addresses of the request's destination: those of the connection, or looked up now.
    async fn pin(
        &self,
        scheme: Scheme,
        authority: &Authority,
        subject: &Subject,
    ) -> Result<(Pinned, u64), Error> {
        if let Bound::To { standing, .. } = &self.bound {
            return standing.renewed(&self.engine, &self.session, authority).await;
        }
        self.engine.check(&self.session, authority)?;
        let standing = Standing::judge(&self.engine, &self.session, authority).await;
        let pinned = standing.pinned()?;
        if scheme == Scheme::Http && !self.session.intercepts(&authority.host) {
            tunnel::record(&self.session, &subject.correlation_id, authority, "forwarded")?;
        }
        Ok(pinned)
    }
}

/// What the guard would refuse over HTTP/1. A fragment is gone by now, and a path that was nothing else is the root's.
fn check_http2_head<B>(request: &Request<B>) -> Result<(), Error> {
    let refuse = |why: &'static str| Err(Error::with(Code::BadRequest, why.into()));
    let is_repeated = |name| request.headers().get_all(name).iter().nth(1).is_some();
    let path = request.uri().path_and_query().map_or("", PathAndQuery::as_str);
    if is_repeated(header::HOST) {
        return refuse("it has more than one field Host");
    }
    if is_repeated(header::CONTENT_LENGTH) {
        return refuse("it has more than one field Content-Length");
    }
    if !path.starts_with('/') && path != "*" {
        return refuse("its path does not begin with a slash");
    }
    Ok(())
}

/// A route by which a head is judged before there is a connection: nothing is framed by its version.
fn judged_route<'r>(
    scheme: Scheme,
    authority: &'r Authority,
    subject: &'r Subject,
) -> swap::Route<'r> {
    let (correlation_id, upstream_version) = (&subject.correlation_id, Version::HTTP_11);
    swap::Route { scheme, authority, correlation_id, upstream_version }
}

/// A refusal on its way to the client.
struct Refused {
    error: Error,
    /// It was found in a body that streamed, and logged there.
    logged: bool,
    /// Bytes of the request's body that went to the destination before.
    sent: u64,
}

impl Refused {
    fn logged(error: Error) -> Self {
        Self { error, logged: true, sent: 0 }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self { error, logged: false, sent: 0 }
    }
}

impl From<Code> for Refused {
    fn from(code: Code) -> Self {
        Error::new(code).into()
    }
}

/// A connection whose framing is in doubt is closed; others go on.
fn after(code: Code) -> After {
    match code {
        Code::BadRequest
        | Code::Draining
        | Code::HeadTooLarge
        | Code::HeadTimeout
        | Code::SessionEnded => After::Close,
        _ => After::Keep,
    }
}

/// As many bytes as it would have over HTTP/1, or a few less.
fn size_of_head(request: &Request<Incoming>) -> usize {
    let fields =
        request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    path + fields.sum::<usize>()
}

/// The method and the path without its query, as the agent sent them.
fn said_of(request: &Request<Incoming>) -> (String, String) {
    (request.method().as_str().to_owned(), request.uri().path().to_owned())
}
