//! The open vault: makes it, unlocks it, changes it, and opens values.
//!
//! Every mutation is one transaction that checks the commitment before and renews it after. A
//! mutation is planned on the verified index as a list of [`Change`]s and then carried out, so
//! what is decided is decided under the write lock; the entries that tell of it are part of it. Source: design.md, sections 5 and 8.

mod at_source;
mod birth;
mod change;
mod copying;
mod entries;
mod envelopes;
mod locking;
mod opening;
mod secrets;
mod versions;
mod writable;

use std::{fmt, sync::Arc};

use keyless_core::{Code, Error, audit::LogKeyId};
use keyless_store::{ChangeMark, HeadSealer, Store};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use self::{
    at_source::AtSources,
    change::Change,
    locking::{KeyPlace, LastUse, Reopening},
};
pub use self::{
    copying::{Conflicts, Imported, Replacement},
    entries::Entries,
    envelopes::Envelope,
    secrets::{Looked, NewSecret, NewVersion, Secret, Succession},
    versions::Version,
};
use crate::{
    index::Index,
    key::{KEY_BYTES, Purpose, Subkey, VaultKey, derive, derive_mac},
    router::Router,
};

/// An unlocked vault. Dropping it wipes the key.
pub struct Vault {
    store: Store,
    key: KeyPlace,
    standing: Standing,
    seen: Mutex<Seen>,
    router: Option<Router>,
    reopening: Reopening,
    last_use: LastUse,
    at_sources: AtSources,
}

/// Keys that vouch and open nothing, so they outlive a lock: the log goes on, and requests to a
/// person stay genuine.
pub(crate) struct Standing {
    audit_entries: Subkey,
    audit_head: Subkey,
    audit_keys: Subkey,
    audit_segments: Subkey,
    pub(crate) agents: Subkey,
    pub(crate) checkpoints: Subkey,
    pub(crate) operator: Subkey,
    pub(crate) passkeys: Subkey,
    pub(crate) requests: Subkey,
    pub(crate) agreements: Subkey,
    pub(crate) sessions: Subkey,
}

/// The index as it was last verified.
struct Seen {
    index: Arc<Index>,
    /// While the store has this mark, the index is what it holds.
    mark: Option<ChangeMark>,
}

impl Vault {
    /// With the sources that are declared beside the store.
    #[must_use]
    pub fn with_router(self, router: Router) -> Self {
        Self { router: Some(router), ..self }
    }

    /// Checks every row against the commitment, now.
    pub async fn check(&self) -> Result<(), Error> {
        self.seen.lock().await.mark = None;
        self.index().await.map(|_| ())
    }

    /// What was agreed to of how long the store stays open, in the words of who keeps it here, by the index's own commitment: it can't
    /// be taken away, nor put back without all of the store. While the vault is locked it is what was verified last.
    pub async fn agreed(&self) -> Result<Option<String>, Error> {
        if !self.is_open() {
            return Ok(self.seen.lock().await.index.agreed.clone());
        }
        Ok(self.index().await?.agreed.clone())
    }

    /// Keeps what `agree` makes of what was agreed to before.
    pub async fn keep_agreed(
        &self,
        entries: Entries<'_, ()>,
        agree: impl FnOnce(Option<&str>) -> String,
    ) -> Result<(), Error> {
        self.mutate(entries, |index| {
            let before = index.agreed.as_deref();
            let agreed = agree(before);
            let is_new = before != Some(agreed.as_str());
            Ok((is_new.then_some(Change::PutAgreed(agreed)).into_iter().collect(), ()))
        })
        .await
    }

    /// Vouches for the audit log; give it to `AuditLog::start` and `audit_verify`.
    pub fn head_sealer(&self) -> Arc<dyn HeadSealer> {
        let Standing { audit_entries, audit_head, audit_keys, audit_segments, .. } = &self.standing;
        Arc::new(AuditKeys {
            entries: audit_entries.clone(),
            head: audit_head.clone(),
            keys: audit_keys.clone(),
            segments: audit_segments.clone(),
        })
    }

    /// The keys that open nothing.
    pub(crate) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// The store below.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The verified index of this moment.
    async fn index(&self) -> Result<Arc<Index>, Error> {
        let key = self.key()?;
        let mut seen = self.seen.lock().await;
        // Before the rows: what is written in between then shows as another mark next time.
        let mark = self.store.change_mark().await?;
        if seen.mark.as_ref() != Some(&mark) {
            let index = Index::verify(&self.store.rows().await?, &key)?;
            seen.refuse_rollback(&index)?;
            *seen = Seen { index: Arc::new(index), mark: Some(mark) };
        }
        Ok(seen.index.clone())
    }
}

impl Standing {
    fn of(key: &VaultKey) -> Self {
        Self {
            audit_entries: key.derive(Purpose::AuditEntries),
            audit_head: key.derive(Purpose::AuditHead),
            audit_keys: key.derive(Purpose::AuditKeys),
            audit_segments: key.derive(Purpose::AuditSegments),
            operator: key.derive(Purpose::Operator),
            agents: key.derive(Purpose::Agents),
            checkpoints: key.derive(Purpose::Checkpoints),
            passkeys: key.derive(Purpose::Passkeys),
            requests: key.derive(Purpose::Requests),
            agreements: key.derive(Purpose::Agreements),
            sessions: key.derive(Purpose::Sessions),
        }
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
        f.debug_struct("Vault").field("store", self.store.place()).finish_non_exhaustive()
    }
}

/// HMACs over the log's ends, its closed parts and its keys, each under a key of its own; and those keys.
struct AuditKeys {
    entries: Subkey,
    head: Subkey,
    keys: Subkey,
    segments: Subkey,
}

impl HeadSealer for AuditKeys {
    fn seal(&self, chain: &str, sequence: u64, entry_hash: &str) -> Vec<u8> {
        let end = [&sequence.to_be_bytes(), entry_hash.as_bytes()];
        if chain.is_empty() {
            return derive_mac(&self.head, &end);
        }
        // No text of a server has a zero byte, so that no two are told as one.
        derive_mac(&self.head, &[end[0], end[1], b"\0", chain.as_bytes()])
    }

    fn seal_segment(&self, text: &str) -> Vec<u8> {
        derive_mac(&self.segments, &[text.as_bytes()])
    }

    fn seal_key(&self, text: &str) -> Vec<u8> {
        derive_mac(&self.keys, &[text.as_bytes()])
    }

    fn entry_key(&self, key: LogKeyId) -> Zeroizing<[u8; KEY_BYTES]> {
        derive(None, &*self.entries, &format!("keyless/v1/{key}"))
    }
}
