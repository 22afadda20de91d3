//! A running funnel, clients of its DNS and its listener, and an egress socket that is a plain
//! Unix listener.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hickory_proto::{
    op::{Message, MessageType, OpCode, Query},
    rr::{Name, RData, RecordType, rdata::A},
    serialize::binary::BinDecodable,
};
use keyless_guest::{Carrier, Funnel, PreambleCarrier, Sockets};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::{TcpStream, UdpSocket, UnixListener, UnixStream},
    task::JoinHandle,
    time::timeout,
};

/// Long enough for any step on a busy machine; only a failing test waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Scene {
    /// Where the funnel listens, on every address of 127/8.
    pub(crate) port: u16,
    pub(crate) dns_udp: SocketAddr,
    pub(crate) dns_tcp: SocketAddr,
    pub(crate) funnel: JoinHandle<()>,
}

/// The far end: what egress would accept.
pub(crate) struct Egress {
    listener: UnixListener,
    directory: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new(carrier: impl Carrier, connection_limit: usize) -> Self {
        let sockets = Sockets {
            tcp: vec![std::net::TcpListener::bind("0.0.0.0:0").unwrap()],
            dns_udp: std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
            dns_tcp: std::net::TcpListener::bind("127.0.0.1:0").unwrap(),
        };
        let port = sockets.tcp[0].local_addr().unwrap().port();
        let dns_udp = sockets.dns_udp.local_addr().unwrap();
        let dns_tcp = sockets.dns_tcp.local_addr().unwrap();
        // No firewall here: a connection was going where it arrived.
        let funnel = Funnel::new(sockets, TcpStream::local_addr, Arc::new(carrier))
            .unwrap()
            .with_connection_limit(connection_limit);
        let funnel = tokio::spawn(async move {
            funnel.serve().await;
        });
        Self { port, dns_udp, dns_tcp, funnel }
    }

    /// The address that the funnel's DNS gives to `name`.
    pub(crate) async fn resolve(&self, name: &str) -> Ipv4Addr {
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        client.send_to(&query(1, name, RecordType::A), self.dns_udp).await.unwrap();
        let mut buffer = [0; 512];
        let received = timeout(PATIENCE, client.recv(&mut buffer)).await.unwrap().unwrap();
        address(&Message::from_bytes(&buffer[..received]).unwrap()).unwrap()
    }

    pub(crate) async fn connect(&self, address: Ipv4Addr) -> TcpStream {
        TcpStream::connect((address, self.port)).await.unwrap()
    }
}

impl Egress {
    pub(crate) fn listen() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("egress.sock")).unwrap();
        Self { listener, directory }
    }

    pub(crate) fn carrier(&self) -> PreambleCarrier {
        PreambleCarrier::new(self.directory.path().join("egress.sock"))
    }

    /// The next connection's preamble, and the connection.
    pub(crate) async fn accept(&self) -> (String, BufReader<UnixStream>) {
        let (stream, _) = timeout(PATIENCE, self.listener.accept()).await.unwrap().unwrap();
        let mut stream = BufReader::new(stream);
        let mut preamble = String::new();
        timeout(PATIENCE, stream.read_line(&mut preamble)).await.unwrap().unwrap();
        (preamble, stream)
    }
}

pub(crate) fn query(id: u16, name: &str, kind: RecordType) -> Vec<u8> {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message.to_vec().unwrap()
}

pub(crate) fn address(reply: &Message) -> Option<Ipv4Addr> {
    reply.answers.iter().find_map(|record| match record.data {
        RData::A(A(address)) => Some(address),
        _ => None,
    })
}

/// Everything until the peer ends.
pub(crate) async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut bytes = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.unwrap().unwrap();
    bytes
}
