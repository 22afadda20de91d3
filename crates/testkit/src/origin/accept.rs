//! The accept loop: TLS, the transcript around it, then hyper or a script.
//!
//! Which HTTP version is spoken follows from ALPN alone, never from the first bytes.

use std::{convert::Infallible, io, sync::Arc};

use http::Request;
use hyper::{body::Incoming, server::conn, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use super::{
    Behaviour,
    handler::{Reply, RequestBody},
    transcript::{Entry, Log, Recording},
};

pub(super) struct Server {
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) prior_knowledge: bool,
    pub(super) behaviour: Behaviour,
    pub(super) max_streams: u32,
    pub(super) log: Log,
}

/// Any plaintext stream; boxed so that hyper is compiled once.
pub(super) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

type Plaintext = Recording<Box<dyn Transport>>;

impl Server {
    pub(super) async fn run(self: Arc<Self>, listener: TcpListener) {
        loop {
            // A failing accept (a client that left, too many files) concerns that client only.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::task::yield_now().await;
                continue;
            };
            let entry = self.log.connection();
            tokio::spawn(Arc::clone(&self).serve(stream, entry));
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, entry: Entry) {
        let handshake = self.handshake(stream, entry).await;
        let (transport, http2) = match handshake {
            Ok(pair) => pair,
            Err(error) => {
                return self.log.on_connection(entry, |connection| {
                    connection.handshake_error = Some(error.to_string());
                    connection.closed = true;
                });
            }
        };
        let plaintext = Recording::new(transport, self.log.clone(), entry);
        match &self.behaviour {
            Behaviour::Scripted(script) => script.play(plaintext).await,
            Behaviour::Http(_) if http2 => Self::serve_http2(self, plaintext).await,
            Behaviour::Http(_) => Self::serve_http1(self, plaintext).await,
        }
    }

    async fn handshake(
        &self,
        stream: TcpStream,
        entry: Entry,
    ) -> io::Result<(Box<dyn Transport>, bool)> {
        stream.set_nodelay(true)?;
        let Some(config) = &self.tls else {
            return Ok((Box::new(stream), self.prior_knowledge));
        };
        let stream = TlsAcceptor::from(Arc::clone(config)).accept(stream).await?;
        let (_, tls) = stream.get_ref();
        let alpn = tls.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
        let http2 = alpn.as_deref() == Some("h2");
        let server_name = tls.server_name().map(str::to_owned);
        self.log.on_connection(entry, |connection| {
            (connection.alpn, connection.server_name) = (alpn, server_name);
        });
        Ok((Box::new(stream), http2))
    }

    async fn serve_http1(self: Arc<Self>, plaintext: Plaintext) {
        let service = service_fn(move |request| Arc::clone(&self).answer(request));
        // A connection that breaks is the client's affair; the transcript has what came.
        let _ = conn::http1::Builder::new()
            .preserve_header_case(true)
            .half_close(true)
            .max_headers(1000)
            .serve_connection(TokioIo::new(plaintext), service)
            .with_upgrades()
            .await;
    }

    async fn serve_http2(self: Arc<Self>, plaintext: Plaintext) {
        let max_streams = self.max_streams;
        let service = service_fn(move |request| Arc::clone(&self).answer(request));
        let _ = conn::http2::Builder::new(TokioExecutor::new())
            .max_header_list_size(1 << 20)
            .max_concurrent_streams(max_streams)
            .serve_connection(TokioIo::new(plaintext), service)
            .await;
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Reply, Infallible> {
        let Behaviour::Http(handler) = &self.behaviour else {
            unreachable!("scripts are played without hyper");
        };
        let (parts, body) = request.into_parts();
        let entry = self.log.request(&parts);
        let body = RequestBody::new(body, self.log.clone(), entry);
        Ok(handler.call(Request::from_parts(parts, body)).await)
    }
}
