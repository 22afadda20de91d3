//! Places of sources that no secret stands for, where the operator lets a grant name them by their reference.
//!
//! Nothing is known of one but where it is, so it is bound to no destination. It is no secret: it is neither listed nor
//! changed, and has a path for the log's sake. One that a secret is kept at, removed ones included, is no such place:
//! there the secret's own rules hold.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    ops::Deref,
    sync::{Arc, Mutex},
};

use jiff::Timestamp;
use keyless_core::{Error, SecretPath};
use sha2::{Digest, Sha256};

use super::{Secret, Vault};
use crate::{
    index::{Index, Indexed},
    metadata::{Metadata, SourceConfig},
};

/// The project that their paths have in the log.
const PROJECT: &str = "at-source";
/// How much of a reference is readable in a path, in bytes.
const READABLE: usize = 80;

/// Those that something may be done with.
#[derive(Default)]
pub(super) struct AtSources(Mutex<BTreeMap<SecretPath, Arc<Indexed>>>);

/// A secret of the index, or a place that stands for itself.
pub(super) enum Known<'a> {
    Place(Arc<Indexed>),
    Secret(&'a Indexed),
}

impl Deref for Known<'_> {
    type Target = Indexed;

    fn deref(&self) -> &Indexed {
        match self {
            Self::Place(place) => place,
            Self::Secret(secret) => secret,
        }
    }
}

impl Vault {
    /// The place that `provider://place` names, if `references` of its source open it and no secret is kept there. Of it
    /// is known where it is, and nothing else. Nobody is asked.
    pub async fn place(&self, provider: &str, place: &str) -> Result<Option<Secret>, Error> {
        let Some(kept) = self.router.as_ref().and_then(|one| one.open_place(provider, place))
        else {
            return Ok(None);
        };
        let path = path_of(&kept.source, &kept.reference);
        let (source, reference) = (Some(kept.source), Some(kept.reference));
        let source = SourceConfig::Routed { source, reference };
        let called = self.places_of(&path, &source);
        let index = self.index().await?;
        let mut secrets = index.secrets.iter();
        // Some sources take no account of letters' case.
        let is_kept_there = secrets.any(|(path, secret)| {
            let mut theirs = self.places_of(path, &secret.metadata.source).into_iter();
            theirs.any(|their| called.iter().any(|called| called.eq_ignore_ascii_case(&their)))
        });
        if is_kept_there || index.secrets.contains_key(&path) {
            return Ok(None);
        }
        let at = Timestamp::UNIX_EPOCH;
        let metadata = Metadata { source, ..Metadata::default() };
        let (created_at, updated_at) = (at, at);
        Ok(Some(Secret { path, metadata, created_at, updated_at, version: None, rotated_at: None }))
    }

    /// From now on a place of [`Vault::place`] may be shown and opened, as a secret may.
    pub fn let_open(&self, place: &Secret) {
        let known = Indexed {
            metadata: place.metadata.clone(),
            created_at: place.created_at,
            updated_at: place.updated_at,
            pinned: None,
            removed_at: None,
            versions: Vec::new(),
        };
        let mut all = self.at_sources.0.lock().expect("nothing panics under it");
        all.entry(place.path.clone()).or_insert_with(|| Arc::new(known));
    }

    /// A place that may be opened.
    pub fn opened_place(&self, path: &SecretPath) -> Option<Secret> {
        let all = self.at_sources.0.lock().expect("nothing panics under it");
        all.get(path).map(|place| Secret::of(path, place))
    }

    /// What `path` is: a secret of the index, else a place that may be opened.
    pub(super) fn find<'a>(&self, index: &'a Index, path: &SecretPath) -> Result<Known<'a>, Error> {
        let missing = match index.find(path) {
            Ok(secret) => return Ok(Known::Secret(secret)),
            Err(error) => error,
        };
        // One that was removed hides whatever else would have its path.
        let is_free = !index.secrets.contains_key(path);
        let all = self.at_sources.0.lock().expect("nothing panics under it");
        let place = all.get(path).filter(|_| is_free).cloned();
        place.map(Known::Place).ok_or(missing)
    }
}

/// What the log calls a place: readable, and of this one alone.
fn path_of(source: &str, reference: &str) -> SecretPath {
    let digest = Sha256::new().chain_update(source).chain_update([0]).chain_update(reference);
    let mut mark = String::with_capacity(16);
    for byte in &digest.finalize()[..8] {
        write!(mark, "{byte:02x}").expect("a String takes everything");
    }
    let (source, readable) = (kebab(source), kebab(reference));
    let words = [source.as_str(), "/", readable.as_str()].concat();
    let words = words.trim_end_matches('/');
    SecretPath::parse(&format!("{PROJECT}/{words}-{mark}"))
        .or_else(|_| SecretPath::parse(&format!("{PROJECT}/place/{mark}")))
        .expect("a path of lower-kebab segments")
}

/// The letters and digits of a text, in words.
fn kebab(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut kebab = words.collect::<Vec<_>>().join("-");
    kebab.truncate(READABLE);
    kebab.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_a_path_of_its_own() {
        let path = |source: &str, reference: &str| path_of(source, reference).to_string();
        let readable = path("corp", "prod/db_Pass#value");
        assert!(readable.starts_with("at-source/corp/prod-db-pass-value-"), "{readable}");
        assert_ne!(path("corp", "prod/db"), path("corp", "prod-db"));
        assert_ne!(path("a", "b/c"), path("b", "b/c"));
        assert!(path("_-_", "_").starts_with("at-source/"));
        assert!(path("corp", &"long/".repeat(100)).len() < 140);
    }
}
