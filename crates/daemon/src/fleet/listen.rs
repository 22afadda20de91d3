//! Where a sidecar listens, and what comes in there.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use keyless_core::{Code, Error, ForwardToken, SafeText, SessionId, SessionIdError};
use keyless_guest::VsockListener;
use tokio::net::{TcpListener, UnixListener};

use super::{Fleet, forward_door};
use crate::sockets::{PlacedSocket, bind_placed};

/// Where a sidecar listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetListen {
    /// Forwarders that show the token; each says which session its guest is.
    ForwardTcp(SocketAddr),
    /// Forwarders of this user; each says which session its guest is.
    ForwardUnix(PathBuf),
    /// An explicit proxy, with the session's credential.
    Tcp(SocketAddr),
    /// Connections with a preamble; the socket says which session.
    Unix(PathBuf),
    /// Guests over vsock: the one with this context id is the session, or each is its own.
    Vsock {
        /// The port.
        port: u32,
        /// The only guest, if there is one.
        only: Option<u32>,
    },
}

impl FleetListen {
    /// Whether sessions may come up here that nobody could ask for their authority before.
    pub(super) fn names_sessions(&self) -> bool {
        matches!(self, Self::ForwardTcp(_) | Self::ForwardUnix(_) | Self::Vsock { only: None, .. })
    }
}

/// A place that is listened on, and where nothing is served yet.
pub(super) enum Bound {
    ForwardTcp(TcpListener, SocketAddr, ForwardToken),
    ForwardUnix(UnixListener, PlacedSocket, PathBuf),
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PlacedSocket, PathBuf),
    Vsock(VsockListener, String, Option<u32>),
}

impl Bound {
    /// Listens there; forwarders over TCP show `token`.
    pub(super) async fn to(
        place: FleetListen,
        token: Option<&ForwardToken>,
    ) -> Result<Self, Error> {
        Ok(match place {
            FleetListen::ForwardTcp(address) => {
                let token = token.cloned().ok_or_else(|| {
                    let words = "forwarders over TCP need --forward-token FILE; ";
                    Error::with(Code::Usage, SafeText::words(words).and("a Unix socket does not"))
                })?;
                let (listener, address) = bind_tcp(address).await?;
                Self::ForwardTcp(listener, address, token)
            }
            FleetListen::ForwardUnix(path) => {
                let (listener, placed) = bind_placed(path.clone(), 0o600).await?;
                Self::ForwardUnix(listener, placed, path)
            }
            FleetListen::Tcp(address) => {
                let (listener, address) = bind_tcp(address).await?;
                Self::Tcp(listener, address)
            }
            FleetListen::Unix(path) => {
                let (listener, placed) = bind_placed(path.clone(), 0o600).await?;
                Self::Unix(listener, placed, path)
            }
            FleetListen::Vsock { port, only } => {
                let name =
                    only.map_or(format!("vsock:{port}"), |cid| format!("vsock:{cid}:{port}"));
                let listener =
                    VsockListener::bind(port).map_err(|error| cannot_listen(&name, &error))?;
                Self::Vsock(listener, name, only)
            }
        })
    }
}

impl Fleet {
    /// Serves what comes there.
    pub(super) fn serve(&mut self, place: Bound) -> Result<(), Error> {
        let (engine, sessions) = (Arc::clone(&self.sessions.engine), Arc::clone(&self.sessions));
        let session = Arc::clone(&self.own.session);
        let name = match place {
            Bound::ForwardTcp(listener, address, token) => {
                tokio::spawn(forward_door::serve_tcp(listener, token, sessions));
                format!("forward:{address}")
            }
            Bound::ForwardUnix(listener, placed, path) => {
                self.sockets.push(placed);
                tokio::spawn(forward_door::serve_unix(listener, sessions));
                format!("forward:unix:{}", path.display())
            }
            Bound::Tcp(listener, address) => {
                tokio::spawn(engine.serve_proxy(listener));
                let url = format!("http://{}@{address}", session.proxy_credential());
                self.proxy_url.get_or_insert(url);
                address.to_string()
            }
            Bound::Unix(listener, placed, path) => {
                self.sockets.push(placed);
                tokio::spawn(engine.serve_unix(listener, session));
                format!("unix:{}", path.display())
            }
            Bound::Vsock(listener, name, only) => {
                let only = only.map(|cid| Ok((cid, SessionId::parse(session.id())?)));
                let only = only.transpose().map_err(|_: SessionIdError| Code::Internal)?;
                tokio::spawn(forward_door::serve_vsock(listener, only, sessions));
                name
            }
        };
        self.listening.push(name);
        Ok(())
    }
}

/// Listens on a TCP address; gives the one that it got.
pub(super) async fn bind_tcp(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let name = address.to_string();
    let listener = TcpListener::bind(address).await.map_err(|e| cannot_listen(&name, &e))?;
    let address = listener.local_addr().map_err(|e| cannot_listen(&name, &e))?;
    Ok((listener, address))
}

/// Why an address can't be listened on: mostly another process has it.
pub(crate) fn cannot_listen(address: &str, error: &io::Error) -> Error {
    let words = SafeText::default().as_they_wrote(address).and(": ");
    Error::with(Code::AddressUnusable, words.and(error.kind()))
}
