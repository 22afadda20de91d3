//! A file with a private root, read once: the bytes that somebody agreed to are the bytes that are trusted.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use keyless_vault::read_settings;
use serde::Deserialize;

use crate::places::unusable;

/// A PEM file that config.toml or the command line names. Clones share what was read of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "PathBuf")]
pub struct RootFile {
    path: PathBuf,
    pem: Arc<OnceLock<Result<Vec<u8>, Unread>>>,
}

/// Why it could not be read, for each who asks.
type Unread = (io::ErrorKind, String);

impl RootFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What stood there when it was first asked for. Blocks.
    pub(crate) fn pem(&self) -> Result<&[u8], keyless_core::Error> {
        let read = || read_settings(&self.path).map_err(|error| (error.kind(), error.to_string()));
        match self.pem.get_or_init(read) {
            Ok(pem) => Ok(pem),
            Err((kind, words)) => Err(unusable(&self.path, &io::Error::new(*kind, words.clone()))),
        }
    }
}

impl From<PathBuf> for RootFile {
    fn from(path: PathBuf) -> Self {
        Self { path, pem: Arc::default() }
    }
}

impl PartialEq for RootFile {
    /// Whether both are the same file, whatever stood there.
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for RootFile {}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// Whoever may write it must not be able to hold the broker up, or to fill its memory.
    #[test]
    fn what_is_no_file_is_neither_waited_for_nor_read_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root.pem");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let told = RootFile::from(path.clone()).pem().unwrap_err().to_string();
        assert!(told.contains("it is no regular file"), "{told}");
        fs::remove_file(&path).unwrap();
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(RootFile::from(path).pem().is_err());
    }

    #[test]
    fn what_was_looked_at_is_what_is_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root.pem");
        let (file, missing) = (RootFile::from(path.clone()), RootFile::from(path.clone()));
        assert!(missing.pem().is_err());
        fs::write(&path, "first").unwrap();
        let shown = file.clone();
        assert_eq!(shown.pem().unwrap(), b"first");
        fs::write(&path, "second").unwrap();
        assert_eq!(file.pem().unwrap(), b"first");
        assert!(missing.pem().is_err(), "what is not there is not there for all who look");
        assert_eq!(RootFile::from(path).pem().unwrap(), b"second");
    }
}
