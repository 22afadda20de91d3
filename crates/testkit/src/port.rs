//! A free port for a server that is told a number and can't be handed a socket.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

const ATTEMPTS: usize = 5;

/// Starts a server at a free port of 127.0.0.1. The port is free when we look; another process may take it before the
/// server does, and then it is another one.
pub(crate) fn at_a_free_port<T>(start: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let mut last = io::ErrorKind::AddrInUse.into();
    for _ in 0..ATTEMPTS {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        match start(address) {
            Err(error) if is_taken(&error) => last = error,
            settled => return settled,
        }
    }
    Err(last)
}

/// Whether a server's port is somebody else's, by its own words where they are all there is.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse || error.to_string().contains("Address already in use")
}
