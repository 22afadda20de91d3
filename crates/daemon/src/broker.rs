//! The broker: joins the vault, the log and egress, and opens sessions.
//!
//! One broker serves one `keyless run`, or all of them as a service. Values leave it only through
//! [`SessionBroker`], under a permit.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use keyless_core::{
    Code, Error, Placeholder, SafeText, SecretPath, SecretValue, SessionKey,
    audit::{Action, Agent},
};
use keyless_egress::{Engine, Session, SessionSecret, SessionSpec};
use keyless_store::{AuditLog, Store};
use keyless_vault::{Secret, SourceConfig, Vault};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::{
    egress_door::EgressDoor, places::Places, session_broker::SessionBroker, values::Values,
};

/// Joins the vault, the log and egress.
pub struct Broker {
    door: EgressDoor,
    vault: Arc<Vault>,
    log: AuditLog,
    conceal: Vec<PathBuf>,
}

/// Which secrets a session may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// Every secret that names destinations and a variable.
    All,
    /// None: a jail without credentials.
    Nothing,
    /// These.
    These(Vec<SecretPath>),
}

/// A session that is open until it is dropped or ended.
pub struct OpenSession {
    /// The session as egress knows it.
    pub session: Arc<Session>,
    /// What the agent's tools have to trust, PEM: the session's CA first, then extra roots.
    pub trust_pem: String,
    /// What the agent's environment gets.
    pub variables: Vec<Variable>,
    /// Files that hold values, which the agent must not see.
    pub conceal: Vec<PathBuf>,
    /// Variables that hold values, which the agent must not inherit.
    pub remove: Vec<String>,
    engine: Arc<Engine>,
    broker: Arc<SessionBroker>,
}

/// A variable of the agent's environment and the placeholder in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub placeholder: String,
}

/// A variable that the command would inherit.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inherited {
    /// Its name.
    pub name: String,
    /// What it holds; may be a credential, so this has no `Debug`.
    pub value: String,
}

impl Broker {
    /// A broker over an unlocked vault.
    pub fn new(door: EgressDoor, vault: Arc<Vault>, log: AuditLog) -> Self {
        Self { door, vault, log, conceal: Vec::new() }
    }

    /// Hides these files, such as the one with the passphrase, from every session's agent.
    #[must_use]
    pub fn concealing(self, conceal: Vec<PathBuf>) -> Self {
        Self { conceal, ..self }
    }

    /// Has refusals that concern no session written into the log.
    pub(crate) fn log_strangers(&self) {
        let broker =
            SessionBroker::new(Arc::new(NoValues), self.log.clone(), agent("broker", "none"));
        self.door.engine.log_strangers(Arc::new(broker));
    }

    /// The egress engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.door.engine
    }

    /// Opens a session for the secrets that are wanted. The entry about it is durable first.
    /// `inherited` is the environment that the command would get: variables in it that hold the
    /// value of any secret of the vault, under whatever name, are among those to remove.
    pub async fn open_session(
        &self,
        wanted: &Wanted,
        inherited: &[Inherited],
    ) -> Result<OpenSession, Error> {
        let chosen = self.choose(wanted).await?;
        refuse_shared_variables(&chosen)?;
        let id = session_id();
        let values = Arc::new(VaultValues(Arc::clone(&self.vault)));
        let broker = SessionBroker::new(values, self.log.clone(), agent("run", &id));
        let broker = Arc::new(broker);
        let paths = chosen.iter().map(|secret| secret.path.clone()).collect();
        broker.record_life(Action::SessionStart, paths).await?;
        let key = session_key()?;
        let secrets: Vec<SessionSecret> =
            chosen.iter().filter_map(|secret| session_secret(secret, &key)).collect();
        let variables = variables(&chosen, &secrets);
        let spec = SessionSpec { id, secrets, broker: Arc::clone(&broker) as _ };
        let session = self.door.engine.open(spec)?;
        Ok(OpenSession {
            trust_pem: session.ca_pem().to_owned() + &self.door.extra_roots,
            session,
            variables,
            conceal: self.files_with_values(&chosen),
            remove: self.variables_with_values(inherited).await?,
            engine: Arc::clone(&self.door.engine),
            broker,
        })
    }

    /// Values that can't be fetched now can't be looked for; their own variables go all the same.
    async fn variables_with_values(&self, inherited: &[Inherited]) -> Result<Vec<String>, Error> {
        let secrets = self.vault.list().await?;
        let mut remove: Vec<String> = secrets.iter().filter_map(source_variable).collect();
        // One that names no destination may be as short as a word that stands anywhere.
        for secret in secrets.iter().filter(|secret| secret.metadata.egress.is_some()) {
            let Ok(reading) = self.vault.open(&secret.path).await else { continue };
            let holds = |variable: &&Inherited| reading.value.occurs_in(variable.value.as_bytes());
            remove.extend(inherited.iter().filter(holds).map(|variable| variable.name.clone()));
        }
        Ok(remove)
    }

    fn files_with_values(&self, chosen: &[Secret]) -> Vec<PathBuf> {
        let sources = chosen.iter().filter_map(source_file);
        sources.chain(self.conceal.iter().cloned()).collect()
    }

    async fn choose(&self, wanted: &Wanted) -> Result<Vec<Secret>, Error> {
        let paths = match wanted {
            Wanted::Nothing => return Ok(Vec::new()),
            Wanted::All => {
                let mut all = self.vault.list().await?;
                all.retain(|secret| {
                    secret.metadata.egress.is_some() && secret.metadata.env.is_some()
                });
                return Ok(all);
            }
            Wanted::These(paths) => paths,
        };
        let mut chosen = Vec::with_capacity(paths.len());
        for path in paths {
            let secret = self.vault.show(path).await?;
            if secret.metadata.egress.is_none() {
                let detail = SafeText::default().and(path).and(
                    " names no destination, so it can't enter a session: add one with keyless secret set --to HOST",
                );
                return Err(Error::with(Code::Usage, detail));
            }
            chosen.push(secret);
        }
        Ok(chosen)
    }
}

impl OpenSession {
    /// The engine that serves the session.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Ends the session: the next request is refused, tunnels are cut, the end is on record.
    pub async fn end(self) -> Result<(), Error> {
        self.engine.close(self.session.id());
        self.broker.record_life(Action::SessionEnd, Vec::new()).await
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.engine.close(self.session.id());
    }
}

/// Opens a session without secrets, which needs no vault: just the jail, the zones and the log.
pub async fn open_bare_session(places: &Places, door: EgressDoor) -> Result<OpenSession, Error> {
    let EgressDoor { engine, extra_roots } = door;
    let store = Store::create_or_open(&places.store_file()).await?;
    let id = session_id();
    let log = AuditLog::start(&store, None);
    let broker = SessionBroker::new(Arc::new(NoValues), log, agent("run", &id));
    let broker = Arc::new(broker);
    broker.record_life(Action::SessionStart, Vec::new()).await?;
    let spec = SessionSpec { id, secrets: Vec::new(), broker: Arc::clone(&broker) as _ };
    let session = engine.open(spec)?;
    let (variables, conceal, remove) = (Vec::new(), Vec::new(), Vec::new());
    let trust_pem = session.ca_pem().to_owned() + &extra_roots;
    Ok(OpenSession { session, trust_pem, variables, conceal, remove, engine, broker })
}

/// The values of a session that has none.
struct NoValues;

impl Values for NoValues {
    fn open<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<SecretValue, Error>> {
        let error = Error::with(Code::SecretNotFound, SafeText::default().and(path));
        Box::pin(async move { Err(error) })
    }
}

/// The vault as a source of a session's values.
struct VaultValues(Arc<Vault>);

impl Values for VaultValues {
    fn open<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<SecretValue, Error>> {
        Box::pin(async move { self.0.open(path).await.map(|reading| reading.value) })
    }
}

/// Who acts, in the log's words.
pub(crate) fn agent(kind: &str, session: &str) -> Agent {
    Agent {
        uri: format!("nl://keyless.dev/{kind}/{}", env!("CARGO_PKG_VERSION")),
        organization_id: "local".to_owned(),
        session_id: session.to_owned(),
    }
}

/// A session's name: when it began, and enough randomness to be unique.
fn session_id() -> String {
    let when = Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let random = Uuid::new_v4().simple().to_string();
    format!("s-{when}-{}", &random[..8])
}

fn session_key() -> Result<SessionKey, Error> {
    let mut bytes = Zeroizing::new([0_u8; 32]);
    fill_random(&mut *bytes)?;
    Ok(SessionKey::from_random(*bytes))
}

/// Fills `bytes` from the kernel.
pub(crate) fn fill_random(mut bytes: &mut [u8]) -> Result<(), Error> {
    while !bytes.is_empty() {
        let flags = rustix::rand::GetRandomFlags::empty();
        let filled = rustix::rand::getrandom(&mut *bytes, flags).map_err(|_| {
            Error::with(Code::Internal, SafeText::words("the kernel gave no randomness"))
        })?;
        bytes = &mut bytes[filled..];
    }
    Ok(())
}

fn session_secret(secret: &Secret, key: &SessionKey) -> Option<SessionSecret> {
    Some(SessionSecret {
        placeholder: Placeholder::derive(key, &secret.path, &secret.metadata.placeholder.form()),
        path: secret.path.clone(),
        rule: secret.metadata.egress.clone()?,
    })
}

fn variables(chosen: &[Secret], secrets: &[SessionSecret]) -> Vec<Variable> {
    let pair = |(secret, bound): (&Secret, &SessionSecret)| {
        let name = secret.metadata.env.as_ref()?.to_string();
        Some(Variable { name, placeholder: bound.placeholder.to_string() })
    };
    chosen.iter().zip(secrets).filter_map(pair).collect()
}

/// Two secrets in one variable: the agent would get one of them, and nobody would know which.
fn refuse_shared_variables(chosen: &[Secret]) -> Result<(), Error> {
    let mut seen: HashMap<&str, &SecretPath> = HashMap::new();
    for secret in chosen {
        let Some(name) = &secret.metadata.env else { continue };
        if let Some(other) = seen.insert(name.as_str(), &secret.path) {
            let words = SafeText::default().and(other).and(" and ").and(&secret.path);
            let words = words.and(" both want the variable ").as_they_wrote(name.as_str());
            return Err(Error::with(Code::Usage, words.and("; name one with --secret")));
        }
    }
    Ok(())
}

fn source_file(secret: &Secret) -> Option<PathBuf> {
    match &secret.metadata.source {
        SourceConfig::File { path } => Some(path.clone()),
        _ => None,
    }
}

fn source_variable(secret: &Secret) -> Option<String> {
    match &secret.metadata.source {
        SourceConfig::Env { variable } => Some(variable.to_string()),
        _ => None,
    }
}
