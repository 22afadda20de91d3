//! The protocol over streamable HTTP, for the one agent that has the credential.
//!
//! Every request shows the bearer credential. `Host` must name this machine, and so must an `Origin`, which only
//! browsers send: a page that a person visits reaches nothing here, by a rebound name either. No TLS: it listens
//! on loopback alone.

mod events;
mod sessions;

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use ::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Full, Limited, combinators::BoxBody};
use hyper::{
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use keyless_core::{Code, Error, SafeText};
use keyless_sockets::{Accepting, Seat, Seats, UnderWay};
use rmcp::transport::{
    StreamableHttpServerConfig, StreamableHttpService,
    streamable_http_server::session::local::LocalSessionManager,
};
use subtle::ConstantTimeEq;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use self::{events::Events, sessions::Sessions};
use crate::{message, server::Server};

/// Where the endpoint is.
pub const HTTP_PATH: &str = "/mcp";
/// Connections at a time; one agent needs a few. Who has shown no credential gives way, so that those always come in.
const MAX_CONNECTIONS: usize = 64;
/// How long a head may take to arrive.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a session lasts in which nothing is said. A call that is under way says nothing, and may take ten minutes.
const IDLE_TIME: Duration = Duration::from_hours(1);
/// The largest request, in bytes.
const MAX_REQUEST: usize = 1024 * 1024;

/// Pages of this machine's own, such as an inspector's, under any port.
const OWN_ORIGINS: [&str; 3] = ["http://127.0.0.1:*", "http://[::1]:*", "http://localhost:*"];

type Endpoint = StreamableHttpService<Server, Sessions>;
type Answer = Response<BoxBody<Bytes, Infallible>>;
type Body = BoxBody<Bytes, hyper::Error>;

/// What a client shows to be served: `Authorization: Bearer …`.
pub struct Credential(String);

impl Credential {
    /// The credential `text`; [`Code::Usage`] when it is short enough to be guessed.
    pub fn new(text: String) -> Result<Self, Error> {
        if text.len() < 32 || !text.bytes().all(|b| b.is_ascii_graphic()) {
            let words = "a credential has at least 32 characters, and no spaces";
            return Err(Error::with(Code::Usage, SafeText::words(words)));
        }
        Ok(Self(text))
    }

    fn is_shown(&self, headers: &HeaderMap) -> bool {
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(only), None) = (shown.next(), shown.next()) else { return false };
        let Some((scheme, credential)) = only.to_str().ok().and_then(|text| text.split_once(' '))
        else {
            return false;
        };
        let same: bool = credential.trim().as_bytes().ct_eq(self.0.as_bytes()).into();
        scheme.eq_ignore_ascii_case("bearer") && same
    }
}

/// Fails with [`Code::Usage`] where others than this machine could connect: to be asked before anything listens.
pub fn refuse_others(address: SocketAddr) -> Result<(), Error> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    let words = "without TLS it serves this machine alone: listen on 127.0.0.1 or [::1]";
    Err(Error::with(Code::Usage, SafeText::words(words)))
}

/// Serves until the task is dropped. [`Code::Usage`] when others could reach the listener.
pub fn serve_http(
    server: Server,
    listener: TcpListener,
    credential: Credential,
) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(serve_listener(server, listener, credential))
}

async fn serve_listener(
    server: Server,
    listener: TcpListener,
    credential: Credential,
) -> Result<(), Error> {
    let address = listener.local_addr().map_err(|_| Error::from(Code::Internal))?;
    refuse_others(address)?;
    let mut config = StreamableHttpServerConfig::default().with_allowed_origins(OWN_ORIGINS);
    config.max_request_body_bytes = MAX_REQUEST;
    // Another address of the loopback network, say.
    config.allowed_hosts.push(address.ip().to_string());
    config.allowed_origins.push(format!("http://{}:*", url_host(address)));
    let mut sessions = LocalSessionManager::default().with_event_store(Arc::<Events>::default());
    sessions.session_config.keep_alive = Some(IDLE_TIME);
    let endpoint =
        Endpoint::new(move || Ok(server.clone()), Arc::new(Sessions::new(sessions)), config);
    let (endpoint, credential) = (Arc::new(endpoint), Arc::new(credential));
    let seats = Seats::of(MAX_CONNECTIONS);
    let (mut accepting, mut serving) = (Accepting::at(listener), JoinSet::new());
    loop {
        let (stream, _) = tokio::select! {
            arrived = accepting.next() => arrived,
            Some(_) = serving.join_next() => continue,
        };
        let taken = seats.wait(None).await;
        let (endpoint, credential) = (Arc::clone(&endpoint), Arc::clone(&credential));
        serving.spawn(async move {
            let seat = taken.seat();
            tokio::select! {
                () = serve_connection(stream, &endpoint, &credential, &seat) => {}
                () = taken.wanted() => {}
            }
        });
    }
}

/// An address as a URL has it.
fn url_host(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    }
}

async fn serve_connection(
    stream: TcpStream,
    endpoint: &Endpoint,
    credential: &Credential,
    seat: &Arc<Seat>,
) {
    let service = service_fn(async |request: Request<Incoming>| {
        Ok::<_, Infallible>(answer(request, endpoint, credential, seat).await)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    // Whoever breaks off has nobody left to be told.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    endpoint: &Endpoint,
    credential: &Credential,
    seat: &Arc<Seat>,
) -> Answer {
    if !credential.is_shown(request.headers()) {
        return refusal(StatusCode::UNAUTHORIZED, "the bearer credential is missing or wrong");
    }
    seat.note_known();
    let under_way = seat.begin();
    let answer = answer_known(request, endpoint).await;
    answer.map(|body| Lasting { body, _under_way: under_way }.boxed())
}

/// A body that is under way until it ends, as a stream of events is.
struct Lasting {
    body: BoxBody<Bytes, Infallible>,
    _under_way: UnderWay,
}

impl HttpBody for Lasting {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn answer_known(request: Request<Incoming>, endpoint: &Endpoint) -> Answer {
    if request.uri().path() != HTTP_PATH {
        return refusal(StatusCode::NOT_FOUND, "the endpoint is /mcp");
    }
    match check_message(request).await {
        Ok(request) => endpoint.handle(request).await,
        Err(answer) => answer,
    }
}

/// What is no message is answered by the rules of JSON-RPC before the SDK sees it.
async fn check_message(request: Request<Incoming>) -> Result<Request<Body>, Answer> {
    let (head, body) = request.into_parts();
    let is_json = |kind: &header::HeaderValue| kind.as_bytes().starts_with(b"application/json");
    if head.method != Method::POST || !head.headers.get(header::CONTENT_TYPE).is_some_and(is_json) {
        return Ok(Request::from_parts(head, body.boxed()));
    }
    let Ok(body) = Limited::new(body, MAX_REQUEST).collect().await else {
        let words = "the request is longer than 1 MiB, or broke off";
        return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, words));
    };
    let body = body.to_bytes();
    match message::check(&body) {
        Ok(()) => {
            Ok(Request::from_parts(head, Full::new(body).map_err(|none| match none {}).boxed()))
        }
        // There is no answer to it in the protocol's words.
        Err(_) if message::is_notification(&body) => {
            Err(refusal(StatusCode::BAD_REQUEST, "the notification can't be read"))
        }
        Err(answer) => {
            let mut response = Response::new(Full::new(Bytes::from(answer)).boxed());
            *response.status_mut() = StatusCode::BAD_REQUEST;
            let json = header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            Err(response)
        }
    }
}

fn refusal(status: StatusCode, words: &'static str) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from_static(words.as_bytes())).boxed());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain"));
    if status == StatusCode::UNAUTHORIZED {
        // Who has no credential sends nothing more on it, and can't keep it by leaving answers unread.
        headers.insert(header::CONNECTION, header::HeaderValue::from_static("close"));
        let realm = header::HeaderValue::from_static("Bearer realm=\"keyless\"");
        headers.insert(header::WWW_AUTHENTICATE, realm);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_served() {
        for (address, ours) in [
            ("127.0.0.1:0", true),
            ("127.9.9.9:80", true),
            ("[::1]:8080", true),
            ("0.0.0.0:0", false),
            ("[::]:0", false),
            ("192.0.2.7:8080", false),
            ("[::ffff:192.0.2.7]:1", false),
            ("[fe80::1]:1", false),
        ] {
            assert_eq!(refuse_others(address.parse().unwrap()).is_ok(), ours, "{address}");
        }
    }

    #[test]
    fn one_right_credential_is_taken() {
        let word = "0123456789abcdef0123456789abcdef";
        let credential = Credential::new(word.to_owned()).unwrap();
        let shown = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::AUTHORIZATION, line.parse().unwrap());
            }
            credential.is_shown(&headers)
        };
        let right = format!("Bearer {word}");
        assert!(shown(&[&right]) && shown(&[&format!("bearer {word}")]));
        for wrong in
            [&[][..], &[word], &["Bearer x"], &[&right, &right], &[&format!("Basic {word}")]]
        {
            assert!(!shown(wrong), "{wrong:?}");
        }
        assert!(Credential::new("short".to_owned()).is_err());
    }
}
