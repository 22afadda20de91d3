//! The mounted files as a source of a session's values, by the catalog that is in force.

use std::{path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use keyless_core::{Code, Error, SafeText, SecretPath, SecretValue};
use keyless_vault::{Catalog, CatalogEntry, MountedValues};
use parking_lot::RwLock;

use crate::values::Values;

/// The mounted files.
pub(super) struct Mounted {
    values: MountedValues,
    catalog: RwLock<Arc<Catalog>>,
}

impl Mounted {
    pub(super) fn new(values: MountedValues, catalog: Catalog) -> Self {
        Self { values, catalog: RwLock::new(Arc::new(catalog)) }
    }

    /// The catalog in force.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read())
    }

    /// Takes up another catalog.
    pub(super) fn replace(&self, catalog: Catalog) {
        *self.catalog.write() = Arc::new(catalog);
    }

    /// The files in which the values of `catalog` lie, with their secrets.
    pub(super) fn files(&self, catalog: &Catalog) -> Vec<(PathBuf, SecretPath)> {
        let place = |entry: &CatalogEntry| (self.values.file(entry), entry.path.clone());
        catalog.entries.iter().map(place).collect()
    }

    /// Fetches every value of `catalog` once, so that one that can't be used is told before it is
    /// needed. Gives warnings.
    pub(super) async fn check(&self, catalog: &Catalog) -> Result<Vec<String>, Error> {
        let mut warnings = Vec::new();
        for entry in &catalog.entries {
            let reading = self.values.read(entry).await?;
            warnings.extend(reading.warnings.iter().map(ToString::to_string));
        }
        Ok(warnings)
    }

    /// Fetches the value of `path` once.
    pub(super) async fn check_one(&self, path: &SecretPath) -> Result<(), Error> {
        self.open(path).await.map(drop)
    }
}

impl Values for Mounted {
    fn open<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<SecretValue, Error>> {
        Box::pin(async move {
            let catalog = self.catalog();
            let entry = catalog.entries.iter().find(|entry| entry.path == *path);
            let entry = entry
                .ok_or_else(|| Error::with(Code::SecretNotFound, SafeText::default().and(path)))?;
            self.values.read(entry).await.map(|reading| reading.value)
        })
    }
}
