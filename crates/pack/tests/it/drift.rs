//! Status, explain and doctor: what they see, and that they agree with the plan.

use std::fs;

use keyless_pack::{Doctor, DriftKind, Request, StatusData, commands};

use crate::scene::Scene;

fn status(scene: &Scene) -> StatusData {
    commands::status(&scene.surroundings(), &Request::default(), &[]).unwrap().data
}

fn kinds(data: &StatusData) -> Vec<(DriftKind, String, bool)> {
    let name = |path: &str| path.rsplit('/').next().unwrap().to_owned();
    data.drift.iter().map(|item| (item.kind, name(&item.path), item.edited)).collect()
}

#[test]
fn drift_of_every_kind_is_seen() {
    let scene = Scene::deployed();
    assert_eq!(kinds(&status(&scene)), []);
    scene.write("home/.codex/AGENTS.md", "edited\n");
    fs::remove_file(scene.at("home/.claude/commands/ship.md")).unwrap();
    scene.write("home/.codex/prompts/stranger.md", "x");
    let data = status(&scene);
    assert_eq!(
        kinds(&data),
        [
            (DriftKind::Missing, "ship.md".to_owned(), false),
            (DriftKind::Modified, "AGENTS.md".to_owned(), true),
            (DriftKind::Extra, "stranger.md".to_owned(), false),
        ]
    );
    assert!(data.drift[1].expected.as_deref().unwrap().starts_with("sha256:"));
    let actions: Vec<&str> =
        data.next_actions_detailed.iter().map(|action| action.action).skip(3).collect();
    assert_eq!(actions, ["preview_diff", "deploy_apply", "evolve_propose"]);
    let only = [DriftKind::Missing];
    let filtered =
        commands::status(&scene.surroundings(), &Request::default(), &only).unwrap().data;
    assert_eq!((filtered.summary.missing, filtered.summary.modified), (1, 0));
    assert_eq!(filtered.summary_total.unwrap().modified, 1);
    assert_eq!(filtered.summary_by_root.len(), 1);
}

/// Weakness 27: what was never deployed is missing.
#[test]
fn a_file_that_was_never_deployed_is_missing() {
    let scene = Scene::deployed();
    scene.module("tidy/new.md", "new");
    let missing = status(&scene).summary.missing;
    assert_eq!(missing, scene.changes().len());
    assert!(missing > 0);
}

#[test]
fn a_change_of_the_source_is_no_edit() {
    let scene = Scene::deployed();
    scene.module("base/AGENTS.md", "Second.\n");
    assert_eq!(kinds(&status(&scene)), [(DriftKind::Modified, "AGENTS.md".to_owned(), false)]);
}

#[test]
fn explain_names_modules_and_layers() {
    let scene = Scene::deployed();
    scene.write("ap/repo/overlays/instructions_base--d39861fff1/AGENTS.md", "Overlaid.\n");
    scene.module("tidy/new.md", "new");
    let data = commands::explain_plan(&scene.surroundings(), &Request::default()).unwrap().data;
    let base = data.changes.iter().find(|change| change.path.ends_with("AGENTS.md")).unwrap();
    assert_eq!(base.modules[0].module_id, "instructions:base");
    assert_eq!(base.modules[0].module_type, Some("Instructions"));
    assert_eq!(base.modules[0].layer, Some("global"));
    let new = data.changes.iter().find(|change| change.path.ends_with("tidy/new.md")).unwrap();
    assert_eq!(
        (new.modules[0].layer, new.modules[0].module_path.as_deref()),
        (Some("upstream"), Some("new.md"))
    );
    let drift =
        commands::explain_status(&scene.surroundings(), &Request::default()).unwrap().data.drift;
    assert!(drift.iter().any(|item| item.modules == ["instructions:base"]));
}

#[test]
fn the_doctor_finds_roots_and_mends_gitignore() {
    let scene = Scene::empty();
    scene.git("project", &["init", "-q"]);
    scene.manifest(
        "version: 1\nprofiles: {default: {}}\ntargets:\n  codex: {mode: files, scope: both}\n",
    );
    let look = || {
        commands::doctor(&scene.surroundings(), &Request::default(), Doctor::Look, false)
            .unwrap()
            .data
    };
    let data = look();
    assert_eq!(data.machine_id, "box");
    assert_eq!(data.roots.len(), 5);
    let missing = data.roots.iter().find(|root| root.root.ends_with("home/.codex")).unwrap();
    assert_eq!((missing.exists, missing.issues.as_slice()), (false, ["missing"].as_slice()));
    assert!(data.next_actions.iter().any(|action| action.starts_with("mkdir -p ")));
    assert!(data.next_actions.iter().any(|action| action.ends_with("doctor --fix --yes --json")));
    commands::doctor(&scene.surroundings(), &Request::default(), Doctor::Mend, true).unwrap();
    assert_eq!(scene.read("project/.gitignore"), ".agentpack.manifest*.json\n");
    assert!(!look().next_actions.iter().any(|action| action.contains("doctor --fix")));
}
