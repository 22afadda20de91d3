//! Drift: what is on disk, compared with what the config repo wants now.
//!
//! Wanted files that were never deployed count as missing, and files in roots that were left behind count as
//! extra, so that status and plan never disagree about whether there is something to do.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use serde::Serialize;

use crate::{
    beneath::{Difference, Disk, differs},
    deployed::is_manifest,
    desired,
    error::Result,
    next::{self, NextAction},
    paths::shown,
    plan::{Plan, look, open_roots},
    site::Site,
    targets::{Root, TargetId},
};

/// The kinds of drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriftKind {
    /// A file in a root that is ours to watch, and that nobody wants.
    Extra,
    /// A wanted file that is not there.
    Missing,
    /// A wanted file with other content.
    Modified,
}

/// One place that is not as wanted.
#[derive(Clone, Debug, Serialize)]
pub struct DriftItem {
    /// The target.
    pub target: TargetId,
    /// The root that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// `root` with `/` between its segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_posix: Option<String>,
    /// The absolute path.
    pub path: String,
    /// `path` with `/` between its segments.
    pub path_posix: String,
    /// What is wanted, as `sha256:…`.
    pub expected: Option<String>,
    /// What is there, as `sha256:…`.
    pub actual: Option<String>,
    /// How they differ.
    pub kind: DriftKind,
    /// Set when the file was changed on disk after it was deployed; agentpack does not say this.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
}

/// How many of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DriftSummary {
    /// Modified files.
    pub modified: usize,
    /// Missing files.
    pub missing: usize,
    /// Extra files.
    pub extra: usize,
}

/// The numbers of one root.
#[derive(Clone, Debug, Serialize)]
pub struct RootSummary {
    /// The target.
    pub target: TargetId,
    /// The root.
    pub root: String,
    /// `root` with `/` between its segments.
    pub root_posix: String,
    /// The numbers.
    pub summary: DriftSummary,
}

/// The payload of `status`.
#[derive(Clone, Debug, Serialize)]
pub struct StatusData {
    /// The profile.
    pub profile: String,
    /// The targets.
    pub targets: Vec<TargetId>,
    /// Every place that is not as wanted.
    pub drift: Vec<DriftItem>,
    /// Their number.
    pub summary: DriftSummary,
    /// The numbers of drift items by root.
    pub summary_by_root: Vec<RootSummary>,
    /// The numbers before a filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_total: Option<DriftSummary>,
    /// Commands that help.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next_actions: Vec<String>,
    /// `next_actions` with their kinds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next_actions_detailed: Vec<NextAction>,
}

/// Compares everything; `only` filters what is shown. What is warned about comes beside it.
pub(crate) fn status(
    site: &Site,
    plan: &Plan,
    only: &[DriftKind],
) -> Result<(StatusData, Vec<String>)> {
    let mut drift = wanted(site, plan)?;
    drift.extend(servers(plan));
    drift.extend(unwanted(plan));
    drift.sort_by(|a, b| (a.target, Path::new(&a.path)).cmp(&(b.target, Path::new(&b.path))));
    drift.extend(strangers(plan));
    if has_manifest(plan) {
        // Root by root, as the manifests lie; in each one strangers come after what is ours.
        let root = |item: &DriftItem| item.root.clone().map(PathBuf::from);
        drift.sort_by_cached_key(|item| (item.target, root(item)));
    }
    let total = summary(drift.iter());
    if !only.is_empty() {
        drift.retain(|item| only.contains(&item.kind));
    }
    let (actions, mut warnings) = next::after_status(site, plan, total);
    warnings.extend(without_manifest(plan));
    let data = StatusData {
        profile: site.profile.clone(),
        targets: plan.workspace.targets.clone(),
        summary: summary(drift.iter()),
        summary_by_root: by_root(&drift),
        summary_total: (!only.is_empty()).then_some(total),
        next_actions: actions.iter().map(|action| action.command.clone()).collect(),
        next_actions_detailed: actions,
        drift,
    };
    Ok((data, warnings))
}

fn wanted(site: &Site, plan: &Plan) -> Result<Vec<DriftItem>> {
    let open = open_roots(site, plan.desired.files.values().map(|file| file.root.as_path()))?;
    let items = plan.desired.files.par_iter().map(|(place, file)| {
        let disk = look(&open, &file.root, &file.path)?;
        let kind = match differs(&disk, &file.content, false) {
            Difference::None | Difference::Execution => return Ok(None),
            Difference::Content if disk.is_absent() => DriftKind::Missing,
            Difference::Content => DriftKind::Modified,
        };
        let managed = plan.deployed.files.get(place);
        let edited =
            managed.is_some_and(|managed| !disk.is_absent() && Some(managed.sha) != disk.sha());
        let mut item = item(place.0, &file.root, &place.1, kind, &disk);
        item.expected = Some(file.content.sha().tagged());
        item.edited = edited;
        Ok(Some(item))
    });
    let items: Vec<Option<DriftItem>> = items.collect::<Result<_>>()?;
    Ok(items.into_iter().flatten().collect())
}

/// Files whose entries are not as wanted.
fn servers(plan: &Plan) -> impl Iterator<Item = DriftItem> {
    let steps = plan.changes.iter().zip(&plan.steps);
    steps.filter(|(_, step)| step.op != "delete" && plan.is_merge(step)).map(|(change, step)| {
        let kind = if step.before.is_absent() { DriftKind::Missing } else { DriftKind::Modified };
        let mut item = item(step.target, &step.root, &step.full(), kind, &step.before);
        item.expected = step.after.sha().map(|sha| sha.tagged());
        item.edited = change.edited;
        item
    })
}

/// Files of ours that nobody wants any more: what the plan would delete.
fn unwanted(plan: &Plan) -> impl Iterator<Item = DriftItem> {
    plan.steps.iter().filter(|step| step.op == "delete").map(|step| {
        let mut item = item(step.target, &step.root, &step.full(), DriftKind::Extra, &step.before);
        let managed = plan.deployed.files.get(&(step.target, step.full()));
        item.edited = managed.is_some_and(|managed| Some(managed.sha) != step.before.sha());
        item
    })
}

/// Files in watched roots that we never had to do with.
fn strangers(plan: &Plan) -> Vec<DriftItem> {
    let mut found = Vec::new();
    for root in plan.desired.roots.iter().filter(|root| root.scan_extras) {
        let others: Vec<Root> = plan
            .desired
            .roots
            .iter()
            .filter(|other| other.target == root.target)
            .cloned()
            .collect();
        let mut paths = Vec::new();
        listed(&root.path, &mut paths);
        for path in paths {
            let place = (root.target, path);
            let ours =
                plan.desired.files.contains_key(&place) || plan.deployed.files.contains_key(&place);
            let name = place.1.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let deepest = desired::deepest(&others, &place.1)
                .is_some_and(|(deepest, _)| deepest == root.path);
            if !ours && !is_manifest(name) && deepest {
                let disk = crate::tree::read_limited(&place.1).map_or(Disk::Absent, |file| {
                    Disk::File(crate::beneath::DiskFile { sha: file.content.sha(), mode: 0 })
                });
                found.push(item(root.target, &root.path, &place.1, DriftKind::Extra, &disk));
            }
        }
    }
    found
}

/// All files below a directory; links are files.
fn listed(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            listed(&entry.path(), paths);
        } else {
            paths.push(entry.path());
        }
    }
}

fn item(target: TargetId, root: &Path, path: &Path, kind: DriftKind, disk: &Disk) -> DriftItem {
    DriftItem {
        target,
        root: Some(shown(root)),
        root_posix: Some(shown(root)),
        path: shown(path),
        path_posix: shown(path),
        expected: None,
        actual: disk.sha().map(|sha| sha.tagged()),
        kind,
        edited: false,
    }
}

fn summary<'d>(drift: impl Iterator<Item = &'d DriftItem>) -> DriftSummary {
    let mut summary = DriftSummary::default();
    for item in drift {
        match item.kind {
            DriftKind::Extra => summary.extra += 1,
            DriftKind::Missing => summary.missing += 1,
            DriftKind::Modified => summary.modified += 1,
        }
    }
    summary
}

fn by_root(drift: &[DriftItem]) -> Vec<RootSummary> {
    let mut roots: BTreeMap<(TargetId, &str), Vec<&DriftItem>> = BTreeMap::new();
    for item in drift {
        roots
            .entry((item.target, item.root.as_deref().unwrap_or_default()))
            .or_default()
            .push(item);
    }
    let of = |((target, root), items): ((TargetId, &str), Vec<&DriftItem>)| RootSummary {
        target,
        root: root.to_owned(),
        root_posix: root.to_owned(),
        summary: summary(items.into_iter()),
    };
    roots.into_iter().map(of).collect()
}

impl DriftKind {
    /// Reads `missing`, `modified`, `extra`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "extra" => Some(Self::Extra),
            "missing" => Some(Self::Missing),
            "modified" => Some(Self::Modified),
            _ => None,
        }
    }
}

/// Where a deploy has yet to write what it did; until then nobody can tell what is there and wanted no more.
pub(crate) fn without_manifest(plan: &Plan) -> Vec<String> {
    let unseen = "files that were deployed and are wanted no more go unseen there until `agentpack deploy --apply` \
                  writes it";
    if !has_manifest(plan) {
        if plan.desired.files.is_empty() && plan.desired.servers.is_empty() {
            // A deploy has nothing to list there either.
            return Vec::new();
        }
        return vec![format!("no root has a usable target manifest: {unseen}")];
    }
    let roots: BTreeSet<(TargetId, &Path)> = plan
        .desired
        .files
        .iter()
        .map(|((target, _), file)| (*target, file.root.as_path()))
        .filter(|(target, root)| {
            !plan.deployed.with_manifest.contains(&(*target, root.to_path_buf()))
        })
        .collect();
    let said = |(target, root): (TargetId, &Path)| {
        format!("{} has no usable target manifest of {target}: {unseen}", root.display())
    };
    roots.into_iter().map(said).collect()
}

/// Whether anything that was deployed says so itself.
pub(crate) fn has_manifest(plan: &Plan) -> bool {
    !plan.deployed.with_manifest.is_empty()
}
