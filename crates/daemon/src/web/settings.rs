//! `[web]` of config.toml: what the operator wants of their page.

use std::path::PathBuf;

use keyless_core::Error;
use keyless_egress::{ServerFiles, ServerTls};
use serde::Deserialize;

/// `[web]`. Read at each answer, but for `tls`: that is read when the page begins to listen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebConfig {
    /// Which answers take the operator's factor once more.
    pub prove_again: ProveAgain,
    /// Whom to show to be, where the page is served over TLS.
    pub tls: Option<WebTls>,
}

/// Answers that take the factor, though the operator has signed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProveAgain {
    /// Each that gives an agent something or changes a secret, however lately it was proven.
    Always,
    /// What overwrites a value, what lets one go further, and uses that are asked about each time; not within five
    /// minutes of the last proof.
    #[default]
    Grave,
}

/// `[web.tls]`. Files that change are taken up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebTls {
    /// A chain in PEM, for `localhost`.
    pub certificate: PathBuf,
    /// Its key in PEM.
    pub key: PathBuf,
}

impl WebTls {
    /// Reads the files; `Code::ConfigInvalid` says which can't be used.
    pub(super) fn load(&self) -> Result<ServerTls, Error> {
        let Self { certificate, key } = self.clone();
        ServerTls::load(ServerFiles { certificate, key, client_ca: None })
    }
}
