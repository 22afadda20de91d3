//! Whether the other side is still there: a silent one is asked by a PING, and given up if it does
//! not answer.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use h2::{Ping, PingPong};
use tokio::{
    io::{AsyncRead, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use crate::write_through::write_through;

/// How long the other side may be silent.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// Until it is asked.
    pub(super) silence: Duration,
    /// From then on.
    pub(super) answer: Duration,
}

/// A stream that notes that something came.
pub(super) struct Heard<S> {
    inner: S,
    signs: Signs,
}

/// Whether something came since this was last asked.
#[derive(Clone, Default)]
pub(super) struct Signs(Arc<AtomicBool>);

/// Asks the other side of one connection.
pub(super) struct KeepAlive {
    pings: PingPong,
    signs: Signs,
    patience: Patience,
    /// When something came last.
    heard: Instant,
    asked: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl<S> Heard<S> {
    pub(super) fn new(inner: S) -> (Self, Signs) {
        let signs = Signs::default();
        (Self { inner, signs: signs.clone() }, signs)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.inner).poll_read(cx, into));
        self.signs.0.store(true, Ordering::Relaxed);
        Poll::Ready(read)
    }
}

write_through!(Heard<S>);

impl KeepAlive {
    pub(super) fn new(pings: PingPong, signs: Signs, patience: Patience) -> Self {
        let timer = Box::pin(sleep(patience.silence));
        Self { pings, signs, patience, heard: Instant::now(), asked: None, timer }
    }

    /// Ready when the other side has not answered. To be polled after the connection, which reads.
    /// One that is not `busy` is not asked: there are servers that take it amiss.
    pub(super) fn poll_silent(&mut self, cx: &mut Context<'_>, busy: bool) -> Poll<()> {
        if self.signs.0.swap(false, Ordering::Relaxed) {
            self.heard = Instant::now();
        }
        if self.asked.is_some() && self.pings.poll_pong(cx).is_ready() {
            self.asked = None;
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let until = match self.asked {
                Some(asked) => asked.max(self.heard) + self.patience.answer,
                None => self.heard + self.patience.silence,
            };
            let now = Instant::now();
            if until > now {
                self.timer.as_mut().reset(until);
            } else if self.asked.is_some() {
                return Poll::Ready(());
            } else if busy && self.pings.send_ping(Ping::opaque()).is_ok() {
                self.asked = Some(now);
                self.timer.as_mut().reset(now + self.patience.answer);
            } else {
                self.timer.as_mut().reset(now + self.patience.silence);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    const MOMENT: Duration = Duration::from_millis(20);

    /// Whether a server gives the other side of `stream` up before that ends by itself.
    async fn gives_up(stream: DuplexStream) -> bool {
        let (stream, signs) = Heard::new(stream);
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let patience = Patience { silence: MOMENT, answer: MOMENT * 10 };
        let mut alive = KeepAlive::new(connection.ping_pong().unwrap(), signs, patience);
        poll_fn(|cx| match connection.poll_accept(cx) {
            Poll::Pending => alive.poll_silent(cx, true).map(|()| true),
            Poll::Ready(_) => Poll::Ready(false),
        })
        .await
    }

    #[tokio::test]
    async fn who_does_not_answer_is_given_up() {
        let (ours, mut theirs) = duplex(1 << 16);
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        theirs.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        theirs.write_all(&settings).await.unwrap();
        assert!(gives_up(ours).await);
    }

    #[tokio::test]
    async fn who_answers_is_kept() {
        let (ours, theirs) = duplex(1 << 16);
        let (requests, connection) = h2::client::handshake(theirs).await.unwrap();
        let leaves = async {
            // Many times as long as one that is silent would have.
            let served = tokio::time::timeout(MOMENT * 50, connection).await;
            assert!(served.is_err(), "it was ended");
            drop(requests);
        };
        let (kept, ()) = tokio::join!(gives_up(ours), leaves);
        assert!(!kept);
    }
}
