//! NL over HTTP: the routes of chapter 08, on this machine alone or over TLS.
//!
//! `Host` must name this machine where there is no TLS, and an `Origin`, which only browsers send, is
//! refused. Whatever is answered is JSON with the protocol's own type and its rate headers.

mod caching;
mod route;

use std::{convert::Infallible, net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version, header,
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use keyless_core::{
    Code, SafeText,
    action::AgentClaim,
    nl_message::{
        Clock, MAX_MESSAGE_BYTES, MEDIA_TYPE, Message, MessageType, Named, NlFault, Shape,
    },
};
use keyless_egress::ServerTls;
use keyless_sockets::{Accepting, Seat, Seats};
use serde_json::{Map, Value};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use zeroize::Zeroizing;

use self::route::{Query, Route, route};
use super::{
    answer::{Answered, refused},
    apart::{SMALL, Weight, apart},
    caller::{Presented, Standing},
    rates::Door,
    service::NlService,
};

/// Connections at a time.
const MAX_CONNECTIONS: usize = 256;
/// How long a head may take to arrive.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How large a head may be. What is far larger, or has more than 100 fields, the library refuses, without a body.
const MAX_HEAD: usize = 64 * 1024;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

type Answer = Response<Full<Bytes>>;

/// What the listener is.
#[derive(Clone)]
pub(crate) struct Listening {
    /// TLS, if it speaks that.
    pub(crate) tls: Option<Arc<ServerTls>>,
    /// Whether discovery is answered though there is no TLS (C-06).
    pub(crate) plain_discovery: bool,
}

/// Serves until the task is dropped.
pub(crate) async fn serve(service: Arc<NlService>, listener: TcpListener, listening: Listening) {
    let seats = Seats::of(MAX_CONNECTIONS);
    let mut accepting = Accepting::at(listener);
    loop {
        let (stream, peer) = accepting.next().await;
        let taken = seats.wait(None).await;
        let (service, listening) = (Arc::clone(&service), listening.clone());
        tokio::spawn(async move {
            let client = Client { peer: peer.ip(), seat: taken.seat() };
            let serving = async {
                match listening.tls.clone() {
                    None => serve_connection(service, stream, &client, &listening).await,
                    Some(tls) => {
                        let shaken = tokio::time::timeout(HEAD_TIME, tls.accept(stream)).await;
                        if let Ok(Ok(stream)) = shaken {
                            serve_connection(service, stream, &client, &listening).await;
                        }
                    }
                }
            };
            tokio::select! {
                () = serving => {}
                () = taken.wanted() => {}
            }
        });
    }
}

/// Who is connected.
struct Client {
    peer: IpAddr,
    seat: Arc<Seat>,
}

async fn serve_connection(
    service: Arc<NlService>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: &Client,
    listening: &Listening,
) {
    let answering = service_fn(|request: Request<Incoming>| {
        let service = Arc::clone(&service);
        async move { Ok::<_, Infallible>(answer(service, request, client, listening).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    // Whoever breaks off has nobody left to be told.
    let _ = http.serve_connection(TokioIo::new(stream), answering).await;
}

async fn answer(
    service: Arc<NlService>,
    request: Request<Incoming>,
    client: &Client,
    listening: &Listening,
) -> Answer {
    let id = request.headers().get("x-nl-request-id").cloned();
    let path = request.uri().path().to_owned();
    let asked = caching::asked(request.headers());
    let counted = check_head(&request).and_then(|()| refuse_pages(request.headers(), listening));
    let door = route::door(&path);
    let answered = match counted.and_then(|()| service.count_address(client.peer, door)) {
        Ok(rate) => {
            let done = dispatch(&service, request, client, listening).await;
            let mut answered = done.unwrap_or_else(refused_unread);
            // Whoever is nobody has the address's window alone.
            answered.rate = answered.rate.or(Some(rate));
            answered
        }
        Err(fault) => refused_unread(fault),
    };
    let mut answer = rendered(&answered, id);
    if answered.status == 405
        && let Ok(methods) = HeaderValue::from_str(&route::methods(&path).join(", "))
    {
        answer.headers_mut().insert(header::ALLOW, methods);
    }
    if answered.status == 401 {
        let scheme = HeaderValue::from_static("Bearer realm=\"nl\"");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    }
    if listening.tls.is_some() {
        let always = HeaderValue::from_static("max-age=31536000");
        answer.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, always);
    }
    if let Some(delay) = service.pressure() {
        let milliseconds = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        answer.headers_mut().insert("x-nl-backpressure", HeaderValue::from_static("true"));
        answer.headers_mut().insert("x-nl-suggested-delay-ms", milliseconds.into());
    }
    if door == Door::Discovery && answered.status == 200 {
        return caching::kept(answer, answered.body.to_string().as_bytes(), asked.as_ref());
    }
    answer
}

async fn dispatch(
    service: &Arc<NlService>,
    request: Request<Incoming>,
    client: &Client,
    listening: &Listening,
) -> Result<Answered, NlFault> {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let found =
        route(asked_as(&method), uri.path()).ok_or_else(|| no_route(&method, uri.path()))?;
    let (kind, mut more) = match found {
        Route::Discovery if !listening.plain_discovery && listening.tls.is_none() => {
            return Err(plain_discovery());
        }
        Route::Health => return Ok(service.health()),
        Route::Message { kind, payload } => (kind, payload),
        Route::Discovery => (MessageType::DiscoveryRequest, Map::new()),
    };
    // Of two senders it is nobody's to say whose the message is.
    said_once(request.headers(), &OF_SENDER)?;
    let asked = route::query(uri.query().unwrap_or_default());
    let presented = presented(request.headers(), &asked, client.peer);
    let sender = of_sender(request.headers());
    let once = said_once(request.headers(), &OF_BODY)
        .and_then(|()| asked_once(&asked, &more))
        .and_then(|()| known(&asked, kind));
    if let Err(fault) = once {
        let said = (kind, Named::default());
        return Ok(service.refuse_unread(Some(&presented), said, fault, Shape::Bare).await);
    }
    let message = if method == Method::POST {
        let read = match body_of(request).await {
            // Who shows nothing is nobody whatever it says, and so much of it is not looked at.
            Ok(body) if body.len() > SMALL && presented.credential.is_none() => {
                Err((Code::AgentUnknown.into(), Box::default()))
            }
            Ok(body) => read(body, (kind, sender), service.clock()).await,
            Err(fault) => Err((fault, Box::default())),
        };
        match read {
            Ok(mut message) => {
                message.payload.append(&mut more);
                message
            }
            Err((fault, named)) => {
                let said = (kind, *named);
                return Ok(service.refuse_unread(Some(&presented), said, fault, Shape::Bare).await);
            }
        }
    } else {
        if kind != MessageType::DiscoveryRequest {
            names_its_sender(&presented, request.headers())?;
        }
        more.extend(asked.members);
        Message { shape: Shape::Bare, kind, id: None, payload: more }
    };
    let _under_way = client.seat.begin();
    Ok(service.answer(Arc::new(presented), message).await)
}

/// The refusal of what was not read, or is not there.
fn refused_unread(fault: NlFault) -> Answered {
    refused(fault, Named::default(), Shape::Bare)
}

async fn body_of(request: Request<Incoming>) -> Result<Bytes, NlFault> {
    let typed = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let essence = typed.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let mut parameters = typed.unwrap_or_default().split(';').skip(1).map(str::trim);
    let is_utf8 = parameters.all(|parameter| {
        let charset =
            parameter.split_once('=').filter(|(name, _)| name.eq_ignore_ascii_case("charset"));
        charset.is_none_or(|(_, name)| name.trim_matches('"').eq_ignore_ascii_case("utf-8"))
    });
    let is_known =
        [MEDIA_TYPE, "application/json"].iter().any(|known| essence.eq_ignore_ascii_case(known));
    let is_encoded = request.headers().contains_key(header::CONTENT_ENCODING);
    if !is_known || !is_utf8 || is_encoded {
        return Err(Code::MediaTypeUnsupported.into());
    }
    let body = Limited::new(request.into_body(), MAX_MESSAGE_BYTES).collect();
    let body = tokio::time::timeout(BODY_TIME, body).await.map_err(|_| {
        let words = SafeText::words("the body did not arrive in time");
        NlFault::new(Code::MessageMalformed, words)
    })?;
    let body = body.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            NlFault::from(Code::MessageTooLarge).with("max_bytes", MAX_MESSAGE_BYTES)
        } else {
            NlFault::new(Code::MessageMalformed, SafeText::words("the body ended too soon"))
        }
    })?;
    Ok(body.to_bytes())
}

/// The message of this kind that a body is, of this sender by its head; else why not, and what it says of itself.
async fn read(
    body: Bytes,
    (kind, sender): (MessageType, Sender),
    clock: Clock,
) -> Result<Message, (NlFault, Box<Named>)> {
    let weight = Weight::of_bytes(body.len());
    let reading = move || {
        let read = Message::read(&body, kind, clock).and_then(|message| {
            if message.kind == kind {
                sender.check(&message.payload)?;
                return Ok(message);
            }
            let words = SafeText::words("this address takes another type of message");
            Err(NlFault::new(Code::MessageTypeUnknown, words).with("expected", kind.as_str()))
        });
        read.map_err(|fault| (fault, Box::new(Named::read(&body))))
    };
    apart(weight, reading).await.unwrap_or_else(|fault| Err((fault, Box::default())))
}

/// `HEAD` is answered as `GET`, of which the library leaves the body away.
fn asked_as(method: &Method) -> &str {
    if method == Method::HEAD { "GET" } else { method.as_str() }
}

/// Refuses what nothing of is read: a head that is too large, and one that names no host, or two (RFC 9112, 3.2).
fn check_head(request: &Request<Incoming>) -> Result<(), NlFault> {
    let headers = request.headers();
    let field = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
    let line = request.uri().to_string().len();
    if line + headers.iter().map(field).sum::<usize>() > MAX_HEAD {
        let fault = NlFault::from(Code::HeadTooLarge).with("max_bytes", MAX_HEAD);
        return Err(fault.at_status(431));
    }
    let hosts = headers.get_all(header::HOST).iter().count();
    if hosts > 1 || (hosts == 0 && request.version() >= Version::HTTP_11) {
        let words = SafeText::words("a request has one Host, and this one has ").and(hosts);
        return Err(NlFault::new(Code::MessageMalformed, words));
    }
    Ok(())
}

/// A page that a person visits reaches nothing here, by a rebound name either.
fn refuse_pages(headers: &HeaderMap, listening: &Listening) -> Result<(), NlFault> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let here = host.trim_matches(['[', ']']);
    let loopback = here.eq_ignore_ascii_case("localhost")
        || here.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    // Over TLS the certificate says which names are ours.
    let is_ours = loopback || listening.tls.is_some();
    if is_ours && !headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    let words = SafeText::words("this is for programs on this machine, not for web pages");
    Err(NlFault::new(Code::AuthorityMismatch, words))
}

/// The headers that say who sends a message.
const OF_SENDER: [&str; 4] =
    ["authorization", "x-nl-agent-uri", "x-nl-attestation", "x-nl-instance-id"];
/// Those that say what it is.
const OF_BODY: [&str; 2] = ["content-type", "x-nl-request-id"];

/// Whether each of these headers stands there once at most: whatever lies between may have read another one than is read
/// here.
fn said_once(headers: &HeaderMap, names: &[&'static str]) -> Result<(), NlFault> {
    let twice = names.iter().find(|name| headers.get_all(**name).iter().nth(1).is_some());
    twice.map_or(Ok(()), |name| Err(said_twice("header", name)))
}

fn said_twice(what: &'static str, name: &str) -> NlFault {
    let words = SafeText::words("the ").and(what).and(" ").as_they_wrote(name);
    let words = words.and(" is there more than once; send it once");
    NlFault::new(Code::MessageMalformed, words)
}

/// Whether a query says each thing once, and nothing that the path has said.
fn asked_once(asked: &Query, of_path: &Map<String, Value>) -> Result<(), NlFault> {
    let again = || asked.members.keys().find(|name| of_path.contains_key(*name));
    let twice = asked.repeated.as_ref().or_else(again);
    twice.map_or(Ok(()), |name| Err(said_twice("parameter", name)))
}

/// Who the head says sends a message, as far as it does.
struct Sender {
    agent_uri: Option<String>,
    instance_id: Option<String>,
}

fn of_sender(headers: &HeaderMap) -> Sender {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let text = |name: &str| text(name).map(ToOwned::to_owned);
    Sender { agent_uri: text("x-nl-agent-uri"), instance_id: text("x-nl-instance-id") }
}

impl Sender {
    /// Whether the body says the same: whoever reads the head alone must not take the message for another's.
    fn check(&self, payload: &Map<String, Value>) -> Result<(), NlFault> {
        let said = |key: &str| payload.get("agent")?.get(key)?.as_str();
        for (header, shown, key) in [
            ("X-NL-Agent-URI", &self.agent_uri, "agent_uri"),
            ("X-NL-Instance-ID", &self.instance_id, "instance_id"),
        ] {
            if let (Some(shown), Some(said)) = (shown, said(key))
                && shown != said
            {
                let words = SafeText::words(header).and(" and agent.").and(key);
                let words = words
                    .and(" of the body name two agents; say who sends it once, or twice the same");
                return Err(NlFault::new(Code::MessageMalformed, words).with("header", header));
            }
        }
        Ok(())
    }
}

/// Whether a question about the log or about rotations has only parameters that there are: one that is mistyped would bound
/// nothing.
fn known(asked: &Query, kind: MessageType) -> Result<(), NlFault> {
    let names: &[&str] = match kind {
        MessageType::AuditQuery => &[
            "agent_uri",
            "target",
            "from",
            "to",
            "correlation_id",
            "result",
            "platform",
            "page",
            "page_size",
            "instance_id",
        ],
        MessageType::RotationNotification => &["since", "secrets", "agent_uri", "instance_id"],
        _ => return Ok(()),
    };
    let stranger = asked.members.keys().find(|name| !names.contains(&name.as_str()));
    stranger.map_or(Ok(()), |name| {
        let words = SafeText::words("there is no parameter ").as_they_wrote(name);
        Err(NlFault::new(Code::MessageMalformed, words).with("parameters", names))
    })
}

fn presented(headers: &HeaderMap, query: &Query, peer: IpAddr) -> Presented {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let credential = text("authorization").and_then(|line| line.split_once(' '));
    let credential = credential.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let credential = credential.map(|(_, word)| Zeroizing::new(word.trim().to_owned()));
    let said = |header: &str, key: &str| {
        let asked = query.members.get(key).and_then(Value::as_str);
        text(header).or(asked).map(ToOwned::to_owned)
    };
    let claim = said("x-nl-agent-uri", "agent_uri").zip(said("x-nl-instance-id", "instance_id"));
    let claim = claim.map(|(agent_uri, instance_id)| AgentClaim {
        agent_uri,
        instance_id,
        attestation: None,
    });
    let attestation = text("x-nl-attestation").map(ToOwned::to_owned);
    let standing = Standing::Stranger;
    Presented { source_ip: Some(peer), credential, claim, attestation, standing }
}

/// Without a body the head alone says who sends it; which header is missing is told.
fn names_its_sender(presented: &Presented, headers: &HeaderMap) -> Result<(), NlFault> {
    if presented.credential.is_none() || presented.claim.is_some() {
        return Ok(());
    }
    let each = [
        ("X-NL-Agent-URI", "the agent's URI, nl://vendor/type/version"),
        ("X-NL-Instance-ID", "the instance's UUID, instance_id of what registering the agent gave"),
    ];
    let missing = each.iter().find(|(name, _)| !headers.contains_key(*name)).unwrap_or(&each[0]);
    let words = SafeText::words("the header ").and(missing.0).and(" is missing: ").and(missing.1);
    Err(NlFault::new(Code::MessageMalformed, words).with("header", missing.0))
}

fn plain_discovery() -> NlFault {
    let words = SafeText::words(
        "discovery is not answered without TLS; send discovery_request over the socket or stdio",
    );
    NlFault::new(Code::TransportUnfit, words).with("use", "discovery_request")
}

fn no_route(method: &Method, path: &str) -> NlFault {
    let words = SafeText::words("there is no ").as_they_wrote(method.as_str()).and(" ");
    let fault = NlFault::new(Code::MessageTypeUnknown, words.as_they_wrote(path));
    let methods = route::methods(path);
    let suggestion = SafeText::words("Use an address of the discovery document.");
    if methods.is_empty() {
        fault.at_status(404).suggesting(suggestion)
    } else {
        fault.at_status(405).with("methods", methods)
    }
}

fn rendered(answered: &Answered, id: Option<HeaderValue>) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(answered.body.to_string())));
    *response.status_mut() =
        StatusCode::from_u16(answered.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let own = answered.body["request_id"].as_str().map(ToOwned::to_owned);
    let own = own.unwrap_or_else(super::answer::message_id);
    let id = id.or_else(|| HeaderValue::from_str(&own).ok());
    if let Some(id) = id {
        headers.insert("x-nl-request-id", id);
    }
    if let Some(seconds) = answered.retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    if let Some(rate) = answered.rate {
        let now = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default();
        let lines = [
            ("x-nl-ratelimit-limit", u64::from(rate.limit)),
            ("x-nl-ratelimit-remaining", u64::from(rate.remaining)),
            // A point in time, in seconds since 1970 (chapter 08, 9.2).
            ("x-nl-ratelimit-reset", now.saturating_add(rate.reset)),
        ];
        for (name, number) in lines {
            headers.insert(HeaderName::from_static(name), number.into());
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };

    use super::*;
    use crate::nl::scene::Served;

    #[test]
    fn discovery_without_tls_is_refused_in_its_own_words() {
        let fault = plain_discovery();
        assert_eq!(fault.status(), 421);
        let told = fault.error().message();
        assert!(told.contains("TLS") && !told.contains("another host"), "{told}");
    }

    #[test]
    fn who_names_no_agent_is_told_which_header_does() {
        let told = |shown: &[(&'static str, &str)]| {
            let shown = shown.iter().map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
            });
            let headers: HeaderMap = shown.collect();
            let presented = presented(&headers, &route::query(""), IpAddr::from([127, 0, 0, 1]));
            let fault = names_its_sender(&presented, &headers).err();
            fault.map(|fault| fault.details()["header"].as_str().unwrap_or_default().to_owned())
        };
        let credential = ("authorization", "Bearer nlk_x");
        let uri = ("x-nl-agent-uri", "nl://acme.corp/a/1.0.0");
        let instance = ("x-nl-instance-id", "550e8400-e29b-41d4-a716-446655440000");
        assert_eq!(told(&[credential]).as_deref(), Some("X-NL-Agent-URI"));
        assert_eq!(told(&[credential, uri]).as_deref(), Some("X-NL-Instance-ID"));
        assert_eq!(told(&[credential, uri, instance]), None);
        // Who shows nothing is nobody, which is another matter.
        assert_eq!(told(&[uri]), None);
    }

    /// What a head is answered, on a connection of its own.
    async fn told(head: &str) -> String {
        let served = Served::new().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let listening = Listening { tls: None, plain_discovery: false };
        tokio::spawn(serve(Arc::clone(&served.nl), listener, listening));
        let mut agent = TcpStream::connect(address).await.unwrap();
        agent.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        agent.read_to_string(&mut answer).await.unwrap();
        answer.to_ascii_lowercase()
    }

    fn get(path: &str, more: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}Connection: close\r\n\r\n")
    }

    #[tokio::test]
    async fn a_request_names_one_host() {
        let twice = get("/nl/v1/health", "Host: localhost\r\n");
        let none = get("/nl/v1/health", "").replace("Host: localhost\r\n", "");
        for head in [twice, none] {
            let told = told(&head).await;
            assert!(told.starts_with("http/1.1 400 "), "{told}");
            assert!(told.contains("nl-e800") && told.contains("one host"), "{told}");
        }
    }

    #[tokio::test]
    async fn a_head_has_so_many_bytes() {
        let told = async |bytes| {
            told(&get("/nl/v1/health", &format!("X: {}\r\n", "a".repeat(bytes)))).await
        };
        let large = told(MAX_HEAD).await;
        assert!(large.starts_with("http/1.1 431 ") && large.contains("nl-e803"), "{large}");
        let fitting = told(MAX_HEAD - 200).await;
        assert!(fitting.starts_with("http/1.1 200 "), "{fitting}");
    }

    #[tokio::test]
    async fn who_asks_for_the_head_alone_gets_it() {
        let head = get("/nl/v1/health", "").replacen("GET", "HEAD", 1);
        let told = told(&head).await;
        assert!(told.starts_with("http/1.1 200 ") && told.ends_with("\r\n\r\n"), "{told}");
        assert!(route::methods("/nl/v1/health").contains(&"HEAD"));
    }

    #[tokio::test]
    async fn who_is_nobody_is_told_how_to_be_somebody() {
        let told = told(&get("/nl/v1/rotations", "")).await;
        assert!(told.starts_with("http/1.1 401 "), "{told}");
        assert!(told.contains("\r\nwww-authenticate: bearer realm=\"nl\"\r\n"), "{told}");
    }

    #[test]
    fn a_parameter_that_is_mistyped_does_not_widen_a_question() {
        let asked = |text: &str| known(&route::query(text), MessageType::AuditQuery).is_ok();
        assert!(asked("target=t/api/token&page_size=5") && asked(""));
        assert!(!asked("targett=t/api/token") && !asked("since=2026-01-01T00:00:00Z"));
    }

    #[test]
    fn head_and_body_name_one_sender() {
        let body = json!({ "agent": { "agent_uri": "nl://a.test/a/1.0.0", "instance_id": "i-1" } });
        let refused = |agent_uri: Option<&str>, instance_id: Option<&str>| {
            let own = |text: Option<&str>| text.map(ToOwned::to_owned);
            let sender = Sender { agent_uri: own(agent_uri), instance_id: own(instance_id) };
            sender
                .check(body.as_object().unwrap())
                .err()
                .map(|fault| fault.details()["header"].clone())
        };
        assert_eq!(refused(None, None), None);
        assert_eq!(refused(Some("nl://a.test/a/1.0.0"), Some("i-1")), None);
        assert_eq!(refused(Some("nl://b.test/b/1.0.0"), None), Some("X-NL-Agent-URI".into()));
        assert_eq!(
            refused(Some("nl://a.test/a/1.0.0"), Some("i-2")),
            Some("X-NL-Instance-ID".into())
        );
    }

    #[tokio::test]
    async fn who_only_sits_there_keeps_no_agent_out() {
        let served = Served::new().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let listening = Listening { tls: None, plain_discovery: false };
        tokio::spawn(serve(Arc::clone(&served.nl), listener, listening));
        let mut idle = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let mut agent = TcpStream::connect(address).await.unwrap();
        let head = b"GET /nl/v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        agent.write_all(head).await.unwrap();
        let mut answer = Vec::new();
        agent.read_to_end(&mut answer).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 "), "{answer:?}");
        // The oldest has given way to it, and the next is still there.
        assert_eq!(idle[0].read(&mut [0]).await.unwrap(), 0);
        let next = idle[1].try_read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(next, Err(std::io::ErrorKind::WouldBlock));
    }
}
