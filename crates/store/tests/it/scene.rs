//! What the tests share: a scratch store, drafts, and a way behind the store's back.

use std::path::PathBuf;

use jiff::Timestamp;
use keyless_core::audit::{Action, Agent, Detail, Draft, Outcome, Target};
use keyless_store::{HeadSealer, Store};
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

/// A scratch folder with a store in it.
pub(crate) struct Scene {
    folder: TempDir,
    pub(crate) store: Store,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create_or_open(&folder.path().join("home/store.db")).await.unwrap();
        Self { folder, store }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("home/store.db")
    }

    /// Runs SQL as somebody who has the file and no key.
    pub(crate) async fn behind_its_back(&self, sql: &'static str) {
        let options = SqliteConnectOptions::new().filename(self.file());
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    }
}

pub(crate) fn draft(session: &str) -> Draft {
    Draft {
        at: Timestamp::from_millisecond(1_700_000_000_123).unwrap(),
        agent: Agent {
            uri: "nl://keyless.dev/run/0.1.0".to_owned(),
            organization_id: "local".to_owned(),
            session_id: session.to_owned(),
        }
        .into(),
        action: Action::Egress,
        target: Target::Session,
        outcome: Outcome::Success,
        secrets_used: Vec::new(),
        correlation_id: "req-0".to_owned(),
        error_code: None,
        detail: Detail { method: Some("GET".to_owned()), ..Detail::default() },
        allowed: None,
    }
}

/// A seal that only who knows the word can make, as far as a test goes.
pub(crate) struct Word(pub(crate) &'static str);

impl HeadSealer for Word {
    fn seal(&self, sequence: u64, entry_hash: &str) -> Vec<u8> {
        format!("{} {sequence} {entry_hash}", self.0).into_bytes()
    }
}
