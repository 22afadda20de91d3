//! Removed secrets and older versions: kept, restored, purged, and forgotten by age.
//!
//! Removing keeps everything sealed until it is purged; a new value keeps the ones before it. What
//! a secret's retention says goes in the same transaction that puts the next value.
//! Source: reference/secrets.md, 7.4.

use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText, SecretPath};
use serde::Serialize;

use super::{Entries, Secret, Vault, change::Change, secrets::to_row};
use crate::{index::Indexed, metadata::Metadata};

/// One version of a secret's value, without the value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Version {
    /// Its number.
    pub version: u32,
    /// When it was set.
    pub created_at: Timestamp,
    /// Whether it is the one in use.
    pub in_use: bool,
}

impl Vault {
    /// Removes a secret. Its versions stay sealed until [`Vault::purge`].
    pub async fn remove(&self, path: &SecretPath, entries: Entries<'_, ()>) -> Result<(), Error> {
        let now = Timestamp::now();
        self.mutate(entries, |index| {
            let secret = index.find(path)?;
            let mut row = to_row(path, &secret.metadata, secret.created_at, now);
            (row.current, row.removed_at) = (secret.pinned, Some(now));
            Ok((vec![Change::UpdateSecret(row)], ()))
        })
        .await
    }

    /// Brings a removed secret back, or puts an older version in use, or both.
    ///
    /// Fails with [`Code::SecretNotFound`], [`Code::SecretVersionUnknown`], [`Code::SecretCompromised`] (that version must
    /// not be used any more) or [`Code::StateUnfit`] (nothing would change).
    pub async fn restore(
        &self,
        path: &SecretPath,
        version: Option<u32>,
        entries: Entries<'_, Secret>,
    ) -> Result<Secret, Error> {
        let now = Timestamp::now();
        self.mutate(entries, |index| {
            let secret = index.find_even_removed(path)?;
            if let Some(version) = version {
                find_version(path, secret, version)?;
                if secret.metadata.compromises(Some(version)) {
                    let words = SafeText::words("version ").and(version).and(" of ").and(path);
                    let words = words
                        .and(": every use of it would be refused; give the secret a new value");
                    return Err(Error::with(Code::SecretCompromised, words));
                }
            }
            let pinned = version.or(secret.pinned);
            if secret.removed_at.is_none() && pinned == secret.current().map(|v| v.version) {
                let words = "it is there, with that version in use; name another --version";
                return Err(Error::with(Code::StateUnfit, SafeText::words(words)));
            }
            let mut row = to_row(path, &secret.metadata, secret.created_at, now);
            row.current = pinned;
            let restored = Indexed {
                metadata: secret.metadata.clone(),
                created_at: secret.created_at,
                updated_at: now,
                pinned,
                removed_at: None,
                versions: secret.versions.clone(),
            };
            Ok((vec![Change::UpdateSecret(row)], Secret::of(path, &restored)))
        })
        .await
    }

    /// Removes a secret with all its versions, or one version that is not in use, for good.
    pub async fn purge(
        &self,
        path: &SecretPath,
        version: Option<u32>,
        entries: Entries<'_, ()>,
    ) -> Result<(), Error> {
        self.mutate(entries, |index| {
            let secret = index.find_even_removed(path)?;
            let Some(version) = version else {
                return Ok((vec![Change::RemoveSecret(path.clone())], ()));
            };
            find_version(path, secret, version)?;
            if secret.current().is_some_and(|current| current.version == version) {
                let words = "that version is in use; rotate or restore another one first";
                return Err(Error::with(Code::StateUnfit, SafeText::words(words)));
            }
            let mut changes = vec![Change::RemoveVersion(path.clone(), version)];
            // The log tells versions by their numbers: this one's is not the next one's.
            if secret.versions.last().is_some_and(|newest| newest.version == version) {
                let metadata = Metadata { purged_through: version, ..secret.metadata.clone() };
                let mut row = to_row(path, &metadata, secret.created_at, secret.updated_at);
                (row.current, row.removed_at) = (secret.pinned, secret.removed_at);
                changes.push(Change::UpdateSecret(row));
            }
            Ok((changes, ()))
        })
        .await
    }

    /// The versions of a secret, oldest first, also of one that was removed.
    pub async fn versions(&self, path: &SecretPath) -> Result<Vec<Version>, Error> {
        let index = self.index().await?;
        let secret = index.find_even_removed(path)?;
        let in_use = secret.current().map(|current| current.version);
        let version = |version: &crate::index::IndexedVersion| Version {
            version: version.version,
            created_at: version.created_at,
            in_use: in_use == Some(version.version),
        };
        Ok(secret.versions.iter().map(version).collect())
    }

    /// The removed secrets that can be restored, and when they were removed.
    pub async fn removed(&self) -> Result<Vec<(SecretPath, Timestamp)>, Error> {
        let index = self.index().await?;
        let removed = |(path, secret): (&SecretPath, &Indexed)| {
            secret.removed_at.map(|at| (path.clone(), at))
        };
        Ok(index.secrets.iter().filter_map(removed).collect())
    }
}

/// The versions that a secret's retention lets go once another value is in use at `now`, oldest first.
pub(super) fn outlived(secret: &Indexed, now: Timestamp) -> Vec<u32> {
    let retention = secret.metadata.retention;
    // The one that is put now is kept as well, and is the first of those to keep.
    let beyond = retention.keep_versions.map_or(0, |keep| {
        (secret.versions.len() + 1)
            .saturating_sub(usize::try_from(keep.get()).unwrap_or(usize::MAX))
    });
    let by_number = secret.versions.iter().take(beyond);
    let by_age = secret.versions.iter().skip(beyond).filter(|version| {
        let days = |days: std::num::NonZeroU32| i64::from(days.get()) * 24 * 3600;
        let age = now.as_second() - version.created_at.as_second();
        retention.keep_days.is_some_and(|keep| age > days(keep))
    });
    by_number.chain(by_age).map(|version| version.version).collect()
}

fn find_version(path: &SecretPath, secret: &Indexed, version: u32) -> Result<(), Error> {
    if secret.versions.iter().any(|known| known.version == version) {
        return Ok(());
    }
    let words = SafeText::default().and(path).and(" has no version ").number(version.into());
    Err(Error::with(Code::SecretVersionUnknown, words))
}
