//! Going back, and what can't be gone back to.

use std::fs;

use keyless_pack::{Code, Request, Unwatched, commands};

use crate::scene::{MANIFEST, Scene, refused};

#[test]
fn a_rollback_restores_what_was_deployed_and_can_be_taken_back() {
    let scene = Scene::new();
    let first = scene.deploy();
    let before = scene.picture("home");
    scene.module("base/AGENTS.md", "Second.\n");
    scene.module("tidy/more.md", "more");
    scene.manifest(&MANIFEST.replace(
        "    tags: [base]\n    source: { local_path: { path: modules/review.md } }",
        "    tags: [x]\n    source: { local_path: { path: modules/review.md } }",
    ));
    scene.deploy();
    assert!(!scene.exists("home/.codex/prompts/review.md"));
    let second = scene.picture("home");
    let event = scene.try_rollback(&first).unwrap().data.event_snapshot_id;
    assert_eq!(scene.picture("home"), before);
    assert_eq!(scene.mode("home/.codex/skills/tidy/bin/run.sh") & 0o100, 0o100);
    scene.rollback(&format!("before:{event}"));
    assert_eq!(scene.picture("home"), second);
}

#[test]
fn a_script_that_lost_its_execution_is_restored() {
    let scene = Scene::new();
    let id = scene.deploy();
    let script = "home/.codex/skills/tidy/bin/run.sh";
    scene.chmod(script, 0o644);
    scene.rollback(&id);
    assert_eq!(scene.mode(script) & 0o100, 0o100);
}

/// Weakness 9: an id is a name and no path, and a snapshot's paths must be its target's.
#[test]
fn ids_and_paths_that_lead_elsewhere_are_refused() {
    let scene = Scene::deployed();
    let before = scene.picture("home");
    for id in ["../../../../evil/s", "..", "", "a/b", "x\0y", "/etc/passwd", "before:../x", "1 2"] {
        refused(scene.try_rollback(id), Code::SnapshotNotFound);
    }
    scene.write("evil/s.json", "{}");
    let id = "123";
    let evil = scene.at("home/.bashrc").display().to_string();
    for (target, path) in [
        ("codex", evil.as_str()),
        ("codex", "/etc/cron.d/AGENTS.md/../x"),
        ("claude_code", "relative/.claude/commands/x"),
        ("zed", "/etc/passwd"),
        ("emacs", "/x/.rules"),
    ] {
        let sha = keyless_pack::Sha::of(b"evil").to_string();
        let snapshot = serde_json::json!({
            "kind": "deploy", "id": id, "created_at": "2026-01-01T00:00:00Z", "targets": [target],
            "managed_files": [{"target": target, "path": path, "sha256": sha}],
            "changes": [], "lockfile_sha256": null, "backup_root": "/",
        });
        scene.write(&format!("ap/state/snapshots/{id}.json"), &snapshot.to_string());
        let key = keyless_pack::Sha::of(path.as_bytes()).to_string()[..16].to_owned();
        scene.write(&format!("ap/state/snapshots/{id}/state/{target}/{key}"), "evil");
        refused(scene.try_rollback(id), Code::SnapshotInvalid);
    }
    assert_eq!(scene.picture("home"), before);
}

/// Weakness 10: edits are kept, other targets are left alone.
#[test]
fn a_rollback_backs_up_edits_and_leaves_other_targets_alone() {
    let scene = Scene::new();
    let codex = Request { target: Some("codex".to_owned()), ..Request::default() };
    let first = scene.deploy_for(&codex, false).unwrap().data.snapshot_id.unwrap();
    scene.deploy();
    scene.write("home/.codex/AGENTS.md", "edited\n");
    let event = scene.try_rollback(&first).unwrap().data.event_snapshot_id;
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "Be kind.\n");
    assert!(scene.exists("home/.claude/commands/ship.md"));
    scene.rollback(&format!("before:{event}"));
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "edited\n");
}

#[test]
fn a_target_filter_rolls_back_that_target_alone() {
    let scene = Scene::new();
    let first = scene.deploy();
    scene.module("base/AGENTS.md", "Second.\n");
    scene.module("ship.md", "---\ndescription: Second\n---\n");
    scene.deploy();
    let request = Request { target: Some("claude_code".to_owned()), ..Request::default() };
    commands::rollback(&scene.surroundings(), &request, &first, true, &Unwatched).unwrap();
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "Second.\n");
    assert!(scene.read("home/.claude/commands/ship.md").contains("Ship it"));
}

/// Weakness 10: a file that a later deploy adopted comes back as its user wrote it.
#[test]
fn an_adopted_file_comes_back_when_its_deploy_is_undone() {
    let scene = Scene::new();
    let first = scene.deploy();
    scene.write("home/.codex/prompts/extra.md", "the user's\n");
    scene.chmod("home/.codex/prompts/extra.md", 0o640);
    let more = "  - id: prompt:extra\n    type: prompt\n    tags: [base]\n    source: { local_path: { path: modules/extra.md } }\n";
    scene.manifest(&format!("{MANIFEST}{more}"));
    scene.module("extra.md", "ours\n");
    scene.try_deploy(true).unwrap();
    assert_eq!(scene.read("home/.codex/prompts/extra.md"), "ours\n");
    scene.rollback(&first);
    assert_eq!(scene.read("home/.codex/prompts/extra.md"), "the user's\n");
    assert_eq!(scene.mode("home/.codex/prompts/extra.md"), 0o640);
}

/// Weakness 11: a damaged snapshot stops nobody but who asks for it.
#[test]
fn a_damaged_snapshot_is_named_and_does_not_spread() {
    let scene = Scene::new();
    let id = scene.deploy();
    scene.write("ap/state/snapshots/999.json", "{ not json");
    scene.module("base/AGENTS.md", "Second.\n");
    scene.deploy();
    let answer = scene.try_rollback(&id).unwrap();
    assert!(
        answer.warnings.iter().any(|warning| warning.contains("999.json")),
        "{:?}",
        answer.warnings
    );
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "Be kind.\n");
    refused(scene.try_rollback("999"), Code::SnapshotInvalid);
    let error = refused(scene.try_rollback("424242"), Code::SnapshotNotFound);
    assert!(error.message().contains("424242"), "{error}");
    for manifest in [
        "home/.codex/.agentpack.manifest.codex.json",
        "home/.codex/prompts/.agentpack.manifest.codex.json",
    ] {
        fs::remove_file(scene.at(manifest)).unwrap();
    }
    scene.plan().unwrap();
}

#[test]
fn a_snapshot_whose_copies_were_changed_is_refused() {
    let scene = Scene::new();
    let id = scene.deploy();
    scene.module("base/AGENTS.md", "Second.\n");
    scene.deploy();
    let state = scene.at(&format!("ap/state/snapshots/{id}/state/codex"));
    for entry in fs::read_dir(state).unwrap() {
        fs::write(entry.unwrap().path(), "changed").unwrap();
    }
    refused(scene.try_rollback(&id), Code::SnapshotInvalid);
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "Second.\n");
}

/// Weakness 12: equal bytes are kept once, and old snapshots go; never one with a user's own file.
#[test]
fn snapshots_stay_few_and_small() {
    use std::os::unix::fs::MetadataExt as _;
    let scene = Scene::new();
    scene.module("tidy/big.txt", &"0123456789abcdef".repeat(16_384));
    scene.write("home/.codex/AGENTS.md", "mine\n");
    let adopting = scene.try_deploy(true).unwrap().data.snapshot_id.unwrap();
    for round in 0..30 {
        scene.module("base/AGENTS.md", &format!("Round {round}.\n"));
        scene.deploy();
    }
    let folder = scene.at("ap/state/snapshots");
    let is_file = |path: std::path::PathBuf| path.extension().is_some_and(|end| end == "json");
    let files = fs::read_dir(&folder)
        .unwrap()
        .filter(|entry| is_file(entry.as_ref().unwrap().path()))
        .count();
    assert!(files <= 22, "{files} snapshots");
    assert!(folder.join(format!("{adopting}.json")).exists());
    let mut seen = std::collections::HashMap::new();
    for (path, bytes) in scene.picture("ap/state/snapshots") {
        let metadata = fs::metadata(path).unwrap();
        seen.insert(metadata.ino(), bytes.len());
    }
    let total: usize = seen.values().sum();
    assert!(total < 4 * 262_144, "{total} bytes");
}

/// Snapshots and manifests of agentpack 0.9.1 itself: no modes, manifests and copies as it writes them.
#[test]
fn a_snapshot_that_agentpack_wrote_is_rolled_back_to() {
    let scene = Scene::new();
    let id = scene.deploy();
    let path = format!("ap/state/snapshots/{id}.json");
    let mut snapshot: serde_json::Value = serde_json::from_str(&scene.read(&path)).unwrap();
    let object = snapshot.as_object_mut().unwrap();
    object.remove("repo");
    for list in ["changes", "managed_files"] {
        for row in object[list].as_array_mut().unwrap() {
            for name in ["before_mode", "before_link", "adopted", "executable"] {
                row.as_object_mut().unwrap().remove(name);
            }
        }
    }
    scene.write(&path, &snapshot.to_string());
    let before = scene.picture("home");
    scene.module("base/AGENTS.md", "Second.\n");
    scene.deploy();
    scene.rollback(&id);
    assert_eq!(scene.picture("home"), before);
}

/// A home has one row of snapshots, whichever project they were made in.
#[test]
fn a_rollback_leaves_other_projects_alone() {
    let scene = Scene::new();
    scene.manifest(
        &MANIFEST.replace("targets:\n", "targets:\n  cursor: { mode: files, scope: project }\n"),
    );
    let (here, there) = ("project", "other");
    let at = |project: &str| keyless_pack::Surroundings {
        cwd: scene.at(project),
        ..scene.surroundings()
    };
    let deploy = |project: &str| {
        fs::create_dir_all(scene.at(&format!("{project}/.git"))).unwrap();
        let options = commands::DeployOptions { apply: true, yes: true, ..Default::default() };
        let done =
            commands::deploy(&at(project), &Request::default(), options, &Unwatched).unwrap();
        done.data.snapshot_id.unwrap()
    };
    let rollback = |project: &str, to: &str| {
        commands::rollback(&at(project), &Request::default(), to, true, &Unwatched).unwrap();
    };
    let first = deploy(here);
    let pictures = |project: &str| {
        let mut own = scene.picture(project);
        own.retain(|(path, _)| !path.contains("/vendor/"));
        (scene.picture("home"), own)
    };
    let before = pictures(here);
    scene.module("base/AGENTS.md", "Second.\n");
    scene.manifest(
        &scene.read("ap/repo/agentpack.yaml").replace("modules/ship.md", "modules/sail.md"),
    );
    scene.module("sail.md", "---\ndescription: Sail\n---\n");
    let second = deploy(here);
    // In a project of its own, and in one below the first.
    let nested = "project/vendor/third";
    deploy(there);
    deploy(nested);
    let others = (scene.picture(there), scene.picture(nested));
    assert!(!others.0.is_empty() && !others.1.is_empty());
    // From wherever it is said.
    for (from, to) in [(here, &first), (there, &second), (there, &first)] {
        rollback(from, to);
        assert_eq!((scene.picture(there), scene.picture(nested)), others, "{to} from {from}");
    }
    assert_eq!(pictures(here), before);
    // Snapshots from before they said where they were made.
    for entry in fs::read_dir(scene.at("ap/state/snapshots")).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let mut snapshot: serde_json::Value = serde_json::from_str(&text).unwrap();
        snapshot.as_object_mut().unwrap().remove("project_root");
        fs::write(path, snapshot.to_string()).unwrap();
    }
    for to in [&second, &first] {
        rollback(here, to);
        assert_eq!((scene.picture(there), scene.picture(nested)), others, "{to}");
    }
    assert_eq!(pictures(here), before);
}

/// A snapshot with a user's own file is kept while those after it go: what only they made did not exist then.
#[test]
fn a_file_whose_first_snapshot_was_pruned_is_not_brought_back() {
    let scene = Scene::new();
    scene.write("home/.codex/AGENTS.md", "mine\n");
    let first = scene.try_deploy(true).unwrap().data.snapshot_id.unwrap();
    let before = scene.picture("home");
    scene.module("tidy/f.md", "f1\n");
    scene.module("tidy/g.md", "g1\n");
    let second = scene.deploy();
    for round in 0..22 {
        scene.module("base/AGENTS.md", &format!("Round {round}.\n"));
        scene.deploy();
    }
    assert!(!scene.exists(&format!("ap/state/snapshots/{second}.json")));
    scene.module("tidy/f.md", "f2\n");
    fs::remove_file(scene.at("ap/repo/modules/tidy/g.md")).unwrap();
    scene.deploy();
    let event = scene.try_rollback(&first).unwrap().data.event_snapshot_id;
    assert_eq!(scene.picture("home"), before);
    scene.rollback(&format!("before:{event}"));
    let answer = scene.try_rollback(&format!("before:{first}")).unwrap();
    assert!(answer.warnings.join("\n").contains("have been pruned"), "{:?}", answer.warnings);
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "mine\n");
}

#[test]
fn a_users_file_that_a_rollback_replaced_is_never_pruned() {
    let scene = Scene::new();
    let first = scene.deploy();
    let place = "home/.codex/prompts/review.md";
    scene.rollback(&format!("before:{first}"));
    scene.write(place, "the user's\n");
    scene.chmod(place, 0o640);
    let event = scene.try_rollback(&first).unwrap().data.event_snapshot_id;
    assert_eq!(scene.read(place), "Review this.\n");
    for round in 0..25 {
        scene.module("base/AGENTS.md", &format!("Round {round}.\n"));
        scene.deploy();
    }
    assert!(!scene.exists(&format!("ap/state/snapshots/{first}.json")), "others are");
    scene.rollback(&format!("before:{event}"));
    assert_eq!(scene.read(place), "the user's\n");
    assert_eq!(scene.mode(place), 0o640);
}
