//! The plan with its diffs.

use std::borrow::Cow;

use serde::Serialize;

use crate::{
    apply::{After, Step},
    beneath::{Beneath, Disk},
    credentials::scan,
    deployed::confine,
    error::Result,
    gate::Pending,
    paths::shown,
    plan::{Change, Op, Plan, Summary, summary},
    servers,
    site::Site,
    targets::TargetId,
};

/// A diff longer than this is left out.
const MAX_DIFF: usize = 100 * 1024;

/// The payload of `preview`.
#[derive(Clone, Debug, Serialize)]
pub struct PreviewData {
    /// The profile.
    pub profile: String,
    /// The targets.
    pub targets: Vec<TargetId>,
    /// The plan.
    pub plan: PreviewPlan,
    /// The diffs, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<PreviewDiff>,
}

/// The changes and their number.
#[derive(Clone, Debug, Serialize)]
pub struct PreviewPlan {
    /// The changes.
    pub changes: Vec<Change>,
    /// Their number.
    pub summary: Summary,
}

/// The changes with the diffs of their files.
#[derive(Clone, Debug, Serialize)]
pub struct PreviewDiff {
    /// The changes.
    pub changes: Vec<Change>,
    /// Their number.
    pub summary: Summary,
    /// One for each change.
    pub files: Vec<DiffFile>,
}

/// The diff of one file.
#[derive(Clone, Debug, Serialize)]
pub struct DiffFile {
    /// The target.
    pub target: TargetId,
    /// The root.
    pub root: String,
    /// `root` with `/` between its segments.
    pub root_posix: String,
    /// The path below the root.
    pub path: String,
    /// `path` with `/` between its segments.
    pub path_posix: String,
    /// What is done.
    pub op: Op,
    /// What is there, as `sha256:…`.
    pub before_hash: Option<String>,
    /// What shall be there, as `sha256:…`.
    pub after_hash: Option<String>,
    /// The unified diff, unless it is too long or one side is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unified: Option<String>,
}

/// The payload, and a sentence about each diff that was left out.
pub(crate) fn preview(
    site: &Site,
    plan: &Plan,
    with_diff: bool,
) -> Result<(PreviewData, Vec<String>)> {
    let mut warnings = Vec::new();
    let diff = if with_diff { Some(with_diffs(site, plan, &mut warnings)?) } else { None };
    let data = PreviewData {
        profile: site.profile.clone(),
        targets: plan.workspace.targets.clone(),
        plan: PreviewPlan { changes: plan.changes.clone(), summary: summary(&plan.changes) },
        diff,
    };
    Ok((data, warnings))
}

/// A unified diff, or why there is none.
pub(crate) type Unified = std::result::Result<String, &'static str>;

/// The diff of each change.
pub(crate) fn diffs(site: &Site, pending: &Pending<'_>) -> Result<Vec<Unified>> {
    pending.steps.iter().map(|step| unified(site, pending, step)).collect()
}

fn with_diffs(site: &Site, plan: &Plan, warnings: &mut Vec<String>) -> Result<PreviewDiff> {
    let mut files = Vec::new();
    let each = plan.changes.iter().zip(&plan.steps).zip(diffs(site, &Pending::deploy(site, plan))?);
    for ((change, step), unified) in each {
        if let Err(why) = &unified {
            warnings.push(format!("no diff of {}: {why}", change.path));
        }
        files.push(DiffFile {
            target: step.target,
            root: shown(&step.root),
            root_posix: shown(&step.root),
            path: step.path.to_string(),
            path_posix: step.path.to_string(),
            op: change.op,
            before_hash: change.before_sha256.map(|sha| sha.tagged()),
            after_hash: change.after_sha256.map(|sha| sha.tagged()),
            unified: unified.ok(),
        });
    }
    Ok(PreviewDiff { changes: plan.changes.clone(), summary: summary(&plan.changes), files })
}

/// The diff of a place, or why there is none.
fn unified(site: &Site, pending: &Pending<'_>, step: &Step) -> Result<Unified> {
    let before = match &step.before {
        Disk::Absent | Disk::Directory => Vec::new(),
        Disk::Link(target) => format!("link to {target}\n").into_bytes(),
        Disk::File(_) => match Beneath::open(&step.root, confine(site, &step.root))? {
            Some(root) => root.read(&step.path)?.unwrap_or_default(),
            None => Vec::new(),
        },
    };
    let after = match &step.after {
        After::File { content, .. } | After::Restored { content, .. } => {
            Cow::Borrowed(content.bytes())
        }
        After::Absent => Cow::Borrowed(&[][..]),
        After::Link(target) => Cow::Owned(format!("link to {target}\n").into_bytes()),
    };
    let (Ok(before), Ok(after)) = (std::str::from_utf8(&before), std::str::from_utf8(&after))
    else {
        return Ok(Err("it is not UTF-8 text"));
    };
    let (mut before, mut after) = (Cow::Borrowed(before), Cow::Borrowed(after));
    if let Some(names) = pending.entries.get(&(step.target, step.full())) {
        for side in [&mut before, &mut after] {
            let ours = servers::ours_in(step.target, names, side);
            *side = Cow::Owned(ours.unwrap_or_default());
        }
    }
    let holds_one = |text: &str| !scan(step.path.as_str(), text.as_bytes(), &site.forms).is_empty();
    // The reader of a diff may be an agent.
    if holds_one(&before) {
        return Ok(Err("what stands there holds what looks like a credential"));
    }
    if pending.may_hold_credentials && holds_one(&after) {
        return Ok(Err("what shall stand there holds what looks like a credential"));
    }
    if before.len() + after.len() > 64 * MAX_DIFF {
        return Ok(Err("it is too long"));
    }
    let mut options = diffy::DiffOptions::new();
    let (old, new) = (format!("a/{}", step.path), format!("b/{}", step.path));
    options.set_original_filename(old).set_modified_filename(new);
    let text = options.create_patch(&before, &after).to_string();
    Ok(if text.len() > MAX_DIFF { Err("it is longer than 100 KiB") } else { Ok(text) })
}
