//! Makes a vault, unlocks one, and changes what unlocks it.

use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText};
use keyless_store::{HeaderRow, Rows, Store, StoreError};
use tokio::{sync::Mutex, task::spawn_blocking};

use super::{
    Seen, Standing, Vault,
    at_source::AtSources,
    locking::{KeyPlace, LastUse, Reopening},
};
use crate::{
    envelope::{self, EnvelopeKind, Factor, KdfCost, Passphrase, RecoveryPhrase},
    index::{FORMAT, Index},
    key::VaultKey,
};

impl Vault {
    /// Makes the vault of `store`. The recovery phrase is shown to the operator once and is
    /// nowhere else. Takes about 250 ms of one core.
    ///
    /// Fails with [`Code::PassphraseWeak`] (a passphrase under 12 characters) or
    /// [`Code::AlreadyInitialised`].
    pub async fn create(
        store: Store,
        passphrase: Passphrase,
    ) -> Result<(Self, RecoveryPhrase), Error> {
        Self::create_with(store, passphrase, KdfCost::STANDARD).await
    }

    /// [`Vault::create`] with another cost of guessing.
    pub async fn create_with(
        store: Store,
        passphrase: Passphrase,
        cost: KdfCost,
    ) -> Result<(Self, RecoveryPhrase), Error> {
        passphrase.check_strength()?;
        let rows = store.rows().await?;
        if rows.header.is_some() {
            return Err(Code::AlreadyInitialised.into());
        }
        let now = Timestamp::now();
        let phrase = RecoveryPhrase::generate()?;
        let (key, phrase, envelopes) = blocking(move || {
            let key = VaultKey::generate()?;
            let by_passphrase = envelope::for_passphrase(&key, &passphrase, cost, now)?;
            let by_words = envelope::for_recovery(&key, &phrase, now)?;
            Ok((key, phrase, [by_passphrase, by_words]))
        })
        .await?;
        let vault = Self::around(store, key, Index::default());
        let header = HeaderRow { format: FORMAT, created_at: now, agreed: None };
        vault.put_first_rows(&header, envelopes).await?;
        Ok((vault, phrase))
    }

    /// Opens the vault of `store` and checks it. Takes about 250 ms of one core.
    ///
    /// Fails with [`Code::NotInitialised`], [`Code::StoreTampered`] or, when the factor is not the one,
    /// [`Code::WrongPassphrase`], [`Code::WrongRecoveryPhrase`] or [`Code::WrongFactor`].
    pub async fn unlock(store: Store, factor: Factor) -> Result<Self, Error> {
        let rows = store.rows().await?;
        check_header(&rows)?;
        let kind = factor.kind().as_str();
        let Some(row) = rows.envelopes.iter().find(|row| row.kind == kind).cloned() else {
            return Err(missing(factor.kind()));
        };
        let key = blocking(move || factor.open(&row)).await?;
        let index = Index::verify(&rows, &key)?;
        Ok(Self::around(store, key, index))
    }

    fn around(store: Store, key: VaultKey, index: Index) -> Self {
        Self {
            store,
            standing: Standing::of(&key),
            key: KeyPlace::of(key),
            seen: Mutex::new(Seen { index: index.into(), mark: None }),
            router: None,
            reopening: Reopening::default(),
            last_use: LastUse::default(),
            at_sources: AtSources::default(),
        }
    }

    async fn put_first_rows(
        &self,
        header: &HeaderRow,
        envelopes: [keyless_store::EnvelopeRow; 2],
    ) -> Result<(), Error> {
        let mut writing = self.store.write().await?;
        writing.insert_header(header).await.map_err(|error| match error {
            // Another `init` was faster.
            StoreError::Taken(_) => Code::AlreadyInitialised.into(),
            error => Error::from(error),
        })?;
        for row in &envelopes {
            writing.put_envelope(row).await?;
        }
        writing.seal_audit_head(&*self.head_sealer()).await?;
        self.commit(writing, 1).await
    }
}

/// The passphrase and the phrase are made with the store; the others are there if somebody put them.
fn missing(kind: EnvelopeKind) -> Error {
    let words = SafeText::words("this store has no ").and(kind.as_str());
    Error::with(Code::WrongFactor, words.and("; keyless vault envelope list shows what opens it"))
}

fn check_header(rows: &Rows) -> Result<(), Error> {
    match &rows.header {
        None => {
            let words = "the store has no vault yet; keyless init was interrupted";
            Err(Error::with(Code::NotInitialised, SafeText::words(words)))
        }
        Some(header) if header.format > FORMAT => {
            Err(Error::with(Code::KeylessOutdated, SafeText::words("the vault")))
        }
        Some(_) => Ok(()),
    }
}

/// Runs slow work off the runtime's threads.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(work).await.map_err(|_| Error::from(Code::Internal))?
}
