//! What a project may see of the operator's secrets: its manifest, merged with what is known.
//!
//! Only declared paths are seen. A project may ask for more caution than the operator, never for
//! less, and one entry that can't be used says so of itself alone. Pure; the files are read in
//! `manifest`. Source: reference/secrets.md, 2.3 and 19 (rows 6, 29, 30).

mod entry;
mod manifest;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use keyless_core::{ApproveOnUse, Code, Error, SafeText, SecretPath};
use serde::Serialize;

pub use self::{
    entry::{Entry, Fault, InventoryFile, Override},
    manifest::{IndexFile, Manifest},
};
use crate::{metadata::EnvName, upkeep::Upkeep, vault::Secret};

/// The merged answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// By path.
    pub rows: BTreeMap<SecretPath, Row>,
    /// What can't be used, of either file.
    pub faults: Vec<Fault>,
    /// What works but is hardly meant.
    pub warnings: Vec<Fault>,
}

/// One declared secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whether the project can't do without.
    pub required: bool,
    /// The party that says what it is.
    pub origin: Origin,
    /// What the store has of it; the value may be kept elsewhere all the same.
    pub stored: Stored,
    /// What it is for.
    pub description: Option<String>,
    /// The variable in which programs look for it.
    pub env: Option<EnvName>,
    /// When a human is asked.
    pub approve_on_use: ApproveOnUse,
    /// What keeps it fresh. `format_regex` is the operator's: a project's would let an agent ask
    /// a value's characters one by one.
    pub upkeep: Upkeep,
    /// The pattern that the operator says it has, by which a value may be judged; one of a project's alone is not.
    pub own_pattern: Option<String>,
}

/// What the store has of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is not there.
    Nothing,
    /// What it is, and no value yet.
    NoValue,
    /// Its value, or which source keeps it.
    Value,
}

impl Stored {
    /// The verb of `keyless secret` that gives it a value.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Nothing => "add",
            Self::NoValue | Self::Value => "rotate",
        }
    }
}

/// The party that says what a secret is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Nobody: the project declares the path and nothing else is known.
    Bare,
    /// The operator: the store or the index.
    Operator,
    /// The project alone.
    Project,
}

impl Inventory {
    /// Merges a project's manifest with the operator's index and the store's secrets, which stand by path.
    pub fn merge(manifest: &Manifest, index: &IndexFile, secrets: &[Secret]) -> Self {
        debug_assert!(secrets.is_sorted_by_key(|secret| &secret.path), "they stand by path");
        let mut inventory = Self::faulty(manifest, index);
        let unread: BTreeSet<SecretPath> =
            inventory.faults.iter().filter_map(|fault| fault.path.clone()).collect();
        let is_any_unread = inventory.is_any_unread();
        let required = manifest.required.iter().map(|path| (path, true));
        let optional = manifest.optional.iter().map(|path| (path, false));
        let optional = optional.filter(|(path, _)| !manifest.required.contains(*path));
        for (path, required) in required.chain(optional) {
            let stored = secrets.binary_search_by(|secret| secret.path.cmp(path)).ok();
            let known = Known::of(path, manifest, index, stored.map(|at| &secrets[at]));
            let unread = is_any_unread || unread.contains(path);
            let row = inventory.row(path, manifest, &known, unread);
            inventory.rows.insert(path.clone(), Row { required, ..row });
        }
        inventory.warn_of_undeclared(manifest);
        inventory
    }

    /// The inventory of one path alone, of which the store has `secret`: its row, if the project declares it.
    pub fn merge_one(
        path: &SecretPath,
        manifest: &Manifest,
        index: &IndexFile,
        secret: Option<&Secret>,
    ) -> Self {
        let mut inventory = Self::faulty(manifest, index);
        if manifest.declares(path) {
            let unread = inventory.is_any_unread() || inventory.fault_of(path).is_some();
            let known = Known::of(path, manifest, index, secret);
            let row = inventory.row(path, manifest, &known, unread);
            let required = manifest.required.contains(path);
            inventory.rows.insert(path.clone(), Row { required, ..row });
        }
        inventory
    }

    fn faulty(manifest: &Manifest, index: &IndexFile) -> Self {
        let faults = index.faults.iter().chain(&manifest.faults).cloned().collect();
        Self { faults, ..Self::default() }
    }

    fn row(
        &mut self,
        path: &SecretPath,
        manifest: &Manifest,
        known: &Known<'_>,
        unread: bool,
    ) -> Row {
        let mut row = known.row();
        if let Some(project) = known.project {
            let ignored = row.ignored(project);
            if !ignored.is_empty() {
                let why =
                    format!("{} not taken over: the operator's word stands", ignored.join(", "));
                self.warn(&format!("secret.{:?}", path.as_str()), path, vec![why]);
            }
        }
        if let Some(said) = manifest.overrides.get(path) {
            let warnings = row.tighten(said);
            self.warn(&format!("overrides.{:?}", path.as_str()), path, warnings);
        }
        if unread {
            // It may have asked for a person.
            row.approve_on_use = ApproveOnUse::PerCall;
        }
        if row.origin == Origin::Bare {
            let why = "is declared and nothing else is known of it".to_owned();
            self.warn(path.as_str(), path, vec![why]);
        }
        row
    }

    /// This inventory with every secret asked about at least as often as `floor` says: the operator's `[unlock] profile`.
    #[must_use]
    pub fn asking_at_least(mut self, floor: ApproveOnUse) -> Self {
        for row in self.rows.values_mut() {
            row.approve_on_use = row.approve_on_use.tightened_by(floor);
        }
        self
    }

    /// The row of `path`; [`Code::SecretNotFound`] where the project may not see it.
    pub fn take(&mut self, path: &SecretPath) -> Result<Row, Error> {
        let row = self.rows.remove(path);
        row.ok_or_else(|| Error::with(Code::SecretNotFound, SafeText::default().and(path)))
    }

    /// Fails with [`Code::ManifestInvalid`] where something is said of `path` that can't be read.
    pub fn refuse_unread(&self, path: &SecretPath) -> Result<(), Error> {
        match self.fault_of(path) {
            Some(fault) => {
                let words =
                    SafeText::words(fault.file.as_str()).and(": ").as_they_wrote(&fault.place);
                let words = words.and(" ").as_they_wrote(&fault.why);
                Err(Error::with(Code::ManifestInvalid, words))
            }
            None => Ok(()),
        }
    }

    /// Whether something can't be read that may be about any secret.
    fn is_any_unread(&self) -> bool {
        self.faults.iter().any(|fault| fault.of_any)
    }

    fn fault_of(&self, path: &SecretPath) -> Option<&Fault> {
        self.faults.iter().find(|fault| fault.path.as_ref() == Some(path))
    }

    fn warn(&mut self, place: &str, path: &SecretPath, why: Vec<String>) {
        let file = InventoryFile::Manifest;
        let warning = |why| Fault::of(file, place.to_owned(), path.clone(), why);
        self.warnings.extend(why.into_iter().map(warning));
    }

    fn warn_of_undeclared(&mut self, manifest: &Manifest) {
        let overrides = manifest.overrides.keys().map(|path| ("overrides", path));
        let secrets = manifest.secrets.keys().map(|path| ("secret", path));
        for (section, path) in overrides.chain(secrets) {
            if !manifest.declares(path) {
                let why = "is neither required nor optional, so nobody sees it".to_owned();
                self.warn(&format!("{section}.{:?}", path.as_str()), path, vec![why]);
            }
        }
    }
}

/// Everything that is said about one path, by whom.
struct Known<'a> {
    secret: Option<&'a Secret>,
    index: Option<&'a Entry>,
    project: Option<&'a Entry>,
}

impl<'a> Known<'a> {
    fn of(
        path: &SecretPath,
        manifest: &'a Manifest,
        index: &'a IndexFile,
        secret: Option<&'a Secret>,
    ) -> Self {
        Self { secret, index: index.secrets.get(path), project: manifest.secrets.get(path) }
    }

    fn row(&self) -> Row {
        let nothing = Entry::default();
        let (index, project) = (self.index.unwrap_or(&nothing), self.project.unwrap_or(&nothing));
        let ours = self.secret.map(of_secret).unwrap_or_default();
        let own = self.secret.is_some() || self.index.is_some();
        let operators = ours.upkeep.or(&index.upkeep);
        let (format_regex, days) = (operators.format_regex.clone(), operators.rotate_every_days);
        let own_pattern = operators.pattern_id.clone();
        let mut upkeep = operators.or(&project.upkeep);
        upkeep.format_regex = format_regex;
        if own {
            upkeep.rotate_every_days = sooner(days, project.upkeep.rotate_every_days);
        }
        let policies = [ours.approve_on_use, index.approve_on_use, project.approve_on_use];
        Row {
            required: false,
            origin: match (own, self.project) {
                (true, _) => Origin::Operator,
                (false, Some(_)) => Origin::Project,
                (false, None) => Origin::Bare,
            },
            stored: match self.secret {
                None => Stored::Nothing,
                Some(secret) if secret.lacks_value() => Stored::NoValue,
                Some(_) => Stored::Value,
            },
            description: [&ours.description, &index.description, &project.description]
                .into_iter()
                .flatten()
                .next()
                .cloned(),
            env: [&ours.env, &index.env, &project.env].into_iter().flatten().next().cloned(),
            approve_on_use: policies.into_iter().flatten().max().unwrap_or_default(),
            upkeep,
            own_pattern,
        }
    }
}

impl Row {
    /// Whether the store has its value, or knows which source keeps it.
    pub fn has_value(&self) -> bool {
        self.stored == Stored::Value
    }

    /// Whether the store has it, with a value or without.
    pub fn is_stored(&self) -> bool {
        self.stored != Stored::Nothing
    }

    /// Takes over what is stricter; gives what was not taken over.
    fn tighten(&mut self, said: &Override) -> Vec<String> {
        let (mut warnings, before) = (Vec::new(), self.clone());
        if said.is_empty() {
            warnings.push("says nothing".to_owned());
        }
        if let Some(policy) = said.approve_on_use {
            if policy < self.approve_on_use {
                let stays = self.approve_on_use;
                warnings.push(format!("approve_on_use stays {stays}: a project may only tighten"));
            }
            self.approve_on_use = self.approve_on_use.tightened_by(policy);
        }
        if let Some(days) = said.rotate_every_days {
            if self.upkeep.rotate_every_days.is_some_and(|ours| ours < days) {
                let words = "rotate_every_days stays as it is: a project may only shorten it";
                warnings.push(words.to_owned());
            }
            self.upkeep.rotate_every_days = sooner(self.upkeep.rotate_every_days, Some(days));
        }
        if said.description.is_some() {
            self.description.clone_from(&said.description);
        }
        if warnings.is_empty() && *self == before {
            warnings.push("changes nothing: all that it says is so already".to_owned());
        }
        warnings
    }

    /// The fields of a project's own entry that the row does not have from it.
    fn ignored(&self, said: &Entry) -> Vec<&'static str> {
        fn differs<T: PartialEq>(said: Option<&T>, ours: Option<&T>) -> bool {
            said.is_some() && said != ours
        }
        let (theirs, ours) = (&said.upkeep, &self.upkeep);
        let scopes =
            !theirs.required_scopes.is_empty() && theirs.required_scopes != ours.required_scopes;
        let all = [
            ("approve_on_use", differs(said.approve_on_use.as_ref(), Some(&self.approve_on_use))),
            (
                "cache_ttl_seconds_max",
                differs(theirs.cache_ttl_seconds_max.as_ref(), ours.cache_ttl_seconds_max.as_ref()),
            ),
            ("description", differs(said.description.as_ref(), self.description.as_ref())),
            ("env_var", differs(said.env.as_ref(), self.env.as_ref())),
            ("expires_at", differs(theirs.expires_at.as_ref(), ours.expires_at.as_ref())),
            ("format_regex", differs(theirs.format_regex.as_ref(), ours.format_regex.as_ref())),
            (
                "last_rotated_at",
                differs(theirs.last_rotated_at.as_ref(), ours.last_rotated_at.as_ref()),
            ),
            ("pattern_id", differs(theirs.pattern_id.as_ref(), ours.pattern_id.as_ref())),
            ("required_scopes", scopes),
            ("retrieval_url", differs(theirs.retrieval_url.as_ref(), ours.retrieval_url.as_ref())),
            (
                "rotate_every_days",
                differs(theirs.rotate_every_days.as_ref(), ours.rotate_every_days.as_ref()),
            ),
            (
                "rotation_method",
                differs(theirs.rotation_method.as_ref(), ours.rotation_method.as_ref()),
            ),
        ];
        all.into_iter().filter(|(_, ignored)| *ignored).map(|(name, _)| name).collect()
    }
}

fn of_secret(secret: &Secret) -> Entry {
    let metadata = &secret.metadata;
    let mut upkeep = metadata.upkeep.clone();
    if let Some(rotated) = secret.rotated_at {
        upkeep.last_rotated_at = Some(rotated.to_zoned(jiff::tz::TimeZone::UTC).date());
    }
    Entry {
        description: metadata.description.clone(),
        env: metadata.env.clone(),
        approve_on_use: Some(metadata.approve_on_use),
        upkeep,
    }
}

fn sooner(ours: Option<u32>, theirs: Option<u32>) -> Option<u32> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
        (ours, theirs) => ours.or(theirs),
    }
}
