//! The service's side of `agent.sock`.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use keyless_core::{Code, Error, SafeText};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::{Notify, watch},
    time::Instant,
};

use super::protocol::{Answer, Call, MAX_LINE, SessionOffer, Status};
use crate::{
    broker::{Broker, Inherited, OpenSession, Wanted},
    places::Places,
    run::loopback_listener,
    sockets::{bind_private, is_live},
};

/// How long sessions may take to end when the store is locked.
const DRAIN: Duration = Duration::from_secs(2);

/// A broker that listens.
struct Service {
    broker: Broker,
    places: Places,
    locks_at: Instant,
    sessions: AtomicU64,
    lock: Notify,
    closing: watch::Sender<bool>,
    proxy: std::net::SocketAddr,
}

/// Serves until the window ends or somebody locks. `ready` is called once the socket listens.
pub async fn serve(
    broker: Broker,
    places: Places,
    window: Duration,
    ready: impl FnOnce(),
) -> Result<(), Error> {
    places.prepare_runtime()?;
    let path = places.agent_socket();
    if is_live(&path).await {
        let detail = SafeText::words("the store is unlocked already; keyless lock closes it");
        return Err(Error::with(Code::Usage, detail));
    }
    let listener = bind_private(&path).await?;
    let (proxy_listener, proxy) = loopback_listener().await?;
    broker.log_strangers();
    tokio::spawn(Arc::clone(broker.engine()).serve_proxy(proxy_listener));
    let locks_at = Instant::now() + window;
    let (sessions, lock, closing) = (AtomicU64::new(0), Notify::new(), watch::Sender::new(false));
    let service = Arc::new(Service { broker, places, locks_at, sessions, lock, closing, proxy });
    ready();
    let accepting = Arc::clone(&service);
    tokio::select! {
        () = tokio::time::sleep_until(locks_at) => {}
        () = service.lock.notified() => {}
        () = accept(accepting, listener) => {}
    }
    // The socket goes first: who comes now finds the store locked.
    let _ = fs::remove_file(&path);
    service.end_sessions().await;
    Ok(())
}

async fn accept(service: Arc<Service>, listener: UnixListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) if is_ours(&stream) => {
                tokio::spawn(converse(Arc::clone(&service), stream));
            }
            Ok(_) => {}
            // Out of descriptors, say; the next accept may do.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Only this user's processes; the directory's mode says so already.
fn is_ours(stream: &UnixStream) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == ours)
}

async fn converse(service: Arc<Service>, stream: UnixStream) {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut session = None;
    let mut closing = service.closing.subscribe();
    loop {
        let line = tokio::select! {
            line = next_line(&mut reader) => line,
            _ = closing.wait_for(|closing| *closing) => None,
        };
        let Some(line) = line else { break };
        let answer = if let Ok(call) = serde_json::from_slice(&line) {
            service.answer(call, &mut session).await
        } else {
            let detail = SafeText::words("the call can't be read");
            Answer::error(&Error::with(Code::BadRequest, detail))
        };
        let Ok(mut text) = serde_json::to_vec(&answer) else { break };
        text.push(b'\n');
        let written = writer.write_all(&text).await;
        if matches!(answer, Answer::Locked) {
            // Only now, since the process ends with it; and also when nobody waits for the answer.
            service.lock.notify_one();
        }
        if written.is_err() {
            break;
        }
    }
    if let Some(session) = session {
        service.close(session).await;
    }
}

async fn next_line(reader: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let read = reader.take(MAX_LINE as u64).read_until(b'\n', &mut line).await;
    (read.ok()? > 0 && line.ends_with(b"\n")).then_some(line)
}

/// A session of one connection, and the socket of its own.
struct Held {
    open: OpenSession,
    socket: PathBuf,
    serving: tokio::task::JoinHandle<()>,
}

impl Service {
    async fn answer(&self, call: Call, session: &mut Option<Held>) -> Answer {
        match call {
            Call::Lock => Answer::Locked,
            Call::Status => Answer::Status(Status {
                pid: std::process::id(),
                locks_in_seconds: self.locks_at.duration_since(Instant::now()).as_secs(),
                sessions: self.sessions.load(Ordering::Relaxed),
            }),
            Call::OpenSession { wanted, inherited } if session.is_none() => {
                match self.open(&wanted, &inherited).await {
                    Ok((held, offer)) => {
                        *session = Some(held);
                        Answer::Session(offer)
                    }
                    Err(error) => Answer::error(&error),
                }
            }
            Call::OpenSession { .. } => {
                let detail = SafeText::words("this connection has a session already");
                Answer::error(&Error::with(Code::BadRequest, detail))
            }
        }
    }

    async fn open(
        &self,
        wanted: &Wanted,
        inherited: &[Inherited],
    ) -> Result<(Held, SessionOffer), Error> {
        let open = self.broker.open_session(wanted, inherited).await?;
        let socket = self.places.runtime().join(format!("{}.sock", open.session.id()));
        let listener = bind_private(&socket).await?;
        let engine = Arc::clone(open.engine());
        let session = Arc::clone(&open.session);
        let serving = tokio::spawn(async move { engine.serve_unix(listener, session).await });
        self.sessions.fetch_add(1, Ordering::Relaxed);
        let offer = SessionOffer {
            id: open.session.id().to_owned(),
            variables: open.variables.clone(),
            trust_pem: open.trust_pem.clone(),
            socket: socket.clone(),
            proxy_url: format!("http://{}@{}", open.session.proxy_credential(), self.proxy),
            conceal: open.conceal.clone(),
            remove: open.remove.clone(),
        };
        Ok((Held { open, socket, serving }, offer))
    }

    /// Ends every session, its end on record; gives up waiting after [`DRAIN`].
    async fn end_sessions(&self) {
        self.closing.send_replace(true);
        let ended = async {
            while self.sessions.load(Ordering::Acquire) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(DRAIN, ended).await;
    }

    async fn close(&self, held: Held) {
        held.serving.abort();
        let _ = fs::remove_file(&held.socket);
        // The end could not be written: the session is closed all the same, and the log's fault
        // shows at the next use.
        let _ = held.open.end().await;
        self.sessions.fetch_sub(1, Ordering::Release);
    }
}
