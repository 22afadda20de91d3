//! The sessions of a sidecar: the one of its own listeners, and one for each guest that a forwarder
//! names. They are opened when they are first needed: placeholders follow from key and name, and the
//! authority is the fleet's, so a guest that was restored elsewhere finds everything as it was.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::Arc,
    time::{Duration, Instant},
};

use keyless_core::{Code, Error, SecretValue, SessionId, SessionKey, audit::Action};
use keyless_egress::{CaKeys, Engine, Session, SessionSecret, SessionSpec};
use keyless_store::AuditLog;
use keyless_vault::Catalog;
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use zeroize::Zeroizing;

use super::{grants, mounted::Mounted, session_secret};
use crate::{
    broker::{agent, minted_slots},
    session_broker::{LAST_TRIES, SessionBroker},
    telemetry::Telemetry,
    tokens::Tokens,
};

/// Sessions at once: some thousands of guests on one node, and a bound on what a forwarder gone
/// wrong can take.
const MOST: usize = 4096;
/// A session without a connection is let go of after this long.
const IDLE: Duration = Duration::from_hours(1);

/// Opens sessions by name.
pub(super) struct Sessions {
    pub(super) engine: Arc<Engine>,
    pub(super) mounted: Arc<Mounted>,
    /// The mounted values, with access tokens in the place of grants.
    pub(super) values: Arc<Tokens>,
    pub(super) key: Zeroizing<Vec<u8>>,
    pub(super) log: AuditLog,
    pub(super) ca: Option<Arc<CaKeys>>,
    pub(super) telemetry: Telemetry,
    /// Held while one is opened, so that two connections of a guest don't open its session twice,
    /// and while a catalog is taken up, so that none is opened by the one before. Not while the log
    /// writes, for which every new connection of every guest would wait.
    pub(super) open: tokio::sync::Mutex<HashMap<SessionId, Arc<Open>>>,
}

/// An open session. Connections hold it; it is idle when only the table does.
pub(super) struct Open {
    pub(super) session: Arc<Session>,
    pub(super) broker: Arc<SessionBroker>,
    /// Set once its start is on disk; nobody has it before.
    started: OnceCell<()>,
    /// When a connection last began or ended.
    used: Mutex<Instant>,
}

/// A session as a connection holds it: from its end on the session is idle.
pub(super) struct InUse(Arc<Open>);

impl Sessions {
    /// Takes up another catalog and its values in every session, and what `apply` does to the engine; nothing of
    /// it when any of it fails. What is open toward the hosts of a secret that is gone is cut.
    pub(super) async fn take_up(
        &self,
        catalog: Catalog,
        values: &[SecretValue],
        apply: impl FnOnce(&Engine) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let all = self.open.lock().await;
        let grants = grants(&catalog)?;
        let fresh = all.iter().map(|(id, open)| Ok((open, self.secrets_of(&catalog, id)?)));
        let fresh = fresh.collect::<Result<Vec<_>, Error>>()?;
        apply(&self.engine)?;
        let changed = self.mounted.catalog().entries != catalog.entries;
        let paths: Vec<_> = catalog.entries.iter().map(|entry| entry.path.clone()).collect();
        self.mounted.replace(catalog, values);
        self.values.forget_all_but(&grants);
        for (path, grant) in grants {
            self.values.learn(&path, grant);
        }
        for (open, secrets) in fresh {
            open.broker.forget_all();
            if changed {
                self.engine.replace_secrets(&open.session, &secrets);
                open.broker.leave_life(Action::Update, paths.clone());
            }
        }
        drop(all);
        // Every use is on record before it happens; what this waits for says why there are others now.
        let _ = self.log.flush().await;
        Ok(())
    }

    /// A session's secrets by this catalog, and room for the tokens that they may mint.
    fn secrets_of(&self, catalog: &Catalog, id: &SessionId) -> Result<Vec<SessionSecret>, Error> {
        let key = SessionKey::derive(&self.key, id.as_str());
        let entries = catalog.entries.iter();
        let mut secrets: Vec<_> = entries.map(|entry| session_secret(entry, &key)).collect();
        secrets.extend(minted_slots(&secrets, &key)?);
        Ok(secrets)
    }

    /// The session with this name, opened if it is not. Its start is on disk then.
    pub(super) async fn get(&self, id: &SessionId) -> Result<InUse, Error> {
        let open = self.in_table(id).await?;
        if let Err(error) = open.started.get_or_try_init(|| self.log.flush()).await {
            let mut all = self.open.lock().await;
            if all.get(id).is_some_and(|one| Arc::ptr_eq(one, &open.0)) {
                all.remove(id);
                self.engine.close(id.as_str());
                open.broker.leave_end();
            }
            return Err(error);
        }
        Ok(open)
    }

    /// The same, whose start may not be on disk yet.
    async fn in_table(&self, id: &SessionId) -> Result<InUse, Error> {
        let mut all = self.open.lock().await;
        if let Some(open) = all.get(id) {
            return Ok(InUse(Arc::clone(open)));
        }
        if all.len() >= MOST {
            self.close_idle(&mut all, IDLE).await?;
        }
        if all.len() >= MOST {
            return Err(Code::TooManyConnections.into());
        }
        let open = Arc::new(self.open_one(id)?);
        all.insert(id.clone(), Arc::clone(&open));
        Ok(InUse(open))
    }

    /// Ends all of them.
    pub(super) async fn close(&self) -> Result<(), Error> {
        let mut all = self.open.lock().await;
        let ended: Vec<_> = all.drain().collect();
        self.end(ended).await
    }

    /// Has written what the log is still owed, before this process ends.
    pub(super) async fn pay(&self) -> Result<(), Error> {
        self.log.flush_within(LAST_TRIES).await
    }

    /// Lets go, now and then, of those that nobody uses.
    pub(super) async fn sweep_forever(&self) {
        loop {
            tokio::time::sleep(IDLE / 4).await;
            // A log that can't be written refuses every request by itself.
            let _ = self.close_idle(&mut *self.open.lock().await, IDLE).await;
        }
    }

    async fn close_idle(
        &self,
        all: &mut HashMap<SessionId, Arc<Open>>,
        idle: Duration,
    ) -> Result<(), Error> {
        let over =
            |open: &Arc<Open>| Arc::strong_count(open) == 1 && open.used.lock().elapsed() >= idle;
        self.end(all.extract_if(|_, open| over(open)).collect()).await
    }

    /// Opens a session, whose start is left to the log once nothing can fail any more.
    fn open_one(&self, id: &SessionId) -> Result<Open, Error> {
        self.log.check()?;
        let agent = agent("proxy", id.as_str());
        let broker = SessionBroker::new(Arc::clone(&self.values) as _, self.log.clone(), agent);
        let broker = Arc::new(broker.observed_by(self.telemetry.clone()));
        let catalog = self.mounted.catalog();
        let paths = catalog.entries.iter().map(|entry| entry.path.clone()).collect();
        let secrets = self.secrets_of(&catalog, id)?;
        let session = self.engine.open(SessionSpec {
            id: id.to_string(),
            secrets,
            broker: Arc::clone(&broker) as _,
            ca: self.ca.clone(),
            token: Some(SessionKey::derive(&self.key, id.as_str()).proxy_token()),
        })?;
        broker.leave_life(Action::SessionStart, paths);
        let (started, used) = (OnceCell::new(), Mutex::new(Instant::now()));
        Ok(Open { session, broker, started, used })
    }

    async fn end(&self, ended: Vec<(SessionId, Arc<Open>)>) -> Result<(), Error> {
        // All of them, also where their end can't be written down.
        for (id, _) in &ended {
            self.engine.close(id.as_str());
        }
        for (_, open) in &ended {
            open.broker.leave_end();
        }
        if ended.is_empty() { Ok(()) } else { self.log.flush().await }
    }
}

impl Deref for InUse {
    type Target = Open;

    fn deref(&self) -> &Open {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        *self.0.used.lock() = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, sync::Weak};

    use keyless_store::{AuditQuery, Store};
    use keyless_vault::MountedValues;

    use super::*;
    use crate::{
        config::Config, egress_door::EgressDoor, metrics::Metrics, notes::Notes,
        values::Values as _,
    };

    const CATALOG: &str = concat!(
        "apiVersion: keyless.dev/v1alpha1\n",
        "kind: SecretProxy\n",
        "spec:\n",
        "  secrets:\n",
        "    - env: API_TOKEN\n",
        "      secretRef: { name: api, key: token }\n",
        "      egressTo: [api.allowed.test]\n",
    );

    async fn sessions(folder: &Path) -> (Sessions, Store) {
        let place = |name: &str| folder.join(name);
        fs::write(place("catalog.yaml"), CATALOG).unwrap();
        let catalog = Catalog::load(&place("catalog.yaml")).unwrap();
        let engine = EgressDoor::for_catalog(&Config::default(), &catalog).unwrap().engine;
        let store = Store::create_or_open(&place("store.db")).await.unwrap();
        let log = AuditLog::start(&store, None);
        let mounted = Arc::new(Mounted::new(MountedValues::new(place("mounted")), catalog));
        let inner = Arc::clone(&mounted) as _;
        let values = Tokens::over(inner, Arc::clone(&engine), log.clone(), agent("proxy", "a"));
        let (metrics, notes) = (Arc::new(Metrics::new()), Notes::none());
        let all = Sessions {
            engine,
            mounted,
            values: Arc::new(values),
            key: Zeroizing::new(vec![7; 32]),
            log,
            ca: None,
            telemetry: Telemetry { metrics, notes, traces: None },
            open: tokio::sync::Mutex::default(),
        };
        (all, store)
    }

    /// What it has minted goes with it, and whoever comes back from a long download is to find that.
    #[tokio::test]
    async fn a_session_is_idle_from_the_end_of_its_last_connection_on() {
        let folder = tempfile::tempdir().unwrap();
        let (sessions, _store) = sessions(folder.path()).await;
        let id = SessionId::parse("one").unwrap();
        let idle = Duration::from_millis(300);
        let left = async || {
            let mut all = sessions.open.lock().await;
            sessions.close_idle(&mut all, idle).await.unwrap();
            all.len()
        };
        let connection = sessions.get(&id).await.unwrap();
        tokio::time::sleep(idle + idle / 3).await;
        assert_eq!(left().await, 1, "it is in use");
        drop(connection);
        assert_eq!(left().await, 1, "it was in use just now");
        tokio::time::sleep(idle + idle / 3).await;
        assert_eq!(left().await, 0);
    }

    /// A reload on a full node would otherwise stop every new connection for as long as the log takes.
    #[tokio::test]
    async fn who_has_a_session_does_not_wait_for_what_the_log_writes_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let (sessions, _store) = sessions(folder.path()).await;
        let sessions = Arc::new(sessions);
        let id = |name| SessionId::parse(name).unwrap();
        drop(sessions.get(&id("one")).await.unwrap());
        let _holder = crate::scene::held(folder.path()).await;
        fs::write(folder.path().join("catalog.yaml"), CATALOG.replace("allowed", "other")).unwrap();
        let catalog = Catalog::load(&folder.path().join("catalog.yaml")).unwrap();
        let all = Arc::clone(&sessions);
        let reload = tokio::spawn(async move { all.take_up(catalog, &[], |_| Ok(())).await });
        let all = Arc::clone(&sessions);
        let opening = tokio::spawn(async move { all.get(&id("two")).await.map(drop) });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!reload.is_finished() && !opening.is_finished(), "their entries can't be written");
        let got = tokio::time::timeout(Duration::from_secs(2), sessions.get(&id("one"))).await;
        got.expect("it does not wait").unwrap();
    }

    /// A value of a catalog that is refused would be in use once its file can't be read.
    #[tokio::test]
    async fn a_catalog_that_is_not_taken_up_leaves_the_last_good_values() {
        let folder = tempfile::tempdir().unwrap();
        let (sessions, _store) = sessions(folder.path()).await;
        let mounted = &sessions.mounted;
        let file = mounted.files(&mounted.catalog()).remove(0).0;
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let path = mounted.catalog().entries[0].path.clone();
        let value = async || mounted.open(&path).await.unwrap().copy_for_cache();
        fs::write(&file, "Qm7-xT4w9ZrK2bVp").unwrap();
        mounted.put_in_force(&mounted.check(&mounted.catalog()).await.unwrap().values);
        let first = value().await;
        fs::write(&file, "Hn3-yU8e5GsL6cDq").unwrap();
        let checked = mounted.check(&mounted.catalog()).await.unwrap();
        fs::remove_file(&file).unwrap();
        assert!(value().await.expose_for_sealing() == first.expose_for_sealing());
        mounted.replace((*mounted.catalog()).clone(), &checked.values);
        assert!(value().await.expose_for_sealing() != first.expose_for_sealing());
    }

    /// It would be on record as begun and never as over.
    #[tokio::test]
    async fn a_session_whose_start_can_not_be_written_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let (sessions, store) = sessions(folder.path()).await;
        let id = SessionId::parse("one").unwrap();
        let no_room = "CREATE TRIGGER full BEFORE INSERT ON audit \
                       BEGIN SELECT raise(ABORT, 'no'); END";
        crate::scene::behind_the_back(folder.path(), no_room);
        let refused = sessions.get(&id).await.map(drop).unwrap_err();
        assert_eq!(refused.code(), Code::AuditUnavailable);
        assert!(sessions.open.lock().await.is_empty());
        crate::scene::behind_the_back(folder.path(), "DROP TRIGGER full");
        sessions.pay().await.unwrap();
        let actions = async || {
            let entries = store.audit_query(&AuditQuery::default()).await.unwrap();
            let actions = entries.into_iter().map(|entry| entry.action);
            actions.filter(|action| *action != Action::LogInterruption).collect::<Vec<_>>()
        };
        drop(sessions.get(&id).await.unwrap());
        let (start, end) = (Action::SessionStart, Action::SessionEnd);
        assert_eq!(actions().await, [start, end, start]);
    }

    #[tokio::test]
    async fn every_session_ends_also_where_the_log_takes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (sessions, store) = sessions(folder.path()).await;
        let mut open: Vec<Weak<Session>> = Vec::new();
        for name in ["one", "two", "three"] {
            let one = sessions.get(&SessionId::parse(name).unwrap()).await.unwrap();
            open.push(Arc::downgrade(&one.session));
        }
        store.close().await;
        assert_eq!(sessions.close().await.unwrap_err().code(), Code::AuditUnavailable);
        assert!(open.iter().all(|session| session.upgrade().is_none()));
    }
}
