//! What the lockfiles hold, and what the last commit changed in them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::pack::{LOCK, LockedPack, PolicyLock};
use crate::{
    error::Result,
    git,
    lockfile::{self, LockedModule, Lockfile},
    paths::shown,
    sha::Sha,
    site::Site,
};

/// What the lockfile is compared with.
const BASE: &str = "HEAD^";

/// The payload of `policy audit`.
#[derive(Clone, Debug, Serialize)]
pub struct AuditData {
    /// The config repo.
    pub root: String,
    /// `root` with `/` between its segments.
    pub root_posix: String,
    /// The lockfile.
    pub lockfile: AuditLockfile,
    /// Its modules.
    pub modules: Vec<AuditModule>,
    /// The policy pack, where one is locked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub org_policy_pack: Option<AuditPack>,
    /// What the last commit changed, where git knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_summary: Option<AuditChanges>,
}

/// The lockfile.
#[derive(Clone, Debug, Serialize)]
pub struct AuditLockfile {
    /// Where it is.
    pub lockfile_path: String,
    /// `lockfile_path` with `/` between its segments.
    pub lockfile_path_posix: String,
    /// Its version.
    pub version: u32,
    /// When it was written.
    pub generated_at: String,
    /// How many modules it has.
    pub modules: usize,
}

/// A locked module.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditModule {
    /// Its id.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it comes from.
    pub resolved_source: Value,
    /// `local`, or the commit.
    pub resolved_version: String,
    /// Its digest.
    pub sha256: Sha,
    /// How many files it has.
    pub files: usize,
    /// How many bytes these have.
    pub bytes: u64,
}

/// The locked policy pack.
#[derive(Clone, Debug, Serialize)]
pub struct AuditPack {
    /// The lock.
    pub lockfile_path: String,
    /// `lockfile_path` with `/` between its segments.
    pub lockfile_path_posix: String,
    /// Its source as the policy names it.
    pub source: Value,
    /// Where it comes from.
    pub resolved_source: Value,
    /// `local`, or the commit.
    pub resolved_version: String,
    /// Its digest.
    pub sha256: Sha,
    /// How many files it has.
    pub files: usize,
    /// How many bytes these have.
    pub bytes: u64,
}

/// What changed since the commit before the last one.
#[derive(Clone, Debug, Serialize)]
pub struct AuditChanges {
    /// `HEAD^`.
    pub base_ref: &'static str,
    /// The commit that it is.
    pub base_commit: String,
    /// Ids of new modules.
    pub modules_added: Vec<String>,
    /// Ids of modules that are gone.
    pub modules_removed: Vec<String>,
    /// Modules that are others now.
    pub modules_changed: Vec<AuditChange>,
}

/// One module, before and after; only what differs is set.
#[derive(Clone, Debug, Serialize)]
pub struct AuditChange {
    /// Its id.
    pub id: String,
    /// Its type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<BeforeAfter>,
    /// Where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_source: Option<BeforeAfter>,
    /// `local`, or the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_version: Option<BeforeAfter>,
    /// Its digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<BeforeAfter>,
    /// How many files it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<BeforeAfter>,
    /// How many bytes these have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<BeforeAfter>,
}

/// A field in the two lockfiles.
#[derive(Clone, Debug, Serialize)]
pub struct BeforeAfter {
    /// In the older one.
    pub before: Value,
    /// In the newer one.
    pub after: Value,
}

/// Reads both lockfiles and git's history; writes nothing.
pub(crate) fn audit(site: &Site) -> Result<(AuditData, Vec<String>)> {
    let lockfile = Lockfile::load(&site.repo)?.ok_or_else(|| lockfile::missing(&site.repo))?;
    let mut warnings = Vec::new();
    let org_policy_pack = match PolicyLock::load(&site.repo) {
        Ok(lock) => lock.map(|lock| pack(site, lock.policy_pack)),
        Err(error) => {
            warnings.push(format!("policy audit: {LOCK} can't be read: {error}"));
            None
        }
    };
    let change_summary = match changes(site, &lockfile) {
        Ok(summary) => summary,
        Err(why) => {
            warnings.push(format!("policy audit: no comparison with {BASE}: {why}"));
            None
        }
    };
    let path = shown(&site.repo.join(lockfile::FILE));
    let data = AuditData {
        root: shown(&site.repo),
        root_posix: shown(&site.repo),
        lockfile: AuditLockfile {
            lockfile_path_posix: path.clone(),
            lockfile_path: path,
            version: lockfile.version,
            generated_at: lockfile.generated_at,
            modules: lockfile.modules.len(),
        },
        modules: lockfile.modules.iter().map(module).collect(),
        org_policy_pack,
        change_summary,
    };
    Ok((data, warnings))
}

fn module(locked: &LockedModule) -> AuditModule {
    AuditModule {
        id: locked.id.clone(),
        kind: locked.kind.clone(),
        resolved_source: json!(locked.resolved_source),
        resolved_version: locked.resolved_version.clone(),
        sha256: locked.sha256,
        files: locked.file_manifest.len(),
        bytes: locked.file_manifest.iter().map(|row| row.bytes).sum(),
    }
}

fn pack(site: &Site, locked: LockedPack) -> AuditPack {
    let path = shown(&site.repo.join(LOCK));
    AuditPack {
        lockfile_path_posix: path.clone(),
        lockfile_path: path,
        source: json!(locked.source),
        resolved_source: json!(locked.resolved_source),
        resolved_version: locked.resolved_version,
        sha256: locked.sha256,
        files: locked.file_manifest.len(),
        bytes: locked.file_manifest.iter().map(|row| row.bytes).sum(),
    }
}

/// What the last commit changed; `None` where there is no git, else why there is no telling.
fn changes(site: &Site, now: &Lockfile) -> std::result::Result<Option<AuditChanges>, String> {
    if !site.repo.join(".git").exists() {
        return Ok(None);
    }
    let words = ["rev-parse", "--verify", "--quiet", BASE];
    let Ok(base_commit) = git::run(&site.repo, &words) else {
        return Err("the last commit has none before it".to_owned());
    };
    let Some(bytes) = git::show(&site.repo, BASE, lockfile::FILE) else {
        return Err(format!("it has no {}", lockfile::FILE));
    };
    let then: Lockfile = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let by_id = |lockfile: &Lockfile| -> BTreeMap<String, AuditModule> {
        lockfile.modules.iter().map(|locked| (locked.id.clone(), module(locked))).collect()
    };
    let (before, after) = (by_id(&then), by_id(now));
    let only_in = |these: &BTreeMap<String, AuditModule>,
                   others: &BTreeMap<String, AuditModule>| {
        these.keys().filter(|id| !others.contains_key(*id)).cloned().collect()
    };
    let changed = before.iter().filter_map(|(id, before)| differing(before, after.get(id)?));
    Ok(Some(AuditChanges {
        base_ref: BASE,
        base_commit: base_commit.trim().to_owned(),
        modules_added: only_in(&after, &before),
        modules_removed: only_in(&before, &after),
        modules_changed: changed.collect(),
    }))
}

/// What differs; `None` when nothing does.
fn differing(before: &AuditModule, after: &AuditModule) -> Option<AuditChange> {
    fn field<T: Serialize + PartialEq>(before: &T, after: &T) -> Option<BeforeAfter> {
        (before != after).then(|| BeforeAfter { before: json!(before), after: json!(after) })
    }
    (before != after).then(|| AuditChange {
        id: before.id.clone(),
        kind: field(&before.kind, &after.kind),
        resolved_source: field(&before.resolved_source, &after.resolved_source),
        resolved_version: field(&before.resolved_version, &after.resolved_version),
        sha256: field(&before.sha256, &after.sha256),
        files: field(&before.files, &after.files),
        bytes: field(&before.bytes, &after.bytes),
    })
}
