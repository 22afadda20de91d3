//! What can be wrong with a catalog, where it stands, and what to do about it.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use keyless_core::{
    AuthorityError, Code, DestinationError, Error, InjectionError, LookAlikeError, OauthGrantError,
    PathError, RequestRuleError, SafeText, SealingError, SignerError,
};

use super::preset::PresetError;
use crate::metadata::EnvNameError;

/// A fault at a place in a catalog.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct CatalogError {
    file: Option<PathBuf>,
    /// Line and column, both from 1.
    place: Option<(u64, u64)>,
    /// What is wrong.
    #[source]
    fault: CatalogFault,
}

/// What is wrong. Each text ends with what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogFault {
    /// `internal.allowlist` has something that is no `host:port`.
    #[error("`{text}` is no exact host:port: {why}; write it as in `inference:8080`")]
    Allowlist {
        /// What stands there.
        text: String,
        /// Why not.
        why: AuthorityError,
    },
    /// `apiVersion` or `kind` is another one.
    #[error("`{found}` is not known here; write `{expected}`")]
    ApiVersion {
        /// What stands there.
        found: String,
        /// What should.
        expected: &'static str,
    },
    /// A destination that is none, or that anybody could own.
    #[error("`{text}` is no destination: {why}; name the host that the secret is for")]
    Destination {
        /// What stands there.
        text: String,
        /// Why not.
        why: DestinationError,
    },
    /// Two entries for one variable.
    #[error("the variable `{env}` is taken by the entry in line {line}; give each its own")]
    DuplicateEnv {
        /// The variable.
        env: String,
        /// The first entry's line.
        line: u64,
    },
    /// Two entries for one mounted secret, as it is known to the log.
    #[error("`{path}` is taken by the entry in line {line}; list each secret once")]
    DuplicateSecret {
        /// The folded path.
        path: String,
        /// The first entry's line.
        line: u64,
    },
    /// A variable that is none.
    #[error("`{text}` is no variable: {why}; choose another name")]
    Env {
        /// What stands there.
        text: String,
        /// Why not.
        why: EnvNameError,
    },
    /// A variable with which the agent would reach nothing, were a placeholder in it.
    #[error(
        "`{text}` is how agents are led to Keyless or trust it, so it can't hold a placeholder; choose another name"
    )]
    EnvOfSessions {
        /// What stands there.
        text: String,
    },
    /// `oauth` names no grant.
    #[error("`{text}` is no grant: {why}")]
    Grant {
        /// What stands there.
        text: String,
        /// Why not.
        why: OauthGrantError,
    },
    /// `inject` names no place.
    #[error("`{text}` is no place for the value: {why}")]
    Injection {
        /// What stands there.
        text: String,
        /// Why not.
        why: InjectionError,
    },
    /// A folder, a pipe or a device: none of them can be read again as it changes.
    #[error("it is no regular file; name the file that holds the catalog")]
    NoFile,
    /// A secret that could go nowhere.
    #[error("`egressTo` is empty; name at least one host, or remove the entry")]
    NoDestination,
    /// A secret that could stand nowhere in a request.
    #[error("`locations` is empty; name at least one, or leave it away for all")]
    NoLocation,
    /// A request would wait for a person, and a fleet's proxy has none.
    #[error(
        "nobody can be asked at a fleet's proxy: `ask` and `otherwise: ask` are for `keyless run`; name what may pass in `allow`, or leave it away"
    )]
    NobodyToAsk,
    /// A placeholder that could stand in no request.
    #[error(
        "`maxOccurrences` of `{env}` is 0, so no request could have it; write a number from 1 on, or leave it away"
    )]
    NoOccurrence {
        /// The entry's variable.
        env: String,
    },
    /// A look-alike that could be guessed or does not travel.
    #[error("the placeholder can't be used: {0}; correct prefix and length")]
    Placeholder(LookAlikeError),
    /// `preset` names none, or its argument does not fit.
    #[error("`{text}` can't be used: {why}")]
    Preset {
        /// What stands there.
        text: String,
        /// Why not.
        why: PresetError,
    },
    /// A line of `allow` or `ask` is no rule.
    #[error("`{text}` is no rule: {why}")]
    RequestRule {
        /// What stands there.
        text: String,
        /// Why not.
        why: RequestRuleError,
    },
    /// A line of `allow` or `ask` that no request of its entry could come under.
    #[error(
        "`{text}` is about a host, or port, that `egressTo` of `{env}` does not name; name it there, or correct the rule"
    )]
    RuleBeyond {
        /// The entry's variable.
        env: String,
        /// What stands there.
        text: String,
    },
    /// `secretRef` leads out of the directory, or is not a name.
    #[error("`{text}` is no name of a mounted secret; use letters, digits, `-`, `_` and `.`")]
    SecretRef {
        /// What stands there.
        text: String,
    },
    /// A name that can't be made a path.
    #[error("`{text}` can't be known to the log: {why}; rename the secret")]
    SecretPath {
        /// What stands there.
        text: String,
        /// Why not.
        why: PathError,
    },
    /// A line of `seal` names no answers.
    #[error("`{text}` names no answers to seal: {why}")]
    Sealing {
        /// What stands there.
        text: String,
        /// Why not.
        why: SealingError,
    },
    /// `sign` names no signature.
    #[error("`{text}` is no way to sign: {why}")]
    Signer {
        /// What stands there.
        text: String,
        /// Why not.
        why: SignerError,
    },
    /// A key that signs goes with an access key's id or certificates that no entry holds.
    #[error("no entry holds `{path}`; list what the key goes with as well")]
    SignerId {
        /// The path.
        path: String,
    },
    /// Over the limit.
    #[error("the catalog is larger than 1 MiB; split it")]
    TooLarge,
    /// `inject` and `sign` in one entry.
    #[error("a value is set or signs, not both; keep one of `inject` and `sign`")]
    TwoModes,
    /// The file can't be read.
    #[error("the file can't be read: {0}; check its path, permissions and encoding (UTF-8)")]
    Unreadable(io::ErrorKind),
    /// A word that is not one of a few.
    #[error("`{found}` is none of {known}; choose one of them")]
    Word {
        /// What stands there.
        found: String,
        /// What may.
        known: &'static str,
    },
    /// Not YAML, or not of this shape; in the parser's words.
    #[error("{0}; correct the YAML there (anchors, aliases and merge keys are not taken)")]
    Yaml(String),
}

impl CatalogError {
    pub(super) fn whole(fault: CatalogFault) -> Self {
        Self { file: None, place: None, fault }
    }

    pub(super) fn at(place: Option<(u64, u64)>, fault: CatalogFault) -> Self {
        Self { file: None, place, fault }
    }

    /// This error with the file's name.
    #[must_use]
    pub fn in_file(self, file: &Path) -> Self {
        Self { file: Some(file.to_owned()), ..self }
    }

    /// What is wrong.
    pub fn fault(&self) -> &CatalogFault {
        &self.fault
    }

    /// The line, from 1.
    pub fn line(&self) -> Option<u64> {
        self.place.map(|(line, _)| line)
    }
}

impl fmt::Display for CatalogError {
    /// `FILE:LINE:COLUMN: what is wrong; what to do`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}", file.display())?,
            None => f.write_str("catalog")?,
        }
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl From<CatalogError> for Error {
    /// The catalog is the operator's own text and holds no values, so it may be repeated.
    fn from(error: CatalogError) -> Self {
        // There is nothing in it to correct.
        if let (CatalogFault::Unreadable(kind), Some(file)) = (&error.fault, &error.file)
            && matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        {
            let words = SafeText::words("the catalog ").as_they_wrote(&file.to_string_lossy());
            let words = words.and(": ").and(*kind).and("; docs/fleet.md shows how one is written");
            return Self::with(Code::PathUnusable, words);
        }
        Self::with(Code::CatalogInvalid, SafeText::default().as_they_wrote(&error.to_string()))
    }
}
