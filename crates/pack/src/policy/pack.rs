//! The policy pack: a directory or repository with an organisation's rules, pinned by `agentpack.org.lock.json`.

use std::{io, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{FILE, Policy, lint::LintIssue, supply};
use crate::{
    apply::write_durably,
    checkouts::Checkouts,
    error::{Code, PackError, Result},
    lockfile::{LocalPath, LockIndex, ResolvedSource},
    manifest::{Module, ModuleKind, Source},
    paths::{RelPath, shown},
    plain_file,
    repo::resolved_source,
    sha::Sha,
    site::Site,
    tree::FileRow,
    workspace::upstream,
};

/// The name of the lock.
pub(super) const LOCK: &str = "agentpack.org.lock.json";

/// The payload of `policy lock`.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyLockData {
    /// The lock.
    pub lockfile_path: String,
    /// `lockfile_path` with `/` between its segments.
    pub lockfile_path_posix: String,
    /// `local`, or the commit.
    pub resolved_version: String,
    /// The pack's digest.
    pub sha256: Sha,
    /// How many files it has.
    pub files: usize,
}

/// The lock's file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PolicyLock {
    version: u32,
    pub(super) policy_pack: LockedPack,
}

/// The pack that it pins.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LockedPack {
    pub(super) source: ConfiguredSource,
    pub(super) resolved_source: ResolvedSource,
    pub(super) resolved_version: String,
    pub(super) sha256: Sha,
    pub(super) file_manifest: Vec<FileRow>,
}

/// The source as the policy names it; exactly one is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ConfiguredSource {
    #[serde(default)]
    local_path: Option<LocalPath>,
    #[serde(default)]
    git: Option<ConfiguredGit>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ConfiguredGit {
    url: String,
    #[serde(rename = "ref")]
    reference: String,
    #[serde(default)]
    subdir: String,
    #[serde(default)]
    shallow: bool,
}

impl ConfiguredSource {
    fn of(source: &Source) -> Self {
        match source {
            Source::Git(git) => Self {
                local_path: None,
                git: Some(ConfiguredGit {
                    url: git.url.clone(),
                    reference: git.reference.clone(),
                    subdir: git.subdir.as_ref().map(RelPath::to_string).unwrap_or_default(),
                    shallow: git.shallow,
                }),
            },
            Source::Local(path) => {
                Self { local_path: Some(LocalPath { path: path.to_string() }), git: None }
            }
        }
    }
}

impl PolicyLock {
    /// Reads the lock; `None` when there is none.
    pub(super) fn load(repo: &Path) -> std::result::Result<Option<Self>, String> {
        let bytes = match plain_file::read(repo.join(LOCK)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let lock: Self = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        match lock.version {
            1 => Ok(Some(lock)),
            other => Err(format!("version {other} is not known")),
        }
    }
}

/// Resolves the pack and writes the lock; the same pack gives the same bytes.
pub(crate) fn lock(site: &Site) -> Result<PolicyLockData> {
    let path = site.repo.join(FILE);
    let (policy, faults) = Policy::load(&site.repo)?.ok_or_else(|| missing(&path))?;
    if let Some(fault) = faults.first() {
        return Err(fault.error(&path));
    }
    let Some(source) = policy.pack.clone() else {
        let message = format!("{} has no policy_pack", path.display());
        return Err(PackError::new(Code::PolicyConfigInvalid, message)
            .with("path", shown(&path))
            .with("missing", vec!["policy_pack"])
            .hint("add `policy_pack: { source: local:DIR }`, or git:URL"));
    };
    if let Some(details) = foreign(&policy) {
        let message = "the policy pack's git remote is not allowed";
        let error = PackError::new(Code::PolicyConfigInvalid, message)
            .with("path", shown(&path))
            .with("field", "policy_pack.source")
            .hint("allow it in supply_chain_policy.allowed_git_remotes, or take the pack from elsewhere");
        let details = details.as_object().cloned().unwrap_or_default();
        return Err(details
            .into_iter()
            .fold(error, |error, (name, value)| error.with(&name, value)));
    }
    written(site, source)
}

fn written(site: &Site, source: Source) -> Result<PolicyLockData> {
    let configured = ConfiguredSource::of(&source);
    let module = Module {
        id: "policy_pack".to_owned(),
        kind: ModuleKind::Instructions,
        enabled: true,
        tags: Vec::new(),
        targets: Vec::new(),
        source,
        line: 0,
    };
    let upstream = upstream(site, &module, &LockIndex::default(), &Checkouts::new(site))?;
    let (sha256, file_manifest) = (upstream.tree.sha(), upstream.tree.rows());
    let resolved_version = upstream.commit.clone().unwrap_or_else(|| "local".to_owned());
    let files = file_manifest.len();
    let policy_pack = LockedPack {
        source: configured,
        resolved_source: resolved_source(&module.source, upstream.commit.as_deref()),
        resolved_version: resolved_version.clone(),
        sha256,
        file_manifest,
    };
    let lock = site.repo.join(LOCK);
    let text = serde_json::to_string_pretty(&PolicyLock { version: 1, policy_pack });
    write_durably(&lock, format!("{}\n", text.expect("strings and numbers")).as_bytes())?;
    let lockfile_path = shown(&lock);
    let lockfile_path_posix = lockfile_path.clone();
    Ok(PolicyLockData { lockfile_path, lockfile_path_posix, resolved_version, sha256, files })
}

/// What the pack and its lock do against the policy.
pub(super) fn against(site: &Site, policy: &Policy) -> Vec<LintIssue> {
    let Some(source) = &policy.pack else { return Vec::new() };
    let mut issues = Vec::new();
    if let Some(details) = foreign(policy) {
        let message = "the policy pack's git remote is not allowed";
        let issue = LintIssue::new("policy_pack_allowed_git_remotes", FILE, message);
        issues.push(issue.with(details));
    }
    let path = shown(&site.repo.join(LOCK));
    let wrong =
        |message: &str, details| LintIssue::new("policy_pack_lock", LOCK, message).with(details);
    match PolicyLock::load(&site.repo) {
        Err(error) => {
            issues.push(wrong("the lock can't be read", json!({"error": error, "path": path})));
        }
        Ok(None) => {
            let message = "the lock is missing: run `agentpack policy lock`";
            issues.push(wrong(message, json!({"path": path})));
        }
        Ok(Some(lock)) => {
            let configured = ConfiguredSource::of(source);
            if lock.policy_pack.source != configured {
                let details =
                    json!({"config_source": configured, "lock_source": lock.policy_pack.source});
                issues.push(wrong(
                    "the lock is of another pack: run `agentpack policy lock`",
                    details,
                ));
            }
        }
    }
    issues
}

/// Why the pack's remote is not allowed.
fn foreign(policy: &Policy) -> Option<Value> {
    match (&policy.pack, &policy.supply) {
        (Some(Source::Git(git)), Some(supply)) => supply::not_allowed(&git.url, supply),
        _ => None,
    }
}

fn missing(path: &Path) -> PackError {
    PackError::new(Code::PolicyConfigMissing, format!("there is no {}", path.display()))
        .with("path", shown(path))
        .hint("write agentpack.org.yaml beside agentpack.yaml; governance is a repo's own choice")
}
