//! `keyless proxy`: the fleet's sidecar. Egress alone, values from mounted files, no vault.
//!
//! Placeholders are derived from a key file and the session's id, so that an orchestrator can put
//! them into a guest's environment without asking, and a restored snapshot still matches.
//! Source: spec/egress-secret-proxy.md, decisions 5 and 6; design.md, section 6.

mod ca_files;
mod forward_door;
pub(crate) mod key_file;
mod listen;
mod mounted;
mod one_session;
mod reload;
mod sessions;
mod standing;
mod trust_file;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use keyless_core::{
    Code, Error, ForwardToken, Placeholder, SafeText, SecretPath, SessionId, SessionKey,
};
use keyless_egress::SessionSecret;
use keyless_sockets::raise_open_files;
use keyless_store::{AuditLog, Store};
use keyless_vault::{Catalog, MountedValues};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

pub use self::{ca_files::CaFiles, listen::FleetListen, reload::ReloadState};
pub(crate) use self::{
    forward_door::read_token,
    listen::cannot_listen,
    standing::{Standing, sidecars},
};
use self::{
    listen::{Bound, bind_tcp},
    mounted::Mounted,
    one_session::OneSession,
    reload::Reloader,
    sessions::{InUse, Sessions},
    standing::StandingFile,
    trust_file::TrustFile,
};
use crate::{
    broker::{Variable, agent},
    config::ConfigSource,
    egress_door::EgressDoor,
    health::{self, Vitals},
    log_keeping::annotate_without_clock,
    metrics::Metrics,
    notes::{Note, Notes},
    places::Places,
    reload::Watcher,
    sockets::PlacedSocket,
    stop::Stop,
    systemd,
    telemetry::Telemetry,
    tokens::{Grant, Tokens},
    traces::{CollectorUrl, Traces},
    values::Values as _,
};

/// What a sidecar serves.
#[derive(Clone)]
pub struct FleetSpec {
    /// The catalog.
    pub catalog: PathBuf,
    /// Where the values are mounted.
    pub secrets_dir: PathBuf,
    /// Where it listens.
    pub listen: Vec<FleetListen>,
    /// The key of the placeholders; a new one in the runtime directory when absent.
    pub key_file: Option<PathBuf>,
    /// The authority that guests trust; kept in the runtime directory when absent and needed.
    pub ca: Option<CaFiles>,
    /// What admits forwarders over TCP.
    pub forward_token: Option<PathBuf>,
    /// The session that its own listeners serve.
    pub session: SessionId,
    /// The operator's routes, roots and policy.
    pub config: ConfigSource,
    /// Where metrics and health are shown.
    pub metrics_listen: Option<SocketAddr>,
    /// How long what is under way may take to end after SIGTERM.
    pub drain: Duration,
    /// Where notes go.
    pub notes: Notes,
    /// Who is sent traces, if anybody.
    pub collector: Option<CollectorUrl>,
}

/// A sidecar that listens.
pub struct Fleet {
    sessions: Arc<Sessions>,
    own: InUse,
    _one: OneSession,
    listening: Vec<String>,
    sockets: Vec<PlacedSocket>,
    proxy_url: Option<String>,
    ca_file: TrustFile,
    key_file: PathBuf,
    metrics: Option<SocketAddr>,
    drain: Duration,
    notes: Notes,
    traces: Option<Traces>,
    following: AbortHandle,
}

/// The placeholders of one session: each catalog entry's variable and what it holds.
pub fn fleet_placeholders(
    catalog: &Path,
    key_file: &Path,
    session: &SessionId,
) -> Result<Vec<Variable>, Error> {
    let catalog = read_catalog(catalog)?;
    let key = key_file::read(key_file)?;
    let key = SessionKey::derive(&key, session.as_str());
    let variable = |entry: &keyless_vault::CatalogEntry| Variable {
        name: entry.env.to_string(),
        placeholder: Placeholder::derive(&key, &entry.path, &entry.placeholder.form()).to_string(),
    };
    Ok(catalog.entries.iter().map(variable).collect())
}

/// Reads everything, listens everywhere, and begins to serve.
// Boxed, as what is awaited in another crate is compiled in that one, and the binary's own is not optimised.
pub fn start_fleet(places: &Places, spec: FleetSpec) -> BoxFuture<'_, Result<Fleet, Error>> {
    Box::pin(start(places, spec))
}

async fn start(places: &Places, spec: FleetSpec) -> Result<Fleet, Error> {
    raise_open_files();
    let catalog = read_catalog(&spec.catalog)?;
    places.prepare_runtime()?;
    let one = OneSession::take(places, &spec.session)?;
    let key_file = spec.key_file.unwrap_or_else(|| places.runtime().join("proxy.key"));
    let key = key_file::read_or_make(&key_file)?;
    let kept = spec.ca.or_else(|| {
        let named = spec.listen.iter().any(FleetListen::names_sessions);
        let kept = |name| places.runtime().join(name);
        named.then(|| CaFiles { certificate: kept("proxy-ca.pem"), key: kept("proxy-ca.key") })
    });
    let ca = kept.map(|files| files.read_or_make().map(Arc::new)).transpose()?;
    let forward_token = spec.forward_token.as_deref().map(read_token).transpose()?;
    let state = loaded(&catalog);
    let config = spec.config.load()?;
    let traces = spec.collector.map(|url| Traces::start(url, &config, &spec.notes)).transpose()?;
    let door = EgressDoor::for_catalog(&config, &catalog)?;
    let values = Arc::new(Mounted::new(MountedValues::new(&spec.secrets_dir), catalog));
    for warning in check_values(&values).await? {
        spec.notes.write(Note::Warning { text: &warning });
    }
    // Before anything is on record of a sidecar that can't be there.
    let bound = bind_all(spec.listen, forward_token.as_ref()).await?;
    let metrics_door = match spec.metrics_listen {
        None => None,
        Some(address) => Some(bind_tcp(address).await?),
    };
    let standing = StandingFile::create(places, &spec.catalog)?;
    standing.say(&state);
    let store = Store::create_or_open(&places.store_file()).await?;
    let metrics = Arc::new(Metrics::new());
    let notes = spec.notes.clone();
    let telemetry = Telemetry { metrics: Arc::clone(&metrics), notes, traces: traces.clone() };
    let log = AuditLog::start(&store, None);
    annotate_without_clock(&store, &config);
    let who = agent("proxy", spec.session.as_str());
    let mounted = Arc::clone(&values);
    let tokens = Tokens::over(mounted as _, Arc::clone(&door.engine), log.clone(), who);
    for (path, grant) in grants(&values.catalog())? {
        tokens.learn(&path, grant);
    }
    let sessions = Sessions {
        engine: door.engine,
        mounted: values,
        values: Arc::new(tokens),
        key,
        log,
        ca,
        telemetry,
        open: tokio::sync::Mutex::default(),
    };
    let sessions = Arc::new(sessions);
    let reloader = Reloader {
        catalog: spec.catalog,
        config: spec.config,
        sessions: Arc::clone(&sessions),
        session: spec.session.as_str().to_owned(),
        state: Arc::new(Mutex::new(state)),
        standing,
        notes: spec.notes.clone(),
    };
    let vitals =
        Vitals { engine: Arc::clone(&sessions.engine), reload: Arc::clone(&reloader.state) };
    let watcher = Watcher::new(reloader.files()).await.and_hangups()?;
    let own = sessions.get(&spec.session).await?;
    sessions.engine.log_strangers(Arc::clone(&own.broker) as _);
    let ca_file = places.runtime().join(format!("ca-{}.pem", own.session.id()));
    let ca_file = match TrustFile::create(ca_file, own.session.ca_pem()) {
        Ok(file) => file,
        Err(error) => {
            let _ = sessions.close().await;
            return Err(error);
        }
    };
    let metrics = metrics_door.map(|(listener, address)| {
        tokio::spawn(health::serve(listener, metrics, vitals));
        address
    });
    let mut fleet = Fleet {
        sessions,
        own,
        _one: one,
        listening: Vec::new(),
        sockets: Vec::new(),
        proxy_url: None,
        ca_file,
        key_file,
        metrics,
        drain: spec.drain,
        notes: spec.notes,
        traces,
        following: tokio::spawn(reloader.follow(watcher)).abort_handle(),
    };
    for place in bound {
        if let Err(error) = fleet.serve(place) {
            return Err(fleet.given_up(error).await);
        }
    }
    Ok(fleet)
}

fn loaded(catalog: &Catalog) -> ReloadState {
    let (last, secrets) = (Some(Timestamp::now()), catalog.entries.len());
    ReloadState { last, secrets, ..ReloadState::default() }
}

/// What is to be said of the mounted values. No source of a store is behind one: its file is what there is to look at.
async fn check_values(values: &Mounted) -> Result<Vec<String>, Error> {
    let checked = values.check(&values.catalog()).await.map_err(|error| match error.code() {
        Code::SecretUnavailable => Error::with(Code::PathUnusable, error.detail().clone()),
        _ => error,
    })?;
    values.put_in_force(&checked.values);
    Ok(checked.warnings)
}

async fn bind_all(
    places: Vec<FleetListen>,
    token: Option<&ForwardToken>,
) -> Result<Vec<Bound>, Error> {
    let mut bound = Vec::new();
    for place in places {
        bound.push(Bound::to(place, token).await?);
    }
    Ok(bound)
}

/// How often it is looked at whether the authority has another certificate. Each is good for a day more than that.
const CA_LOOKED_AT: Duration = Duration::from_mins(10);

impl Fleet {
    /// `127.0.0.1:PORT`, `unix:PATH`, `vsock:PORT` and `forward:` with one of the first two, in the
    /// order asked for.
    pub fn listening(&self) -> &[String] {
        &self.listening
    }

    /// The session's CA, PEM.
    pub fn ca_file(&self) -> &Path {
        self.ca_file.path()
    }

    /// The key of the placeholders.
    pub fn key_file(&self) -> &Path {
        &self.key_file
    }

    /// The session.
    pub fn session(&self) -> &str {
        self.own.session.id()
    }

    /// The URL of the first TCP listener, with the session's credential.
    pub fn proxy_url(&self) -> Option<&str> {
        self.proxy_url.as_deref()
    }

    /// Where metrics and health are shown.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Serves until SIGTERM or SIGINT; then what is under way has some time to end, and nothing
    /// begins any more. A second signal ends that time.
    pub async fn serve_until_signal(mut self) -> Result<(), Error> {
        let mut stop = match Stop::listen() {
            Ok(stop) => stop,
            Err(error) => return Err(self.given_up(error).await),
        };
        systemd::tell("READY=1");
        tokio::select! {
            () = stop.asked() => {}
            () = self.sessions.sweep_forever() => {}
            () = self.keep_ca_fresh() => {}
        }
        systemd::tell("STOPPING=1");
        self.following.abort();
        let engine = &self.sessions.engine;
        engine.drain();
        self.notes.write(Note::Draining { in_flight: engine.in_flight() });
        tokio::select! {
            () = engine.drained() => {}
            () = tokio::time::sleep(self.drain) => {}
            () = stop.asked() => {}
        }
        let cut = engine.in_flight();
        self.notes.write(Note::Drained { cut });
        engine.end_drain();
        self.sockets.clear();
        if cut == 0 {
            // The last bytes of an answer may still be on their way to a client.
            engine.let_clients_go().await;
        }
        // What can't be written yet is tried again below.
        let _ = self.sessions.close().await;
        self.sessions.values.settle().await;
        if cut > 0 {
            engine.let_clients_go().await;
        }
        let paid = self.sessions.pay().await;
        if let Some(traces) = &self.traces {
            traces.flush().await;
        }
        paid
    }

    /// Ends its sessions, on record, as it can't be served; gives why.
    async fn given_up(self, error: Error) -> Error {
        // Else it could change a session that is over.
        self.following.abort();
        let _ = self.sessions.close().await;
        error
    }

    /// Writes the authority's certificate anew each time it has another.
    async fn keep_ca_fresh(&self) {
        loop {
            tokio::time::sleep(CA_LOOKED_AT).await;
            if let Err(error) = self.ca_file.renew(self.own.session.ca_pem()) {
                self.notes.write(Note::Warning { text: &error.message() });
            }
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // It holds the sessions, and would follow the files of a sidecar that is gone.
        self.following.abort();
    }
}

/// Entries with a grant give access tokens.
fn grants(catalog: &Catalog) -> Result<Vec<(SecretPath, Grant)>, Error> {
    let mut grants = Vec::new();
    for entry in &catalog.entries {
        let Some(grant) = &entry.rule.oauth else { continue };
        let client_secret = match &grant.client_secret {
            Some(path) => {
                let found = catalog.entries.iter().find(|entry| entry.path == *path);
                let missing = || Error::with(Code::SecretNotFound, SafeText::default().and(path));
                Some((path.clone(), found.ok_or_else(missing)?.rule.clone()))
            }
            None => None,
        };
        grants.push((entry.path.clone(), Grant { rule: entry.rule.clone(), client_secret }));
    }
    Ok(grants)
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
