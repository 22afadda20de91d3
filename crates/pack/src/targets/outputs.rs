//! Which file of a module becomes which file of a target.

use std::path::PathBuf;

use super::{TargetId, roots};
use crate::{
    error::{Code, PackError, Result},
    ids::{module_fs_key, name_part},
    manifest::{Module, ModuleKind, TargetConfig},
    module,
    paths::RelPath,
    sha::Content,
    site::Site,
    tree::{Tree, TreeFile},
};

/// One file that a target wants.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// The directory that it is in: a root of the target.
    pub(crate) root: PathBuf,
    pub(crate) path: RelPath,
    pub(crate) content: Content,
    pub(crate) executable: bool,
    pub(crate) modules: Vec<String>,
}

/// A module with its composed files.
pub(crate) type Composed<'a> = (&'a Module, &'a Tree);

/// All outputs of a target. `instructions` is the text of all its instructions modules, made once.
pub(crate) fn outputs(
    site: &Site,
    target: TargetId,
    config: &TargetConfig,
    modules: &[Composed<'_>],
    instructions: Option<&Content>,
) -> Result<Vec<Output>> {
    let mut sink = Sink { modules, outputs: Vec::new(), instructions };
    let (user, project) = (config.is_user(), config.is_project());
    let (p, home) = (&site.project_root, &site.user_home);
    match target {
        TargetId::Codex => {
            let codex = roots::codex_home(site, config);
            let user = |option: &str| user && config.flag(option, true);
            let project = |option: &str| project && config.flag(option, true);
            sink.instructions(user("write_agents_global"), &codex, "AGENTS.md");
            sink.files(user("write_user_prompts"), ModuleKind::Prompt, &codex.join("prompts"));
            sink.skills(user("write_user_skills"), &codex.join("skills"))?;
            sink.instructions(project("write_agents_repo_root"), p, "AGENTS.md");
            sink.skills(project("write_repo_skills"), &p.join(".codex/skills"))?;
        }
        TargetId::ClaudeCode => {
            let user = |option: &str, default| user && config.flag(option, default);
            let project = |option: &str, default| project && config.flag(option, default);
            sink.files(
                user("write_user_commands", true),
                ModuleKind::Command,
                &home.join(".claude/commands"),
            );
            sink.files(
                project("write_repo_commands", true),
                ModuleKind::Command,
                &p.join(".claude/commands"),
            );
            sink.skills(user("write_user_skills", false), &home.join(".claude/skills"))?;
            sink.skills(project("write_repo_skills", false), &p.join(".claude/skills"))?;
        }
        TargetId::Cursor => {
            sink.cursor_rules(config.flag("write_rules", true), &p.join(".cursor/rules"))?;
        }
        TargetId::Vscode => {
            let github = p.join(".github");
            sink.instructions(
                config.flag("write_instructions", true),
                &github,
                "copilot-instructions.md",
            );
            sink.vscode_prompts(config.flag("write_prompts", true), &github.join("prompts"));
        }
        TargetId::Jetbrains => {
            sink.instructions(
                config.flag("write_guidelines", true),
                &p.join(".junie"),
                "guidelines.md",
            );
        }
        TargetId::Zed => sink.instructions(config.flag("write_rules", true), p, ".rules"),
        TargetId::ExportDir => {
            for (root, _) in roots::export_roots(site, config)? {
                sink.instructions(true, &root, "AGENTS.md");
                sink.below(ModuleKind::Prompt, &root, "prompts");
                sink.below(ModuleKind::Command, &root, "commands");
                sink.skills_below(&root, "skills")?;
            }
        }
    }
    Ok(sink.outputs)
}

/// The text of several instructions modules as one file: each between its markers, in the order of ids.
pub(crate) fn combined_instructions(modules: &[Composed<'_>]) -> Result<Option<Content>> {
    let mut texts = Vec::new();
    for (module, tree) in
        modules.iter().filter(|(module, _)| module.kind == ModuleKind::Instructions)
    {
        texts.push((module.id.as_str(), module::instructions(module, tree)?));
    }
    Ok(match texts[..] {
        [] => None,
        [(_, text)] => Some(Content::new(text.as_bytes())),
        _ => {
            let section = |(id, text): &(&str, &str)| {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                format!("<!-- agentpack:module={id} -->\n{text}{end}<!-- /agentpack -->")
            };
            let sections: Vec<String> = texts.iter().map(section).collect();
            Some(Content::new(sections.join("\n\n---\n\n").into_bytes()))
        }
    })
}

struct Sink<'a> {
    modules: &'a [Composed<'a>],
    outputs: Vec<Output>,
    instructions: Option<&'a Content>,
}

impl<'a> Sink<'a> {
    fn of(&self, kind: ModuleKind) -> impl Iterator<Item = &'a Composed<'a>> + use<'a> {
        self.modules.iter().filter(move |(module, _)| module.kind == kind)
    }

    fn push(
        &mut self,
        root: &std::path::Path,
        path: RelPath,
        file: &TreeFile,
        modules: Vec<String>,
    ) {
        let (root, content) = (root.to_owned(), file.content.clone());
        self.outputs.push(Output { root, path, content, executable: file.executable, modules });
    }

    /// All instructions as one file.
    fn instructions(&mut self, enabled: bool, root: &std::path::Path, name: &str) {
        let (true, Some(content)) = (enabled, self.instructions) else { return };
        let modules =
            self.of(ModuleKind::Instructions).map(|(module, _)| module.id.clone()).collect();
        let file = TreeFile { content: content.clone(), executable: false };
        let path = RelPath::name(name).expect("a name of ours");
        self.push(root, path, &file, modules);
    }

    /// Each module's files under their own names.
    fn files(&mut self, enabled: bool, kind: ModuleKind, root: &std::path::Path) {
        for (module, tree) in self.of(kind).filter(|_| enabled) {
            for (path, file) in &tree.0 {
                self.push(root, path.clone(), file, vec![module.id.clone()]);
            }
        }
    }

    /// Each module's files under their own names, in a directory below the root.
    fn below(&mut self, kind: ModuleKind, root: &std::path::Path, folder: &str) {
        let folder = RelPath::name(folder).expect("a name of ours");
        for (module, tree) in self.of(kind) {
            for (path, file) in &tree.0 {
                self.push(root, folder.join(path), file, vec![module.id.clone()]);
            }
        }
    }

    fn skills(&mut self, enabled: bool, root: &std::path::Path) -> Result<()> {
        if enabled { self.skills_in(root, None) } else { Ok(()) }
    }

    fn skills_below(&mut self, root: &std::path::Path, folder: &str) -> Result<()> {
        self.skills_in(root, RelPath::name(folder).as_ref())
    }

    /// Each skill in a directory of its name; two skills can't share one.
    fn skills_in(&mut self, root: &std::path::Path, folder: Option<&RelPath>) -> Result<()> {
        let mut owners = std::collections::HashMap::new();
        for (module, tree) in self.of(ModuleKind::Skill) {
            let name = RelPath::name(&name_part(&module.id)).ok_or_else(|| {
                PackError::config(format!(
                    "the name of skill `{}` can't be a directory's name",
                    module.id
                ))
                .with("module_id", module.id.clone())
            })?;
            let folder = folder.map_or_else(|| name.clone(), |folder| folder.join(&name));
            if let Some(other) = owners.insert(folder.to_string(), module.id.clone()) {
                let path = root.join(&folder).display().to_string();
                let message =
                    format!("skills `{other}` and `{}` both want the directory {path}", module.id);
                return Err(PackError::new(Code::DesiredStateConflict, message)
                    .with("path", path)
                    .with("existing", serde_json::json!({"module_ids": [other]}))
                    .with("new", serde_json::json!({"module_ids": [module.id]}))
                    .hint("give one of them another name after the colon"));
            }
            for (path, file) in &tree.0 {
                self.push(root, folder.join(path), file, vec![module.id.clone()]);
            }
        }
        Ok(())
    }

    /// One `.mdc` per instructions module.
    fn cursor_rules(&mut self, enabled: bool, root: &std::path::Path) -> Result<()> {
        for (module, tree) in self.of(ModuleKind::Instructions).filter(|_| enabled) {
            let text = module::instructions(module, tree)?;
            let description = serde_json::Value::from(format!("agentpack: {}", module.id));
            let end = if text.ends_with('\n') { "" } else { "\n" };
            let text = format!(
                "---\ndescription: {description}\nglobs: []\nalwaysApply: true\n---\n\n{text}{end}"
            );
            let file = TreeFile { content: Content::new(text.into_bytes()), executable: false };
            let path = RelPath::name(&format!("{}.mdc", module_fs_key(&module.id)))
                .expect("a key of ours");
            self.push(root, path, &file, vec![module.id.clone()]);
        }
        Ok(())
    }

    /// Prompts under the ending that VS Code looks for.
    fn vscode_prompts(&mut self, enabled: bool, root: &std::path::Path) {
        for (module, tree) in self.of(ModuleKind::Prompt).filter(|_| enabled) {
            for (path, file) in &tree.0 {
                let name = path.as_str();
                let stem = name.strip_suffix(".prompt.md").or_else(|| name.strip_suffix(".md"));
                let name = format!("{}.prompt.md", stem.unwrap_or(name));
                let path = RelPath::parse(&name).unwrap_or_else(|| path.clone());
                self.push(root, path, file, vec![module.id.clone()]);
            }
        }
    }
}
