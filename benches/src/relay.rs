//! The baseline: a relay of the same hyper and rustls as Keyless that decrypts and forwards, and
//! does nothing else. No names, no policy, no scan, no log: what is left is what TLS and HTTP cost.
//!
//! One connection of a client has one connection to the origin, so that there is not even a pool.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::http1::{self as client, SendRequest},
    server::conn::http1 as server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, ServerConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Mutex,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::{ORIGIN, Result};

/// Both sides of the relay's TLS, and where it forwards to.
pub(crate) struct Relay {
    pub(crate) tls: Arc<ServerConfig>,
    pub(crate) upstream_tls: Arc<ClientConfig>,
    pub(crate) origin: SocketAddr,
}

impl Relay {
    /// Serves until the process ends.
    pub(crate) async fn serve(self, listener: TcpListener) -> Result<Infallible> {
        let relay = Arc::new(self);
        loop {
            let (stream, _) = listener.accept().await?;
            let relay = Arc::clone(&relay);
            tokio::spawn(async move {
                // A client that goes away is no news.
                let _ = relay.serve_connection(stream).await;
            });
        }
    }

    async fn serve_connection(&self, mut stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        read_connect(&mut stream).await?;
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        let stream = TlsAcceptor::from(Arc::clone(&self.tls)).accept(stream).await?;
        let upstream = Arc::new(Mutex::new(self.dial().await?));
        let service = service_fn(move |request| forward(request, Arc::clone(&upstream)));
        Ok(server::Builder::new().serve_connection(TokioIo::new(stream), service).await?)
    }

    async fn dial(&self) -> Result<SendRequest<Incoming>> {
        let stream = TcpStream::connect(self.origin).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::clone(&self.upstream_tls));
        let stream = connector.connect(ServerName::try_from(ORIGIN)?, stream).await?;
        let (sender, connection) = client::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

async fn forward(
    request: Request<Incoming>,
    upstream: Arc<Mutex<SendRequest<Incoming>>>,
) -> Result<Response<Incoming>> {
    let mut upstream = upstream.lock().await;
    upstream.ready().await?;
    Ok(upstream.send_request(request).await?)
}

/// Any CONNECT will do: all of them lead to the one origin.
async fn read_connect(stream: &mut TcpStream) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(())
}
