//! Stands between a client's bytes and hyper's HTTP/1 parser, and lets only strictly framed
//! requests through.
//!
//! hyper takes what is harmless to hyper (bare line feeds, Content-Length beside
//! Transfer-Encoding, two `Host` fields). A proxy that holds credentials takes none of it: what two
//! readers can read differently is refused. The guard hands hyper one whole head at a time and says
//! for each, in order, whether it may pass; in place of a bad one it hands over an empty request,
//! so that the refusal is an ordinary answer in the ordinary order. It also knows where bodies end,
//! so that the next head is found without guessing.
//! Source: reference/egress.md (c) 20, 21 and 30; (e) 57 to 64.

mod chunks;
mod head;
mod line;

use std::{
    collections::VecDeque,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use keyless_core::Code;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use self::chunks::Chunks;
pub use self::head::{Door, Framing, parse_head};
use crate::Limits;

/// What hyper reads in place of a head that is refused.
const REFUSED_HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: refused.invalid\r\n\r\n";
const READ_SIZE: usize = 8 << 10;
/// How long bytes that nobody wants are still read after a refusal. A socket that is closed over
/// unread bytes is reset, and the client may lose the answer (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(1);
const MAX_INTERIM: usize = 64 << 10;

/// A client's connection, guarded.
pub(crate) struct Guard<S> {
    inner: S,
    /// What was read; the first `approved` bytes are for hyper.
    buffer: BytesMut,
    approved: usize,
    state: State,
    timer: Option<Pin<Box<Sleep>>>,
    rules: Rules,
    /// Nothing of an answer has been written since the last flush: interim answers may go here.
    between_answers: bool,
    shared: Arc<Mutex<Shared>>,
}

/// What the service asks of the guard of its connection.
#[derive(Clone)]
pub(crate) struct GuardHandle(Arc<Mutex<Shared>>);

/// A head that may pass.
pub(crate) struct Approved {
    /// The guard of its connection.
    pub(crate) guard: GuardHandle,
    /// For a head that asks for a WebSocket.
    pub(crate) upgrade: Option<UpgradePass>,
}

/// Whether a connection that asked for an upgrade gets it; it does not when this is dropped.
pub(crate) struct UpgradePass(Option<GuardHandle>);

struct Rules {
    door: Door,
    head_bytes: usize,
    head_fields: usize,
    head_time: Duration,
}

enum State {
    /// Collecting a head; this many bytes have been looked at.
    Head {
        scanned: usize,
    },
    /// A body with this many bytes to come.
    Body(u64),
    Chunked(Chunks),
    /// An upgrade was asked for; the service decides what the next bytes are.
    Paused,
    /// Not HTTP any more.
    Raw,
    /// A chunk that no careful reader takes.
    Broken,
    /// Refused: nothing more is read.
    Ended,
}

#[derive(Default)]
struct Shared {
    verdicts: VecDeque<Result<Framing, Code>>,
    decision: Option<Decision>,
    /// Interim answers that wait to be written.
    interim: BytesMut,
    waker: Option<Waker>,
}

enum Decision {
    NextHead,
    Raw,
}

impl<S> Guard<S> {
    /// Guards `inner`, of which `already_read` has been read.
    pub(crate) fn new(inner: S, already_read: BytesMut, door: Door, limits: &Limits) -> Self {
        let rules = Rules {
            door,
            head_bytes: limits.head_bytes,
            head_fields: limits.head_fields,
            head_time: limits.head_time,
        };
        Self {
            inner,
            buffer: already_read,
            approved: 0,
            state: State::Head { scanned: 0 },
            timer: None,
            rules,
            between_answers: true,
            shared: Arc::default(),
        }
    }

    pub(crate) fn handle(&self) -> GuardHandle {
        GuardHandle(Arc::clone(&self.shared))
    }

    /// The connection and what was read from it but not handed to hyper.
    pub(crate) fn into_parts(self) -> (S, BytesMut) {
        (self.inner, self.buffer)
    }

    /// Looks at what was read; `true` when something was approved or the state has changed.
    fn advance(&mut self) -> bool {
        let fresh = self.buffer.len() - self.approved;
        match &mut self.state {
            State::Head { .. } if fresh > 0 => self.advance_head(),
            State::Body(left) if fresh > 0 => {
                let taken = fresh.min(usize::try_from(*left).unwrap_or(usize::MAX));
                self.approved += taken;
                *left -= taken as u64;
                if *left == 0 {
                    self.state = State::Head { scanned: 0 };
                }
                true
            }
            State::Chunked(chunks) if fresh > 0 => {
                let progress = chunks.take(&self.buffer[self.approved..]);
                self.approved += progress.taken;
                match progress.end {
                    None => {}
                    Some(Ok(())) => self.state = State::Head { scanned: 0 },
                    Some(Err(_)) => self.state = State::Broken,
                }
                true
            }
            State::Paused => match self.shared.lock().decision.take() {
                None => false,
                Some(Decision::NextHead) => {
                    self.state = State::Head { scanned: 0 };
                    true
                }
                Some(Decision::Raw) => {
                    self.state = State::Raw;
                    true
                }
            },
            State::Raw if fresh > 0 => {
                self.approved = self.buffer.len();
                true
            }
            _ => false,
        }
    }

    fn advance_head(&mut self) -> bool {
        let State::Head { scanned } = &mut self.state else { return false };
        match line::find_head_end(&self.buffer, scanned) {
            Ok(Some(end)) if end > self.rules.head_bytes => self.refuse(Code::HeadTooLarge),
            Ok(Some(end)) => {
                self.timer = None;
                match parse_head(&self.buffer[..end], self.rules.door, self.rules.head_fields) {
                    Ok(framing) => self.approve(end, framing),
                    Err(code) => self.refuse(code),
                }
            }
            Ok(None) if self.buffer.len() > self.rules.head_bytes => {
                self.refuse(Code::HeadTooLarge);
            }
            Ok(None) => return false,
            Err(code) => self.refuse(code),
        }
        true
    }

    fn approve(&mut self, end: usize, framing: Framing) {
        self.approved = end;
        self.state = match framing {
            Framing::Empty | Framing::Length(0) => State::Head { scanned: 0 },
            Framing::Length(length) => State::Body(length),
            Framing::Chunked => State::Chunked(Chunks::new(self.rules.head_bytes)),
            Framing::Tunnel => State::Raw,
            Framing::Upgrade => State::Paused,
        };
        self.shared.lock().verdicts.push_back(Ok(framing));
    }

    fn refuse(&mut self, code: Code) {
        self.buffer.clear();
        self.buffer.extend_from_slice(REFUSED_HEAD);
        self.approved = REFUSED_HEAD.len();
        self.state = State::Ended;
        self.timer = None;
        self.shared.lock().verdicts.push_back(Err(code));
    }

    /// Whether the time for a head that has begun is over.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.buffer.is_empty() || !matches!(self.state, State::Head { .. }) {
            return Poll::Pending;
        }
        let time = self.rules.head_time;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(time)));
        timer.as_mut().poll(cx)
    }

    /// Whether bytes may go to the reader without being looked at, and how many.
    fn unguarded(&self) -> usize {
        match self.state {
            State::Raw => usize::MAX,
            State::Body(left) => usize::try_from(left).unwrap_or(usize::MAX),
            _ => 0,
        }
    }
}

impl<S: AsyncRead + Unpin> Guard<S> {
    /// Reads straight into the reader's buffer when it can't hold more than is unguarded.
    fn poll_read_through(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        if let State::Body(left) = &mut self.state {
            *left -= (buf.filled().len() - before) as u64;
            if *left == 0 {
                self.state = State::Head { scanned: 0 };
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads more into our own buffer; 0 at the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.buffer.reserve(READ_SIZE);
        // The future holds nothing between polls.
        let read = pin!(self.inner.read_buf(&mut self.buffer)).poll(cx);
        if read.is_pending() && self.buffer.is_empty() {
            // An idle connection holds no buffer.
            self.buffer = BytesMut::new();
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Guard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Poll::Ready(Err(error)) = this.poll_interim(cx) {
            return Poll::Ready(Err(error));
        }
        loop {
            if this.approved > 0 {
                let taken = this.approved.min(buf.remaining());
                buf.put_slice(&this.buffer[..taken]);
                this.buffer.advance(taken);
                this.approved -= taken;
                return Poll::Ready(Ok(()));
            }
            if this.advance() {
                continue;
            }
            match this.state {
                State::Broken => return Poll::Ready(Err(broken_chunk())),
                // Refused: an end would make hyper drop the answer that is being written.
                State::Ended | State::Paused => return Poll::Pending,
                _ => {}
            }
            if this.buffer.is_empty() && this.unguarded() >= buf.remaining() {
                return this.poll_read_through(cx, buf);
            }
            match this.poll_fill(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    ready!(this.poll_timer(cx));
                    this.refuse(Code::HeadTimeout);
                }
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Guard<S> {
    /// Writes interim answers, if any wait and no other answer is being written. An answer to
    /// come is written after them; what comes too late for that is dropped.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.shared.lock();
        shared.waker = Some(cx.waker().clone());
        if shared.interim.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if !self.between_answers {
            shared.interim.clear();
        }
        while !shared.interim.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, &shared.interim))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            shared.interim.advance(written);
        }
        drop(shared);
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_before_answer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_interim(cx))?;
        self.between_answers = false;
        Poll::Ready(Ok(()))
    }

    /// Ends our side, and reads on until the client ends its own or time is over.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut unwanted = [0; READ_SIZE];
            let mut unwanted = ReadBuf::new(&mut unwanted);
            match ready!(Pin::new(&mut self.inner).poll_read(cx, &mut unwanted)) {
                Ok(()) if !unwanted.filled().is_empty() => {}
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_before_answer(cx))?;
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_before_answer(cx))?;
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.between_answers = true;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.state {
            State::Head { .. } | State::Paused | State::Raw => {
                Pin::new(&mut self.inner).poll_shutdown(cx)
            }
            State::Body(_) | State::Chunked(_) | State::Broken | State::Ended => {
                self.poll_linger(cx)
            }
        }
    }
}

impl GuardHandle {
    /// The verdict on the head that hyper has just handed to the service.
    pub(crate) fn verdict(&self) -> Result<Approved, Code> {
        let verdict = self.0.lock().verdicts.pop_front().unwrap_or(Err(Code::Internal));
        let upgrade = match verdict? {
            Framing::Upgrade => Some(UpgradePass(Some(self.clone()))),
            _ => None,
        };
        Ok(Approved { guard: self.clone(), upgrade })
    }

    /// Has an interim answer (a whole 1xx head) written before the answer to come.
    pub(crate) fn write_interim(&self, head: &[u8]) {
        let mut shared = self.0.lock();
        // An upstream that sends nothing else must not fill our memory.
        if shared.interim.len() + head.len() <= MAX_INTERIM {
            shared.interim.extend_from_slice(head);
        }
        wake(&mut shared);
    }

    fn decide(&self, decision: Decision) {
        let mut shared = self.0.lock();
        shared.decision = Some(decision);
        wake(&mut shared);
    }
}

impl UpgradePass {
    /// From here on the bytes are not HTTP.
    pub(crate) fn grant(mut self) {
        if let Some(handle) = self.0.take() {
            handle.decide(Decision::Raw);
        }
    }
}

impl Drop for UpgradePass {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.decide(Decision::NextHead);
        }
    }
}

fn wake(shared: &mut Shared) {
    if let Some(waker) = shared.waker.take() {
        waker.wake();
    }
}

fn broken_chunk() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, keyless_core::Error::new(Code::BadRequest))
}
