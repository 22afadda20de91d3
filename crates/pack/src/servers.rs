//! MCP servers: entries in files that the agents and their users edit too.
//!
//! `mcp_servers` in the manifest says what is wanted. Each client has its file and its form; only entries of ours
//! change there, everything else stays as it stands, comments included. What is ours is listed in the manifest file of
//! the root (`merged_files`). An entry whose environment has an alias is deployed as `keyless run -- …`, so that no
//! client's file ever holds a value.

mod compare;
mod document;
mod started;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use serde_json::{Map, Value, json};

pub use self::started::{OutsideRun, outside_run};
pub(crate) use self::{
    compare::{compared, ours_in, rolled_back},
    document::Document,
    started::{Start, start_of},
};
use crate::{
    desired::Place,
    manifest::{Manifest, TargetConfig},
    paths::RelPath,
    sha::Sha,
    site::Site,
    targets::{Root, TargetId, codex_home},
};

/// What an alias begins with; `keyless run` resolves it.
pub(crate) const ALIAS: &str = "@secret:";

/// A server that the manifest wants.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) reached: Reached,
    /// The profiles' tags that choose it; every profile when empty.
    pub(crate) tags: BTreeSet<String>,
    /// The targets that it is for; all that know servers when empty.
    pub(crate) targets: Vec<TargetId>,
}

/// How a client reaches it.
#[derive(Clone, Debug)]
pub(crate) enum Reached {
    /// It is started.
    Command { command: String, args: Vec<String>, env: BTreeMap<String, String> },
    /// It is called.
    Url { url: String, headers: BTreeMap<String, String> },
}

/// A file and the entries of ours that belong into it.
#[derive(Clone, Debug)]
pub(crate) struct ServerFile {
    pub(crate) root: PathBuf,
    pub(crate) path: RelPath,
    pub(crate) entries: BTreeMap<String, Value>,
}

/// A file and the entries that were deployed into it.
#[derive(Clone, Debug)]
pub(crate) struct DeployedServers {
    pub(crate) root: PathBuf,
    pub(crate) path: RelPath,
    pub(crate) entries: BTreeMap<String, Sha>,
}

/// The files of a target in which entries are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ServerFiles {
    /// In all that there may be, to find what was deployed under another manifest.
    All,
    /// In none: the manifest wants no servers there.
    #[default]
    None,
    /// In the one that its scope says.
    OfScope,
}

impl Server {
    /// Whether it goes to this target.
    pub(crate) fn is_for(&self, target: TargetId) -> bool {
        knows_servers(target) && (self.targets.is_empty() || self.targets.contains(&target))
    }

    /// The entry in the client's own form.
    fn entry(&self, target: TargetId) -> Value {
        let mut entry = Map::new();
        let kind = matches!(target, TargetId::ClaudeCode | TargetId::Vscode);
        match &self.reached {
            Reached::Command { command, args, env } => {
                let (command, args) = started(command, args, env);
                if kind {
                    entry.insert("type".to_owned(), json!("stdio"));
                }
                entry.insert("command".to_owned(), json!(command));
                entry.insert("args".to_owned(), json!(args));
                if !env.is_empty() {
                    entry.insert("env".to_owned(), json!(env));
                }
            }
            Reached::Url { url, headers } => {
                if kind {
                    entry.insert("type".to_owned(), json!("http"));
                }
                entry.insert("url".to_owned(), json!(url));
                let name = if target == TargetId::Codex { "http_headers" } else { "headers" };
                if !headers.is_empty() {
                    entry.insert(name.to_owned(), json!(headers));
                }
            }
        }
        Value::Object(entry)
    }
}

/// The command line: with an alias in its environment it is started by `keyless run`, which resolves it.
fn started(
    command: &str,
    args: &[String],
    env: &BTreeMap<String, String>,
) -> (String, Vec<String>) {
    if !env.values().any(|value| value.starts_with(ALIAS)) {
        return (command.to_owned(), args.to_vec());
    }
    let words = ["run", "--", command].map(str::to_owned);
    ("keyless".to_owned(), words.into_iter().chain(args.iter().cloned()).collect())
}

/// Whether a client has a file for servers.
pub(crate) fn knows_servers(target: TargetId) -> bool {
    matches!(target, TargetId::ClaudeCode | TargetId::Codex | TargetId::Cursor | TargetId::Vscode)
}

/// The files of a target that may hold entries of ours: each with its root.
pub(crate) fn files(
    site: &Site,
    target: TargetId,
    config: &TargetConfig,
) -> Vec<(PathBuf, RelPath)> {
    let (home, project) = (&site.user_home, &site.project_root);
    let of_user = match target {
        TargetId::ClaudeCode => Some((home.clone(), ".claude.json")),
        TargetId::Codex => Some((codex_home(site, config), "config.toml")),
        _ => None,
    };
    let of_project = match target {
        TargetId::ClaudeCode => Some((project.clone(), ".mcp.json")),
        TargetId::Codex => Some((project.join(".codex"), "config.toml")),
        TargetId::Cursor => Some((project.join(".cursor"), "mcp.json")),
        TargetId::Vscode => Some((project.join(".vscode"), "mcp.json")),
        _ => None,
    };
    let chosen = match config.servers() {
        ServerFiles::None => vec![],
        ServerFiles::All => vec![of_user, of_project],
        // Once is enough: the user's file is read in every project.
        ServerFiles::OfScope if config.is_user() && of_user.is_some() => vec![of_user],
        ServerFiles::OfScope => vec![of_project],
    };
    let named = |(root, name): (PathBuf, &str)| Some((root, RelPath::name(name)?));
    chosen.into_iter().flatten().filter_map(named).collect()
}

/// The directories of these files.
pub(crate) fn roots(site: &Site, target: TargetId, config: &TargetConfig) -> Vec<Root> {
    let root = |(path, _)| Root { target, path, scan_extras: false };
    files(site, target, config).into_iter().map(root).collect()
}

/// Whether a path has the shape of a target's file for servers.
pub(crate) fn is_server_file(target: TargetId, path: &std::path::Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match target {
        TargetId::ClaudeCode => matches!(name, ".claude.json" | ".mcp.json"),
        TargetId::Codex => name == "config.toml",
        TargetId::Cursor => {
            name == "mcp.json" && path.parent().is_some_and(|up| up.ends_with(".cursor"))
        }
        TargetId::Vscode => {
            name == "mcp.json" && path.parent().is_some_and(|up| up.ends_with(".vscode"))
        }
        _ => false,
    }
}

/// What the manifest wants in the files of a target.
pub(crate) fn wanted(
    site: &Site,
    manifest: &Manifest,
    target: TargetId,
) -> BTreeMap<Place, ServerFile> {
    let tags = manifest.profiles.get(&site.profile).map(|profile| &profile.include_tags);
    let chosen = |server: &&Server| {
        let tagged =
            server.tags.is_empty() || tags.is_some_and(|tags| !tags.is_disjoint(&server.tags));
        tagged && server.is_for(target)
    };
    let entries: BTreeMap<String, Value> = manifest
        .servers
        .iter()
        .filter(chosen)
        .map(|server| (server.name.clone(), server.entry(target)))
        .collect();
    let file = |(root, path): (PathBuf, RelPath)| {
        let place = (target, root.join(&path));
        (place, ServerFile { root, path, entries: entries.clone() })
    };
    files(site, target, &manifest.targets[&target]).into_iter().map(file).collect()
}

/// The digest of an entry, whatever the order of its keys.
pub(crate) fn digest(entry: &Value) -> Sha {
    Sha::of(entry.to_string().as_bytes())
}
