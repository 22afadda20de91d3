//! What the tests share: a scratch vault, its passphrase, and secrets.

use std::path::PathBuf;

use keyless_core::{Destination, EgressRule, SecretPath};
use keyless_store::Store;
use keyless_vault::{Factor, KdfCost, Metadata, Passphrase, RecoveryPhrase, Vault};
use tempfile::TempDir;
use zeroize::Zeroizing;

pub(crate) const PASSPHRASE: &str = "correct horse battery";

/// A scratch folder with a vault in it.
pub(crate) struct Scene {
    folder: TempDir,
    pub(crate) vault: Vault,
    pub(crate) phrase: RecoveryPhrase,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create_or_open(&folder.path().join("store.db")).await.unwrap();
        let (vault, phrase) =
            Vault::create_with(store, passphrase(PASSPHRASE), KdfCost::dangerously_cheap())
                .await
                .unwrap();
        Self { folder, vault, phrase }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Another handle on the same file, still locked.
    pub(crate) async fn store(&self) -> Store {
        Store::open(&self.file()).await.unwrap()
    }

    /// The same vault, unlocked anew.
    pub(crate) async fn again(&self) -> Vault {
        Vault::unlock(self.store().await, by_passphrase(PASSPHRASE)).await.unwrap()
    }
}

pub(crate) fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(Zeroizing::new(text.to_owned()))
}

pub(crate) fn by_passphrase(text: &str) -> Factor {
    Factor::Passphrase(passphrase(text))
}

pub(crate) fn path(text: &str) -> SecretPath {
    SecretPath::parse(text).unwrap()
}

pub(crate) fn value(text: &str) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(text.as_bytes().to_vec())
}

/// Metadata of a secret that may go to one host.
pub(crate) fn bound() -> Metadata {
    let to = vec![Destination::parse("api.github.com").unwrap()];
    Metadata { egress: Some(EgressRule::to(to)), ..Metadata::default() }
}

/// What a value is, seen as sealing sees it.
pub(crate) async fn opened(vault: &Vault, at: &str) -> String {
    let reading = vault.open(&path(at)).await.unwrap();
    String::from_utf8(reading.value.expose_for_sealing().to_vec()).unwrap()
}
