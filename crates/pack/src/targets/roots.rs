//! The table of roots.

use std::path::{Path, PathBuf};

use super::{Root, TargetId};
use crate::{
    error::{PackError, Result},
    manifest::TargetConfig,
    paths::{absolute, expanded},
    servers,
    site::Site,
};

/// The enabled roots of a target, by path.
pub(crate) fn roots(site: &Site, target: TargetId, config: &TargetConfig) -> Result<Vec<Root>> {
    let (user, project) = (config.is_user(), config.is_project());
    let p = &site.project_root;
    let home = &site.user_home;
    let mut table: Vec<(bool, PathBuf, bool)> = match target {
        TargetId::Codex => {
            let codex = codex_home(site, config);
            vec![
                (user && config.flag("write_agents_global", true), codex.clone(), false),
                (user && config.flag("write_user_prompts", true), codex.join("prompts"), true),
                (user && config.flag("write_user_skills", true), codex.join("skills"), true),
                (project && config.flag("write_agents_repo_root", true), p.clone(), false),
                (project && config.flag("write_repo_skills", true), p.join(".codex/skills"), true),
            ]
        }
        TargetId::ClaudeCode => vec![
            (user && config.flag("write_user_commands", true), home.join(".claude/commands"), true),
            (project && config.flag("write_repo_commands", true), p.join(".claude/commands"), true),
            (user && config.flag("write_user_skills", false), home.join(".claude/skills"), true),
            (project && config.flag("write_repo_skills", false), p.join(".claude/skills"), true),
        ],
        TargetId::Cursor => vec![(config.flag("write_rules", true), p.join(".cursor/rules"), true)],
        TargetId::Vscode => vec![
            (config.flag("write_instructions", true), p.join(".github"), false),
            (config.flag("write_prompts", true), p.join(".github/prompts"), true),
        ],
        TargetId::Jetbrains => {
            vec![(config.flag("write_guidelines", true), p.join(".junie"), true)]
        }
        TargetId::Zed => vec![(config.flag("write_rules", true), p.clone(), false)],
        TargetId::ExportDir => {
            let extras = config.flag("scan_extras", true);
            export_roots(site, config)?.into_iter().map(|(path, _)| (true, path, extras)).collect()
        }
    };
    table.retain(|(enabled, ..)| *enabled);
    let mut roots: Vec<Root> = table
        .into_iter()
        .map(|(_, path, scan_extras)| Root { target, path, scan_extras })
        .collect();
    roots.extend(servers::roots(site, target, config));
    roots.sort();
    roots.dedup_by(|a, b| a.path == b.path);
    Ok(roots)
}

/// The option, else the environment, else `~/.codex`.
pub(crate) fn codex_home(site: &Site, config: &TargetConfig) -> PathBuf {
    match (config.text("codex_home"), &site.codex_home) {
        (Some(option), _) => absolute(&site.cwd, &expanded(option, &site.user_home)),
        (None, Some(environment)) => absolute(&site.cwd, environment),
        (None, None) => site.user_home.join(".codex"),
    }
}

/// The export's directories, each with whether it is the user's half.
pub(crate) fn export_roots(site: &Site, config: &TargetConfig) -> Result<Vec<(PathBuf, bool)>> {
    let option = config.text("root").ok_or_else(|| {
        PackError::config("target `export_dir` needs the option `root`")
            .with("target", "export_dir")
            .hint("add `options: { root: DIR }` to the target")
    })?;
    let root = absolute(&site.project_root, &expanded(option, &site.user_home));
    if root == Path::new("/") {
        return Err(PackError::config("target `export_dir` can't export to `/`")
            .with("target", "export_dir"));
    }
    Ok(match (config.is_user(), config.is_project()) {
        (true, true) => vec![(root.join("user"), true), (root.join("project"), false)],
        (user, _) => vec![(root, user)],
    })
}
