//! `keyless proxy`: the fleet's sidecar. Egress alone, values from mounted files, no vault.
//!
//! Placeholders are derived from a key file and the session's id, so that an orchestrator can put
//! them into a guest's environment without asking, and a restored snapshot still matches.
//! Source: spec/egress-secret-proxy.md, decisions 5 and 6; design.md, section 6.

mod key_file;

use std::{
    fs, io,
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use keyless_core::{
    Code, Error, Placeholder, SafeText, SecretPath, SecretValue, SessionKey, audit::Action,
};
use keyless_egress::{Engine, Session, SessionSecret, SessionSpec};
use keyless_store::{AuditLog, Store};
use keyless_vault::{Catalog, MountedValues};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{
    broker::{Variable, agent},
    config::Config,
    egress_door::EgressDoor,
    places::Places,
    session_broker::SessionBroker,
    sockets::bind_private,
    values::Values,
};

/// What a sidecar serves.
#[derive(Clone, Debug)]
pub struct FleetSpec {
    /// The catalog.
    pub catalog: PathBuf,
    /// Where the values are mounted.
    pub secrets_dir: PathBuf,
    /// Where it listens.
    pub listen: Vec<FleetListen>,
    /// The key of the placeholders; a new one in the runtime directory when absent.
    pub key_file: Option<PathBuf>,
    /// The session that it serves.
    pub session: String,
}

/// Where a sidecar listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetListen {
    /// An explicit proxy, with the session's credential.
    Tcp(SocketAddr),
    /// Connections with a preamble; the socket says which session.
    Unix(PathBuf),
}

/// A sidecar that listens.
pub struct Fleet {
    engine: Arc<Engine>,
    session: Arc<Session>,
    broker: Arc<SessionBroker>,
    listening: Vec<String>,
    proxy_url: Option<String>,
    ca_file: PathBuf,
    key_file: PathBuf,
    warnings: Vec<String>,
}

/// The placeholders of one session: each catalog entry's variable and what it holds.
pub fn fleet_placeholders(
    catalog: &Path,
    key_file: &Path,
    session: &str,
) -> Result<Vec<Variable>, Error> {
    let catalog = read_catalog(catalog)?;
    let key = key_file::read(key_file)?;
    let key = SessionKey::derive(&key, session);
    let variable = |entry: &keyless_vault::CatalogEntry| Variable {
        name: entry.env.to_string(),
        placeholder: Placeholder::derive(&key, &entry.path, &entry.placeholder.form()).to_string(),
    };
    Ok(catalog.entries.iter().map(variable).collect())
}

/// Reads everything, listens everywhere, and begins to serve.
pub async fn start_fleet(
    places: &Places,
    config: &Config,
    spec: FleetSpec,
) -> Result<Fleet, Error> {
    let catalog = read_catalog(&spec.catalog)?;
    places.prepare_runtime()?;
    let key_file = spec.key_file.unwrap_or_else(|| places.runtime().join("proxy.key"));
    let key = SessionKey::derive(&key_file::read_or_make(&key_file)?, &spec.session);
    let values =
        Mounted { values: MountedValues::new(&spec.secrets_dir), catalog: catalog.clone() };
    let warnings = values.check().await?;
    let EgressDoor { engine, .. } = EgressDoor::for_catalog(config, &catalog)?;
    let store = Store::create_or_open(&places.store_file()).await?;
    let log = AuditLog::start(&store, None);
    let broker = SessionBroker::new(Arc::new(values), log, agent("proxy", &spec.session));
    let broker = Arc::new(broker);
    let secrets: Vec<SessionSecret> =
        catalog.entries.iter().map(|entry| session_secret(entry, &key)).collect();
    let paths = secrets.iter().map(|secret| secret.path.clone()).collect();
    broker.record_life(Action::SessionStart, paths).await?;
    engine.log_strangers(Arc::clone(&broker) as _);
    let session = engine.open(SessionSpec {
        id: spec.session.clone(),
        secrets,
        broker: Arc::clone(&broker) as _,
    })?;
    let ca_file = write_ca(places, &session)?;
    let mut fleet = Fleet {
        engine,
        session,
        broker,
        listening: Vec::new(),
        proxy_url: None,
        ca_file,
        key_file,
        warnings,
    };
    for place in spec.listen {
        fleet.listen(place).await?;
    }
    Ok(fleet)
}

impl Fleet {
    /// What is not as it should be, but usable.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// `127.0.0.1:PORT` and `unix:PATH`, in the order asked for.
    pub fn listening(&self) -> &[String] {
        &self.listening
    }

    /// The session's CA, PEM.
    pub fn ca_file(&self) -> &Path {
        &self.ca_file
    }

    /// The key of the placeholders.
    pub fn key_file(&self) -> &Path {
        &self.key_file
    }

    /// The session.
    pub fn session(&self) -> &str {
        self.session.id()
    }

    /// The URL of the first TCP listener, with the session's credential.
    pub fn proxy_url(&self) -> Option<&str> {
        self.proxy_url.as_deref()
    }

    /// Serves until SIGTERM or SIGINT.
    pub async fn serve_until_signal(self) -> Result<(), Error> {
        let failed = |_| Error::with(Code::Internal, SafeText::words("signals can't be handled"));
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        self.engine.close(self.session.id());
        for place in &self.listening {
            if let Some(path) = place.strip_prefix("unix:") {
                let _ = fs::remove_file(path);
            }
        }
        self.broker.record_life(Action::SessionEnd, Vec::new()).await
    }

    async fn listen(&mut self, place: FleetListen) -> Result<(), Error> {
        let engine = Arc::clone(&self.engine);
        match place {
            FleetListen::Tcp(address) => {
                let name = address.to_string();
                let listener =
                    TcpListener::bind(address).await.map_err(|e| cannot_listen(&name, &e))?;
                let address = listener.local_addr().map_err(|error| unusable(&name, &error))?;
                tokio::spawn(engine.serve_proxy(listener));
                let url = format!("http://{}@{address}", self.session.proxy_credential());
                self.proxy_url.get_or_insert(url);
                self.listening.push(address.to_string());
            }
            FleetListen::Unix(path) => {
                let listener = bind_private(&path).await?;
                tokio::spawn(engine.serve_unix(listener, Arc::clone(&self.session)));
                self.listening.push(format!("unix:{}", path.display()));
            }
        }
        Ok(())
    }
}

/// The mounted files as a source of a session's values.
struct Mounted {
    values: MountedValues,
    catalog: Catalog,
}

impl Mounted {
    /// Fetches every value once, so that a missing one is told at the start. Gives warnings.
    async fn check(&self) -> Result<Vec<String>, Error> {
        let mut warnings = Vec::new();
        for entry in &self.catalog.entries {
            let reading = self.values.read(entry).await?;
            warnings.extend(reading.warnings.iter().map(ToString::to_string));
        }
        Ok(warnings)
    }
}

impl Values for Mounted {
    fn open<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<SecretValue, Error>> {
        Box::pin(async move {
            let entry = self.catalog.entries.iter().find(|entry| entry.path == *path);
            let entry = entry
                .ok_or_else(|| Error::with(Code::SecretNotFound, SafeText::default().and(path)))?;
            self.values.read(entry).await.map(|reading| reading.value)
        })
    }
}

fn session_secret(entry: &keyless_vault::CatalogEntry, key: &SessionKey) -> SessionSecret {
    SessionSecret {
        path: entry.path.clone(),
        placeholder: Placeholder::derive(key, &entry.path, &entry.placeholder.form()),
        rule: entry.rule.clone(),
    }
}

fn read_catalog(path: &Path) -> Result<Catalog, Error> {
    Catalog::load(path).map_err(Error::from)
}

fn write_ca(places: &Places, session: &Session) -> Result<PathBuf, Error> {
    let path = places.runtime().join(format!("ca-{}.pem", session.id()));
    let write = || -> io::Result<()> {
        let _ = fs::remove_file(&path);
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o644).open(&path)?;
        io::Write::write_all(&mut file, session.ca_pem().as_bytes())
    };
    write().map_err(|error| unusable(&path.to_string_lossy(), &error))?;
    Ok(path)
}

/// Why an address can't be listened on: mostly another process has it.
fn cannot_listen(address: &str, error: &io::Error) -> Error {
    let words = SafeText::words("can't listen on ").as_they_wrote(address).and(": ");
    Error::with(Code::Usage, words.and(error.kind()).and("; choose another port or address"))
}

fn unusable(place: &str, error: &io::Error) -> Error {
    let detail = SafeText::default().as_they_wrote(place).and(": ").and(error.kind());
    Error::with(Code::PathUnusable, detail)
}
