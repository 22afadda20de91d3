//! One request of the broker's own: for a source of values, or to see whether a token works.
//!
//! The same names, zones, roots and routes as an agent's traffic; verified TLS, or nothing but this
//! machine; no redirects, so that a credential goes where it was meant to and nowhere else; one
//! connection per request, since such requests are rare.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    body::{Body as _, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use keyless_core::{Authority, Code, Error, Host, Scheme};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};

use crate::{
    Limits,
    dial::Dialer,
    engine::EngineConfig,
    tls::{self, Alpn, Roots, RootsError},
};

/// For everything from the name to the last byte of the answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends the broker's own requests.
pub struct Client {
    pub(crate) dialer: Dialer,
    pub(crate) roots: Roots,
    pub(crate) limits: Limits,
}

/// Whose word an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A catalog's: internal addresses are refused.
    Catalogs,
    /// The operator's own, for what holds no values: it may be inside, and cleartext will do.
    Collectors,
    /// The operator's own: it may be inside.
    Operators,
}

/// One request.
pub struct ClientRequest<'a> {
    /// Such as `GET`.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Names and values; values may be credentials.
    pub headers: Vec<(&'a str, &'a str)>,
    /// May hold values.
    pub body: &'a [u8],
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct ClientAnswer {
    /// The status.
    pub status: u16,
    /// Its media type, as the server said it.
    pub content_type: Option<String>,
    /// Its entity tag.
    pub etag: Option<String>,
    /// Every header that is text: names in lower case and values, which may be secrets.
    pub headers: Vec<(String, String)>,
    /// The body; may hold values, which the caller wipes.
    pub body: Vec<u8>,
}

impl Client {
    /// A client with the routes, roots and exceptions of `config`.
    pub fn new(config: EngineConfig) -> Result<Self, RootsError> {
        let EngineConfig { connect_to, extra_roots_pem, internal_allowlist, limits, .. } = config;
        let dialer = Dialer::new(connect_to, internal_allowlist, config.upstream_proxy, &limits);
        Ok(Self { dialer, roots: Roots::load(&extra_roots_pem, 0)?, limits })
    }

    /// Sends `request` to `authority` and reads an answer of at most `max_answer` bytes. `Host` is
    /// set here. A larger one is [`Code::AnswerTooLarge`], one that breaks off or is no HTTP
    /// [`Code::UpstreamProtocol`].
    pub fn send<'a>(
        &'a self,
        scheme: Scheme,
        authority: &'a Authority,
        whose: Whose,
        request: &'a ClientRequest<'_>,
        max_answer: usize,
    ) -> BoxFuture<'a, Result<ClientAnswer, Error>> {
        Box::pin(self.send_in_time(scheme, authority, whose, request, max_answer))
    }

    async fn send_in_time(
        &self,
        scheme: Scheme,
        authority: &Authority,
        whose: Whose,
        request: &ClientRequest<'_>,
        max_answer: usize,
    ) -> Result<ClientAnswer, Error> {
        let mut request = request.build()?;
        let open = whose == Whose::Collectors || is_this_machine(&authority.host);
        if scheme == Scheme::Http && !open {
            return Err(Code::Cleartext.into());
        }
        let host = authority.to_string();
        let host = match scheme {
            Scheme::Https => host.strip_suffix(":443").unwrap_or(&host).to_owned(),
            Scheme::Http => host.strip_suffix(":80").unwrap_or(&host).to_owned(),
        };
        let host = host.parse().map_err(|_| Error::new(Code::BadRequest))?;
        request.headers_mut().insert(header::HOST, host);
        let work = self.send_over(scheme, authority, whose, request, max_answer);
        timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(Code::ConnectTimeout.into()))
    }

    async fn send_over(
        &self,
        scheme: Scheme,
        authority: &Authority,
        whose: Whose,
        request: Request<Full<Bytes>>,
        max_answer: usize,
    ) -> Result<ClientAnswer, Error> {
        let pinned = match whose {
            Whose::Catalogs => self.dialer.pin(authority).await?,
            Whose::Collectors | Whose::Operators => self.dialer.pin_unjudged(authority).await?,
        };
        let tcp = self.dialer.dial(&pinned).await?;
        if scheme == Scheme::Http {
            return exchange(tcp, request, max_answer).await;
        }
        let patience = self.limits.connect_time;
        let config = self.roots.config(Alpn::Http1, None)?;
        let tls = tls::connect(config, &authority.host, tcp, patience).await?;
        exchange(tls, request, max_answer).await
    }
}

impl ClientRequest<'_> {
    fn build(&self) -> Result<Request<Full<Bytes>>, Error> {
        let mut built = Request::builder().method(self.method).uri(self.target);
        for (name, value) in &self.headers {
            let mut value =
                header::HeaderValue::from_str(value).map_err(|_| Error::new(Code::BadRequest))?;
            value.set_sensitive(true);
            built = built.header(*name, value);
        }
        let body = Full::new(Bytes::copy_from_slice(self.body));
        built.body(body).map_err(|_| Code::BadRequest.into())
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    max_answer: usize,
) -> Result<ClientAnswer, Error> {
    let failed = |_| Error::new(Code::UpstreamProtocol);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let driving = tokio::spawn(connection);
    let answer = async {
        let response: Response<Incoming> = sender.send_request(request).await.map_err(failed)?;
        let text = |name: header::HeaderName| {
            response.headers().get(name)?.to_str().ok().map(str::to_owned)
        };
        let (content_type, etag) = (text(header::CONTENT_TYPE), text(header::ETAG));
        let headers = response.headers().iter();
        let headers = headers.filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        });
        let headers = headers.collect();
        let status = response.status().as_u16();
        let body = read(response.into_body(), max_answer).await?;
        Ok(ClientAnswer { status, content_type, etag, headers, body })
    };
    let answer = answer.await;
    driving.abort();
    answer
}

/// A body to its end; one that says that it is too large is not waited for.
async fn read(body: Incoming, at_most: usize) -> Result<Vec<u8>, Error> {
    if body.size_hint().lower() > at_most as u64 {
        return Err(Code::AnswerTooLarge.into());
    }
    let read = Limited::new(body, at_most).collect().await;
    let read = read.map_err(|error| {
        let is_large = error.is::<LengthLimitError>();
        if is_large { Code::AnswerTooLarge } else { Code::UpstreamProtocol }
    });
    Ok(read?.to_bytes().to_vec())
}

/// Cleartext stays on the machine.
fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Ip(address) => address.is_loopback(),
        Host::Name(name) => name.as_str() == "localhost",
    }
}
