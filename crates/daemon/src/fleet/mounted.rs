//! The mounted files as a source of a session's values, by the catalog that is in force.
//!
//! A file that can't be used any more (a mount that hangs, a bad value) leaves its last good value in
//! use; health and metrics say so. What is to end, is taken out of the catalog.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use keyless_core::{Code, Error, SafeText, SecretPath, SecretValue};
use keyless_vault::{Catalog, CatalogEntry, MountedValues};
use parking_lot::{Mutex, RwLock};

use crate::values::Values;

/// The mounted files.
pub(super) struct Mounted {
    values: MountedValues,
    catalog: RwLock<Arc<Catalog>>,
    /// The last good value of each file.
    good: Mutex<HashMap<SecretPath, SecretValue>>,
}

/// What a catalog was found to come to.
#[derive(Default)]
pub(super) struct Checked {
    /// What is to be said of the values.
    pub(super) warnings: Vec<String>,
    /// The value of each secret.
    pub(super) values: Vec<SecretValue>,
}

impl Mounted {
    pub(super) fn new(values: MountedValues, catalog: Catalog) -> Self {
        Self { values, catalog: RwLock::new(Arc::new(catalog)), good: Mutex::default() }
    }

    /// The catalog in force.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read())
    }

    /// Takes up another catalog, with the values that it was found good with.
    pub(super) fn replace(&self, catalog: Catalog, values: &[SecretValue]) {
        let stays = |path: &SecretPath| catalog.entries.iter().any(|entry| entry.path == *path);
        self.good.lock().retain(|path, _| stays(path));
        self.remember_all(values);
        *self.catalog.write() = Arc::new(catalog);
    }

    /// The files in which the values of `catalog` lie, with their secrets.
    pub(super) fn files(&self, catalog: &Catalog) -> Vec<(PathBuf, SecretPath)> {
        let place = |entry: &CatalogEntry| (self.values.file(entry), entry.path.clone());
        catalog.entries.iter().map(place).collect()
    }

    /// Fetches every value of `catalog` once, so that one that can't be used is told before it is
    /// needed. Changes nothing: the catalog may still be refused.
    pub(super) async fn check(&self, catalog: &Catalog) -> Result<Checked, Error> {
        let mut checked = Checked::default();
        for entry in &catalog.entries {
            let reading = self.values.read(entry).await?;
            checked.warnings.extend(reading.warnings.iter().map(ToString::to_string));
            checked.values.push(reading.value);
        }
        Ok(checked)
    }

    /// Each is the last good one of its file from now on.
    pub(super) fn remember_all(&self, values: &[SecretValue]) {
        for value in values {
            self.remember(value);
        }
    }

    /// Fetches the value of `path` once.
    pub(super) async fn check_one(&self, path: &SecretPath) -> Result<(), Error> {
        let entry = self.entry(path)?;
        let reading = self.values.read(&entry).await?;
        self.remember(&reading.value);
        Ok(())
    }

    fn entry(&self, path: &SecretPath) -> Result<CatalogEntry, Error> {
        let catalog = self.catalog();
        let entry = catalog.entries.iter().find(|entry| entry.path == *path).cloned();
        entry.ok_or_else(|| Error::with(Code::SecretNotFound, SafeText::default().and(path)))
    }

    fn remember(&self, value: &SecretValue) {
        self.good.lock().insert(value.path().clone(), value.copy_for_cache());
    }
}

impl Values for Mounted {
    fn open<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<SecretValue, Error>> {
        Box::pin(async move {
            let entry = self.entry(path)?;
            match self.values.read(&entry).await {
                Ok(reading) => {
                    self.remember(&reading.value);
                    Ok(reading.value)
                }
                Err(error) => {
                    self.good.lock().get(path).map(SecretValue::copy_for_cache).ok_or(error)
                }
            }
        })
    }
}
