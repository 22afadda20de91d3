//! Where the funnel's connections go on to: a port, and the carrier that ships.

use std::{io, net::SocketAddr, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use keyless_core::{Authority, Host};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use crate::link::{Duplex, Link, splice};

/// How long the egress socket may take to accept and to read the preamble, as long as a client of
/// egress may take to send it (reference/egress.md (d)).
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

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

/// Dials the way out per connection, writes the preamble `host:port\n`, then splices. When it can't
/// be reached, the connection is closed.
#[derive(Clone, Debug)]
pub struct PreambleCarrier {
    way_out: Link,
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
    /// A carrier to a Unix socket (a path), or over vsock.
    pub fn new(way_out: impl Into<Link>) -> Self {
        Self { way_out: way_out.into() }
    }
}

impl Carrier for PreambleCarrier {
    fn carry(&self, mut stream: TcpStream, target: Target) -> BoxFuture<'static, ()> {
        let way_out = self.way_out.clone();
        async move {
            let preamble = target.authority().to_preamble();
            let dialled = timeout(DIAL_TIMEOUT, dial(way_out, preamble)).await;
            let Ok(Ok(mut egress)) = dialled else { return };
            // A failure has closed both sides by the end of this block; they are the ones to know.
            let _ = splice(&mut stream, &mut *egress).await;
        }
        .boxed()
    }
}

async fn dial(way_out: Link, preamble: String) -> io::Result<Box<dyn Duplex>> {
    let mut egress = way_out.dial().await?;
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
