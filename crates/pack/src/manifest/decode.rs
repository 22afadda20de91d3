//! From YAML to a checked manifest; the first fault wins, in agentpack's order.

mod servers;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use super::{FILE, GitSource, Manifest, Module, ModuleKind, Profile, Scope, Source, TargetConfig};
use crate::{
    error::{Code, PackError, Result},
    git,
    ids::is_component,
    paths::{RelPath, shown},
    targets::TargetId,
    yaml::{self, Kind, Node},
};

const TOP: &[&str] = &["version", "profiles", "targets", "modules", "mcp_servers"];
const PROFILE: &[&str] = &["include_tags", "include_modules", "exclude_modules"];
const TARGET: &[&str] = &["mode", "scope", "options"];
const MODULE: &[&str] = &["id", "type", "enabled", "tags", "targets", "source", "metadata"];
const SOURCE: &[&str] = &["local_path", "git"];
const LOCAL: &[&str] = &["path"];
const GIT: &[&str] = &["url", "ref", "subdir", "shallow"];

/// Reads and checks a manifest's text.
pub(super) fn manifest(text: &str, path: &Path) -> Result<Manifest> {
    let mut decoder = Decoder { path, warnings: Vec::new() };
    let root = yaml::parse(text).map_err(|fault| decoder.fault(fault.line, &fault.message))?;
    decoder.keys(&root, TOP, "the manifest")?;
    decoder.version(&root)?;
    let mut targets = decoder.targets(&root)?;
    let profiles = decoder.profiles(&root)?;
    let modules = decoder.modules(&root)?;
    decoder.names_in_profiles(&root, &modules);
    let servers = decoder.servers(&root)?;
    for (target, config) in &mut targets {
        if servers.iter().any(|server| server.is_for(*target)) {
            *config = config.clone().with_servers();
        }
    }
    Ok(Manifest { profiles, targets, modules, servers, warnings: decoder.warnings })
}

/// Reads `local:<path>` or `git:<url>[#ref=…&subdir=…&shallow=…]`.
pub(crate) fn source_from_spec(spec: &str) -> Result<Source> {
    let bad = |message: String| {
        PackError::config(message)
            .with("source", spec)
            .hint("write local:PATH or git:URL#ref=REF&subdir=DIR")
    };
    if let Some(path) = spec.strip_prefix("local:") {
        return local_source(path).map(Source::Local).map_err(bad);
    }
    let Some(rest) = spec.strip_prefix("git:") else {
        return Err(bad(format!("`{spec}` names no kind of source")));
    };
    let (url, fields) = rest.split_once('#').unwrap_or((rest, ""));
    let mut source = GitSource {
        url: url.to_owned(),
        reference: "main".to_owned(),
        subdir: None,
        shallow: true,
    };
    for field in fields.split('&').filter(|field| !field.is_empty()) {
        match field.split_once('=') {
            Some(("ref", value)) => value.clone_into(&mut source.reference),
            Some(("subdir", value)) => source.subdir = subdir(value).map_err(bad)?,
            Some(("shallow", value)) => source.shallow = matches!(value, "true" | "1"),
            _ => return Err(bad(format!("unknown field `{field}` in the source"))),
        }
    }
    git::check_source(&source.url, &source.reference).map_err(bad)?;
    Ok(Source::Git(source))
}

struct Decoder<'p> {
    path: &'p Path,
    warnings: Vec<String>,
}

impl Decoder<'_> {
    fn fault(&self, line: usize, message: &str) -> PackError {
        PackError::config(format!("{}:{line}: {message}", self.path.display()))
            .with("path", shown(self.path))
            .with("line", line)
            .with("error", message)
            .hint("correct this line of agentpack.yaml")
    }

    /// Refuses what is no mapping, warns about keys that nobody reads.
    fn keys(&mut self, node: &Node, known: &[&str], what: &str) -> Result<()> {
        let Some(entries) = node.map() else {
            return Err(self
                .fault(node.line, &format!("{what} must be a mapping, not {}", node.kind_name())));
        };
        for (key, _) in entries.iter().filter(|(key, _)| !known.contains(&key.text.as_str())) {
            self.warnings.push(format!(
                "{FILE}:{}: unknown key `{}` in {what} is ignored; known are: {}",
                key.line,
                key.text,
                known.join(", ")
            ));
        }
        Ok(())
    }

    fn version(&self, root: &Node) -> Result<()> {
        let node = root.get("version").ok_or_else(|| self.fault(1, "`version: 1` is missing"))?;
        match node.text().and_then(|text| text.parse::<u32>().ok()) {
            Some(1) => Ok(()),
            Some(version) => Err(PackError::new(
                Code::ConfigUnsupportedVersion,
                format!("{}:{}: version {version} is not known", self.path.display(), node.line),
            )
            .with("version", version)
            .with("supported", vec![1])
            .hint("this program reads version 1")),
            None => Err(self.fault(node.line, "`version` must be the number 1")),
        }
    }

    fn targets(&mut self, root: &Node) -> Result<BTreeMap<TargetId, TargetConfig>> {
        let mut targets = BTreeMap::new();
        for (key, node) in self.entries(root, "targets")? {
            let Some(target) = TargetId::parse(&key.text) else {
                return Err(self.unknown_target(key.line, &key.text));
            };
            self.keys(node, TARGET, &format!("target `{}`", key.text))?;
            targets.insert(target, self.target(target, node)?);
        }
        Ok(targets)
    }

    fn target(&self, target: TargetId, node: &Node) -> Result<TargetConfig> {
        let name = target.as_str();
        match node.get("mode").and_then(Node::text) {
            Some("files") => {}
            _ => return Err(self.fault(node.line, &format!("target `{name}` needs `mode: files`"))),
        }
        let scope =
            node.get("scope").and_then(Node::text).and_then(Scope::parse).ok_or_else(|| {
                self.fault(
                    node.line,
                    &format!("target `{name}` needs a `scope`: user, project or both"),
                )
            })?;
        if scope == Scope::User && target.is_project_only() {
            return Err(self
                .fault(
                    node.line,
                    &format!(
                        "target `{name}` writes into projects only, so `scope: user` is nothing"
                    ),
                )
                .with("target", name)
                .with("allowed_scopes", vec!["project", "both"]));
        }
        let options = match node.get("options") {
            Some(options) if !options.is_null() => options.map().ok_or_else(|| {
                self.fault(options.line, &format!("options of target `{name}` must be a mapping"))
            })?,
            _ => &[],
        };
        let options =
            options.iter().map(|(key, value)| (key.text.clone(), value.clone())).collect();
        Ok(TargetConfig::new(scope, options))
    }

    fn unknown_target(&self, line: usize, name: &str) -> PackError {
        let place = format!("{}:{line}: ", self.path.display());
        unknown_target(&place, name).with("line", line)
    }

    fn profiles(&mut self, root: &Node) -> Result<BTreeMap<String, Profile>> {
        let mut profiles = BTreeMap::new();
        for (key, node) in self.entries(root, "profiles")? {
            if node.is_null() {
                profiles.insert(key.text.clone(), Profile::default());
                continue;
            }
            self.keys(node, PROFILE, &format!("profile `{}`", key.text))?;
            let profile = Profile {
                include_tags: self.words(node, "include_tags")?,
                include_modules: self.words(node, "include_modules")?,
                exclude_modules: self.words(node, "exclude_modules")?,
            };
            profiles.insert(key.text.clone(), profile);
        }
        if !profiles.contains_key("default") {
            let line = root.get("profiles").map_or(1, |node| node.line);
            return Err(self
                .fault(line, "profile `default` is missing")
                .with("profile", "default"));
        }
        Ok(profiles)
    }

    fn modules(&mut self, root: &Node) -> Result<Vec<Module>> {
        let mut modules: Vec<Module> = Vec::new();
        let mut lines: HashMap<String, usize> = HashMap::new();
        let Some(node) = root.get("modules").filter(|node| !node.is_null()) else {
            return Ok(modules);
        };
        let list = node.list().ok_or_else(|| self.fault(node.line, "`modules` must be a list"))?;
        for node in list {
            let module = self.module(node)?;
            if let Some(first) = lines.insert(module.id.clone(), module.line) {
                let message =
                    format!("module `{}` stands here again; first on line {first}", module.id);
                return Err(self.fault(module.line, &message).with("module_id", module.id));
            }
            modules.push(module);
        }
        Ok(modules)
    }

    fn module(&mut self, node: &Node) -> Result<Module> {
        self.keys(node, MODULE, "a module")?;
        let text = |name: &str| node.get(name).and_then(Node::text);
        let id =
            text("id").ok_or_else(|| self.fault(node.line, "a module needs an `id`"))?.to_owned();
        let fault = |message: &str| self.fault(node.line, message).with("module_id", id.clone());
        if id.chars().any(char::is_control) || id.len() > 512 {
            return Err(fault("a module's id must be one short line"));
        }
        let kind = text("type").and_then(ModuleKind::parse).ok_or_else(|| {
            fault(&format!("module `{id}` needs a `type`: instructions, skill, prompt or command"))
        })?;
        if kind == ModuleKind::Skill && !is_component(&crate::ids::name_part(&id)) {
            return Err(fault(&format!("the name of skill `{id}` can't be a directory's name")));
        }
        let enabled = match node.get("enabled") {
            None => true,
            Some(node) => node.bool().ok_or_else(|| fault("`enabled` must be true or false"))?,
        };
        let mut targets = Vec::new();
        for name in self.words(node, "targets")? {
            targets.push(TargetId::parse(&name).ok_or_else(|| {
                self.unknown_target(node.line, &name).with("module_id", id.clone())
            })?);
        }
        let tags = self.words(node, "tags")?.into_iter().collect();
        let source = self.source(node, &id)?;
        Ok(Module { id, kind, enabled, tags, targets, source, line: node.line })
    }

    fn source(&mut self, module: &Node, id: &str) -> Result<Source> {
        let line = module.line;
        let Some(node) = module.get("source") else {
            return Err(self
                .fault(line, &format!("module `{id}` needs a `source`"))
                .with("module_id", id));
        };
        self.keys(node, SOURCE, &format!("the source of `{id}`"))?;
        let given = |name: &str| node.get(name).filter(|node| !node.is_null());
        let fault = |this: &Self, line: usize, message: &str| {
            this.fault(line, &format!("source of `{id}`: {message}")).with("module_id", id)
        };
        match (given("local_path"), given("git")) {
            (Some(local), None) => {
                self.keys(local, LOCAL, &format!("local_path of `{id}`"))?;
                let path = local.get("path").and_then(Node::text).unwrap_or_default();
                local_source(path).map(Source::Local).map_err(|why| fault(self, local.line, &why))
            }
            (None, Some(git)) => {
                self.keys(git, GIT, &format!("git of `{id}`"))?;
                git_source(git).map(Source::Git).map_err(|why| fault(self, git.line, &why))
            }
            _ => Err(fault(self, node.line, "exactly one of `local_path` and `git` is needed")),
        }
    }

    /// The entries of a mapping that may be absent.
    fn entries<'n>(&self, root: &'n Node, name: &str) -> Result<&'n [(yaml::Key, Node)]> {
        match root.get(name) {
            Some(node) if !node.is_null() => node
                .map()
                .ok_or_else(|| self.fault(node.line, &format!("`{name}` must be a mapping"))),
            _ => Ok(&[]),
        }
    }

    /// Words that may be absent, in whatever order.
    fn words(&self, node: &Node, name: &str) -> Result<BTreeSet<String>> {
        Ok(self.texts(node, name)?.into_iter().collect())
    }

    /// A list of words that may be absent.
    fn texts(&self, node: &Node, name: &str) -> Result<Vec<String>> {
        let Some(list) = node.get(name).filter(|node| !node.is_null()) else {
            return Ok(Vec::new());
        };
        let fault = |line| self.fault(line, &format!("`{name}` must be a list of words"));
        let items = list.list().ok_or_else(|| fault(list.line))?;
        items
            .iter()
            .map(|item| item.text().map(str::to_owned).ok_or_else(|| fault(item.line)))
            .collect()
    }

    /// Warns about modules that profiles name and nobody defines.
    fn names_in_profiles(&mut self, root: &Node, modules: &[Module]) {
        let known: BTreeSet<&str> = modules.iter().map(|module| module.id.as_str()).collect();
        let Some(profiles) = root.get("profiles").and_then(Node::map) else { return };
        for (profile, node) in profiles {
            for list in ["include_modules", "exclude_modules"] {
                let Some(Kind::List(items)) = node.get(list).map(|node| &node.kind) else {
                    continue;
                };
                for item in items {
                    let id = item.text().unwrap_or_default();
                    if !known.contains(id) {
                        self.warnings.push(format!(
                            "{FILE}:{}: profile `{}` names module `{id}`, which does not exist",
                            item.line, profile.text
                        ));
                    }
                }
            }
        }
    }
}

fn git_source(node: &Node) -> std::result::Result<GitSource, String> {
    let text = |name: &str| node.get(name).and_then(Node::text);
    let url = text("url").ok_or("`url` is missing")?.to_owned();
    let reference = text("ref").unwrap_or("main").to_owned();
    git::check_source(&url, &reference)?;
    let shallow = node
        .get("shallow")
        .map_or(Some(true), Node::bool)
        .ok_or("`shallow` must be true or false")?;
    Ok(GitSource { url, reference, subdir: subdir(text("subdir").unwrap_or_default())?, shallow })
}

fn local_source(path: &str) -> std::result::Result<RelPath, String> {
    let trimmed = path.strip_prefix("./").unwrap_or(path).trim_end_matches('/');
    RelPath::parse(trimmed).ok_or_else(|| {
        format!(
            "path `{path}` must lead to a file or directory inside the config repo, without `..`"
        )
    })
}

fn subdir(text: &str) -> std::result::Result<Option<RelPath>, String> {
    let trimmed = text.strip_prefix("./").unwrap_or(text).trim_end_matches('/');
    match trimmed {
        "" | "." => Ok(None),
        trimmed => RelPath::parse(trimmed)
            .map(Some)
            .ok_or_else(|| format!("subdir `{text}` must stay inside the repository")),
    }
}
/// A manifest, or a module for one, names a target that does not exist.
pub(crate) fn unknown_target(place: &str, name: &str) -> PackError {
    let allowed: Vec<&str> = TargetId::LISTED.iter().map(|target| target.as_str()).collect();
    PackError::new(Code::TargetUnsupported, format!("{place}unknown target `{name}`"))
        .with("target", name)
        .with("allowed", allowed)
        .hint("use one of the allowed targets")
        .reason(
            "target_not_compiled",
            &[
                "inspect_help_json",
                "edit_manifest_targets",
                "rebuild_with_target_feature",
                "retry_command",
            ],
        )
}
