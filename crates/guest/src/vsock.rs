//! Stream sockets between a guest and its host (AF_VSOCK), for tokio.
//!
//! Linux' own: elsewhere nothing listens on one and none is connected.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
use elsewhere as system;
#[cfg(target_os = "linux")]
use linux as system;

pub use system::VsockListener;
pub(crate) use system::connect;

/// One end: a machine's context id and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VsockAddr {
    /// 2 is the host, 1 this machine itself, from 3 on guests.
    pub cid: u32,
    /// Any number; 1025 is egress (spec/egress-secret-proxy.md).
    pub port: u32,
}

impl VsockAddr {
    /// Where a guest finds its way out: the host's port 1025.
    pub const EGRESS: Self = Self { cid: 2, port: 1025 };
}
