//! Ends that can't be taken for whole ones.
//!
//! What goes in the clear and tells no length (an answer of HTTP/1.0, a file over a tunnel) is over when its
//! connection is. One that is cut, since it may not go on or since the other side broke off, therefore ends with a
//! reset. TLS, chunks and lengths tell it by themselves.
//!
//! Toward a funnel in another process there is a Unix socket in between, which knows no resets. The funnel hands a copy
//! of its client's own socket over with the first bytes, and that is disconnected.

use std::{
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::fd::OwnedFd,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, connect_unspec, recvmsg};
use tokio::{
    io::{AsyncRead, Interest, ReadBuf},
    net::{TcpStream, UnixStream},
};

use super::AnyStream;
use crate::{tls::Prefixed, write_through::write_through};

/// What may be cut.
pub(crate) trait Cut {
    /// Has the other side see, once this is dropped at the latest, that what it got is not all, where its kind of
    /// stream can tell.
    fn cut(&self);
}

impl Cut for dyn super::Stream {
    fn cut(&self) {
        let stream = self.as_any();
        if let Some(tcp) = stream.downcast_ref::<TcpStream>() {
            tcp.cut();
        } else if let Some(handed) = stream.downcast_ref::<Handed>() {
            handed.cut();
        } else if let Some(severable) = stream.downcast_ref::<Severable>() {
            severable.inner.cut();
        } else if let Some(inner) = stream.downcast_ref::<AnyStream>() {
            (**inner).cut();
        }
    }
}

impl Cut for AnyStream {
    fn cut(&self) {
        (**self).cut();
    }
}

impl Cut for TcpStream {
    fn cut(&self) {
        // One that is gone has nobody to tell.
        let _ = self.set_zero_linger();
    }
}

impl<S: Cut> Cut for Prefixed<S> {
    fn cut(&self) {
        self.inner.cut();
    }
}

/// A stream that is cut when it is dropped after a [`Knife`] was used, wherever it is by then.
pub(super) struct Severable {
    inner: AnyStream,
    is_cut: Arc<AtomicBool>,
}

/// Cuts a [`Severable`].
pub(super) struct Knife(Arc<AtomicBool>);

impl Severable {
    pub(super) fn new(inner: AnyStream) -> (Self, Knife) {
        let is_cut = Arc::new(AtomicBool::new(false));
        (Self { inner, is_cut: Arc::clone(&is_cut) }, Knife(is_cut))
    }
}

impl Knife {
    pub(super) fn cut(self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Drop for Severable {
    fn drop(&mut self) {
        if self.is_cut.load(Ordering::Acquire) {
            self.inner.cut();
        }
    }
}

/// A funnel's connection over a Unix socket, and its client's own socket if that came with the first bytes.
pub struct Handed {
    inner: UnixStream,
    has_begun: bool,
    client: Option<OwnedFd>,
}

impl Handed {
    /// Of an accepted connection, from which nothing was read yet.
    pub fn new(inner: UnixStream) -> Self {
        Self { inner, has_begun: false, client: None }
    }

    fn cut(&self) {
        if let Some(client) = &self.client {
            // Of what is no TCP socket, nothing comes.
            let _ = connect_unspec(client);
        }
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

write_through!(Handed);

impl AsyncRead for Severable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, into)
    }
}

write_through!(Severable);
