//! What opens the store: listed, added, changed, removed; never the last.

use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText};
use keyless_store::{EnvelopeRow, Store};
use serde::Serialize;

use super::{Entries, Vault, birth::blocking, change::Change, entries::settle};
use crate::{
    envelope::{
        self, EnvelopeKind, KdfCost, Keyfile, MachineBinding, Passphrase, RecoveryPhrase, TotpGate,
        TotpSecret,
    },
    key::VaultKey,
};

/// One envelope, without the key in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Envelope {
    /// What it is for: `passphrase`, `recovery`, `keyfile` or `totp`.
    pub kind: String,
    /// Since when.
    pub created_at: Timestamp,
    /// For key files: whether they open the store on one machine alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<MachineBinding>,
}

impl Vault {
    /// What opens the store.
    pub async fn envelopes(&self) -> Result<Vec<Envelope>, Error> {
        self.check().await?;
        Self::envelopes_unverified(&self.store).await
    }

    /// What opens the store, read without a key: nothing vouches for it. [`Code::NotInitialised`] when there is no
    /// vault.
    pub async fn envelopes_unverified(store: &Store) -> Result<Vec<Envelope>, Error> {
        let rows = store.envelopes().await?.ok_or(Code::NotInitialised)?;
        let envelope = |row: EnvelopeRow| {
            let is_keyfile = row.kind == EnvelopeKind::Keyfile.as_str();
            let binding = is_keyfile.then(|| envelope::machine_binding(&row)).transpose()?;
            Ok(Envelope { kind: row.kind, created_at: row.created_at, binding })
        };
        rows.into_iter().map(envelope).collect()
    }

    /// Puts a new passphrase in place of the old one. The other factors stay.
    pub async fn change_passphrase(
        &self,
        passphrase: Passphrase,
        entries: Entries<'_, ()>,
    ) -> Result<(), Error> {
        self.change_passphrase_with(passphrase, KdfCost::STANDARD, entries).await
    }

    /// [`Vault::change_passphrase`] with another cost of guessing.
    pub async fn change_passphrase_with(
        &self,
        passphrase: Passphrase,
        cost: KdfCost,
        entries: Entries<'_, ()>,
    ) -> Result<(), Error> {
        passphrase.check_strength()?;
        let now = Timestamp::now();
        let key = self.copied_key()?;
        let row = blocking(move || envelope::for_passphrase(&key, &passphrase, cost, now)).await?;
        self.put_envelope(row, entries).await
    }

    /// Puts a fresh recovery phrase in place of the old one, which opens nothing from now on. Shown
    /// to the operator once; `write_down` is called before anything changes, and stops it.
    pub async fn change_recovery(
        &self,
        write_down: impl FnOnce(&RecoveryPhrase) -> Result<(), Error>,
        entries: Entries<'_, ()>,
    ) -> Result<(), Error> {
        let phrase = RecoveryPhrase::generate()?;
        write_down(&phrase)?;
        let row = envelope::for_recovery(&*self.key()?, &phrase, Timestamp::now())?;
        self.put_envelope(row, entries).await
    }

    /// Lets a key file open the store, in place of the one before it.
    pub async fn put_keyfile(
        &self,
        file: &Keyfile,
        binding: MachineBinding,
        entries: Entries<'_, ()>,
    ) -> Result<(), Error> {
        let row = envelope::for_keyfile(&*self.key()?, file, binding, Timestamp::now())?;
        self.put_envelope(row, entries).await
    }

    /// Enrols an authenticator app, in place of the one before it. `enrol` shows the secret to the
    /// operator before anything changes, and stops it.
    pub async fn put_totp(
        &self,
        enrol: impl FnOnce(&TotpSecret) -> Result<(), Error>,
        entries: Entries<'_, ()>,
    ) -> Result<(), Error> {
        let secret = TotpSecret::generate()?;
        enrol(&secret)?;
        let row = envelope::for_totp(&*self.key()?, &secret, Timestamp::now())?;
        self.put_envelope(row, entries).await?;
        // Its first code is known to be good: none was used.
        let gate = TotpGate::told_at_enrolment(&secret);
        loop {
            let told = self.store.code_gate().await?;
            if self.store.replace_code_gate(told.as_deref(), &gate).await? {
                return Ok(());
            }
        }
    }

    /// The secret of the authenticator app's codes, to reopen the store after it has locked
    /// itself; none when no app was enrolled.
    pub async fn totp_secret(&self) -> Result<Option<TotpSecret>, Error> {
        self.check().await?;
        let rows = self.store.rows().await?.envelopes;
        let row = rows.iter().find(|row| row.kind == EnvelopeKind::Totp.as_str());
        let key = self.key()?;
        row.map(|row| envelope::totp_secret(row, &key)).transpose()
    }

    /// Removes what opens the store by `kind`. [`Code::LastEnvelope`] when nothing else could open
    /// it from cold, [`Code::StateUnfit`] when there is none of the kind.
    pub async fn remove_envelope(
        &self,
        kind: EnvelopeKind,
        entries: Entries<'_, ()>,
    ) -> Result<(), Error> {
        settle(entries.log()).await?;
        let mut writing = self.store.write().await?;
        // Read under the write lock, so that two hands can't take one each of the last two.
        let rows = writing.rows().await?;
        let index = crate::index::Index::verify(&rows, &*self.key()?)?;
        let there = |row: &&EnvelopeRow| row.kind == kind.as_str();
        if !rows.envelopes.iter().any(|row| there(&row)) {
            let words = SafeText::words("there is no envelope of kind ").and(kind.as_str());
            return Err(Error::with(Code::StateUnfit, words));
        }
        let cold = rows.envelopes.iter().filter(|row| !there(row));
        let mut cold = cold.filter_map(|row| EnvelopeKind::parse(&row.kind));
        if kind.is_cold_start() && !cold.any(EnvelopeKind::is_cold_start) {
            return Err(Code::LastEnvelope.into());
        }
        writing.remove_envelope(kind.as_str()).await?;
        entries.write(&mut writing, &()).await?;
        let generation = index.generation.checked_add(1).ok_or(Code::Internal)?;
        self.commit(writing, generation).await
    }

    async fn put_envelope(&self, row: EnvelopeRow, entries: Entries<'_, ()>) -> Result<(), Error> {
        self.mutate(entries, |_| Ok((vec![Change::PutEnvelope(row)], ()))).await
    }

    fn copied_key(&self) -> Result<VaultKey, Error> {
        VaultKey::from_bytes(self.key()?.expose_for_wrapping().to_vec())
    }
}
