//! What an agent needs to work this program by itself: a skill for Codex and Claude Code, slash commands for Claude
//! Code. `bootstrap` installs them.
//!
//! They belong to no module of the config repo. A root's manifest lists them beside its other files, and from then on
//! they are wanted like those: later plans keep them, and a newer program brings newer ones.

mod bootstrap;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

pub use self::bootstrap::{BootstrapData, BootstrapOptions, BootstrapScope};
pub(crate) use self::bootstrap::{bootstrap, review};
use crate::{
    deployed::Deployed,
    desired::{Desired, DesiredFile},
    manifest::{Manifest, TargetConfig},
    paths::RelPath,
    plain_file,
    sha::Content,
    site::Site,
    targets::{Root, TargetId, codex_home},
    tree::Tree,
};

const SKILL: &str = include_str!("operator/SKILL.md");

/// A slash command: what it is called, what it says of itself, what it runs, what to know beside that.
struct SlashCommand {
    name: &'static str,
    about: &'static str,
    /// Whether it writes; then only a person may call it.
    writes: bool,
    runs: &'static str,
    note: &'static str,
}

/// The slash commands, by name.
const COMMANDS: &[SlashCommand] = &[
    SlashCommand {
        name: "ap-deploy",
        about: "Apply the agent configuration to this machine and project",
        writes: true,
        runs: "deploy --apply --yes --json",
        note: "`data.snapshot_id` names the way back: `keyless pack rollback --to before:SNAPSHOT --yes --json`.",
    },
    SlashCommand {
        name: "ap-diff",
        about: "Summarise what a deploy would change",
        writes: false,
        runs: "diff --json",
        note: "`/ap-preview` shows the changed lines.",
    },
    SlashCommand {
        name: "ap-doctor",
        about: "Check directories, git hygiene and credentials in agents' own settings",
        writes: false,
        runs: "doctor --json",
        note: "A finding under `data.plaintext_tokens` is for the user to move into the vault; never print the file.",
    },
    SlashCommand {
        name: "ap-evolve",
        about: "Keep edits of deployed files as overlays on a branch",
        writes: true,
        runs: "evolve propose --yes --json",
        note: "`keyless pack evolve propose --dry-run --json` only lists them. The user merges the branch.",
    },
    SlashCommand {
        name: "ap-explain",
        about: "Explain which module and overlay a drifted file comes from",
        writes: false,
        runs: "explain status --json",
        note: "`keyless pack explain plan --json` does the same for planned changes.",
    },
    SlashCommand {
        name: "ap-plan",
        about: "Plan: what a deploy would change, without writing",
        writes: false,
        runs: "plan --json",
        note: "`/ap-preview` shows the changed lines.",
    },
    SlashCommand {
        name: "ap-preview",
        about: "Preview: the plan with the changed lines, without writing",
        writes: false,
        runs: "preview --diff --json",
        note: "Summarise by file; quote lines only where they matter.",
    },
    SlashCommand {
        name: "ap-status",
        about: "Compare what is deployed with what is wanted",
        writes: false,
        runs: "status --json",
        note: "`data.next_actions` holds the commands that help.",
    },
    SlashCommand {
        name: "ap-update",
        about: "Lock and fetch the sources of the modules",
        writes: true,
        runs: "update --yes --json",
        note: "Nothing is deployed by it; `/ap-preview` shows what has changed.",
    },
];

impl SlashCommand {
    fn file(&self, root: PathBuf) -> DesiredFile {
        let Self { name, about, writes, runs, note } = self;
        let only_people = if *writes { "disable-model-invocation: true\n" } else { "" };
        let text = format!(
            "---\ndescription: \"{about}\"\n{only_people}allowed-tools:\n  - Bash(keyless pack {runs})\n---\n\n\
             {about}.\n\n!bash\nkeyless pack {runs}\n\n{note}\n"
        );
        file(root, &format!("{name}.md"), format!("command:{name}"), &text)
    }
}

fn skill(root: PathBuf) -> DesiredFile {
    file(root, "agentpack-operator/SKILL.md", "skill:agentpack-operator".to_owned(), SKILL)
}

fn file(root: PathBuf, path: &str, module: String, text: &str) -> DesiredFile {
    DesiredFile {
        root,
        path: RelPath::parse(path).expect("a path of ours"),
        content: Content::new(text.as_bytes()),
        executable: false,
        modules: vec![module],
    }
}

/// Whether this is an asset, as it was installed: nobody's to import.
pub(crate) fn wrote(tree: &Tree) -> bool {
    let mut files = tree.0.values();
    let (Some(file), None) = (files.next(), files.next()) else { return false };
    let root = PathBuf::new;
    let mut assets = COMMANDS.iter().map(|command| command.file(root())).chain([skill(root())]);
    assets.any(|asset| asset.content == file.content)
}

/// The assets of a target, each in its root. A module of the manifest that has the id of one takes its place.
fn assets(
    site: &Site,
    manifest: &Manifest,
    (target, config): (TargetId, &TargetConfig),
    scope: BootstrapScope,
) -> Vec<DesiredFile> {
    let user = (&site.user_home, codex_home(site, config), "write_user_skills");
    let project = (&site.project_root, site.project_root.join(".codex"), "write_repo_skills");
    let halves =
        [scope.is_user().then_some(user), scope.is_project().then_some(project)].into_iter();
    let mut files = Vec::new();
    for (base, codex, skills) in halves.flatten() {
        match target {
            TargetId::Codex => files.push(skill(codex.join("skills"))),
            TargetId::ClaudeCode => {
                let root = base.join(".claude/commands");
                files.extend(COMMANDS.iter().map(|command| command.file(root.clone())));
                if config.flag(skills, false) {
                    files.push(skill(base.join(".claude/skills")));
                }
            }
            _ => {}
        }
    }
    files.retain(|file| manifest.modules.iter().all(|module| !file.modules.contains(&module.id)));
    files
}

/// Assets that are installed stay wanted, whatever the options of their target say now.
pub(crate) fn keep(
    site: &Site,
    manifest: &Manifest,
    chosen: &[TargetId],
    desired: &mut Desired,
    deployed: &mut Deployed,
) {
    for target in chosen {
        let config = manifest.targets[target].with_everything(*target);
        for file in assets(site, manifest, (*target, &config), BootstrapScope::Both) {
            let place = (*target, file.root.join(&file.path));
            let installed = deployed.files.get(&place).is_some_and(|managed| {
                managed.root == file.root && managed.modules == file.modules
            });
            if installed && !desired.files.contains_key(&place) {
                keep_root(*target, &file, desired, deployed);
                desired.files.insert(place, file);
            }
        }
    }
    desired.roots.sort();
}

/// A root that only holds assets now is none that was left behind.
fn keep_root(target: TargetId, file: &DesiredFile, desired: &mut Desired, deployed: &mut Deployed) {
    let is_it = |root: &Root| root.target == target && root.path == file.root;
    if !desired.roots.iter().any(is_it) {
        deployed.orphans.retain(|root| !is_it(root));
        deployed.with_manifest.insert((target, file.root.clone()));
        desired.roots.push(Root { target, path: file.root.clone(), scan_extras: false });
    }
}

/// Assets of one target in one scope that are not there as this program would install them.
pub(crate) struct Lacking {
    pub(crate) target: TargetId,
    pub(crate) scope: BootstrapScope,
    /// By root; beside what is missing, whether that is all of it.
    missing: BTreeMap<PathBuf, (Vec<RelPath>, bool)>,
    outdated: Vec<PathBuf>,
}

impl Lacking {
    /// What is to be said of it, with the command that helps.
    pub(crate) fn warnings(&self, command: &str) -> Vec<String> {
        let place = format!("{}/{}", self.target, self.scope.as_str());
        let missing = self.missing.iter().map(|(root, (paths, all))| {
            let what = match (&paths[..], all) {
                ([path], true) => format!("missing ({place}): {}", root.join(path).display()),
                (_, true) => format!("missing ({place}): {}", root.display()),
                (paths, false) => {
                    let names: Vec<&str> = paths.iter().map(RelPath::as_str).collect();
                    let (names, root) = (names.join(", "), root.display());
                    format!("incomplete ({place}): missing {names} in {root}")
                }
            };
            format!("operator assets {what}; run: {command}")
        });
        let outdated = self.outdated.iter().map(|path| {
            let path = path.display();
            format!(
                "operator assets outdated ({place}): {path} is of another version; run: {command}"
            )
        });
        missing.chain(outdated).collect()
    }
}

/// Where a chosen target lacks assets or has others, as its configuration reaches.
pub(crate) fn lacking(site: &Site, manifest: &Manifest, chosen: &[TargetId]) -> Vec<Lacking> {
    let mut found = Vec::new();
    for target in chosen {
        let config = &manifest.targets[target];
        let reaches = [
            (config.is_user(), BootstrapScope::User),
            (config.is_project(), BootstrapScope::Project),
        ];
        for (_, scope) in reaches.into_iter().filter(|(reached, _)| *reached) {
            let mut lacking =
                Lacking { target: *target, scope, missing: BTreeMap::new(), outdated: Vec::new() };
            let mut there = BTreeSet::new();
            for file in assets(site, manifest, (*target, config), scope) {
                let path = file.root.join(&file.path);
                if let Ok(bytes) = plain_file::read(&path) {
                    if bytes != file.content.bytes() {
                        lacking.outdated.push(path);
                    }
                    there.insert(file.root);
                } else {
                    let (paths, _) = lacking.missing.entry(file.root).or_default();
                    paths.push(file.path);
                }
            }
            for (root, (_, all)) in &mut lacking.missing {
                *all = !there.contains(root);
            }
            if !lacking.missing.is_empty() || !lacking.outdated.is_empty() {
                found.push(lacking);
            }
        }
    }
    found
}
