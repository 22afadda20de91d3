//! One connection to a destination: how it is opened, and how a request goes over it.

use std::{
    error::Error as StdError,
    future::poll_fn,
    io::ErrorKind,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use keyless_core::{Code, Error, SafeText, Scheme};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Home, Key, Means, ragged::Ragged};
use crate::{
    http2,
    incoming::Incoming,
    tls::{self, Alpn},
};

/// A body on its way to a destination.
pub(crate) type OutgoingBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

const MAX_HEAD: usize = 256 << 10;

const TOOK_TOO_LONG: &str = "the answer took too long";
const WANTS_CERTIFICATE: &str = "it asks for a client certificate that it takes";

/// A connection that is checked out for one request.
pub(crate) struct Connection {
    sender: Option<Sender>,
    home: Option<Home>,
}

/// The sending half of a connection.
pub(super) enum Sender {
    Http1(Http1),
    Http2(http2::Client),
}

/// For requests of which only the answer is wanted.
pub(crate) const UNHEARD: Option<fn(StatusCode, &HeaderMap)> = None;

/// A request without an answer.
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// The request, where nothing of it was written: it may be sent over another connection.
    pub(crate) unsent: Option<Box<Request<OutgoingBody>>>,
}

/// An HTTP/1.1 connection, kept or in use.
pub(super) struct Http1 {
    pub(super) sender: http1::SendRequest<OutgoingBody>,
    /// What moves its bytes. As long as it is here, whoever has a request on the connection polls it
    /// along with their own work: a small request then needs no second task, which would have to be
    /// woken for it, on the other core as like as not. Gone once it has a task of its own.
    driver: Option<Driver>,
}

type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

impl Connection {
    pub(super) fn new(sender: Sender, home: Home) -> Self {
        Self { sender: Some(sender), home: Some(home) }
    }

    /// One that is not shared, and moves by itself.
    pub(super) fn unpooled(sender: Sender) -> Self {
        Self { sender: Some(sender), home: None }.let_go()
    }

    /// What it speaks.
    pub(crate) fn version(&self) -> Version {
        match self.sender {
            Some(Sender::Http2(_)) => Version::HTTP_2,
            _ => Version::HTTP_11,
        }
    }

    /// Whether it is HTTP/1.1 and its answer has not been read to the end.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(&self.sender, Some(Sender::Http1(http1)) if !http1.sender.is_ready())
    }

    /// Does `work` that waits for the answer's body while the connection moves on.
    pub(crate) async fn during<T>(&mut self, work: Pin<&mut impl Future<Output = T>>) -> T {
        match &mut self.sender {
            Some(Sender::Http1(http1)) => http1.during(work).await,
            Some(Sender::Http2(_)) | None => work.await,
        }
    }

    /// From here on the connection moves by itself, whoever is slow with its answer.
    pub(crate) fn let_go(mut self) -> Self {
        if let Some(Sender::Http1(http1)) = &mut self.sender {
            http1.let_go();
        }
        self
    }

    /// Sends a request and waits for the answer's head; `interim` is told of what comes before it.
    pub(crate) async fn send(
        &mut self,
        mut request: Request<OutgoingBody>,
        interim: Option<impl Fn(StatusCode, &HeaderMap) + Send + Sync + 'static>,
    ) -> Result<Response<Incoming>, Failure> {
        match self.sender.as_mut().expect("the sender leaves only on drop") {
            Sender::Http1(http1) => {
                if let Some(tell) = interim {
                    hyper::ext::on_informational(&mut request, move |head| {
                        tell(head.status(), head.headers());
                    });
                }
                let answer = http1.send(request).await;
                let answer = answer.map_err(Failure::of_http1)?;
                Ok(in_our_version(answer).map(Incoming::Http1))
            }
            Sender::Http2(client) => {
                let answer = client.send(request, interim).await;
                answer.map(|answer| answer.map(Incoming::Http2)).map_err(Failure::of_http2)
            }
        }
    }
}

impl Http1 {
    /// Whether it is still open at the other end. One that nobody polls has to be asked.
    pub(super) fn is_open(&mut self) -> bool {
        // Ready also where it has a task, which then notices by itself.
        let _ = drive(&mut self.driver, &mut Context::from_waker(Waker::noop()));
        !self.sender.is_closed()
    }

    async fn send(
        &mut self,
        request: Request<OutgoingBody>,
    ) -> Result<Response<hyper::body::Incoming>, TrySendError<Request<OutgoingBody>>> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let driver = &mut self.driver;
        poll_fn(|cx| {
            if drive(driver, cx).is_ready() {
                return answer.as_mut().poll(cx);
            }
            // Nothing but the driver brings the answer, so that it need not wake us as well.
            answer.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        })
        .await
    }

    async fn during<T>(&mut self, mut work: Pin<&mut impl Future<Output = T>>) -> T {
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            match drive(&mut self.driver, cx) {
                Poll::Ready(()) => Poll::Pending,
                Poll::Pending => work.as_mut().poll(cx),
            }
        })
        .await
    }

    fn let_go(&mut self) {
        // Outside a runtime everything is being torn down anyway.
        if let Some(driver) = self.driver.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // Its error reaches whoever has a request on it.
            runtime.spawn(driver);
        }
    }
}

/// Moves a connection on that has no task of its own. Ready when it has one, or was just done with,
/// which reaches whoever has a request on it.
fn drive(driver: &mut Option<Driver>, cx: &mut Context<'_>) -> Poll<()> {
    let Some(driving) = driver else { return Poll::Ready(()) };
    if driving.as_mut().poll(cx).is_pending() {
        return Poll::Pending;
    }
    *driver = None;
    Poll::Ready(())
}

impl Drop for Connection {
    /// Waits in the background until the answer has been read to its end, and keeps the connection
    /// then; one whose answer is cut off closes by itself.
    fn drop(&mut self) {
        let (Some(Sender::Http1(mut http1)), Some(home)) = (self.sender.take(), self.home.take())
        else {
            return;
        };
        if http1.sender.is_ready() {
            return home.take_back(http1);
        }
        http1.let_go();
        // Outside a runtime everything is being torn down anyway.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if http1.sender.ready().await.is_ok() {
                    home.take_back(http1);
                }
            });
        }
    }
}

/// Dials, verifies and shakes hands.
pub(super) async fn open(
    key: &Key,
    alpn: Alpn,
    means: &Means<'_>,
    patience: Duration,
) -> Result<Sender, Error> {
    if key.scheme == Scheme::Http {
        return http1_over(means.dialer.dial(&key.pinned).await?).await;
    }
    // First, while the permit for the client's key is young.
    let config = means.roots.config(alpn, means.identity)?;
    let tcp = means.dialer.dial(&key.pinned).await?;
    let tls = tls::connect(config, &key.authority.host, tcp, patience).await?;
    match tls.get_ref().1.alpn_protocol() {
        Some(b"h2") => {
            let client = http2::Client::open(tls).await;
            client.map(Sender::Http2).map_err(|error| explain_http2(&error))
        }
        _ => http1_over(Ragged::new(tls)).await,
    }
}

async fn http1_over<S>(stream: S) -> Result<Sender, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .preserve_header_case(true)
        // No `max_headers`, for the reason given at the door.
        .max_header_size(MAX_HEAD)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| explain(&error))?;
    Ok(Sender::Http1(Http1 { sender, driver: Some(Box::pin(connection.with_upgrades())) }))
}

/// What is passed on says the version of who passes it on (RFC 9110, section 2.5): as HTTP/1.0, an answer without a length
/// would look whole wherever it breaks off.
fn in_our_version<B>(mut answer: Response<B>) -> Response<B> {
    if answer.version() == Version::HTTP_10 {
        *answer.version_mut() = Version::HTTP_11;
    }
    answer
}

impl Failure {
    fn of_http1(mut failure: TrySendError<Request<OutgoingBody>>) -> Self {
        let unsent = failure.take_message().map(Box::new);
        Self { error: explain(failure.error()), unsent }
    }

    fn of_http2(failure: http2::Failure) -> Self {
        Self { error: explain_http2(&failure.error), unsent: failure.unsent }
    }
}

/// What went wrong on the way, in words that hold nothing of the traffic.
fn explain(error: &hyper::Error) -> Error {
    let words = match error {
        e if asks_for_certificate(e) => WANTS_CERTIFICATE,
        e if e.is_parse_too_large() => "the answer's head is too large",
        e if e.is_parse() => "the answer is not HTTP",
        e if e.is_incomplete_message() => "the connection ended before the answer",
        e if e.is_timeout() => TOOK_TOO_LONG,
        e if e.is_body_write_aborted() => "the request's body ended early",
        _ => "the connection broke",
    };
    Error::with(Code::UpstreamProtocol, SafeText::words(words))
}

/// The same over HTTP/2.
fn explain_http2(error: &h2::Error) -> Error {
    let words = match error.get_io() {
        Some(io) if asks_for_certificate(io) => WANTS_CERTIFICATE,
        Some(io) if io.kind() == ErrorKind::TimedOut => TOOK_TOO_LONG,
        _ => "the connection broke",
    };
    Error::with(Code::UpstreamProtocol, SafeText::words(words))
}

/// Whether the other side ended TLS for want of a client certificate; in TLS 1.3 it says so only
/// after the handshake.
fn asks_for_certificate(error: &(dyn StdError + 'static)) -> bool {
    use rustls::{AlertDescription, Error as Tls};
    let mut source = Some(error);
    while let Some(error) = source {
        let io = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        match io.and_then(|inner| inner.downcast_ref::<Tls>()) {
            Some(Tls::AlertReceived(alert)) => {
                return matches!(
                    alert,
                    AlertDescription::CertificateRequired
                        | AlertDescription::BadCertificate
                        | AlertDescription::UnknownCA
                );
            }
            _ => source = error.source(),
        }
    }
    false
}
