//! What agents have already, as modules.

use std::fs;

use keyless_pack::{Answer, Code, ImportData, ImportOp, ImportOptions, Request, Result, commands};

use crate::scene::{Scene, refused};

const SKILL: &str = "---\nname: deep\ndescription: Deep\n---\nDive.\n";
const COMMAND: &str = "---\ndescription: Do\n---\nDo it.\n";

fn import(scene: &Scene, apply: bool) -> Result<Answer<ImportData>> {
    let options = ImportOptions { apply, home_root: None };
    commands::import(&scene.surroundings(), &Request::default(), &options, true)
}

/// A home and a project with something of every kind, and a config repo without modules.
fn lived_in() -> Scene {
    let scene = Scene::empty();
    scene.manifest(
        "version: 1\nprofiles:\n  # mine\n  default: { include_tags: [base] }\ntargets:\n  codex: { mode: files, \
         scope: both }\n  claude_code: { mode: files, scope: both }\nmodules: []\n",
    );
    scene.write("home/.codex/prompts/A review.md", "Review.\n");
    scene.write("home/.codex/prompts/notes.txt", "no prompt\n");
    scene.write("home/.codex/skills/deep/SKILL.md", SKILL);
    scene.write("home/.codex/skills/deep/bin/run.sh", "#!/bin/sh\n");
    scene.chmod("home/.codex/skills/deep/bin/run.sh", 0o755);
    scene.write("home/.claude/commands/do.md", COMMAND);
    scene.write("project/AGENTS.md", "Here we say please.\n");
    scene.write("project/.claude/commands/do.md", COMMAND);
    scene.write("project/.codex/skills/there/SKILL.md", SKILL);
    scene
}

fn ops(data: &ImportData) -> Vec<(ImportOp, &str, Option<&str>)> {
    data.plan.iter().map(|item| (item.op, item.module_id.as_str(), item.skip_reason)).collect()
}

#[test]
fn an_import_makes_modules_that_deploy_to_the_same_files() {
    let scene = lived_in();
    let before = scene.picture("");
    let dry = import(&scene, false).unwrap().data;
    assert_eq!((dry.applied, dry.reason, dry.summary.create), (false, Some("dry_run"), 6));
    assert_eq!(scene.picture(""), before, "a dry run writes nothing");
    let done = import(&scene, true).unwrap().data;
    assert!(done.applied);
    let profile = done.profile.clone().unwrap();
    assert_eq!(profile, format!("project-{}", done.project.project_id));
    assert!(done.next_actions[0].contains(&format!("--profile {profile} preview")));
    let text = scene.read("ap/repo/agentpack.yaml");
    assert!(text.contains("# mine") && text.contains("prompt:a-review"), "{text}");
    assert_eq!(scene.mode("ap/repo/modules/skills/imported/deep/bin/run.sh") & 0o111, 0o111);
    let request = Request { profile: Some(profile), ..Request::default() };
    let plan = commands::plan(&scene.surroundings(), &request).unwrap();
    let updates: Vec<&str> = plan
        .data
        .changes
        .iter()
        .filter(|c| c.before_sha256.is_some())
        .map(|c| c.path.as_str())
        .collect();
    assert_eq!(updates, Vec::<&str>::new(), "what was there is what is wanted");
    let again = import(&scene, true).unwrap().data;
    assert_eq!((again.reason, again.summary.skipped_existing_module), (Some("no_changes"), 6));
}

#[test]
fn what_no_module_can_hold_is_left_with_its_reason() {
    let scene = lived_in();
    scene.write("home/.claude/commands/bare.md", "no front matter\n");
    scene.write("home/.codex/skills/empty/readme.txt", "no SKILL.md\n");
    let token = ["ghp_Zk3v9QwT1rXb7LmN5p", "Yc2HsDf8GjKa4EuVoR"].concat();
    scene.write("home/.codex/prompts/push.md", &format!("export GITHUB_TOKEN={token}\n"));
    // A stranger's project must not make us copy what is not its own.
    scene.write("home/private.md", COMMAND);
    scene.link(scene.at("home/private.md").to_str().unwrap(), "project/.claude/commands/leak.md");
    let answer = import(&scene, true).unwrap();
    let id = &answer.data.project.project_id;
    let mut skipped = ops(&answer.data);
    skipped.retain(|(op, ..)| *op != ImportOp::Create);
    let leak = format!("command:project-{id}-leak");
    assert_eq!(
        skipped,
        [
            (ImportOp::SkipInvalid, "command:bare", Some("invalid_module_source")),
            (ImportOp::SkipInvalid, leak.as_str(), Some("invalid_module_source")),
            (ImportOp::SkipInvalid, "prompt:push", Some("secret_in_module")),
            (ImportOp::SkipInvalid, "skill:empty", Some("invalid_module_source")),
        ]
    );
    assert!(answer.warnings.iter().all(|warning| !warning.contains(&token)));
    let repo = scene.picture("ap/repo");
    assert!(repo.iter().all(|(_, bytes)| !String::from_utf8_lossy(bytes).contains(&token)));
    assert!(repo.iter().all(|(path, _)| !path.ends_with("leak.md")));
}

#[test]
fn what_stands_in_the_way_is_told_and_not_overwritten() {
    let scene = lived_in();
    scene.write("ap/repo/modules/claude-commands/imported/user/do.md", "mine\n");
    let dry = import(&scene, false).unwrap().data;
    assert_eq!((dry.conflicts[0].kind, dry.conflicts[0].count), ("dest_path_exists", 1));
    let before = scene.picture("");
    let error = refused(import(&scene, true), Code::ImportConflict);
    assert_eq!(error.details()["count"], 1);
    assert_eq!(scene.picture(""), before);
    let id = dry.project.project_id;
    scene.write(&format!("home/.claude/commands/project-{id}-do.md"), COMMAND);
    let dry = import(&scene, false).unwrap().data;
    let twice = dry.conflicts.iter().find(|c| c.kind == "duplicate_module_id_in_scan").unwrap();
    assert_eq!(twice.module_id.as_deref(), Some(format!("command:project-{id}-do").as_str()));
}

#[test]
fn installed_assets_are_nobodys_to_import() {
    let scene = Scene::new();
    let options = keyless_pack::BootstrapOptions {
        scope: keyless_pack::BootstrapScope::User,
        adopt: false,
        dry_run: false,
    };
    let (at, request) = (scene.surroundings(), Request::default());
    commands::bootstrap(&at, &request, options, true, &keyless_pack::Unwatched).unwrap();
    assert_eq!(import(&scene, false).unwrap().data.summary.candidates, 0);
}

#[test]
fn a_credential_in_the_projects_origin_is_not_told() {
    let scene = lived_in();
    fs::remove_dir_all(scene.at("project/.git")).unwrap();
    scene.git("project", &["init", "-q"]);
    scene.git("project", &["remote", "add", "origin", "https://me:hunter2@git.example/acme/app"]);
    let origin = || import(&scene, false).unwrap().data.project.origin_url;
    assert_eq!(origin().as_deref(), Some("https://git.example/acme/app"));
    scene.git("project", &["remote", "set-url", "origin", "git@git.example:acme/app"]);
    assert_eq!(origin().as_deref(), Some("git@git.example:acme/app"));
}

/// Whichever id it would have: a project's skill and instructions have others than the modules they were deployed from.
#[test]
fn what_was_deployed_is_its_modules_already() {
    let scene = Scene::empty();
    let manifest = "version: 1\nprofiles:\n  default: { include_tags: [base] }\ntargets:\n  codex: { mode: files, scope: both }\n\
         modules:\n  - { id: \"instructions:base\", type: instructions, tags: [base], source: { local_path: { path: modules/base } } }\n  \
         - { id: \"skill:tidy\", type: skill, tags: [base], source: { local_path: { path: modules/tidy } } }\n";
    scene.manifest(manifest);
    scene.module("base/AGENTS.md", "Be kind.\n");
    scene.module("tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies\n---\nTidy.\n");
    scene.module("tidy/notes.md", "Slowly.\n");
    scene.deploy();
    let look = || import(&scene, false).unwrap();
    let data = look().data;
    let id = &data.project.project_id;
    let (instructions, skill) =
        (format!("instructions:project-{id}"), format!("skill:project-{id}-tidy"));
    let there = ImportOp::SkipExistingModule;
    assert_eq!(
        ops(&data),
        [
            (there, instructions.as_str(), Some("already_deployed")),
            (there, skill.as_str(), Some("already_deployed")),
            (there, "skill:tidy", Some("module_id_already_exists")),
        ]
    );
    assert_eq!(
        (data.plan[1].deployed_by.as_slice(), &data.profile),
        (&["skill:tidy".into()][..], &None)
    );
    assert_eq!(look().warnings, Vec::<String>::new());
    scene.write("project/.codex/skills/tidy/notes.md", "Fast.\n");
    assert!(look().warnings[0].contains("evolve propose"), "{:?}", look().warnings);

    // What another config repo has deployed is there to be taken over.
    let root = "project/.agentpack.manifest.codex.json";
    let text = scene.read(root);
    let here = scene.at("ap/repo").canonicalize().unwrap();
    scene.write(root, &text.replace(here.to_str().unwrap(), "/home/you/.agentpack/repo"));
    let data = look().data;
    assert_eq!(ops(&data)[0], (ImportOp::Create, instructions.as_str(), None));
    assert!(data.profile.is_some());
}
