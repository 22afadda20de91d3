//! Stream sockets between a guest and its host (AF_VSOCK), for tokio.
//!
//! Linux' own: elsewhere nothing listens on one and none is connected.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

use std::io;

#[cfg(not(target_os = "linux"))]
use elsewhere as system;
use keyless_sockets::Arrivals;
#[cfg(target_os = "linux")]
use linux as system;
pub use system::VsockListener;
pub(crate) use system::connect;
use tokio::net::UnixStream;

/// One end: a machine's context id and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VsockAddr {
    /// 2 is the host, 1 this machine itself, from 3 on guests.
    pub cid: u32,
    /// Any number; 1025 is egress (spec/egress-secret-proxy.md).
    pub port: u32,
}

impl Arrivals for VsockListener {
    /// With the machine that it comes from.
    type Stream = (UnixStream, VsockAddr);

    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send {
        self.accept()
    }
}

impl VsockAddr {
    /// Where a guest finds its way out: the host's port 1025.
    pub const EGRESS: Self = Self { cid: 2, port: 1025 };
}
