//! One hop between a guest and egress: where streams go on to, and where they come from.

use std::{fmt, io, net::SocketAddr, path::PathBuf, str::FromStr};

use tokio::{
    io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes},
    net::{TcpListener, TcpStream, UnixListener},
};

use crate::{
    unix::connect_unix,
    vsock::{self, VsockAddr, VsockListener},
};

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
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Duplex for S {}

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
            Self::Unix(listener) => Box::new(listener.accept().await?.0),
            Self::Vsock(listener, only) => loop {
                let (stream, peer) = listener.accept().await?;
                if only.is_none_or(|cid| cid == peer.cid) {
                    break Box::new(stream);
                }
            },
        })
    }
}

/// Joins two streams until both have ended or one has failed. Memory does not grow with a slow
/// reader; the end of one direction is passed on while the other goes on.
pub async fn splice<A: Duplex + ?Sized, B: Duplex + ?Sized>(
    a: &mut A,
    b: &mut B,
) -> io::Result<()> {
    copy_bidirectional_with_sizes(a, b, BUFFER, BUFFER).await.map(drop)
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
