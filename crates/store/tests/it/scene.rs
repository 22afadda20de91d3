//! What the tests share: a scratch store on either engine, drafts, and a way behind the store's back.

use std::{path::Path, sync::Arc};

use jiff::Timestamp;
use keyless_core::audit::{Action, Agent, Detail, Draft, LogKeyId, Noted, Outcome, Target};
use keyless_store::{AuditLog, HeadSealer, LogError, Server, Store, StorePlace};
pub(crate) use keyless_testkit::{Engine, on_both};
use keyless_testkit::{Postgres, PostgresOptions, TestCa};
use sqlx::{AssertSqlSafe, ConnectOptions, sqlite::SqliteConnectOptions};
use tempfile::TempDir;
use zeroize::Zeroizing;

/// The server by its Unix socket.
pub(crate) fn on_socket(server: &Postgres, home: &Path) -> Server {
    Server::new(&server.socket_url(), home).unwrap().with_password(PASSWORD)
}

/// A scratch folder, and a store in it.
pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    pub(crate) store: Store,
    pub(crate) server: Option<Postgres>,
}

impl Scene {
    pub(crate) async fn new(engine: Engine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = match engine {
            Engine::Postgres => Some(start(&TestCa::new())),
            Engine::Sqlite => None,
        };
        let store = Store::create_or_open(place(&folder, server.as_ref())).await.unwrap();
        Self { folder, store, server }
    }

    pub(crate) fn place(&self) -> StorePlace {
        place(&self.folder, self.server.as_ref())
    }

    /// The same store, opened by another process.
    pub(crate) async fn opened_again(&self) -> Store {
        Store::open(self.place()).await.unwrap()
    }

    /// Runs SQL as somebody who has the file, or the server, and no key.
    pub(crate) async fn behind_its_back(&self, sql: &str) {
        match self.place() {
            StorePlace::File(file) => {
                let options = SqliteConnectOptions::new().filename(file);
                let mut connection = options.connect().await.unwrap();
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
            }
            StorePlace::Server(_) => {
                self.server.as_ref().unwrap().sql(sql).unwrap();
            }
        }
    }
}

pub(crate) const PASSWORD: &str = "hinged-lantern-41";

pub(crate) fn start(ca: &TestCa) -> Postgres {
    let options = PostgresOptions { ca, names: &["localhost"], password: PASSWORD };
    Postgres::start(&options).unwrap()
}

fn place(folder: &TempDir, server: Option<&Postgres>) -> StorePlace {
    let home = folder.path().join("home");
    match server {
        None => StorePlace::File(home.join("store.db")),
        Some(server) => on_socket(server, &home).into(),
    }
}

pub(crate) fn draft(session: &str) -> Draft {
    Draft {
        at: Timestamp::from_millisecond(1_700_000_000_123).unwrap(),
        agent: Agent {
            uri: "nl://keyless.dev/run/0.1.0".to_owned(),
            organization_id: "local".to_owned(),
            session_id: session.to_owned(),
            delegated_by: "human:operator".to_owned(),
        }
        .into(),
        action: Action::Egress,
        target: Target::Session,
        outcome: Outcome::Success,
        secrets_used: Vec::new(),
        correlation_id: "req-0".to_owned(),
        error_code: None,
        detail: Detail { method: Some("GET".to_owned()), ..Detail::default() },
        metadata: Noted::default(),
        allowed: None,
    }
}

/// A store whose log has so many entries, sealed by the key.
pub(crate) async fn filled(engine: Engine, count: usize) -> Scene {
    let scene = Scene::new(engine).await;
    let mut writing = scene.store.write().await.unwrap();
    writing.seal_audit_head(&Word("key")).await.unwrap();
    writing.commit().await.unwrap();
    let log = sealed_log(&scene);
    for _ in 0..count {
        log.append_soon(draft("s")).unwrap();
    }
    log.flush().await.unwrap();
    scene
}

/// A writer with the vault open.
pub(crate) fn sealed_log(scene: &Scene) -> AuditLog {
    AuditLog::start(&scene.store, Some(Arc::new(Word("key"))))
}

/// The fault itself, which on a server comes with the name of its chain.
pub(crate) fn in_its_chain(error: &LogError) -> &LogError {
    match error {
        LogError::InChain { fault, .. } => fault,
        error => error,
    }
}

/// A seal that only who knows the word can make, as far as a test goes.
pub(crate) struct Word(pub(crate) &'static str);

impl HeadSealer for Word {
    fn seal(&self, chain: &str, sequence: u64, entry_hash: &str) -> Vec<u8> {
        format!("{} {chain} {sequence} {entry_hash}", self.0).into_bytes()
    }

    fn seal_segment(&self, text: &str) -> Vec<u8> {
        format!("{} {text}", self.0).into_bytes()
    }

    fn seal_key(&self, text: &str) -> Vec<u8> {
        format!("{} key {text}", self.0).into_bytes()
    }

    fn entry_key(&self, key: LogKeyId) -> Zeroizing<[u8; 32]> {
        let mut bytes = [0; 32];
        for (byte, letter) in bytes.iter_mut().zip(format!("{key} {}", self.0).bytes()) {
            *byte = letter;
        }
        bytes.into()
    }
}
