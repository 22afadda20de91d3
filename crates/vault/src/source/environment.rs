//! The source `env`, by the path of a secret: for machines without a store, such as CI.
//!
//! Looked up is `KEYLESS_SECRET__TEAM__API__TOKEN` for `team/api/token`: `/` becomes two underscores
//! and `-` one, which no two paths share, since neither has two hyphens in a row. Where the operator's `index.toml` names a
//! variable, and that one is set, it goes before.

use std::{collections::BTreeMap, ffi::OsString, os::unix::ffi::OsStringExt};

use keyless_core::SecretPath;
use toml::Table;
use zeroize::Zeroizing;

use super::{
    backend::{Answer, Backend, Capabilities, Fetched, SourceFault, State},
    supply::Supply,
};
use crate::metadata::EnvName;

/// This process's environment.
pub(crate) struct EnvironmentSource {
    /// The variables that the operator has named.
    variables: BTreeMap<SecretPath, EnvName>,
}

impl EnvironmentSource {
    pub(crate) fn new(variables: BTreeMap<SecretPath, EnvName>) -> Self {
        Self { variables }
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
        Box::pin(async { State::Available })
    }

    fn get<'a>(
        &'a self,
        reference: &'a str,
        _: &'a Supply,
    ) -> Answer<'a, Result<Option<Fetched>, SourceFault>> {
        Box::pin(async move {
            Ok(set(reference)
                .map(|value| Fetched { bytes: Zeroizing::new(value.into_vec()), lease: None }))
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
