//! The sockets on which everything that leaves the jail arrives.
//!
//! They are created inside the jail's network namespace and handed to the caller, who accepts on them
//! from outside. The two port numbers lie above the ephemeral range, so that a server of the agent's
//! own gets any port it is used to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::outcome::FunnelSockets;

/// Where DNS over UDP and TCP is turned to, inside.
pub const DNS_PORT: u16 = 61_053;
/// Where every other TCP connection is turned to, inside.
pub const FUNNEL_PORT: u16 = 61_443;

/// Connections waiting to be accepted; the kernel's own limit (4096) rules if lower.
const BACKLOG: i32 = 4096;

impl FunnelSockets {
    pub(crate) fn bind() -> io::Result<Self> {
        Ok(Self {
            tcp: listen(FUNNEL_PORT)?.into(),
            dns_udp: open(SocketType::DGRAM, DNS_PORT)?.into(),
            dns_tcp: listen(DNS_PORT)?.into(),
        })
    }
}

/// Where a connection accepted from [`FunnelSockets::tcp`] wanted to go; IPv4 as IPv4, never mapped.
///
/// # Errors
///
/// `ENOENT` and the like when the stream was not turned by the jail's rules.
pub fn original_destination(stream: &impl AsFd) -> io::Result<SocketAddr> {
    let local: SocketAddr = rustix::net::getsockname(stream)?.try_into()?;
    match local.ip().to_canonical() {
        IpAddr::V4(_) => Ok(sockopt::ip_original_dst(stream)?.into()),
        IpAddr::V6(_) => Ok(sockopt::ipv6_original_dst(stream)?.into()),
    }
}

fn listen(port: u16) -> io::Result<OwnedFd> {
    let socket = open(SocketType::STREAM, port)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A socket bound to the port on every address of both families, or of IPv4 where that is all there is.
fn open(kind: SocketType, port: u16) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let dual = || {
        let socket = rustix::net::socket_with(AddressFamily::INET6, kind, flags, None)?;
        sockopt::set_ipv6_v6only(&socket, false)?;
        rustix::net::bind(&socket, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))?;
        Ok(socket)
    };
    match dual() {
        Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) => {
            let socket = rustix::net::socket_with(AddressFamily::INET, kind, flags, None)?;
            rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))?;
            Ok(socket)
        }
        Err(error) => Err(error.into()),
        Ok(socket) => Ok(socket),
    }
}
