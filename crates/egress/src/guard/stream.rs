//! The guard as a stream: what hyper reads of it, and what is written past hyper.

use std::{
    io,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Buf as _;
use keyless_core::{Code, Error};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::sleep,
};

use super::{Guard, State};

const READ_SIZE: usize = 8 << 10;
/// How long bytes that nobody wants are still read after a refusal. A socket that is closed over
/// unread bytes is reset, and the client may lose the answer (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(1);

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
            match &this.state {
                State::Broken(error) => return Poll::Ready(Err(broken(error.clone()))),
                // Refused: an end would make hyper drop the answer that is being written.
                State::Ended => return Poll::Pending,
                // Looked at all the same: who asked for the upgrade may leave before it is decided.
                State::Paused if this.buffer.len() >= this.rules.head_bytes => {
                    return Poll::Pending;
                }
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
                    this.refuse(Code::HeadTimeout.into());
                }
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
            State::Body(_) | State::Chunked(_) | State::Broken(_) | State::Ended => {
                self.poll_linger(cx)
            }
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

    /// Reads more into our own buffer; 0 at the end. By way of the stack, so that an idle
    /// connection holds no buffer, and one in use not a fresh large one per request.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut read = [MaybeUninit::uninit(); READ_SIZE];
        let mut read = ReadBuf::uninit(&mut read);
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut read))?;
        self.buffer.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Guard<S> {
    /// Writes interim answers, if any wait and no other answer is being written. An answer to
    /// come is written after them; what comes too late for that is dropped.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.shared.lock();
        // As a rule the one of before, which costs no count of who has it.
        shared.waker.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
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

fn broken(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
