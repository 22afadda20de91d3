//! Ends that can't be taken for whole ones.
//!
//! What goes in the clear and tells no length (an answer of HTTP/1.0, a file over a tunnel) is over when its
//! connection is. One that is cut, since it may not go on or since the other side broke off, therefore ends with a
//! reset. TLS, chunks and lengths tell it by themselves.
//!
//! Toward a funnel in another process there is a Unix socket in between, which knows no resets: it is [`Handed`] its
//! client's own.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use keyless_sockets::Handed;
use tokio::net::TcpStream;

use super::AnyStream;
use crate::{
    tls::Prefixed,
    write_through::{read_through, write_through},
};

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

read_through!(Severable);
write_through!(Severable);
