//! The source `env`: a variable of the broker's own environment, else of the file that `KEYLESS_SECRETS_FILE` names.
//!
//! Looked up by the exact name that the operator gave; no guessing of names. An agent can't set
//! the broker's environment.

use std::{env, ffi::OsString, os::unix::ffi::OsStringExt};

use keyless_core::{Binding, Error, SafeText, SecretPath, SecretValue};
use tokio::task::spawn_blocking;

use super::{
    MAX_VALUE_BYTES, Reading, Source, refused, secrets_file::SecretsFile, too_large, unavailable,
};
use crate::metadata::EnvName;

/// One variable.
pub(crate) struct EnvSource<'a> {
    variable: &'a EnvName,
    lookup: fn(&str) -> Option<OsString>,
    file: Option<SecretsFile>,
}

impl<'a> EnvSource<'a> {
    /// The variable in this process's environment, or in the file that it names.
    pub(crate) fn new(variable: &'a EnvName) -> Self {
        Self { variable, lookup: |name| env::var_os(name), file: SecretsFile::named() }
    }

    /// The variable in an environment of the test's own.
    #[cfg(test)]
    pub(super) fn looked_up_by(
        variable: &'a EnvName,
        lookup: fn(&str) -> Option<OsString>,
    ) -> Self {
        Self { variable, lookup, file: None }
    }

    async fn in_file(&self) -> Result<Option<OsString>, Error> {
        let Some(file) = self.file.clone() else { return Ok(None) };
        let name = self.variable.clone();
        let reading = spawn_blocking(move || file.value(&[name.as_str()]));
        let found = reading.await.expect("reading a file does not panic");
        let found = found.map_err(|error| unavailable(error.detail().clone()))?;
        Ok(found.map(|mut value| std::mem::take(&mut *value).into()))
    }
}

impl Source for EnvSource<'_> {
    async fn read(&self, path: &SecretPath, binding: Binding) -> Result<Reading, Error> {
        let set = (self.lookup)(self.variable.as_str());
        let found = match &set {
            Some(value) if !value.is_empty() => set,
            // What is set to nothing is refused as what it is, unless the file has a value.
            _ => self.in_file().await?.or(set),
        };
        let Some(found) = found else {
            let words = SafeText::words("the broker's environment has no variable ");
            let words = words.as_they_wrote(self.variable.as_str());
            return Err(unavailable(match &self.file {
                Some(file) => words
                    .and(", and neither has the file ")
                    .as_they_wrote(&file.place().to_string_lossy()),
                None => words,
            }));
        };
        let bytes = found.into_vec();
        if bytes.len() > MAX_VALUE_BYTES {
            return Err(too_large(path));
        }
        let value = SecretValue::new(path.clone(), bytes, binding);
        Ok(Reading {
            value: value.map_err(|why| refused(path, why))?,
            warnings: Vec::new(),
            instead: None,
        })
    }
}
