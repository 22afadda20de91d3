//! Missing files, put back as they are wanted; nothing that exists is touched.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::json;

use crate::{
    apply::{After, HomeLock, Step, recover, step::temporary},
    beneath::{Beneath, Disk},
    commands::confirmed,
    deployed::confine,
    error::{PackError, Result},
    gate::{Entries, Pass, Pending},
    paths::shown,
    plan::{Change, Op, Plan, change},
    site::Site,
    targets::TargetId,
};

/// What its temporary files are named after.
const ID: &str = "restore";

/// The payload of `evolve restore`.
#[derive(Clone, Debug, Serialize)]
pub struct RestoreData {
    /// The files that were, or would be, put back.
    pub restored: Vec<Restored>,
    /// How many of each.
    pub summary: RestoreSummary,
    /// `restored`, `dry_run` or `no_missing`.
    pub reason: &'static str,
}

/// A file.
#[derive(Clone, Debug, Serialize)]
pub struct Restored {
    /// The target.
    pub target: TargetId,
    /// The absolute path.
    pub path: String,
    /// `path` with `/` between its segments.
    pub path_posix: String,
    /// The modules that want it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub module_ids: Vec<String>,
}

/// How many of each.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RestoreSummary {
    /// Files that are missing.
    pub missing: usize,
    /// Files that were put back.
    pub restored: usize,
    /// Files that exist.
    pub skipped_existing: usize,
    /// Files that can't be read.
    pub skipped_read_error: usize,
}

/// How `evolve restore` is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestoreOptions {
    /// Only say what would be put back.
    pub(crate) dry_run: bool,
    /// The explicit yes.
    pub(crate) yes: bool,
}

/// Puts missing files back, with a yes and through the gate.
pub(crate) fn restore(
    site: &Site,
    only: Option<&str>,
    RestoreOptions { dry_run, yes }: RestoreOptions,
    pass: &Pass<'_>,
) -> Result<(RestoreData, Vec<String>)> {
    let plan = Plan::make(site)?;
    let (found, summary) = missing(site, &plan, only);
    if found.is_empty() || dry_run {
        let reason = if found.is_empty() { "no_missing" } else { "dry_run" };
        return Ok((RestoreData { restored: found, summary, reason }, plan.warnings));
    }
    confirmed(yes, "evolve restore")?;
    let lock = HomeLock::take(site)?;
    let recovered = recover(site, &lock)?;
    let plan = Plan::make(site)?;
    let (found, mut summary) = missing(site, &plan, only);
    let (changes, steps): (Vec<Change>, Vec<Step>) =
        found.iter().map(|file| put_back(&plan, file)).unzip();
    pass(&Pending {
        command: "restore",
        source: site.repo.clone(),
        changes: &changes,
        steps: &steps,
        entries: Entries::new(),
        may_hold_credentials: false,
        subject: json!({ "module_id": only }),
    })?;
    for step in &steps {
        std::fs::create_dir_all(&step.root)
            .map_err(|error| PackError::io("create", &step.root, &error))?;
        let Some(root) = Beneath::open(&step.root, confine(site, &step.root))? else {
            continue;
        };
        if root.look(&step.path)?.is_absent() {
            root.remove_temporary(&step.path, &temporary(&step.path, ID));
            step.write(&root, ID)?;
            summary.restored += 1;
        }
    }
    let warnings = recovered.into_iter().chain(plan.warnings).collect();
    Ok((RestoreData { restored: found, summary, reason: "restored" }, warnings))
}

/// The change and the step that write a missing file.
fn put_back(plan: &Plan, file: &Restored) -> (Change, Step) {
    let place = (file.target, PathBuf::from(&file.path));
    let wanted = &plan.desired.files[&place];
    let after = After::File { content: wanted.content.clone(), executable: wanted.executable };
    let (before, sha) = (Disk::Absent, after.sha());
    let change = change(&place, Op::Create, None, "file missing", false, &before, sha);
    let step = Step {
        target: place.0,
        root: wanted.root.clone(),
        path: wanted.path.clone(),
        op: "create",
        before,
        after,
        adopted: false,
    };
    (change, step)
}

fn missing(site: &Site, plan: &Plan, only: Option<&str>) -> (Vec<Restored>, RestoreSummary) {
    let (mut found, mut summary) = (Vec::new(), RestoreSummary::default());
    for ((target, path), file) in &plan.desired.files {
        if only.is_some_and(|only| !file.modules.iter().any(|id| id == only)) {
            continue;
        }
        let disk = match Beneath::open(&file.root, confine(site, &file.root)) {
            Ok(Some(root)) => root.look(&file.path).map(|disk| disk.is_absent()),
            Ok(None) => Ok(true),
            Err(error) => Err(error),
        };
        match disk {
            Ok(true) => {
                summary.missing += 1;
                let path = shown(path);
                let module_ids = file.modules.clone();
                found.push(Restored {
                    target: *target,
                    path_posix: path.clone(),
                    path,
                    module_ids,
                });
            }
            Ok(false) => summary.skipped_existing += 1,
            Err(_) => summary.skipped_read_error += 1,
        }
    }
    found.sort_by(|a, b| (a.target, &a.path).cmp(&(b.target, &b.path)));
    (found, summary)
}
