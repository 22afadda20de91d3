//! The source `local`: sealed in the store, opened with the vault's key.
//!
//! The row must be the very one that the verified index means, and its label its own path and version.

use keyless_core::{Binding, Code, Error, SafeText, SecretPath, SecretValue};
use keyless_store::Store;

use super::{Reading, Source, refused, unavailable};
use crate::{
    index::IndexedVersion,
    key::{Purpose, VaultKey},
    seal,
};

/// The version in use of one secret.
pub(crate) struct LocalSource<'a> {
    pub(crate) store: &'a Store,
    pub(crate) key: &'a VaultKey,
    pub(crate) current: Option<&'a IndexedVersion>,
}

impl Source for LocalSource<'_> {
    async fn read(&self, path: &SecretPath, binding: Binding) -> Result<Reading, Error> {
        let Some(current) = self.current else {
            let words = SafeText::default().and(path).and(" has no value yet; set one");
            return Err(unavailable(words));
        };
        let row = self.store.version(path, current.version).await?;
        let row = row.filter(|row| current.fits(row)).ok_or(Code::StoreTampered)?;
        let label = seal::value_label(path, current.version);
        let bytes =
            seal::open(&self.key.derive(Purpose::Values), &label, &row.nonce, &row.ciphertext)
                .map_err(|_| Error::from(Code::StoreTampered))?;
        let value = SecretValue::new(path.clone(), bytes, binding);
        Ok(Reading {
            value: value.map_err(|why| refused(path, why))?,
            warnings: Vec::new(),
            instead: None,
        })
    }
}
