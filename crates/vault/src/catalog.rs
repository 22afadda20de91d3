//! The fleet's catalog: which mounted secrets a proxy may swap, and toward where.
//!
//! ```yaml
//! apiVersion: keyless.dev/v1alpha1
//! kind: SecretProxy
//! spec:
//!   secrets:
//!     - env: GITHUB_TOKEN
//!       secretRef: { name: github, key: token }
//!       egressTo: [api.github.com, github.com]
//!   internal: { allowlist: ["inference:8080"] }
//!   egress: { policy: allow }
//! ```
//!
//! Parsing is pure and strict: unknown keys, doubled names and hosts that anybody can register are
//! refused, with the line and what to do. Values are not here: see `source/mounted.rs`. Source:
//! design.md, section 6; spec/egress-secret-proxy.md.

mod check;
mod fault;
mod mounted_ref;
mod preset;
mod rules;
mod yaml;

use std::{io, mem, path::Path};

use keyless_core::{Authority, EgressRule, SecretPath};

pub use self::{
    fault::{CatalogError, CatalogFault},
    mounted_ref::MountedRef,
    preset::{Preset, PresetError, PresetInfo},
};
use crate::{
    metadata::{EnvName, PlaceholderShape},
    plain_file::PlainFile,
};

/// The largest catalog, in bytes.
pub const MAX_CATALOG_BYTES: usize = 1024 * 1024;

/// A catalog that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// The resource's name, if it has one.
    pub name: Option<String>,
    /// In the order of the file.
    pub entries: Vec<CatalogEntry>,
    /// The exact internal destinations that may be reached.
    pub internal: Vec<Authority>,
    /// What may be reached at all.
    pub policy: EgressPolicy,
}

/// One secret of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogEntry {
    /// `fleet/NAME/KEY`, folded to lower-kebab: its name in placeholders and the audit log.
    pub path: SecretPath,
    /// The environment variable in which the guest finds the placeholder.
    pub env: EnvName,
    /// Where the value is mounted.
    pub secret: MountedRef,
    /// Where the value may go, and where in a request.
    pub rule: EgressRule,
    /// What the placeholder looks like.
    pub placeholder: PlaceholderShape,
}

/// What may be reached at all. Values go only to their own destinations either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EgressPolicy {
    /// Any external destination, and the internal ones that are listed.
    #[default]
    Allow,
    /// Only the destinations of the secrets, and the internal ones that are listed.
    Allowlist,
}

/// Parses a catalog. Pure, and bounded in time and memory for any text.
pub fn parse_catalog(text: &str) -> Result<Catalog, CatalogError> {
    check::check(yaml::parse(text)?)
}

impl Catalog {
    /// Reads the catalog at `file`; the error names the file. Blocks.
    pub fn load(file: &Path) -> Result<Self, CatalogError> {
        let text = read(file).map_err(|fault| CatalogError::whole(fault).in_file(file))?;
        parse_catalog(&text).map_err(|error| error.in_file(file))
    }
}

/// Without waiting: a reload that a FIFO holds up would be the last.
fn read(file: &Path) -> Result<String, CatalogFault> {
    let read = PlainFile::open(file).and_then(|opened| opened.text(MAX_CATALOG_BYTES));
    match read {
        Ok(mut text) => Ok(mem::take(&mut *text)),
        Err(error) => Err(match error.kind() {
            PlainFile::NO_FILE => CatalogFault::NoFile,
            io::ErrorKind::FileTooLarge => CatalogFault::TooLarge,
            kind => CatalogFault::Unreadable(kind),
        }),
    }
}

#[cfg(test)]
mod tests;
