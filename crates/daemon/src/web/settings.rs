//! `[web]` of config.toml: what the operator wants of their page, and of the screen in a terminal beside it.

use std::path::PathBuf;

use keyless_core::Error;
use keyless_egress::{ServerFiles, ServerTls};
use serde::Deserialize;

use crate::operator::ProveAgain;

/// `[web]`. Read at each answer, but for `tls`: that is read when the page begins to listen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebConfig {
    /// Which answers take the operator's factor once more, here and at the screen.
    pub prove_again: ProveAgain,
    /// The certificate and key to serve the page with, where that is over TLS.
    pub tls: Option<WebTls>,
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
