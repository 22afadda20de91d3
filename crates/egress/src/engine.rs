//! The proxy itself: what it is set up with, its sessions, and its doors.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use keyless_core::{Authority, Code, Destination, Error, SafeText};
use parking_lot::RwLock;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::Semaphore,
};

use crate::{
    Limits,
    dial::Dialer,
    door,
    pool::Pool,
    ports::Broker,
    refusal,
    session::{Session, SessionSpec},
    tls::{Roots, RootsError},
};

/// Ports whose protocols carry mail or shells, not HTTP: ssh, smtp and its submission ports.
const REFUSED_PORTS: [u16; 4] = [22, 25, 465, 587];
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// What an engine is set up with.
#[derive(Clone, Debug, Default)]
pub struct EngineConfig {
    /// The operator's exact routes: requests for the first are dialled at the second, an address
    /// or a name, whatever its zone. TLS still verifies the first.
    pub connect_to: HashMap<Authority, Authority>,
    /// Roots beside the machine's own, each a PEM file's content.
    pub extra_roots_pem: Vec<Vec<u8>>,
    /// Internal destinations that may be reached, exactly as requests name them.
    pub internal_allowlist: Vec<Authority>,
    /// Which external destinations may be reached.
    pub policy: EgressPolicy,
    /// The bounds.
    pub limits: Limits,
}

/// Which external destinations may be reached.
#[derive(Clone, Debug, Default)]
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
pub struct EngineError(#[from] RootsError);

/// The egress proxy: sessions, doors, and the connections to destinations.
pub struct Engine {
    pub(crate) dialer: Dialer,
    pub(crate) pool: Arc<Pool>,
    pub(crate) limits: Limits,
    pub(crate) room: Arc<Semaphore>,
    roots: ArcSwap<Roots>,
    generation: AtomicU64,
    policy: EgressPolicy,
    sessions: RwLock<HashMap<String, Arc<Session>>>,
    strangers: OnceLock<Arc<dyn Broker>>,
}

impl Engine {
    /// Sets up an engine: loads the machine's roots and the extra ones.
    pub fn new(config: EngineConfig) -> Result<Arc<Self>, EngineError> {
        let EngineConfig { connect_to, extra_roots_pem, internal_allowlist, policy, limits } =
            config;
        Ok(Arc::new(Self {
            dialer: Dialer::new(connect_to, internal_allowlist, &limits),
            pool: Arc::new(Pool::new(&limits)),
            room: Arc::new(Semaphore::new(limits.connections)),
            roots: ArcSwap::from_pointee(Roots::load(&extra_roots_pem, 0)?),
            generation: AtomicU64::new(0),
            limits,
            policy,
            sessions: RwLock::default(),
            strangers: OnceLock::new(),
        }))
    }

    /// Opens a session. A second one under the same id takes the first one's place, which ends.
    pub fn open(&self, spec: SessionSpec) -> Result<Arc<Session>, Error> {
        let session = Arc::new(Session::open(spec, self.limits.leaves)?);
        let id = session.id().to_owned();
        let before = self.sessions.write().insert(id.clone(), Arc::clone(&session));
        if let Some(before) = before {
            before.end();
            self.pool.forget(&id);
        }
        Ok(session)
    }

    /// Where refusals at the explicit proxy are logged that concern no session: no credential, an
    /// unknown session, a head that can't be read. Said once; without it they are answered only.
    pub fn log_strangers(&self, broker: Arc<dyn Broker>) {
        let _ = self.strangers.set(broker);
    }

    pub(crate) fn log_stranger(&self, error: &Error) {
        if let Some(strangers) = self.strangers.get() {
            refusal::log_stranger(&**strangers, error);
        }
    }

    /// Ends a session: its next request is refused, its tunnels are cut.
    pub fn close(&self, id: &str) {
        let session = self.sessions.write().remove(id);
        if let Some(session) = session {
            session.end();
            self.pool.forget(id);
        }
    }

    /// Loads the machine's roots again, with these extra ones; connections made from here on are
    /// verified by them, and older ones are not used again.
    pub fn reload_roots(&self, extra_roots_pem: &[Vec<u8>]) -> Result<(), EngineError> {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        self.roots.store(Arc::new(Roots::load(extra_roots_pem, generation)?));
        Ok(())
    }

    /// Serves the explicit proxy (CONNECT and absolute-form requests), for all sessions.
    pub async fn serve_proxy(self: Arc<Self>, listener: TcpListener) {
        let sweeper = self.sweep_forever();
        tokio::select! {
            () = door::serve_proxy(&self, listener) => {}
            () = sweeper => {}
        }
    }

    /// Serves raw connections that begin with a preamble, for one session, until it ends.
    pub async fn serve_unix(self: Arc<Self>, listener: UnixListener, session: Arc<Session>) {
        let ended = session.ended();
        tokio::select! {
            () = door::serve_unix(&self, listener, &session) => {}
            () = self.sweep_forever() => {}
            () = ended => {}
        }
    }

    /// Serves one raw connection whose destination is known, until it ends.
    pub async fn serve_stream(
        self: &Arc<Self>,
        session: Arc<Session>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        target: Target,
    ) {
        door::serve_stream(self, &session, stream, target).await;
    }

    pub(crate) fn session(&self, id: &str) -> Option<Arc<Session>> {
        self.sessions.read().get(id).cloned()
    }

    pub(crate) fn roots(&self) -> Arc<Roots> {
        self.roots.load_full()
    }

    /// Whether policy lets a connection to `authority` begin. Zones come later, with the addresses.
    pub(crate) fn check(&self, session: &Session, authority: &Authority) -> Result<(), Error> {
        session.check_open()?;
        if self.dialer.is_named(authority) {
            return Ok(());
        }
        if REFUSED_PORTS.contains(&authority.port) {
            let detail = SafeText::words("port ").and(authority.port);
            return Err(Error::with(Code::PortRefused, detail));
        }
        let listed = match &self.policy {
            EgressPolicy::Allow => true,
            EgressPolicy::Allowlist(destinations) => {
                session.is_destination(authority)
                    || destinations
                        .iter()
                        .any(|to| to.names(&authority.host) && to.port() == authority.port)
            }
        };
        if listed {
            Ok(())
        } else {
            Err(Error::with(Code::DestinationNotListed, SafeText::default().and(authority)))
        }
    }

    /// Whether the operator or a secret names this very address and port.
    pub(crate) fn lists_address(&self, session: &Session, authority: &Authority) -> bool {
        let by_policy = match &self.policy {
            EgressPolicy::Allow => false,
            EgressPolicy::Allowlist(destinations) => destinations
                .iter()
                .any(|to| to.names(&authority.host) && to.port() == authority.port),
        };
        by_policy || self.dialer.is_named(authority) || session.is_destination(authority)
    }

    async fn sweep_forever(&self) {
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            self.pool.sweep();
        }
    }
}
