//! Whether a path could be a target's, by its shape alone: what a snapshot names is not taken on trust.

use std::path::{Component, Path};

use super::{TargetId, roots};
use crate::{
    deployed::{file_name, is_manifest},
    manifest::TargetConfig,
    servers::is_server_file,
    site::Site,
};

/// Whether `target` may ever have written this absolute path.
pub(crate) fn owns(
    site: &Site,
    target: TargetId,
    config: Option<&TargetConfig>,
    path: &Path,
) -> bool {
    let plain =
        |component: Component<'_>| matches!(component, Component::Normal(_) | Component::RootDir);
    if !path.is_absolute() || !path.components().all(plain) {
        return false;
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let manifest = is_manifest(name);
    let below = |folder: &str| holds(path, folder);
    if is_server_file(target, path) || name == file_name(target).as_str() {
        return true;
    }
    match target {
        TargetId::ClaudeCode => below(".claude/commands") || below(".claude/skills"),
        TargetId::Codex => {
            let homes =
                [site.codex_home.clone(), config.map(|config| roots::codex_home(site, config))];
            let mut homes = homes.into_iter().flatten();
            let home = homes.any(|home| path.starts_with(home));
            home || below(".codex") || name == "AGENTS.md" || manifest
        }
        TargetId::Cursor => below(".cursor/rules"),
        TargetId::ExportDir => config
            .and_then(|config| roots::export_roots(site, config).ok())
            .is_some_and(|roots| roots.iter().any(|(root, _)| path.starts_with(root))),
        TargetId::Jetbrains => below(".junie"),
        TargetId::Vscode => {
            below(".github/prompts")
                || (below(".github") && (name == "copilot-instructions.md" || manifest))
        }
        TargetId::Zed => name == ".rules" || manifest,
    }
}

/// Whether these components stand in a row somewhere above the last one.
fn holds(path: &Path, folder: &str) -> bool {
    let wanted: Vec<&str> = folder.split('/').collect();
    let parts: Vec<&str> = path.components().filter_map(|part| part.as_os_str().to_str()).collect();
    let parents = &parts[..parts.len().saturating_sub(1)];
    parents.windows(wanted.len()).any(|window| window == wanted)
}
