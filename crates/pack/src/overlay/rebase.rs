//! Moving an overlay onto a newer upstream: a three-way merge of each file.
//!
//! The baseline only moves when every file is clean. A conflict leaves the baseline where it was and notes which
//! upstream the markers were made against, and the other files moved to (`rebase/pending.rs`): the next run takes
//! a file whose markers are gone as resolved, and merges only what upstream changed since.

mod pending;
mod report;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use diffy::{ConflictStyle, IncompleteHunkStyle, MergeOptions};

pub use self::report::{OverlayRebaseData, RebaseReport, RebaseSummary};
use self::{
    pending::Pending,
    report::{conflict, report},
};
use super::{
    OverlayKind, OverlayScope,
    baseline::{self, Baseline},
    folder, kind_of, patch,
};
use crate::{
    apply::write_durably,
    checkouts::Checkouts,
    error::{Code, PackError, Result},
    git,
    manifest::{GitSource, Manifest, Module},
    paths::{RelPath, shown},
    plain_file,
    sha::{Content, Sha},
    site::Site,
    tree::{Tree, TreeFile},
    workspace::{Upstream, one_module},
};

/// How an overlay is to be rebased.
#[derive(Clone, Copy, Debug)]
pub struct RebaseOptions {
    /// The scope of the overlay.
    pub scope: OverlayScope,
    /// Drop files that end up as upstream has them.
    pub sparsify: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What becomes of a file of the overlay.
enum Outcome {
    /// No text that could hold markers: left as it is, with upstream's version beside it.
    Beside(Vec<u8>),
    Conflict(Vec<u8>),
    Drop,
    /// Left as it is, since nothing moved below it; agentpack lists it nowhere.
    Keep,
    /// Left as it is, since its markers wait for a person.
    Open,
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
        pending: Pending::load(&overlay),
        upstream: &upstream,
    };
    let outcomes = match kind {
        OverlayKind::Dir => work.files(sparsify)?,
        OverlayKind::Patch => work.patches()?,
    };
    let report = report(kind, &outcomes);
    let beside = outcomes.values().any(|outcome| matches!(outcome, Outcome::Beside(_)));
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
    if data.report.conflicts.is_empty() { Ok(data) } else { Err(conflict(&data, beside)) }
}

struct Work<'w> {
    site: &'w Site,
    module: &'w Module,
    scope: OverlayScope,
    overlay: &'w Path,
    baseline: &'w Baseline,
    pending: Pending,
    upstream: &'w Upstream,
}

impl Work<'_> {
    fn files(&self, sparsify: bool) -> Result<BTreeMap<RelPath, Outcome>> {
        let mut outcomes = BTreeMap::new();
        for (path, ours) in Tree::read(self.overlay)?.without_metadata().0 {
            let theirs = self.upstream.tree.get(path.as_str());
            let outcome = match self.baseline.sha_of(&path) {
                None => Outcome::Skip,
                Some(_)
                    if self.pending.files.contains_key(path.as_str())
                        && has_marker(ours.content.bytes()) =>
                {
                    Outcome::Open
                }
                Some(base) => {
                    let base = self.pending.base_of(&path).unwrap_or(base);
                    self.merged(&path, base, &ours.content, theirs, sparsify)?
                }
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
        if self.conflict_file(path).exists() {
            // A person has not said yet which of the two it is to be.
            return Ok(Outcome::Beside(theirs.bytes().to_vec()));
        }
        if theirs.sha() == base {
            return Ok(Outcome::Keep);
        }
        if !is_text(ours.bytes()) || !is_text(theirs.bytes()) {
            return Ok(Outcome::Beside(theirs.bytes().to_vec()));
        }
        let base = self.base(path, base)?;
        if !is_text(&base) {
            return Ok(Outcome::Beside(theirs.bytes().to_vec()));
        }
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
            let resolved = plain_file::read(&open).ok();
            let outcome = match (resolved, self.upstream.tree.get(file.target.as_str())) {
                (Some(text), _) if has_marker(&text) => Outcome::Open,
                (Some(text), theirs) => self.resolved(&file.target, &text, theirs)?,
                (None, theirs) => self.patch_moved(&file, theirs)?,
            };
            outcomes.insert(file.target, outcome);
        }
        Ok(outcomes)
    }

    /// The text that a person made of a conflict, as a patch of upstream as it is now.
    fn resolved(&self, path: &RelPath, text: &[u8], theirs: Option<&TreeFile>) -> Result<Outcome> {
        let made_against = self.pending.files.get(path.as_str()).copied();
        let Some(theirs) = theirs else {
            return Ok(match made_against {
                // There is nothing left that a patch could change, and a person has seen it.
                Some(None) => Outcome::Drop,
                _ => Outcome::Conflict(dropped_upstream(text)),
            });
        };
        if made_against == Some(Some(theirs.content.sha())) {
            return Ok(Self::patched(path, theirs, text));
        }
        // Upstream has moved once more since.
        let base = match made_against.unwrap_or_else(|| self.baseline.sha_of(path)) {
            Some(sha) => self.base(path, sha)?,
            None => Vec::new(),
        };
        Ok(match merge(&base, text, theirs.content.bytes()) {
            Ok(text) => Self::patched(path, theirs, &text),
            Err(marked) => Outcome::Conflict(marked),
        })
    }

    fn patch_moved(&self, file: &patch::PatchFile, theirs: Option<&TreeFile>) -> Result<Outcome> {
        let Some(sha) = self.baseline.sha_of(&file.target) else { return Ok(Outcome::Skip) };
        let sha = self.pending.moved.get(file.target.as_str()).copied().unwrap_or(sha);
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

    /// The file as it was when the overlay was made, or moved to it.
    fn base(&self, path: &RelPath, sha: Sha) -> Result<Vec<u8>> {
        let is_it = |bytes: &Vec<u8>| Sha::of(bytes) == sha;
        if let Some(kept) = Pending::text(self.overlay, sha).filter(is_it) {
            return Ok(kept);
        }
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
        found.filter(is_it).ok_or_else(|| {
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
        plain_file::read(inside.join(path)).ok()
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
            self.note(&mut pending, &path, &outcome);
            match outcome {
                Outcome::Open => continue,
                Outcome::Keep | Outcome::Skip => {}
                Outcome::Drop => {
                    fs::remove_file(&place)
                        .map_err(|error| PackError::io("remove", &place, &error))?;
                    prune(&place, self.overlay);
                }
                Outcome::Write(bytes) => keep_mode(&place, &bytes)?,
                Outcome::Beside(theirs) => {
                    write_durably(&self.conflict_file(&path), &theirs)?;
                    continue;
                }
                Outcome::Conflict(marked) => {
                    let place =
                        if kind == OverlayKind::Dir { place } else { self.conflict_file(&path) };
                    keep_mode(&place, &marked)?;
                    continue;
                }
            }
            let _ = fs::remove_file(self.conflict_file(&path));
        }
        if !pending.is_empty() {
            return pending.write(self.overlay, &self.upstream.tree);
        }
        Pending::clear(self.overlay)?;
        let _ = fs::remove_dir_all(self.overlay.join(".agentpack/conflicts"));
        let baseline = Baseline::of(
            self.site,
            self.module,
            &self.upstream.tree,
            self.upstream.commit.as_deref(),
        );
        write_durably(&self.overlay.join(baseline::FILE), baseline.text().as_bytes())
    }

    /// Notes what a file stands on after its outcome.
    fn note(&self, pending: &mut Pending, path: &RelPath, outcome: &Outcome) {
        let theirs = self.upstream.tree.get(path.as_str()).map(|file| file.content.sha());
        let moved = match outcome {
            Outcome::Keep | Outcome::Write(_) => {
                theirs.filter(|sha| self.baseline.sha_of(path) != Some(*sha))
            }
            Outcome::Beside(_) | Outcome::Conflict(_) | Outcome::Open | Outcome::Skip => {
                self.pending.moved.get(path.as_str()).copied()
            }
            Outcome::Drop => None,
        };
        if let Some(sha) = moved {
            pending.moved.insert(path.to_string(), sha);
        }
        let open = match outcome {
            Outcome::Beside(_) | Outcome::Conflict(_) => theirs,
            // The markers stay those that were made then.
            Outcome::Open => self.pending.files.get(path.as_str()).copied().unwrap_or(theirs),
            _ => return,
        };
        pending.files.insert(path.to_string(), open);
    }
}

/// The merged text, or the text with markers.
fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> std::result::Result<Vec<u8>, Vec<u8>> {
    MergeOptions::new()
        .set_conflict_style(ConflictStyle::Merge)
        .set_incomplete_hunk_style(IncompleteHunkStyle::Git)
        .merge_bytes(base, ours, theirs)
}

/// Whether a file can be merged by lines and hold markers, as git tells it, too.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok()
}

/// Whether a file that a rebase marked still waits for a person.
pub(super) fn is_open(overlay: &Path, path: &RelPath, bytes: &[u8]) -> bool {
    has_marker(bytes) && Pending::load(overlay).files.contains_key(path.as_str())
}

/// Whether any marker is left of those that `merge` writes. One is enough, in a file that is known to have been
/// marked; an unfinished last line before it may once have been glued to it.
fn has_marker(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').any(|line| {
        line.starts_with(b"<<<<<<< ")
            || line.starts_with(b">>>>>>> ")
            || line.ends_with(b">>>>>>> theirs")
    })
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
