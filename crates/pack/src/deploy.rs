//! Carrying a plan out: exactly the bytes that the plan compared, then the manifests, as one transaction.

use std::{collections::BTreeSet, path::PathBuf};

use serde::Serialize;

use crate::{
    apply::{After, HomeLock, Step, Transaction, Watch, new_id},
    beneath::Beneath,
    deployed::{self, ManagedRow, MergedRow, RootManifest, confine, file_name, legacy_name},
    desired::{DesiredFile, Place},
    error::Result,
    paths::{RelPath, shown},
    plan::{Change, Plan, Summary, summary},
    servers::{ServerFile, digest},
    sha::Content,
    site::Site,
    snapshot::SnapshotFile,
    targets::{Root, TargetId},
};

/// The payload of `deploy`.
#[derive(Clone, Debug, Serialize)]
pub struct DeployData {
    /// Whether anything was written.
    pub applied: bool,
    /// Why nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The snapshot of what was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// The profile.
    pub profile: String,
    /// The targets.
    pub targets: Vec<TargetId>,
    /// The changes.
    pub changes: Vec<Change>,
    /// Their number.
    pub summary: Summary,
    /// What `deploy_apply` must be given; in answers to MCP only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_token: Option<String>,
    /// The digest of the plan that the token is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_plan_hash: Option<String>,
    /// When the token ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_token_expires_at: Option<String>,
}

impl DeployData {
    /// The payload of a plan that was not carried out.
    pub(crate) fn of(site: &Site, plan: &Plan) -> Self {
        Self {
            applied: false,
            reason: None,
            snapshot_id: None,
            profile: site.profile.clone(),
            targets: plan.workspace.targets.clone(),
            changes: plan.changes.clone(),
            summary: summary(&plan.changes),
            confirm_token: None,
            confirm_plan_hash: None,
            confirm_token_expires_at: None,
        }
    }
}

/// Whether [`apply`] would write anything.
pub(crate) fn writes(site: &Site, plan: &Plan) -> Result<bool> {
    let (id, created_at) = new_id();
    Ok(!plan.changes.is_empty() || !manifest_steps(site, plan, &id, &created_at)?.is_empty())
}

/// Writes what the plan says. The caller has checked that it may.
pub(crate) fn apply(
    site: &Site,
    plan: &Plan,
    lock: &HomeLock,
    watch: &dyn Watch,
) -> Result<DeployData> {
    let mut data = DeployData::of(site, plan);
    let (id, created_at) = new_id();
    let manifests = manifest_steps(site, plan, &id, &created_at)?;
    if plan.changes.is_empty() && manifests.is_empty() {
        data.reason = Some("no_changes");
        return Ok(data);
    }
    let mut state: Vec<(TargetId, PathBuf, Content)> = Vec::with_capacity(plan.desired.files.len());
    for ((target, path), file) in &plan.desired.files {
        state.push((*target, path.clone(), file.content.clone()));
    }
    for step in &manifests {
        if let After::File { content, .. } = &step.after {
            state.push((step.target, step.full(), content.clone()));
        }
    }
    let managed = plan.desired.files.iter().map(|((target, path), file)| SnapshotFile {
        target: target.to_string(),
        path: shown(path),
        sha256: file.content.sha(),
        executable: file.executable,
    });
    let transaction = Transaction {
        site,
        kind: "deploy",
        id,
        created_at,
        targets: plan.workspace.targets.clone(),
        managed: managed.collect(),
        state,
        rolled_back_to: None,
        steps: plan.steps.iter().cloned().chain(manifests).collect(),
    };
    data.snapshot_id = Some(transaction.run(lock, watch)?);
    data.applied = true;
    Ok(data)
}

/// The manifest files to write; none when every one already says what is to be said.
fn manifest_steps(site: &Site, plan: &Plan, id: &str, created_at: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut stale = !plan.changes.is_empty();
    let changed: BTreeSet<(TargetId, &PathBuf)> =
        plan.steps.iter().map(|step| (step.target, &step.root)).collect();
    for root in &plan.desired.roots {
        let files: Vec<&DesiredFile> = files_of(plan, root).collect();
        let key = (root.target, root.path.clone());
        let known = plan.deployed.with_manifest.contains(&key);
        let merged = merged_rows(plan, root);
        let none = files.is_empty() && merged.is_empty();
        if none && !known && !changed.contains(&(root.target, &root.path)) {
            continue;
        }
        stale |= !known || !is_current(plan, root, &files) || !is_merged(plan, root, &merged);
        let rows = files.iter().map(|file| ManagedRow {
            path: file.path.to_string(),
            sha256: file.content.sha(),
            module_ids: file.modules.clone(),
        });
        let mut manifest = manifest(site, root.target, id, created_at, rows.collect());
        manifest.merged_files = merged;
        steps.push(manifest_step(site, root, file_name(root.target), Some(manifest))?);
        if plan.deployed.legacy.contains(&key) {
            steps.push(manifest_step(site, root, legacy_name(), None)?);
        }
    }
    for root in &plan.deployed.orphans {
        steps.push(manifest_step(site, root, file_name(root.target), None)?);
        stale = true;
    }
    Ok(if stale { steps } else { Vec::new() })
}

fn files_of<'p>(plan: &'p Plan, root: &'p Root) -> impl Iterator<Item = &'p DesiredFile> {
    let of_target = plan.desired.files.iter().filter(|((target, _), _)| *target == root.target);
    of_target.map(|(_, file)| file).filter(|file| file.root == root.path)
}

/// Whether the root's manifest lists these files with these digests, and no others.
fn is_current(plan: &Plan, root: &Root, files: &[&DesiredFile]) -> bool {
    let listed = plan
        .deployed
        .files
        .iter()
        .filter(|((target, _), managed)| *target == root.target && managed.root == root.path);
    let same = |file: &&DesiredFile| {
        let place = (root.target, root.path.join(&file.path));
        plan.deployed.files.get(&place).is_some_and(|managed| managed.sha == file.content.sha())
    };
    listed.count() == files.len() && files.iter().all(same)
}

/// The rows of a root's files with entries of ours.
fn merged_rows(plan: &Plan, root: &Root) -> Vec<MergedRow> {
    let here = |((target, _), file): &(&Place, &ServerFile)| {
        *target == root.target && file.root == root.path
    };
    let row = |(_, file): (&Place, &ServerFile)| MergedRow {
        path: file.path.to_string(),
        entries: file.entries.iter().map(|(name, entry)| (name.clone(), digest(entry))).collect(),
    };
    let rows = plan.desired.servers.iter().filter(here).map(row);
    rows.filter(|row| !row.entries.is_empty()).collect()
}

/// Whether the root's manifest lists just these.
fn is_merged(plan: &Plan, root: &Root, rows: &[MergedRow]) -> bool {
    let listed: Vec<_> = plan
        .deployed
        .servers
        .iter()
        .filter(|((target, _), file)| *target == root.target && file.root == root.path)
        .collect();
    let same = |row: &MergedRow| {
        let place = (root.target, root.path.join(&row.path));
        plan.deployed.servers.get(&place).is_some_and(|file| file.entries == row.entries)
    };
    listed.len() == rows.len() && rows.iter().all(same)
}

/// A root's manifest with these rows.
pub(crate) fn manifest(
    site: &Site,
    target: TargetId,
    id: &str,
    created_at: &str,
    mut rows: Vec<ManagedRow>,
) -> RootManifest {
    rows.sort_by(|a, b| a.path.cmp(&b.path));
    RootManifest {
        schema_version: 1,
        generated_at: created_at.to_owned(),
        tool: target.to_string(),
        snapshot_id: Some(id.to_owned()),
        repo: Some(shown(&site.repo)),
        managed_files: rows,
        merged_files: Vec::new(),
    }
}

/// The step that writes or removes a manifest file.
pub(crate) fn manifest_step(
    site: &Site,
    root: &Root,
    path: RelPath,
    manifest: Option<deployed::RootManifest>,
) -> Result<Step> {
    let before = match Beneath::open(&root.path, confine(site, &root.path))? {
        Some(folder) => folder.look(&path)?,
        None => crate::beneath::Disk::Absent,
    };
    let after = match manifest {
        None => After::Absent,
        Some(manifest) => {
            let text = serde_json::to_string_pretty(&manifest).expect("strings and numbers");
            After::File {
                content: Content::new(format!("{text}\n").into_bytes()),
                executable: false,
            }
        }
    };
    let op = match (&after, before.is_absent()) {
        (After::Absent, _) => "delete",
        (_, true) => "create",
        _ => "update",
    };
    Ok(Step {
        target: root.target,
        root: root.path.clone(),
        path,
        op,
        before,
        after,
        adopted: false,
    })
}
