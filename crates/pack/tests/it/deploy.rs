//! From nothing to deployed, and on from there: what is written, how, and what is left alone.

use std::fs;

use keyless_pack::{Code, Request, UpdateKind};

use crate::scene::{MANIFEST, Scene, refused};

#[test]
fn a_first_deploy_writes_files_manifests_and_a_snapshot() {
    let scene = Scene::new();
    let id = scene.deploy();
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "Be kind.\n");
    assert_eq!(scene.read("home/.codex/prompts/review.md"), "Review this.\n");
    assert!(scene.read("home/.claude/commands/ship.md").contains("Ship it"));
    assert!(scene.exists("project/.claude/commands/ship.md"));
    assert!(scene.exists("home/.claude/skills/tidy/bin/run.sh"));
    let manifest: serde_json::Value =
        serde_json::from_str(&scene.read("home/.codex/.agentpack.manifest.codex.json")).unwrap();
    assert_eq!(manifest["tool"], "codex");
    assert_eq!(manifest["snapshot_id"], id);
    assert_eq!(manifest["managed_files"][0]["path"], "AGENTS.md");
    assert_eq!(manifest["managed_files"][0]["module_ids"][0], "instructions:base");
    let snapshot: serde_json::Value =
        serde_json::from_str(&scene.read(&format!("ap/state/snapshots/{id}.json"))).unwrap();
    assert_eq!(snapshot["kind"], "deploy");
    assert_eq!(snapshot["targets"], serde_json::json!(["claude_code", "codex"]));
}

#[test]
fn a_second_deploy_has_nothing_to_do() {
    let scene = Scene::deployed();
    assert_eq!(scene.changes(), Vec::<String>::new());
    let again = scene.try_deploy(false).unwrap().data;
    assert!(!again.applied);
    assert_eq!(again.reason, Some("no_changes"));
}

#[test]
fn changes_of_modules_become_updates_creates_and_deletes() {
    let scene = Scene::deployed();
    scene.module("base/AGENTS.md", "Be very kind.\n");
    scene.module("tidy/more.md", "more");
    fs::remove_file(scene.at("ap/repo/modules/tidy/bin/run.sh")).unwrap();
    let changes = scene.changes();
    assert!(changes.contains(&"update home/.codex/agents.md".to_owned()), "{changes:?}");
    assert!(changes.contains(&"create home/.codex/skills/tidy/more.md".to_owned()), "{changes:?}");
    assert!(
        changes.contains(&"delete home/.codex/skills/tidy/bin/run.sh".to_owned()),
        "{changes:?}"
    );
    scene.deploy();
    assert!(!scene.exists("home/.codex/skills/tidy/bin"), "an empty directory of ours goes too");
    assert_eq!(scene.changes(), Vec::<String>::new());
}

/// Weakness 17: modes are the user's own, execution comes from the source.
#[test]
fn modes_are_kept_and_scripts_can_be_run() {
    let scene = Scene::deployed();
    assert_eq!(scene.mode("home/.codex/skills/tidy/bin/run.sh") & 0o111, 0o111 & !umask());
    assert_eq!(scene.mode("home/.codex/AGENTS.md"), 0o666 & !umask());
    scene.chmod("home/.codex/AGENTS.md", 0o640);
    scene.module("base/AGENTS.md", "Be very kind.\n");
    scene.deploy();
    assert_eq!(scene.mode("home/.codex/AGENTS.md"), 0o640);
    scene.chmod("home/.codex/skills/tidy/bin/run.sh", 0o600);
    assert_eq!(scene.changes(), ["update home/.codex/skills/tidy/bin/run.sh"]);
    scene.deploy();
    assert_eq!(scene.mode("home/.codex/skills/tidy/bin/run.sh"), 0o700);
}

#[test]
fn a_file_of_the_users_needs_adopt_and_is_backed_up() {
    let scene = Scene::new();
    scene.write("home/.codex/AGENTS.md", "mine\n");
    let plan = scene.plan().unwrap().data;
    let change =
        plan.changes.iter().find(|change| change.path.ends_with(".codex/AGENTS.md")).unwrap();
    assert_eq!(change.update_kind, Some(UpdateKind::AdoptUpdate));
    let error = refused(scene.try_deploy(false), Code::AdoptConfirmRequired);
    assert_eq!(error.details()["adopt_updates"], 1);
    assert_eq!(error.details()["next_actions"], serde_json::json!(["retry_with_adopt"]));
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "mine\n");
    let id = scene.try_deploy(true).unwrap().data.snapshot_id.unwrap();
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "Be kind.\n");
    // Weakness 10: there is a way back to before the first deploy.
    scene.rollback(&format!("before:{id}"));
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "mine\n");
    assert!(!scene.exists("home/.codex/prompts/review.md"));
    assert!(!scene.exists("home/.codex/.agentpack.manifest.codex.json"));
}

/// Weakness 26: an edit by the user is told from a change of the source, and backed up.
#[test]
fn an_edit_of_a_deployed_file_is_seen_and_backed_up() {
    let scene = Scene::deployed();
    scene.write("home/.codex/AGENTS.md", "edited here\n");
    scene.module("review.md", "Review that.\n");
    let plan = scene.plan().unwrap();
    let edited: Vec<bool> = plan.data.changes.iter().map(|change| change.edited).collect();
    assert_eq!(edited, [true, false]);
    assert!(
        plan.warnings
            .iter()
            .any(|warning| warning.contains("1 deployed file(s) were edited on disk"))
    );
    let id = scene.deploy();
    scene.rollback(&format!("before:{id}"));
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "edited here\n");
}

/// Weakness 16: a link at the destination is somebody's own, a linked directory above it is not followed.
#[test]
fn links_at_the_destination_are_adopted_or_refused() {
    let scene = Scene::new();
    scene.write("home/dotfiles/AGENTS.md", "linked\n");
    scene.link("../dotfiles/AGENTS.md", "home/.codex/AGENTS.md");
    scene.link("nowhere", "home/.codex/prompts/review.md");
    refused(scene.try_deploy(false), Code::AdoptConfirmRequired);
    let id = scene.try_deploy(true).unwrap().data.snapshot_id.unwrap();
    assert_eq!(scene.read("home/dotfiles/AGENTS.md"), "linked\n");
    scene.rollback(&format!("before:{id}"));
    assert_eq!(
        fs::read_link(scene.at("home/.codex/AGENTS.md")).unwrap().to_str(),
        Some("../dotfiles/AGENTS.md")
    );

    let scene = Scene::new();
    fs::create_dir_all(scene.at("home/elsewhere")).unwrap();
    scene.link("../../elsewhere", "home/.codex/skills/tidy");
    let error = refused(scene.try_deploy(true), Code::IoInvalidPath);
    assert!(error.message().contains("is a link, which is not followed"), "{error}");
    assert_eq!(scene.picture("home/elsewhere"), []);
}

#[test]
fn a_project_can_not_lead_writes_out_of_itself() {
    let scene = Scene::new();
    fs::create_dir_all(scene.at("home/.ssh")).unwrap();
    scene.link("../home/.ssh", "project/.claude");
    let error = refused(scene.try_deploy(true), Code::IoInvalidPath);
    assert!(error.message().contains("leads out of its project"), "{error}");
    assert_eq!(scene.picture("home/.ssh"), []);
}

/// Weakness 6: files of an earlier, interrupted or manifest-less deploy that are as wanted are simply ours.
#[test]
fn an_identical_file_is_taken_over_in_silence() {
    let scene = Scene::new();
    scene.write("home/.codex/AGENTS.md", "Be kind.\n");
    scene.deploy();
    scene.manifest(&MANIFEST.replace(
        "instructions:base\n    type: instructions\n    tags: [base]",
        "instructions:base\n    type: instructions\n    tags: [other]",
    ));
    assert_eq!(scene.changes(), ["delete home/.codex/agents.md"]);
}

#[test]
fn only_the_chosen_target_is_touched() {
    let scene = Scene::new();
    let request = Request { target: Some("codex".to_owned()), ..Request::default() };
    scene.deploy_for(&request, false).unwrap();
    assert!(scene.exists("home/.codex/AGENTS.md"));
    assert!(!scene.exists("home/.claude/commands/ship.md"));
}

/// Weakness 27: switching an output off removes what it wrote.
#[test]
fn an_output_that_is_switched_off_leaves_no_orphans() {
    let scene = Scene::deployed();
    scene.manifest(
        &MANIFEST.replace("scope: user }", "scope: user, options: { write_user_prompts: false } }"),
    );
    assert_eq!(scene.changes(), ["delete home/.codex/prompts/review.md"]);
    scene.deploy();
    assert!(!scene.exists("home/.codex/prompts/review.md"));
    assert!(!scene.exists("home/.codex/prompts/.agentpack.manifest.codex.json"));
    assert_eq!(scene.changes(), Vec::<String>::new());
}

#[test]
fn two_modules_that_want_one_file_differently_conflict() {
    let scene = Scene::new();
    let more = "  - id: prompt:other\n    type: prompt\n    tags: [base]\n    source: { local_path: { path: modules/sub/review.md } }\n";
    scene.manifest(&format!("{MANIFEST}{more}"));
    scene.module("sub/review.md", "Review this.\n");
    assert!(scene.plan().is_ok(), "equal bytes are one file");
    scene.module("sub/review.md", "Review otherwise.\n");
    let error = refused(scene.plan(), Code::DesiredStateConflict);
    assert_eq!(error.details()["existing"]["module_ids"], serde_json::json!(["prompt:other"]));
    assert_eq!(error.details()["new"]["module_ids"], serde_json::json!(["prompt:review"]));
}

/// Weakness 30, and more: what only reads writes nothing at all.
#[test]
fn commands_that_read_write_nothing() {
    use keyless_pack::{Doctor, commands};
    let scene = Scene::deployed();
    scene.write("home/.codex/AGENTS.md", "edited\n");
    let before = scene.picture("");
    let (at, request) = (scene.surroundings(), Request::default());
    commands::plan(&at, &request).unwrap();
    commands::preview(&at, &request, true).unwrap();
    commands::status(&at, &request, &[]).unwrap();
    commands::doctor(&at, &request, Doctor::Look, false).unwrap();
    commands::explain_plan(&at, &request).unwrap();
    commands::explain_status(&at, &request).unwrap();
    let options = keyless_pack::commands::DeployOptions::default();
    commands::deploy(&at, &request, options, &keyless_pack::Unwatched).unwrap();
    assert_eq!(scene.picture(""), before);
}

#[test]
fn without_a_yes_nothing_is_written() {
    let scene = Scene::new();
    let before = scene.picture("");
    let options = keyless_pack::commands::DeployOptions {
        apply: true,
        ..keyless_pack::commands::DeployOptions::default()
    };
    let outcome = keyless_pack::commands::deploy(
        &scene.surroundings(),
        &Request::default(),
        options,
        &keyless_pack::Unwatched,
    );
    let error = refused(outcome, Code::ConfirmRequired);
    assert_eq!(error.details()["command"], "deploy --apply");
    assert_eq!(scene.picture(""), before);
}

fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
    u32::from_str_radix(line.trim(), 8).unwrap()
}
