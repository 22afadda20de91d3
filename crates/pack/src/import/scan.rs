//! Where agents keep what can be imported. Source: shared/reference/agentpack.md, section 10.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{ids, manifest::ModuleKind, paths::RelPath, site::Site, targets::TargetId};

/// Something that may become a module.
pub(super) struct Candidate {
    pub(super) id: String,
    pub(super) kind: ModuleKind,
    pub(super) scope: &'static str,
    pub(super) source: PathBuf,
    /// Below the config repo.
    pub(super) dest: RelPath,
    pub(super) targets: Vec<TargetId>,
    pub(super) tags: Vec<String>,
    /// The directory that it must not lead out of.
    pub(super) inside: Option<PathBuf>,
}

/// Everything in the home and the project, by module id; of two with one id the user's is first.
pub(super) fn candidates(site: &Site, home: &Path) -> Vec<Candidate> {
    let mut found = of_the_user(home);
    found.extend(of_the_project(site));
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found
}

fn of_the_user(home: &Path) -> Vec<Candidate> {
    let make = |kind: ModuleKind, target: TargetId, source: PathBuf, name: &str, dest: String| {
        Some(Candidate {
            id: format!("{kind}:{name}"),
            kind,
            scope: "user",
            dest: RelPath::parse(&dest)?,
            source,
            targets: vec![target],
            tags: words(&["base", "imported", "user", target.as_str()]),
            inside: None,
        })
    };
    let prompts =
        markdown(&home.join(".codex/prompts")).into_iter().filter_map(|(path, file, name)| {
            let dest = format!("modules/prompts/imported/{file}");
            make(ModuleKind::Prompt, TargetId::Codex, path, &name, dest)
        });
    let skills = folders(&home.join(".codex/skills")).into_iter().filter_map(|(path, name)| {
        let dest = format!("modules/skills/imported/{name}");
        make(ModuleKind::Skill, TargetId::Codex, path, &name, dest)
    });
    let commands =
        markdown(&home.join(".claude/commands")).into_iter().filter_map(|(path, file, name)| {
            let dest = format!("modules/claude-commands/imported/user/{file}");
            make(ModuleKind::Command, TargetId::ClaudeCode, path, &name, dest)
        });
    prompts.chain(skills).chain(commands).collect()
}

fn of_the_project(site: &Site) -> Vec<Candidate> {
    let root = &site.project_root;
    let project = format!("project-{}", site.project().id);
    let make =
        |kind: ModuleKind, targets: &[TargetId], source: PathBuf, name: &str, dest: String| {
            let mut tags = words(&["imported", "project", &project]);
            tags.extend(targets.iter().map(ToString::to_string));
            Some(Candidate {
                id: format!("{kind}:{name}"),
                kind,
                scope: "project",
                dest: RelPath::parse(&dest)?,
                source,
                targets: targets.to_vec(),
                tags,
                inside: Some(fs::canonicalize(root).unwrap_or_else(|_| root.clone())),
            })
        };
    let agents = root.join("AGENTS.md");
    let instructions = agents.is_file().then_some(agents).and_then(|path| {
        let dest = format!("modules/instructions/imported/{}", site.project().id);
        let targets = [TargetId::Codex, TargetId::Cursor, TargetId::Vscode];
        make(ModuleKind::Instructions, &targets, path, &project, dest)
    });
    let commands =
        markdown(&root.join(".claude/commands")).into_iter().filter_map(|(path, file, name)| {
            let dest = format!("modules/claude-commands/imported/{project}/{file}");
            make(
                ModuleKind::Command,
                &[TargetId::ClaudeCode],
                path,
                &format!("{project}-{name}"),
                dest,
            )
        });
    let skills = folders(&root.join(".codex/skills")).into_iter().filter_map(|(path, name)| {
        let name = format!("{project}-{name}");
        let dest = format!("modules/skills/imported/{name}");
        make(ModuleKind::Skill, &[TargetId::Codex], path, &name, dest)
    });
    instructions.into_iter().chain(commands).chain(skills).collect()
}

/// The Markdown files of a directory: path, name, and what an id is made of.
fn markdown(folder: &Path) -> Vec<(PathBuf, String, String)> {
    let file = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        let stem = ids::slug(name.strip_suffix(".md")?)?;
        path.is_file().then_some((path, name, stem))
    };
    entries(folder).filter_map(file).collect()
}

/// The directories of a directory: path, and what an id is made of.
fn folders(folder: &Path) -> Vec<(PathBuf, String)> {
    let skill = |path: PathBuf| {
        let name = ids::slug(path.file_name()?.to_str()?)?;
        path.is_dir().then_some((path, name))
    };
    entries(folder).filter_map(skill).collect()
}

/// What a directory holds, by name; nothing where there is none.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
