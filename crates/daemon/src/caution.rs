//! How cautious a session is beyond what its secrets say themselves: the operator's index and the project's
//! manifest may ask for a person more often, never less. What the project declares is what its runs are given.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use keyless_core::{ApproveOnUse, Code, Error, SafeText, SecretPath};
use keyless_vault::{IndexFile, Inventory, Manifest, Vault};
use parking_lot::Mutex;

/// What the index and a project's manifest say of a session's secrets.
#[derive(Clone, Debug, Default)]
pub struct Caution {
    /// The policies that were tightened, by path.
    policies: BTreeMap<SecretPath, ApproveOnUse>,
    /// The paths that the project declares.
    declared: BTreeSet<SecretPath>,
    /// Whether it declares any, be it in words that can't be read.
    is_of_project: bool,
}

impl Caution {
    /// What the index and the manifest say of the vault's secrets. Blocks to read the index.
    ///
    /// Fails with [`Code::ManifestInvalid`] when one of them can't be read: what it would have tightened is not
    /// known, so no session opens.
    pub async fn of(
        vault: &Vault,
        index_file: &Path,
        manifest: Option<&str>,
    ) -> Result<Self, Error> {
        let secrets = vault.list().await?;
        let index = IndexFile::load(index_file)?;
        let mut manifest = match manifest {
            Some(text) => parse(text)?,
            None => Manifest::default(),
        };
        let declared: BTreeSet<SecretPath> =
            manifest.required.union(&manifest.optional).cloned().collect();
        let is_of_project = !declared.is_empty() || !manifest.faults.is_empty();
        // The index counts for every secret, declared or not; so do the manifest's own words.
        let is_required = |path: &SecretPath| manifest.required.contains(path);
        let others: Vec<_> = secrets
            .iter()
            .map(|secret| secret.path.clone())
            .filter(|path| !is_required(path))
            .collect();
        manifest.optional.extend(others);
        let rows = Inventory::merge(&manifest, &index, &secrets).rows;
        let policies = rows.into_iter().map(|(path, row)| (path, row.approve_on_use));
        let policies = policies.filter(|(_, policy)| *policy != ApproveOnUse::Never).collect();
        Ok(Self { policies, declared, is_of_project })
    }

    /// The policy of `path`, of which its secret says `own`.
    pub(crate) fn tighten(&self, path: &SecretPath, own: ApproveOnUse) -> ApproveOnUse {
        self.policies.get(path).map_or(own, |more| own.tightened_by(*more))
    }

    /// Whether there is a project that declares secrets: its runs are given those and no others, unless they are named. A slip
    /// in its words gives no more.
    pub(crate) fn is_of_project(&self) -> bool {
        self.is_of_project
    }

    /// Whether the project declares `path`.
    pub(crate) fn declares(&self, path: &SecretPath) -> bool {
        self.declared.contains(path)
    }
}

/// The text of the manifest of the project that `folder` lies in. It is the agent's side that reads it,
/// with the agent's rights.
pub fn manifest_of(folder: &Path) -> Result<Option<String>, Error> {
    let Some(project) = Manifest::project_of(folder) else { return Ok(None) };
    Manifest::text_of(&project).map(Some)
}

/// Reads a manifest's text.
pub(crate) fn parse(text: &str) -> Result<Manifest, Error> {
    Manifest::parse(text).map_err(|fault| {
        let words = SafeText::words(".keyless/secrets.toml: ").as_they_wrote(&fault);
        Error::with(Code::ManifestInvalid, words)
    })
}

/// The manifest that was read last: an agent's tools send theirs with each question, mostly the same.
#[derive(Default)]
pub(crate) struct LastManifest(Mutex<Option<(String, Arc<Manifest>)>>);

impl LastManifest {
    /// As [`parse`]. One that can't be read is not kept.
    pub(crate) fn parse(&self, text: &str) -> Result<Arc<Manifest>, Error> {
        if let Some((same, manifest)) = &*self.0.lock()
            && same == text
        {
            return Ok(Arc::clone(manifest));
        }
        let manifest = Arc::new(parse(text)?);
        *self.0.lock() = Some((text.to_owned(), Arc::clone(&manifest)));
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_manifest_is_read_anew_once_it_says_something_else() {
        let last = LastManifest::default();
        let [one, other] = ["required = ['a/b/c']", "required = ['a/b/d']"];
        let read = last.parse(one).unwrap();
        assert!(Arc::ptr_eq(&read, &last.parse(one).unwrap()));
        assert_eq!(*last.parse(other).unwrap(), parse(other).unwrap());
        assert_eq!(last.parse("required = [").unwrap_err().code(), Code::ManifestInvalid);
        assert_eq!(*last.parse(one).unwrap(), *read);
    }

    /// A project that limits itself is not taken for one that does not.
    #[test]
    fn a_manifest_that_is_there_and_no_file_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(".keyless");
        fs::create_dir(&place).unwrap();
        let file = place.join("secrets.toml");
        let code = || manifest_of(folder.path()).err().map(|error| error.code());
        let invalid = Some(Code::ManifestInvalid);
        assert_eq!(code(), None);
        fs::create_dir(&file).unwrap();
        assert_eq!(code(), invalid, "a folder");
        fs::remove_dir(&file).unwrap();
        for target in ["nowhere", "/dev/zero"] {
            symlink(target, &file).unwrap();
            assert_eq!(code(), invalid, "{target}");
            fs::remove_file(&file).unwrap();
        }
        mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(code(), invalid, "nobody writes into it");
        fs::remove_file(&file).unwrap();
        fs::write(&file, vec![b'#'; 1024 * 1024 + 1]).unwrap();
        assert_eq!(code(), invalid, "more than is read");
        fs::write(&file, "required = []\n").unwrap();
        assert_eq!(manifest_of(folder.path()).unwrap().as_deref(), Some("required = []\n"));
    }
}
