//! The broker: joins the vault, the log and egress, and opens sessions.
//!
//! One broker serves one `keyless run`, or all of them as a service. Values leave it only through
//! [`SessionBroker`], under a permit.

mod git;
mod hidden;
mod variables;

use std::{collections::BTreeMap, iter, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use keyless_core::{
    ApproveOnUse, Code, EgressRule, Error, Otherwise, Placeholder, SafeText, SecretPath,
    SecretValue, SessionKey,
    audit::{Action, Agent, Detail, Draft, Outcome, Target},
};
use keyless_egress::{Engine, Session, SessionSecret, SessionSpec};
use keyless_store::{AuditLog, Store};
use keyless_vault::{
    Entries, Metadata, NewVersion, RouterConfig, Secret, SourceConfig, Succession, Vault,
};
use serde::{Deserialize, Serialize};
use tokio::task::AbortHandle;
use uuid::Uuid;
use zeroize::Zeroizing;

use self::{
    git::git_variables,
    hidden::Hidden,
    variables::{
        add_key_ids, declared_in_vain, is_offered, leave_undeclared, placeholder,
        refuse_shared_variables, refuse_variables_of_sessions, resolved, unnamed, variables,
    },
};
use crate::{
    aliases::{Aliased, aliases},
    caution::Caution,
    config::Config,
    egress_door::EgressDoor,
    log_keeping::annotate,
    minted,
    operator::outlived_note,
    places::Places,
    requests::Requests,
    session_broker::SessionBroker,
    tokens::{Grant, Tokens},
    values::Values,
    wiped_text,
    withdrawal::Follower,
};

pub(crate) use self::variables::shared_variables;
pub use self::variables::word_of_shared_variable;

/// How long what a session's end cuts may take to be over.
const CUT: Duration = Duration::from_secs(1);

/// Joins the vault, the log and egress. A clone is the same broker.
#[derive(Clone)]
pub struct Broker {
    door: EgressDoor,
    vault: Arc<Vault>,
    log: AuditLog,
    requests: Arc<Requests>,
    tokens: Arc<Tokens>,
    hidden: Arc<Hidden>,
    /// The least that is asked about each secret.
    floor: ApproveOnUse,
}

/// Which secrets a session may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// Every secret that names destinations and a variable, or that the proxy sets or signs with; of those the ones that
    /// the project declares, where it declares any.
    All,
    /// None: a jail without credentials.
    Nothing,
    /// The named secrets.
    These(Vec<SecretPath>),
}

/// A session that is open until it is dropped or ended. Where it is dropped, as by a panic of the task that serves it,
/// its end is left to the log, and what was approved for it ends where there is a runtime.
pub struct OpenSession {
    /// The session as egress knows it.
    pub session: Arc<Session>,
    /// What its command is started with.
    pub environment: SessionEnvironment,
    /// The secrets that it may use.
    pub(crate) paths: Vec<SecretPath>,
    /// What stands for each.
    pub(crate) placeholders: BTreeMap<SecretPath, Placeholder>,
    engine: Arc<Engine>,
    broker: Arc<SessionBroker>,
    following: Option<AbortHandle>,
    /// Its end is on record, or left to the log.
    ended: bool,
}

/// What a session's command is started with, and what about it a person is told; no values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnvironment {
    /// What the agent's environment gets.
    pub variables: Vec<Variable>,
    /// What git is told in a jail, by variables that hold no placeholder; nothing from a broker that does not say it yet.
    #[serde(default)]
    pub git: Vec<(String, String)>,
    /// What the agent's tools have to trust, PEM: the session's CA first, then extra roots.
    pub trust_pem: String,
    /// Files that hold values, which the agent must not see.
    pub conceal: Vec<PathBuf>,
    /// Variables that hold values, which the agent must not inherit.
    pub remove: Vec<String>,
    /// The secrets that the command finds nowhere, though it may use them.
    #[serde(default)]
    pub unnamed: Vec<SecretPath>,
    /// How many secrets stayed out since the project does not declare them.
    #[serde(default)]
    pub undeclared: usize,
    /// The secrets of which a person is asked before some uses or all; none from a broker that does not say it yet.
    #[serde(default)]
    pub asking: Vec<SecretPath>,
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
    #[serde(with = "wiped_text")]
    pub value: Zeroizing<String>,
}

impl Broker {
    /// A broker over an unlocked vault.
    pub fn new(door: EgressDoor, vault: Arc<Vault>, log: AuditLog) -> Self {
        Self::asking_at_least(ApproveOnUse::Never, door, vault, log)
    }

    /// A broker that asks about every secret at least as often as `floor` says.
    pub fn asking_at_least(
        floor: ApproveOnUse,
        door: EgressDoor,
        vault: Arc<Vault>,
        log: AuditLog,
    ) -> Self {
        let values = VaultValues { vault: Arc::clone(&vault), log: log.clone(), floor };
        let values = Arc::new(values);
        let engine = Arc::clone(&door.engine);
        let tokens = Tokens::over(values, engine, log.clone(), agent("broker", "none"));
        let tokens = Arc::new(tokens);
        let requests = Arc::new(Requests::new(&vault, log.clone()));
        Self { door, vault, log, requests, tokens, hidden: Arc::default(), floor }
    }

    /// The vault, open.
    pub(crate) fn vault(&self) -> &Arc<Vault> {
        &self.vault
    }

    /// The log.
    pub(crate) fn log(&self) -> &AuditLog {
        &self.log
    }

    /// What agents ask of a person.
    pub(crate) fn requests(&self) -> &Arc<Requests> {
        &self.requests
    }

    /// What the operator hides from runs.
    pub(crate) fn hidden(&self) -> &Hidden {
        &self.hidden
    }

    /// Has refusals that concern no session written into the log.
    pub(crate) fn log_strangers(&self) {
        let broker =
            SessionBroker::new(Arc::new(NoValues), self.log.clone(), agent("broker", "none"));
        self.door.engine.log_strangers(Arc::new(broker));
    }

    /// Takes up another configuration for all sessions. On an error nothing changes.
    pub(crate) fn reload(&self, config: &Config) -> Result<(), Error> {
        self.door.reload(config)
    }

    /// The egress engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.door.engine
    }

    /// Opens a session for the secrets that are wanted. The entry about it is durable first.
    /// `inherited` is the environment that the command would get: variables in it that hold the
    /// value of any secret of the vault, under whatever name, are among those to remove.
    /// `caution` says where a person is asked more often than the secrets themselves say.
    pub async fn open_session(
        &self,
        wanted: &Wanted,
        inherited: &[Inherited],
        caution: Caution,
    ) -> Result<OpenSession, Error> {
        let aliased = aliases(inherited, wanted)?;
        let mut chosen = self.choose(wanted).await?;
        let undeclared = match wanted {
            Wanted::All => leave_undeclared(&mut chosen, &caution),
            Wanted::Nothing | Wanted::These(_) => 0,
        };
        self.add_aliased(&aliased, &mut chosen).await?;
        refuse_shared_variables(&chosen)?;
        refuse_variables_of_sessions(&chosen, &aliased)?;
        let asks = |secret: &&Secret| {
            let own = secret.metadata.approve_on_use.tightened_by(self.floor);
            caution.tighten(&secret.path, own) != ApproveOnUse::Never || asks_at_requests(secret)
        };
        let asking = chosen.iter().filter(asks).map(|secret| secret.path.clone()).collect();
        let id = session_id("s");
        self.learn_grants(&chosen).await?;
        let values = Arc::clone(&self.tokens) as _;
        let broker = SessionBroker::new(values, self.log.clone(), agent("run", &id));
        let requests = Arc::clone(&self.requests) as _;
        let broker = Arc::new(broker.asking(requests, caution.clone()));
        let paths: Vec<SecretPath> = chosen.iter().map(|secret| secret.path.clone()).collect();
        let key = session_key()?;
        let mut secrets: Vec<SessionSecret> =
            chosen.iter().filter_map(|secret| session_secret(secret, &key)).collect();
        let mut variables = variables(&chosen, &key);
        variables.extend(aliased.iter().filter_map(|aliased| resolved(aliased, &chosen, &key)));
        let all = self.vault.list().await?;
        let remove = self.variables_with_values(&all, inherited, &chosen).await;
        let kept = |variable: &&Inherited| !remove.contains(&variable.name);
        let kept: Vec<&Inherited> = inherited.iter().filter(kept).collect();
        add_key_ids(&mut variables, &chosen, &aliased, &kept, &key);
        let git = git_variables(&chosen, &variables, &kept);
        let asked_for = |path: &SecretPath| match wanted {
            Wanted::These(paths) => paths.contains(path),
            _ => aliased.iter().any(|aliased| aliased.path == *path),
        };
        let mut unnamed = unnamed(&chosen, asked_for, &variables, &key);
        if *wanted == Wanted::All {
            unnamed.extend(declared_in_vain(&all, &chosen, &caution));
        }
        secrets.extend(minted_slots(&secrets, &key)?);
        let of = |secret: &Secret| (secret.path.clone(), placeholder(secret, &key));
        let placeholders = chosen.iter().map(of).collect();
        let conceal = self.value_files().await?;
        let port = Arc::clone(&broker) as _;
        let spec = SessionSpec { id, secrets, broker: port, ca: None, token: None };
        let session = on_record(&self.door, &broker, paths.clone(), spec).await?;
        // From here on nothing fails: what is open is closed by its owner.
        let follower = Follower {
            vault: Arc::clone(&self.vault),
            engine: Arc::clone(&self.door.engine),
            session: Arc::clone(&session),
            broker: Arc::clone(&broker),
            key,
            chosen: chosen.clone(),
        };
        let following = Some(tokio::spawn(follower.follow()).abort_handle());
        let environment = SessionEnvironment {
            variables,
            git,
            trust_pem: self.door.trust_pem(&session),
            conceal,
            remove,
            unnamed,
            undeclared,
            asking,
        };
        Ok(OpenSession {
            session,
            environment,
            paths,
            placeholders,
            engine: Arc::clone(&self.door.engine),
            broker,
            following,
            ended: false,
        })
    }

    /// The files that values are read from, and what opens those.
    pub(crate) async fn value_files(&self) -> Result<Vec<PathBuf>, Error> {
        let all = self.vault.list().await?;
        Ok(all.iter().filter_map(source_file).chain(self.vault.source_files()).collect())
    }

    /// Values that can't be fetched now can't be looked for; their own variables go all the same.
    /// What another source keeps is fetched for a session that uses it and for no other.
    async fn variables_with_values(
        &self,
        secrets: &[Secret],
        inherited: &[Inherited],
        chosen: &[Secret],
    ) -> Vec<String> {
        let mut remove: Vec<String> = secrets.iter().filter_map(source_variable).collect();
        let asked_for = |secret: &&Secret| {
            let routed = matches!(secret.metadata.source, SourceConfig::Routed { .. });
            !routed || chosen.iter().any(|chosen| chosen.path == secret.path)
        };
        // A decoy is there to be found.
        let genuine = secrets.iter().filter(|secret| !secret.metadata.honeypot);
        let texts: Vec<&[u8]> =
            inherited.iter().map(|variable| variable.value.as_bytes()).collect();
        for secret in genuine.filter(asked_for) {
            let Ok(found) = self.vault.find_in(&secret.path, &texts).await else { continue };
            let holding = inherited.iter().zip(found).filter(|(_, holds)| *holds);
            remove.extend(holding.map(|(variable, _)| variable.name.clone()));
        }
        remove
    }

    /// Where traffic goes out.
    pub(crate) fn door(&self) -> &EgressDoor {
        &self.door
    }

    /// Where the values of sessions come from.
    pub(crate) fn session_values(&self) -> Arc<dyn Values> {
        Arc::clone(&self.tokens) as _
    }

    /// Secrets with a grant give access tokens from now on.
    pub(crate) async fn learn_grants(&self, chosen: &[Secret]) -> Result<(), Error> {
        for secret in chosen {
            let Some(rule) = &secret.metadata.egress else { continue };
            let Some(grant) = &rule.oauth else { continue };
            let client_secret = match &grant.client_secret {
                Some(path) => {
                    let secret = self.bound(path).await.map_err(|error| {
                        missing_for(
                            error,
                            path,
                            " is what --oauth gives as client-secret of ",
                            &secret.path,
                        )
                    })?;
                    secret.metadata.egress.map(|rule| (path.clone(), rule))
                }
                None => None,
            };
            self.tokens.learn(&secret.path, Grant { rule: rule.clone(), client_secret });
        }
        Ok(())
    }

    /// A secret that a session may have.
    async fn bound(&self, path: &SecretPath) -> Result<Secret, Error> {
        let secret = self.vault.show(path).await?;
        refuse_unbound(&secret)?;
        Ok(secret)
    }

    /// A secret that is asked for by its name: one that others know is refused now, and not at its first use.
    async fn named(&self, path: &SecretPath) -> Result<Secret, Error> {
        let secret = self.bound(path).await?;
        refuse_compromised(&secret)?;
        Ok(secret)
    }

    /// A key that signs for AWS is recognised by its id, which comes with it.
    async fn add_companions(
        &self,
        ids: Vec<SecretPath>,
        chosen: &mut Vec<Secret>,
    ) -> Result<(), Error> {
        for id in ids {
            if chosen.iter().any(|secret| secret.path == id) {
                continue;
            }
            let named = self.named(&id).await.map_err(|error| {
                match chosen.iter().find(|secret| companion(secret) == Some(&id)) {
                    Some(signer) => {
                        missing_for(error, &id, " is named by --sign of ", &signer.path)
                    }
                    None => error,
                }
            })?;
            chosen.push(named);
        }
        Ok(())
    }

    async fn add_aliased(
        &self,
        aliased: &[Aliased],
        chosen: &mut Vec<Secret>,
    ) -> Result<(), Error> {
        for Aliased { path, .. } in aliased {
            match chosen.iter().find(|secret| secret.path == *path) {
                // Where all are chosen, those that others know are among them, without a use.
                Some(secret) => refuse_compromised(secret)?,
                None => chosen.push(self.named(path).await?),
            }
        }
        let asked_for =
            |secret: &&Secret| aliased.iter().any(|aliased| aliased.path == secret.path);
        let ids: Vec<SecretPath> =
            chosen.iter().filter(asked_for).filter_map(companion).cloned().collect();
        self.add_companions(ids, chosen).await
    }

    pub(crate) async fn choose(&self, wanted: &Wanted) -> Result<Vec<Secret>, Error> {
        let paths = match wanted {
            Wanted::Nothing => return Ok(Vec::new()),
            Wanted::All => {
                let all = self.vault.list().await?;
                let offered = all.iter().filter(|secret| is_offered(secret));
                let companions: Vec<SecretPath> = offered.filter_map(companion).cloned().collect();
                let comes_along = |secret: &Secret| {
                    !secret.metadata.honeypot && companions.contains(&secret.path)
                };
                let chosen = all.iter().filter(|secret| is_offered(secret) || comes_along(secret));
                return Ok(chosen.cloned().collect());
            }
            Wanted::These(paths) => paths,
        };
        let mut chosen: Vec<Secret> = Vec::with_capacity(paths.len());
        for path in paths {
            // Named twice, it is one secret all the same.
            if chosen.iter().all(|secret| secret.path != *path) {
                chosen.push(self.named(path).await?);
            }
        }
        let ids = chosen.iter().filter_map(companion).cloned().collect();
        self.add_companions(ids, &mut chosen).await?;
        Ok(chosen)
    }
}

/// What the `sign` and `oauth` of a secret name, and `all` don't have.
pub fn missing_companions<'a>(metadata: &'a Metadata, all: &[Secret]) -> Vec<&'a SecretPath> {
    let grant = metadata.egress.as_ref().and_then(|rule| rule.oauth.as_ref());
    let client_secret = grant.and_then(|grant| grant.client_secret.as_ref());
    let named = signs_with(metadata).into_iter().chain(client_secret);
    named.filter(|path| all.iter().all(|other| other.path != **path)).collect()
}

/// That a secret is not there, with the one that needs it beside it.
fn missing_for(error: Error, path: &SecretPath, why: &'static str, by: &SecretPath) -> Error {
    if error.code() != Code::SecretNotFound {
        return error;
    }
    Error::with(error.code(), SafeText::default().and(path).and(why).and(by))
}

/// The secret that it takes to sign with this one: an AWS access key's id, a client's certificates.
fn companion(secret: &Secret) -> Option<&SecretPath> {
    signs_with(&secret.metadata)
}

fn signs_with(metadata: &Metadata) -> Option<&SecretPath> {
    metadata.egress.as_ref()?.sign.as_ref()?.companion()
}

impl OpenSession {
    /// The engine that serves the session.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Ends the session: the next request is refused, tunnels are cut, the end is on record.
    pub async fn end(mut self) -> Result<(), Error> {
        self.engine.close(self.session.id());
        let over = self.broker.end_approvals().await;
        self.ended = true;
        self.broker.record_end().await?;
        over
    }

    /// Ends the session, and the broker that was there for it alone. What fails is tried again, as nobody does once this
    /// process has ended.
    pub(crate) async fn end_with_its_broker(mut self) -> Result<(), Error> {
        self.engine.close(self.session.id());
        // What was cut tells the log what it came to.
        let _ = tokio::time::timeout(CUT, self.engine.drained()).await;
        self.ended = true;
        self.broker.leave_end();
        let (over, told) = tokio::join!(self.broker.end_approvals_at_last(), self.broker.pay());
        self.broker.settle().await;
        over.and(told)
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        if let Some(following) = &self.following {
            following.abort();
        }
        self.engine.close(self.session.id());
        if self.ended {
            return;
        }
        self.broker.leave_end();
        let broker = Arc::clone(&self.broker);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // What can't be written ends by its time.
            runtime.spawn(async move { broker.end_approvals().await });
        }
    }
}

/// Opens a session once its start is on record; one that can't be opened has its end there too.
async fn on_record(
    door: &EgressDoor,
    broker: &SessionBroker,
    paths: Vec<SecretPath>,
    spec: SessionSpec,
) -> Result<Arc<Session>, Error> {
    broker.record_life(Action::SessionStart, paths).await?;
    match door.engine.open(spec) {
        Ok(session) => Ok(session),
        Err(error) => {
            let _ = broker.record_end().await;
            Err(error)
        }
    }
}

/// Opens a session without secrets, which needs no vault: just the jail, the zones and the log.
pub async fn open_bare_session(
    places: &Places,
    door: EgressDoor,
    config: &Config,
) -> Result<OpenSession, Error> {
    let store = Store::create_or_open(&places.store_file()).await?;
    let id = session_id("s");
    let log = AuditLog::start(&store, None);
    annotate(&store, config);
    let broker = SessionBroker::new(Arc::new(NoValues), log, agent("run", &id));
    let broker = Arc::new(broker);
    // No value is opened, and none lies open either.
    let conceal = RouterConfig::load(&places.sources_file())?.files()?;
    let port = Arc::clone(&broker) as _;
    let spec = SessionSpec { id, secrets: Vec::new(), broker: port, ca: None, token: None };
    let session = on_record(&door, &broker, Vec::new(), spec).await?;
    let trust_pem = door.trust_pem(&session);
    Ok(OpenSession {
        session,
        environment: SessionEnvironment { trust_pem, conceal, ..SessionEnvironment::default() },
        paths: Vec::new(),
        placeholders: BTreeMap::new(),
        engine: door.engine,
        broker,
        following: None,
        ended: false,
    })
}

/// Whether the secret's own rules have a person asked about some requests.
fn asks_at_requests(secret: &Secret) -> bool {
    let asks = |rule: &EgressRule| !rule.ask.is_empty() || rule.otherwise == Otherwise::Ask;
    secret.metadata.egress.as_ref().is_some_and(asks)
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
struct VaultValues {
    vault: Arc<Vault>,
    log: AuditLog,
    /// The least that is asked about each.
    floor: ApproveOnUse,
}

impl Values for VaultValues {
    fn open<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<SecretValue, Error>> {
        Box::pin(async move { self.vault.open(path).await.map(|reading| reading.value) })
    }

    fn policy<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<ApproveOnUse, Error>> {
        Box::pin(async move {
            let secret = self.vault.show(path).await?;
            refuse_compromised(&secret)?;
            Ok(secret.metadata.approve_on_use.tightened_by(self.floor))
        })
    }

    fn closings(&self) -> u64 {
        self.vault.closings()
    }

    fn keep<'a>(
        &'a self,
        path: &'a SecretPath,
        last: &'a SecretValue,
        value: Zeroizing<Vec<u8>>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let entries = Entries::in_log(&self.log, |new: &NewVersion| {
                let entry = |action, note| {
                    let target = Target::Secrets(vec![path.clone()]);
                    let entry =
                        plain_entry(agent("broker", "none"), action, Outcome::Success, target);
                    Draft { detail: Detail { note: Some(note), ..Detail::default() }, ..entry }
                };
                let next = entry(Action::Update, "its service gave the next one".to_owned());
                let gone = outlived_note(new).map(|note| entry(Action::Delete, note));
                iter::once(next).chain(gone).collect()
            });
            match self.vault.put_successor(path, last, value, entries).await? {
                Succession::KeptBySource | Succession::Outrun | Succession::Stored(_) => Ok(()),
            }
        })
    }
}

/// The secrets that stand for tokens which answers may bring.
pub(crate) fn minted_slots(
    secrets: &[SessionSecret],
    key: &SessionKey,
) -> Result<Vec<SessionSecret>, Error> {
    let slots = secrets.iter().map(|secret| minted::slots(secret, key));
    Ok(slots.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The party that acts, in the log's words.
pub(crate) fn agent(kind: &str, session: &str) -> Agent {
    Agent {
        uri: format!("nl://keyless.dev/{kind}/{}", env!("CARGO_PKG_VERSION")),
        organization_id: "local".to_owned(),
        session_id: session.to_owned(),
        delegated_by: match kind {
            "broker" | "detection" => "system:keyless".to_owned(),
            _ => "human:operator".to_owned(),
        },
    }
}

/// An entry of the log that stands for itself: of now, joined with no other.
pub(crate) fn plain_entry(
    agent: impl Into<Arc<Agent>>,
    action: Action,
    outcome: Outcome,
    target: Target,
) -> Draft {
    let correlation_id = format!("req-{}", Uuid::now_v7());
    Draft::new(Timestamp::now(), agent.into(), action, outcome, target, correlation_id)
}

/// A session's name: when it began, and enough randomness to be unique.
pub(crate) fn session_id(kind: &str) -> String {
    let when = Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let random = Uuid::new_v4().simple().to_string();
    format!("{kind}-{when}-{}", &random[..8])
}

pub(crate) fn session_key() -> Result<SessionKey, Error> {
    let mut bytes = Zeroizing::new([0_u8; 32]);
    fill_random(&mut *bytes)?;
    Ok(SessionKey::from_random(*bytes))
}

/// Fills `bytes` from the kernel.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes)
        .map_err(|_| Error::with(Code::Internal, SafeText::words("the kernel gave no randomness")))
}

/// The secret as egress knows it; nothing when it names no destination, or others know its value.
pub(crate) fn session_secret(secret: &Secret, key: &SessionKey) -> Option<SessionSecret> {
    if secret.is_compromised() {
        return None;
    }
    Some(SessionSecret {
        placeholder: placeholder(secret, key),
        path: secret.path.clone(),
        rule: secret.metadata.egress.clone()?,
    })
}

fn refuse_unbound(secret: &Secret) -> Result<(), Error> {
    if secret.metadata.egress.is_some() {
        return Ok(());
    }
    let path = &secret.path;
    let words =
        SafeText::default().and(path).and(" names no destination, so it can't enter a session: ");
    let words = words.and("add one with keyless secret set ").and(path).and(" --to HOST");
    Err(Error::with(Code::SessionUnfit, words))
}

fn refuse_compromised(secret: &Secret) -> Result<(), Error> {
    if secret.is_compromised() {
        let path = SafeText::default().and(&secret.path);
        return Err(Error::with(Code::SecretCompromised, path));
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

#[cfg(test)]
mod tests {
    use keyless_core::approval::{Asked, Decision};

    use super::*;
    use crate::{scene::Scene, session_broker::LAST_TRIES};

    /// An approval that stays good in the store would be there for the next process.
    #[tokio::test]
    async fn what_was_approved_ends_with_the_session_where_the_store_refuses_it_for_a_moment() {
        let scene = Scene::new().await;
        let broker = || {
            let door = EgressDoor::new(&Config::default()).unwrap();
            Broker::new(door, Arc::clone(&scene.vault), scene.log.clone())
        };
        let ended = async |for_good: bool| {
            let broker = broker();
            let wanted = Wanted::Nothing;
            let open = broker.open_session(&wanted, &[], Caution::default()).await.unwrap();
            let path = SecretPath::parse("team/a/key").unwrap();
            let asked = Asked::use_approval("to look".to_owned());
            let requests = broker.requests();
            let id = requests.ask(open.session.id(), Some(&path), asked, None).await.unwrap().id;
            requests.settle(&id, Decision::AllowSession).await.unwrap();
            scene.behind_its_back(
                "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT raise(ABORT, 'no'); END;
                 CREATE TRIGGER kept BEFORE UPDATE ON requests BEGIN SELECT raise(ABORT, 'no'); END",
            );
            let room = async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                let kept = if for_good { "" } else { "; DROP TRIGGER kept" };
                scene.behind_its_back(&format!("DROP TRIGGER full{kept}"));
            };
            tokio::join!(open.end_with_its_broker(), room).0
        };
        let holding = async || {
            let (all, now) = (broker().requests().all().await.unwrap(), Timestamp::now());
            all.iter().filter(|request| request.allows_use(now)).count()
        };
        ended(false).await.unwrap();
        assert_eq!(holding().await, 0);
        assert!(ended(true).await.is_err());
        assert_eq!(holding().await, 1);
    }

    /// As by a panic of who serves it: nobody else would say that it is over.
    #[tokio::test]
    async fn a_session_that_is_dropped_has_its_end_on_record_once_and_its_approvals_are_over() {
        let scene = Scene::new().await;
        let door = EgressDoor::new(&Config::default()).unwrap();
        let broker = Broker::new(door, Arc::clone(&scene.vault), scene.log.clone());
        let requests = broker.requests();
        let allowed = async || {
            let (all, now) = (requests.all().await.unwrap(), Timestamp::now());
            all.iter().any(|request| request.allows_use(now))
        };
        let path = SecretPath::parse("team/a/key").unwrap();
        for ends in 1..=2 {
            let wanted = Wanted::Nothing;
            let open = broker.open_session(&wanted, &[], Caution::default()).await.unwrap();
            let asked = Asked::use_approval("to look".to_owned());
            let id = requests.ask(open.session.id(), Some(&path), asked, None).await.unwrap().id;
            requests.settle(&id, Decision::AllowSession).await.unwrap();
            if ends == 1 {
                drop(open);
            } else {
                open.end().await.unwrap();
            }
            let over = async {
                while allowed().await {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(5), over).await.expect("they are over");
            scene.log.flush().await.unwrap();
            let wanted = keyless_store::AuditQuery {
                action: Some(Action::SessionEnd),
                ..keyless_store::AuditQuery::default()
            };
            assert_eq!(scene.vault.store().audit_query(&wanted).await.unwrap().len(), ends);
        }
    }

    /// One try alone waits for half a minute.
    #[tokio::test]
    async fn who_ends_does_not_wait_for_a_process_that_keeps_the_store_locked() {
        let scene = Scene::new().await;
        let door = EgressDoor::new(&Config::default()).unwrap();
        let broker = Broker::new(door, Arc::clone(&scene.vault), scene.log.clone());
        let open = broker.open_session(&Wanted::Nothing, &[], Caution::default()).await.unwrap();
        let asked = Asked::use_approval("to look".to_owned());
        let path = SecretPath::parse("team/a/key").unwrap();
        let requests = broker.requests();
        let id = requests.ask(open.session.id(), Some(&path), asked, None).await.unwrap().id;
        requests.settle(&id, Decision::AllowSession).await.unwrap();
        let _holder = crate::scene::held(scene.folder.path()).await;
        let ending = tokio::time::timeout(2 * LAST_TRIES, open.end_with_its_broker());
        let error = ending.await.expect("it goes on").unwrap_err();
        assert!(error.message().contains("another process"), "{}", error.message());
    }
}
