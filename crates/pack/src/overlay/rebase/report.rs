//! What a rebase says of each file.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use super::{
    super::{OverlayKind, OverlayScope},
    Outcome,
};
use crate::{
    error::{Code, PackError},
    paths::RelPath,
};

const RESOLVE: &str = "edit these files until no marker is left (for patch overlays in .agentpack/conflicts), then rebase again";
const RESOLVE_BESIDE: &str = "edit these files until no marker is left; a file that is no text has upstream's version in \
    .agentpack/conflicts: keep yours, replace it or delete it from the overlay, remove the version there, then rebase again";

/// The payload of `overlay rebase`.
#[derive(Clone, Debug, Serialize)]
pub struct OverlayRebaseData {
    /// The module.
    pub module_id: String,
    /// The scope.
    pub scope: OverlayScope,
    /// Its directory.
    pub overlay_dir: String,
    /// `overlay_dir` with `/` between its segments.
    pub overlay_dir_posix: String,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Whether files equal to upstream were dropped.
    pub sparsify: bool,
    /// What was done.
    pub report: RebaseReport,
}

/// What became of each file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RebaseReport {
    /// Written anew.
    pub updated: Vec<String>,
    /// Dropped.
    pub deleted: Vec<String>,
    /// Left as they were.
    pub skipped: Vec<String>,
    /// To be resolved by hand.
    pub conflicts: Vec<String>,
    /// Their number.
    pub summary: RebaseSummary,
}

/// How many of each.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RebaseSummary {
    /// All.
    pub processed_files: usize,
    /// Written anew.
    pub updated_files: usize,
    /// Dropped.
    pub deleted_files: usize,
    /// Left as they were.
    pub skipped_files: usize,
    /// To be resolved.
    pub conflict_files: usize,
}

/// A file of conflicts counts as written, too, where the markers go into it.
pub(super) fn report(kind: OverlayKind, outcomes: &BTreeMap<RelPath, Outcome>) -> RebaseReport {
    let mut report = RebaseReport::default();
    for (path, outcome) in outcomes {
        let mut listed = |list: fn(&mut RebaseReport) -> &mut Vec<String>| {
            list(&mut report).push(path.to_string());
        };
        match outcome {
            Outcome::Beside(_) => listed(|report| &mut report.conflicts),
            Outcome::Conflict(_) | Outcome::Open => {
                listed(|report| &mut report.conflicts);
                if kind == OverlayKind::Dir {
                    listed(|report| &mut report.updated);
                }
            }
            Outcome::Drop => listed(|report| &mut report.deleted),
            Outcome::Keep => {}
            Outcome::Skip => listed(|report| &mut report.skipped),
            Outcome::Write(_) => listed(|report| &mut report.updated),
        }
    }
    report.summary = RebaseSummary {
        processed_files: outcomes.len(),
        updated_files: report.updated.len(),
        deleted_files: report.deleted.len(),
        skipped_files: report.skipped.len(),
        conflict_files: report.conflicts.len(),
    };
    report
}

/// `beside`: whether there are files that are no text.
pub(super) fn conflict(data: &OverlayRebaseData, beside: bool) -> PackError {
    let files = data.report.conflicts.join(", ");
    let hint = if beside { RESOLVE_BESIDE } else { RESOLVE };
    PackError::new(
        Code::OverlayRebaseConflict,
        format!("upstream and overlay changed the same lines in {files}"),
    )
    .with("module_id", data.module_id.clone())
    .with("conflicts", json!(data.report.conflicts))
    .with("summary", json!(data.report.summary))
    .with("dry_run", data.dry_run)
    .with("sparsify", data.sparsify)
    .with("scope", data.scope.as_str())
    .with("overlay_dir", data.overlay_dir.clone())
    .with("overlay_dir_posix", data.overlay_dir.clone())
    .hint(hint)
}
