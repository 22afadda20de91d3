//! A client's own socket, lent to the other side of a Unix socket.
//!
//! A Unix socket knows no resets, so that what is cut looks whole to whoever is at its other end. A funnel hands a copy
//! of its client's own socket over with the first bytes, and that is disconnected.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    pin::Pin,
    task::{Context, Poll, ready},
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, connect_unspec, recvmsg, sendmsg,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::UnixStream,
};

/// How a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Cut: with a reset.
    Cut,
    /// All has been said.
    Whole,
}

/// A connection over a Unix socket, and its client's own socket if that came with the first bytes.
#[derive(Debug)]
pub struct Handed {
    inner: UnixStream,
    has_begun: bool,
    client: Option<OwnedFd>,
    end: End,
}

impl Handed {
    /// Wraps an accepted connection, from which nothing was read yet.
    pub fn new(inner: UnixStream) -> Self {
        Self { inner, has_begun: false, client: None, end: End::Whole }
    }

    /// The client's own socket, once it has come.
    pub fn client(&self) -> Option<BorrowedFd<'_>> {
        self.client.as_ref().map(OwnedFd::as_fd)
    }

    /// Has the client see, now, that what it got is not all.
    pub fn cut(&self) {
        if let Some(client) = &self.client {
            // Of what is no TCP socket, nothing comes.
            let _ = connect_unspec(client);
        }
    }

    /// What the client sees once this is dropped.
    pub fn when_dropped(&mut self, end: End) {
        self.end = end;
    }

    /// The first bytes, into `into`, with what came along.
    fn poll_begin(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.inner.poll_read_ready(cx))?;
            let received = self
                .inner
                .try_io(Interest::READABLE, || receive(&self.inner, into.initialize_unfilled()));
            match received {
                Ok((count, client)) => {
                    into.advance(count);
                    (self.has_begun, self.client) = (true, client);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if self.end == End::Cut {
            self.cut();
        }
    }
}

impl AsyncRead for Handed {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.has_begun {
            Pin::new(&mut this.inner).poll_read(cx, into)
        } else {
            this.poll_begin(cx, into)
        }
    }
}

impl AsyncWrite for Handed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Sends `bytes`, and `descriptor` with the first of them, to what will be a [`Handed`].
pub async fn send_with(
    stream: &UnixStream,
    bytes: &[u8],
    descriptor: BorrowedFd<'_>,
) -> io::Result<()> {
    let offer = |bytes: &[u8], descriptors: &[BorrowedFd<'_>]| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        // Rust's programs ignore SIGPIPE.
        let sent = sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::empty())?;
        Ok(sent)
    };
    let mut sent = stream.async_io(Interest::WRITABLE, || offer(bytes, &[descriptor])).await?;
    while sent < bytes.len() {
        sent += stream.async_io(Interest::WRITABLE, || offer(&bytes[sent..], &[])).await?;
    }
    Ok(())
}

/// Bytes and the descriptor that came with them; the kernel closes any further one.
fn receive(stream: &UnixStream, into: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    let received = recvmsg(stream, &mut [IoSliceMut::new(into)], &mut control, flags)?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((received.bytes, descriptors.flatten().next()))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    /// What a client reads whose socket was handed over, after the other side ended so.
    async fn seen_by_client(end: impl FnOnce(&mut Handed)) -> Result<usize, io::ErrorKind> {
        let (mut client, accepted) = connected().await;
        let (funnel, door) = UnixStream::pair().unwrap();
        send_with(&funnel, b"first", accepted.as_fd()).await.unwrap();
        drop(accepted);
        let mut handed = Handed::new(door);
        assert!(handed.client().is_none());
        let mut first = [0; 5];
        handed.read_exact(&mut first).await.unwrap();
        assert!(&first == b"first" && handed.client().is_some());
        end(&mut handed);
        drop(handed);
        client.read(&mut [0; 1]).await.map_err(|error| error.kind())
    }

    #[tokio::test]
    async fn a_client_sees_whether_all_was_said() {
        let reset = Err(io::ErrorKind::ConnectionReset);
        assert_eq!(seen_by_client(|handed| handed.cut()).await, reset);
        assert_eq!(seen_by_client(|handed| handed.when_dropped(End::Cut)).await, reset);
        assert_eq!(seen_by_client(|_| {}).await, Ok(0));
    }

    #[tokio::test]
    async fn a_descriptor_comes_with_the_first_bytes_or_not_at_all() {
        let (mut funnel, door) = UnixStream::pair().unwrap();
        funnel.write_all(b"a").await.unwrap();
        let mut handed = Handed::new(door);
        assert_eq!(handed.read_u8().await.unwrap(), b'a');
        let (client, _accepted) = connected().await;
        send_with(&funnel, b"b", client.as_fd()).await.unwrap();
        assert_eq!(handed.read_u8().await.unwrap(), b'b');
        assert!(handed.client().is_none());
    }
}
