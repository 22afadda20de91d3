//! Whether everything is in order: roots, ignored manifests, overlays, an interrupted apply. Writes nothing
//! unless it is asked to mend: a directory's permissions are asked for, not tried out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, AtFlags};
use serde::Serialize;

use crate::{
    apply::{HomeLock, interrupted, recover},
    credentials::in_agents_configs,
    error::{PackError, Result},
    git,
    manifest::Manifest,
    paths::shown,
    plain_file,
    site::{Site, shell_word},
    targets::{self, TargetId},
};

/// The line that keeps manifests out of git.
const IGNORED: &str = ".agentpack.manifest*.json";

/// The payload of `doctor`.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorData {
    /// This machine.
    pub machine_id: String,
    /// Every enabled root.
    pub roots: Vec<DoctorRoot>,
    /// `.gitignore` files that were mended.
    pub gitignore_fixes: Vec<GitignoreFix>,
    /// Credentials that stand in the agents' own files; agentpack does not say this.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plaintext_tokens: Vec<PlaintextToken>,
    /// Commands that help.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next_actions: Vec<String>,
}

/// A credential in a file of an agent.
#[derive(Clone, Debug, Serialize)]
pub struct PlaintextToken {
    /// The file.
    pub path: String,
    /// `path` with `/` between its segments.
    pub path_posix: String,
    /// Counted from one.
    pub line: usize,
    /// What it looks like.
    pub kind: String,
}

/// One root.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorRoot {
    /// The target.
    pub target: TargetId,
    /// The directory.
    pub root: String,
    /// `root` with `/` between its segments.
    pub root_posix: String,
    /// Whether it is there.
    pub exists: bool,
    /// Whether files can be made in it.
    pub writable: bool,
    /// Whether strange files in it are reported.
    pub scan_extras: bool,
    /// `missing`, `not_a_directory`, `not_writable`.
    pub issues: Vec<&'static str>,
    /// What to do about them.
    pub suggestion: Option<String>,
}

/// A repository whose `.gitignore` lacks the line.
#[derive(Clone, Debug, Serialize)]
pub struct GitignoreFix {
    /// The repository.
    pub repo_root: String,
    /// `repo_root` with `/` between its segments.
    pub repo_root_posix: String,
    /// Its `.gitignore`.
    pub gitignore_path: String,
    /// `gitignore_path` with `/` between its segments.
    pub gitignore_path_posix: String,
    /// Whether it was changed.
    pub updated: bool,
}

/// What the doctor may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doctor {
    /// Look.
    Look,
    /// Mend `.gitignore` files and undo an interrupted apply.
    Mend,
}

/// Looks at everything, mends what it may.
pub(crate) fn doctor(site: &Site, how: Doctor) -> Result<(DoctorData, Vec<String>)> {
    let manifest = Manifest::load(&site.repo)?;
    let mut warnings = manifest.warnings.clone();
    if how == Doctor::Mend {
        let lock = HomeLock::take(site)?;
        warnings.extend(recover(site, &lock)?);
    }
    warnings.extend(interrupted(site));
    let mut roots = Vec::new();
    for target in manifest.chosen_targets(&site.target)? {
        for root in targets::roots(site, target, &manifest.targets[&target])? {
            roots.push(examined(&root));
        }
    }
    warnings.extend(odd_overlays(site, &manifest));
    let (fixes, unmended) = gitignores(&roots, how, &mut warnings)?;
    let folders: BTreeSet<&str> = roots
        .iter()
        .filter_map(|root| root.suggestion.as_deref()?.strip_prefix("create directory: "))
        .collect();
    let mend = unmended.then(|| site.command("doctor --fix --yes --json"));
    let mut next_actions: Vec<String> =
        mend.into_iter().chain(folders.into_iter().map(str::to_owned)).collect();
    let plaintext_tokens = in_agents_configs(site);
    for token in &plaintext_tokens {
        next_actions.push(token.adopting());
    }
    let data = DoctorData {
        plaintext_tokens,
        machine_id: site.machine().to_owned(),
        roots,
        gitignore_fixes: fixes,
        next_actions,
    };
    Ok((data, warnings))
}

impl PlaintextToken {
    /// The command that moves it out of its file.
    pub fn adopting(&self) -> String {
        let file = shell_word(&self.path);
        format!(
            "keyless pack adopt-secret --file {file} --at {file}:{} --path PROJECT/CATEGORY/NAME",
            self.line
        )
    }
}

fn examined(root: &targets::Root) -> DoctorRoot {
    let path = &root.path;
    let exists = path.exists();
    let is_folder = path.is_dir();
    let may = Access::WRITE_OK | Access::EXEC_OK;
    let writable =
        is_folder && rustix::fs::accessat(rustix::fs::CWD, path, may, AtFlags::EACCESS).is_ok();
    let mut issues = Vec::new();
    let mut suggestion = None;
    if !exists {
        issues.push("missing");
        suggestion = Some(format!("create directory: mkdir -p {}", path.display()));
    } else if !is_folder {
        issues.push("not_a_directory");
        suggestion = Some(format!("move away what stands at {}", path.display()));
    } else if !writable {
        issues.push("not_writable");
        suggestion = Some(format!("make it writable: chmod u+rwx {}", path.display()));
    }
    DoctorRoot {
        target: root.target,
        root: shown(path),
        root_posix: shown(path),
        exists,
        writable,
        scan_extras: root.scan_extras,
        issues,
        suggestion,
    }
}

/// Mends repositories that hold roots and do not ignore manifests, or says whether there are any.
fn gitignores(
    roots: &[DoctorRoot],
    how: Doctor,
    warnings: &mut Vec<String>,
) -> Result<(Vec<GitignoreFix>, bool)> {
    let mut repositories: BTreeMap<PathBuf, &DoctorRoot> = BTreeMap::new();
    for root in roots {
        let path = Path::new(&root.root);
        if let Some(repository) = path.ancestors().find(|folder| folder.join(".git").exists()) {
            repositories.entry(repository.to_owned()).or_insert(root);
        }
    }
    let (mut fixes, mut unmended) = (Vec::new(), false);
    for (repository, root) in repositories {
        let name = format!(".agentpack.manifest.{}.json", root.target);
        let probe = Path::new(&root.root).join(name);
        let probe = probe.strip_prefix(&repository).unwrap_or(&probe).to_owned();
        if git::run(&repository, &["check-ignore", "-q", "--", &shown(&probe)]).is_ok() {
            continue;
        }
        let file = repository.join(".gitignore");
        if how == Doctor::Look {
            warnings.push(format!(
                "{} does not ignore {IGNORED}; `agentpack doctor --fix` adds the line",
                file.display()
            ));
            unmended = true;
            continue;
        }
        append_line(&file)?;
        fixes.push(GitignoreFix {
            repo_root: shown(&repository),
            repo_root_posix: shown(&repository),
            gitignore_path: shown(&file),
            gitignore_path_posix: shown(&file),
            updated: true,
        });
    }
    Ok((fixes, unmended))
}

fn append_line(file: &Path) -> Result<()> {
    let text =
        plain_file::read_or_empty(file).map_err(|error| PackError::io("read", file, &error))?;
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    fs::write(file, format!("{text}{gap}{IGNORED}\n"))
        .map_err(|error| PackError::io("write", file, &error))
}

/// Overlay directories that belong to no module, or say that they belong to another one.
fn odd_overlays(site: &Site, manifest: &Manifest) -> Vec<String> {
    let mut warnings = Vec::new();
    for module in &manifest.modules {
        let folder = crate::overlay::folder(site, crate::overlay::OverlayScope::Global, &module.id);
        if folder.exists() && !folder.is_dir() {
            warnings.push(format!("overlay {} is no directory", folder.display()));
        }
        let Ok(named) = plain_file::read_to_string(folder.join(".agentpack/module_id")) else {
            continue;
        };
        if named.trim() != module.id {
            warnings.push(format!(
                "overlay {} says that it belongs to `{}`, and is used for `{}`",
                folder.display(),
                named.trim(),
                module.id
            ));
        }
    }
    warnings
}
