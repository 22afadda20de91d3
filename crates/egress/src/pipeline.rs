//! One request: from a parsed head to an answer.
//!
//! agree on one authority -> take a connection (its certificate is verified by then) -> swap ->
//! send -> scrub. Every way out is an answer; a panic in one request is a 500 for that request.
//! Deliberately not here: how bytes are swapped and scrubbed (`swap`, `scrub`), how heads are
//! framed (`guard`).

mod agreement;
mod body;
mod exchange;
mod hop;
mod interim;
mod websocket;

use std::{panic::AssertUnwindSafe, sync::Arc};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Method, Request, Response, Version};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use keyless_core::{Authority, Code, Error, SafeText, Scheme};

use self::{agreement::Agreed, body::BoxError, exchange::Exchange};
use crate::{
    Engine, Session,
    dial::Pinned,
    guard::Approved,
    pool::Key,
    refusal::{self, After, Subject},
    swap, tunnel,
};

/// The body of an answer to the client.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// What the requests of one client connection have in common.
pub(crate) struct Lane {
    pub(crate) engine: Arc<Engine>,
    pub(crate) session: Arc<Session>,
    pub(crate) bound: Bound,
}

/// Where the requests of a connection may go.
pub(crate) enum Bound {
    /// Each request names its own destination: absolute-form at the explicit proxy.
    PerRequest,
    /// To the destination that the connection was opened for, if it may be reached at all.
    To { scheme: Scheme, authority: Authority, pinned: Result<Pinned, Error> },
}

/// A request that has its destination, and everything that goes with it.
struct Task<'a> {
    lane: &'a Lane,
    scheme: Scheme,
    authority: &'a Authority,
    key: Key,
    subject: Arc<Subject>,
}

impl Lane {
    /// The destination, when it is the connection's.
    pub(crate) fn authority(&self) -> Option<&Authority> {
        match &self.bound {
            Bound::PerRequest => None,
            Bound::To { authority, .. } => Some(authority),
        }
    }

    /// Answers one request; over HTTP/1, one that the guard has approved.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        approved: Option<Approved>,
    ) -> Response<AnswerBody> {
        let mut subject = Subject { request: Some(said_of(&request)), ..Subject::default() };
        match AssertUnwindSafe(self.try_answer(request, approved, &mut subject))
            .catch_unwind()
            .await
        {
            Ok(Ok(response)) => response,
            Ok(Err(Refused { error, logged: false })) => {
                refusal::refuse(&self.session, &subject, &error, after(error.code()))
            }
            Ok(Err(Refused { error, logged: true })) => refusal::answer(&error, After::Close),
            Err(_) => refusal::refuse(
                &self.session,
                &subject,
                &Error::with(Code::Internal, "the request's handling panicked".into()),
                After::Close,
            ),
        }
    }

    async fn try_answer(
        &self,
        request: Request<Incoming>,
        approved: Option<Approved>,
        subject: &mut Subject,
    ) -> Result<Response<AnswerBody>, Refused> {
        subject.correlation_id = refusal::correlation_id()?;
        self.session.check_open()?;
        self.check_head(&request)?;
        let Agreed { scheme, authority } = agreement::agree(&request, &self.bound)?;
        subject.authority = Some(authority.clone());
        let request = self.judge_cleartext(scheme, &authority, subject, request)?;
        let pinned = self.pin(scheme, &authority, subject).await?;
        let key = Key {
            session: self.session.shared_id(),
            scheme,
            authority: authority.clone(),
            pinned,
            generation: self.engine.roots().generation,
        };
        let subject = Arc::new(subject.clone());
        let task = Task { lane: self, scheme, authority: &authority, key, subject };
        let (guard, upgrade) = match approved {
            Some(Approved { guard, upgrade }) => (Some(guard), upgrade),
            None => (None, None),
        };
        match upgrade.filter(|_| request.version() == Version::HTTP_11) {
            Some(pass) => websocket::open(&task, request, pass).await,
            None => Exchange::new(&task).run(request, guard.as_ref()).await,
        }
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
        let route = swap::Route {
            scheme,
            authority,
            correlation_id: &subject.correlation_id,
            upstream_version: Version::HTTP_11,
        };
        let (parts, body) = request.into_parts();
        swap::judge_head(self.session.table(), &route, &parts)?;
        Ok(Request::from_parts(parts, body))
    }

    /// What only HTTP/2 can bring this far: over HTTP/1 the guard has seen to it.
    fn check_head(&self, request: &Request<Incoming>) -> Result<(), Error> {
        if request.method() == Method::CONNECT {
            let detail = "a tunnel inside a tunnel".into();
            return Err(Error::with(Code::BadRequest, detail));
        }
        let fields = request.headers().len();
        if request.version() == Version::HTTP_2 && fields > self.engine.limits.head_fields {
            let detail = SafeText::default().and(fields).and(" fields");
            Err(Error::with(Code::HeadTooLarge, detail))
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
    ) -> Result<Pinned, Error> {
        if let Bound::To { pinned, .. } = &self.bound {
            return pinned.clone();
        }
        self.engine.check(&self.session, authority)?;
        let pinned = self.engine.dialer.pin(authority).await?;
        if scheme == Scheme::Http && !self.session.intercepts(&authority.host) {
            tunnel::record(&self.session, &subject.correlation_id, authority, "forwarded")?;
        }
        Ok(pinned)
    }
}

/// A refusal on its way to the client.
struct Refused {
    error: Error,
    /// It was found in a body that streamed, and logged there.
    logged: bool,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self { error, logged: false }
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
        Code::BadRequest | Code::HeadTooLarge | Code::HeadTimeout | Code::SessionEnded => {
            After::Close
        }
        _ => After::Keep,
    }
}

/// The method and the path without its query, as the agent sent them.
fn said_of(request: &Request<Incoming>) -> (String, String) {
    (request.method().as_str().to_owned(), request.uri().path().to_owned())
}
