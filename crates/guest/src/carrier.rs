//! Where the funnel's connections go on to: a port, and the carrier that ships.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use keyless_core::{Authority, Host};
use tokio::{
    io::{AsyncWriteExt, copy_bidirectional_with_sizes},
    net::{TcpStream, UnixStream},
    time::timeout,
};

/// How long the egress socket may take to accept and to read the preamble, as long as a client of
/// egress may take to send it (reference/egress.md (d)).
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes per direction of one connection. An idle tunnel costs twice this.
const BUFFER: usize = 16 * 1024;

/// Where a connection was going, as far as the funnel can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To the address of a name that was looked up here.
    Name(Authority),
    /// To an address that stands for no name; egress refuses it and writes that down.
    Raw(SocketAddr),
}

/// Takes accepted connections on. Object-safe.
pub trait Carrier: Send + Sync + 'static {
    /// Carries `stream` to `target` until both sides have ended, or one has failed. Dropping the
    /// future closes the connection.
    fn carry(&self, stream: TcpStream, target: Target) -> BoxFuture<'static, ()>;
}

/// Dials a Unix socket per connection, writes the preamble `host:port\n`, then splices.
///
/// Memory does not grow with a slow reader, and the end of one direction is passed on while the
/// other goes on. When the socket can't be reached, the connection is closed.
#[derive(Clone, Debug)]
pub struct PreambleCarrier {
    path: PathBuf,
}

impl Target {
    /// Host and port; an address as its literal.
    pub fn authority(&self) -> Authority {
        match self {
            Self::Name(authority) => authority.clone(),
            Self::Raw(address) => {
                Authority { host: Host::Ip(address.ip().to_canonical()), port: address.port() }
            }
        }
    }
}

impl PreambleCarrier {
    /// A carrier to the Unix socket at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

impl Carrier for PreambleCarrier {
    fn carry(&self, mut stream: TcpStream, target: Target) -> BoxFuture<'static, ()> {
        let path = self.path.clone();
        async move {
            let preamble = target.authority().to_preamble();
            let dialled = timeout(DIAL_TIMEOUT, dial(path, preamble)).await;
            let Ok(Ok(mut egress)) = dialled else { return };
            // A failure has closed both sides by the end of this block; they are the ones to know.
            let _ = copy_bidirectional_with_sizes(&mut stream, &mut egress, BUFFER, BUFFER).await;
        }
        .boxed()
    }
}

async fn dial(path: PathBuf, preamble: String) -> io::Result<UnixStream> {
    let mut egress = UnixStream::connect(path).await?;
    egress.write_all(preamble.as_bytes()).await?;
    Ok(egress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preamble_names_what_is_known() {
        let check = |target: Target, preamble| {
            assert_eq!(target.authority().to_preamble(), preamble);
        };
        check(Target::Name(Authority::parse("API.test:443").unwrap()), "api.test:443\n");
        check(Target::Raw("192.0.2.1:22".parse().unwrap()), "192.0.2.1:22\n");
        check(Target::Raw("[::ffff:192.0.2.1]:22".parse().unwrap()), "192.0.2.1:22\n");
        check(Target::Raw("[fe80::1%3]:22".parse().unwrap()), "[fe80::1]:22\n");
    }
}
