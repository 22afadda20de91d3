//! The file with what programs have to trust: the authority's certificate, of which there is another from time to time.

use std::path::{Path, PathBuf};

use keyless_core::Error;
use parking_lot::Mutex;

use crate::{places::unusable, whole_file::write_whole};

/// The file, and what was written there last.
pub(super) struct TrustFile {
    path: PathBuf,
    written: Mutex<String>,
}

impl TrustFile {
    pub(super) fn create(path: PathBuf, pem: String) -> Result<Self, Error> {
        let file = Self { path, written: Mutex::default() };
        file.renew(pem).map(|()| file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes another certificate, if it is another.
    pub(super) fn renew(&self, pem: String) -> Result<(), Error> {
        let mut written = self.written.lock();
        if *written != pem {
            write_whole(&self.path, pem.as_bytes(), 0o644)
                .map_err(|error| unusable(&self.path, &error))?;
            *written = pem;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn another_certificate_takes_the_place_of_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = TrustFile::create(folder.path().join("ca.pem"), "one".to_owned()).unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "one");
        file.renew("two".to_owned()).unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "two");
        // One that could not be written is tried again.
        fs::remove_dir_all(folder.path()).unwrap();
        assert!(file.renew("three".to_owned()).is_err());
        file.renew("two".to_owned()).unwrap();
        fs::create_dir(folder.path()).unwrap();
        file.renew("three".to_owned()).unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "three");
    }
}
