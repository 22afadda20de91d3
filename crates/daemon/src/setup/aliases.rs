//! Aliases in files, and whether anything here resolves them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use keyless_core::{ALIAS_PREFIX, Code, Error, SecretPath};
use keyless_vault::{IndexFile, Manifest};

use crate::{
    operator,
    places::{Places, is_inside_session},
};

/// Files in which an alias is an example.
const PROSE: &[&str] = &["adoc", "html", "markdown", "md", "rst", "txt"];

/// Whole names of files whose variables a command is started with, or that Keyless reads itself.
const CARRIERS: &[&str] = &[
    ".dev.vars",
    ".envrc",
    ".flaskenv",
    ".gitlab-ci.yml",
    "agentpack.yaml",
    "claude_desktop_config.json",
    "containerfile",
    "devcontainer.json",
    "dockerfile",
    "justfile",
    "makefile",
    "mcp.json",
    "mcp_config.json",
    "mise.toml",
    "opencode.json",
    "package.json",
    "procfile",
    "settings.json",
    "settings.local.json",
    "sources.toml",
    "taskfile.yml",
];
/// How such names end, a dot before.
const CARRIER_ENDINGS: &[&str] = &["bash", "env", "fish", "ps1", "service", "sh", "zsh"];
/// Such files, by a part of their path.
const CARRIER_PLACES: &[&str] = &[".circleci/", ".github/workflows/", ".keyless/"];
/// `config.toml` is Keyless's, or that of an agent which starts servers.
const CONFIGS: &[&str] = &["codex/config.toml", "keyless/config.toml"];

/// An alias in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasUse {
    /// Counted from one.
    pub line: usize,
    /// Where in the text, in bytes, `@secret:` begins.
    pub at: usize,
    /// What stands after `@secret:`.
    pub written: String,
    /// The secret, if it could be one.
    pub path: Option<SecretPath>,
}

/// The aliases in a file of this name; none in prose.
pub fn aliases_in(file: &Path, text: &str) -> Vec<AliasUse> {
    let end = file.extension().and_then(|end| end.to_str()).unwrap_or_default();
    if PROSE.contains(&end.to_ascii_lowercase().as_str()) {
        return Vec::new();
    }
    let in_line = |(number, line)| {
        let uses = written_in(line).map(move |written: &str| AliasUse {
            line: number + 1,
            at: written.as_ptr().addr() - text.as_ptr().addr() - ALIAS_PREFIX.len(),
            written: written.to_owned(),
            path: SecretPath::parse(written).ok(),
        });
        uses.collect::<Vec<_>>()
    };
    text.lines().enumerate().flat_map(in_line).collect()
}

/// Whether an alias in a file of this name comes to be resolved: `keyless run` does so in variables that it inherits, and
/// Keyless in settings of its own. Of any other file nobody reads it but its own program, which takes it for the value.
pub fn carries_variables(file: &Path) -> bool {
    let path = file.to_string_lossy().to_ascii_lowercase();
    let name = path.rsplit('/').next().unwrap_or_default();
    let stem = name.strip_prefix('.').unwrap_or(name);
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    let is_compose = ["yaml", "yml"].contains(&end)
        && (stem.starts_with("compose") || stem.starts_with("docker-compose"));
    name.starts_with(".env.")
        || CARRIERS.contains(&name)
        || CARRIERS.contains(&stem)
        || CARRIER_ENDINGS.contains(&end)
        || CARRIER_PLACES.iter().any(|place| path.contains(place))
        || CONFIGS.iter().any(|config| path.ends_with(config))
        || name.starts_with("dockerfile.")
        || is_compose
}

/// The paths that an alias may name: of the store, the operator's index, and the projects around its file.
#[derive(Debug)]
pub struct KnownPaths {
    /// The paths of the store and the index; `None` where they can't be seen.
    everywhere: Option<BTreeSet<SecretPath>>,
    projects: BTreeMap<PathBuf, BTreeSet<SecretPath>>,
}

impl KnownPaths {
    /// Reads what holds for every file. No store is an empty one, but in a session, which sees none.
    pub async fn read(places: &Places) -> Result<Self, Error> {
        if is_inside_session() {
            return Ok(Self { everywhere: None, projects: BTreeMap::new() });
        }
        let mut known: BTreeSet<SecretPath> = match operator::open_store(places).await {
            Ok(store) => {
                operator::list_secrets(&store).await?.into_iter().map(|one| one.path).collect()
            }
            Err(error) if error.code() == Code::NotInitialised => BTreeSet::new(),
            Err(error) => return Err(error),
        };
        known.extend(IndexFile::load(&places.index_file())?.secrets.into_keys());
        Ok(Self { everywhere: Some(known), projects: BTreeMap::new() })
    }

    /// Whether an alias in a file of `folder` names something; nothing when it can't be told from here. Blocks.
    pub fn resolves(&mut self, folder: &Path, path: &SecretPath) -> Result<Option<bool>, Error> {
        if self.everywhere.as_ref().is_some_and(|known| known.contains(path)) {
            return Ok(Some(true));
        }
        for project in Manifest::projects_above(folder) {
            if !self.projects.contains_key(project) {
                let manifest = Manifest::load(project)?;
                let declared = manifest.required.into_iter().chain(manifest.optional).collect();
                self.projects.insert(project.to_owned(), declared);
            }
            if self.projects[project].contains(path) {
                return Ok(Some(true));
            }
        }
        Ok(self.everywhere.as_ref().map(|_| false))
    }
}

/// What stands after each `@secret:` that begins a value, and has a slash as every path has.
fn written_in(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices(ALIAS_PREFIX).filter_map(|(at, _)| {
        let begins =
            line[..at].chars().next_back().is_none_or(|c| !(c.is_alphanumeric() || c == '/'));
        let rest = &line[at + ALIAS_PREFIX.len()..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/_.-".contains(c)));
        let written = rest[..end.unwrap_or(rest.len())].trim_end_matches(['.', '/']);
        (begins && written.contains('/')).then_some(written)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_whose_variables_come_to_a_command_are_known() {
        for file in [
            ".env",
            "app/.env.example",
            "ci.env",
            ".mcp.json",
            ".cursor/mcp.json",
            ".vscode/settings.json",
            "compose.override.yaml",
            "docker-compose.yml",
            ".github/workflows/ci.yaml",
            ".codex/config.toml",
            ".keyless/secrets.toml",
            "Dockerfile.dev",
            "bin/start.sh",
            "pack/agentpack.yaml",
        ] {
            assert!(carries_variables(Path::new(file)), "{file}");
        }
        for file in ["app.yaml", "prog.py", "config.toml", "src/main.rs", "environment.json", "env"]
        {
            assert!(!carries_variables(Path::new(file)), "{file}");
        }
    }

    #[test]
    fn aliases_are_found_where_they_are_values() {
        let found = |file: &str, text: &str| -> Vec<(usize, String, bool)> {
            let all = aliases_in(Path::new(file), text).into_iter();
            all.map(|one| (one.line, one.written, one.path.is_some())).collect()
        };
        let text = "A=@secret:a/b/c\n{\"token\": \"@secret:a/b\", \"x\": \"@secret:d/e/f\"}\n";
        let expected = [
            (1, "a/b/c".to_owned(), true),
            (2, "a/b".to_owned(), false),
            (2, "d/e/f".to_owned(), true),
        ];
        assert_eq!(found(".env", text), expected);
        assert_eq!(found("README.md", text), []);
        assert_eq!(
            found("a.rs", "format!(\"@secret:{path}\"); // @secret:PATH, me@secret:a/b/c\n"),
            []
        );
    }
}
