//! Where the funnel's connections go on to: a port, and the carrier that ships.

use std::{net::SocketAddr, os::fd::AsFd as _, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use keyless_core::{Authority, Host};
use tokio::{net::TcpStream, time::timeout};

use crate::link::{Link, splice};

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
            let dialled =
                timeout(DIAL_TIMEOUT, way_out.dial_for(preamble.as_bytes(), Some(stream.as_fd())))
                    .await;
            let Ok(Ok(mut egress)) = dialled else { return };
            // A failure has closed both sides by the end of this block; they are the ones to know.
            let _ = splice(&mut stream, &mut *egress).await;
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{ErrorKind, IoSliceMut},
        mem::MaybeUninit,
        os::fd::OwnedFd,
    };

    use rustix::net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, connect_unspec, recvmsg,
    };
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
        net::{TcpListener, UnixListener, UnixStream},
    };

    use super::*;

    async fn begun(egress: &UnixStream) -> (Vec<u8>, Option<OwnedFd>) {
        let receive = || {
            let (mut space, mut text) =
                ([MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))], [0; 64]);
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut into = [IoSliceMut::new(&mut text)];
            let count = recvmsg(egress, &mut into, &mut control, RecvFlags::empty())?.bytes;
            let socket = control.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
                _ => None,
            });
            Ok((text[..count].to_vec(), socket))
        };
        egress.async_io(Interest::READABLE, receive).await.unwrap()
    }

    /// Bytes still go through the funnel; the socket is for saying that a connection was cut.
    #[tokio::test]
    async fn egress_gets_the_clients_own_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("egress.sock");
        let egress = UnixListener::bind(&path).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let target = Target::Name(Authority::parse("api.test:80").unwrap());
        tokio::spawn(PreambleCarrier::new(path).carry(accepted, target));
        let (mut egress, _) = egress.accept().await.unwrap();
        let (preamble, socket) = begun(&egress).await;
        assert_eq!(preamble, b"api.test:80\n");
        egress.write_all(b"half of").await.unwrap();
        client.read_exact(&mut [0; 7]).await.unwrap();
        connect_unspec(socket.unwrap()).unwrap();
        let error = client.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert!(egress.read(&mut [0]).await.is_ok_and(|count| count == 0), "the funnel lets go");
    }

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
