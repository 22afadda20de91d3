//! One hop between a guest and egress: where streams go on to, and where they come from.

use std::{
    fmt, io,
    net::SocketAddr,
    os::fd::{AsFd as _, BorrowedFd},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use keyless_sockets::{Arrivals, End, Handed, connect_unix, send_with};
use rustix::net::sockopt::set_socket_linger;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy_bidirectional_with_sizes},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};

use crate::vsock::{self, VsockAddr, VsockListener};

/// Bytes per direction of one connection. An idle tunnel costs twice this.
const BUFFER: usize = 16 * 1024;

/// Where a stream goes on to: `unix:PATH`, `vsock:CID:PORT` or `ADDRESS:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
    /// Another machine on this hardware.
    Vsock(VsockAddr),
}

/// Where streams come from.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
    /// vsock: every guest, or the one with this context id. Others are closed unheard.
    Vsock(VsockListener, Option<u32>),
}

/// Any connected stream.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Whether the other side, once this is gone however that comes, sees that what it got is not all. A kind of stream
    /// that can't tell (a Unix socket, vsock) does nothing.
    fn when_gone(&mut self, end: End);

    /// The socket of the client that is at the far end, if it came along.
    fn client(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Duplex for TcpStream {
    fn when_gone(&mut self, end: End) {
        // One that is gone has nobody to tell.
        let _ = set_socket_linger(self.as_fd(), (end == End::Cut).then_some(Duration::ZERO));
    }
}

impl Duplex for UnixStream {
    fn when_gone(&mut self, _end: End) {}
}

impl Duplex for Handed {
    fn when_gone(&mut self, end: End) {
        self.when_dropped(end);
    }

    fn client(&self) -> Option<BorrowedFd<'_>> {
        self.client()
    }
}

impl Link {
    /// Connects. Waits as long as the kernel does.
    pub async fn dial(&self) -> io::Result<Box<dyn Duplex>> {
        Ok(match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Self::Unix(path) => Box::new(connect_unix(path).await?),
            Self::Vsock(address) => Box::new(vsock::connect(*address).await?),
        })
    }

    /// Connects and sends `first`. Over a Unix socket, which knows no resets, a copy of the client's own socket goes
    /// along: so the other side can tell the client of a connection that is cut.
    pub async fn dial_for(
        &self,
        first: &[u8],
        client: Option<BorrowedFd<'_>>,
    ) -> io::Result<Box<dyn Duplex>> {
        if let (Self::Unix(path), Some(client)) = (self, client) {
            let stream = connect_unix(path).await?;
            send_with(&stream, first, client).await?;
            return Ok(Box::new(stream));
        }
        let mut stream = self.dial().await?;
        stream.write_all(first).await?;
        Ok(stream)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Vsock(VsockAddr { cid, port }) => write!(f, "vsock:{cid}:{port}"),
        }
    }
}

impl FromStr for Link {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err("unix: needs a path")
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        if let Some(rest) = text.strip_prefix("vsock:") {
            let numbers = rest.split_once(':').map(|(cid, port)| (cid.parse(), port.parse()));
            return match numbers {
                Some((Ok(cid), Ok(port))) => Ok(Self::Vsock(VsockAddr { cid, port })),
                _ => Err("vsock: needs CID:PORT, two numbers"),
            };
        }
        text.parse()
            .map(Self::Tcp)
            .map_err(|_| "none of ADDRESS:PORT, unix:PATH and vsock:CID:PORT")
    }
}

impl From<PathBuf> for Link {
    fn from(path: PathBuf) -> Self {
        Self::Unix(path)
    }
}

impl Listener {
    /// The next stream.
    pub async fn accept(&self) -> io::Result<Box<dyn Duplex>> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Self::Unix(listener) => Box::new(Handed::new(listener.accept().await?.0)),
            Self::Vsock(listener, only) => loop {
                let (stream, peer) = listener.accept().await?;
                if only.is_none_or(|cid| cid == peer.cid) {
                    break Box::new(stream);
                }
            },
        })
    }
}

impl Arrivals for Listener {
    type Stream = Box<dyn Duplex>;

    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send {
        self.accept()
    }
}

/// Joins two streams until both have ended or one has failed. Memory does not grow with a slow
/// reader; the end of one direction is passed on while the other goes on. What breaks off, on either side or
/// here, is cut on both.
pub async fn splice<A: Duplex + ?Sized, B: Duplex + ?Sized>(
    a: &mut A,
    b: &mut B,
) -> io::Result<()> {
    // In advance, as this may be dropped, or the process end.
    a.when_gone(End::Cut);
    b.when_gone(End::Cut);
    let joined = copy_bidirectional_with_sizes(&mut *a, &mut *b, BUFFER, BUFFER).await;
    // To a side that has said everything and takes no more nothing can be said; that is no cut.
    if joined.as_ref().err().is_none_or(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        a.when_gone(End::Whole);
        b.when_gone(End::Whole);
    }
    joined.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_read_and_write_the_same() {
        for text in ["unix:/run/a.sock", "vsock:2:1025", "127.0.0.1:8889", "[::1]:1"] {
            assert_eq!(text.parse::<Link>().unwrap().to_string(), text);
        }
        for bad in ["", "unix:", "vsock:", "vsock:2", "vsock:2:x", "vsock:2:1:3", "localhost:1"] {
            assert!(bad.parse::<Link>().is_err(), "{bad}");
        }
    }
}
