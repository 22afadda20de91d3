//! Moving an overlay onto a newer upstream: a three-way merge of each file.
//!
//! The baseline only moves when every file is clean. A conflict leaves the baseline where it was and notes
//! which upstream the markers were made against (`.agentpack/rebase.json`), so that the next run takes a file
//! whose markers are gone as resolved, and does not merge it a second time.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use diffy::{ConflictStyle, MergeOptions};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    OverlayKind, OverlayScope,
    baseline::{self, Baseline},
    compose::has_markers,
    folder, kind_of, patch,
};
use crate::{
    apply::write_durably,
    checkouts::Checkouts,
    error::{Code, PackError, Result},
    git,
    manifest::{GitSource, Manifest, Module},
    paths::{RelPath, shown},
    sha::{Content, Sha},
    site::Site,
    tree::{Tree, TreeFile},
    workspace::{Upstream, one_module},
};

/// How an overlay is to be rebased.
#[derive(Clone, Copy, Debug)]
pub struct RebaseOptions {
    /// Whose overlay.
    pub scope: OverlayScope,
    /// Drop files that end up as upstream has them.
    pub sparsify: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// The payload of `overlay rebase`.
#[derive(Clone, Debug, Serialize)]
pub struct OverlayRebaseData {
    /// The module.
    pub module_id: String,
    /// The scope.
    pub scope: OverlayScope,
    /// Its directory.
    pub overlay_dir: String,
    /// The same with `/`.
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

/// `.agentpack/rebase.json`: the upstream digest that each conflict was made against.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Pending {
    files: BTreeMap<String, Option<Sha>>,
}

const PENDING: &str = ".agentpack/rebase.json";

/// What becomes of a file of the overlay.
enum Outcome {
    Conflict(Vec<u8>),
    Drop,
    /// Left as it is, since nothing moved below it; agentpack lists it nowhere.
    Keep,
    /// Left as it is, since it can't be moved: upstream never had it, or has it no more.
    Skip,
    Write(Vec<u8>),
}

/// Rebases one overlay.
pub(crate) fn rebase(
    site: &Site,
    module_id: &str,
    options: RebaseOptions,
) -> Result<OverlayRebaseData> {
    let RebaseOptions { scope, sparsify, dry_run } = options;
    Manifest::load(&site.repo)?;
    let overlay = folder(site, scope, module_id);
    if !overlay.is_dir() {
        return Err(PackError::new(
            Code::OverlayNotFound,
            format!("there is no overlay {}", overlay.display()),
        )
        .with("overlay_dir", shown(&overlay))
        .hint("make it with `agentpack overlay edit`"));
    }
    let (module, upstream) = one_module(site, module_id)?;
    let baseline = Baseline::load(&overlay)?;
    let kind = kind_of(&overlay)?;
    let work = Work {
        site,
        module: &module,
        scope,
        overlay: &overlay,
        baseline: &baseline,
        upstream: &upstream,
    };
    let outcomes = match kind {
        OverlayKind::Dir => work.files(sparsify)?,
        OverlayKind::Patch => work.patches()?,
    };
    let report = report(kind, &outcomes);
    if !dry_run {
        work.write(kind, outcomes)?;
    }
    let data = OverlayRebaseData {
        module_id: module_id.to_owned(),
        scope,
        overlay_dir: shown(&overlay),
        overlay_dir_posix: shown(&overlay),
        dry_run,
        sparsify,
        report,
    };
    if data.report.conflicts.is_empty() { Ok(data) } else { Err(conflict(&data)) }
}

struct Work<'w> {
    site: &'w Site,
    module: &'w Module,
    scope: OverlayScope,
    overlay: &'w Path,
    baseline: &'w Baseline,
    upstream: &'w Upstream,
}

impl Work<'_> {
    fn files(&self, sparsify: bool) -> Result<BTreeMap<RelPath, Outcome>> {
        let pending = self.pending();
        let mut outcomes = BTreeMap::new();
        for (path, ours) in Tree::read(self.overlay)?.without_metadata().0 {
            let theirs = self.upstream.tree.get(path.as_str());
            let outcome = match self.baseline.sha_of(&path) {
                None => Outcome::Skip,
                Some(_)
                    if pending.files.contains_key(path.as_str())
                        && has_markers(ours.content.bytes()) =>
                {
                    Outcome::Conflict(ours.content.bytes().to_vec())
                }
                Some(_) if Self::is_resolved(&pending, &path, theirs) => Outcome::Keep,
                Some(base) => self.merged(&path, base, &ours.content, theirs, sparsify)?,
            };
            outcomes.insert(path, outcome);
        }
        Ok(outcomes)
    }

    fn merged(
        &self,
        path: &RelPath,
        base: Sha,
        ours: &Content,
        theirs: Option<&TreeFile>,
        sparsify: bool,
    ) -> Result<Outcome> {
        let Some(theirs) = theirs else {
            // Upstream dropped the file: an unchanged copy goes with it, a changed one stays.
            return Ok(if ours.sha() == base { Outcome::Drop } else { Outcome::Skip });
        };
        let theirs = &theirs.content;
        if ours.sha() == theirs.sha() {
            return Ok(if sparsify { Outcome::Drop } else { Outcome::Keep });
        }
        if ours.sha() == base {
            return Ok(if sparsify {
                Outcome::Drop
            } else {
                Outcome::Write(theirs.bytes().to_vec())
            });
        }
        if theirs.sha() == base {
            return Ok(Outcome::Keep);
        }
        let base = self.base(path, base)?;
        Ok(match merge(&base, ours.bytes(), theirs.bytes()) {
            Ok(text) if sparsify && text == theirs.bytes() => Outcome::Drop,
            Ok(text) => Outcome::Write(text),
            Err(marked) => Outcome::Conflict(marked),
        })
    }

    fn patches(&self) -> Result<BTreeMap<RelPath, Outcome>> {
        let mut outcomes = BTreeMap::new();
        for file in patch::list(self.overlay)? {
            let open = self.conflict_file(&file.target);
            let resolved = fs::read(&open).ok();
            let outcome = match (resolved, self.upstream.tree.get(file.target.as_str())) {
                (Some(text), _) if has_markers(&text) => Outcome::Conflict(text),
                (Some(text), Some(theirs)) => Self::patched(&file.target, theirs, &text),
                // There is nothing left that a patch could change, and a person has seen it.
                (Some(_), None) => Outcome::Drop,
                (None, theirs) => self.patch_moved(&file, theirs)?,
            };
            outcomes.insert(file.target, outcome);
        }
        Ok(outcomes)
    }

    fn patch_moved(&self, file: &patch::PatchFile, theirs: Option<&TreeFile>) -> Result<Outcome> {
        let Some(sha) = self.baseline.sha_of(&file.target) else { return Ok(Outcome::Skip) };
        let place =
            patch::Place { module_id: &self.module.id, scope: self.scope, folder: self.overlay };
        if let Some(theirs) = theirs.filter(|theirs| theirs.content.sha() == sha) {
            let ours = patch::applied(&place, file, Some(theirs))?;
            return Ok(Self::patched(&file.target, theirs, ours.content.bytes()));
        }
        let base =
            TreeFile { content: Content::new(self.base(&file.target, sha)?), executable: false };
        let ours = patch::applied(&place, file, Some(&base))?;
        let Some(theirs) = theirs else {
            return Ok(Outcome::Conflict(dropped_upstream(ours.content.bytes())));
        };
        Ok(match merge(base.content.bytes(), ours.content.bytes(), theirs.content.bytes()) {
            Ok(text) => Self::patched(&file.target, theirs, &text),
            Err(marked) => Outcome::Conflict(marked),
        })
    }

    /// The patch from upstream to a text; none when they are one.
    fn patched(path: &RelPath, theirs: &TreeFile, text: &[u8]) -> Outcome {
        let (Some(before), Ok(after)) = (theirs.content.text(), std::str::from_utf8(text)) else {
            return Outcome::Conflict(text.to_vec());
        };
        if before == after {
            Outcome::Drop
        } else {
            Outcome::Write(patch::between(path, before, after).into_bytes())
        }
    }

    /// The file as it was when the overlay was made.
    fn base(&self, path: &RelPath, sha: Sha) -> Result<Vec<u8>> {
        let found = match &self.baseline.upstream {
            Some(baseline::Upstream::Git { url, commit, subdir }) => {
                self.checked_out(url, commit, subdir, path)
            }
            Some(baseline::Upstream::LocalPath {
                repo_rel_path,
                repo_git_rev: Some(revision),
                ..
            }) => {
                let whole = format!("{repo_rel_path}/{path}");
                git::show(&self.site.repo, revision, &whole)
                    .or_else(|| git::show(&self.site.repo, revision, repo_rel_path))
            }
            _ => None,
        };
        found.filter(|bytes| Sha::of(bytes) == sha).ok_or_else(|| {
            let message = format!("{path} as it was when the overlay was made can't be found again");
            PackError::new(Code::OverlayBaselineUnsupported, message)
                .with("overlay_dir", shown(self.overlay))
                .with("relpath", path.as_str())
                .hint("keep the config repo in git and commit it before making overlays; then make this one again")
        })
    }

    fn checked_out(
        &self,
        url: &str,
        commit: &str,
        subdir: &str,
        path: &RelPath,
    ) -> Option<Vec<u8>> {
        let reference = commit.to_owned();
        let source = GitSource { url: url.to_owned(), reference, subdir: None, shallow: false };
        let folder = Checkouts::new(self.site).checkout(url, commit, &source).ok()?;
        let inside = if subdir.is_empty() { folder } else { folder.join(RelPath::parse(subdir)?) };
        fs::read(inside.join(path)).ok()
    }

    fn is_resolved(pending: &Pending, path: &RelPath, theirs: Option<&TreeFile>) -> bool {
        let made_against = pending.files.get(path.as_str());
        made_against.is_some_and(|sha| *sha == theirs.map(|file| file.content.sha()))
    }

    fn pending(&self) -> Pending {
        let text = fs::read_to_string(self.overlay.join(PENDING)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn conflict_file(&self, path: &RelPath) -> PathBuf {
        self.overlay.join(".agentpack/conflicts").join(path)
    }

    fn write(&self, kind: OverlayKind, outcomes: BTreeMap<RelPath, Outcome>) -> Result<()> {
        let mut pending = Pending::default();
        for (path, outcome) in outcomes {
            let place = match kind {
                OverlayKind::Dir => self.overlay.join(&path),
                OverlayKind::Patch => {
                    self.overlay.join(patch::FOLDER).join(format!("{path}.patch"))
                }
            };
            match outcome {
                Outcome::Keep | Outcome::Skip => {}
                Outcome::Drop => {
                    fs::remove_file(&place)
                        .map_err(|error| PackError::io("remove", &place, &error))?;
                    prune(&place, self.overlay);
                }
                Outcome::Write(bytes) => keep_mode(&place, &bytes)?,
                Outcome::Conflict(marked) => {
                    let theirs = self.upstream.tree.get(path.as_str());
                    pending.files.insert(path.to_string(), theirs.map(|file| file.content.sha()));
                    let place =
                        if kind == OverlayKind::Dir { place } else { self.conflict_file(&path) };
                    keep_mode(&place, &marked)?;
                    continue;
                }
            }
            let _ = fs::remove_file(self.conflict_file(&path));
        }
        if !pending.files.is_empty() {
            let text = serde_json::to_string_pretty(&pending).expect("strings");
            return write_durably(&self.overlay.join(PENDING), text.as_bytes());
        }
        let _ = fs::remove_file(self.overlay.join(PENDING));
        let _ = fs::remove_dir_all(self.overlay.join(".agentpack/conflicts"));
        let baseline = Baseline::of(
            self.site,
            self.module,
            &self.upstream.tree,
            self.upstream.commit.as_deref(),
        );
        write_durably(&self.overlay.join(baseline::FILE), baseline.text().as_bytes())
    }
}

/// The merged text, or the text with markers.
fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> std::result::Result<Vec<u8>, Vec<u8>> {
    MergeOptions::new().set_conflict_style(ConflictStyle::Merge).merge_bytes(base, ours, theirs)
}

/// What a patch made of a file that upstream has no more, with markers for a person to decide.
fn dropped_upstream(ours: &[u8]) -> Vec<u8> {
    [&b"<<<<<<< ours\n"[..], ours, b"\n=======\n>>>>>>> theirs (deleted upstream)\n"].concat()
}

fn keep_mode(place: &Path, bytes: &[u8]) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let executable =
        fs::metadata(place).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0);
    write_durably(place, bytes)?;
    super::edit::set_executable(place, executable)
}

/// Removes directories that became empty.
fn prune(place: &Path, overlay: &Path) {
    for folder in place.ancestors().skip(1).take_while(|folder| *folder != overlay) {
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

/// A file of conflicts counts as written, too, where the markers go into it.
fn report(kind: OverlayKind, outcomes: &BTreeMap<RelPath, Outcome>) -> RebaseReport {
    let mut report = RebaseReport::default();
    for (path, outcome) in outcomes {
        let mut listed = |list: fn(&mut RebaseReport) -> &mut Vec<String>| {
            list(&mut report).push(path.to_string());
        };
        match outcome {
            Outcome::Conflict(_) => {
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

fn conflict(data: &OverlayRebaseData) -> PackError {
    let files = data.report.conflicts.join(", ");
    PackError::new(Code::OverlayRebaseConflict, format!("upstream and overlay changed the same lines in {files}"))
        .with("module_id", data.module_id.clone())
        .with("conflicts", json!(data.report.conflicts))
        .with("summary", json!(data.report.summary))
        .with("dry_run", data.dry_run)
        .with("sparsify", data.sparsify)
        .with("scope", data.scope.as_str())
        .with("overlay_dir", data.overlay_dir.clone())
        .with("overlay_dir_posix", data.overlay_dir.clone())
        .hint("edit these files until no marker is left (for patch overlays in .agentpack/conflicts), then rebase again")
}
