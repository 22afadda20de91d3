//! DNS over UDP and TCP on sockets that were handed in.

use std::{convert::Infallible, future::Future, io, sync::Arc, time::Duration};

use keyless_sockets::accept_each;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};

use crate::{dns::answer_query, names::Pool};

/// The longest query that is read, in bytes; a real one has at most 300 or so.
const MAX_QUERY: usize = 4096;

/// Connections at once. A stub resolver uses one for a moment.
const TCP_CONNECTIONS: usize = 64;

/// How long a TCP client may take for its next query, and to take an answer.
const TCP_IDLE: Duration = Duration::from_secs(10);

/// How long to wait before trying a socket again that failed.
const PAUSE: Duration = Duration::from_millis(10);

/// Answers datagrams, one after the other: an answer takes microseconds.
pub(crate) async fn serve_udp(socket: UdpSocket, pool: Arc<Mutex<Pool>>) -> Infallible {
    // One byte more than is read, so that a longer query is cut short and thus malformed.
    let mut buffer = vec![0; MAX_QUERY + 1];
    loop {
        let Ok((length, client)) = socket.recv_from(&mut buffer).await else {
            // An ICMP error of an earlier answer, or no memory; nobody to tell.
            sleep(PAUSE).await;
            continue;
        };
        if let Some(reply) = answer_now(&buffer[..length], &pool) {
            // A client that is gone, or a full queue: it will ask again.
            let _ = socket.send_to(&reply, client).await;
        }
    }
}

/// Answers TCP clients, each until it has nothing more to ask.
pub(crate) fn serve_tcp(
    listener: TcpListener,
    pool: Arc<Mutex<Pool>>,
) -> impl Future<Output = Infallible> {
    let limit = Arc::new(Semaphore::new(TCP_CONNECTIONS));
    accept_each(listener, limit, move |(stream, _)| {
        let pool = Arc::clone(&pool);
        async move {
            // How one client's connection ended is nobody else's concern.
            let _ = serve_connection(stream, &pool).await;
        }
    })
}

/// Reads length-prefixed queries (RFC 1035, 4.2.2) and answers each, until the client ends, is
/// silent for too long, or sends what is no query.
async fn serve_connection(mut stream: TcpStream, pool: &Mutex<Pool>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    loop {
        timeout(TCP_IDLE, read_query(&mut stream, &mut buffer)).await??;
        let Some(reply) = answer_now(&buffer, pool) else { return Ok(()) };
        let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
        let framed = [&length.to_be_bytes(), reply.as_slice()].concat();
        timeout(TCP_IDLE, stream.write_all(&framed)).await??;
    }
}

async fn read_query(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<()> {
    let length = usize::from(stream.read_u16().await?);
    if length > MAX_QUERY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    buffer.resize(length, 0);
    stream.read_exact(buffer).await.map(drop)
}

fn answer_now(query: &[u8], pool: &Mutex<Pool>) -> Option<Vec<u8>> {
    answer_query(query, &mut pool.lock(), Instant::now().into_std())
}
