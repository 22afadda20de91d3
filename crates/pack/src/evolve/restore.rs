//! Missing files, put back as they are wanted; nothing that exists is touched.

use serde::Serialize;

use crate::{
    apply::{HomeLock, recover},
    beneath::{Beneath, WriteMode},
    commands::confirmed,
    deployed::confine,
    error::{PackError, Result},
    paths::shown,
    plan::Plan,
    site::Site,
    targets::TargetId,
};

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
    /// The same with `/`.
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

/// Puts missing files back, with a yes.
pub(crate) fn restore(
    site: &Site,
    only: Option<&str>,
    dry_run: bool,
    yes: bool,
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
    for file in &found {
        let place = (file.target, std::path::PathBuf::from(&file.path));
        let wanted = &plan.desired.files[&place];
        std::fs::create_dir_all(&wanted.root)
            .map_err(|error| PackError::io("create", &wanted.root, &error))?;
        let Some(root) = Beneath::open(&wanted.root, confine(site, &wanted.root))? else {
            continue;
        };
        root.make_parents(&wanted.path)?;
        if root.look(&wanted.path)?.is_absent() {
            let mode = WriteMode::New { executable: wanted.executable };
            let temporary = crate::apply::step::temporary(&wanted.path, "restore");
            root.remove_temporary(&wanted.path, &temporary);
            root.write(&wanted.path, wanted.content.bytes(), mode, &temporary)?;
            summary.restored += 1;
        }
    }
    let warnings = recovered.into_iter().chain(plan.warnings).collect();
    Ok((RestoreData { restored: found, summary, reason: "restored" }, warnings))
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
