//! Where there are none.

use std::{convert::Infallible, io};

use tokio::net::UnixStream;

use super::VsockAddr;

/// A listening socket, of which there is none.
#[derive(Debug)]
pub struct VsockListener(Infallible);

impl VsockListener {
    /// Refuses.
    pub fn bind(_port: u32) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The next connection, and who it is from.
    #[expect(clippy::unused_async, reason = "as on Linux")]
    pub async fn accept(&self) -> io::Result<(UnixStream, VsockAddr)> {
        match self.0 {}
    }
}

/// Refuses.
#[expect(clippy::unused_async, reason = "as on Linux")]
pub(crate) async fn connect(_address: VsockAddr) -> io::Result<UnixStream> {
    Err(io::ErrorKind::Unsupported.into())
}
