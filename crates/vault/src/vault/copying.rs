//! Copies the vault's secrets out, and takes a copy in.
//!
//! A copy is taken in as a whole, in one transaction, or not at all. A secret that is here and is not the same stays as
//! it is unless the operator says otherwise, and even then its value is the newest version, before which
//! the others stay.

use jiff::Timestamp;
use keyless_core::{Binding, Code, Error, SafeText, SecretPath, SecretValue};
use keyless_store::{Rows, SecretRow, VersionRow};
use serde::Serialize;
use zeroize::Zeroizing;

use super::{Vault, change::Change, secrets::to_row};
use crate::{
    backup::{Backup, BackupRecipients, CopiedSecret, CopiedVersion, Document, Opened},
    index::Indexed,
    key::Purpose,
    seal,
    source::{LocalSource, Source, refused},
};

/// A secret on its way in.
type Incoming = CopiedSecret<Zeroizing<Vec<u8>>>;

/// What becomes of a secret that is here and is not the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// It stays.
    Keep,
    /// Nothing is taken in, and the conflicts are told.
    Refuse,
    /// It takes over what the copy says; its own value becomes an older version.
    Replace,
}

/// What became of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// New here, with all their versions.
    pub added: Vec<SecretPath>,
    /// Here before, and not the same; left alone.
    pub kept: Vec<SecretPath>,
    /// Here before, and now as the copy has them.
    pub replaced: Vec<SecretPath>,
    /// Here before, and the same.
    pub same: Vec<SecretPath>,
}

impl Vault {
    /// Every secret with every version, removed ones included, encrypted to these keys. Values that are kept elsewhere
    /// stay there.
    pub async fn export(&self, to: &BackupRecipients) -> Result<Vec<u8>, Error> {
        let index = self.index().await?;
        let mut secrets = Vec::with_capacity(index.secrets.len());
        for (path, secret) in &index.secrets {
            secrets.push(self.copied(path, secret).await?);
        }
        to.encrypt(&Document::new(secrets, Timestamp::now()))
    }

    /// Takes a copy in. [`Code::SecretExists`] names what is here and not the same, where that is refused.
    pub async fn import(&self, backup: Backup, conflicts: Conflicts) -> Result<Imported, Error> {
        for secret in &backup.0.secrets {
            check_fit(secret)?;
        }
        let rows = self.store.rows().await?;
        self.mutate(|index| {
            let mut imported = Imported::default();
            let mut changes = Vec::new();
            let mut differ = Vec::new();
            for secret in backup.0.secrets {
                let path = secret.path.clone();
                match index.secrets.get(&path) {
                    None => {
                        changes.extend(self.added(secret)?);
                        imported.added.push(path);
                    }
                    Some(there) if self.is_same(there, &rows, &secret)? => imported.same.push(path),
                    Some(there) => match conflicts {
                        Conflicts::Keep => imported.kept.push(path),
                        Conflicts::Refuse => differ.push(path),
                        Conflicts::Replace => {
                            changes.extend(self.replaced(there, &rows, &secret)?);
                            imported.replaced.push(path);
                        }
                    },
                }
            }
            if differ.is_empty() { Ok((changes, imported)) } else { Err(in_the_way(&differ)) }
        })
        .await
    }

    async fn copied(
        &self,
        path: &SecretPath,
        secret: &Indexed,
    ) -> Result<CopiedSecret<Opened>, Error> {
        let (store, key) = (&self.store, &*self.key()?);
        let mut versions = Vec::with_capacity(secret.versions.len());
        for version in &secret.versions {
            let source = LocalSource { store, key, current: Some(version) };
            let value = Opened(source.read(path, Binding::None).await?.value);
            let (version, created_at) = (version.version, version.created_at);
            versions.push(CopiedVersion { version, created_at, value });
        }
        Ok(CopiedSecret {
            path: path.clone(),
            metadata: secret.metadata.clone(),
            created_at: secret.created_at,
            updated_at: secret.updated_at,
            in_use: secret.pinned,
            removed_at: secret.removed_at,
            versions,
        })
    }

    fn added(&self, secret: Incoming) -> Result<Vec<Change>, Error> {
        let mut row = to_row(&secret.path, &secret.metadata, secret.created_at, secret.updated_at);
        (row.current, row.removed_at) = (secret.in_use, secret.removed_at);
        let mut changes = vec![Change::InsertSecret(row)];
        for CopiedVersion { version, created_at, value } in secret.versions {
            let row = self.sealed_row(&value_of(&secret.path, &value)?, version, created_at)?;
            changes.push(Change::InsertVersion(row));
        }
        Ok(changes)
    }

    fn replaced(
        &self,
        there: &Indexed,
        rows: &Rows,
        secret: &Incoming,
    ) -> Result<Vec<Change>, Error> {
        let path = &secret.path;
        if there.current().is_some() && secret.metadata.source != there.metadata.source {
            let words = SafeText::default().and(path);
            let words = words.and(
                " has a value here and is kept elsewhere in the copy; remove and purge it first",
            );
            return Err(Error::with(Code::Usage, words));
        }
        if there.metadata.compromised.is_some() || secret.metadata.compromised.is_some() {
            let words = SafeText::default().and(path);
            let words = words.and(
                " was compromised, and the copy may hold the value that others know; rotate it",
            );
            return Err(Error::with(Code::Usage, words));
        }
        let now = Timestamp::now();
        let mut row: SecretRow = to_row(path, &secret.metadata, there.created_at, now);
        row.removed_at = secret.removed_at;
        let (mut changes, mut pinned) = (Vec::new(), there.pinned);
        if let Some(current) = secret.current()
            && !self.has_value(there, rows, path, &current.value)?
        {
            let version = there.next_version()?;
            let value = value_of(path, &current.value)?;
            changes.push(Change::InsertVersion(self.sealed_row(&value, version, now)?));
            pinned = None;
        }
        row.current = pinned;
        changes.insert(0, Change::UpdateSecret(row));
        Ok(changes)
    }

    fn is_same(&self, there: &Indexed, rows: &Rows, secret: &Incoming) -> Result<bool, Error> {
        let numbers = there.versions.iter().map(|version| version.version);
        let alike = there.metadata == secret.metadata
            && there.current().map(|version| version.version)
                == secret.current().map(|version| version.version)
            && there.removed_at.is_some() == secret.removed_at.is_some()
            && numbers.eq(secret.versions.iter().map(|version| version.version));
        if !alike {
            return Ok(false);
        }
        for (version, copied) in there.versions.iter().zip(&secret.versions) {
            let row = rows.versions.iter().find(|row| row.path == secret.path && version.fits(row));
            if !self.holds(row, &copied.value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_value(
        &self,
        there: &Indexed,
        rows: &Rows,
        path: &SecretPath,
        value: &[u8],
    ) -> Result<bool, Error> {
        let Some(current) = there.current() else { return Ok(false) };
        self.holds(rows.versions.iter().find(|row| row.path == *path && current.fits(row)), value)
    }

    /// Whether a row of the store is this value, sealed. One that was written since it was looked at is not.
    fn holds(&self, row: Option<&VersionRow>, value: &[u8]) -> Result<bool, Error> {
        let Some(row) = row else { return Ok(false) };
        let label = seal::value_label(&row.path, row.version);
        let key = self.key()?.derive(Purpose::Values);
        let opened = seal::open(&key, &label, &row.nonce, &row.ciphertext);
        let opened = opened.map(Zeroizing::new).map_err(|_| Error::from(Code::StoreTampered))?;
        Ok(*opened == value)
    }
}

/// What a copy says has to fit as if it were typed here.
fn check_fit(secret: &Incoming) -> Result<(), Error> {
    secret.metadata.check()?;
    let Some(current) = secret.current() else { return Ok(()) };
    let binding = secret.metadata.binding();
    SecretValue::new(secret.path.clone(), current.value.to_vec(), binding)
        .map(drop)
        .map_err(|why| refused(&secret.path, why))
}

fn value_of(path: &SecretPath, value: &[u8]) -> Result<SecretValue, Error> {
    let value = SecretValue::new(path.clone(), value.to_vec(), Binding::None);
    value.map_err(|why| refused(path, why))
}

fn in_the_way(differ: &[SecretPath]) -> Error {
    let mut words =
        SafeText::words("nothing was taken in, since these are here and not the same: ");
    for (at, path) in differ.iter().enumerate().take(20) {
        words = if at == 0 { words.and(path) } else { words.and(", ").and(path) };
    }
    if differ.len() > 20 {
        words = words.and(" and ").and(differ.len() - 20).and(" more");
    }
    Error::with(Code::SecretExists, words)
}
