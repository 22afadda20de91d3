//! What the tests share: a scratch vault, its passphrase, and secrets.

use std::path::{Path, PathBuf};

use keyless_core::{Code, Destination, EgressRule, Error, SecretPath};
use keyless_store::{Server, Store, StorePlace};
pub(crate) use keyless_testkit::{Engine, on_both};
use keyless_testkit::{Postgres, PostgresOptions, TestCa};
use keyless_vault::{Factor, KdfCost, Metadata, Passphrase, RecoveryPhrase, Vault};
use tempfile::TempDir;
use zeroize::Zeroizing;

pub(crate) const PASSPHRASE: &str = "correct horse battery";
const SERVER_PASSWORD: &str = "hinged-lantern-41";

/// A scratch folder with a vault in it, or beside it on a server.
pub(crate) struct Scene {
    folder: TempDir,
    pub(crate) server: Option<Postgres>,
    pub(crate) vault: Vault,
    pub(crate) phrase: RecoveryPhrase,
}

impl Scene {
    /// A vault in a file.
    pub(crate) async fn new() -> Self {
        Self::on(Engine::Sqlite).await
    }

    pub(crate) async fn on(engine: Engine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ca = TestCa::new();
        let options = PostgresOptions { ca: &ca, names: &["localhost"], password: SERVER_PASSWORD };
        let server = match engine {
            Engine::Postgres => Some(Postgres::start(&options).unwrap()),
            Engine::Sqlite => None,
        };
        let store = Store::create_or_open(place(&folder, server.as_ref())).await.unwrap();
        let (vault, phrase) =
            Vault::create_with(store, passphrase(PASSPHRASE), KdfCost::dangerously_cheap())
                .await
                .unwrap();
        Self { folder, server, vault, phrase }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Another handle on the same store, still locked.
    pub(crate) async fn store(&self) -> Store {
        Store::open(place(&self.folder, self.server.as_ref())).await.unwrap()
    }

    /// The same vault, unlocked anew.
    pub(crate) async fn again(&self) -> Vault {
        Vault::unlock(self.store().await, by_passphrase(PASSPHRASE)).await.unwrap()
    }
}

fn place(folder: &TempDir, server: Option<&Postgres>) -> StorePlace {
    place_at(folder.path(), server.map(Postgres::socket_url).as_deref())
}

/// A store in a folder, or on the server at this address with what it has beside it in the folder.
pub(crate) fn place_at(folder: &Path, server: Option<&str>) -> StorePlace {
    match server {
        None => StorePlace::File(folder.join("store.db")),
        Some(url) => Server::new(url, folder).unwrap().with_password(SERVER_PASSWORD).into(),
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

/// Why something was refused.
#[track_caller]
pub(crate) fn code<T: std::fmt::Debug>(answer: Result<T, Error>) -> Code {
    answer.unwrap_err().code()
}
