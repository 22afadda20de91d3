//! Adds, changes, lists and removes secrets.

use jiff::Timestamp;
use keyless_core::{Binding, Code, Error, SafeText, SecretPath, SecretValue};
use keyless_store::{SecretRow, Store, VersionRow};
use serde::Serialize;
use zeroize::Zeroizing;

use super::{Vault, change::Change};
use crate::{
    index::{Index, Indexed},
    key::Purpose,
    metadata::Metadata,
    seal::{self, Sealed},
    source::{Capability, MAX_VALUE_BYTES, Reading, refused, too_large},
};

/// What may be told of a secret: everything but its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Secret {
    /// Its identity.
    pub path: SecretPath,
    /// Where it may go, what it is called, where it is kept.
    pub metadata: Metadata,
    /// When it was added.
    pub created_at: Timestamp,
    /// When its metadata last changed.
    pub updated_at: Timestamp,
    /// The version in use; none when the value is kept elsewhere or was not set yet.
    pub version: Option<u32>,
    /// When that version was set.
    pub rotated_at: Option<Timestamp>,
}

impl Vault {
    /// Adds a secret, with its first value if it is kept here.
    ///
    /// Fails with [`Code::SecretExists`], [`Code::ValueRefused`] (the value or metadata does not
    /// fit) or [`Code::Usage`] (a value for a source that keeps its own).
    pub async fn add(
        &self,
        path: SecretPath,
        metadata: Metadata,
        value: Option<Zeroizing<Vec<u8>>>,
    ) -> Result<Secret, Error> {
        metadata.check()?;
        let now = Timestamp::now();
        let first = match value {
            None => None,
            Some(value) => Some(self.seal_version(&path, &metadata, value, 1, now)?),
        };
        let row = to_row(&path, &metadata, now, now);
        self.mutate(|index| {
            if index.secrets.contains_key(&path) {
                return Err(Error::with(Code::SecretExists, SafeText::default().and(&path)));
            }
            let version = first.as_ref().map(|row| row.version);
            let rotated_at = first.as_ref().map(|row| row.created_at);
            let mut changes = vec![Change::InsertSecret(row)];
            changes.extend(first.map(Change::InsertVersion));
            let (created_at, updated_at) = (now, now);
            let path = path.clone();
            let added = Secret { path, metadata, created_at, updated_at, version, rotated_at };
            Ok((changes, added))
        })
        .await
    }

    /// Puts a new value in use; the versions before it stay sealed. Gives the new version.
    ///
    /// Fails with [`Code::SecretNotFound`], [`Code::ValueRefused`] or [`Code::Usage`] (the source
    /// keeps its own values).
    pub async fn put(&self, path: &SecretPath, value: Zeroizing<Vec<u8>>) -> Result<u32, Error> {
        let now = Timestamp::now();
        self.mutate(|index| {
            let secret = index.find(path)?;
            let version = secret.next_version()?;
            let row = self.seal_version(path, &secret.metadata, value, version, now)?;
            Ok((vec![Change::InsertVersion(row)], version))
        })
        .await
    }

    /// Puts new metadata in place of the old. A value that is kept here must fit what the metadata
    /// then binds it to, else [`Code::ValueRefused`].
    pub async fn set_metadata(
        &self,
        path: &SecretPath,
        metadata: Metadata,
    ) -> Result<Secret, Error> {
        metadata.check()?;
        let now = Timestamp::now();
        if metadata.binding() == Binding::Destinations {
            self.check_current_value(path).await?;
        }
        self.mutate(|index| {
            let old = index.find(path)?;
            if old.current().is_some() && metadata.source.kind() != old.metadata.source.kind() {
                let words = "a secret with a value in the store keeps its source; add another one";
                return Err(Error::with(Code::Usage, SafeText::words(words)));
            }
            let row = to_row(path, &metadata, old.created_at, now);
            let answer = Secret { metadata, updated_at: now, ..Secret::of(path, old) };
            Ok((vec![Change::UpdateSecret(row)], answer))
        })
        .await
    }

    /// Removes a secret with all its versions, for good.
    pub async fn remove(&self, path: &SecretPath) -> Result<(), Error> {
        self.mutate(|index| {
            index.find(path)?;
            Ok((vec![Change::RemoveSecret(path.clone())], ()))
        })
        .await
    }

    /// Every secret, by path.
    pub async fn list(&self) -> Result<Vec<Secret>, Error> {
        let index = self.index().await?;
        Ok(index.secrets.iter().map(|(path, secret)| Secret::of(path, secret)).collect())
    }

    /// Every secret of a store that is locked, by path: metadata is not sealed. Nothing vouches for
    /// it without the key, so it is for people to read, never to decide on.
    /// [`Code::NotInitialised`] when there is no vault.
    pub async fn list_unverified(store: &Store) -> Result<Vec<Secret>, Error> {
        let rows = store.rows().await?;
        if rows.header.is_none() {
            return Err(Code::NotInitialised.into());
        }
        let index = Index::read_unverified(&rows, 0)?;
        Ok(index.secrets.iter().map(|(path, secret)| Secret::of(path, secret)).collect())
    }

    /// One secret.
    pub async fn show(&self, path: &SecretPath) -> Result<Secret, Error> {
        let index = self.index().await?;
        Ok(Secret::of(path, index.find(path)?))
    }

    fn seal_version(
        &self,
        path: &SecretPath,
        metadata: &Metadata,
        mut value: Zeroizing<Vec<u8>>,
        version: u32,
        now: Timestamp,
    ) -> Result<VersionRow, Error> {
        let kind = metadata.source.kind();
        if !kind.capabilities().contains(&Capability::Write) {
            let words = SafeText::words("the value is kept by the source ").and(kind.as_str());
            return Err(Error::with(Code::Usage, words));
        }
        if value.len() > MAX_VALUE_BYTES {
            return Err(too_large(path));
        }
        let value = std::mem::take(&mut *value);
        let value = SecretValue::new(path.clone(), value, metadata.binding())
            .map_err(|why| refused(path, why))?;
        let label = seal::value_label(path, version);
        let key = self.key.derive(Purpose::Values);
        let Sealed { nonce, ciphertext } = seal::seal(&key, &label, value.expose_for_sealing())?;
        Ok(VersionRow { path: path.clone(), version, nonce, ciphertext, created_at: now })
    }

    /// Fails when the value that is kept here may not be bound to destinations.
    async fn check_current_value(&self, path: &SecretPath) -> Result<(), Error> {
        let index = self.index().await?;
        if index.find(path)?.current().is_none() {
            return Ok(());
        }
        let Reading { value, .. } = self.open(path).await?;
        let copy = value.expose_for_sealing().to_vec();
        SecretValue::new(path.clone(), copy, Binding::Destinations)
            .map(|_| ())
            .map_err(|why| refused(path, why))
    }
}

impl Secret {
    fn of(path: &SecretPath, secret: &Indexed) -> Self {
        Self {
            path: path.clone(),
            metadata: secret.metadata.clone(),
            created_at: secret.created_at,
            updated_at: secret.updated_at,
            version: secret.current().map(|version| version.version),
            rotated_at: secret.current().map(|version| version.created_at),
        }
    }
}

fn to_row(
    path: &SecretPath,
    metadata: &Metadata,
    created_at: Timestamp,
    updated_at: Timestamp,
) -> SecretRow {
    let (format, metadata) = (Metadata::FORMAT, metadata.to_stored());
    SecretRow { path: path.clone(), format, metadata, created_at, updated_at }
}
