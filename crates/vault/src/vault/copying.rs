//! Copies the vault's secrets out, and takes a copy in.
//!
//! A copy is taken in as a whole, in one transaction, or not at all. A secret that is here and is not the same stays as
//! it is unless the operator says otherwise. Who can write to the public key of a copy can make one, so a copy
//! proves no author: what replaces a secret brings its own values, and none of ours goes where the copy says.

use jiff::Timestamp;
use keyless_core::{Binding, Code, Error, SafeText, SecretPath, SecretValue};
use keyless_store::{Rows, VersionRow};
use serde::Serialize;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::{Entries, Vault, change::Change, secrets::to_row};
use crate::{
    backup::{Backup, BackupRecipients, CopiedSecret, CopiedVersion, Document, Opened},
    index::Indexed,
    key::Purpose,
    metadata::{Metadata, SourceConfig},
    seal,
    source::{LocalSource, Source, refused},
};

/// A secret on its way in.
type Incoming = CopiedSecret<Zeroizing<Vec<u8>>>;

/// What becomes of a secret that is here and is not the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// The secret here stays.
    Keep,
    /// Nothing is taken in, and the conflicts are told.
    Refuse,
    /// It becomes what the copy says, with the copy's values alone; its own are purged.
    Replace,
}

/// What a copy would make of a secret that is here and is not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The secret's path.
    pub path: SecretPath,
    /// What is said of it here.
    pub before: Metadata,
    /// What the copy says.
    pub after: Metadata,
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
    /// The versions that are in use of those that were replaced, where they are not removed.
    #[serde(skip)]
    pub in_force: Vec<(SecretPath, u32)>,
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

    /// What [`Conflicts::Replace`] would replace, by path, for the operator to look at first.
    pub async fn replacements(&self, backup: &Backup) -> Result<Vec<Replacement>, Error> {
        let rows = self.store.rows().await?;
        let index = self.index().await?;
        let mut replacements = Vec::new();
        for secret in &backup.0.secrets {
            let Some(there) = index.secrets.get(&secret.path) else { continue };
            if !self.is_same(there, &rows, secret)? {
                let (before, after) = (there.metadata.clone(), secret.metadata.clone());
                replacements.push(Replacement { path: secret.path.clone(), before, after });
            }
        }
        replacements.sort_by(|one, next| one.path.cmp(&next.path));
        Ok(replacements)
    }

    /// What a copy would have read from this machine, or with its credentials, for the operator to look at first: such
    /// secrets bring no value, and say where one of ours lies. By path; without those that stay as they are.
    pub async fn borrowing(
        &self,
        backup: &Backup,
        conflicts: Conflicts,
    ) -> Result<Vec<(SecretPath, Metadata)>, Error> {
        let index = self.index().await?;
        let comes_in = |secret: &&Incoming| match index.secrets.get(&secret.path) {
            None => true,
            Some(there) => conflicts == Conflicts::Replace && there.metadata != secret.metadata,
        };
        let borrowing = backup.0.secrets.iter().filter(comes_in);
        let borrowing = borrowing.filter(|it| it.metadata.source != SourceConfig::Local);
        let mut borrowing: Vec<_> =
            borrowing.map(|secret| (secret.path.clone(), secret.metadata.clone())).collect();
        borrowing.sort_by(|one, next| one.0.cmp(&next.0));
        Ok(borrowing)
    }

    /// Takes a copy in. [`Code::CopyDiffers`] names what is here and not the same, where that is refused.
    pub async fn import(
        &self,
        backup: Backup,
        conflicts: Conflicts,
        entries: Entries<'_, Imported>,
    ) -> Result<Imported, Error> {
        for secret in &backup.0.secrets {
            check_fit(secret)?;
        }
        let rows = self.store.rows().await?;
        self.mutate(entries, |index| {
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
                            let (replacing, in_force) = self.replaced(there, &secret)?;
                            changes.extend(replacing);
                            imported
                                .in_force
                                .extend(in_force.map(|version| (path.clone(), version)));
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

    /// The secret as the copy has it. Versions are numbered on after ours, so that no number ever meant two values.
    /// How it is replaced, and the version that is in use then, unless the copy has it as removed.
    fn replaced(
        &self,
        there: &Indexed,
        secret: &Incoming,
    ) -> Result<(Vec<Change>, Option<u32>), Error> {
        let path = &secret.path;
        check_replaces(there, secret)?;
        let mut row = to_row(path, &secret.metadata, there.created_at, Timestamp::now());
        row.removed_at = secret.removed_at;
        let ours = there.versions.iter();
        let mut changes: Vec<Change> =
            ours.map(|version| Change::RemoveVersion(path.clone(), version.version)).collect();
        let mut number = there.next_version()?;
        for CopiedVersion { version, created_at, value } in &secret.versions {
            let sealed = self.sealed_row(&value_of(path, value)?, number, *created_at)?;
            changes.push(Change::InsertVersion(sealed));
            if secret.in_use == Some(*version) {
                row.current = Some(number);
            }
            number = number.checked_add(1).ok_or(Code::Internal)?;
        }
        let latest = (!secret.versions.is_empty()).then_some(number - 1);
        let in_use = row.current.or(latest).filter(|_| row.removed_at.is_none());
        changes.push(Change::UpdateSecret(row));
        Ok((changes, in_use))
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

    /// Whether a row of the store is this value, sealed. One that was written since it was looked at is not.
    pub(super) fn holds(&self, row: Option<&VersionRow>, value: &[u8]) -> Result<bool, Error> {
        let Some(row) = row else { return Ok(false) };
        let label = seal::value_label(&row.path, row.version);
        let key = self.key()?.derive(Purpose::Values);
        let opened = seal::open(&key, &label, &row.nonce, &row.ciphertext);
        let opened = opened.map(Zeroizing::new).map_err(|_| Error::from(Code::StoreTampered))?;
        Ok(opened.ct_eq(value).into())
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

/// What replaces a secret that has a value brings its own. A value of ours, or one that another source keeps for us,
/// would else go where the copy says.
fn check_replaces(there: &Indexed, secret: &Incoming) -> Result<(), Error> {
    let refused = |why| {
        let words = SafeText::default().and(&secret.path).and(why);
        Err(Error::with(Code::StateUnfit, words))
    };
    let (ours, theirs) = (&there.metadata, &secret.metadata);
    let has_value = !there.versions.is_empty() || ours.source != SourceConfig::Local;
    let brings_its_own = !secret.versions.is_empty() && theirs.source == SourceConfig::Local;
    if !there.versions.is_empty() && theirs.source != ours.source {
        return refused(
            " has a value here and is kept elsewhere in the copy; remove and purge it first",
        );
    }
    if has_value && !brings_its_own {
        return refused(
            " has a value here and none in the copy, which can't say where ours may go; remove and purge it first",
        );
    }
    if ours.compromised.is_some() || theirs.compromised.is_some() {
        return refused(
            " was compromised, and the copy may hold the value that others know; rotate it",
        );
    }
    Ok(())
}

fn value_of(path: &SecretPath, value: &[u8]) -> Result<SecretValue, Error> {
    let value = SecretValue::new(path.clone(), value.to_vec(), Binding::None);
    value.map_err(|why| refused(path, why))
}

fn in_the_way(differ: &[SecretPath]) -> Error {
    let mut words = SafeText::words("these are here and not the same: ");
    for (at, path) in differ.iter().enumerate().take(20) {
        words = if at == 0 { words.and(path) } else { words.and(", ").and(path) };
    }
    if differ.len() > 20 {
        words = words.and(" and ").and(differ.len() - 20).and(" more");
    }
    Error::with(Code::CopyDiffers, words)
}
