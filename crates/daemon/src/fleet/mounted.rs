//! The mounted files as a source of a session's values, by the catalog that is in force.
//!
//! Values that change together are in force together: what lies in the files is read ahead, and taken up in one step. A file
//! that can't be used any more (a mount that hangs, a bad value) leaves its last good value in
//! use; health and metrics say so. What is to end, is taken out of the catalog.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::BoxFuture;
use keyless_core::{Code, Error, SafeText, SecretPath, SecretValue};
use keyless_vault::{Catalog, CatalogEntry, MountedValues};
use parking_lot::{Mutex, RwLock};

use crate::values::Values;

/// The mounted files.
pub(super) struct Mounted {
    values: MountedValues,
    catalog: RwLock<Arc<Catalog>>,
    /// The last good value of each file, of the catalog's secrets alone.
    good: Mutex<HashMap<SecretPath, SecretValue>>,
    /// How often values were taken up.
    taken_up: AtomicU64,
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
        let (catalog, good) = (RwLock::new(Arc::new(catalog)), Mutex::default());
        Self { values, catalog, good, taken_up: AtomicU64::default() }
    }

    /// The catalog in force.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read())
    }

    /// Takes up another catalog, with the values that it was found good with.
    pub(super) fn replace(&self, catalog: Catalog, values: &[SecretValue]) {
        let stays = |path: &SecretPath| catalog.entries.iter().any(|entry| entry.path == *path);
        self.good.lock().retain(|path, _| stays(path));
        self.put_in_force(values);
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

    /// These are in force from now on, all at once.
    pub(super) fn put_in_force(&self, values: &[SecretValue]) {
        let mut good = self.good.lock();
        for value in values {
            good.insert(value.path().clone(), value.copy_for_cache());
        }
        self.taken_up.fetch_add(1, Ordering::AcqRel);
    }

    /// The value that lies in the file of `path` now, which is not in force by that.
    pub(super) async fn read(&self, path: &SecretPath) -> Result<SecretValue, Error> {
        Ok(self.values.read(&self.entry(path)?).await?.value)
    }

    fn entry(&self, path: &SecretPath) -> Result<CatalogEntry, Error> {
        let catalog = self.catalog();
        let entry = catalog.entries.iter().find(|entry| entry.path == *path).cloned();
        entry.ok_or_else(|| not_found(path))
    }
}

fn not_found(path: &SecretPath) -> Error {
    Error::with(Code::SecretNotFound, SafeText::default().and(path))
}

impl Values for Mounted {
    fn open<'a>(&'a self, path: &'a SecretPath) -> BoxFuture<'a, Result<SecretValue, Error>> {
        Box::pin(async move {
            // One that has left the catalog has none.
            let good = self.good.lock().get(path).map(SecretValue::copy_for_cache);
            good.ok_or_else(|| not_found(path))
        })
    }

    fn closings(&self) -> u64 {
        self.taken_up.load(Ordering::Acquire)
    }
}
