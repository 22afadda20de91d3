//! A config repo, read: its manifest checked, its modules resolved, composed and checked, in parallel.

use std::{fs, path::Path};

use rayon::prelude::*;

use crate::{
    checkouts::Checkouts,
    credentials,
    error::{Code, PackError, Result},
    lockfile::{self, LockIndex, Lockfile},
    manifest::{GitSource, Manifest, Module, Source},
    module,
    overlay::{
        Overlays,
        compose::{Composed, compose},
    },
    paths::{RelPath, shown},
    site::Site,
    targets::TargetId,
    tree::Tree,
};

/// What a plan is made from.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) manifest: Manifest,
    pub(crate) targets: Vec<TargetId>,
    pub(crate) modules: Vec<Resolved>,
    pub(crate) warnings: Vec<String>,
}

/// A module with its files.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) module: Module,
    pub(crate) upstream: Upstream,
    pub(crate) composed: Composed,
}

/// A module's files as its source has them.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    pub(crate) tree: Tree,
    /// The commit of a git module.
    pub(crate) commit: Option<String>,
}

impl Workspace {
    /// Reads everything that the profile and the target filter of the site choose.
    pub(crate) fn open(site: &Site) -> Result<Self> {
        let manifest = Manifest::load(&site.repo)?;
        let targets = manifest.chosen_targets(&site.target)?;
        let selected = manifest.selected(&site.profile)?;
        let mut warnings = manifest.warnings.clone();
        let wanted = |module: &&Module| targets.iter().any(|target| module.is_for(*target));
        let selected: Vec<&Module> = selected.into_iter().filter(wanted).collect();
        let lock = lock_index(site, &selected, &mut warnings)?;
        let (checkouts, overlays) = (Checkouts::new(site), Overlays::open(site));
        let resolved: Vec<Result<Resolved>> = selected
            .par_iter()
            .map(|module| {
                let upstream = upstream(site, module, &lock, &checkouts)?;
                let composed = compose(module, &upstream.tree, &overlays)?;
                module::check(module, &composed.tree)?;
                credentials::check(module, &composed.tree, &site.forms)?;
                Ok(Resolved { module: (*module).clone(), upstream, composed })
            })
            .collect();
        let modules = resolved.into_iter().collect::<Result<Vec<_>>>()?;
        if !manifest.servers.is_empty() {
            credentials::check_manifest(site)?;
        }
        warnings.extend(modules.iter().flat_map(|module| module.composed.warnings.clone()));
        warnings.extend(moved_since_lock(&modules, &lock));
        Ok(Self { manifest, targets, modules, warnings })
    }
}

/// One module of the manifest with its upstream files, whatever the profile says.
pub(crate) fn one_module(site: &Site, id: &str) -> Result<(Module, Upstream)> {
    let manifest = Manifest::load(&site.repo)?;
    let module = manifest.modules.into_iter().find(|module| module.id == id).ok_or_else(|| {
        PackError::config(format!("there is no module `{id}`"))
            .with("module_id", id)
            .hint("see the ids under `modules` in agentpack.yaml")
    })?;
    let lock = lock_index(site, &[&module], &mut Vec::new())?;
    let upstream = upstream(site, &module, &lock, &Checkouts::new(site))?;
    Ok((module, upstream))
}

/// A module's files from its source: the config repo, or the checkout of its locked commit.
pub(crate) fn upstream(
    site: &Site,
    module: &Module,
    lock: &LockIndex,
    checkouts: &Checkouts,
) -> Result<Upstream> {
    match &module.source {
        Source::Local(path) => Ok(Upstream { tree: local(site, module, path)?, commit: None }),
        Source::Git(git) => {
            let locked = lock.get(&module.id);
            let pinned = locked
                .and_then(|locked| locked.resolved_source.git.as_ref())
                .filter(|locked| locked.url == git.url);
            let commit = match pinned {
                Some(pinned) => pinned.commit.clone(),
                None => checkouts.resolve(git)?,
            };
            let tree = checked_out(module, git, &commit, checkouts)?;
            if let (Some(locked), Some(_)) = (locked, pinned)
                && locked.sha256 != tree.sha()
                && subdir_of(git) == pinned.map(|pinned| pinned.subdir.as_str()).unwrap_or_default()
            {
                return Err(not_as_locked(site, module, &commit));
            }
            Ok(Upstream { tree, commit: Some(commit) })
        }
    }
}

fn subdir_of(git: &GitSource) -> &str {
    git.subdir.as_ref().map_or("", RelPath::as_str)
}

fn local(site: &Site, module: &Module, path: &RelPath) -> Result<Tree> {
    let full = site.repo.join(path);
    contained(&full, &site.repo, module)?;
    Tree::read(&full)
}

fn checked_out(
    module: &Module,
    git: &GitSource,
    commit: &str,
    checkouts: &Checkouts,
) -> Result<Tree> {
    let folder = checkouts.checkout(&git.url, commit, git)?;
    match &git.subdir {
        None => Tree::read(&folder),
        Some(subdir) => {
            let full = folder.join(subdir);
            contained(&full, &folder, module)?;
            Tree::read(&full)
        }
    }
}

/// Refuses a source that is missing, or that links lead out of the directory it belongs to.
fn contained(full: &Path, base: &Path, module: &Module) -> Result<()> {
    let fault = |what: &str, hint: &str| {
        let message = format!(
            "{}:{}: module `{}`: {} {what}",
            crate::manifest::FILE,
            module.line,
            module.id,
            full.display()
        );
        Err(PackError::config(message)
            .with("module_id", module.id.clone())
            .with("line", module.line)
            .with("path", shown(full))
            .hint(hint))
    };
    let Ok(real) = fs::canonicalize(full) else {
        return fault("does not exist", "correct the source's path, or create the file");
    };
    let base = fs::canonicalize(base).unwrap_or_else(|_| base.to_owned());
    if real.starts_with(&base) {
        return Ok(());
    }
    fault("leads out of its repository by a link", "replace the link by what it leads to")
}

/// The lockfile, where it matters: one that can't be read only stops what needs it.
fn lock_index(site: &Site, selected: &[&Module], warnings: &mut Vec<String>) -> Result<LockIndex> {
    let has_git = selected.iter().any(|module| matches!(module.source, Source::Git(_)));
    match Lockfile::load(&site.repo) {
        Ok(lockfile) => {
            if has_git && lockfile.is_none() {
                warnings.push(format!(
                    "there is no {}: git modules are taken as their refs stand now; run `agentpack lock`",
                    lockfile::FILE
                ));
            }
            Ok(LockIndex::new(lockfile))
        }
        Err(error) if has_git => Err(error),
        Err(error) => {
            warnings.push(format!("{}; it is not needed for this plan", error.message()));
            Ok(LockIndex::default())
        }
    }
}

/// One sentence about local modules that are no longer what the lockfile saw.
fn moved_since_lock(modules: &[Resolved], lock: &LockIndex) -> Option<String> {
    let moved = |resolved: &&Resolved| {
        let locked = lock.get(&resolved.module.id);
        resolved.upstream.commit.is_none()
            && locked.is_some_and(|locked| locked.sha256 != resolved.upstream.tree.sha())
    };
    let moved: Vec<&str> =
        modules.iter().filter(moved).map(|resolved| resolved.module.id.as_str()).collect();
    let sample = moved.iter().take(5).copied().collect::<Vec<_>>().join(", ");
    let more = if moved.len() > 5 { ", …" } else { "" };
    (!moved.is_empty()).then(|| {
        format!("{} local module(s) changed since the lockfile was written ({sample}{more}); run `agentpack lock`", moved.len())
    })
}

fn not_as_locked(site: &Site, module: &Module, commit: &str) -> PackError {
    let path = site.repo.join(lockfile::FILE);
    let message =
        format!("module `{}` at {commit} is not what {} promises", module.id, path.display());
    PackError::new(Code::LockfileInvalid, message)
        .with("path", shown(&path))
        .with("module_id", module.id.clone())
        .with("error", "digest mismatch")
        .reason("lockfile_digest_mismatch", &["clear_git_cache", "regenerate_lockfile", "retry_command"])
        .hint("someone changed the checkout or the lockfile: remove the checkout under cache/git and fetch again")
}
