//! The source `env`, by the path of a secret: for machines without a store, such as CI.
//!
//! Looked up is `KEYLESS_SECRET__TEAM__API__TOKEN` for `team/api/token`: `/` becomes two underscores
//! and `-` one, which no two paths share, since neither has two hyphens in a row. Where the operator's `index.toml` names a
//! variable, and that one is set, it goes before. What the environment has under neither name is looked for under both in
//! the file that `KEYLESS_SECRETS_FILE` names.

use std::{collections::BTreeMap, ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

use keyless_core::SecretPath;
use tokio::task::spawn_blocking;
use toml::Table;
use zeroize::Zeroizing;

use super::{
    backend::{Answer, Backend, Capabilities, Fetched, SourceFault, State},
    secrets_file::SecretsFile,
    supply::Supply,
};
use crate::metadata::EnvName;

/// This process's environment, and the file that it names.
pub(crate) struct EnvironmentSource {
    /// The variables that the operator has named.
    variables: BTreeMap<SecretPath, EnvName>,
    file: Option<SecretsFile>,
}

impl EnvironmentSource {
    pub(crate) fn new(variables: BTreeMap<SecretPath, EnvName>, file: Option<SecretsFile>) -> Self {
        Self { variables, file }
    }

    /// What the file is asked for when the environment has nothing under `reference`.
    fn names(&self, reference: &str) -> Vec<String> {
        let named = self.variables.iter().find(|(path, _)| variable(path) == reference);
        named.map(|(_, name)| name.to_string()).into_iter().chain([reference.to_owned()]).collect()
    }
}

impl Backend for EnvironmentSource {
    fn capabilities(&self) -> Capabilities {
        Capabilities::READ
    }

    fn reference(&self, path: &SecretPath, _rest: &str, _: Option<&Table>) -> String {
        let named = self.variables.get(path).map(EnvName::as_str);
        let named = named.filter(|name| set(name).is_some());
        named.map_or_else(|| variable(path), str::to_owned)
    }

    fn state<'a>(&'a self, _: &'a Supply) -> Answer<'a, State> {
        Box::pin(async move {
            let Some(file) = self.file.clone() else { return State::Available };
            let read = spawn_blocking(move || file.read().is_ok());
            if read.await.expect("reading a file does not panic") {
                State::Available
            } else {
                State::Unavailable
            }
        })
    }

    fn files(&self) -> Vec<PathBuf> {
        self.file.iter().flat_map(SecretsFile::files).collect()
    }

    fn get<'a>(
        &'a self,
        reference: &'a str,
        _: &'a Supply,
    ) -> Answer<'a, Result<Option<Fetched>, SourceFault>> {
        Box::pin(async move {
            let fetched = |bytes| Some(Fetched { bytes: Zeroizing::new(bytes), lease: None });
            if let Some(value) = set(reference) {
                return Ok(fetched(value.into_vec()));
            }
            let Some(file) = self.file.clone() else { return Ok(None) };
            let names = self.names(reference);
            let reading = spawn_blocking(move || {
                file.value(&names.iter().map(String::as_str).collect::<Vec<_>>())
            });
            let found = reading.await.expect("reading a file does not panic");
            let found = found.map_err(|error| SourceFault {
                state: State::Unavailable,
                words: error.detail().clone(),
            })?;
            Ok(found.and_then(|mut value| fetched(std::mem::take(&mut *value).into_bytes())))
        })
    }
}

/// What the variable holds, if anything.
fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn variable(path: &SecretPath) -> String {
    let name = path.as_str().to_ascii_uppercase().replace('-', "_").replace('/', "__");
    format!("KEYLESS_SECRET__{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_variables_of_their_own() {
        let name = |text: &str| variable(&SecretPath::parse(text).unwrap());
        assert_eq!(name("team/api/token"), "KEYLESS_SECRET__TEAM__API__TOKEN");
        assert_ne!(name("team/a-b/c"), name("team/a/b/c"));
    }
}
