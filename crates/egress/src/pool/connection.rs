//! One connection to a destination: how it is opened, and how a request goes over it.

use std::{
    error::Error as StdError,
    future::poll_fn,
    io::ErrorKind,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use h2::Reason;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use keyless_core::{Code, Error, SafeText, Scheme};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::AbortHandle,
};

use super::{Home, Key, Means, Wanted, driver::Driver, ragged::Ragged};
use crate::{
    http2,
    incoming::Incoming,
    raw_target::{NextTarget, Retargeted},
    tls::{self, Alpn},
};

/// A body on its way to a destination.
pub(crate) type OutgoingBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

const MAX_HEAD: usize = 256 << 10;

const TOOK_TOO_LONG: &str = "the answer took too long";
const TAKES_NO_MORE: &str = "it takes no more requests at once";
const WANTS_CERTIFICATE: &str = "it asks for a client certificate that it takes";

/// A connection that is checked out for one request.
pub(crate) struct Connection {
    sender: Option<Sender>,
    home: Option<Home>,
    taken: Instant,
    /// It had a request before this one.
    is_kept: bool,
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
    /// The connection ended, and no answer's head had come.
    pub(crate) is_end: bool,
}

/// An HTTP/1.1 connection, kept or in use.
pub(super) struct Http1 {
    pub(super) sender: http1::SendRequest<OutgoingBody>,
    target: NextTarget,
    /// Gone once it has a task of its own.
    driver: Option<Driver>,
    /// That task.
    task: Option<AbortHandle>,
}

impl Connection {
    pub(super) fn new(sender: Sender, home: Home) -> Self {
        Self { sender: Some(sender), home: Some(home), taken: Instant::now(), is_kept: false }
    }

    /// One that was left by another request.
    pub(super) fn kept(sender: Sender, home: Home) -> Self {
        Self { sender: Some(sender), home: Some(home), taken: Instant::now(), is_kept: true }
    }

    /// One that is not shared, and moves by itself.
    pub(super) fn unpooled(sender: Sender) -> Self {
        Self { sender: Some(sender), home: None, taken: Instant::now(), is_kept: false }.let_go()
    }

    /// What it speaks.
    pub(crate) fn version(&self) -> Version {
        match self.sender {
            Some(Sender::Http2(_)) => Version::HTTP_2,
            _ => Version::HTTP_11,
        }
    }

    /// What is wanted in its place, once it turns out to be dead.
    pub(crate) fn another(&self) -> Wanted {
        if self.home.is_some() { Wanted::Fresh(self.taken) } else { Wanted::Upgrade }
    }

    /// Whether the other end may have ended it while nobody asked anything, of which it told us too late.
    pub(crate) fn may_be_over(&self) -> bool {
        self.is_kept && matches!(self.sender, Some(Sender::Http1(_)))
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

    /// What `poll` comes to by what is here already; nothing where more has to come.
    pub(crate) async fn at_once<T>(
        &mut self,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        let driver = match &mut self.sender {
            // An answer that has been read to its end waits for nothing here.
            Some(Sender::Http1(http1)) if !http1.sender.is_ready() => &mut http1.driver,
            _ => &mut None,
        };
        let polled = poll_fn(|cx| Poll::Ready(Driver::poll_beside(driver, cx, &mut poll)));
        match polled.await {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    /// Nobody has it after the answer that it is giving.
    pub(crate) fn ends_with_answer(&mut self) {
        self.home = None;
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
                http1.target.note(&request);
                let answer = http1.send(request).await;
                let answer = answer.map_err(Failure::of_http1)?;
                Ok(in_our_version(answer).map(Incoming::Http1))
            }
            Sender::Http2(client) => {
                let answer = client.send(request, interim).await;
                let answer = answer.map_err(Failure::of_http2)?;
                Ok(in_our_version(answer).map(Incoming::Http2))
            }
        }
    }
}

impl Http1 {
    /// Whether it is still open at the other end. One that nobody polls has to be asked.
    pub(super) fn is_open(&mut self) -> bool {
        // One that has a task notices by itself.
        self.driver.take_if(Driver::is_over);
        !self.sender.is_closed()
    }

    async fn send(
        &mut self,
        request: Request<OutgoingBody>,
    ) -> Result<Response<hyper::body::Incoming>, TrySendError<Request<OutgoingBody>>> {
        Driver::attend(self.driver.as_ref());
        let mut answer = pin!(self.sender.try_send_request(request));
        poll_fn(|cx| Driver::poll_beside(&mut self.driver, cx, |cx| answer.as_mut().poll(cx))).await
    }

    async fn during<T>(&mut self, mut work: Pin<&mut impl Future<Output = T>>) -> T {
        poll_fn(|cx| Driver::poll_beside(&mut self.driver, cx, |cx| work.as_mut().poll(cx))).await
    }

    fn let_go(&mut self) {
        // Outside a runtime everything is being torn down anyway.
        if let Some(driver) = self.driver.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // Its error reaches whoever has a request on it.
            self.task = Some(runtime.spawn(driver.into_future()).abort_handle());
        }
    }

    /// Ends it where it stands, with what it was to send yet.
    fn cut(self) {
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

impl Drop for Connection {
    /// Waits in the background until the answer has been read to its end, and keeps the connection
    /// then; one whose answer is cut off closes by itself. One that nobody is to have again is not waited for.
    fn drop(&mut self) {
        let Some(Sender::Http1(mut http1)) = self.sender.take() else { return };
        let Some(home) = self.home.take() else {
            // At rest it can still end as TLS would have it.
            return if http1.sender.is_ready() { drop(http1) } else { http1.cut() };
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
    let (stream, target) = Retargeted::new(stream);
    let (sender, connection) = http1::Builder::new()
        .preserve_header_case(true)
        // No `max_headers`, for the reason given at the door.
        .max_header_size(MAX_HEAD)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| explain(&error))?;
    Ok(Sender::Http1(Http1 {
        sender,
        target,
        driver: Some(Driver::new(connection.with_upgrades())),
        task: None,
    }))
}

/// What is passed on says the version of who passes it on (RFC 9110, section 2.5): as HTTP/1.0, an answer without a length
/// would look whole wherever it breaks off; and only as HTTP/1.1 hyper tells a client of HTTP/1.0 that its connection is kept.
fn in_our_version<B>(mut answer: Response<B>) -> Response<B> {
    *answer.version_mut() = Version::HTTP_11;
    answer
}

impl Failure {
    fn of_http1(mut failure: TrySendError<Request<OutgoingBody>>) -> Self {
        let unsent = failure.take_message().map(Box::new);
        Self { error: explain(failure.error()), unsent, is_end: is_end(failure.error()) }
    }

    fn of_http2(failure: http2::Failure) -> Self {
        Self { error: explain_http2(&failure.error), unsent: failure.unsent, is_end: false }
    }
}

/// What went wrong on the way, in words that hold nothing of the traffic.
fn explain(error: &hyper::Error) -> Error {
    let words = match error {
        e if asks_for_certificate(e) => WANTS_CERTIFICATE,
        e if e.is_parse_too_large() => "the answer's head has more than 100 fields, or 256 KiB",
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
        None if error.reason() == Some(Reason::REFUSED_STREAM) => TAKES_NO_MORE,
        _ => "the connection broke",
    };
    Error::with(Code::UpstreamProtocol, SafeText::words(words))
}

/// Whether the connection ended where an answer was to come.
fn is_end(error: &hyper::Error) -> bool {
    let io = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    let is_gone = |io: &std::io::Error| {
        use ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof,
        };
        matches!(
            io.kind(),
            BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof
        )
    };
    error.is_incomplete_message() || io.is_some_and(is_gone)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;
    use http_body_util::{BodyExt as _, Empty};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::pool::driver::tests::Task;

    /// A task that wakes itself is polled once more, and another core is woken for it.
    #[tokio::test]
    async fn a_request_over_a_kept_connection_waits_for_nothing_but_its_answer() {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        let Ok(Sender::Http1(mut http1)) = http1_over(ours).await else { panic!("HTTP/1.1") };
        for _ in 0..3 {
            let task = Arc::<Task>::default();
            let waker = Arc::clone(&task).into();
            let cx = &mut Context::from_waker(&waker);
            let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
            let answer = {
                let mut answer = pin!(http1.send(Request::new(body)));
                assert!(answer.poll_unpin(cx).is_pending());
                assert_eq!(task.woken(), 0);
                assert!(theirs.read(&mut [0; 1024]).await.unwrap() > 0);
                theirs.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
                assert_eq!(task.woken(), 1);
                answer.poll_unpin(cx)
            };
            let Poll::Ready(Ok(answer)) = answer else { panic!("no answer") };
            let mut read = pin!(answer.into_body().collect());
            let read = pin!(http1.during(read.as_mut())).poll_unpin(cx);
            let Poll::Ready(Ok(whole)) = read else { panic!("no body") };
            assert_eq!(whole.to_bytes(), "ok");
            assert_eq!(task.woken(), 1);
            assert!(http1.sender.is_ready());
        }
    }
}
