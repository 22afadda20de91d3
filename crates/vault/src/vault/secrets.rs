//! Adds, changes, lists and removes secrets.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use jiff::{Timestamp, tz::TimeZone};
use keyless_core::{Binding, Code, Error, SafeText, SecretPath, SecretValue, grant::Categories};
use keyless_store::{SecretRow, Store, VersionRow};
use serde::Serialize;
use zeroize::Zeroizing;

use super::{Entries, Vault, change::Change, versions::outlived};
use crate::{
    index::{Index, Indexed},
    key::Purpose,
    metadata::{Compromise, Metadata, SourceConfig},
    providers::{FormatVerdict, judge_format},
    router::Put,
    seal::{self, Sealed},
    source::{Capability, MAX_VALUE_BYTES, Reading, SourceKind, refused, too_large},
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

/// What a follower of the secrets saw last; nothing at first.
#[derive(Debug, Default)]
pub struct Looked(Weak<Index>);

/// A secret that is to be added.
pub struct NewSecret {
    /// Its identity.
    pub path: SecretPath,
    /// What is said of it.
    pub metadata: Metadata,
    /// Its first value, if it is kept here.
    pub value: Option<Zeroizing<Vec<u8>>>,
}

impl Secret {
    /// Whether it has no value yet. What another source keeps may be there.
    pub fn lacks_value(&self) -> bool {
        self.version.is_none() && self.metadata.source == SourceConfig::Local
    }
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
        entries: Entries<'_, Vec<Result<Secret, Error>>>,
    ) -> Result<Secret, Error> {
        let added = self.add_all(vec![NewSecret { path, metadata, value }], entries).await?;
        added.into_iter().next().unwrap_or_else(|| Err(Code::Internal.into()))
    }

    /// Adds many secrets as [`Vault::add`] does, in one mutation: each one costs a look at all rows. Says of each one in
    /// turn whether it was taken; those that were are durable together, and when this fails none is there.
    pub async fn add_all(
        &self,
        new: Vec<NewSecret>,
        entries: Entries<'_, Vec<Result<Secret, Error>>>,
    ) -> Result<Vec<Result<Secret, Error>>, Error> {
        let now = Timestamp::now();
        let sealed: Vec<_> = new.into_iter().map(|one| self.sealed_first(one, now)).collect();
        self.mutate(entries, |index| {
            let mut changes = Vec::new();
            let mut taken = BTreeSet::new();
            let mut added = Vec::with_capacity(sealed.len());
            for one in sealed {
                let fits = one.and_then(|(secret, first)| {
                    refuse_known(index, &secret.path)?;
                    if !taken.insert(secret.path.clone()) {
                        let words = SafeText::default().and(&secret.path);
                        return Err(Error::with(Code::SecretExists, words));
                    }
                    let row = to_row(&secret.path, &secret.metadata, now, now);
                    changes.push(Change::InsertSecret(row));
                    changes.extend(first.map(Change::InsertVersion));
                    Ok(secret)
                });
                added.push(fits);
            }
            Ok((changes, added))
        })
        .await
    }

    /// Puts a new value in use; the versions before it stay sealed as long as the secret's
    /// retention says. The date on which the old value ended says nothing of the new one and is
    /// forgotten; one that was given before there was a value is the first one's and stays. Gives the new version.
    ///
    /// Fails with [`Code::SecretNotFound`], [`Code::ValueRefused`] or [`Code::Usage`] (the source
    /// keeps its own values).
    ///
    /// A value that is kept elsewhere is put there, if the operator lets Keyless write; its version
    /// is then 0, as the store has none. [`Code::ValueNotStored`] when that place takes none.
    pub async fn put(
        &self,
        path: &SecretPath,
        value: Zeroizing<Vec<u8>>,
        entries: Entries<'_, NewVersion>,
    ) -> Result<u32, Error> {
        match self.put_by(Giver::Person, path, value, entries).await? {
            PutBy::Done(version) => Ok(version),
            PutBy::Outrun => Err(Code::ChangedMeanwhile.into()),
            PutBy::Unwritable(why) => Err(why),
        }
    }

    /// Puts what took the place of the value `last` by itself: the refresh token that a service gave for it. What somebody
    /// has put there meanwhile stays. Who knew the last one may know this one, so a secret that is compromised stays so:
    /// [`Code::SecretCompromised`]. Else as [`Vault::put`]; that a place takes none from Keyless is no error, as nobody has
    /// to be told.
    pub async fn put_successor(
        &self,
        path: &SecretPath,
        last: &SecretValue,
        value: Zeroizing<Vec<u8>>,
        entries: Entries<'_, NewVersion>,
    ) -> Result<Succession, Error> {
        match self.put_by(Giver::Service { last }, path, value, entries).await? {
            PutBy::Done(version) => Ok(Succession::Stored(version)),
            PutBy::Outrun => Ok(Succession::Outrun),
            PutBy::Unwritable(_) => Ok(Succession::KeptBySource),
        }
    }

    async fn put_by(
        &self,
        giver: Giver<'_>,
        path: &SecretPath,
        value: Zeroizing<Vec<u8>>,
        entries: Entries<'_, NewVersion>,
    ) -> Result<PutBy, Error> {
        let now = Timestamp::now();
        let index = self.index().await?;
        let standing = self.find(&index, path)?;
        let Secret { metadata, version, .. } = Secret::of(path, &standing);
        giver.check(path, &metadata, version)?;
        self.refuse_compromised(path, &value).await?;
        if let Giver::Service { last } = giver
            && !self.fetch_of(path, &standing).await?.value.is_same_as(last)
        {
            return Ok(PutBy::Outrun);
        }
        if matches!(metadata.source, SourceConfig::Routed { .. }) {
            let handed = copied(path, &value, metadata.binding())?;
            // A date that was given before there was a value is the first one's, wherever that is kept.
            let forgets =
                metadata.upkeep.expires_at.is_some() && !self.is_empty_at_source(path).await;
            match self.put_at_source(&handed).await.map_err(not_stored)? {
                None => {}
                Some(Put::Given) => {
                    let noted = self.note_put_at_source(giver, path, (now, forgets), entries).await;
                    return noted.map(PutBy::Done).map_err(|error| half_done(path, &error));
                }
                Some(Put::ReadOnly(why)) => return Ok(PutBy::Unwritable(why)),
            }
        } else if let Err(why) = refuse_own_values(&metadata) {
            return Ok(PutBy::Unwritable(why));
        }
        let done = self
            .mutate(entries, |index| {
                let secret = index.find(path)?;
                let current = secret.current().map(|version| version.version);
                giver.check(path, &secret.metadata, current)?;
                // What was looked at above is still what is replaced, and what must not be given again.
                let is_other = giver.is_service() && current != version;
                if is_other || secret.metadata.compromised != metadata.compromised {
                    return Err(Code::ChangedMeanwhile.into());
                }
                let version = secret.next_version()?;
                let row = self.seal_version(path, &secret.metadata, value, version, now)?;
                let mut changes = vec![Change::InsertVersion(row)];
                let outlived = outlived(secret, now);
                let gone = |number: &u32| Change::RemoveVersion(path.clone(), *number);
                changes.extend(outlived.iter().map(gone));
                let forgets =
                    secret.current().is_some() && secret.metadata.upkeep.expires_at.is_some();
                if secret.pinned.is_some() || forgets {
                    let mut metadata = secret.metadata.clone();
                    metadata.upkeep.expires_at = None;
                    let row = to_row(path, &metadata, secret.created_at, now);
                    changes.push(Change::UpdateSecret(row));
                }
                Ok((changes, NewVersion { number: version, outlived }))
            })
            .await;
        match done {
            Err(error) if giver.is_service() && error.code() == Code::ChangedMeanwhile => {
                Ok(PutBy::Outrun)
            }
            done => done.map(|new| PutBy::Done(new.number)),
        }
    }

    /// What is said of a secret once another source has its new value.
    async fn note_put_at_source(
        &self,
        giver: Giver<'_>,
        path: &SecretPath,
        (now, forgets): (Timestamp, bool),
        entries: Entries<'_, NewVersion>,
    ) -> Result<u32, Error> {
        self.mutate(entries, |index| {
            let old = index.find(path)?;
            let mut metadata = old.metadata.clone();
            if forgets {
                metadata.upkeep.expires_at = None;
            }
            metadata.upkeep.last_rotated_at = Some(now.to_zoned(TimeZone::UTC).date());
            if !giver.is_service() {
                metadata.compromised = None;
            }
            let mut row = to_row(path, &metadata, old.created_at, now);
            row.current = old.pinned;
            Ok((vec![Change::UpdateSecret(row)], NewVersion { number: 0, outlived: Vec::new() }))
        })
        .await
        .map(|new| new.number)
    }

    /// Puts new metadata in place of what it was made from, `before`: [`Code::ChangedMeanwhile`] when it has become something else
    /// since, so that nobody takes back what they have not seen. A value that is kept here must fit what the metadata
    /// then binds it to, else [`Code::ValueRefused`].
    pub async fn set_metadata(
        &self,
        path: &SecretPath,
        before: &Metadata,
        metadata: Metadata,
        entries: Entries<'_, Secret>,
    ) -> Result<Secret, Error> {
        metadata.check()?;
        let now = Timestamp::now();
        // What another source keeps is judged when it is fetched.
        let kept_here = metadata.source.kind() != SourceKind::Routed;
        if kept_here && metadata.binding() != Binding::None {
            self.check_current_value(path, metadata.binding()).await?;
        }
        self.mutate(entries, |index| {
            let old = index.find(path)?;
            if old.metadata != *before {
                let words = SafeText::default().and(path);
                return Err(Error::with(Code::ChangedMeanwhile, words));
            }
            if old.current().is_some() && metadata.source.kind() != old.metadata.source.kind() {
                let words = "a secret with a value in the store keeps its source; add another one";
                return Err(Error::with(Code::StateUnfit, SafeText::words(words)));
            }
            let mut row = to_row(path, &metadata, old.created_at, now);
            row.current = old.pinned;
            let answer = Secret { metadata, updated_at: now, ..Secret::of(path, old) };
            Ok((vec![Change::UpdateSecret(row)], answer))
        })
        .await
    }

    /// Gives no version out any more that there is now, until a new value is put (NL-2.19).
    pub async fn revoke_compromised(
        &self,
        path: &SecretPath,
        entries: Entries<'_, Secret>,
    ) -> Result<Secret, Error> {
        let at = Timestamp::now();
        self.mutate(entries, |index| {
            let old = index.find(path)?;
            let mut metadata = old.metadata.clone();
            let through = old.next_version()? - 1;
            metadata.compromised = Some(Compromise { at, through });
            let mut row = to_row(path, &metadata, old.created_at, at);
            row.current = old.pinned;
            let answer = Secret { metadata, updated_at: at, ..Secret::of(path, old) };
            Ok((vec![Change::UpdateSecret(row)], answer))
        })
        .await
    }

    /// Refuses a value of a secret that others may know and that would become its value again (NL-2.19):
    /// [`Code::ValueRefused`]. It is told as far as versions are kept; of what another source keeps, by what it has now.
    pub async fn refuse_compromised(&self, path: &SecretPath, value: &[u8]) -> Result<(), Error> {
        let index = self.index().await?;
        let secret = self.find(&index, path)?;
        let Some(Compromise { through, .. }) = secret.metadata.compromised else { return Ok(()) };
        for known in secret.versions.iter().filter(|known| known.version <= through) {
            // One that was purged meanwhile is known no more.
            let Some(row) = self.store.version(path, known.version).await? else { continue };
            if !known.fits(&row) {
                return Err(Code::StoreTampered.into());
            }
            if self.holds(Some(&row), value)? {
                return Err(compromised_value(path, "give the new one that its service issued"));
            }
        }
        let is_routed = matches!(secret.metadata.source, SourceConfig::Routed { .. });
        // A source that can't be asked takes no value either.
        if is_routed
            && let Ok(Reading { value: there, .. }) = self.fetch_of(path, &secret).await
            && there.is(value)
        {
            let advice = "its source still has it; where that is the new one, keyless secret revoke --renewed says so";
            return Err(compromised_value(path, advice));
        }
        Ok(())
    }

    /// Every secret, by path.
    pub async fn list(&self) -> Result<Arc<[Secret]>, Error> {
        Ok(self.index().await?.listed())
    }

    /// The categories that there are, and those of secrets that were removed: what a grant's pattern of two segments means
    /// is not another thing once the last secret of a category is gone.
    pub async fn categories(&self) -> Result<Categories, Error> {
        Ok(Categories::of(self.index().await?.secrets.keys()))
    }

    /// Every secret, by path, unless nothing has changed since `looked` was here last.
    pub async fn list_changed(&self, looked: &mut Looked) -> Result<Option<Arc<[Secret]>>, Error> {
        let index = self.index().await?;
        let seen = Arc::downgrade(&index);
        if looked.0.ptr_eq(&seen) {
            return Ok(None);
        }
        looked.0 = seen;
        Ok(Some(index.listed()))
    }

    /// Every secret of a store that is locked, by path: metadata is not sealed. Nothing vouches for
    /// it without the key, so it is for people to read, never to decide on.
    /// [`Code::NotInitialised`] when there is no vault.
    pub async fn list_unverified(store: &Store) -> Result<Arc<[Secret]>, Error> {
        Ok(Self::unverified(store).await?.listed())
    }

    /// One secret of a store that is locked, as [`Self::list_unverified`] gives them; [`Code::SecretNotFound`] says
    /// whether it was removed.
    pub async fn show_unverified(store: &Store, path: &SecretPath) -> Result<Secret, Error> {
        let index = Self::unverified(store).await?;
        Ok(Secret::of(path, index.find(path)?))
    }

    async fn unverified(store: &Store) -> Result<Index, Error> {
        let rows = store.rows().await?;
        if rows.header.is_none() {
            return Err(Code::NotInitialised.into());
        }
        Index::read_unverified(&rows, 0)
    }

    /// One secret, or a place that [`Vault::let_open`] lets be opened.
    pub async fn show(&self, path: &SecretPath) -> Result<Secret, Error> {
        let index = self.index().await?;
        Ok(Secret::of(path, &*self.find(&index, path)?))
    }

    /// Fetches the value and says whether it looks like a token of its kind, by the operator's or the
    /// catalog's `rule`. A rule of a caller's would tell a value's characters one by one.
    pub async fn judge_format(
        &self,
        path: &SecretPath,
        rule: Option<&str>,
    ) -> Result<FormatVerdict, Error> {
        let Reading { value, .. } = self.open(path).await?;
        Ok(judge_format(rule, value.expose_for_sealing()))
    }

    /// What a new secret will be, and its first value's row.
    fn sealed_first(
        &self,
        NewSecret { path, metadata, value }: NewSecret,
        now: Timestamp,
    ) -> Result<(Secret, Option<VersionRow>), Error> {
        metadata.check()?;
        let first =
            value.map(|value| self.seal_version(&path, &metadata, value, 1, now)).transpose()?;
        let version = first.as_ref().map(|row| row.version);
        let rotated_at = first.as_ref().map(|row| row.created_at);
        let (created_at, updated_at) = (now, now);
        Ok((Secret { path, metadata, created_at, updated_at, version, rotated_at }, first))
    }

    fn seal_version(
        &self,
        path: &SecretPath,
        metadata: &Metadata,
        mut value: Zeroizing<Vec<u8>>,
        version: u32,
        now: Timestamp,
    ) -> Result<VersionRow, Error> {
        refuse_own_values(metadata)?;
        if value.len() > MAX_VALUE_BYTES {
            return Err(too_large(path));
        }
        let value = std::mem::take(&mut *value);
        let value = SecretValue::new(path.clone(), value, metadata.binding())
            .map_err(|why| refused(path, why))?;
        self.sealed_row(&value, version, now)
    }

    pub(super) fn sealed_row(
        &self,
        value: &SecretValue,
        version: u32,
        created_at: Timestamp,
    ) -> Result<VersionRow, Error> {
        let path = value.path().clone();
        let label = seal::value_label(&path, version);
        let key = self.key()?.derive(Purpose::Values);
        let Sealed { nonce, ciphertext } = seal::seal(&key, &label, value.expose_for_sealing())?;
        Ok(VersionRow { path, version, nonce, ciphertext, created_at })
    }

    /// Fails when the value that is kept here may not be bound so.
    async fn check_current_value(&self, path: &SecretPath, to: Binding) -> Result<(), Error> {
        let index = self.index().await?;
        if index.find(path)?.current().is_none() {
            return Ok(());
        }
        let Reading { value, .. } = self.fetch(path).await?;
        let copy = value.expose_for_sealing().to_vec();
        SecretValue::new(path.clone(), copy, to).map(|_| ()).map_err(|why| refused(path, why))
    }
}

fn compromised_value(path: &SecretPath, advice: &'static str) -> Error {
    let words = SafeText::words("it is a value of ").and(path);
    let words = words.and(" that was revoked as compromised: ").and(advice);
    Error::with(Code::ValueRefused, words)
}

/// What became of a value that took another's place by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Succession {
    /// Another value than the last one was there already, and stays.
    Outrun,
    /// Its source has its own values, and Keyless may give it none.
    KeptBySource,
    /// It is in use: the store's version, or 0 where a source has it.
    Stored(u32),
}

/// The version that a new value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVersion {
    /// The store's number, or 0 where a source has the value.
    pub number: u32,
    /// The versions that the secret's retention lets go with it, oldest first.
    pub outlived: Vec<u32>,
}

/// What became of a value that was put.
enum PutBy {
    Done(u32),
    /// Another value than the last one is there by now, and stays.
    Outrun,
    /// The secret's place takes none from Keyless, as this says.
    Unwritable(Error),
}

/// Where a new value comes from.
#[derive(Clone, Copy)]
enum Giver<'a> {
    Person,
    /// The service that the value is for, in the place of the last one.
    Service {
        last: &'a SecretValue,
    },
}

impl Giver<'_> {
    fn is_service(self) -> bool {
        matches!(self, Self::Service { .. })
    }

    /// Whether this one may replace a value that others may know.
    fn check(self, path: &SecretPath, of: &Metadata, version: Option<u32>) -> Result<(), Error> {
        if self.is_service() && of.compromises(version) {
            return Err(Error::with(Code::SecretCompromised, SafeText::default().and(path)));
        }
        Ok(())
    }
}

impl Secret {
    /// Whether nobody is given its value, since others may know it.
    pub fn is_compromised(&self) -> bool {
        self.metadata.compromises(self.version)
    }

    pub(crate) fn of(path: &SecretPath, secret: &Indexed) -> Self {
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

/// [`Code::Usage`] for a secret whose source keeps its own values, and takes none from anybody.
fn refuse_own_values(metadata: &Metadata) -> Result<(), Error> {
    let kind = metadata.source.kind();
    if kind == SourceKind::Routed || kind.capabilities().contains(&Capability::Write) {
        return Ok(());
    }
    let words = SafeText::words("the value is kept by the source ").and(kind.as_str());
    Err(Error::with(Code::Usage, words))
}

/// A path is another secret's also while that one is removed.
fn refuse_known(index: &Index, path: &SecretPath) -> Result<(), Error> {
    let Some(there) = index.secrets.get(path) else { return Ok(()) };
    let words = SafeText::default().and(path);
    let words = match there.removed_at {
        None => words,
        Some(_) => words.and(" was removed: keyless secret restore or purge it"),
    };
    Err(Error::with(Code::SecretExists, words))
}

/// A source that can't be written is told in the words of one that can't be read.
pub(super) fn not_stored(error: Error) -> Error {
    match error.code() {
        Code::SecretUnavailable => Error::with(Code::ValueNotStored, error.detail().clone()),
        _ => error,
    }
}

/// What was done at a source can't be taken back: that is told, whatever failed here afterwards.
fn half_done(path: &SecretPath, error: &Error) -> Error {
    let words = SafeText::words("the source has the new value of ").and(path);
    let words = words.and(", and nothing here says so: ").and(error.detail().clone());
    Error::with(error.code(), words)
}

fn copied(path: &SecretPath, value: &[u8], binding: Binding) -> Result<SecretValue, Error> {
    if value.len() > MAX_VALUE_BYTES {
        return Err(too_large(path));
    }
    SecretValue::new(path.clone(), value.to_vec(), binding).map_err(|why| refused(path, why))
}

pub(super) fn to_row(
    path: &SecretPath,
    metadata: &Metadata,
    created_at: Timestamp,
    updated_at: Timestamp,
) -> SecretRow {
    let (format, metadata) = (Metadata::FORMAT, metadata.to_stored());
    let path = path.clone();
    SecretRow { path, format, metadata, created_at, updated_at, current: None, removed_at: None }
}
