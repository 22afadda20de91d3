//! What the operator may do to the store, proven by a factor; every change is on record.

mod approver;
mod channel;
mod client;
mod edited;
mod given;
mod lasting;
mod looking_over;
mod messages;
mod next;
mod overview;
mod proof;
mod reveal;
mod shown;
mod socket;
mod used_by;
mod woven;

use std::{iter, sync::Arc};

use data_encoding::BASE64URL_NOPAD;
use keyless_core::{
    Code, Error, Placeholder, SafeText, SecretPath, SecretValue,
    audit::{Action, Detail, Draft, Entry, Outcome, Target},
};
use keyless_store::{AuditLog, AuditQuery, Store, StorePlace};
use keyless_vault::{
    Backup, BackupRecipients, Conflicts, Entries, EnvForm, EnvelopeKind, FormatVerdict, Imported,
    Metadata, NewSecret, NewVersion, PlaceholderShape, Replacement, Secret, Vault, Weakness,
};
use parking_lot::Mutex;
use zeroize::Zeroizing;

pub(crate) use self::socket::OperatorDoor;
pub use self::{
    approver::Approver,
    client::{ApproverHandle, RemoteApprover, page_link},
    edited::Edited,
    given::{
        Given, Occasion, Typed, doubt_of_hosts, read_destinations, read_path, read_variable,
        suggested_variable,
    },
    lasting::{ago, counted, lasting, to_the_minute},
    looking_over::LookedOver,
    next::{next_at_hand, to_the_person},
    overview::{
        ChainState, EgressView, HOUR_BARS, LOG_ACTIONS, LOG_OUTCOMES, LogView, LogWanted, Overview,
        SecretRow, SecretState, SecretsView, SecretsWanted, SourcesView, Tally,
    },
    proof::{Proof, ProveAgain, Weight},
    shown::{Answer, By, Known, Named, Present, Shown, UnknownPattern},
    used_by::UsedBy,
    woven::password_alone,
};
use crate::{
    broker::{agent, fill_random, plain_entry, session_key},
    config::Config,
    liveness::{Asker, Checked, LivenessChecks, LivenessVerdict},
    log_keeping::annotate,
    nl::rotation,
    places::{Places, is_inside_session},
    store_place::place_in,
};

/// The operator, at an unlocked vault.
pub struct Operator {
    vault: Arc<Vault>,
    log: AuditLog,
    weak_values: WeakValues,
    checks: Option<(Arc<LivenessChecks>, CheckWhen)>,
    /// What came of the last check before a value was saved.
    answered: Mutex<Option<Checked>>,
}

/// Whether a value's service is asked before the value is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckWhen {
    /// Each time.
    Always,
    /// As `[liveness]` of config.toml says.
    AsConfigured,
}

/// A new value that a secret has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// Its version; zero where another source keeps it.
    pub version: u32,
    /// Whether it is looked for in what actions give back.
    pub is_looked_for: bool,
}

/// What becomes of a value that looks like none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WeakValues {
    Allowed,
    Refused,
}

impl Operator {
    /// The operator's hands on an unlocked vault.
    pub fn new(vault: impl Into<Arc<Vault>>) -> Self {
        let vault = vault.into();
        let log = audit_log(&vault);
        Self::with_log(vault, log)
    }

    pub(crate) fn with_log(vault: Arc<Vault>, log: AuditLog) -> Self {
        let weak_values = WeakValues::Refused;
        Self { vault, log, weak_values, checks: None, answered: Mutex::default() }
    }

    /// Takes also values that look like none.
    #[must_use]
    pub fn allowing_weak_values(self) -> Self {
        Self { weak_values: WeakValues::Allowed, ..self }
    }

    /// Asks the services of values that are to be saved; one that is refused counts as a value that is none.
    #[must_use]
    pub fn checking(self, places: &Places, when: CheckWhen) -> Self {
        let checks = Arc::new(LivenessChecks::new(places, self.log.clone()));
        Self { checks: Some((checks, when)), ..self }
    }

    /// What the service said of the value that was saved last, where it was asked; told once.
    pub fn take_check(&self) -> Option<Checked> {
        self.answered.lock().take()
    }

    /// This operator, for a single answer, which may allow a weak value.
    fn again(&self, allow_weak: bool) -> Self {
        let weak_values = if allow_weak { WeakValues::Allowed } else { self.weak_values };
        let (vault, log) = (Arc::clone(&self.vault), self.log.clone());
        let checks = self.checks.clone();
        Self { vault, log, weak_values, checks, answered: Mutex::default() }
    }

    /// Adds a secret; `value` for the sources that keep one here. Of a whole address the password is taken, as by
    /// [`Operator::rotate`].
    pub async fn add(
        &self,
        path: &SecretPath,
        metadata: Metadata,
        value: Option<Zeroizing<Vec<u8>>>,
    ) -> Result<(), Error> {
        let form = metadata.env_form.as_ref();
        let value = value.map(|value| password_alone(form, value)).transpose()?;
        let new = NewSecret { path: path.clone(), metadata, value };
        self.refuse_new(&new).await?;
        self.add_judged(vec![new]).await.pop().unwrap_or_else(|| Err(Code::Internal.into()))
    }

    /// Refuses a new secret for what its value looks like; a path that is taken the vault refuses as such.
    async fn refuse_new(&self, new: &NewSecret) -> Result<(), Error> {
        let NewSecret { path, metadata, value } = new;
        let Some(value) = value else { return Ok(()) };
        if self.vault.show(path).await.is_ok() {
            return Ok(());
        }
        self.refuse_weak(path, metadata, value)?;
        self.refuse_dead(path, metadata, value).await
    }

    /// Adds secrets whose values were judged, all at once, and puts them on record in one entry. Answers in their order.
    async fn add_judged(&self, new: Vec<NewSecret>) -> Vec<Result<(), Error>> {
        let count = new.len();
        let entries = Entries::in_log(&self.log, |added: &Vec<Result<Secret, Error>>| {
            let paths = added.iter().flatten().map(|secret| secret.path.clone()).collect();
            vec![Self::draft(Action::Create, Target::Secrets(paths), "")]
        });
        match self.vault.add_all(new, entries).await {
            Ok(added) => added.into_iter().map(|added| added.map(drop)).collect(),
            Err(error) => vec![Err(error); count],
        }
    }

    /// Whether the secret's value is `value`; nothing when there is no such secret, or no value of it yet.
    pub async fn holds(&self, path: &SecretPath, value: &[u8]) -> Result<Option<bool>, Error> {
        if self.vault.show(path).await.is_ok_and(|secret| secret.lacks_value()) {
            return Ok(None);
        }
        match self.vault.open(path).await {
            Ok(reading) => Ok(Some(reading.value.is(value))),
            Err(error) if error.code() == Code::SecretNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether this stands around a secret's value in its variable.
    pub(crate) async fn surrounds(
        &self,
        path: &SecretPath,
        form: Option<&EnvForm>,
    ) -> Result<bool, Error> {
        Ok(self.vault.show(path).await?.metadata.env_form.as_ref() == form)
    }

    /// Replaces a secret's metadata, which was `before`: [`Code::ChangedMeanwhile`] when it is something else by now.
    pub async fn set(
        &self,
        path: &SecretPath,
        before: &Metadata,
        metadata: Metadata,
    ) -> Result<(), Error> {
        let entries = self.entry(Action::Update, path, "");
        self.vault.set_metadata(path, before, metadata, entries).await.map(drop)
    }

    /// Gives a secret a new value. Where an address stands around it in its variable, the whole of that may be given as well:
    /// the password in it is the value.
    ///
    /// [`Code::ValueUnchanged`] for the one that it has, [`Code::ValueRefused`] for another address, and for a value that others
    /// may know.
    pub async fn rotate(
        &self,
        path: &SecretPath,
        value: Zeroizing<Vec<u8>>,
    ) -> Result<Rotated, Error> {
        let form = self.vault.show(path).await?.metadata.env_form;
        let value = password_alone(form.as_ref(), value)?;
        let is_looked_for = keyless_action::is_looked_for(&value);
        let version = self.rotate_to(path, value).await?;
        Ok(Rotated { version, is_looked_for })
    }

    /// Gives a secret this very value; gives the new version.
    async fn rotate_to(&self, path: &SecretPath, value: Zeroizing<Vec<u8>>) -> Result<u32, Error> {
        let metadata = self.vault.show(path).await?.metadata;
        // First, as what comes then advises --allow-weak, or shows the value to its service.
        self.vault.refuse_compromised(path, &value).await?;
        self.refuse_weak(path, &metadata, &value)?;
        self.refuse_unchanged(path, &value).await?;
        self.refuse_dead(path, &metadata, &value).await?;
        let had = self.vault.versions(path).await?;
        let before = had.iter().find(|one| one.in_use).map(|one| one.version);
        // Versions alone tell of the newest one.
        let older = before.filter(|one| had.iter().any(|other| other.version > *one));
        let note = rotation::new_value_note(older);
        let draft =
            |action, note: &str| Self::draft(action, Target::Secrets(vec![path.clone()]), note);
        let entries = Entries::in_log(&self.log, move |new: &NewVersion| {
            let gone = outlived_note(new).map(|note| draft(Action::Delete, &note));
            iter::once(draft(Action::Rotate, &note)).chain(gone).collect()
        });
        self.vault.put(path, value, entries).await
    }

    /// Removes a secret; its versions stay sealed until it is purged.
    pub async fn remove(&self, path: &SecretPath) -> Result<(), Error> {
        self.vault.remove(path, self.entry(Action::Delete, path, "")).await
    }

    /// Refuses every use of a secret from now on, until it has a new value (NL-2.19).
    pub async fn revoke_compromised(&self, path: &SecretPath, reason: &str) -> Result<(), Error> {
        let reason = SafeText::default().as_they_wrote(reason);
        let note = format!("compromised: {}", reason.as_str());
        let entries = self.entry(Action::SecretRevoke, path, note);
        self.vault.revoke_compromised(path, entries).await.map(drop)
    }

    /// Takes that back of a secret whose value another source keeps, and has replaced.
    pub async fn renewed(&self, path: &SecretPath) -> Result<(), Error> {
        let secret = self.vault.show(path).await?;
        if secret.version.is_some() {
            let words = "the store keeps its value: give it a new one with keyless secret rotate";
            return Err(Error::with(Code::StateUnfit, SafeText::words(words)));
        }
        let metadata = Metadata { compromised: None, ..secret.metadata.clone() };
        let entries = self.entry(Action::Rotate, path, rotation::EVENT);
        self.vault.set_metadata(path, &secret.metadata, metadata, entries).await.map(drop)
    }

    /// The agents that have used a secret since its value was set, the earliest first.
    pub async fn used_by(&self, path: &SecretPath) -> Result<Vec<UsedBy>, Error> {
        self.log.flush().await?;
        used_by::since_set(self.vault.store(), &self.vault.show(path).await?).await
    }

    /// Brings a removed secret back, or puts an older version in use.
    pub async fn restore(&self, path: &SecretPath, version: Option<u32>) -> Result<Secret, Error> {
        let had = self.vault.versions(path).await?;
        let before = had.iter().find(|one| one.in_use).map(|one| one.version);
        let entries = Entries::in_log(&self.log, |secret: &Secret| {
            let target = Target::Secrets(vec![secret.path.clone()]);
            let restored = Self::draft(Action::Update, target, "restored");
            // Nothing changes here for a value that is kept elsewhere.
            let version = secret.version.filter(|version| before != Some(*version));
            let in_force = version.map(|version| in_force_of(&secret.path, version, before));
            std::iter::once(restored).chain(in_force).collect()
        });
        self.vault.restore(path, version, entries).await
    }

    /// Forgets a secret, or one version of it, for good.
    pub async fn purge(&self, path: &SecretPath, version: Option<u32>) -> Result<(), Error> {
        let note = version.map_or("purged".to_owned(), |one| format!("purged version {one}"));
        self.vault.purge(path, version, self.entry(Action::Delete, path, note)).await
    }

    /// A copy of every secret, encrypted to these keys. That it is made is on record before anything opens.
    pub async fn export(&self, to: &BackupRecipients) -> Result<Vec<u8>, Error> {
        let all = self.vault.list().await?;
        let all = all.iter().map(|secret| secret.path.clone()).collect();
        self.note(Action::Export, Target::Secrets(all), "").await?;
        self.vault.export(to).await
    }

    /// What a copy would replace, to be looked at before it does.
    pub async fn replacements(&self, copy: &Backup) -> Result<Vec<Replacement>, Error> {
        self.vault.replacements(copy).await
    }

    /// What a copy would have read from this machine, to be looked at before it is.
    pub async fn borrowing(
        &self,
        copy: &Backup,
        conflicts: Conflicts,
    ) -> Result<Vec<(SecretPath, Metadata)>, Error> {
        self.vault.borrowing(copy, conflicts).await
    }

    /// Takes a copy in, and puts on record what of it is new here.
    pub async fn import(&self, copy: Backup, conflicts: Conflicts) -> Result<Imported, Error> {
        let entries = Entries::in_log(&self.log, |imported: &Imported| {
            let changed = imported.added.iter().chain(&imported.replaced).cloned().collect();
            let taken_in = Self::draft(Action::Import, Target::Secrets(changed), "");
            let in_force = imported.in_force.iter();
            let in_force = in_force.map(|(path, version)| in_force_of(path, *version, None));
            std::iter::once(taken_in).chain(in_force).collect()
        });
        self.vault.import(copy, conflicts, entries).await
    }

    /// The entry that tells that what opens the store has changed.
    pub fn envelope_entry(&self, kind: EnvelopeKind) -> Entries<'_, ()> {
        let draft =
            move |(): &()| vec![Self::draft(Action::Update, Target::Session, kind.as_str())];
        Entries::in_log(&self.log, draft)
    }

    /// Judges values that the vault would take: what it can't keep at all it refuses with its own
    /// reason.
    fn refuse_weak(
        &self,
        path: &SecretPath,
        metadata: &Metadata,
        value: &[u8],
    ) -> Result<(), Error> {
        let is_kept = SecretValue::new(path.clone(), value.to_vec(), metadata.binding()).is_ok();
        if self.weak_values == WeakValues::Allowed || !is_kept {
            return Ok(());
        }
        let words = match (Weakness::of(value), metadata.judge_format(value)) {
            (Some(Weakness::Reference), _) => "it names a value that is elsewhere",
            (Some(Weakness::Sequence), _) => "its characters are only counted up or down",
            (Some(Weakness::Short), _) => "it has under 12 characters",
            (Some(Weakness::StandIn), _) => "it is a word that stands where a value should",
            (Some(Weakness::Uniform), _) => "it is a few characters over and over",
            (None, FormatVerdict::Invalid) => "it has not the format of its pattern",
            (None, FormatVerdict::Ok | FormatVerdict::Unknown) => return Ok(()),
        };
        Err(Error::with(Code::ValueWeak, SafeText::words(words)))
    }

    /// Whoever asked for another value would be told that there is one.
    async fn refuse_unchanged(&self, path: &SecretPath, value: &[u8]) -> Result<(), Error> {
        if self.weak_values == WeakValues::Refused && self.vault.keeps(path, value).await? {
            return Err(Error::with(Code::ValueUnchanged, SafeText::default().and(path)));
        }
        Ok(())
    }

    /// Asks the service of a stored value whether it takes it; `user` for one that wants to know whose it is.
    pub async fn check(
        &self,
        places: &Places,
        path: &SecretPath,
        user: Option<&str>,
    ) -> Result<Checked, Error> {
        let checks = LivenessChecks::new(places, self.log.clone());
        let metadata = self.vault.show(path).await?.metadata;
        let value = self.vault.open(path).await?.value;
        checks.check(&metadata, value, Asker::operator(&self.vault).of_user(user)).await
    }

    /// Only a plain refusal of its service counts: a service that can't be asked says nothing of a value.
    async fn refuse_dead(
        &self,
        path: &SecretPath,
        metadata: &Metadata,
        value: &[u8],
    ) -> Result<(), Error> {
        let Some((checks, when)) = &self.checks else { return Ok(()) };
        let value = SecretValue::new(path.clone(), value.to_vec(), metadata.binding());
        let (WeakValues::Refused, Ok(value)) = (self.weak_values, value) else { return Ok(()) };
        let checked = match when {
            CheckWhen::Always => {
                Some(checks.check(metadata, value, Asker::operator(&self.vault)).await?)
            }
            CheckWhen::AsConfigured => checks.check_on_save(metadata, value, &self.vault).await?,
        };
        let is_refused = checked.as_ref().is_some_and(|it| it.verdict == LivenessVerdict::Rejected);
        *self.answered.lock() = checked;
        if is_refused {
            return Err(Error::with(Code::ValueWeak, SafeText::words("its service refuses it")));
        }
        Ok(())
    }

    /// The one entry that tells of a change of this secret.
    fn entry<'a, T>(
        &'a self,
        action: Action,
        path: &'a SecretPath,
        note: impl Into<String>,
    ) -> Entries<'a, T> {
        let note = note.into();
        let target = Target::Secrets(vec![path.clone()]);
        Entries::in_log(&self.log, move |_| vec![Self::draft(action, target, &note)])
    }

    async fn note(&self, action: Action, target: Target, note: &str) -> Result<(), Error> {
        self.log.append(Self::draft(action, target, note)).await.map(drop)
    }

    fn draft(action: Action, target: Target, note: &str) -> Draft {
        let note = Some(note.to_owned()).filter(|note| !note.is_empty());
        Draft {
            detail: Detail { note, ..Detail::default() },
            ..plain_entry(agent("operator", "operator"), action, Outcome::Success, target)
        }
    }
}

/// The note of the entry about the versions that went because of a new one, if any did.
pub(crate) fn outlived_note(new: &NewVersion) -> Option<String> {
    let gone: Vec<String> = new.outlived.iter().map(ToString::to_string).collect();
    let word = if gone.len() == 1 { "version" } else { "versions" };
    (!gone.is_empty()).then(|| format!("purged {word} {} by its retention", gone.join(", ")))
}

/// That another value is in force: whoever uses it has to know, however that came (NL-2.15).
fn in_force_of(path: &SecretPath, version: u32, before: Option<u32>) -> Draft {
    let note = rotation::PutInForce { version, before }.note();
    Operator::draft(Action::Rotate, Target::Secrets(vec![path.clone()]), &note)
}

/// The log of an unlocked vault's store; its head is sealed with the vault's key.
pub fn audit_log(vault: &Vault) -> AuditLog {
    AuditLog::start(vault.store(), Some(vault.head_sealer()))
}

/// The store, opened; `Code::NotInitialised` when there is none.
pub async fn open_store(places: &Places) -> Result<Store, Error> {
    let config = Config::load(&places.config_file())?;
    let store = Store::open(place_in(places, &config.store)?).await?;
    annotate(&store, &config);
    Ok(store)
}

/// As [`open_store`], also where `config.toml` can't be used but it is sure where it says that the store is; the fault is given
/// beside it. For what goes by nothing else in that file.
pub async fn open_sure_store(places: &Places) -> Result<(Store, Option<Error>), Error> {
    let (config, fault) = Config::of_store(&places.config_file())?;
    let store = Store::open(place_in(places, &config.store)?).await?;
    annotate(&store, &config);
    Ok((store, fault))
}

/// Whether there is no store here, or none that is seen.
pub(crate) async fn sees_no_store(places: &Places) -> bool {
    open_store(places).await.is_err_and(|error| error.code() == Code::NotInitialised)
}

/// Fails with [`Code::InsideSession`] in an agent's session: a store that is seen there is one that was not hidden, and is
/// none of the agent's business; one that is made there is lost with it.
pub fn refuse_inside_session() -> Result<(), Error> {
    if is_inside_session() { Err(Code::InsideSession.into()) } else { Ok(()) }
}

/// A store for a new vault.
pub async fn create_store(places: &Places) -> Result<Store, Error> {
    let config = Config::load(&places.config_file())?;
    let place = place_in(places, &config.store)?;
    if matches!(place, StorePlace::File(_)) {
        places.check_data()?;
    }
    let store = Store::create_or_open(place).await?;
    annotate(&store, &config);
    Ok(store)
}

/// Fails with `Code::AlreadyInitialised` when a vault is there already.
pub async fn refuse_existing_store(places: &Places) -> Result<(), Error> {
    let store = match open_store(places).await {
        Err(error) if error.code() == Code::NotInitialised => return Ok(()),
        store => store?,
    };
    if store.rows().await?.header.is_some() {
        let detail = SafeText::default().as_they_wrote(&store.place().to_string());
        return Err(Error::with(Code::AlreadyInitialised, detail));
    }
    Ok(())
}

/// The newest entries, oldest first.
pub async fn audit_tail(store: &Store, count: u32) -> Result<Vec<Entry>, Error> {
    Ok(store.audit_tail(count).await?)
}

/// The entries that fit, oldest first. That they were asked for is an entry itself (NL-5.9).
///
/// An answer to who goes on is no entry where it has nothing but such entries: each would make the next page, for ever.
pub async fn audit_query(store: &Store, wanted: &AuditQuery) -> Result<Vec<Entry>, Error> {
    let entries = store.audit_query(wanted).await?;
    if wanted.after.is_none() || entries.iter().any(|entry| entry.action != Action::Query) {
        let log = AuditLog::start(store, None);
        let draft = plain_entry(
            agent("operator", "operator"),
            Action::Query,
            Outcome::Success,
            Target::Log,
        );
        log.append(draft).await?;
    }
    Ok(entries)
}

/// A value for a secret that is bait: random, and of the form that its placeholders have if that is a real token's.
pub fn decoy(path: &SecretPath, metadata: &Metadata) -> Result<Zeroizing<Vec<u8>>, Error> {
    let value = match &metadata.placeholder {
        PlaceholderShape::LookAlike(_) => {
            Placeholder::derive(&session_key()?, path, &metadata.placeholder.form()).to_string()
        }
        PlaceholderShape::Colon | PlaceholderShape::Default => {
            let mut random = [0; 24];
            fill_random(&mut random)?;
            BASE64URL_NOPAD.encode(&random)
        }
    };
    Ok(Zeroizing::new(value.into_bytes()))
}

/// Every secret's metadata, without a key: it is no secret.
pub async fn list_secrets(store: &Store) -> Result<Vec<Secret>, Error> {
    Ok(Vault::list_unverified(store).await?.to_vec())
}

/// One secret's metadata, without a key.
pub async fn show_secret(store: &Store, path: &SecretPath) -> Result<Secret, Error> {
    Vault::show_unverified(store, path).await
}
