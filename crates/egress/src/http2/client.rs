//! HTTP/2 toward a destination: one connection for all who ask there.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use h2::{
    Reason, SendStream,
    client::{Builder, ResponseFuture, SendRequest},
};
use http::{HeaderMap, Method, Request, Response, StatusCode, request::Parts};
use http_body::Body as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Mutex as AsyncMutex,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    Incoming, Outgoing,
    alive::{Heard, KeepAlive, Patience},
    fit,
    keep::{self, Keeper},
    pipe, say_length,
};
use crate::room::{Place, Room};

/// Flow-control windows: large enough for a fast download over some distance, small enough that a
/// slow reader holds little.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
const MAX_HEAD: u32 = 256 << 10;
/// One stream's request that waits for a slow destination.
const SEND_BUFFER: usize = 1 << 20;
/// Notices a destination that vanished without a word.
const PATIENCE: Patience =
    Patience { silence: Duration::from_secs(30), answer: Duration::from_secs(20) };

/// How long a request waits for another's end where the destination takes no more at once: then it goes elsewhere.
const CROWDED: Duration = Duration::from_secs(1);
/// How soon it is looked again whether another is over.
const LOOKS: Duration = Duration::from_millis(5);
/// How many requests a destination takes that has not said so yet. No number of its own is this one.
const UNSAID: usize = usize::MAX - 1;

/// One connection, for one request, or kept for those to come.
pub(crate) struct Client {
    requests: SendRequest<Bytes>,
    /// Held until a request's stream is open: those who wait for one can still go elsewhere. Whether there was one before.
    turn: Arc<AsyncMutex<bool>>,
    /// Those that are on it, or are to be.
    streams: Arc<Room>,
    /// The request's own among them.
    place: Option<Place>,
}

/// A request whose head is on its way.
struct Begun {
    answer: ResponseFuture,
    /// Its body, if there is one, and where that goes.
    rest: Option<(Outgoing, SendStream<Bytes>)>,
    kept: Kept,
    place: Arc<Place>,
}

/// A request that is sent again if its destination did not process it.
struct Kept {
    head: Parts,
    body: Keeper,
}

/// A request without an answer.
pub(crate) struct Failure {
    pub(crate) error: h2::Error,
    /// The request, where nothing of it was sent, or its destination says that it did nothing with it; not where more
    /// of its body is gone than is kept.
    pub(crate) unsent: Option<Box<Request<Outgoing>>>,
}

impl Client {
    /// Shakes hands, and has the connection served.
    pub(crate) async fn open(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Self, h2::Error> {
        let (stream, signs) = Heard::new(stream);
        let (requests, mut connection) = builder().handshake(stream).await?;
        let pings = connection.ping_pong().expect("nobody has taken it");
        let mut alive = KeepAlive::new(pings, signs, PATIENCE);
        let streams = Room::of(usize::MAX);
        let open = Arc::clone(&streams);
        tokio::spawn(poll_fn(move |cx| match Pin::new(&mut connection).poll(cx) {
            Poll::Pending => alive.poll_silent(cx, open.open() > 0),
            // What went wrong reaches whoever has a request on it.
            Poll::Ready(_) => Poll::Ready(()),
        }));
        let place = streams.enter();
        Ok(Self { requests, turn: Arc::default(), streams, place })
    }

    /// The same, to be kept.
    pub(crate) fn to_keep(&self) -> Self {
        let (requests, turn) = (self.requests.clone(), Arc::clone(&self.turn));
        Self { requests, turn, streams: Arc::clone(&self.streams), place: None }
    }

    /// The same for one more request, unless the destination takes no further one until another is over. It takes `presumed`
    /// at once if it has not said otherwise.
    pub(crate) fn share(&self, presumed: usize) -> Option<Self> {
        let place = Some(self.enter(presumed)?);
        Some(Self { place, ..self.to_keep() })
    }

    fn enter(&self, presumed: usize) -> Option<Place> {
        self.streams.resize(self.most().unwrap_or(presumed));
        self.streams.enter()
    }

    /// How many requests the destination takes at once, as it has said.
    pub(crate) fn most(&self) -> Option<usize> {
        Some(self.requests.current_max_send_streams()).filter(|most| *most != UNSAID)
    }

    /// Whether it takes no more requests.
    pub(crate) fn is_closed(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        matches!(self.requests.clone().poll_ready(&mut cx), Poll::Ready(Err(_)))
    }

    /// How many requests are on it, or are to be.
    pub(crate) fn open_requests(&self) -> usize {
        self.streams.open()
    }

    /// Sends a request and waits for the answer's head; `interim` is told of what comes before it.
    /// What is left of the request's body then goes on by itself.
    pub(crate) async fn send(
        &mut self,
        request: Request<Outgoing>,
        interim: Option<impl Fn(StatusCode, &HeaderMap)>,
    ) -> Result<Response<Incoming>, Failure> {
        let Begun { mut answer, rest, kept, place } = self.begin(request).await?;
        let sending = match rest {
            Some((body, to)) => send_body(body, to, &place).await,
            None => None,
        };
        let answered = poll_fn(|cx| poll_answer(&mut answer, interim.as_ref(), cx)).await;
        let (parts, stream) = match answered {
            Ok(answered) => answered.into_parts(),
            Err(error) => return Err(Failure::of(error, kept)),
        };
        kept.body.let_go();
        if let Some(mut sending) = sending {
            sending.detach_all();
        }
        let body = Incoming::new(stream, &parts.headers).with(place);
        Ok(Response::from_parts(parts, body))
    }

    /// Sends a head, as soon as the destination takes one more.
    async fn begin(&mut self, request: Request<Outgoing>) -> Result<Begun, Failure> {
        let mut requests = self.requests.clone();
        let given = self.place.take();
        let ready = async {
            // Before its turn: who waits in it would hold up those that have a place.
            let (was_given, place) = (given.is_some(), self.place(given).await);
            let turn = self.turn.lock().await;
            poll_fn(|cx| requests.poll_ready(cx)).await?;
            // Once it is given to the connection it can't go elsewhere.
            self.is_taken(*turn, was_given).await?;
            Ok((place, turn))
        };
        let ready = timeout(CROWDED, ready).await;
        let (place, mut turn) = match ready.unwrap_or_else(|_| Err(Reason::REFUSED_STREAM.into())) {
            Ok(ready) => ready,
            Err(error) => return Err(Failure { error, unsent: Some(Box::new(request)) }),
        };
        let (mut parts, body) = request.into_parts();
        fit(&mut parts.headers);
        let length = body.size_hint().exact();
        // Of a request without a body only a length that one would expect is said (RFC 9110, section 8.6).
        say_length(
            &mut parts.headers,
            length.filter(|&length| length > 0 || has_body(&parts.method)),
        );
        let (body, keeper) = keep::keep(body);
        let kept = Kept { head: parts.clone(), body: keeper };
        let (answer, to) =
            match requests.send_request(Request::from_parts(parts, ()), body.is_none()) {
                Ok(sent) => sent,
                Err(error) => return Err(Failure::of(error, kept)),
            };
        *turn = true;
        let rest = body.map(|body| (body, to));
        // A connection that takes no more may still answer this one. If it does not, the answer says why.
        let _ = poll_fn(|cx| requests.poll_ready(cx)).await;
        Ok(Begun { answer, rest, kept, place: Arc::new(place) })
    }

    /// A request's place: the one that it was given, or the next that is free.
    async fn place(&self, given: Option<Place>) -> Place {
        if let Some(place) = given {
            return place;
        }
        loop {
            match self.enter(UNSAID) {
                Some(place) => return place,
                None => sleep(LOOKS).await,
            }
        }
    }

    /// Whether the destination takes a request that has a place. Behind the first it is known only when it has said how many
    /// there are.
    async fn is_taken(&self, follows: bool, was_given: bool) -> Result<(), Reason> {
        while follows && self.most().is_none() {
            sleep(LOOKS).await;
        }
        // More were given than there turn out to be.
        match self.most() {
            Some(most) if was_given && self.streams.open() > most => Err(Reason::REFUSED_STREAM),
            _ => Ok(()),
        }
    }
}

/// Sends a body: at once if it is there, else by a task that ends when what is given is dropped.
async fn send_body(
    body: Outgoing,
    to: SendStream<Bytes>,
    place: &Arc<Place>,
) -> Option<JoinSet<()>> {
    let mut sending = Box::pin(pipe::send(body, to));
    if poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await.is_ready() {
        return None;
    }
    let place = Arc::clone(place);
    let mut task = JoinSet::new();
    task.spawn(async move {
        sending.await;
        drop(place);
    });
    Some(task)
}

impl Failure {
    /// A request that came too late for its connection's last one, or was refused before anything was done with it, may
    /// be sent again (RFC 9113, sections 6.8 and 8.7).
    fn of(error: h2::Error, kept: Kept) -> Self {
        let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        let is_untouched = error.is_remote() && (error.is_go_away() || is_refused);
        let unsent = if is_untouched { kept.take() } else { None };
        Self { error, unsent: unsent.map(Box::new) }
    }
}

impl Kept {
    fn take(self) -> Option<Request<Outgoing>> {
        Some(Request::from_parts(self.head, self.body.take()?))
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .max_header_list_size(MAX_HEAD)
        .initial_max_send_streams(UNSAID)
        .enable_push(false);
    builder
}

fn poll_answer(
    answer: &mut ResponseFuture,
    interim: Option<&impl Fn(StatusCode, &HeaderMap)>,
    cx: &mut Context<'_>,
) -> Poll<Result<Response<h2::RecvStream>, h2::Error>> {
    if let Some(interim) = interim {
        while let Poll::Ready(Some(Ok(head))) = answer.poll_informational(cx) {
            interim(head.status(), head.headers());
        }
    }
    Pin::new(answer).poll(cx)
}

/// Whether a body means something to this method.
fn has_body(method: &Method) -> bool {
    ![Method::GET, Method::HEAD, Method::DELETE, Method::CONNECT].contains(method)
}
