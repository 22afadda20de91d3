//! A request over a pooled connection, and its answer.

use std::{
    error::Error as StdError,
    io::{self, ErrorKind},
    iter::successors,
    mem,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header,
    uri::{PathAndQuery, Scheme as UriScheme},
};
use http_body::Body;
use http_body_util::BodyExt as _;
use keyless_core::{Authority, Code, Error, Scheme};
use tokio::time::sleep;

use super::{
    AnswerBody, Refused, Task,
    body::{Nothing, Verdict, Watched},
    hold::Hold,
    hop,
    interim::{self, Line},
    renewal::Again,
    seal::{self, Sealed, Sealing},
    upload::{Progress, Upload, has_use_for_body},
};
use crate::{
    account::Account,
    incoming::Incoming,
    pool::{Connection, Means, OutgoingBody, Wanted},
    scrub,
    swap::{self, Route},
};

/// How long a request that nobody took waits before it is sent again, each time. nginx ends a connection after 1,000 requests,
/// and refuses what comes in before its settings were heard; longer than this, the destination has too much to do.
const PAUSES_MS: [u64; 8] = [0, 0, 20, 50, 100, 200, 400, 800];

/// One request and its answer.
pub(super) struct Exchange<'a> {
    task: &'a Task<'a>,
    verdict: Verdict,
    /// Where interim answers go, if the client understands them.
    line: Option<Line>,
    /// Of the body that is on its way over HTTP/1.1, if there is one.
    upload: Option<Progress>,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(task: &'a Task<'a>) -> Self {
        Self { task, verdict: Verdict::default(), line: None, upload: None }
    }

    /// Sends the request and makes the answer.
    pub(super) async fn run(
        mut self,
        mut request: Request<Incoming>,
        line: Line,
    ) -> Result<Response<AnswerBody>, Refused> {
        let method = request.method().clone();
        let client = request.version();
        self.line = Some(line).filter(|_| interim::is_understood(client));
        hop::strip_request(request.headers_mut(), client);
        let sealing = seal::sealing(self.task, &request)?;
        let again = Again::keep(self.task, &request);
        let mut hold = Hold::on(self.task)?;
        let account = Arc::clone(hold.account());
        let asking = async {
            let mut connection = self.connect(Wanted::Any).await?;
            let request = self.prepare(request, connection.version(), &account).await?;
            let _unread = sealing.as_ref().map(|_| self.task.minting.begin());
            let mut response = self.send(&mut connection, request).await?;
            if let Some(again) = again
                && let Some(request) = Box::pin(again.after(self.task, &response)).await
            {
                (response, connection) = Box::pin(self.once_more(request, &account)).await?;
            }
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                let detail = "it switched protocols unasked".into();
                return Err(Error::with(Code::UpstreamProtocol, detail).into());
            }
            let response = self.take(response, &mut connection, &account, sealing).await?;
            Ok::<_, Refused>((response, connection))
        };
        let (response, connection) = hold.during(pin!(asking)).await?;
        self.finish(&method, response, connection, hold).await
    }

    /// Cleans an answer's head, and reads it where it may hold tokens that some secret has sealed.
    pub(super) async fn take(
        &self,
        mut response: Response<Incoming>,
        connection: &mut Connection,
        account: &Account,
        sealing: Option<Sealing>,
    ) -> Result<Response<Sealed>, Refused> {
        account.answered(response.status());
        hop::check_transfer_coding(response.headers())?;
        hop::strip_response(response.headers_mut());
        let status = response.status();
        hop::settle_length(status, response.headers_mut())?;
        match sealing {
            Some(sealing) => {
                let sealing = Box::pin(seal::seal(self.task, sealing, response));
                Ok(connection.during(pin!(sealing)).await?)
            }
            None => Ok(response.map(Sealed::Untouched)),
        }
    }

    /// Sends a request whose token was renewed after a refusal.
    async fn once_more<B>(
        &mut self,
        request: Request<B>,
        account: &Arc<Account>,
    ) -> Result<(Response<Incoming>, Connection), Refused>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        let mut connection = self.connect(Wanted::Any).await?;
        let request = self.prepare(request, connection.version(), account).await?;
        let response = self.send(&mut connection, request).await?;
        Ok((response, connection))
    }

    pub(super) async fn connect(&self, wanted: Wanted) -> Result<Connection, Error> {
        let engine = &self.task.lane.engine;
        let roots = engine.roots();
        let reach = engine.reach();
        let identity = self.task.identity.as_ref();
        let means = Means { dialer: &reach.dialer, roots: &roots, identity };
        engine.pool.get(&self.task.key, wanted, &means).await
    }

    /// Makes the request fit the connection's version, and swaps.
    pub(super) async fn prepare<B>(
        &mut self,
        mut request: Request<B>,
        upstream: Version,
        account: &Arc<Account>,
    ) -> Result<Request<OutgoingBody>, Refused>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        fit(&mut request, upstream, self.task.scheme, self.task.authority)?;
        let route = self.route(upstream);
        let mut swapped = swap::swap_request(&self.task.table, &route, request).await?;
        self.upload = None;
        if swapped.body().is_end_stream() {
            return Ok(swapped.map(|body| Nothing(body.size_hint()).boxed_unsync()));
        }
        keep_body(&mut swapped);
        let watched =
            swapped.map(|body| Watched::new(body, self.verdict.clone()).of_request(account));
        if upstream == Version::HTTP_2 {
            return Ok(watched.map(Watched::boxed_unsync));
        }
        let (request, progress) = Upload::of(watched);
        self.upload = Some(progress);
        Ok(request.map(Upload::boxed_unsync))
    }

    /// Sends, and again over new connections while those that were there did not take the request: a kept one had died, or
    /// the destination says that it did nothing with it. Many servers end a kept connection without a word,
    /// and what is sent over it at that moment is lost: a request that changes nothing is sent once more (RFC 9110, section
    /// 9.2.2).
    pub(super) async fn send(
        &mut self,
        connection: &mut Connection,
        mut request: Request<OutgoingBody>,
    ) -> Result<Response<Incoming>, Refused> {
        for pause in PAUSES_MS.map(Duration::from_millis) {
            let spare = if connection.may_be_over() { spare(&request) } else { None };
            let failure = match connection.send(request, self.interim()).await {
                Ok(response) => return Ok(self.answered(connection, response)),
                Err(failure) => failure,
            };
            request = match (failure.unsent, spare) {
                (Some(unsent), _) => *unsent,
                (None, Some(spare)) if failure.is_end => spare,
                (None, _) => return Err(self.unanswered(failure.error)),
            };
            if !pause.is_zero() {
                sleep(pause).await;
            }
            let fresh = self.connect(connection.another()).await?;
            // A request is written for one version; a destination seldom changes its mind.
            if fresh.version() != connection.version() {
                return Err(self.unanswered(failure.error));
            }
            *connection = fresh;
        }
        match connection.send(request, self.interim()).await {
            Ok(response) => Ok(self.answered(connection, response)),
            Err(failure) => Err(self.unanswered(failure.error)),
        }
    }

    /// Decides by an answer's head whether its connection may serve another request.
    fn answered<B>(&self, connection: &mut Connection, response: Response<B>) -> Response<B> {
        let status = response.status();
        if self.upload.as_ref().is_some_and(|upload| !upload.answered(status)) {
            connection.ends_with_answer();
        }
        response
    }

    fn unanswered(&self, error: Error) -> Refused {
        match self.verdict.refusal() {
            Some(error) => Refused::logged(error),
            None => error.into(),
        }
    }

    /// Scrubs the answer.
    pub(super) async fn finish(
        &self,
        method: &Method,
        response: Response<Sealed>,
        mut connection: Connection,
        mut hold: Hold,
    ) -> Result<Response<AnswerBody>, Refused> {
        let route = self.route(connection.version());
        // A small body is read whole here.
        let (table, taken) = (&self.task.table, hold.account().taken());
        let scrubbing =
            async { Ok(scrub::scrub_response(table, &route, method, response, &taken).await?) };
        let scrubbing = pin!(scrubbing);
        let response = hold.during(pin!(connection.during(scrubbing))).await?;
        if scrub::is_bodiless(method, response.status()) {
            return Ok(response.map(|body| Nothing(body.size_hint()).boxed_unsync()));
        }
        let (parts, body) = response.into_parts();
        let mut body = Watched::new(body, self.verdict.clone()).held_by(hold);
        if let Some(Err(error)) = connection.at_once(|cx| body.poll_begin(cx)).await {
            return Err(self.broken(&*error));
        }
        let source = Some(connection).filter(Connection::is_busy).map(Connection::let_go);
        Ok(Response::from_parts(parts, body.over(source).boxed_unsync()))
    }

    /// Why there is no answer, where its body broke before anything of it was sent.
    fn broken(&self, error: &(dyn StdError + 'static)) -> Refused {
        if let Some(error) = self.verdict.refusal() {
            return Refused::logged(error);
        }
        let kind = |error: &(dyn StdError + 'static)| {
            error.downcast_ref::<io::Error>().map(io::Error::kind)
        };
        let words = match successors(Some(error), |&error| error.source()).find_map(kind) {
            // As hyper has it.
            Some(ErrorKind::InvalidInput | ErrorKind::InvalidData) => {
                "the response's chunks can't be read"
            }
            _ => "the response broke off",
        };
        Error::with(Code::UpstreamProtocol, words.into()).into()
    }

    fn interim(&self) -> Option<impl Fn(StatusCode, &HeaderMap) + use<>> {
        let upload = self.upload.clone();
        let forward = self.line.as_ref().map(|line| interim::forward(self.task, line));
        let is_heard = upload.is_some() || forward.is_some();
        let hear = move |status, headers: &HeaderMap| {
            if let Some(upload) = upload.as_ref().filter(|_| status == StatusCode::CONTINUE) {
                upload.asked();
            }
            if let Some(forward) = &forward {
                forward(status, headers);
            }
        };
        is_heard.then_some(hear)
    }

    pub(super) fn route(&self, upstream_version: Version) -> Route<'a> {
        Route {
            scheme: self.task.scheme,
            authority: self.task.authority,
            correlation_id: &self.task.subject.correlation_id,
            upstream_version,
        }
    }
}

/// The same request once more, if it changes nothing and has no body.
fn spare(request: &Request<OutgoingBody>) -> Option<Request<OutgoingBody>> {
    let body = request.body();
    let changes_nothing = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !changes_nothing || !body.is_end_stream() {
        return None;
    }
    let mut again = Request::new(Nothing(body.size_hint()).boxed_unsync());
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.version_mut() = request.version();
    *again.headers_mut() = request.headers().clone();
    *again.extensions_mut() = request.extensions().clone();
    Some(again)
}

/// Puts target, `Host` and version into the form that the upstream's version has. The path and
/// query stay as they are, to the byte.
fn fit<B: Body>(
    request: &mut Request<B>,
    upstream: Version,
    scheme: Scheme,
    authority: &Authority,
) -> Result<(), Error> {
    // Of an empty one not even the slash would be written (RFC 9112, section 3.2.1).
    let path = request.uri().path_and_query().filter(|path| path.as_str() != "/").cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let mut target = http::uri::Parts::default();
    target.path_and_query = Some(path);
    let client = mem::replace(request.version_mut(), upstream);
    if upstream == Version::HTTP_2 {
        target.scheme = Some(match scheme {
            Scheme::Http => UriScheme::HTTP,
            Scheme::Https => UriScheme::HTTPS,
        });
        target.authority = Some(host_field(authority, scheme).parse().map_err(internal)?);
        request.headers_mut().remove(header::HOST);
    } else {
        ensure_host(request.headers_mut(), authority, scheme)?;
        hop::name_te(request.headers_mut());
        if client == Version::HTTP_2 {
            say_that_nothing_follows(request);
        }
    }
    *request.uri_mut() = Uri::from_parts(target).map_err(internal)?;
    Ok(())
}

/// HTTP/2 says by the end of a stream that there is no body; to a POST without a length over HTTP/1.1 some servers answer
/// 411 (RFC 9110, section 8.6).
fn say_that_nothing_follows<B: Body>(request: &mut Request<B>) {
    if has_use_for_body(request.method()) && request.body().is_end_stream() {
        let nothing = HeaderValue::from_static("0");
        request.headers_mut().entry(header::CONTENT_LENGTH).or_insert(nothing);
    }
}

/// Over HTTP/1.1 hyper leaves a GET's body away unless the head says that there is one.
fn keep_body<B: Body>(request: &mut Request<B>) {
    let body = request.body();
    let unsaid = !body.is_end_stream() && body.size_hint().exact().is_none();
    if request.version() == Version::HTTP_11 && unsaid {
        let chunked = HeaderValue::from_static("chunked");
        request.headers_mut().insert(header::TRANSFER_ENCODING, chunked);
    }
}

fn ensure_host(
    headers: &mut HeaderMap,
    authority: &Authority,
    scheme: Scheme,
) -> Result<(), Error> {
    if !headers.contains_key(header::HOST) {
        let value = HeaderValue::from_str(&host_field(authority, scheme)).map_err(internal)?;
        headers.insert(header::HOST, value);
    }
    Ok(())
}

/// The authority as a `Host` field has it, without the scheme's own port.
fn host_field(authority: &Authority, scheme: Scheme) -> String {
    if authority.port == scheme.default_port() {
        authority.host.to_string()
    } else {
        authority.to_string()
    }
}

fn internal<E>(_: E) -> Error {
    Error::with(Code::Internal, "the request could not be put together".into())
}
