//! One connection to a destination: how it is opened, and how a request goes over it.

use std::{
    error::Error as _,
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use keyless_core::{Code, Error, SafeText, Scheme};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Home, Key, Means};
use crate::tls::{self, Alpn};

/// A body on its way to a destination.
pub(crate) type OutgoingBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Flow-control windows: large enough for a fast download over some distance, small enough that a
/// slow reader holds little.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
const MAX_HEAD: usize = 256 << 10;

/// A connection that is checked out for one request.
pub(crate) struct Connection {
    sender: Option<Sender>,
    home: Option<Home>,
}

/// The sending half of a connection.
pub(super) enum Sender {
    Http1(Http1),
    Http2(http2::SendRequest<OutgoingBody>),
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

    /// Sends a request and waits for the answer's head. A request that was not written comes back
    /// with the error and may be sent over another connection.
    pub(crate) async fn send(
        &mut self,
        request: Request<OutgoingBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<OutgoingBody>>> {
        match self.sender.as_mut().expect("the sender leaves only on drop") {
            Sender::Http1(http1) => http1.send(request).await,
            Sender::Http2(sender) => sender.try_send_request(request).await,
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
    ) -> Result<Response<Incoming>, TrySendError<Request<OutgoingBody>>> {
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
        Some(b"h2") => http2_over(tls).await,
        _ => http1_over(tls).await,
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

async fn http2_over<S>(stream: S) -> Result<Sender, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(u32::try_from(MAX_HEAD).expect("256 KiB fit into 32 bits"))
        // Notices a destination that vanished without a word.
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20))
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| explain(&error))?;
    tokio::spawn(connection);
    Ok(Sender::Http2(sender))
}

/// What went wrong on the way, in words that hold nothing of the traffic.
pub(crate) fn explain(error: &hyper::Error) -> Error {
    let words = match error {
        e if asks_for_certificate(e) => "it asks for a client certificate that it takes",
        e if e.is_parse_too_large() => "the answer's head is too large",
        e if e.is_parse() => "the answer is not HTTP",
        e if e.is_incomplete_message() => "the connection ended before the answer",
        e if e.is_timeout() => "the answer took too long",
        e if e.is_body_write_aborted() => "the request's body ended early",
        _ => "the connection broke",
    };
    Error::with(Code::UpstreamProtocol, SafeText::words(words))
}

/// Whether the other side ended TLS for want of a client certificate; in TLS 1.3 it says so only
/// after the handshake.
fn asks_for_certificate(error: &hyper::Error) -> bool {
    use rustls::{AlertDescription, Error as Tls};
    let mut source = error.source();
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
