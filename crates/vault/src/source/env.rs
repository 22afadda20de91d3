//! The source `env`: a variable of the broker's own environment.
//!
//! Looked up by the exact name that the operator gave; no guessing of names. An agent can't set
//! the broker's environment.

use std::{env, ffi::OsString, os::unix::ffi::OsStringExt};

use keyless_core::{Binding, Error, SafeText, SecretPath, SecretValue};

use super::{MAX_VALUE_BYTES, Reading, Source, refused, too_large, unavailable};
use crate::metadata::EnvName;

/// One variable.
pub(crate) struct EnvSource<'a> {
    variable: &'a EnvName,
    lookup: fn(&str) -> Option<OsString>,
}

impl<'a> EnvSource<'a> {
    /// The variable in this process's environment.
    pub(crate) fn new(variable: &'a EnvName) -> Self {
        Self { variable, lookup: |name| env::var_os(name) }
    }

    /// The variable in an environment of the test's own.
    #[cfg(test)]
    pub(super) fn looked_up_by(
        variable: &'a EnvName,
        lookup: fn(&str) -> Option<OsString>,
    ) -> Self {
        Self { variable, lookup }
    }
}

impl Source for EnvSource<'_> {
    async fn read(&self, path: &SecretPath, binding: Binding) -> Result<Reading, Error> {
        let Some(found) = (self.lookup)(self.variable.as_str()) else {
            let words = SafeText::words("the broker's environment has no variable ");
            return Err(unavailable(words.as_they_wrote(self.variable.as_str())));
        };
        let bytes = found.into_vec();
        if bytes.len() > MAX_VALUE_BYTES {
            return Err(too_large(path));
        }
        let value = SecretValue::new(path.clone(), bytes, binding);
        Ok(Reading { value: value.map_err(|why| refused(path, why))?, warnings: Vec::new() })
    }
}
