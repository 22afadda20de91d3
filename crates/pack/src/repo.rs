//! Changing the config repo: add, remove, lock, fetch, update.

use std::{fs, path::Path};

use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    apply::{RepoLock, write_durably},
    checkouts::Checkouts,
    clock,
    error::{PackError, Result},
    lockfile::{self, LocalPath, LockIndex, LockedModule, Lockfile, ResolvedGit, ResolvedSource},
    manifest::{
        self, Manifest, Module, ModuleKind, Source, module_added, module_removed, source_from_spec,
        unknown_target,
    },
    paths::{RelPath, shown},
    plain_file,
    site::Site,
    targets::TargetId,
    workspace::{Upstream, upstream},
};

/// The payload of `add` and `remove`.
#[derive(Clone, Debug, Serialize)]
pub struct ModuleData {
    /// The module.
    pub module_id: String,
    /// The manifest.
    pub manifest: String,
    /// `manifest` with `/` between its segments.
    pub manifest_posix: String,
}

/// What `add` is asked for.
#[derive(Clone, Debug)]
pub struct AddOptions {
    /// The module's type.
    pub kind: ModuleKind,
    /// `local:…` or `git:…`.
    pub source: String,
    /// Its id; made from type and source when absent.
    pub id: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its targets.
    pub targets: Vec<String>,
}

/// The payload of `lock`.
#[derive(Clone, Debug, Serialize)]
pub struct LockData {
    /// The lockfile.
    pub lockfile: String,
    /// `lockfile` with `/` between its segments.
    pub lockfile_posix: String,
    /// How many modules it has.
    pub modules: usize,
}

/// The payload of `fetch`.
#[derive(Clone, Debug, Serialize)]
pub struct FetchData {
    /// The cache of git modules.
    pub store: String,
    /// `store` with `/` between its segments.
    pub store_posix: String,
    /// How many git modules are there now.
    pub git_modules_fetched: usize,
}

/// Adds a module to the manifest; also gives what is said of it where no profile takes it.
pub(crate) fn add(site: &Site, options: &AddOptions) -> Result<(ModuleData, Vec<String>)> {
    let source = source_from_spec(&options.source)?;
    // What every plan from then on would stumble over.
    if let Source::Local(path) = &source {
        let place = site.repo.join(path.as_str());
        fs::metadata(&place).map_err(|error| {
            PackError::io("read", &place, &error)
                .hint("a local: source is a path below the config repo; make it there first")
        })?;
    }
    let id =
        options.id.clone().unwrap_or_else(|| format!("{}:{}", options.kind, source_name(&source)));
    let mut targets = Vec::new();
    for name in &options.targets {
        let target = TargetId::parse(name);
        targets
            .push(target.ok_or_else(|| unknown_target("", name).with("module_id", id.as_str()))?);
    }
    let tags = options.tags.clone();
    let module = Module {
        id: id.clone(),
        kind: options.kind,
        enabled: true,
        tags,
        targets,
        source,
        line: 0,
    };
    edited(site, |text, path| module_added(text, path, &module))?;
    let mut manifest = Manifest::load(&site.repo)?;
    manifest.modules.retain(|module| module.id == id);
    Ok((module_data(site, &id), manifest.warnings_of_untaken()))
}

/// Removes a module from the manifest.
pub(crate) fn remove(site: &Site, id: &str) -> Result<ModuleData> {
    edited(site, |text, path| module_removed(text, path, id))?;
    Ok(module_data(site, id))
}

fn edited(site: &Site, change: impl FnOnce(&str, &Path) -> Result<String>) -> Result<()> {
    let path = site.repo.join(manifest::FILE);
    Manifest::load(&site.repo)?;
    let _lock = RepoLock::take(site)?;
    let text =
        plain_file::read_to_string(&path).map_err(|error| PackError::io("read", &path, &error))?;
    write_durably(&path, change(&text, &path)?.as_bytes())
}

fn module_data(site: &Site, id: &str) -> ModuleData {
    let manifest = shown(&site.repo.join(manifest::FILE));
    ModuleData { module_id: id.to_owned(), manifest_posix: manifest.clone(), manifest }
}

fn source_name(source: &Source) -> String {
    let name = match source {
        Source::Local(path) => {
            let name = path.file_name();
            name.rsplit_once('.')
                .filter(|(stem, _)| !stem.is_empty())
                .map_or(name, |(stem, _)| stem)
        }
        Source::Git(git) => match &git.subdir {
            Some(subdir) => subdir.file_name(),
            None => git.url.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or(&git.url),
        },
    };
    name.strip_suffix(".git").unwrap_or(name).to_owned()
}

/// Resolves every enabled module and writes the lockfile; the same repo gives the same bytes.
pub(crate) fn lock(site: &Site) -> Result<(LockData, Vec<String>)> {
    Manifest::load(&site.repo)?;
    let _lock = RepoLock::take(site)?;
    let manifest = Manifest::load(&site.repo)?;
    let (none, checkouts) = (LockIndex::default(), Checkouts::new(site));
    let enabled: Vec<&Module> = manifest.modules.iter().filter(|module| module.enabled).collect();
    let locked: Vec<Result<LockedModule>> = enabled
        .par_iter()
        .map(|module| {
            upstream(site, module, &none, &checkouts).map(|upstream| locked(module, &upstream))
        })
        .collect();
    let mut modules = locked.into_iter().collect::<Result<Vec<_>>>()?;
    modules.sort_by(|a, b| a.id.cmp(&b.id));
    let before = Lockfile::load(&site.repo).ok().flatten();
    let unchanged = before.filter(|before| before.modules == modules);
    let generated_at = unchanged.map_or_else(clock::now, |before| before.generated_at);
    let count = modules.len();
    let path = site.repo.join(lockfile::FILE);
    write_durably(&path, Lockfile { version: 1, generated_at, modules }.text().as_bytes())?;
    let path = shown(&path);
    Ok((
        LockData { lockfile_posix: path.clone(), lockfile: path, modules: count },
        manifest.warnings,
    ))
}

fn locked(module: &Module, upstream: &Upstream) -> LockedModule {
    LockedModule {
        id: module.id.clone(),
        kind: module.kind.to_string(),
        resolved_source: resolved_source(&module.source, upstream.commit.as_deref()),
        resolved_version: upstream.commit.clone().unwrap_or_else(|| "local".to_owned()),
        sha256: upstream.tree.sha(),
        file_manifest: upstream.tree.rows(),
    }
}

/// A source as lockfiles hold it: a git one at its commit.
pub(crate) fn resolved_source(source: &Source, commit: Option<&str>) -> ResolvedSource {
    match source {
        Source::Local(path) => {
            ResolvedSource { local_path: Some(LocalPath { path: path.to_string() }), git: None }
        }
        Source::Git(git) => ResolvedSource {
            local_path: None,
            git: Some(ResolvedGit {
                url: git.url.clone(),
                commit: commit.unwrap_or_default().to_owned(),
                subdir: git.subdir.as_ref().map(RelPath::to_string).unwrap_or_default(),
            }),
        },
    }
}

/// Brings every locked git module into the cache and compares it with the lockfile.
pub(crate) fn fetch(site: &Site) -> Result<FetchData> {
    let lockfile = Lockfile::load(&site.repo)?.ok_or_else(|| lockfile::missing(&site.repo))?;
    let manifest = Manifest::load(&site.repo)?;
    let (index, checkouts) = (LockIndex::new(Some(lockfile)), Checkouts::new(site));
    let git: Vec<&Module> = manifest
        .modules
        .iter()
        .filter(|module| matches!(module.source, Source::Git(_)) && index.get(&module.id).is_some())
        .collect();
    git.par_iter()
        .map(|module| upstream(site, module, &index, &checkouts).map(|_| ()))
        .collect::<Result<Vec<_>>>()?;
    let store = shown(&site.cache());
    Ok(FetchData { store_posix: store.clone(), store, git_modules_fetched: git.len() })
}

/// The payload of `update`.
#[derive(Clone, Debug, Serialize)]
pub struct UpdateData {
    /// The lockfile.
    pub lockfile: String,
    /// `lockfile` with `/` between its segments.
    pub lockfile_posix: String,
    /// The cache of git modules.
    pub store: String,
    /// `store` with `/` between its segments.
    pub store_posix: String,
    /// What was done.
    pub steps: Vec<UpdateStep>,
    /// How many git modules are there now.
    pub git_modules_fetched: usize,
}

/// One of `lock` and `fetch`.
#[derive(Clone, Debug, Serialize)]
pub struct UpdateStep {
    /// Its name.
    pub name: &'static str,
    /// Whether it was done.
    pub ok: bool,
    /// The payload of that command.
    pub detail: Value,
}

/// Which of its steps `update` is to do, where it is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpdateOptions {
    /// Lock even though there is a lockfile; or don't.
    pub lock: Option<bool>,
    /// Fetch; or don't.
    pub fetch: Option<bool>,
}

/// Locks when there is no lockfile or it is asked to, then fetches.
pub(crate) fn update(site: &Site, options: UpdateOptions) -> Result<(UpdateData, Vec<String>)> {
    let path = site.repo.join(lockfile::FILE);
    let (mut steps, mut warnings, mut fetched) = (Vec::new(), Vec::new(), 0);
    if options.lock.unwrap_or_else(|| !path.exists()) {
        let (data, more) = lock(site)?;
        warnings.extend(more);
        steps.push(UpdateStep { name: "lock", ok: true, detail: json!(data) });
    }
    if options.fetch.unwrap_or(true) {
        let data = fetch(site)?;
        fetched = data.git_modules_fetched;
        steps.push(UpdateStep { name: "fetch", ok: true, detail: json!(data) });
    }
    let (lockfile, store) = (shown(&path), shown(&site.cache()));
    let data = UpdateData {
        lockfile_posix: lockfile.clone(),
        lockfile,
        store_posix: store.clone(),
        store,
        steps,
        git_modules_fetched: fetched,
    };
    Ok((data, warnings))
}
