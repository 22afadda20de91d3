//! What agents have already, taken into the config repo: prompts, skills, commands and instructions of the user's home
//! and of the project, each as a module.
//!
//! Nothing is overwritten, and what no module could hold stays where it is with a reason: bad front matter, a link out
//! of the project, a credential. The manifest changes last, so that a failure leaves no module without its files.

mod data;
mod scan;

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

pub use self::data::{
    ImportConflict, ImportData, ImportItem, ImportOp, ImportOptions, ImportProject, ImportSummary,
};
use self::scan::{Candidate, candidates};
use crate::{
    apply::{RepoLock, write_durably},
    credentials,
    error::{Code, PackError, Result},
    git,
    manifest::{self, Manifest, Module, ModuleKind, Source, module_added, profile_added},
    module, operator,
    paths::{absolute, expanded, shown},
    plain_file,
    site::Site,
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
        items: Vec::new(),
        imports: Vec::new(),
        warnings: Vec::new(),
    };
    let found = candidates(site, &home);
    for candidate in &found {
        look.at(candidate);
    }
    let Look { items, imports, mut warnings, .. } = look;
    let conflicts = conflicts(&items);
    let profile = items
        .iter()
        .any(|item| item.scope == "project" && item.op != ImportOp::SkipInvalid)
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
            Ok(_) if known => (ImportOp::SkipExistingModule, Some("module_id_already_exists")),
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
        self.items.push(ImportItem {
            op,
            module_id: candidate.id.clone(),
            module_type: candidate.kind.as_str(),
            scope: candidate.scope,
            targets: candidate.targets.clone(),
            tags: candidate.tags.clone(),
            source_path: shown(&candidate.source),
            source_path_posix: shown(&candidate.source),
            dest_path: shown(&dest),
            dest_path_posix: shown(&dest),
            dest_exists,
            skip_reason,
        });
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
