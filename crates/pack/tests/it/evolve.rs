//! Taking edits over, and putting missing files back.

use std::fs;

use keyless_pack::{
    Answer, Code, OverlayScope, ProposeData, ProposeOptions, Request, Result, commands,
};

use crate::scene::{MANIFEST, Scene, refused};

fn propose(scene: &Scene, dry_run: bool) -> Result<Answer<ProposeData>> {
    let options = ProposeOptions {
        module_id: None,
        scope: OverlayScope::Global,
        branch: None,
        dry_run,
        yes: true,
    };
    commands::evolve_propose(&scene.surroundings(), &Request::default(), &options)
}

/// Proposes, merges the branch, and checks that nothing differs any more.
fn accepted(scene: &Scene) -> Vec<String> {
    let data = propose(scene, false).unwrap().data;
    let branch = data.branch.expect("a branch");
    assert!(branch.starts_with("evolve/propose-global-"), "{branch}");
    assert_eq!(scene.git("ap/repo", &["status", "--porcelain"]), "");
    scene.git("ap/repo", &["merge", "-q", &branch]);
    assert_eq!(scene.changes(), Vec::<String>::new());
    data.files
}

#[test]
fn an_edit_becomes_an_overlay_on_a_branch() {
    let scene = Scene::deployed();
    scene.commit();
    assert_eq!(propose(&scene, false).unwrap().data.reason, Some("no_drift"));
    scene.write("home/.codex/AGENTS.md", "edited\n");
    let dry = propose(&scene, true).unwrap().data;
    assert_eq!((dry.reason, dry.candidates.unwrap().len()), (Some("dry_run"), 1));
    assert_eq!(accepted(&scene), ["overlays/instructions_base--d39861fff1/AGENTS.md"]);
}

#[test]
fn edits_of_skills_keep_their_place_and_mode() {
    let scene = Scene::deployed();
    scene.commit();
    // It is deployed three times; the edit is one.
    scene.write("home/.codex/skills/tidy/bin/run.sh", "#!/bin/sh\nexit 1\n");
    let data = propose(&scene, true).unwrap().data;
    assert_eq!(data.summary.unwrap().drifted_proposeable, 1);
    let proposed = propose(&scene, false).unwrap().data;
    scene.git("ap/repo", &["merge", "-q", &proposed.branch.unwrap()]);
    assert!(proposed.files[0].ends_with("/bin/run.sh"));
    assert_eq!(scene.mode(&format!("ap/repo/{}", proposed.files[0])) & 0o100, 0o100);
}

/// Weakness 23: a patch overlay gets a patch.
#[test]
fn an_edit_of_a_module_with_a_patch_overlay_stays_a_patch() {
    let scene = Scene::new();
    let base = "ap/repo/overlays/instructions_base--d39861fff1";
    scene.write(&format!("{base}/.agentpack/overlay.json"), "{\"overlay_kind\": \"patch\"}");
    let patch = "--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1 +1 @@\n-Be kind.\n+Be bold.\n";
    scene.write(&format!("{base}/.agentpack/patches/AGENTS.md.patch"), patch);
    scene.deploy();
    scene.commit();
    scene.write("home/.codex/AGENTS.md", "Be both.\n");
    assert_eq!(
        accepted(&scene),
        ["overlays/instructions_base--d39861fff1/.agentpack/patches/AGENTS.md.patch"]
    );
}

#[test]
fn an_edit_of_a_combined_file_goes_to_its_module() {
    let scene = Scene::new();
    let more = "  - id: instructions:work\n    type: instructions\n    tags: [base]\n    source: { local_path: { path: modules/work } }\n";
    scene.manifest(&format!("{MANIFEST}{more}"));
    scene.module("work/AGENTS.md", "Work.\n");
    scene.deploy();
    scene.commit();
    let text = scene.read("home/.codex/AGENTS.md");
    assert!(
        text.contains("<!-- agentpack:module=instructions:work -->\nWork.\n<!-- /agentpack -->"),
        "{text}"
    );
    scene.write("home/.codex/AGENTS.md", &text.replace("Work.", "Work hard."));
    let files = accepted(&scene);
    assert_eq!(files.len(), 1);
    assert!(files[0].contains("instructions_work--"), "{files:?}");
    scene.write("home/.codex/AGENTS.md", "no markers\n");
    let data = propose(&scene, false).unwrap().data;
    assert_eq!(data.reason, Some("no_proposeable_drift"));
    assert_eq!(data.skipped.unwrap()[0].reason_code, "multi_module_output");
}

/// What a plan would refuse is not committed first.
#[test]
fn an_edit_with_a_credential_is_not_proposed() {
    let scene = Scene::deployed();
    scene.commit();
    let token = ["ghp_Zk3v9QwT1rXb7LmN5p", "Yc2HsDf8GjKa4EuVoR"].concat();
    scene.write("home/.codex/AGENTS.md", &format!("Push with {token}.\n"));
    let data = propose(&scene, false).unwrap().data;
    assert_eq!((data.created, data.reason), (false, Some("no_proposeable_drift")));
    scene.write("home/.codex/prompts/review.md", "Review it well.\n");
    let data = propose(&scene, false).unwrap().data;
    assert_eq!(data.files.len(), 1, "{:?}", data.files);
    let skipped = data.skipped.expect("it is told beside what was proposed");
    assert_eq!(skipped[0].reason_code, "secret_in_module");
    assert!(skipped[0].suggestions[0].action.contains("home/.codex/AGENTS.md"), "{skipped:?}");
    let branch = data.branch.unwrap();
    assert!(!scene.git("ap/repo", &["log", "-p", &branch]).contains(&token));
    // A module of a combined file is looked at by itself.
    let more = "  - id: instructions:work\n    type: instructions\n    tags: [base]\n    source: { local_path: { path: modules/work } }\n";
    scene.manifest(&format!("{MANIFEST}{more}"));
    scene.module("work/AGENTS.md", "Work.\n");
    scene.try_deploy(true).unwrap();
    scene.commit();
    let text = scene.read("home/.codex/AGENTS.md").replace("Work.", "Work hard.");
    scene.write("home/.codex/AGENTS.md", &text.replace("Be kind.", &token));
    let data = propose(&scene, false).unwrap().data;
    assert!(data.files[0].contains("instructions_work--") && data.files.len() == 1, "{data:?}");
    let skipped = data.skipped.unwrap();
    assert_eq!(skipped[0].module_id.as_deref(), Some("instructions:base"));
}

#[test]
fn an_edit_of_a_cursor_rule_goes_back_without_its_head() {
    let scene = Scene::new();
    scene.manifest(&MANIFEST.replace(
        "  codex: { mode: files, scope: user }",
        "  cursor: { mode: files, scope: project }",
    ));
    scene.deploy();
    scene.commit();
    let rule = "project/.cursor/rules/instructions_base--d39861fff1.mdc";
    let text = scene.read(rule);
    assert!(text.starts_with(
        "---\ndescription: \"agentpack: instructions:base\"\nglobs: []\nalwaysApply: true\n---\n\n"
    ));
    scene.write(rule, &text.replace("Be kind.", "Be curious."));
    accepted(&scene);
    assert_eq!(
        scene.read("ap/repo/overlays/instructions_base--d39861fff1/AGENTS.md"),
        "Be curious.\n"
    );
}

#[test]
fn a_proposal_needs_a_clean_repository() {
    let scene = Scene::deployed();
    scene.write("home/.codex/AGENTS.md", "edited\n");
    refused(propose(&scene, false), Code::GitRepoRequired);
    scene.commit();
    scene.write("ap/repo/notes.txt", "x");
    refused(propose(&scene, false), Code::GitWorktreeDirty);
    fs::remove_file(scene.at("ap/repo/notes.txt")).unwrap();
    let options = |branch: &str| ProposeOptions {
        module_id: None,
        scope: OverlayScope::Global,
        branch: Some(branch.to_owned()),
        dry_run: false,
        yes: true,
    };
    for branch in ["--orphan", "a..b", "-x", "a b"] {
        let outcome =
            commands::evolve_propose(&scene.surroundings(), &Request::default(), &options(branch));
        refused(outcome, Code::ConfigInvalid);
    }
}

#[test]
fn missing_files_are_put_back_and_no_other() {
    let scene = Scene::deployed();
    let restore = |dry_run| {
        commands::evolve_restore(&scene.surroundings(), &Request::default(), None, dry_run, true)
    };
    assert_eq!(restore(false).unwrap().data.reason, "no_missing");
    scene.write("home/.codex/AGENTS.md", "edited\n");
    fs::remove_dir_all(scene.at("home/.codex/skills")).unwrap();
    let dry = restore(true).unwrap().data;
    assert_eq!((dry.reason, dry.summary.missing, dry.summary.restored), ("dry_run", 2, 0));
    let data = restore(false).unwrap().data;
    assert_eq!((data.reason, data.summary.restored), ("restored", 2));
    assert_eq!(scene.mode("home/.codex/skills/tidy/bin/run.sh") & 0o100, 0o100);
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "edited\n");
    fs::remove_file(scene.at("home/.codex/prompts/review.md")).unwrap();
    let outcome =
        commands::evolve_restore(&scene.surroundings(), &Request::default(), None, false, false);
    refused(outcome, Code::ConfirmRequired);
    assert!(!scene.exists("home/.codex/prompts/review.md"));
}
