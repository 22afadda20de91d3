//! The sessions that connections open: what each has of its own, and its end.

use std::{
    fs,
    future::Future,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use data_encoding::HEXLOWER;
use keyless_core::Error;
use tokio::{
    net::UnixListener,
    sync::{oneshot, watch},
    task::AbortHandle,
    time::timeout,
};

use super::{
    super::protocol::{OURS, SessionOffer, Ticket},
    Service,
    caller::Bound,
    serve_tools,
};
use crate::{
    broker::{Inherited, OpenSession, Wanted, session_id},
    caution::{self, Caution},
    nl::NlService,
    session_broker::LAST_TRIES,
    sockets::bind_private,
};

/// How long sessions, and refreshes that are under way, may take to end when the store is locked.
pub(super) const DRAIN: Duration = Duration::from_secs(2);

/// How long a session waits for config.toml to be looked at.
const STEP: Duration = Duration::from_secs(1);

/// A session of one connection, and the sockets of its own: for its traffic, and for its tools.
pub(super) struct Held {
    pub(super) open: OpenSession,
    door: Door,
    tools: Tools,
    /// The last of it to go.
    _counted: Counted,
}

/// One of the sessions that are open, until this is dropped: whoever ends waits for each.
struct Counted(Arc<AtomicU64>);

impl Counted {
    fn among(sessions: &Arc<AtomicU64>) -> Self {
        sessions.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(sessions))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// The door for the tools inside a session's jail. Dropped, the agent that they are is no more.
pub(super) struct Tools {
    bound: Arc<Bound>,
    door: Door,
    nl: Arc<NlService>,
    /// What no agent's action sees until then.
    _hidden: Arc<[PathBuf]>,
}

impl Drop for Tools {
    fn drop(&mut self) {
        // Closed in order, it is over already; it is not where who serves it has panicked.
        if self.bound.over.send_replace(true) {
            return;
        }
        let (nl, agent) = (Arc::clone(&self.nl), self.bound.agent.instance_id.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { timeout(LAST_TRIES, nl.close_session(&agent)).await });
        }
    }
}

/// A socket of a session. Once this is dropped nobody serves it, and its file is gone.
struct Door {
    socket: PathBuf,
    serving: Option<AbortHandle>,
}

impl Door {
    async fn bind(socket: PathBuf) -> Result<(Self, UnixListener), Error> {
        let listener = bind_private(&socket).await?;
        Ok((Self { socket, serving: None }, listener))
    }

    fn serve(&mut self, serving: impl Future<Output = ()> + Send + 'static) {
        self.serving = Some(tokio::spawn(serving).abort_handle());
    }

    fn close(&self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
        let _ = fs::remove_file(&self.socket);
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.close();
    }
}

impl Tools {
    /// Where they ask.
    pub(super) fn socket(&self) -> &PathBuf {
        &self.door.socket
    }
}

impl Service {
    /// The session of a ticket that this vault gave, else a new one.
    pub(super) fn ticket(&self, shown: Option<Ticket>) -> Ticket {
        let voucher = self.broker.vault().session_voucher();
        let genuine = |ticket: &Ticket| {
            let seal = HEXLOWER.decode(ticket.seal.as_bytes()).unwrap_or_default();
            voucher.fits(ticket.session.as_bytes(), &seal) && !self.book.has_ended(&ticket.session)
        };
        shown.filter(genuine).unwrap_or_else(|| self.ticket_for(session_id("m")))
    }

    pub(super) fn ticket_for(&self, session: String) -> Ticket {
        let voucher = self.broker.vault().session_voucher();
        let seal = HEXLOWER.encode(&voucher.seal(session.as_bytes()));
        Ticket { session, seal }
    }

    pub(super) async fn open(
        self: &Arc<Self>,
        wanted: &Wanted,
        inherited: &[Inherited],
        manifest: Option<&str>,
        hidden: Arc<[PathBuf]>,
    ) -> Result<(Held, SessionOffer), Error> {
        self.keep_step().await;
        let index_file = self.places.index_file();
        let caution = Caution::of(self.broker.vault(), &index_file, manifest).await?;
        let open = self.broker.open_session(wanted, inherited, caution).await?;
        let (door, tools) = match self.open_doors(&open, manifest, hidden).await {
            Ok(doors) => doors,
            Err(error) => {
                // Its start is on record.
                let _ = open.end().await;
                return Err(error);
            }
        };
        let counted = Counted::among(&self.sessions);
        let offer = SessionOffer {
            id: open.session.id().to_owned(),
            environment: open.environment.clone(),
            socket: door.socket.clone(),
            agent_socket: tools.socket().clone(),
            proxy_url: format!("http://{}@{}", open.session.proxy_credential(), self.proxy),
            version: Some(OURS.to_owned()),
        };
        Ok((Held { open, door, tools, _counted: counted }, offer))
    }

    /// What the operator has just written to config.toml, or agreed to, counts for a session that begins now.
    async fn keep_step(&self) {
        let (looked, is_looked) = oneshot::channel();
        let looking = async {
            if self.config_looks.send(looked).await.is_ok() {
                let _ = is_looked.await;
            }
        };
        // Files that are written without a pause keep nobody waiting, nor does a log that can't be written.
        let _ = timeout(STEP, looking).await;
    }

    async fn open_doors(
        self: &Arc<Self>,
        open: &OpenSession,
        manifest: Option<&str>,
        hidden: Arc<[PathBuf]>,
    ) -> Result<(Door, Tools), Error> {
        let socket = self.places.runtime().join(format!("{}.sock", open.session.id()));
        let (mut door, listener) = Door::bind(socket).await?;
        let (engine, session) = (Arc::clone(open.engine()), Arc::clone(&open.session));
        door.serve(async move { engine.serve_unix(listener, session).await });
        let tools = self.open_tools(open, manifest, hidden).await?;
        Ok((door, tools))
    }

    /// Opens the door for a session's tools. They are an agent from now on, which sees what the session was given.
    pub(super) async fn open_tools(
        self: &Arc<Self>,
        open: &OpenSession,
        manifest: Option<&str>,
        hidden: Arc<[PathBuf]>,
    ) -> Result<Tools, Error> {
        let (session, secrets) = (open.session.id().to_owned(), open.paths.clone());
        let placeholders = open.placeholders.clone();
        let socket = self.places.runtime().join(format!("{session}.agent.sock"));
        let own = manifest.map(caution::parse).transpose()?.unwrap_or_default();
        let (mut door, listener) = Door::bind(socket).await?;
        let agent = self.nl.open_session(&session).await?;
        let declared = own.required.into_iter().chain(own.optional).collect();
        let over = watch::Sender::new(false);
        let bound = Arc::new(Bound { session, agent, secrets, placeholders, declared, over });
        let inside = Some(Arc::clone(&bound));
        door.serve(serve_tools(Arc::clone(self), listener, inside));
        Ok(Tools { bound, door, nl: Arc::clone(&self.nl), _hidden: hidden })
    }

    /// Ends every session, its end on record; gives up waiting after [`DRAIN`].
    pub(super) async fn end_sessions(&self) {
        let engine = self.broker.engine();
        let cut = engine.in_flight();
        self.closing.send_replace(true);
        let ended = async {
            while self.sessions.load(Ordering::Acquire) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(DRAIN, ended).await;
        if cut > 0 {
            engine.let_clients_go().await;
        }
    }

    pub(super) async fn close(&self, held: Held) {
        held.door.close();
        self.close_tools(&held.tools).await;
        // The end could not be written: the session is closed all the same, and the log's fault
        // shows at the next use.
        let _ = held.open.end().await;
    }

    /// The agent of a session is no more, and what it has under way ends.
    pub(super) async fn close_tools(&self, tools: &Tools) {
        // Also for those who are connected already.
        tools.bound.over.send_replace(true);
        tools.door.close();
        // Not to be written: it ends by its time, and nobody can speak as it any more.
        let _ = timeout(LAST_TRIES, self.nl.close_session(&tools.bound.agent.instance_id)).await;
    }
}
