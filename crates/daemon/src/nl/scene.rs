//! A vault for the tests of this room.

use keyless_store::{AuditLog, Store};
use keyless_vault::{KdfCost, Passphrase, Vault};
use zeroize::Zeroizing;

/// An open vault in a folder of its own.
pub(super) struct Scene {
    pub(super) vault: Vault,
    pub(super) log: AuditLog,
    _folder: tempfile::TempDir,
}

impl Scene {
    pub(super) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create_or_open(&folder.path().join("store.db")).await.unwrap();
        let passphrase = Passphrase::new(Zeroizing::new("correct horse battery staple".to_owned()));
        let cheap = KdfCost::dangerously_cheap();
        let (vault, _) = Vault::create_with(store, passphrase, cheap).await.unwrap();
        let log = crate::operator::audit_log(&vault);
        Self { vault, log, _folder: folder }
    }
}
