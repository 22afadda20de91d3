//! Where NL is served: a private Unix socket always, HTTP where the operator says so.

use std::{fs, net::SocketAddr, path::PathBuf, sync::Arc};

use keyless_core::{Code, Error, SafeText};
use keyless_egress::{ServerFiles, ServerTls};
use tokio::{
    net::{TcpListener, UnixListener},
    task::JoinHandle,
};

use super::{http, ndjson, service::NlService};
use crate::{
    config::{NlConfig, NlTls},
    places::Places,
    sockets::{bind_private, next_own},
};

/// The doors of a service; they close when this is dropped.
pub(crate) struct Listeners {
    socket: PathBuf,
    /// Where HTTP is served.
    pub(crate) http: Option<SocketAddr>,
    serving: Vec<JoinHandle<()>>,
}

impl Listeners {
    /// Opens them. [`Code::Usage`] when HTTP would be served to others without TLS.
    pub(crate) async fn open(
        service: Arc<NlService>,
        places: &Places,
        config: &NlConfig,
    ) -> Result<Self, Error> {
        let tls = config.tls.as_ref().map(server_tls).transpose()?.map(Arc::new);
        let bound = match config.http {
            Some(address) => Some(bind(address, tls.is_some()).await?),
            None => None,
        };
        let http = bound.as_ref().and_then(|listener| listener.local_addr().ok());
        service.served_at(http, tls.is_some());
        let socket = places.nl_socket();
        let listener = bind_private(&socket).await?;
        let mut serving = vec![tokio::spawn(accept(Arc::clone(&service), listener))];
        if let Some(listener) = bound {
            let listening = http::Listening { plain_discovery: config.plaintext_discovery, tls };
            serving.push(tokio::spawn(http::serve(service, listener, listening)));
        }
        Ok(Self { socket, http, serving })
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
        let _ = fs::remove_file(&self.socket);
    }
}

fn server_tls(tls: &NlTls) -> Result<ServerTls, Error> {
    let NlTls { certificate, key, client_ca } = tls.clone();
    ServerTls::load(ServerFiles { certificate, key, client_ca })
}

async fn bind(address: SocketAddr, has_tls: bool) -> Result<TcpListener, Error> {
    if !has_tls && !address.ip().is_loopback() {
        let words = "without TLS it serves this machine alone: listen on 127.0.0.1 or [::1]";
        return Err(Error::with(Code::Usage, SafeText::words(words)));
    }
    TcpListener::bind(address).await.map_err(|error| {
        let words = SafeText::default().and(address.ip()).and(":").and(address.port());
        Error::with(Code::PathUnusable, words.and(": ").and(error.kind()))
    })
}

async fn accept(service: Arc<NlService>, listener: UnixListener) {
    loop {
        let (reader, writer) = next_own(&listener).await.into_split();
        let service = Arc::clone(&service);
        tokio::spawn(async move { ndjson::serve(service, reader, writer, None).await });
    }
}
