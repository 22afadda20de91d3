//! Edits of deployed files, written as overlays on a new branch.
//!
//! The branch is made in a worktree of its own, so the user's checkout is never touched and a process that
//! dies leaves nothing in it.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    At, EvolveItem, sections,
    skipped::{HOLDS_A_CREDENTIAL, Skipped, skip},
};
use crate::{
    apply::write_durably,
    beneath::Beneath,
    clock,
    commands::confirmed,
    credentials::scan,
    deployed::confine,
    desired::DesiredFile,
    error::{PackError, Result},
    explain::module_path,
    git, ids,
    manifest::ModuleKind,
    overlay::{self, OverlayKind, OverlayScope, edit::write_metadata, patch},
    paths::{RelPath, shown},
    plan::Plan,
    site::Site,
    targets::TargetId,
    tree::Tree,
    workspace::Resolved,
};

/// What is to be proposed.
#[derive(Clone, Debug)]
pub struct ProposeOptions {
    /// Only this module.
    pub module_id: Option<String>,
    /// The overlay to write into.
    pub scope: OverlayScope,
    /// The branch's name.
    pub branch: Option<String>,
    /// Only say what would be proposed.
    pub dry_run: bool,
    /// The explicit yes.
    pub yes: bool,
}

/// The payload of `evolve propose`.
#[derive(Clone, Debug, Serialize)]
pub struct ProposeData {
    /// Whether a branch was made.
    pub created: bool,
    /// Why none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// What would be proposed, on a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<EvolveItem>>,
    /// The branch that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The overlay that it writes into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<OverlayScope>,
    /// Its files, relative to the repo.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// `files` with `/` between their segments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_posix: Vec<String>,
    /// Whether they are committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub committed: Option<bool>,
    /// Edits that can't be proposed, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Vec<Skipped>>,
    /// How many of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<ProposeSummary>,
}

/// How many of each.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ProposeSummary {
    /// Edits that can be proposed.
    pub drifted_proposeable: usize,
    /// Edits that can't.
    pub drifted_skipped: usize,
    /// Of these: files that are gone.
    pub skipped_missing: usize,
    /// Of these: files of several modules that can't be taken apart.
    pub skipped_multi_module: usize,
    /// Of these: files that can't be read.
    pub skipped_read_error: usize,
}

/// An edit and where it goes.
struct Candidate {
    item: EvolveItem,
    /// The file in the module.
    path: RelPath,
    text: Vec<u8>,
    /// It was taken out of a file of several modules.
    is_section: bool,
}

/// Finds edits and, with a yes, commits them on a branch. What is warned about comes beside it.
pub(crate) fn propose(
    site: &Site,
    plan: &Plan,
    options: &ProposeOptions,
) -> Result<(ProposeData, Vec<String>)> {
    let (found, skipped) = found(site, plan, options.module_id.as_deref())?;
    let (candidates, warnings) = told_apart(found);
    Ok((proposed(site, plan, options, candidates, skipped)?, warnings))
}

fn proposed(
    site: &Site,
    plan: &Plan,
    options: &ProposeOptions,
    candidates: Vec<Candidate>,
    mut skipped: Vec<Skipped>,
) -> Result<ProposeData> {
    skipped.sort_by(|a, b| (a.reason, a.target, &a.path).cmp(&(b.reason, b.target, &b.path)));
    let summary = summary(&candidates, &skipped);
    let nothing = |reason, candidates: Option<Vec<EvolveItem>>, skipped| ProposeData {
        created: false,
        reason: Some(reason),
        candidates,
        branch: None,
        scope: None,
        files: Vec::new(),
        files_posix: Vec::new(),
        committed: None,
        skipped: Some(skipped),
        summary: Some(summary),
    };
    if candidates.is_empty() {
        return Ok(nothing(
            if skipped.is_empty() { "no_drift" } else { "no_proposeable_drift" },
            None,
            skipped,
        ));
    }
    if options.dry_run {
        let mut items: Vec<EvolveItem> =
            candidates.into_iter().map(|candidate| candidate.item).collect();
        items.sort_by(|a, b| (&a.module_id, &a.path).cmp(&(&b.module_id, &b.path)));
        return Ok(nothing("dry_run", Some(items), skipped));
    }
    confirmed(options.yes, "evolve propose")?;
    git::require_clean(&site.repo, "evolve propose")?;
    let (branch, files) = branched(site, plan, options, &candidates)?;
    // Beside a branch agentpack lists no edits that were left out; of these somebody has to hear.
    skipped.retain(|skipped| skipped.reason == HOLDS_A_CREDENTIAL);
    Ok(ProposeData {
        created: true,
        reason: None,
        candidates: None,
        branch: Some(branch),
        scope: Some(options.scope),
        files_posix: files.clone(),
        files,
        committed: Some(true),
        skipped: (!skipped.is_empty()).then_some(skipped),
        summary: None,
    })
}

fn found(site: &Site, plan: &Plan, only: Option<&str>) -> Result<(Vec<Candidate>, Vec<Skipped>)> {
    let modules: HashMap<&str, &Resolved> =
        plan.workspace.modules.iter().map(|module| (module.module.id.as_str(), module)).collect();
    let (mut candidates, mut skipped) = (Vec::new(), Vec::new());
    for ((target, path), file) in &plan.desired.files {
        if only.is_some_and(|only| !file.modules.iter().any(|id| id == only)) {
            continue;
        }
        let disk = match Beneath::open(&file.root, confine(site, &file.root))? {
            Some(root) => root.read(&file.path),
            None => Ok(None),
        };
        let at = (target, path);
        match disk {
            Err(_) => skipped.push(skip(site, at, file, "read_error")),
            Ok(None) => skipped.push(skip(site, at, file, "missing")),
            Ok(Some(bytes)) if bytes == file.content.bytes() => {}
            Ok(Some(bytes)) => match taken_apart(at, file, &bytes, &modules) {
                Some(found) => {
                    let wanted = found
                        .into_iter()
                        .filter(|found| only.is_none_or(|only| found.item.module_id == only));
                    for found in wanted {
                        // No plan would take it, but git would have it for good.
                        if scan(found.path.as_str(), &found.text, &site.forms).is_empty() {
                            candidates.push(found);
                        } else {
                            skipped.push(Skipped {
                                module_id: Some(found.item.module_id),
                                module_ids: Vec::new(),
                                ..skip(site, at, file, HOLDS_A_CREDENTIAL)
                            });
                        }
                    }
                }
                None => skipped.push(skip(site, at, file, "multi_module_output")),
            },
        }
    }
    Ok((candidates, skipped))
}

/// One file may have been deployed to several places and edited in each. All are listed, a section of a combined file
/// once, as agentpack does; the first is what is proposed, and that another one says something else is told.
fn told_apart(found: Vec<Candidate>) -> (Vec<Candidate>, Vec<String>) {
    let (mut candidates, mut warnings): (Vec<Candidate>, _) = (Vec::new(), Vec::new());
    for candidate in found {
        let first = candidates.iter().find(|first| first.is_same_file(&candidate));
        let again = first.is_some() && candidate.is_section;
        if let Some(first) = first.filter(|first| first.text != candidate.text) {
            let EvolveItem { module_id, path, .. } = &candidate.item;
            let taken = &first.item.path;
            warnings.push(format!(
                "{path} has another edit of `{module_id}` than {taken}, whose edit is proposed"
            ));
        }
        if !again {
            candidates.push(candidate);
        }
    }
    (candidates, warnings)
}

impl Candidate {
    fn is_same_file(&self, other: &Self) -> bool {
        (&self.item.module_id, &self.path) == (&other.item.module_id, &other.path)
    }
}

/// The edits of a file by module; `None` when it can't be told whose they are.
fn taken_apart(
    at: At<'_>,
    file: &DesiredFile,
    bytes: &[u8],
    modules: &HashMap<&str, &Resolved>,
) -> Option<Vec<Candidate>> {
    let (target, path) = at;
    let is_section = file.modules.len() > 1;
    let candidate = |id: &str, text: Vec<u8>| {
        let path_in_module = module_path(modules.get(id)?, &file.path)?;
        let item = EvolveItem::new(id, *target, path);
        Some(Candidate { item, path: path_in_module, text, is_section })
    };
    if let [id] = &file.modules[..] {
        let module = modules.get(id.as_str())?;
        let text = if *target == TargetId::Cursor && module.module.kind == ModuleKind::Instructions
        {
            without_header(file.content.text()?, std::str::from_utf8(bytes).ok()?)?
        } else {
            bytes.to_vec()
        };
        return Some(vec![candidate(id, text)?]);
    }
    let ours = sections::parse(file.content.text()?)?;
    let theirs = sections::parse(std::str::from_utf8(bytes).ok()?)?;
    if ours.len() != theirs.len() || !ours.keys().all(|id| theirs.contains_key(id)) {
        return None;
    }
    theirs
        .into_iter()
        .filter(|(id, text)| ours[id] != *text)
        .map(|(id, text)| candidate(&id, text.into_bytes()))
        .collect()
}

/// A Cursor rule without the head that we put before it, when that head is still there.
fn without_header(ours: &str, theirs: &str) -> Option<Vec<u8>> {
    let end = ours.find("\n---\n\n")? + "\n---\n\n".len();
    theirs.strip_prefix(&ours[..end]).map(|text| text.as_bytes().to_vec())
}

fn summary(candidates: &[Candidate], skipped: &[Skipped]) -> ProposeSummary {
    let count = |reason| skipped.iter().filter(|skipped| skipped.reason == reason).count();
    ProposeSummary {
        drifted_proposeable: candidates.len(),
        drifted_skipped: skipped.len(),
        skipped_missing: count("missing"),
        skipped_multi_module: count("multi_module_output"),
        skipped_read_error: count("read_error"),
    }
}

/// Makes the branch; gives its name and its files.
fn branched(
    site: &Site,
    plan: &Plan,
    options: &ProposeOptions,
    candidates: &[Candidate],
) -> Result<(String, Vec<String>)> {
    let branch = options.branch.clone().unwrap_or_else(|| branch_name(options.scope, candidates));
    git::run(&site.repo, &["check-ref-format", "--branch", &branch]).map_err(|_| {
        PackError::config(format!("`{branch}` is no name for a branch"))
            .with("branch", branch.clone())
    })?;
    let worktree = site.state().join(format!("worktree-{}", clock::nanos()));
    fs::create_dir_all(site.state())
        .map_err(|error| PackError::io("create", &site.state(), &error))?;
    let place = shown(&worktree);
    // Without its files: what the settings name that count there is looked at there.
    let add = ["worktree", "add", "--quiet", "--no-checkout", "-b", &branch, "--", &place, "HEAD"];
    git::run(&site.repo, &add)?;
    let checked_out = git::run(&worktree, &["reset", "--quiet", "--hard"]);
    let written = checked_out
        .and_then(|_| written(site, plan, options.scope, candidates, &worktree))
        .and_then(|files| {
            git::run(&worktree, &["add", "-A"])?;
            let identity: &[&str] = if git::run(&worktree, &["config", "user.email"]).is_ok() {
                &[]
            } else {
                &["-c", "user.name=agentpack", "-c", "user.email=agentpack@localhost"]
            };
            let commit = ["commit", "--quiet", "-m", "chore(evolve): propose overlay updates"];
            git::run(&worktree, &[identity, &commit].concat())?;
            Ok(files)
        });
    let _ = git::run(&site.repo, &["worktree", "remove", "--force", "--", &place]);
    let files = written.inspect_err(|_| {
        let _ = git::run(&site.repo, &["branch", "-D", "--", &branch]);
    })?;
    Ok((branch, files))
}

/// Writes the overlays into the worktree; gives their files relative to it.
fn written(
    site: &Site,
    plan: &Plan,
    scope: OverlayScope,
    candidates: &[Candidate],
    worktree: &Path,
) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        if candidates[..index].iter().any(|first| first.is_same_file(candidate)) {
            continue;
        }
        let resolved = plan
            .workspace
            .modules
            .iter()
            .find(|module| module.module.id == candidate.item.module_id);
        let Some(resolved) = resolved else { continue };
        let overlay = overlay::folder(site, scope, &resolved.module.id);
        let inside = overlay.strip_prefix(&site.repo).unwrap_or(&overlay);
        let overlay = worktree.join(inside);
        let kind = if overlay.is_dir() { overlay::kind_of(&overlay)? } else { OverlayKind::Dir };
        let (path, bytes) = match kind {
            OverlayKind::Dir => (PathBuf::from(candidate.path.as_str()), candidate.text.clone()),
            OverlayKind::Patch => {
                let below = below(site, resolved, scope, &candidate.path)?;
                let after = String::from_utf8_lossy(&candidate.text);
                let patch = patch::between(&candidate.path, &below, &after);
                (
                    Path::new(patch::FOLDER).join(format!("{}.patch", candidate.path)),
                    patch.into_bytes(),
                )
            }
        };
        write_durably(&overlay.join(&path), &bytes)?;
        if kind == OverlayKind::Dir {
            let source = resolved.composed.tree.get(candidate.path.as_str());
            overlay::edit::set_executable(
                &overlay.join(&path),
                source.is_some_and(|file| file.executable),
            )?;
        }
        write_metadata(site, &overlay, &resolved.module, kind, &resolved.upstream)?;
        files.push(shown(&inside.join(&path)));
    }
    files.sort();
    Ok(files)
}

/// A file as it is below this scope: upstream with the lower overlays.
fn below(site: &Site, resolved: &Resolved, scope: OverlayScope, path: &RelPath) -> Result<String> {
    let overlays = overlay::Overlays::open(site).below(scope);
    let composed = overlay::compose::compose(&resolved.module, &resolved.upstream.tree, &overlays)?;
    let text = |tree: &Tree| {
        tree.get(path.as_str()).and_then(|file| file.content.text().map(str::to_owned))
    };
    text(&composed.tree).ok_or_else(|| {
        PackError::config(format!(
            "{path} of `{}` is no text that can be patched",
            resolved.module.id
        ))
        .with("module_id", resolved.module.id.clone())
        .hint("use a dir overlay for this module")
    })
}

fn branch_name(scope: OverlayScope, candidates: &[Candidate]) -> String {
    let first = &candidates[0].item.module_id;
    let single = candidates.iter().all(|candidate| candidate.item.module_id == *first);
    let module = if single { ids::sanitized(first) } else { "multi".to_owned() };
    let nanos = clock::nanos().rem_euclid(1_000_000_000);
    format!("evolve/propose-{}-{module}-{}-{nanos:09}", scope.as_str(), clock::compact())
}
