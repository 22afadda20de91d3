//! `agentpack.yaml`: profiles, targets and modules, checked as a whole before anything is read from disk.
//!
//! Unknown keys are warned about, everything else that does not fit is refused with file and line.
//! Source: shared/reference/agentpack.md, section 1.

mod decode;
mod edit;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    path::Path,
};

pub(crate) use self::{
    decode::{source_from_spec, unknown_target},
    edit::{module_added, module_removed, profile_added},
};
use crate::{
    error::{Code, PackError, Result},
    paths::{RelPath, shown},
    plain_file,
    servers::{Server, ServerFiles},
    targets::TargetId,
    yaml::{Kind, Node},
};

/// The manifest's name in the config repo.
pub(crate) const FILE: &str = "agentpack.yaml";

/// A manifest that has been checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) profiles: BTreeMap<String, Profile>,
    pub(crate) targets: BTreeMap<TargetId, TargetConfig>,
    pub(crate) modules: Vec<Module>,
    /// By name.
    pub(crate) servers: Vec<Server>,
    pub(crate) warnings: Vec<String>,
}

/// Which modules a profile takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    pub(crate) include_tags: BTreeSet<String>,
    pub(crate) include_modules: BTreeSet<String>,
    pub(crate) exclude_modules: BTreeSet<String>,
}

/// How a target is written.
#[derive(Clone, Debug)]
pub(crate) struct TargetConfig {
    pub(crate) scope: Scope,
    servers: ServerFiles,
    options: BTreeMap<String, Node>,
}

/// Whose files a target writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Both,
    Project,
    User,
}

/// One module.
#[derive(Clone, Debug)]
pub(crate) struct Module {
    pub(crate) id: String,
    pub(crate) kind: ModuleKind,
    pub(crate) enabled: bool,
    pub(crate) tags: Vec<String>,
    /// The targets that it is for; all when empty.
    pub(crate) targets: Vec<TargetId>,
    pub(crate) source: Source,
    /// Where it stands in the manifest.
    pub(crate) line: usize,
}

/// What a module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModuleKind {
    /// A slash command of Claude Code.
    Command,
    /// `AGENTS.md`.
    Instructions,
    /// A prompt.
    Prompt,
    /// A directory with `SKILL.md`.
    Skill,
}

/// Where a module comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Git(GitSource),
    /// A file or directory in the config repo.
    Local(RelPath),
}

/// A git repository, a ref in it, a directory in that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitSource {
    pub(crate) url: String,
    pub(crate) reference: String,
    pub(crate) subdir: Option<RelPath>,
    pub(crate) shallow: bool,
}

impl Manifest {
    /// Reads and checks the manifest of a config repo.
    pub(crate) fn load(repo: &Path) -> Result<Self> {
        let path = repo.join(FILE);
        match plain_file::read_to_string(&path) {
            Ok(text) => Self::parse(&text, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing(&path)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(PackError::config(format!("{} is not UTF-8", path.display()))
                    .with("path", shown(&path)))
            }
            Err(error) => Err(PackError::io("read", &path, &error)),
        }
    }

    /// Reads and checks a manifest from its text; `path` is for messages.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self> {
        decode::manifest(text, path)
    }

    /// The enabled modules of a profile, by id.
    pub(crate) fn selected(&self, profile: &str) -> Result<Vec<&Module>> {
        let known = || self.profiles.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let rule = self.profiles.get(profile).ok_or_else(|| {
            PackError::config(format!("there is no profile `{profile}`; there are: {}", known()))
                .with("profile", profile)
                .hint("choose one of these with --profile, or add it under `profiles` in agentpack.yaml")
        })?;
        let mut modules: Vec<&Module> =
            self.modules.iter().filter(|module| rule.takes(module)).collect();
        modules.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(modules)
    }

    /// What is said of each enabled module that no profile takes or names: nobody ever deploys it.
    pub(crate) fn warnings_of_untaken(&self) -> Vec<String> {
        let is_taken = |module: &Module| {
            let mut rules = self.profiles.values();
            rules.any(|rule| rule.takes(module) || rule.exclude_modules.contains(&module.id))
        };
        let untaken = self.modules.iter().filter(|module| module.enabled && !is_taken(module));
        let tags: BTreeSet<&str> = self
            .profiles
            .values()
            .flat_map(|rule| &rule.include_tags)
            .map(String::as_str)
            .collect();
        let tags = tags.into_iter().collect::<Vec<_>>().join(", ");
        let tags = if tags.is_empty() { "none has any".to_owned() } else { tags };
        let word = |module: &Module| {
            format!(
                "no profile takes {}, so it is never deployed: give it a tag that one includes ({tags}), or put it \
                 under include_modules of one in agentpack.yaml",
                module.id
            )
        };
        untaken.map(word).collect()
    }

    /// The targets that a filter leaves: all that are configured, or the one named.
    pub(crate) fn chosen_targets(&self, filter: &str) -> Result<Vec<TargetId>> {
        if filter == "all" {
            return Ok(self.targets.keys().copied().collect());
        }
        let target = TargetId::parse(filter).ok_or_else(|| unsupported_filter(filter))?;
        if self.targets.contains_key(&target) {
            return Ok(vec![target]);
        }
        Err(PackError::config(format!("target `{filter}` is not configured"))
            .with("target", filter)
            .hint("add it under `targets` in agentpack.yaml, or choose another target"))
    }
}

impl Profile {
    fn takes(&self, module: &Module) -> bool {
        module.enabled
            && !self.exclude_modules.contains(&module.id)
            && (self.include_modules.contains(&module.id)
                || module.tags.iter().any(|tag| self.include_tags.contains(tag)))
    }
}

impl TargetConfig {
    pub(crate) fn new(scope: Scope, options: BTreeMap<String, Node>) -> Self {
        Self { scope, servers: ServerFiles::None, options }
    }

    /// This target for a manifest that wants servers in it.
    pub(crate) fn with_servers(mut self) -> Self {
        if self.flag("write_mcp_servers", true) {
            self.servers = ServerFiles::OfScope;
        }
        self
    }

    /// The files in which servers are looked for.
    pub(crate) fn servers(&self) -> ServerFiles {
        self.servers
    }

    pub(crate) fn is_user(&self) -> bool {
        self.scope != Scope::Project
    }

    pub(crate) fn is_project(&self) -> bool {
        self.scope != Scope::User
    }

    /// This target with every output switched on, to find what was deployed under other options.
    pub(crate) fn with_everything(&self, target: TargetId) -> Self {
        let mut options = self.options.clone();
        options.retain(|name, _| !name.starts_with("write_"));
        for name in ["write_user_skills", "write_repo_skills"] {
            let on = Kind::Scalar { text: "true".to_owned(), plain: true };
            options.insert(name.to_owned(), Node { line: 0, span: 0..0, kind: on });
        }
        let exports = target == TargetId::ExportDir || target.is_project_only();
        let scope = if exports { self.scope } else { Scope::Both };
        Self { scope, servers: ServerFiles::All, options }
    }

    /// A boolean option: YAML's booleans and the strings true, yes, 1, false, no, 0; else the default.
    pub(crate) fn flag(&self, name: &str, default: bool) -> bool {
        let text =
            self.options.get(name).and_then(Node::text).unwrap_or_default().trim().to_lowercase();
        match text.as_str() {
            "true" | "yes" | "1" => true,
            "false" | "no" | "0" => false,
            _ => default,
        }
    }

    /// A string option that is not empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.options.get(name).and_then(Node::text).filter(|text| !text.trim().is_empty())
    }
}

impl Module {
    /// Whether it goes to this target.
    pub(crate) fn is_for(&self, target: TargetId) -> bool {
        self.targets.is_empty() || self.targets.contains(&target)
    }
}

impl Scope {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "both" => Some(Self::Both),
            "project" => Some(Self::Project),
            "user" => Some(Self::User),
            _ => None,
        }
    }
}

impl ModuleKind {
    /// Reads `instructions`, `skill`, `prompt`, `command`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "command" => Some(Self::Command),
            "instructions" => Some(Self::Instructions),
            "prompt" => Some(Self::Prompt),
            "skill" => Some(Self::Skill),
            _ => None,
        }
    }

    /// The manifest's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Instructions => "instructions",
            Self::Prompt => "prompt",
            Self::Skill => "skill",
        }
    }
}

impl fmt::Display for ModuleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn missing(path: &Path) -> PackError {
    PackError::new(Code::ConfigMissing, format!("there is no {}", path.display()))
        .with("path", shown(path))
        .hint("run `agentpack init`, or name the config repo with --repo")
}

fn unsupported_filter(filter: &str) -> PackError {
    let mut allowed = vec!["all"];
    allowed.extend(TargetId::LISTED.iter().map(|target| target.as_str()));
    PackError::new(Code::TargetUnsupported, format!("unknown target `{filter}`"))
        .with("target", filter)
        .hint(&format!("choose one of {}", allowed.join(", ")))
        .with("allowed", allowed)
}
