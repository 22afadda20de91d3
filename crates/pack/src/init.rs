//! Making a config repo: agentpack's scaffold, with a first module of each kind to copy from.

use std::path::Path;

use serde::Serialize;

use crate::{
    apply::write_durably,
    error::{PackError, Result},
    git, manifest,
    operator::{BootstrapData, BootstrapOptions},
    paths::shown,
    plain_file,
    site::Site,
    targets::TargetId,
};

/// What a config repo begins with, beside its manifest. Nothing of it is deployed before it is added.
const SCAFFOLD: &[(&str, &str)] = &[
    ("modules/claude-commands/ap-plan.md", include_str!("init/ap-plan.md")),
    ("modules/instructions/base/AGENTS.md", include_str!("init/AGENTS.md")),
    ("modules/prompts/draftpr.md", include_str!("init/draftpr.md")),
];

/// What git is not to keep: the manifests of deploys into the repo itself, and what file managers leave.
const IGNORED: &[&str] = &[".agentpack.manifest*.json", ".DS_Store"];

/// The payload of `init`.
#[derive(Clone, Debug, Serialize)]
pub struct InitData {
    /// The config repo.
    pub repo: String,
    /// `repo` with `/` between its segments.
    pub repo_posix: String,
    /// What git was told, with `--git`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<InitGit>,
    /// What `--bootstrap` installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapData>,
    /// Set when there was a manifest, which was left as it is; agentpack does not say this.
    #[serde(skip)]
    pub existed: bool,
    /// Set when the answers came from a person.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub guided: bool,
    /// The targets that the person chose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetId>,
    /// The scope that the person chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// What `init --git` did.
#[derive(Clone, Debug, Serialize)]
pub struct InitGit {
    /// Whether it is a git repository now.
    pub initialized: bool,
    /// Whether `.gitignore` was written.
    pub gitignore_updated: bool,
    /// Where it is.
    pub gitignore_path: String,
    /// `gitignore_path` with `/` between its segments.
    pub gitignore_path_posix: String,
}

/// What `init` is asked for.
#[derive(Clone, Debug, Default)]
pub struct InitOptions {
    /// Make a git repository too.
    pub git: bool,
    /// The targets and their scope, as a person chose them.
    pub guided: Option<(Vec<TargetId>, String)>,
    /// Install what agents need to work the repo, too.
    pub bootstrap: Option<BootstrapOptions>,
}

/// Makes a config repo with a manifest; one that is there stays as it is. What is warned about comes beside it.
pub(crate) fn init(site: &Site, options: &InitOptions) -> Result<(InitData, Vec<String>)> {
    let path = site.repo.join(manifest::FILE);
    let existed = path.exists();
    if options.guided.is_some() {
        vacant(site)?;
    }
    let (targets, scope) = options
        .guided
        .clone()
        .unwrap_or_else(|| (vec![TargetId::Codex, TargetId::ClaudeCode], "both".to_owned()));
    if !existed {
        furnish(site, &path, &template(&targets, &scope))?;
    }
    let git = if options.git { Some(init_git(&site.repo)?) } else { None };
    let guided = options.guided.is_some();
    let narrowed = targets.iter().filter(|target| target.is_project_only() && scope != "project");
    let warnings = narrowed
        .map(|target| format!("{target} is set up for projects only: it knows no other scope"))
        .collect();
    let data = InitData {
        repo: shown(&site.repo),
        repo_posix: shown(&site.repo),
        git,
        bootstrap: None,
        existed,
        guided,
        targets: if guided { targets } else { Vec::new() },
        scope: guided.then_some(scope),
    };
    Ok((data, warnings))
}

/// Fails where there is a manifest already.
pub(crate) fn vacant(site: &Site) -> Result<()> {
    let path = site.repo.join(manifest::FILE);
    if !path.exists() {
        return Ok(());
    }
    Err(PackError::config(format!("{} already exists", path.display()))
        .with("path", shown(&path))
        .with("path_posix", shown(&path))
        .hint("edit it, or name another config repo with --repo"))
}

fn furnish(site: &Site, path: &Path, manifest: &str) -> Result<()> {
    for (name, text) in SCAFFOLD {
        let place = site.repo.join(name);
        if !place.exists() {
            write_durably(&place, text.as_bytes())?;
        }
    }
    write_durably(path, manifest.as_bytes())
}

fn template(targets: &[TargetId], scope: &str) -> String {
    let mut text =
        "version: 1\n\nprofiles:\n  default:\n    include_tags: [\"base\"]\n\ntargets:\n"
            .to_owned();
    for target in targets {
        let scope = if target.is_project_only() { "project" } else { scope };
        let head =
            ["  ", target.as_str(), ":\n    mode: files\n    scope: ", scope, "\n    options:\n"];
        text.extend(head);
        for option in target.first_options() {
            text.extend(["      ", option, "\n"]);
        }
    }
    text.push_str("\nmodules: []\n");
    text
}

fn init_git(repo: &Path) -> Result<InitGit> {
    if !repo.join(".git").exists() {
        git::run(repo, &["init", "--quiet"])?;
    }
    let path = repo.join(".gitignore");
    let mut text =
        plain_file::read_or_empty(&path).map_err(|error| PackError::io("read", &path, &error))?;
    let known = |line: &&&str| !text.lines().any(|known| known.trim() == **line);
    let lacking: Vec<&&str> = IGNORED.iter().filter(known).collect();
    for line in &lacking {
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        text = format!("{text}{gap}{line}\n");
    }
    if !lacking.is_empty() {
        write_durably(&path, text.as_bytes())?;
    }
    let path = shown(&path);
    Ok(InitGit {
        initialized: true,
        gitignore_updated: !lacking.is_empty(),
        gitignore_path: path.clone(),
        gitignore_path_posix: path,
    })
}
