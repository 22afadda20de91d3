//! The `.env` file that `KEYLESS_SECRETS_FILE` names: where the source `env` looks after the environment.
//!
//! It is read anew for each value and never becomes part of this process's environment, so that no child inherits what
//! it holds. Only a private file of one's own is read, and an alias in it, as `keyless secret import` leaves them, is no
//! value. Source: reference/secrets.md, 5 and 18 (16).

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use keyless_core::{Code, Error, SafeText, alias};
use zeroize::Zeroizing;

use crate::{
    dotenv::{self, Assignment, Dotenv},
    plain_file::PlainFile,
};

/// Names a file of variables for the source `env`.
pub const KEYLESS_SECRETS_FILE: &str = "KEYLESS_SECRETS_FILE";
/// More than a file of variables has.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A file of variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretsFile(PathBuf);

impl SecretsFile {
    /// The one that this process's environment names.
    pub fn named() -> Option<Self> {
        let file = env::var_os(KEYLESS_SECRETS_FILE).filter(|file| !file.is_empty())?;
        Some(Self::new(Path::new(&file)))
    }

    /// The one at `file`.
    pub fn new(file: &Path) -> Self {
        Self(std::path::absolute(file).unwrap_or_else(|_| file.to_owned()))
    }

    /// Where it is.
    pub fn place(&self) -> &Path {
        &self.0
    }

    /// What no agent gets to see: the file, and what it links to.
    pub fn files(&self) -> Vec<PathBuf> {
        let target = fs::canonicalize(&self.0).ok().filter(|target| *target != self.0);
        std::iter::once(self.0.clone()).chain(target).collect()
    }

    /// Reads it. [`Code::KeyFileUnsafe`] unless it is a regular file of the caller's own that nobody else may open,
    /// [`Code::PathUnusable`] when it is not there or no text. Blocks.
    pub fn read(&self) -> Result<Dotenv, Error> {
        let unusable = |why: SafeText| Error::with(Code::PathUnusable, self.named_as().and(why));
        let fault = |error: io::Error| match error.kind() {
            io::ErrorKind::FileTooLarge => unusable(SafeText::words(" has more than 4 MiB")),
            kind => unusable(SafeText::words(": ").and(kind)),
        };
        let opened = PlainFile::open(&self.0).map_err(fault)?;
        opened
            .check_private(&self.0)
            .map_err(|error| Error::with(error.code(), variable().and(error.detail().clone())))?;
        Ok(dotenv::read(&opened.text(MAX_BYTES).map_err(fault)?))
    }

    /// The value of the first of `names` that has one. Fails as [`read`](Self::read) does. Blocks.
    pub(super) fn value(&self, names: &[&str]) -> Result<Option<Zeroizing<String>>, Error> {
        let read = self.read()?;
        let found = names.iter().find_map(|name| value_of(&read, name));
        Ok(found.map(|one| one.value.clone()))
    }

    fn named_as(&self) -> SafeText {
        variable().as_they_wrote(&self.0.to_string_lossy())
    }
}

/// The variables of a file that have a value.
pub fn variables_with_value(read: &Dotenv) -> impl Iterator<Item = &str> {
    let names = read.assignments.iter().map(|one| one.name.as_str());
    names.filter(|name| value_of(read, name).is_some())
}

/// Of one name the last counts, as for everything that reads such files.
fn value_of<'a>(read: &'a Dotenv, name: &str) -> Option<&'a Assignment> {
    let last = read.assignments.iter().rev().find(|one| one.name == name)?;
    (!last.value.is_empty() && alias(&last.value).is_none()).then_some(last)
}

fn variable() -> SafeText {
    SafeText::words(KEYLESS_SECRETS_FILE).and(" names ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_a_private_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("vars");
        let file = SecretsFile::new(&place);
        let why = || file.read().map(|_| ()).unwrap_err();
        assert_eq!(why().code(), Code::PathUnusable);
        fs::write(&place, "A=1\n").unwrap();
        let mode = |mode| fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
        for open in [0o644, 0o640, 0o602] {
            mode(open);
            assert_eq!(why().code(), Code::KeyFileUnsafe, "{open:o}");
            assert!(why().message().contains("KEYLESS_SECRETS_FILE names "), "{}", why().message());
        }
        mode(0o600);
        assert_eq!(file.read().unwrap().assignments.len(), 1);
        fs::write(&place, b"A=\xff\n").unwrap();
        assert_eq!(why().code(), Code::PathUnusable);
        let nowhere = SecretsFile::new(folder.path());
        assert_eq!(nowhere.read().map(|_| ()).unwrap_err().code(), Code::KeyFileUnsafe);
        let link = folder.path().join("link");
        symlink(&place, &link).unwrap();
        let target = fs::canonicalize(&place).unwrap();
        assert_eq!(SecretsFile::new(&link).files(), [link, target]);
    }

    #[test]
    fn the_last_value_counts_and_an_alias_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("vars");
        fs::write(&place, "A=1\nB='two'\nA=3\nC=\nD=@secret:team/api/token\nwhat\n").unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o600)).unwrap();
        let file = SecretsFile::new(&place);
        let value =
            |names: &[&str]| file.value(names).unwrap().map(|value| value.as_str().to_owned());
        assert_eq!(value(&["A"]), Some("3".to_owned()));
        assert_eq!(value(&["C", "D", "B", "A"]), Some("two".to_owned()));
        assert_eq!(value(&["C"]), None);
        let read = file.read().unwrap();
        assert_eq!(variables_with_value(&read).collect::<Vec<_>>(), ["A", "B", "A"]);
        assert_eq!(read.unread, [6]);
    }
}
