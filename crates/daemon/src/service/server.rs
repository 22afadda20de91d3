//! The service's side of `agent.sock`.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use data_encoding::HEXLOWER;
use futures_util::future::BoxFuture;
use keyless_core::{Code, Error, SafeText, SecretPath, agent::Aid};
use keyless_mcp::Secrets as _;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::{Notify, watch},
};

use super::protocol::{Answer, Call, MAX_LINE, SessionOffer, Status, Ticket};
use crate::{
    agent_secrets::AgentSecrets,
    broker::{Broker, Inherited, OpenSession, Wanted, session_id},
    caution::Caution,
    config::{Config, NlConfig},
    deploys::{self, PACK_SESSION},
    desktop,
    liveness::LivenessChecks,
    log_keeping::keep_log,
    nl::{Listeners, NlService, Telling, serve_session, tell_all, tidy_agents},
    operator::{Approver, OperatorDoor, Overview},
    places::Places,
    provenance::trust_level,
    reload::Watcher,
    run::loopback_listener,
    session_book::{Entered, SessionBook, SessionKind},
    sockets::{bind_private, is_live, is_ours},
    web::{Desk, Web},
    window::{Keeper, Window},
};

/// How long sessions may take to end when the store is locked.
const DRAIN: Duration = Duration::from_secs(2);

/// A broker that listens.
struct Service {
    broker: Broker,
    nl: Arc<NlService>,
    places: Places,
    keeper: Arc<Keeper>,
    checks: Arc<LivenessChecks>,
    sessions: AtomicU64,
    book: Arc<SessionBook>,
    lock: Arc<Notify>,
    closing: watch::Sender<bool>,
    proxy: SocketAddr,
    web: Arc<Web>,
    /// Why config.toml as it lies there is not in force.
    config_problem: Mutex<Option<String>>,
}

/// Serves until the window ends or somebody locks. `ready` is called once the sockets listen, with the address
/// where NL is served over HTTP.
pub async fn serve(
    broker: Broker,
    places: Places,
    window: Window,
    nl: &NlConfig,
    ready: impl FnOnce(Option<SocketAddr>),
) -> Result<(), Error> {
    // What a key's file lacks is said now, and not when something has to be told.
    for hook in &nl.webhooks {
        hook.key()?;
    }
    places.prepare_runtime()?;
    let path = places.agent_socket();
    if is_live(&path).await {
        let detail = SafeText::words(
            "the store is unlocked already: run keyless lock first, or have that broker serve NL by `http` under `nl` in config.toml",
        );
        return Err(Error::with(Code::Usage, detail));
    }
    let listener = bind_private(&path).await?;
    let operator_path = places.operator_socket();
    let operator_listener = bind_private(&operator_path).await?;
    let speaking = Arc::new(NlService::new(&broker, &places, nl)?);
    let tidying = tokio::spawn(tidy_agents(Arc::clone(&speaking)));
    let nl_doors = Listeners::open(Arc::clone(&speaking), &places, nl).await?;
    let (proxy_listener, proxy) = loopback_listener().await?;
    broker.log_strangers();
    tokio::spawn(Arc::clone(broker.engine()).serve_proxy(proxy_listener));
    let keeper = Arc::new(Keeper::new(Arc::clone(broker.vault()), window));
    let keeping = Arc::clone(&keeper);
    let (sessions, closing) = (AtomicU64::new(0), watch::Sender::new(false));
    let (lock, book) = (Arc::new(Notify::new()), Arc::new(SessionBook::default()));
    let checks = Arc::new(LivenessChecks::new(&places, broker.log().clone()));
    let approver = Arc::new(Approver::of(&broker).checking(&places));
    let desk = Arc::new(Desk {
        vault: Arc::clone(broker.vault()),
        log: broker.log().clone(),
        requests: Arc::clone(broker.requests()),
        approver,
        overview: Overview::with_log(Arc::clone(broker.vault()), broker.log().clone()),
        keeper: Arc::clone(&keeper),
        book: Arc::clone(&book),
        lock: Arc::clone(&lock),
        places: places.clone(),
    });
    let web = Arc::new(Web::new(Arc::clone(&desk)));
    let door = Arc::new(OperatorDoor::new(&broker, desk, Arc::clone(&web)));
    let operating = tokio::spawn(door.serve(operator_listener));
    let config_problem = Mutex::default();
    let service = Arc::new(Service {
        broker,
        nl: speaking,
        places,
        keeper,
        checks,
        sessions,
        book,
        lock,
        closing,
        proxy,
        web,
        config_problem,
    });
    let requests = Arc::clone(service.broker.requests());
    let showing = tokio::spawn(desktop::watch(requests, service.places.clone()));
    let watcher = Watcher::new(vec![service.places.config_file()]).await;
    let following = tokio::spawn(follow_config(Arc::clone(&service), watcher));
    let (vault, log) = (Arc::clone(service.broker.vault()), service.broker.log().clone());
    let keeping_log = tokio::spawn(keep_log(vault, log, service.places.clone()));
    let telling = Telling {
        vault: Arc::clone(service.broker.vault()),
        log: service.broker.log().clone(),
        engine: Arc::clone(service.broker.engine()),
        places: service.places.clone(),
    };
    let telling = tokio::spawn(tell_all(telling, nl.webhooks.clone()));
    ready(nl_doors.http);
    let accepting = Arc::clone(&service);
    tokio::select! {
        () = keeping.run() => {}
        () = service.lock.notified() => {}
        () = accept(accepting, listener, None) => {}
    }
    following.abort();
    keeping_log.abort();
    tidying.abort();
    telling.abort();
    showing.abort();
    drop(nl_doors);
    // The socket goes first: who comes now finds the store locked.
    let _ = fs::remove_file(&path);
    let _ = fs::remove_file(&operator_path);
    operating.abort();
    service.end_sessions().await;
    // Sessions have ended theirs; what a killed client left goes too.
    service.broker.requests().take_all_back().await
}

/// Keeps the policy in step with config.toml; one that can't be used leaves what is in force, and
/// `keyless status` says why.
async fn follow_config(service: Arc<Service>, mut watcher: Watcher) {
    loop {
        let file = service.places.config_file();
        let loaded = Config::load(&file);
        let mut files = vec![file];
        files.extend(loaded.iter().flat_map(|config| config.egress.extra_roots.iter().cloned()));
        watcher.watch(files).await;
        let _ = watcher.changed().await;
        let config = Config::load(&service.places.config_file());
        let reloaded = config.and_then(|config| service.broker.reload(&config));
        *service.config_problem.lock() = reloaded.err().map(|error| error.message());
    }
}

/// Serves a socket: `agent.sock`, or the one of the session `bound`, for the tools inside its jail.
async fn accept(service: Arc<Service>, listener: UnixListener, bound: Option<Arc<Bound>>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) if is_ours(&stream) => {
                let bound = bound.clone();
                tokio::spawn(converse(Arc::clone(&service), stream, bound));
            }
            Ok(_) => {}
            // Out of descriptors, say; the next accept may do.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// [`accept`] without its type, which would contain itself: a session is opened inside a conversation.
fn serve_tools(
    service: Arc<Service>,
    listener: UnixListener,
    bound: Option<Arc<Bound>>,
) -> BoxFuture<'static, ()> {
    Box::pin(accept(service, listener, bound))
}

async fn converse(service: Arc<Service>, stream: UnixStream, bound: Option<Arc<Bound>>) {
    let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut caller = Caller { session: None, agent: None, entered: None, bound, peer };
    let mut closing = service.closing.subscribe();
    loop {
        let line = tokio::select! {
            // What was sent before a session's end and is read after it counts for nothing.
            biased;
            () = caller.ended() => None,
            _ = closing.wait_for(|closing| *closing) => None,
            line = next_line(&mut reader) => line,
        };
        let Some(line) = line else { break };
        if let Some(message) = nl_message(&line) {
            let agent = match service.speaks_as(&mut caller, &message).await {
                Ok(agent) => agent,
                Err(error) => {
                    let _ = writer.write_all(&NlService::refusal(error)).await;
                    break;
                }
            };
            let from = std::io::Cursor::new(line).chain(reader);
            tokio::select! {
                biased;
                () = caller.ended() => {}
                _ = closing.wait_for(|closing| *closing) => {}
                () = serve_session(Arc::clone(&service.nl), from, writer, agent.as_ref()) => {}
            }
            if let (Some(agent), None) = (agent, &caller.bound) {
                // Not to be written: it ends by its time, and nobody can speak as it any more.
                let _ = service.nl.close_session(&agent.instance_id).await;
            }
            break;
        }
        let answer = if let Ok(call) = serde_json::from_slice(&line) {
            service.answer(call, &mut caller).await
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
    if let Some(session) = caller.session {
        service.close(session).await;
    }
    if let (Some(agent), None) = (caller.agent, caller.bound) {
        // Not to be written: then what was approved ends by its time, and nobody has the session's name.
        let _ = service.broker.requests().end_session(&agent).await;
    }
}

/// What a connection stands for.
struct Caller {
    /// The run that lives as long as it.
    session: Option<Held>,
    /// The session of an agent's tools.
    agent: Option<String>,
    /// Its place among the open sessions.
    entered: Option<Entered>,
    /// The run in whose jail it is; then it is that session's tools and nothing else.
    bound: Option<Arc<Bound>>,
    peer: Option<i32>,
}

/// The run whose jail shows a socket, and the agent that it is.
struct Bound {
    session: String,
    agent: Aid,
    /// The secrets that it was given.
    secrets: Vec<SecretPath>,
    over: watch::Sender<bool>,
}

impl Bound {
    /// Returns when the run is over.
    async fn ended(&self) {
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }
}

impl Caller {
    /// Returns when the operator ends the session, or when the run is over in whose jail it is.
    async fn ended(&mut self) {
        match (&mut self.entered, &self.bound) {
            (Some(entered), _) => entered.ended().await,
            (None, Some(bound)) => bound.ended().await,
            (None, None) => std::future::pending().await,
        }
    }

    /// What `asked` comes to; [`Code::SessionEnded`] if the session ends before.
    async fn while_it_lasts<T>(
        &mut self,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = self.ended() => Err(Code::SessionEnded.into()),
            done = asked => done,
        }
    }
}

async fn next_line(reader: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let read = reader.take(MAX_LINE as u64).read_until(b'\n', &mut line).await;
    (read.ok()? > 0 && line.ends_with(b"\n")).then_some(line)
}

/// A line that is one of the NL Protocol's messages.
fn nl_message(line: &[u8]) -> Option<Map<String, Value>> {
    let object: Map<String, Value> = serde_json::from_slice(line).ok()?;
    object.contains_key("nl_version").then_some(object)
}

/// A session of one connection, and the sockets of its own: for its traffic, and for its tools.
struct Held {
    open: OpenSession,
    bound: Arc<Bound>,
    sockets: [PathBuf; 2],
    serving: [tokio::task::JoinHandle<()>; 2],
}

impl Service {
    async fn answer(self: &Arc<Self>, call: Call, caller: &mut Caller) -> Answer {
        match call {
            Call::Lock | Call::OpenSession { .. } if caller.bound.is_some() => {
                let detail = SafeText::words("this socket serves the tools of one session");
                Answer::error(&Error::with(Code::OperatorRequired, detail))
            }
            Call::Hello { ticket } => {
                let ticket = match &caller.bound {
                    Some(bound) => self.ticket_for(bound.session.clone()),
                    None => self.ticket(ticket),
                };
                if caller.bound.is_none() && caller.entered.is_none() {
                    let kind = SessionKind::Tools;
                    caller.entered = Some(self.book.enter(&ticket.session, kind, Vec::new()));
                }
                caller.agent = Some(ticket.session.clone());
                Answer::Hello { ticket }
            }
            Call::Deploy { by, wanted } => {
                let bound = caller.bound.clone();
                let session = bound.as_ref().map_or(PACK_SESSION, |bound| bound.session.as_str());
                let requests = self.broker.requests();
                let asked = deploys::stand(requests, &self.places, session, by, wanted);
                match caller.while_it_lasts(Box::pin(asked)).await {
                    Ok(word) => Answer::Deploy { word },
                    Err(error) => Answer::error(&error),
                }
            }
            Call::Secrets { manifest, ask } => {
                let asked = match self.view(caller, manifest) {
                    Ok(secrets) => caller.while_it_lasts(Box::pin(secrets.ask(ask))).await,
                    Err(error) => Err(error),
                };
                match asked {
                    Ok(reply) => Answer::Secrets { reply: Box::new(reply) },
                    Err(error) => Answer::error(&error),
                }
            }
            Call::Lock => {
                self.broker.vault().lock();
                Answer::Locked
            }
            Call::Reopen { code, seconds } => {
                let asked = seconds.map(Duration::from_secs);
                match self.keeper.reopen(&code, asked).await {
                    Ok(granted) => Answer::Reopened { seconds: granted.as_secs() },
                    Err(error) => Answer::error(&error),
                }
            }
            Call::Status => Answer::Status(Status {
                pid: std::process::id(),
                locks_in_seconds: self.locks_in_seconds(),
                locked: !self.broker.vault().is_open(),
                takes_codes: self.keeper.takes_codes(),
                sessions: self.sessions.load(Ordering::Relaxed),
                config_problem: self.config_problem.lock().clone(),
            }),
            Call::OpenSession { wanted, inherited, manifest } if caller.session.is_none() => {
                match self.open(&wanted, &inherited, manifest.as_deref()).await {
                    Ok((held, offer)) => {
                        let (id, paths) = (held.open.session.id(), held.open.paths.clone());
                        caller.entered = Some(self.book.enter(id, SessionKind::Run, paths));
                        caller.session = Some(held);
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

    /// The agent that a connection is whose sender shows no credential: the session of its jail, or one of its own,
    /// which the operator can see and end.
    async fn speaks_as(
        &self,
        caller: &mut Caller,
        first: &Map<String, Value>,
    ) -> Result<Option<Aid>, Error> {
        if let Some(bound) = &caller.bound {
            return Ok(Some(bound.agent.clone()));
        }
        if first.get("payload").and_then(|payload| payload.get("credential")).is_some() {
            return Ok(None);
        }
        let agent = self.nl.open_session("mcp", &session_id("m")).await?;
        if caller.entered.is_none() {
            let id = agent.instance_id.as_str();
            caller.entered = Some(self.book.enter(id, SessionKind::Tools, Vec::new()));
        }
        Ok(Some(agent))
    }

    fn locks_in_seconds(&self) -> u64 {
        self.keeper.locks_in().map_or(0, |rest| rest.as_secs())
    }

    /// The session of a ticket that this vault gave, else a new one.
    fn ticket(&self, shown: Option<Ticket>) -> Ticket {
        let voucher = self.broker.vault().session_voucher();
        let genuine = |ticket: &Ticket| {
            let seal = HEXLOWER.decode(ticket.seal.as_bytes()).unwrap_or_default();
            voucher.fits(ticket.session.as_bytes(), &seal) && !self.book.has_ended(&ticket.session)
        };
        shown.filter(genuine).unwrap_or_else(|| self.ticket_for(session_id("m")))
    }

    fn ticket_for(&self, session: String) -> Ticket {
        let voucher = self.broker.vault().session_voucher();
        let seal = HEXLOWER.encode(&voucher.seal(session.as_bytes()));
        Ticket { session, seal }
    }

    fn view(&self, caller: &Caller, manifest: Option<String>) -> Result<AgentSecrets, Error> {
        let session = caller.agent.clone().ok_or_else(|| {
            Error::with(Code::BadRequest, SafeText::words("a greeting comes first"))
        })?;
        Ok(AgentSecrets {
            vault: Arc::clone(self.broker.vault()),
            requests: Arc::clone(self.broker.requests()),
            session,
            given: caller.bound.as_ref().map(|bound| bound.secrets.clone()),
            manifest,
            index_file: self.places.index_file(),
            keeper: Arc::clone(&self.keeper),
            checks: Arc::clone(&self.checks),
            trust_level: trust_level(caller.peer),
            web: Arc::clone(&self.web),
        })
    }

    async fn open(
        self: &Arc<Self>,
        wanted: &Wanted,
        inherited: &[Inherited],
        manifest: Option<&str>,
    ) -> Result<(Held, SessionOffer), Error> {
        let index_file = self.places.index_file();
        let caution = Caution::of(self.broker.vault(), &index_file, manifest).await?;
        let open = self.broker.open_session(wanted, inherited, caution).await?;
        let socket = self.places.runtime().join(format!("{}.sock", open.session.id()));
        let listener = bind_private(&socket).await?;
        let engine = Arc::clone(open.engine());
        let session = Arc::clone(&open.session);
        let serving = tokio::spawn(async move { engine.serve_unix(listener, session).await });
        let agent_socket = self.places.runtime().join(format!("{}.agent.sock", open.session.id()));
        let agent_listener = bind_private(&agent_socket).await?;
        let agent = self.nl.open_session("run", open.session.id()).await?;
        let (session, secrets) = (open.session.id().to_owned(), open.paths.clone());
        let over = watch::Sender::new(false);
        let bound = Arc::new(Bound { session, agent, secrets, over });
        let inside = Some(Arc::clone(&bound));
        let tools = tokio::spawn(serve_tools(Arc::clone(self), agent_listener, inside));
        self.sessions.fetch_add(1, Ordering::Relaxed);
        let offer = SessionOffer {
            id: open.session.id().to_owned(),
            variables: open.variables.clone(),
            trust_pem: open.trust_pem.clone(),
            socket: socket.clone(),
            agent_socket: agent_socket.clone(),
            proxy_url: format!("http://{}@{}", open.session.proxy_credential(), self.proxy),
            conceal: open.conceal.clone(),
            remove: open.remove.clone(),
        };
        let (sockets, serving) = ([socket, agent_socket], [serving, tools]);
        Ok((Held { open, bound, sockets, serving }, offer))
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
        // Also for those who are connected already.
        held.bound.over.send_replace(true);
        held.serving.iter().for_each(tokio::task::JoinHandle::abort);
        for socket in &held.sockets {
            let _ = fs::remove_file(socket);
        }
        // The end could not be written: the session is closed all the same, and the log's fault
        // shows at the next use.
        let _ = self.nl.close_session(&held.bound.agent.instance_id).await;
        let _ = held.open.end().await;
        self.sessions.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
