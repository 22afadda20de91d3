//! Where NL is served: a private Unix socket always, HTTP where the operator says so.

use std::{fs, net::SocketAddr, path::PathBuf, sync::Arc};

use keyless_core::{Code, Error, SafeText};
use keyless_egress::{ServerFiles, ServerTls};
use keyless_sockets::{Accepting, Seats};
use tokio::{
    net::{TcpListener, UnixListener},
    task::JoinHandle,
};

use super::{http, ndjson, service::NlService};
use crate::{
    config::{NlConfig, NlTls},
    places::Places,
    sockets::{bind_private, next_own, process_of},
};

/// Connections to the socket at a time, as many as over HTTP.
const MAX_CONNECTIONS: usize = 256;

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
        Error::with(Code::AddressUnusable, words.and(": ").and(error.kind()))
    })
}

async fn accept(service: Arc<NlService>, listener: UnixListener) {
    let seats = Seats::of(MAX_CONNECTIONS);
    let mut accepting = Accepting::at(listener);
    loop {
        let stream = next_own(&mut accepting).await;
        let taken = seats.wait(process_of(&stream)).await;
        let service = Arc::clone(&service);
        tokio::spawn(async move {
            let (reader, writer) = stream.into_split();
            tokio::select! {
                () = ndjson::serve(service, reader, writer, None, taken.seat()) => {}
                () = taken.wanted() => {}
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use keyless_sockets::connect_unix;
    use serde_json::{Value, json};
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
        net::UnixStream,
        time::timeout,
    };

    use super::*;
    use crate::nl::scene::Served;

    /// For what comes at once.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// One line said, one heard.
    async fn ask(stream: &mut BufReader<UnixStream>, message: &Value) -> Value {
        stream.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    #[tokio::test]
    async fn who_only_sits_at_the_socket_keeps_no_agent_out() {
        let served = Served::new().await;
        let home = tempfile::tempdir().unwrap();
        let socket = home.path().join("nl.sock");
        let listener = bind_private(&socket).await.unwrap();
        tokio::spawn(accept(Arc::clone(&served.nl), listener));
        let connect = async || BufReader::new(connect_unix(&socket).await.unwrap());
        let mut idle = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            let mut stream = connect().await;
            // Each has its seat before the next one comes.
            ask(&mut stream, &json!({})).await;
            idle.push(stream);
        }
        let mut agent = connect().await;
        let answer = ask(&mut agent, &json!({})).await;
        assert_eq!(answer["message_type"], "error", "{answer}");
        // The oldest has given way to it, and the next is still there.
        let left = timeout(PATIENCE, idle[0].read(&mut [0])).await;
        assert_eq!(left.expect("it gives way").unwrap(), 0);
        assert!(ask(&mut idle[1], &json!({})).await.is_object());
    }
}
