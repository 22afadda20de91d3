//! A vault for this crate's tests.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use keyless_store::{AuditLog, Store};
use keyless_vault::{KdfCost, Passphrase, Vault};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Child,
};
use zeroize::Zeroizing;

/// An open vault in a folder of its own.
pub(crate) struct Scene {
    pub(crate) vault: Arc<Vault>,
    pub(crate) log: AuditLog,
    pub(crate) folder: tempfile::TempDir,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create_or_open(&folder.path().join("store.db")).await.unwrap();
        let passphrase = Passphrase::new(Zeroizing::new("correct horse battery staple".to_owned()));
        let cheap = KdfCost::dangerously_cheap();
        let (vault, _) = Vault::create_with(store, passphrase, cheap).await.unwrap();
        let log = crate::operator::audit_log(&vault);
        Self { vault: Arc::new(vault), log, folder }
    }

    /// Has another process do this at the store.
    pub(crate) fn behind_its_back(&self, statement: &str) {
        behind_the_back(self.folder.path(), statement);
    }
}

/// Has another process do this at the store in a folder.
pub(crate) fn behind_the_back(folder: &Path, statement: &str) {
    let script = "import sqlite3, sys\nsqlite3.connect(sys.argv[1]).executescript(sys.argv[2])";
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(folder.join("store.db")).arg(statement);
    assert!(python.status().unwrap().success());
}

/// Has another process keep the store in a folder locked, until this is dropped.
pub(crate) async fn held(folder: &Path) -> Child {
    let script = "import sqlite3, sys, time\nstore = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                  store.execute('BEGIN IMMEDIATE')\nprint('held', flush=True)\ntime.sleep(60)";
    let mut python = tokio::process::Command::new("python3");
    python.args(["-c", script]).arg(folder.join("store.db")).kill_on_drop(true);
    let mut python = python.stdout(Stdio::piped()).spawn().unwrap();
    let mut held = String::new();
    BufReader::new(python.stdout.as_mut().unwrap()).read_line(&mut held).await.unwrap();
    python
}
