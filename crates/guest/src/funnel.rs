//! Sockets in, connections out: DNS on two of the sockets, everything else on the third.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use futures_util::future::join_all;
use keyless_core::{Authority, Host};
use keyless_sockets::accept_each;
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream, UdpSocket},
    sync::Semaphore,
};

use crate::{
    carrier::{Carrier, Target},
    dns::{serve_tcp, serve_udp},
    names::Pool,
};

/// Connections at once, unless said otherwise. Each takes two descriptors of this process.
pub const DEFAULT_CONNECTION_LIMIT: usize = 4096;

/// Listening sockets of the confined side.
#[derive(Debug)]
pub struct Sockets {
    /// Every TCP connection but those to port 53: one socket where a firewall turns them all to it,
    /// one for each port where none does.
    pub tcp: Vec<std::net::TcpListener>,
    /// DNS queries as datagrams.
    pub dns_udp: std::net::UdpSocket,
    /// DNS queries over TCP.
    pub dns_tcp: std::net::TcpListener,
}

/// Serves one confined side: a pool of names, its DNS, and its connections.
pub struct Funnel {
    tcp: Vec<TcpListener>,
    dns_udp: UdpSocket,
    dns_tcp: TcpListener,
    pool: Arc<Mutex<Pool>>,
    original_destination: Arc<OriginalDestination>,
    carrier: Arc<dyn Carrier>,
    connection_limit: usize,
}

type OriginalDestination = dyn Fn(&TcpStream) -> io::Result<SocketAddr> + Send + Sync;

/// An open connection's hold on the address it was made to.
struct Hold {
    pool: Arc<Mutex<Pool>>,
    address: Ipv4Addr,
}

impl Funnel {
    /// A funnel over `sockets`. `original_destination` says where an accepted connection was going
    /// (`SO_ORIGINAL_DST` where a firewall turned it, its own local address where none did).
    /// Must be called inside a tokio runtime; fails when a socket is not one.
    pub fn new(
        sockets: Sockets,
        original_destination: impl Fn(&TcpStream) -> io::Result<SocketAddr> + Send + Sync + 'static,
        carrier: Arc<dyn Carrier>,
    ) -> io::Result<Self> {
        let tcp = sockets.tcp.into_iter().map(|listener| {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        });
        sockets.dns_udp.set_nonblocking(true)?;
        sockets.dns_tcp.set_nonblocking(true)?;
        Ok(Self {
            tcp: tcp.collect::<io::Result<_>>()?,
            dns_udp: UdpSocket::from_std(sockets.dns_udp)?,
            dns_tcp: TcpListener::from_std(sockets.dns_tcp)?,
            pool: Arc::default(),
            original_destination: Arc::new(original_destination),
            carrier,
            connection_limit: DEFAULT_CONNECTION_LIMIT,
        })
    }

    /// Carries at most `connections` at once; over that, accepting waits.
    #[must_use]
    pub fn with_connection_limit(self, connections: usize) -> Self {
        Self { connection_limit: connections, ..self }
    }

    /// Serves until dropped; the connections under way end with it.
    pub async fn serve(self) -> Infallible {
        let udp = serve_udp(self.dns_udp, Arc::clone(&self.pool));
        let tcp = serve_tcp(self.dns_tcp, Arc::clone(&self.pool));
        let limit = Arc::new(Semaphore::new(self.connection_limit));
        let (pool, destination, carrier) = (self.pool, self.original_destination, self.carrier);
        let serve = move |(stream, _): (TcpStream, SocketAddr)| {
            let (pool, carrier) = (Arc::clone(&pool), Arc::clone(&carrier));
            let destination = Arc::clone(&destination);
            async move {
                // Not known where to: nothing can be carried, or written down, about it.
                let Ok(address) = destination(&stream) else { return };
                carry(stream, address, &pool, &*carrier).await;
            }
        };
        let listening = self.tcp.into_iter();
        let connections =
            join_all(listening.map(|socket| accept_each(socket, Arc::clone(&limit), &serve)));
        let (_, never, _) = tokio::join!(connections, udp, tcp);
        never
    }
}

/// Carries one connection that was going to `destination`.
async fn carry(
    stream: TcpStream,
    destination: SocketAddr,
    pool: &Arc<Mutex<Pool>>,
    carrier: &dyn Carrier,
) {
    // Without it each small write waits for the peer's delayed acknowledgement, some 40 ms
    // (reference/egress.md (f)). A socket that refuses the option still carries bytes.
    let _ = stream.set_nodelay(true);
    let (target, _hold) = match Hold::take(pool, destination.ip()) {
        Some((hold, host)) => {
            (Target::Name(Authority { host, port: destination.port() }), Some(hold))
        }
        None => (Target::Raw(destination), None),
    };
    carrier.carry(stream, target).await;
}

impl Hold {
    /// Holds `address` and gives its name, when it stands for one.
    fn take(pool: &Arc<Mutex<Pool>>, address: IpAddr) -> Option<(Self, Host)> {
        let IpAddr::V4(address) = address.to_canonical() else { return None };
        let name = pool.lock().open(address, Instant::now())?;
        Some((Self { pool: Arc::clone(pool), address }, Host::Name(name)))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.pool.lock().close(self.address, Instant::now());
    }
}
