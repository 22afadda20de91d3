//! `agentpack.lock.json`: which commit each git module stands at, and what every module's files were.
//!
//! Written sorted and pretty; `generated_at` only moves when something else does, so that locking twice
//! gives the same bytes. Source: shared/reference/agentpack.md, section 4.

use std::{collections::HashMap, io, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    error::{Code, PackError, Result},
    paths::shown,
    plain_file,
    sha::Sha,
    tree::FileRow,
};

/// The lockfile's name in the config repo.
pub(crate) const FILE: &str = "agentpack.lock.json";

/// The whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lockfile {
    pub(crate) version: u32,
    pub(crate) generated_at: String,
    pub(crate) modules: Vec<LockedModule>,
}

/// One module of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LockedModule {
    pub(crate) id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) resolved_source: ResolvedSource,
    pub(crate) resolved_version: String,
    pub(crate) sha256: Sha,
    pub(crate) file_manifest: Vec<FileRow>,
}

/// Where it came from; exactly one is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResolvedSource {
    #[serde(default)]
    pub(crate) local_path: Option<LocalPath>,
    #[serde(default)]
    pub(crate) git: Option<ResolvedGit>,
}

/// A path in the config repo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LocalPath {
    pub(crate) path: String,
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResolvedGit {
    pub(crate) url: String,
    pub(crate) commit: String,
    #[serde(default)]
    pub(crate) subdir: String,
}

/// The modules by id: read once, asked many times.
#[derive(Debug, Default)]
pub(crate) struct LockIndex(HashMap<String, LockedModule>);

impl Lockfile {
    /// Reads the lockfile; `None` when there is none.
    pub(crate) fn load(repo: &Path) -> Result<Option<Self>> {
        let path = repo.join(FILE);
        let text = match plain_file::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(invalid(&path, "it is not UTF-8"));
            }
            Err(error) => return Err(PackError::io("read", &path, &error)),
        };
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| invalid(&path, &error.to_string()))?;
        match value["version"].as_u64() {
            Some(1) => {}
            Some(version) => {
                return Err(PackError::new(
                    Code::LockfileUnsupportedVersion,
                    format!("{} is of version {version}, which is not known", path.display()),
                )
                .with("path", shown(&path))
                .with("version", version)
                .with("supported", vec![1])
                .hint("this program reads version 1; write the file again with `agentpack lock`"));
            }
            None => return Err(invalid(&path, "`version` is missing")),
        }
        serde_json::from_value(value).map(Some).map_err(|error| invalid(&path, &error.to_string()))
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("strings and numbers");
        format!("{text}\n")
    }
}

impl LockIndex {
    pub(crate) fn new(lockfile: Option<Lockfile>) -> Self {
        let modules = lockfile.map(|lockfile| lockfile.modules).unwrap_or_default();
        Self(modules.into_iter().map(|module| (module.id.clone(), module)).collect())
    }

    pub(crate) fn get(&self, id: &str) -> Option<&LockedModule> {
        self.0.get(id)
    }
}

/// The error for a command that needs the lockfile.
pub(crate) fn missing(repo: &Path) -> PackError {
    let path = repo.join(FILE);
    PackError::new(Code::LockfileMissing, format!("there is no {}", path.display()))
        .with("path", shown(&path))
        .hint("run `agentpack lock`, or `agentpack update`")
}

fn invalid(path: &Path, error: &str) -> PackError {
    PackError::new(Code::LockfileInvalid, format!("{} can't be read: {error}", path.display()))
        .with("path", shown(path))
        .with("error", error)
        .hint("write it again with `agentpack lock`")
}
