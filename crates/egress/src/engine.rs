//! The proxy itself: what it is set up with, its sessions, and its doors.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use keyless_core::{Authority, Code, Destination, Error, Host};
use parking_lot::{Mutex, RwLock};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::Notify,
    task::AbortHandle,
};

use crate::{
    Client, Limits, UpstreamProxy,
    door::{self, AnyStream},
    limits::FAREWELLS,
    pool::Pool,
    ports::Broker,
    quota::Allowance,
    reach::Reach,
    reading::Reading,
    room::Room,
    session::{Session, SessionSecret, SessionSpec},
    strangers::Strangers,
    tls::{Roots, RootsError},
};

const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
/// For clients to see that what they read was cut.
const FAREWELL: Duration = Duration::from_secs(1);

/// What an engine is set up with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineConfig {
    /// The operator's exact routes: requests for the first are dialled at the second, an address
    /// or a name, whatever its zone. TLS still verifies the first.
    pub connect_to: HashMap<Authority, Authority>,
    /// Roots beside the machine's own, each a PEM file's content.
    pub extra_roots_pem: Vec<Vec<u8>>,
    /// Internal destinations that may be reached, exactly as requests name them.
    pub internal_allowlist: Vec<Authority>,
    /// Hosts whose TLS is never intercepted, whatever a secret says: their clients pin the
    /// certificate. No value goes there.
    pub pass_through: Vec<Destination>,
    /// Which external destinations may be reached.
    pub policy: EgressPolicy,
    /// The proxy that leads out, where there is one.
    pub upstream_proxy: Option<UpstreamProxy>,
    /// The bounds.
    pub limits: Limits,
    /// What each session may ask for.
    pub allowance: Allowance,
}

/// Which external destinations may be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EgressPolicy {
    /// All of them (the ADR's default).
    #[default]
    Allow,
    /// These, the operator's exact routes, and the destinations of the session's own secrets.
    Allowlist(Vec<Destination>),
}

/// Where a connection that was accepted elsewhere wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A host that was looked up by name.
    Name(Authority),
    /// An address, past all names.
    RawAddress(SocketAddr),
}

/// Why an engine can't be set up.
#[derive(Debug, thiserror::Error)]
#[error("the egress roots can't be loaded")]
pub struct EngineError(#[from] pub RootsError);

/// The egress proxy: sessions, doors, and the connections to destinations.
pub struct Engine {
    pub(crate) pool: Arc<Pool>,
    pub(crate) limits: Limits,
    pub(crate) room: Arc<Room>,
    /// For connections that are one too many while their clients are told.
    pub(crate) farewells: Arc<Room>,
    /// For the requests in flight.
    pub(crate) requests: Arc<Room>,
    /// For the bytes of bodies that are read whole.
    whole: Arc<Room>,
    config: Mutex<EngineConfig>,
    reach: ArcSwap<Reach>,
    roots: ArcSwap<Roots>,
    generation: AtomicU64,
    sessions: RwLock<HashMap<String, Arc<Session>>>,
    pub(crate) strangers: Strangers,
    draining: AtomicBool,
    drain_ended: AtomicBool,
    in_flight: AtomicUsize,
    landed: Notify,
    /// Closes what was idle for too long, for all doors: there from the first that serves on.
    sweeper: Mutex<Option<AbortHandle>>,
}

/// Something under way that a drain waits for: a request until its answer's end, a tunnel.
pub(crate) struct Flight(Arc<Engine>);

impl Engine {
    /// Sets up an engine: loads the machine's roots and the extra ones.
    pub fn new(config: EngineConfig) -> Result<Arc<Self>, EngineError> {
        let limits = config.limits.clone();
        let pool = Arc::new(Pool::new(&limits));
        Ok(Arc::new(Self {
            room: Room::of(limits.connections),
            farewells: Room::of(FAREWELLS),
            requests: Room::of(limits.requests),
            whole: Room::of(limits.whole_bytes),
            reach: ArcSwap::from_pointee(Reach::new(&config, &pool)),
            pool,
            roots: ArcSwap::from_pointee(Roots::load(&config.extra_roots_pem, 0)?),
            generation: AtomicU64::new(0),
            config: Mutex::new(config),
            limits,
            sessions: RwLock::default(),
            strangers: Strangers::new(),
            draining: AtomicBool::new(false),
            drain_ended: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            landed: Notify::new(),
            sweeper: Mutex::default(),
        }))
    }

    /// Sends the broker's own requests as this engine is set up now.
    pub fn client(&self) -> Result<Client, RootsError> {
        Client::new(self.config.lock().clone())
    }

    /// Opens a session. A second one under the same id takes the first one's place, which ends.
    pub fn open(&self, spec: SessionSpec) -> Result<Arc<Session>, Error> {
        let allowance = self.config.lock().allowance;
        let reading = Reading::new(&self.whole, &self.limits);
        let session = Arc::new(Session::open(spec, allowance, self.limits.leaves, reading)?);
        let id = session.id().to_owned();
        let before = self.sessions.write().insert(id.clone(), Arc::clone(&session));
        if let Some(before) = before {
            before.end(Code::SessionEnded);
            self.pool.forget(&id);
        }
        Ok(session)
    }

    /// Where refusals at the explicit proxy are logged that concern no session: no credential, an
    /// unknown session, a head that can't be read. Said once; without it they are answered only.
    pub fn log_strangers(&self, broker: Arc<dyn Broker>) {
        self.strangers.log_to(broker);
    }

    /// Logs the refusal of a connection that belongs to no session, as [`Self::log_strangers`] says.
    pub fn log_stranger(&self, error: &Error) {
        self.strangers.log(error);
    }

    /// Ends a session: its next request is refused, its tunnels are cut.
    pub fn close(&self, id: &str) {
        let session = self.sessions.write().remove(id);
        if let Some(session) = session {
            let is_last = self.drain_ended.load(Ordering::SeqCst);
            session.end(if is_last { Code::Draining } else { Code::SessionEnded });
            self.pool.forget(id);
        }
    }

    /// Refuses all that a session sends for this reason, and cuts what it has open, until it is held no more.
    pub fn hold(&self, id: &str, why: Option<Code>) {
        if let Some(session) = self.session(id) {
            session.hold(why);
        }
    }

    /// Gives a session these secrets in place of those that it has. Requests that begin from here
    /// on go by them; what is under way toward the hosts of a secret that is gone is cut.
    pub fn replace_secrets(&self, session: &Session, secrets: &[SessionSecret]) {
        if session.replace_secrets(secrets) {
            // A kept connection may have been authenticated as a whole.
            self.pool.forget(session.id());
        }
    }

    /// Takes up another configuration; of the limits, those that an operator sets. What is open and
    /// may not go on is cut; one connection too many stays. On an error nothing changes.
    pub fn reload(&self, config: EngineConfig) -> Result<(), EngineError> {
        let mut current = self.config.lock();
        let connections = config.limits.connections;
        let limits = Limits { connections, ..current.limits.clone() };
        let config = EngineConfig { limits, ..config };
        if config == *current {
            return Ok(());
        }
        if config.extra_roots_pem != current.extra_roots_pem {
            // Connections made from here on are verified by these, and older ones not used again.
            let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
            self.roots.store(Arc::new(Roots::load(&config.extra_roots_pem, generation)?));
        }
        self.reach.store(Arc::new(Reach::new(&config, &self.pool)));
        self.room.resize(connections);
        let allowance = (config.allowance != current.allowance).then_some(config.allowance);
        *current = config;
        for session in self.sessions.read().values() {
            if let Some(allowance) = allowance {
                session.set_allowance(allowance);
            }
            session.note_change();
        }
        Ok(())
    }

    /// From here on, whatever would begin is refused with [`Code::Draining`].
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// The time of the drain is over: who is cut with a session that is closed from here on hears [`Code::Draining`], which
    /// another proxy may serve, and not that the session was ended.
    pub fn end_drain(&self) {
        self.drain_ended.store(true, Ordering::SeqCst);
    }

    /// Done when nothing is under way any more.
    pub async fn drained(&self) {
        loop {
            let landed = self.landed.notified();
            if self.in_flight() == 0 {
                return;
            }
            landed.await;
        }
    }

    /// Waits for clients to go, a second at most: an answer that was given is not yet written to the last byte, and who
    /// sees the connection end before having read that one was cut may take what came of it for the whole.
    pub async fn let_clients_go(&self) {
        let gone = async {
            while self.connections() > 0 {
                tokio::time::sleep(FAREWELL / 100).await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL, gone).await;
    }

    /// Requests and tunnels that are under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Connections of clients that are open.
    pub fn connections(&self) -> usize {
        self.room.open()
    }

    /// Whether nothing begins any more.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Begins something that a drain waits for, unless nothing may begin any more.
    ///
    /// It is counted first and asks after, both in one order that all agree on: so a drain either sees
    /// it in flight, or it sees the drain. Whoever begins holds this from before the first wait on.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<Flight, Error> {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let flight = Flight(Arc::clone(self));
        if self.is_draining() { Err(Code::Draining.into()) } else { Ok(flight) }
    }

    /// Whether TLS to this host is intercepted in this session.
    pub(crate) fn intercepts(&self, session: &Session, host: &Host) -> bool {
        session.intercepts(host) && !self.reach.load().passes_through(host)
    }

    pub(crate) fn reach(&self) -> Arc<Reach> {
        self.reach.load_full()
    }

    /// Serves the explicit proxy (CONNECT and absolute-form requests), for all sessions.
    pub fn serve_proxy(self: Arc<Self>, listener: TcpListener) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.keep_swept();
            door::serve_proxy(&self, listener).await;
        })
    }

    /// Serves raw connections that begin with a preamble, for one session, until it ends.
    pub fn serve_unix(
        self: Arc<Self>,
        listener: UnixListener,
        session: Arc<Session>,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.keep_swept();
            let ended = session.ended();
            tokio::select! {
                () = door::serve_unix(&self, listener, &session) => {}
                () = ended => {}
            }
        })
    }

    /// Serves one raw connection that begins with a preamble, until it ends. `received` is what has
    /// been read of it.
    pub fn serve_preamble(
        self: &Arc<Self>,
        session: Arc<Session>,
        received: Vec<u8>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> BoxFuture<'_, ()> {
        self.serve_received(session, received, Box::new(stream))
    }

    fn serve_received(
        self: &Arc<Self>,
        session: Arc<Session>,
        received: Vec<u8>,
        stream: AnyStream,
    ) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.keep_swept();
            door::serve_preamble(self, &session, received.as_slice().into(), stream).await;
        })
    }

    /// Serves one raw connection whose destination is known, until it ends.
    pub fn serve_stream(
        self: &Arc<Self>,
        session: Arc<Session>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        target: Target,
    ) -> BoxFuture<'_, ()> {
        self.serve_handed_over(session, Box::new(stream), target)
    }

    fn serve_handed_over(
        self: &Arc<Self>,
        session: Arc<Session>,
        stream: AnyStream,
        target: Target,
    ) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.keep_swept();
            door::serve_stream(self, &session, stream, target).await;
        })
    }

    pub(crate) fn session(&self, id: &str) -> Option<Arc<Session>> {
        self.sessions.read().get(id).cloned()
    }

    pub(crate) fn roots(&self) -> Arc<Roots> {
        self.roots.load_full()
    }

    /// Whether an open session may connect to `authority`. Zones come later, with the addresses.
    pub(crate) fn check(&self, session: &Session, authority: &Authority) -> Result<(), Error> {
        if session.table().is_in(authority.host.to_string().as_bytes()) {
            let detail = "a placeholder stands in the name of the host".into();
            return Err(Error::with(Code::LocationNotAllowed, detail));
        }
        self.reach().check(session, authority)
    }

    /// Has the pool swept from time to time, once for all doors, as long as there is the engine. Only where something is
    /// served is there a runtime for it; one that is gone took the sweeper along, and the next gets another.
    fn keep_swept(&self) {
        let mut sweeper = self.sweeper.lock();
        if sweeper.as_ref().is_some_and(|sweeper| !sweeper.is_finished()) {
            return;
        }
        let pool = Arc::downgrade(&self.pool);
        let sweeping = tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP_INTERVAL).await;
                let Some(pool) = pool.upgrade() else { return };
                pool.sweep();
            }
        });
        *sweeper = Some(sweeping.abort_handle());
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(sweeper) = self.sweeper.get_mut() {
            sweeper.abort();
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.0.in_flight.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.landed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swap::testing::Bench;

    #[tokio::test]
    async fn all_doors_have_one_sweeper_that_ends_with_the_engine() {
        let engine = Engine::new(EngineConfig::default()).unwrap();
        let (id, secrets, broker) = ("s".to_owned(), Vec::new(), Bench::one().broker as _);
        let spec = SessionSpec { id, secrets, broker, ca: None, token: None };
        let session = engine.open(spec).unwrap();
        let sweeper = || engine.sweeper.lock().clone();
        assert!(sweeper().is_none(), "nothing is served");
        // To an address that may not be reached, so that it is over at once.
        let (_, stream) = tokio::io::duplex(1024);
        let target = Target::RawAddress(([127, 0, 0, 1], 443).into());
        engine.serve_stream(Arc::clone(&session), stream, target).await;
        let first = sweeper().expect("one door is enough");
        let (_, stream) = tokio::io::duplex(1024);
        engine.serve_preamble(session, Vec::new(), stream).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let serving = tokio::spawn(Arc::clone(&engine).serve_proxy(listener));
        tokio::task::yield_now().await;
        assert_eq!(sweeper().map(|sweeper| sweeper.id()), Some(first.id()));
        assert!(!first.is_finished());
        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
        assert_eq!(Arc::strong_count(&engine), 1);
        drop(engine);
        tokio::task::yield_now().await;
        assert!(first.is_finished());
    }
}
