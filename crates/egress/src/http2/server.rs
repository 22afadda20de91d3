//! HTTP/2 toward the client: requests are handed out as they come, each with a task of its own.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Weak},
    task::Poll,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use h2::{
    Reason,
    server::{Builder, SendResponse},
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use jiff::{Timestamp, fmt::rfc2822::DateTimePrinter};
use keyless_core::{Code, Error};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};

use super::{
    Incoming, Outgoing,
    alive::{Heard, KeepAlive, Patience},
    fit,
    overdue::{Late, Watched},
    pipe, said_length, say_length,
    unfit::{Redirected, Unseen},
};
use crate::Limits;

/// What of a request's body may wait for its destination. The client is on this machine, or next to it.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// One stream's answer that waits for a slow reader.
const SEND_BUFFER: usize = 256 << 10;
/// A client that vanished without a word holds nothing for longer than this.
const PATIENCE: Patience =
    Patience { silence: Duration::from_mins(1), answer: Duration::from_secs(20) };
/// How long a client is given to be told that it took too long.
const FAREWELL: Duration = Duration::from_secs(1);
/// What one request may get of interim answers: nothing holds them back, and they are hints.
const MAX_INTERIM: usize = 64 << 10;

const UNFIT: &str = "its head is none of HTTP/2, by a letter such as `\"` or `<` raw in the path, by its fields or their size; the client is told to send it over HTTP/1.1";

const NOT_HTTP2: &str = "the connection was ended over what is none of HTTP/2: a field's name with a capital or a space, a value with a control character, an unknown pseudo-header, or frames that have no place";

/// What one request is answered with.
type Answering = Pin<Box<dyn Future<Output = Response<Outgoing>> + Send>>;

/// The way of one request's interim answers. It holds on to nothing: the answer's task does.
#[derive(Clone)]
pub(crate) struct Hints(Weak<Reply>);

/// The way of one request's answer, until the answer takes it.
type Reply = Mutex<Option<Way>>;

struct Way {
    respond: SendResponse<Bytes>,
    /// What interim answers may still take.
    interim_left: usize,
}

/// Serves the requests of one connection by `answer`, until it ends. One that doesn't begin as HTTP/2 does within the time
/// of a head is closed: before that nobody can be asked whether they are there. An error is about a head that took too long,
/// or about what ended the connection; `log` hears of requests that `h2` has reset by itself.
pub(crate) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    limits: &Limits,
    answer: impl Fn(Request<Incoming>, Hints) -> Answering,
    log: impl Fn(&Error),
) -> Result<(), Error> {
    let unseen = Unseen::default();
    let stream = Redirected::new(stream, unseen.clone());
    let (stream, signs) = Heard::new(stream);
    let (stream, mut overdue) = Watched::new(stream, limits, unseen.clone());
    let begun = timeout(limits.head_time, builder(limits).handshake(stream)).await;
    let Ok(Ok(mut connection)) = begun else { return Ok(()) };
    let pings = connection.ping_pong().expect("nobody has taken it");
    let mut alive = KeepAlive::new(pings, signs, PATIENCE);
    let mut is_ending = false;
    loop {
        let next = poll_fn(|cx| {
            let accepted = connection.poll_accept(cx);
            for _ in 0..unseen.take_refused() {
                log(&Error::with(Code::BadRequest, UNFIT.into()));
            }
            match accepted {
                Poll::Pending if alive.poll_silent(cx, true).is_ready() => Poll::Ready(Ok(None)),
                Poll::Pending => overdue.poll_late(cx, connection.has_streams()).map(Err),
                Poll::Ready(accepted) => Poll::Ready(Ok(accepted)),
            }
        });
        match next.await {
            Ok(Some(Ok((request, respond)))) => {
                unseen.handed_out(respond.stream_id().into());
                take(request, respond, &answer);
            }
            Err(Late::Head) => {
                connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                let closed = poll_fn(|cx| connection.poll_closed(cx));
                // Who reads nothing either is not waited for.
                let _ = timeout(FAREWELL, closed).await;
                return Err(Code::HeadTimeout.into());
            }
            Err(Late::Request) if !is_ending => {
                is_ending = true;
                overdue.hurry(PATIENCE.answer.min(limits.idle_time));
                connection.graceful_shutdown();
            }
            Ok(Some(Err(error))) if error.is_go_away() && error.is_library() => {
                return Err(Error::with(Code::BadRequest, NOT_HTTP2.into()));
            }
            // Other errors are about a client that is gone, or one that is told so by now.
            Ok(None | Some(Err(_))) | Err(Late::Request) => return Ok(()),
        }
    }
}

fn builder(limits: &Limits) -> Builder {
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .max_concurrent_streams(limits.streams)
        // WebSockets (RFC 8441).
        .enable_connect_protocol()
        // `h2` refuses what is larger by a bare 431 and a reset. What is not that much larger is for others to refuse, in words.
        .max_header_list_size(u32::try_from(2 * limits.head_bytes).unwrap_or(u32::MAX));
    builder
}

/// Has one request answered.
fn take(
    request: Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    answer: impl Fn(Request<Incoming>, Hints) -> Answering,
) {
    let (parts, stream) = request.into_parts();
    let tunnel = parts.method == Method::CONNECT;
    if tunnel && said_length(&parts.headers).is_some_and(|length| length > 0) {
        return respond.send_reset(Reason::PROTOCOL_ERROR);
    }
    let way = Way { respond, interim_left: MAX_INTERIM };
    let reply = Arc::new(Reply::new(Some(way)));
    let hints = Hints(Arc::downgrade(&reply));
    let awaited = expects_100(&parts.headers).then(|| hints.clone());
    let body = Incoming::new(stream, &parts.headers).awaited(awaited);
    let answering = answer(Request::from_parts(parts, body), hints);
    tokio::spawn(async move {
        let answer = unless_reset(answering, &reply).await;
        let way = reply.lock().take();
        if let (Some(answer), Some(way)) = (answer, way) {
            send(answer, way.respond).await;
        }
    });
}

fn expects_100(headers: &HeaderMap) -> bool {
    let expect = headers.get(header::EXPECT);
    expect.is_some_and(|expect| expect.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// The answer, if the client still wants one when it is there.
async fn unless_reset(mut answering: Answering, reply: &Reply) -> Option<Response<Outgoing>> {
    poll_fn(|cx| match (answering.as_mut().poll(cx), reply.lock().as_mut()) {
        (Poll::Ready(answer), _) => Poll::Ready(Some(answer)),
        (Poll::Pending, Some(way)) => way.respond.poll_reset(cx).map(|_| None),
        (Poll::Pending, None) => Poll::Ready(None),
    })
    .await
}

async fn send(answer: Response<Outgoing>, mut respond: SendResponse<Bytes>) {
    let (mut parts, body) = answer.into_parts();
    fit(&mut parts.headers);
    say_date(&mut parts.headers);
    let ends = body.is_end_stream();
    if !ends {
        say_length(&mut parts.headers, body.size_hint().exact());
    }
    match respond.send_response(Response::from_parts(parts, ()), ends) {
        Ok(to) if !ends => {
            drop(respond);
            pipe::send(body, to).await;
        }
        Ok(_) => {}
        // A client that has reset its stream does not hear this.
        Err(_) => respond.send_reset(Reason::INTERNAL_ERROR),
    }
}

/// Who passes an answer on says when it came, if nobody else has (RFC 9110, section 6.6.1).
fn say_date(headers: &mut HeaderMap) {
    if !headers.contains_key(header::DATE)
        && let Ok(now) = Timestamp::try_from(SystemTime::now())
        && let Ok(date) = DateTimePrinter::new().timestamp_to_rfc9110_string(&now)
        && let Ok(date) = HeaderValue::try_from(date)
    {
        headers.insert(header::DATE, date);
    }
}

impl Hints {
    /// Sends an interim answer, unless the answer itself is on its way.
    pub(crate) fn send(&self, status: StatusCode, mut headers: HeaderMap) {
        let Some(reply) = self.0.upgrade() else { return };
        fit(&mut headers);
        let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32);
        let size = 32 + fields.sum::<usize>();
        let mut reply = reply.lock();
        let Some(way) = reply.as_mut() else { return };
        let Some(left) = way.interim_left.checked_sub(size) else { return };
        way.interim_left = left;
        let mut interim = Response::new(());
        *interim.status_mut() = status;
        *interim.headers_mut() = headers;
        // Where it does not arrive, the answer says why.
        let _ = way.respond.send_informational(interim);
    }
}
