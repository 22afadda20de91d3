//! Values as Kubernetes mounts them: `DIR/NAME/KEY`, for the fleet's proxy.
//!
//! Kubernetes updates a mount by turning a symbolic link, so links are followed and every read
//! looks anew. Names come from a checked catalog and can't lead out of the directory by `..`.

use std::path::{Path, PathBuf};

use keyless_core::{Binding, Error, SecretPath};

use super::{FileSource, Reading, Source};
use crate::catalog::CatalogEntry;

/// The directory in which secrets are mounted.
#[derive(Clone, Debug)]
pub struct MountedValues {
    directory: PathBuf,
}

impl MountedValues {
    /// The mounts below `directory`.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Reads the value of one entry. `Code::SecretUnavailable` names the file that is missing,
    /// `Code::ValueRefused` says why what is there can't be used.
    pub async fn read(&self, entry: &CatalogEntry) -> Result<Reading, Error> {
        let file = self.file(entry);
        MountedSource { file: &file }.read(&entry.path, entry.rule.binding()).await
    }

    /// Where the value of one entry lies.
    pub fn file(&self, entry: &CatalogEntry) -> PathBuf {
        self.directory.join(entry.secret.name()).join(entry.secret.key())
    }
}

/// One mounted key.
pub(super) struct MountedSource<'a> {
    pub(super) file: &'a Path,
}

impl Source for MountedSource<'_> {
    async fn read(&self, path: &SecretPath, binding: Binding) -> Result<Reading, Error> {
        FileSource::new(self.file).read(path, binding).await
    }
}
