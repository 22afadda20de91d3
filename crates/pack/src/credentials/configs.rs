//! Where agents and editors keep settings of their own, in which people paste tokens.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::scan;
use crate::{doctor::PlaintextToken, paths::shown, plain_file, site::Site};

/// Below the home directory.
const OF_USERS: &[&str] = &[
    ".claude.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codeium/windsurf/mcp_config.json",
    ".codex/config.toml",
    ".config/Claude/claude_desktop_config.json",
    ".config/Code/User/mcp.json",
    ".config/Code/User/settings.json",
    ".config/opencode/opencode.json",
    ".config/zed/settings.json",
    ".continue/config.json",
    ".continue/config.yaml",
    ".cursor/mcp.json",
    ".gemini/settings.json",
    "Library/Application Support/Claude/claude_desktop_config.json",
    "Library/Application Support/Code/User/mcp.json",
    "Library/Application Support/Code/User/settings.json",
];
/// Below a project.
const OF_PROJECTS: &[&str] = &[
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/config.toml",
    ".cursor/mcp.json",
    ".gemini/settings.json",
    ".mcp.json",
    ".vscode/mcp.json",
    ".vscode/settings.json",
];
/// Larger files are histories, not settings.
const MAX_CONFIG: u64 = 4 * 1024 * 1024;

/// Whether a file is one of these.
pub(super) fn is_read_by_an_agent(file: &Path) -> bool {
    OF_USERS.iter().chain(OF_PROJECTS).any(|known| file.ends_with(known))
}

/// Every credential in them. What can't be read holds none for us.
pub(crate) fn in_agents_configs(site: &Site) -> Vec<PlaintextToken> {
    let users = OF_USERS.iter().map(|path| site.user_home.join(path));
    let projects = OF_PROJECTS.iter().map(|path| site.project_root.join(path));
    let mut places: Vec<PathBuf> = users.chain(projects).collect();
    places.sort();
    places.dedup();
    let mut tokens = Vec::new();
    for place in places {
        let small =
            fs::metadata(&place).is_ok_and(|file| file.is_file() && file.len() <= MAX_CONFIG);
        let Some(bytes) = small.then(|| plain_file::read(&place).ok()).flatten() else { continue };
        let path = shown(&place);
        tokens.extend(scan(&path, &bytes, &site.forms).into_iter().map(|finding| PlaintextToken {
            path_posix: path.clone(),
            path: finding.file,
            line: finding.line,
            kind: finding.kind.into_owned(),
        }));
    }
    tokens
}
