//! Overlays of both kinds and all scopes, and moving them onto a newer upstream.

use std::fs;

use keyless_pack::{
    Code, EditOptions, OverlayEditData, OverlayKind, OverlayRebaseData, OverlayScope,
    RebaseOptions, Request, Result, commands,
};

use crate::scene::{MANIFEST, Scene, refused};

const BASE: &str = "ap/repo/overlays/instructions_base--d39861fff1";

fn edit(scene: &Scene, options: EditOptions) -> OverlayEditData {
    let id = "instructions:base";
    commands::overlay_edit(
        &scene.surroundings(),
        &Request::default(),
        id,
        OverlayScope::Global,
        options,
        true,
    )
    .unwrap()
    .data
}

fn rebase(scene: &Scene) -> Result<OverlayRebaseData> {
    let options = RebaseOptions { scope: OverlayScope::Global, sparsify: false, dry_run: false };
    let answer = commands::overlay_rebase(
        &scene.surroundings(),
        &Request::default(),
        "instructions:base",
        options,
        true,
    );
    answer.map(|answer| answer.data)
}

/// A deployed scene whose base module has many lines and is committed.
fn lines() -> Scene {
    let scene = Scene::new();
    scene.module("base/AGENTS.md", &text("one", "five", "nine"));
    scene.commit();
    scene
}

fn text(first: &str, middle: &str, last: &str) -> String {
    format!("{first}\ntwo\nthree\nfour\n{middle}\nsix\nseven\neight\n{last}\n")
}

#[test]
fn later_layers_win() {
    let scene = Scene::new();
    let project = {
        let id = "instructions:base";
        let at = scene.surroundings();
        commands::overlay_path(&at, &Request::default(), id, OverlayScope::Project)
            .unwrap()
            .data
            .overlay_dir
    };
    let deployed = |scene: &Scene| {
        scene.deploy();
        scene.read("home/.codex/AGENTS.md")
    };
    scene.write(&format!("{BASE}/AGENTS.md"), "global\n");
    assert_eq!(deployed(&scene), "global\n");
    scene.write(
        "ap/repo/overlays/machines/box/instructions_base--d39861fff1/AGENTS.md",
        "machine\n",
    );
    assert_eq!(deployed(&scene), "machine\n");
    fs::create_dir_all(&project).unwrap();
    fs::write(format!("{project}/AGENTS.md"), "project\n").unwrap();
    assert_eq!(deployed(&scene), "project\n");
}

#[test]
fn overlays_under_their_old_names_are_found() {
    let scene = Scene::new();
    scene.write("ap/repo/overlays/instructions:base/AGENTS.md", "raw\n");
    scene.deploy();
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "raw\n");
}

#[test]
fn an_overlay_is_made_whole_sparse_or_as_patches() {
    let scene = lines();
    let data = edit(&scene, EditOptions::default());
    assert!(data.created);
    assert_eq!(scene.read(&format!("{BASE}/AGENTS.md")), text("one", "five", "nine"));
    assert_eq!(scene.read(&format!("{BASE}/.agentpack/module_id")), "instructions:base\n");
    assert!(scene.exists(&format!("{BASE}/.agentpack/baseline.json")));
    fs::remove_dir_all(scene.at(BASE)).unwrap();
    edit(&scene, EditOptions { sparse: true, ..EditOptions::default() });
    assert!(!scene.exists(&format!("{BASE}/AGENTS.md")));
    edit(&scene, EditOptions { materialize: true, ..EditOptions::default() });
    assert!(scene.exists(&format!("{BASE}/AGENTS.md")));
    fs::remove_dir_all(scene.at(BASE)).unwrap();
    let data = edit(&scene, EditOptions { kind: OverlayKind::Patch, ..EditOptions::default() });
    assert!(data.patches_dir.is_some());
    assert!(scene.read(&format!("{BASE}/.agentpack/overlay.json")).contains("\"patch\""));
}

#[test]
fn a_patch_overlay_is_applied_and_says_when_it_does_not_fit() {
    let scene = lines();
    edit(&scene, EditOptions { kind: OverlayKind::Patch, ..EditOptions::default() });
    let patch = "--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1,3 +1,3 @@\n-one\n+uno\n two\n three\n";
    scene.write(&format!("{BASE}/.agentpack/patches/AGENTS.md.patch"), patch);
    scene.deploy();
    assert_eq!(scene.read("home/.codex/AGENTS.md"), text("uno", "five", "nine"));
    scene.module("base/AGENTS.md", "something else\n");
    let error = refused(scene.plan(), Code::OverlayPatchApplyFailed);
    assert_eq!(error.details()["relpath"], "AGENTS.md");
    scene.write(&format!("{BASE}/AGENTS.md"), "mixed");
    let error = refused(scene.plan(), Code::ConfigInvalid);
    assert!(error.message().contains("is of kind patch and holds whole files"), "{error}");
}

#[test]
fn upstream_changes_below_an_overlay_are_warned_about() {
    let scene = lines();
    edit(&scene, EditOptions::default());
    assert_eq!(scene.plan().unwrap().warnings, Vec::<String>::new());
    scene.module("base/AGENTS.md", &text("one", "five", "neun"));
    let warnings = scene.plan().unwrap().warnings.join("\n");
    assert!(
        warnings.contains("upstream changed AGENTS.md; run `agentpack overlay rebase`"),
        "{warnings}"
    );
}

#[test]
fn a_rebase_merges_what_does_not_overlap() {
    let scene = lines();
    edit(&scene, EditOptions::default());
    scene.write(&format!("{BASE}/AGENTS.md"), &text("uno", "five", "nine"));
    scene.module("base/AGENTS.md", &text("one", "five", "neun"));
    assert_eq!(rebase(&scene).unwrap().report.updated, ["AGENTS.md"]);
    assert_eq!(scene.read(&format!("{BASE}/AGENTS.md")), text("uno", "five", "neun"));
    assert_eq!(scene.plan().unwrap().warnings, Vec::<String>::new(), "the baseline has moved");
}

/// Weaknesses 21 and 22: many hunks are one conflict, which stays one until it is resolved, and never deploys.
#[test]
fn a_conflict_of_several_hunks_stays_until_it_is_resolved() {
    let scene = lines();
    edit(&scene, EditOptions::default());
    scene.write(&format!("{BASE}/AGENTS.md"), &text("uno", "cinque", "nove"));
    scene.module("base/AGENTS.md", &text("eins", "fünf", "neun"));
    let error = refused(rebase(&scene), Code::OverlayRebaseConflict);
    assert_eq!(error.details()["conflicts"], serde_json::json!(["AGENTS.md"]));
    let marked = scene.read(&format!("{BASE}/AGENTS.md"));
    assert_eq!(marked.matches("<<<<<<<").count(), 3, "{marked}");
    refused(rebase(&scene), Code::OverlayRebaseConflict);
    assert_eq!(scene.read(&format!("{BASE}/AGENTS.md")), marked, "it is not merged a second time");
    let error = refused(scene.try_deploy(true), Code::OverlayRebaseConflict);
    assert!(error.message().contains("unresolved conflict in AGENTS.md"), "{error}");
    scene.write(&format!("{BASE}/AGENTS.md"), &text("uno", "fünf", "nove"));
    rebase(&scene).unwrap();
    assert_eq!(scene.read(&format!("{BASE}/AGENTS.md")), text("uno", "fünf", "nove"));
    scene.deploy();
    assert_eq!(scene.read("home/.codex/AGENTS.md"), text("uno", "fünf", "nove"));
    let again = rebase(&scene).unwrap().report;
    assert_eq!((again.summary.processed_files, again.summary.updated_files), (1, 0), "it is kept");
}

#[test]
fn a_conflict_in_an_unfinished_last_line_waits_for_a_person() {
    for kind in [OverlayKind::Dir, OverlayKind::Patch] {
        let scene = Scene::new();
        scene.module("base/AGENTS.md", "one\nuse model X");
        scene.commit();
        edit(&scene, EditOptions { kind, ..EditOptions::default() });
        let (ours, open) = match kind {
            OverlayKind::Dir => ("AGENTS.md", "AGENTS.md"),
            OverlayKind::Patch => {
                (".agentpack/patches/AGENTS.md.patch", ".agentpack/conflicts/AGENTS.md")
            }
        };
        let text = match kind {
            OverlayKind::Dir => "one\nuse model OURS",
            OverlayKind::Patch => {
                "--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1,2 +1,2 @@\n one\n-use model X\n\\ No newline at end of file\n\
                 +use model OURS\n\\ No newline at end of file\n"
            }
        };
        scene.write(&format!("{BASE}/{ours}"), text);
        scene.module("base/AGENTS.md", "one\nuse model THEIRS");
        refused(rebase(&scene), Code::OverlayRebaseConflict);
        let open = format!("{BASE}/{open}");
        let marked =
            "one\n<<<<<<< ours\nuse model OURS\n=======\nuse model THEIRS\n>>>>>>> theirs\n";
        assert_eq!(scene.read(&open), marked);
        // As it was written once, with the markers glued to what stands before them.
        let glued = "one\n<<<<<<< ours\nuse model OURS=======\nuse model THEIRS>>>>>>> theirs\n";
        // And with a part of the markers taken out by hand.
        let partly = "one\nuse model OURS\n=======\nuse model THEIRS\n>>>>>>> theirs\n";
        for text in [marked, glued, partly] {
            scene.write(&open, text);
            let deployed = scene.try_deploy(true).expect_err("nothing with markers is deployed");
            assert!(kind == OverlayKind::Patch || deployed.code() == Code::OverlayRebaseConflict);
            refused(rebase(&scene), Code::OverlayRebaseConflict);
            assert_eq!(scene.read(&open), text, "it waits as it is");
        }
        scene.write(&open, "one\nuse model BOTH");
        rebase(&scene).unwrap();
        scene.deploy();
        assert_eq!(scene.read("home/.codex/AGENTS.md"), "one\nuse model BOTH");
    }
}

/// What is no text is never merged; a person takes one version or the other.
#[test]
fn a_conflict_of_files_that_are_no_text_leaves_the_users_version() {
    let file = format!("{BASE}/pic.png");
    let beside = format!("{BASE}/.agentpack/conflicts/pic.png");
    let in_conflict = |ours: &[u8]| {
        let scene = lines();
        scene.module("base/pic.png", "PNG\0\nbase\n");
        scene.commit();
        edit(&scene, EditOptions::default());
        fs::write(scene.at(&file), ours).unwrap();
        scene.module("base/pic.png", "PNG\0\ntheirs\n");
        for _ in 0..2 {
            let error = refused(rebase(&scene), Code::OverlayRebaseConflict);
            assert_eq!(error.details()["conflicts"], serde_json::json!(["pic.png"]));
            assert_eq!(error.details()["summary"]["updated_files"], 0);
            assert!(error.hint_text().unwrap().contains("replace it or delete it"), "{error}");
            assert_eq!(fs::read(scene.at(&file)).unwrap(), ours);
            assert_eq!(scene.read(&beside), "PNG\0\ntheirs\n");
            refused(scene.plan(), Code::OverlayRebaseConflict);
        }
        scene
    };
    let ours = &b"PNG\0\nours\n"[..];
    let mends: [fn(&Scene, &str, &str); 3] = [
        |scene, _, beside| fs::remove_file(scene.at(beside)).unwrap(),
        |scene, file, beside| fs::rename(scene.at(beside), scene.at(file)).unwrap(),
        |scene, file, _| fs::remove_file(scene.at(file)).unwrap(),
    ];
    let wanted = [Some(ours), Some(b"PNG\0\ntheirs\n"), None];
    for (mend, wanted) in mends.into_iter().zip(wanted) {
        let scene = in_conflict(ours);
        mend(&scene, &file, &beside);
        rebase(&scene).unwrap();
        assert_eq!(fs::read(scene.at(&file)).ok().as_deref(), wanted);
        assert!(!scene.exists(&beside));
        assert_eq!(scene.plan().unwrap().warnings, Vec::<String>::new());
    }
    in_conflict(b"PNG\xff\nours\n");
}

/// A patch is never dropped because upstream dropped its file: a person says so.
#[test]
fn a_patch_whose_file_is_gone_upstream_waits_for_a_person() {
    let scene = lines();
    edit(&scene, EditOptions { kind: OverlayKind::Patch, ..EditOptions::default() });
    let patch = format!("{BASE}/.agentpack/patches/AGENTS.md.patch");
    let text = "--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1,3 +1,3 @@\n-one\n+uno\n two\n three\n";
    scene.write(&patch, text);
    fs::remove_file(scene.at("ap/repo/modules/base/AGENTS.md")).unwrap();
    scene.module("base/OTHER.md", "x\n");
    let error = refused(rebase(&scene), Code::OverlayRebaseConflict);
    assert_eq!(error.details()["summary"]["updated_files"], 0);
    assert_eq!(scene.read(&patch), text);
    let open = format!("{BASE}/.agentpack/conflicts/AGENTS.md");
    assert!(scene.read(&open).contains("deleted upstream") && scene.read(&open).contains("uno"));
    scene.write(&open, "");
    assert_eq!(rebase(&scene).unwrap().report.deleted, ["AGENTS.md"]);
    assert!(!scene.exists(&patch));
}

#[test]
fn a_patch_overlay_is_rebased_through_its_conflicts() {
    let scene = lines();
    edit(&scene, EditOptions { kind: OverlayKind::Patch, ..EditOptions::default() });
    let patch = "--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1,3 +1,3 @@\n-one\n+uno\n two\n three\n";
    scene.write(&format!("{BASE}/.agentpack/patches/AGENTS.md.patch"), patch);
    scene.module("base/AGENTS.md", &text("one", "five", "neun"));
    assert_eq!(rebase(&scene).unwrap().report.skipped, Vec::<String>::new());
    scene.deploy();
    assert_eq!(scene.read("home/.codex/AGENTS.md"), text("uno", "five", "neun"));
    scene.commit();
    scene.module("base/AGENTS.md", &text("eins", "five", "neun"));
    // The moved baseline was of a dirty tree; its merge base is what was committed after it.
    fs::remove_dir_all(scene.at(BASE)).unwrap();
    scene.module("base/AGENTS.md", &text("one", "five", "neun"));
    edit(&scene, EditOptions { kind: OverlayKind::Patch, ..EditOptions::default() });
    scene.write(&format!("{BASE}/.agentpack/patches/AGENTS.md.patch"), patch);
    scene.module("base/AGENTS.md", &text("eins", "five", "neun"));
    refused(rebase(&scene), Code::OverlayRebaseConflict);
    let open = format!("{BASE}/.agentpack/conflicts/AGENTS.md");
    assert!(scene.read(&open).contains("<<<<<<<"));
    refused(scene.plan(), Code::OverlayPatchApplyFailed);
    scene.write(&open, &text("uno", "five", "neun"));
    rebase(&scene).unwrap();
    assert!(!scene.exists(&open));
    assert_eq!(scene.changes(), Vec::<String>::new());
    assert_eq!(scene.read("home/.codex/AGENTS.md"), text("uno", "five", "neun"));
}

/// Upstream may move again while a conflict waits: what was resolved stands on what its markers were made against.
#[test]
fn upstream_that_moves_while_a_conflict_waits_is_merged_once_it_is_resolved() {
    let scene = lines();
    edit(&scene, EditOptions::default());
    let file = format!("{BASE}/AGENTS.md");
    scene.write(&file, &text("uno", "five", "nine"));
    scene.module("base/AGENTS.md", &text("eins", "five", "nine"));
    refused(rebase(&scene), Code::OverlayRebaseConflict);
    let marked = scene.read(&file);
    scene.module("base/AGENTS.md", &text("eins", "five", "neun"));
    refused(rebase(&scene), Code::OverlayRebaseConflict);
    assert_eq!(scene.read(&file), marked, "it waits as it was");
    scene.write(&file, &text("uno", "five", "nine"));
    assert_eq!(rebase(&scene).unwrap().report.updated, ["AGENTS.md"]);
    assert_eq!(scene.read(&file), text("uno", "five", "neun"));
    assert_eq!(scene.plan().unwrap().warnings, Vec::<String>::new());
    let left = scene.picture(&format!("{BASE}/.agentpack"));
    assert_eq!(left.len(), 3, "module id, kind and baseline: {left:?}");
}

#[test]
fn upstream_that_moves_while_a_patch_waits_is_merged_once_it_is_resolved() {
    let scene = lines();
    edit(&scene, EditOptions { kind: OverlayKind::Patch, ..EditOptions::default() });
    let patch = format!("{BASE}/.agentpack/patches/AGENTS.md.patch");
    let open = format!("{BASE}/.agentpack/conflicts/AGENTS.md");
    let uno = "--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1,3 +1,3 @@\n-one\n+uno\n two\n three\n";
    scene.write(&patch, uno);
    scene.module("base/AGENTS.md", &text("eins", "five", "nine"));
    refused(rebase(&scene), Code::OverlayRebaseConflict);
    scene.write(&open, &text("uno", "five", "nine"));
    scene.module("base/AGENTS.md", &text("eins", "five", "neun"));
    rebase(&scene).unwrap();
    assert!(!scene.read(&patch).contains("nine"), "{}", scene.read(&patch));
    scene.deploy();
    assert_eq!(scene.read("home/.codex/AGENTS.md"), text("uno", "five", "neun"));
}

#[test]
fn a_resolved_patch_whose_file_went_meanwhile_waits_for_a_person() {
    let scene = lines();
    edit(&scene, EditOptions { kind: OverlayKind::Patch, ..EditOptions::default() });
    let open = format!("{BASE}/.agentpack/conflicts/AGENTS.md");
    let uno = "--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1,3 +1,3 @@\n-one\n+uno\n two\n three\n";
    scene.write(&format!("{BASE}/.agentpack/patches/AGENTS.md.patch"), uno);
    scene.module("base/AGENTS.md", &text("eins", "five", "nine"));
    refused(rebase(&scene), Code::OverlayRebaseConflict);
    scene.write(&open, &text("uno", "five", "nine"));
    scene.module("base/OTHER.md", "x\n");
    fs::remove_file(scene.at("ap/repo/modules/base/AGENTS.md")).unwrap();
    refused(rebase(&scene), Code::OverlayRebaseConflict);
    assert!(scene.read(&open).contains("deleted upstream"), "nobody has seen that it is gone");
}

/// Files that moved while another waits are not moved from the baseline again.
#[test]
fn what_moved_beside_a_conflict_stands_on_what_it_moved_to() {
    for kind in [OverlayKind::Dir, OverlayKind::Patch] {
        let scene = lines();
        scene.module("base/OTHER.md", &text("a", "b", "c"));
        scene.commit();
        edit(&scene, EditOptions { kind, ..EditOptions::default() });
        for (name, old) in [("AGENTS.md", "one"), ("OTHER.md", "a")] {
            let before = scene.read(&format!("ap/repo/modules/base/{name}"));
            let patch = format!("--- {name}\n+++ {name}\n@@ -1,2 +1,2 @@\n-{old}\n+uno\n two\n");
            match kind {
                OverlayKind::Dir => {
                    scene.write(&format!("{BASE}/{name}"), &before.replacen(old, "uno", 1))
                }
                OverlayKind::Patch => {
                    scene.write(&format!("{BASE}/.agentpack/patches/{name}.patch"), &patch)
                }
            };
        }
        scene.module("base/AGENTS.md", &text("eins", "five", "nine"));
        scene.module("base/OTHER.md", &text("a", "b", "z"));
        refused(rebase(&scene), Code::OverlayRebaseConflict);
        refused(rebase(&scene), Code::OverlayRebaseConflict);
        scene.module("base/OTHER.md", &text("a", "b", "c"));
        let open = match kind {
            OverlayKind::Dir => format!("{BASE}/AGENTS.md"),
            OverlayKind::Patch => format!("{BASE}/.agentpack/conflicts/AGENTS.md"),
        };
        scene.write(&open, &text("uno", "five", "nine"));
        rebase(&scene).unwrap();
        let other = match kind {
            OverlayKind::Dir => scene.read(&format!("{BASE}/OTHER.md")),
            OverlayKind::Patch => scene.read(&format!("{BASE}/.agentpack/patches/OTHER.md.patch")),
        };
        assert!(!other.contains('z'), "upstream took it back: {other}");
        assert_eq!(scene.plan().unwrap().warnings, Vec::<String>::new());
    }
}

#[test]
fn a_rebase_without_overlay_baseline_or_base_says_so() {
    let scene = Scene::new();
    refused(rebase(&scene), Code::OverlayNotFound);
    scene.write(&format!("{BASE}/AGENTS.md"), "mine\n");
    refused(rebase(&scene), Code::OverlayBaselineMissing);
    fs::remove_dir_all(scene.at(BASE)).unwrap();
    edit(&scene, EditOptions::default());
    scene.write(&format!("{BASE}/AGENTS.md"), "mine\n");
    scene.module("base/AGENTS.md", "theirs\n");
    refused(rebase(&scene), Code::OverlayBaselineUnsupported);
    scene.manifest(MANIFEST);
}

#[test]
fn a_document_about_conflict_markers_may_hold_them() {
    let scene = Scene::new();
    let markers = "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n";
    scene.module("base/AGENTS.md", markers);
    scene.write(&format!("{BASE}/AGENTS.md"), &format!("{markers}more\n"));
    assert!(scene.plan().is_ok());
}
