//! The baseline: a relay of the same hyper and rustls as Keyless that decrypts and forwards, and
//! does nothing else. No names, no policy, no scan, no log: what is left is what TLS and HTTP cost.
//!
//! One connection of a client has one connection to the origin, so that there is not even a pool. A
//! second one keeps Keyless's log as well: what an entry for each request costs where nothing else is done.

use std::{convert::Infallible, net::SocketAddr, path::Path, sync::Arc};

use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::http1::{self as client, SendRequest},
    server::conn::http1 as server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use keyless_core::{
    Authority, SecretPath,
    audit::{Action, Agent, Detail, Draft, LogKeyId, Outcome, Target},
};
use keyless_store::{AuditLog, HeadSealer, Store};
use rustls::{ClientConfig, ServerConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Mutex,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use zeroize::Zeroizing;

use crate::{ORIGIN, Result};

/// Both sides of the relay's TLS, and where it forwards to.
pub(crate) struct Relay {
    pub(crate) tls: Arc<ServerConfig>,
    pub(crate) upstream_tls: Arc<ClientConfig>,
    pub(crate) origin: SocketAddr,
    pub(crate) log: Option<Log>,
}

/// An entry for each request, as Keyless has one.
pub(crate) struct Log {
    entries: AuditLog,
    agent: Arc<Agent>,
    authority: Authority,
    secret: SecretPath,
}

/// Keys that cost what keys cost, of which nobody asks that they are secret.
struct Fixed;

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
        let service = service_fn(|request| self.forward(request, Arc::clone(&upstream)));
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

    async fn forward(
        &self,
        request: Request<Incoming>,
        upstream: Arc<Mutex<SendRequest<Incoming>>>,
    ) -> Result<Response<Incoming>> {
        let entry = self.log.as_ref().map(|log| (log, log.entry(&request)));
        let mut upstream = upstream.lock().await;
        upstream.ready().await?;
        let response = upstream.send_request(request).await?;
        if let Some((log, mut entry)) = entry {
            entry.detail.status = Some(response.status().as_u16());
            log.entries.append_soon(entry)?;
        }
        Ok(response)
    }
}

impl Log {
    /// One that begins in this file.
    pub(crate) async fn begin(file: &Path) -> Result<Self> {
        let store = Store::create_or_open(file).await?;
        let keys: Arc<dyn HeadSealer> = Arc::new(Fixed);
        let mut writing = store.write().await?;
        writing.seal_audit_head(&*keys).await?;
        writing.commit().await?;
        Ok(Self {
            entries: AuditLog::start(&store, Some(keys)),
            agent: Arc::new(Agent {
                uri: "nl://keyless.dev/proxy/0.1.0".to_owned(),
                organization_id: "local".to_owned(),
                session_id: "0192f0c1-0000-7000-8000-000000000001".to_owned(),
                delegated_by: "human:operator".to_owned(),
            }),
            authority: Authority::parse(&format!("{ORIGIN}:443"))?,
            secret: SecretPath::parse("bench/relay/token")?,
        })
    }

    fn entry(&self, request: &Request<Incoming>) -> Draft {
        let detail = Detail {
            method: Some(request.method().to_string()),
            path: Some(request.uri().path().to_owned()),
            swaps: Some(1),
            ..Detail::default()
        };
        let target = Target::Authority(self.authority.clone());
        let correlation_id = format!("req-{}", uuid::Uuid::now_v7());
        let agent = Arc::clone(&self.agent);
        let (action, outcome) = (Action::Egress, Outcome::Success);
        let entry = Draft::new(Timestamp::now(), agent, action, outcome, target, correlation_id);
        Draft { detail, secrets_used: vec![self.secret.clone()], ..entry }
    }
}

impl HeadSealer for Fixed {
    fn seal(&self, chain: &str, sequence: u64, entry_hash: &str) -> Vec<u8> {
        format!("{chain} {sequence} {entry_hash}").into_bytes()
    }

    fn seal_segment(&self, text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    fn seal_key(&self, text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    fn entry_key(&self, _: LogKeyId) -> Zeroizing<[u8; 32]> {
        [7; 32].into()
    }
}

/// Any CONNECT will do: all of them lead to the one origin.
async fn read_connect(stream: &mut TcpStream) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(())
}
