//! As Linux has them.
//!
//! A connected one is handed on as tokio's type for local stream sockets: reading, writing, polling
//! and shutting down are the same system calls for both, and none of them looks at the family. Only
//! what takes an address (connect, bind, accept) is done here.

mod sys;

use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, sockopt},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    net::UnixStream,
};

use super::VsockAddr;
use crate::sys::watch;

/// `VMADDR_CID_ANY`: every address of this machine, for listening.
const ANY: u32 = u32::MAX;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// A listening socket.
#[derive(Debug)]
pub struct VsockListener(AsyncFd<OwnedFd>);

impl VsockListener {
    /// Listens on `port`, for every guest that can reach this machine.
    pub fn bind(port: u32) -> io::Result<Self> {
        let socket = socket()?;
        rustix::net::bind(&socket, &VsockAddr { cid: ANY, port })?;
        rustix::net::listen(&socket, BACKLOG)?;
        watch(socket, Interest::READABLE).map(Self)
    }

    /// The next connection, and who it is from.
    pub async fn accept(&self) -> io::Result<(UnixStream, VsockAddr)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let accept = |socket: &OwnedFd| Ok(rustix::net::acceptfrom_with(socket, flags)?);
        let (socket, peer) = self.0.async_io(Interest::READABLE, accept).await?;
        let peer = peer.as_ref().and_then(sys::vsock_addr);
        Ok((stream(socket)?, peer.ok_or(io::ErrorKind::InvalidData)?))
    }
}

/// Connects to `address`. The kernel gives up after two seconds.
pub(crate) async fn connect(address: VsockAddr) -> io::Result<UnixStream> {
    let socket = watch(socket()?, Interest::WRITABLE)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::AGAIN) => {
            let _ready = socket.writable().await?;
            sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    stream(socket.into_inner())
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::VSOCK, SocketType::STREAM, flags, None)?)
}

fn stream(socket: OwnedFd) -> io::Result<UnixStream> {
    UnixStream::from_std(StdUnixStream::from(socket))
}
