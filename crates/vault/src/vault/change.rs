//! Carries out a mutation: lock, verify, plan, write, commit to the new rows.

use keyless_core::{Code, Error, SecretPath};
use keyless_store::{EnvelopeRow, SecretRow, VersionRow, Writing};

use super::{Entries, Vault, entries::settle};
use crate::index::{Index, commit_to};

/// One step of a mutation.
pub(super) enum Change {
    InsertSecret(SecretRow),
    InsertVersion(VersionRow),
    PutAgreed(String),
    PutEnvelope(EnvelopeRow),
    RemoveSecret(SecretPath),
    RemoveVersion(SecretPath, u32),
    UpdateSecret(SecretRow),
}

impl Vault {
    /// Does what `plan` says about the index as it is under the write lock. All of it is on disk
    /// when this returns, with the entries that tell of it, or nothing. A plan without changes writes nothing.
    pub(super) async fn mutate<T>(
        &self,
        entries: Entries<'_, T>,
        plan: impl FnOnce(&Index) -> Result<(Vec<Change>, T), Error>,
    ) -> Result<T, Error> {
        settle(entries.log()).await?;
        let key = self.key()?;
        let mut writing = self.store.write().await?;
        let index = Index::verify(&writing.rows().await?, &key)?;
        self.seen.lock().await.refuse_rollback(&index)?;
        let (changes, answer) = plan(&index)?;
        if changes.is_empty() {
            return Ok(answer);
        }
        for change in changes {
            carry_out(&mut writing, change).await?;
        }
        entries.write(&mut writing, &answer).await?;
        let generation = index.generation.checked_add(1).ok_or(Code::Internal)?;
        self.commit(writing, generation).await?;
        Ok(answer)
    }

    /// Commits to the rows as they now are, and makes them durable.
    pub(super) async fn commit(&self, mut writing: Writing, generation: u64) -> Result<(), Error> {
        let commitment = commit_to(&writing.rows().await?, generation, &*self.key()?);
        writing.put_commitment(&commitment).await?;
        Ok(writing.commit().await?)
    }
}

async fn carry_out(writing: &mut Writing, change: Change) -> Result<(), Error> {
    let done = match change {
        Change::InsertSecret(row) => writing.insert_secret(&row).await,
        Change::InsertVersion(row) => writing.insert_version(&row).await,
        Change::PutAgreed(agreed) => writing.put_agreed(&agreed).await,
        Change::PutEnvelope(row) => writing.put_envelope(&row).await,
        Change::RemoveVersion(path, version) => writing.remove_version(&path, version).await,
        Change::RemoveSecret(path) => writing.remove_secret(&path).await,
        Change::UpdateSecret(row) => writing.update_secret(&row).await,
    };
    Ok(done?)
}
