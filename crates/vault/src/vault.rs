//! The open vault: makes it, unlocks it, changes it, and opens values.
//!
//! Every mutation is one transaction that checks the commitment before and renews it after. A
//! mutation is planned on the verified index as a list of [`Change`]s and then carried out, so
//! what is decided is decided under the write lock. Source: design.md, sections 5 and 8.

mod birth;
mod change;
mod secrets;

use std::{fmt, sync::Arc};

use keyless_core::{Code, Error, SecretPath};
use keyless_store::{ChangeMark, HeadSealer, Store};
use tokio::sync::Mutex;

pub use self::secrets::Secret;
use crate::{
    index::Index,
    key::{Purpose, Subkey, VaultKey, derive_mac},
    metadata::SourceConfig,
    source::{EnvSource, FileSource, LocalSource, Reading, Source},
};

/// An unlocked vault. Dropping it wipes the key.
pub struct Vault {
    store: Store,
    key: VaultKey,
    seen: Mutex<Seen>,
}

/// The index as it was last verified.
struct Seen {
    index: Arc<Index>,
    /// While the store has this mark, the index is what it holds.
    mark: Option<ChangeMark>,
}

impl Vault {
    /// Fetches the value of `path` from where it is kept. The store is checked first if anything
    /// was written since the last look.
    ///
    /// Fails with [`Code::SecretNotFound`], [`Code::SecretUnavailable`] (the source has none),
    /// [`Code::ValueRefused`] (what the source has does not fit) or [`Code::StoreTampered`].
    pub async fn open(&self, path: &SecretPath) -> Result<Reading, Error> {
        let index = self.index().await?;
        let secret = index.find(path)?;
        let binding = secret.metadata.binding();
        match &secret.metadata.source {
            SourceConfig::Env { variable } => EnvSource::new(variable).read(path, binding).await,
            SourceConfig::File { path: file } => FileSource::new(file).read(path, binding).await,
            SourceConfig::Local => {
                let (store, key, current) = (&self.store, &self.key, secret.current());
                LocalSource { store, key, current }.read(path, binding).await
            }
        }
    }

    /// Checks every row against the commitment, now.
    pub async fn check(&self) -> Result<(), Error> {
        self.seen.lock().await.mark = None;
        self.index().await.map(|_| ())
    }

    /// Vouches for the end of the audit log; give it to `AuditLog::start` and `audit_verify`.
    pub fn head_sealer(&self) -> Arc<dyn HeadSealer> {
        Arc::new(AuditHead(self.key.derive(Purpose::AuditHead)))
    }

    /// The store below.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The verified index of this moment.
    async fn index(&self) -> Result<Arc<Index>, Error> {
        let mut seen = self.seen.lock().await;
        // Before the rows: what is written in between then shows as another mark next time.
        let mark = self.store.change_mark().await?;
        if seen.mark != Some(mark) {
            let index = Index::verify(&self.store.rows().await?, &self.key)?;
            seen.refuse_rollback(&index)?;
            *seen = Seen { index: Arc::new(index), mark: Some(mark) };
        }
        Ok(seen.index.clone())
    }
}

impl Seen {
    fn refuse_rollback(&self, index: &Index) -> Result<(), Error> {
        if index.generation < self.index.generation {
            Err(Code::StoreTampered.into())
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("store", &self.store.file()).finish_non_exhaustive()
    }
}

/// HMAC over the last entry's number and hash, under a key of its own.
struct AuditHead(Subkey);

impl HeadSealer for AuditHead {
    fn seal(&self, sequence: u64, entry_hash: &str) -> Vec<u8> {
        derive_mac(&self.0, &[&sequence.to_be_bytes(), entry_hash.as_bytes()])
    }
}
