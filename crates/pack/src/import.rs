//! What agents have already, taken into the config repo: prompts, skills, commands and instructions of the user's home
//! and of the project, each as a module.
//!
//! What this config repo has deployed is its modules' already, and no module once more. Nothing is overwritten, and what no module could hold stays where it is with a reason: bad front matter, a link out
//! of the project, a credential. The manifest changes last, so that a failure leaves no module without its files.

mod data;
mod scan;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
};

pub use self::data::{
    ImportConflict, ImportData, ImportItem, ImportOp, ImportOptions, ImportProject, ImportSummary,
};
use self::scan::{Candidate, candidates};
use crate::{
    apply::{RepoLock, write_durably},
    credentials,
    deployed::{self, Managed},
    error::{Code, PackError, Result},
    git,
    manifest::{
        self, Manifest, Module, ModuleKind, Source, TargetConfig, module_added, profile_added,
    },
    module, operator,
    paths::{RelPath, absolute, expanded, shown},
    plain_file,
    site::Site,
    targets::TargetId,
    tree::Tree,
};

/// A module that can be made.
struct Import {
    module: Module,
    dest: PathBuf,
    tree: Tree,
}

/// Looks, and with `apply` writes. The caller has said yes to that.
pub(crate) fn import(site: &Site, options: &ImportOptions) -> Result<(ImportData, Vec<String>)> {
    let manifest = Manifest::load(&site.repo)?;
    let home = match &options.home_root {
        Some(home) => absolute(&site.cwd, &expanded(&home.to_string_lossy(), &site.user_home)),
        None => site.user_home.clone(),
    };
    let mut look = Look {
        site,
        manifest: &manifest,
        deployed: deployed::by_path(site, &manifest.targets)?,
        items: Vec::new(),
        imports: Vec::new(),
        warnings: Vec::new(),
    };
    let found = candidates(site, &home);
    for candidate in &found {
        look.at(candidate);
    }
    let Look { items, imports, mut warnings, .. } = look;
    warnings.extend(too_far(&manifest, &items));
    let conflicts = conflicts(&items);
    let profile = items
        .iter()
        .any(|item| {
            let is_module = item.op == ImportOp::Create || item.skip_reason == Some(THERE);
            item.scope == "project" && is_module
        })
        .then(|| format!("project-{}", site.project().id));
    let mut data = ImportData {
        applied: false,
        reason: None,
        repo: shown(&site.repo),
        repo_posix: shown(&site.repo),
        home_root: shown(&home),
        home_root_posix: shown(&home),
        project: project(site),
        summary: summary(&items),
        conflicts,
        next_actions: next_actions(site, profile.as_deref()),
        plan: items,
        profile,
    };
    if !options.apply {
        data.reason = Some("dry_run");
    } else if imports.is_empty() {
        data.reason = Some("no_changes");
    } else {
        refuse_conflicts(&data)?;
        write(site, &imports, data.profile.as_deref())?;
        data.applied = true;
    }
    warnings.extend(manifest.warnings);
    Ok((data, warnings))
}

/// What is known so far.
struct Look<'s> {
    site: &'s Site,
    manifest: &'s Manifest,
    deployed: BTreeMap<PathBuf, Managed>,
    items: Vec<ImportItem>,
    imports: Vec<Import>,
    warnings: Vec<String>,
}

impl Look<'_> {
    fn at(&mut self, candidate: &Candidate) {
        let dest = self.site.repo.join(&candidate.dest);
        let known = self.manifest.modules.iter().any(|module| module.id == candidate.id);
        let twice = self.items.iter().any(|item| item.module_id == candidate.id);
        let module = candidate.module();
        let tree = candidate.tree();
        if tree.as_ref().is_ok_and(operator::wrote) {
            return;
        }
        if let Some(from) = self.deployed_from(candidate).filter(|_| !known) {
            self.skip_deployed(candidate, tree.ok().as_ref(), from);
            return;
        }
        let checked = tree.and_then(|tree| {
            module::check(&module, &tree)?;
            credentials::check(&module, &tree, &self.site.forms)?;
            Ok(tree)
        });
        let (op, skip_reason) = match &checked {
            Err(error) if error.code() == Code::SecretInModule => {
                (ImportOp::SkipInvalid, Some("secret_in_module"))
            }
            Err(_) => (ImportOp::SkipInvalid, Some("invalid_module_source")),
            Ok(_) if known => (ImportOp::SkipExistingModule, Some(THERE)),
            Ok(_) if twice => (ImportOp::SkipInvalid, Some("duplicate_module_id_in_scan")),
            Ok(_) => (ImportOp::Create, None),
        };
        let dest_exists = op == ImportOp::Create && fs::symlink_metadata(&dest).is_ok();
        match checked {
            Ok(tree) if op == ImportOp::Create => {
                self.imports.push(Import { module, dest: dest.clone(), tree });
            }
            Ok(_) => {}
            Err(error) => self.warnings.push(format!(
                "{} is left where it is: {}",
                candidate.source.display(),
                error.message()
            )),
        }
        self.items.push(ImportItem { dest_exists, ..candidate.item(self.site, op, skip_reason) });
    }

    /// The modules that a candidate was deployed from, if any of them is there still: what a deploy is to delete can be kept
    /// by an import. Nothing when nobody deployed it.
    fn deployed_from(&self, candidate: &Candidate) -> Option<Vec<String>> {
        let there = |id: &String| self.manifest.modules.iter().any(|module| module.id == *id);
        let mut from = BTreeSet::new();
        let mut is_deployed = false;
        for managed in self.managed(candidate) {
            is_deployed |= managed.modules.is_empty() || managed.modules.iter().any(there);
            from.extend(managed.modules.iter().cloned());
        }
        is_deployed.then(|| from.into_iter().collect())
    }

    /// Its files that were deployed.
    fn managed<'l>(&'l self, candidate: &'l Candidate) -> impl Iterator<Item = &'l Managed> {
        let below = self.deployed.range(candidate.source.clone()..);
        below.take_while(|(path, _)| path.starts_with(&candidate.source)).map(|(_, file)| file)
    }

    fn skip_deployed(&mut self, candidate: &Candidate, tree: Option<&Tree>, from: Vec<String>) {
        let is_as_deployed = |managed: &Managed| {
            let full = managed.root.join(&managed.path);
            let below = full.strip_prefix(&candidate.source).ok()?;
            let name =
                if below.as_os_str().is_empty() { full.file_name()?.as_ref() } else { below };
            let file = tree?.0.get(&RelPath::parse(name.to_str()?)?)?;
            Some(file.content.sha() == managed.sha)
        };
        if self.managed(candidate).any(|managed| is_as_deployed(managed) == Some(false)) {
            self.warnings.push(format!(
                "{} was edited after it was deployed, and an import takes nothing of that; `agentpack evolve propose` keeps it",
                candidate.source.display()
            ));
        }
        let skipped =
            candidate.item(self.site, ImportOp::SkipExistingModule, Some("already_deployed"));
        self.items.push(ImportItem { deployed_by: from, ..skipped });
    }
}

impl Candidate {
    fn module(&self) -> Module {
        Module {
            id: self.id.clone(),
            kind: self.kind,
            enabled: true,
            tags: self.tags.clone(),
            targets: self.targets.clone(),
            source: Source::Local(self.dest.clone()),
            line: 0,
        }
    }

    fn item(&self, site: &Site, op: ImportOp, skip_reason: Option<&'static str>) -> ImportItem {
        let dest = site.repo.join(&self.dest);
        ImportItem {
            op,
            module_id: self.id.clone(),
            module_type: self.kind.as_str(),
            scope: self.scope,
            targets: self.targets.clone(),
            tags: self.tags.clone(),
            source_path: shown(&self.source),
            source_path_posix: shown(&self.source),
            dest_path: shown(&dest),
            dest_path_posix: shown(&dest),
            dest_exists: false,
            skip_reason,
            deployed_by: Vec::new(),
        }
    }

    /// Its files; a project is a stranger's, and its links lead nowhere else.
    fn tree(&self) -> Result<Tree> {
        if let Some(inside) = &self.inside {
            let real = fs::canonicalize(&self.source)
                .map_err(|error| PackError::io("read", &self.source, &error))?;
            if !real.starts_with(inside) {
                let message = format!("{} leads out of the project", self.source.display());
                return Err(PackError::config(message));
            }
        }
        Tree::read(&self.source).map(Tree::without_metadata)
    }
}

fn project(site: &Site) -> ImportProject {
    ImportProject {
        project_id: site.project().id.clone(),
        project_root: shown(&site.project_root),
        project_root_posix: shown(&site.project_root),
        origin_url: git::origin_of(&site.project_root).map(|url| git::shown_url(&url)),
    }
}

fn summary(items: &[ImportItem]) -> ImportSummary {
    let count = |op| items.iter().filter(|item| item.op == op).count();
    ImportSummary {
        candidates: items.len(),
        create: count(ImportOp::Create),
        skipped_existing_module: count(ImportOp::SkipExistingModule),
        skipped_invalid: count(ImportOp::SkipInvalid),
    }
}

fn next_actions(site: &Site, profile: Option<&str>) -> Vec<String> {
    let own = Some(site.profile.as_str()).filter(|profile| *profile != "default");
    let target = Some(site.target.as_str()).filter(|target| *target != "all");
    ["preview --diff --json", "deploy --apply --yes --json"]
        .iter()
        .map(|words| site.command_for(profile.or(own), target, words))
        .collect()
}

fn conflicts(items: &[ImportItem]) -> Vec<ImportConflict> {
    let mut conflicts = Vec::new();
    let mut add = |kind, module_id, mut paths: Vec<String>, hint| {
        let count = paths.len();
        paths.sort();
        paths.truncate(20);
        let sample_paths_posix = paths.clone();
        conflicts.push(ImportConflict {
            kind,
            count,
            module_id,
            sample_paths: paths,
            sample_paths_posix,
            hint,
        });
    };
    let there: Vec<String> =
        items.iter().filter(|item| item.dest_exists).map(|item| item.dest_path.clone()).collect();
    if !there.is_empty() {
        add("dest_path_exists", None, there, IN_THE_WAY);
    }
    let mut by_id: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for item in items {
        by_id.entry(&item.module_id).or_default().push(item.source_path.clone());
    }
    for (id, paths) in by_id.into_iter().filter(|(_, paths)| paths.len() > 1) {
        let hint = "rename one of the files, so that another id is made of it, then import again";
        add("duplicate_module_id_in_scan", Some(id.to_owned()), paths, hint);
    }
    conflicts
}

/// The targets that bring what was the project's into the user's home as well, which agentpack leaves to the targets' scope.
fn too_far(manifest: &Manifest, items: &[ImportItem]) -> Option<String> {
    let mut made =
        items.iter().filter(|item| item.op == ImportOp::Create && item.scope == "project");
    let of_users = |target: &&TargetId| {
        let config = manifest.targets.get(target);
        !target.is_project_only() && config.is_some_and(TargetConfig::is_user)
    };
    let targets: BTreeSet<TargetId> =
        made.by_ref().flat_map(|item| item.targets.iter().filter(of_users)).copied().collect();
    let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
    (!targets.is_empty()).then(|| {
        format!(
            "what is the project's goes into your home too, for every project, as long as the scope of {} in {} is not \
             `project`; a preview of that profile shows it",
            targets.join(" and "),
            manifest::FILE
        )
    })
}

/// Why nothing is made where a module of the same id is.
const THERE: &str = "module_id_already_exists";

const IN_THE_WAY: &str =
    "move away or delete what stands there in the config repo, then import again";

fn refuse_conflicts(data: &ImportData) -> Result<()> {
    let Some(conflict) = data.conflicts.iter().find(|one| one.kind == "dest_path_exists") else {
        return Ok(());
    };
    let message =
        "the config repo already has files where modules would go; they are not overwritten";
    Err(PackError::new(Code::ImportConflict, message)
        .with("count", conflict.count)
        .with("sample_paths", conflict.sample_paths.clone())
        .with("sample_paths_posix", conflict.sample_paths_posix.clone())
        .hint(IN_THE_WAY))
}

/// Copies the files, then changes the manifest; takes the files away again when that fails.
fn write(site: &Site, imports: &[Import], profile: Option<&str>) -> Result<()> {
    let path = site.repo.join(manifest::FILE);
    let _lock = RepoLock::take(site)?;
    let text =
        plain_file::read_to_string(&path).map_err(|error| PackError::io("read", &path, &error))?;
    let mut edited = text.clone();
    for import in imports {
        edited = module_added(&edited, &path, &import.module)?;
    }
    if let Some(profile) = profile {
        edited = profile_added(&edited, &path, profile, &["base", profile])?;
    }
    let written =
        imports.iter().try_for_each(copy).and_then(|()| write_durably(&path, edited.as_bytes()));
    if written.is_err() {
        for import in imports {
            let _ = fs::remove_file(&import.dest).or_else(|_| fs::remove_dir_all(&import.dest));
        }
    }
    written
}

/// Writes a module's files into the config repo.
fn copy(import: &Import) -> Result<()> {
    let single =
        import.module.kind != ModuleKind::Skill && import.module.kind != ModuleKind::Instructions;
    for (path, file) in &import.tree.0 {
        let to = if single { import.dest.clone() } else { import.dest.join(path) };
        write_durably(&to, file.content.bytes())?;
        if file.executable {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(&to, mode)
                .map_err(|error| PackError::io("change the mode of", &to, &error))?;
        }
    }
    Ok(())
}
