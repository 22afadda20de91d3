//! Where values are kept: one file per kind of source, all behind one trait.
//!
//! A secret's metadata names its source; the vault asks that one and no other. Every kind passes
//! the same suite (`source/suite.rs`). Source: design.md, section 3; reference/secrets.md, section 5.

mod aws;
mod backend;
mod bitwarden;
mod env;
mod environment;
mod file;
mod folder;
mod granted;
mod hashicorp;
mod http;
mod keepass;
mod keyring;
mod local;
mod mounted;
mod onepassword;
mod pass;
mod plugin;
mod program;
mod secrets_file;
#[cfg(test)]
mod suite;
mod supply;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use keyless_core::{Binding, Code, Error, SafeText, SecretPath, SecretValue, ValueError};

pub(crate) use self::{
    aws::{AwsService, AwsSource},
    backend::{Backend, Fetched, SourceFault},
    bitwarden::BitwardenSource,
    env::EnvSource,
    environment::EnvironmentSource,
    file::FileSource,
    folder::FolderSource,
    hashicorp::VaultSource,
    keepass::KeePassSource,
    keyring::KeyringSource,
    local::LocalSource,
    onepassword::OnePasswordSource,
    pass::PassSource,
    plugin::PluginSource,
    supply::Supply,
};
pub use self::{
    backend::{Answer, Capabilities, Held, State},
    file::drop_mark,
    http::{HttpAnswer, HttpFault, HttpRequest, MAX_ANSWER_BYTES, SourceHttp},
    keepass::read_anything as read_keepass,
    mounted::MountedValues,
    program::run_programs_with_open_files,
    secrets_file::{KEYLESS_SECRETS_FILE, SecretsFile, variables_with_value},
};
use crate::metadata::SourceConfig;

/// The largest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 64 * 1024;

/// A place where a value is kept.
pub(crate) trait Source {
    /// Fetches the value of `path`, fit for `binding`. [`Code::SecretUnavailable`] when it is not
    /// there, [`Code::ValueRefused`] when it does not fit.
    fn read(
        &self,
        path: &SecretPath,
        binding: Binding,
    ) -> impl Future<Output = Result<Reading, Error>> + Send;
}

/// A value and what the operator should know about how it came.
pub struct Reading {
    /// The value.
    pub value: SecretValue,
    /// For the operator, never for an agent.
    pub warnings: Vec<Warning>,
    /// The source that was asked in the stead of the secret's own, if one was; for the operator as well.
    pub instead: Option<String>,
}

/// Something that was put right while a value was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The file began with a byte order mark, which is not part of the value.
    ByteOrderMark {
        /// Which file.
        file: PathBuf,
    },
    /// The file ended with a line feed, which is not part of the value.
    TrailingNewline {
        /// Which file.
        file: PathBuf,
    },
}

/// What can be asked of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Its values can be fetched.
    Read,
    /// Values can be put there.
    Write,
}

/// A kind of source, as `keyless source list` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A variable of the broker's environment.
    Env,
    /// A file.
    File,
    /// The store.
    Local,
    /// A source of `sources.toml`.
    Routed,
}

impl SourceKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Env, Self::File, Self::Local, Self::Routed];

    /// The word in commands and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::File => "file",
            Self::Local => "local",
            Self::Routed => "routed",
        }
    }

    /// What can be asked of it.
    pub fn capabilities(self) -> &'static [Capability] {
        match self {
            // What a routed one can do, its source says.
            Self::Env | Self::File | Self::Routed => &[Capability::Read],
            Self::Local => &[Capability::Read, Capability::Write],
        }
    }
}

impl SourceConfig {
    /// The kind of this source.
    pub fn kind(&self) -> SourceKind {
        match self {
            Self::Env { .. } => SourceKind::Env,
            Self::File { .. } => SourceKind::File,
            Self::Local => SourceKind::Local,
            Self::Routed { .. } => SourceKind::Routed,
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("path", self.value.path()).finish_non_exhaustive()
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByteOrderMark { file } => {
                write!(f, "{} begins with a byte order mark, which was left out", file.display())
            }
            Self::TrailingNewline { file } => {
                write!(f, "{} ends with a newline, which was left out", file.display())
            }
        }
    }
}

/// Tells why a value was refused, naming its path.
pub(crate) fn refused(path: &SecretPath, why: ValueError) -> Error {
    Error::with(Code::ValueRefused, SafeText::default().and(path).and(": ").and(why))
}

/// Tells that a value is larger than [`MAX_VALUE_BYTES`].
pub(crate) fn too_large(path: &SecretPath) -> Error {
    let words = SafeText::default().and(path).and(": a value has at most 65536 bytes");
    Error::with(Code::ValueRefused, words)
}

fn unavailable(words: SafeText) -> Error {
    Error::with(Code::SecretUnavailable, words)
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}
