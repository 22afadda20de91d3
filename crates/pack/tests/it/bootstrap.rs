//! The operator's assets: installed beside what is deployed, and staying there.

use keyless_pack::{
    Answer, BootstrapData, BootstrapOptions, BootstrapScope, Code, Request, Result, Unwatched,
    commands,
};

use crate::scene::{Scene, refused};

fn bootstrap(scene: &Scene, scope: BootstrapScope, adopt: bool) -> Result<Answer<BootstrapData>> {
    let options = BootstrapOptions { scope, adopt, dry_run: false };
    commands::bootstrap(&scene.surroundings(), &Request::default(), options, true, &Unwatched)
}

fn status(scene: &Scene) -> keyless_pack::StatusData {
    commands::status(&scene.surroundings(), &Request::default(), &[]).unwrap().data
}

/// Weakness 24: the assets join the roots' manifests, and no later plan deletes them.
#[test]
fn bootstrap_leaves_what_is_deployed_managed_and_later_plans_keep_it() {
    let scene = Scene::deployed();
    let told = status(&scene).next_actions;
    assert!(told[0].starts_with("agentpack --target claude_code bootstrap --scope "), "{told:?}");
    let data = bootstrap(&scene, BootstrapScope::Both, false).unwrap().data;
    // Codex, user and project: the skill. Claude Code: nine commands in both; the user's skills are switched on.
    assert_eq!((data.applied, data.summary.create), (true, 2 + 2 * 9 + 1));
    assert_eq!(scene.changes(), Vec::<String>::new());
    let now = status(&scene);
    assert_eq!((now.drift.len(), now.next_actions.len()), (0, 0), "{:?}", now.next_actions);
    let again = bootstrap(&scene, BootstrapScope::Both, false).unwrap().data;
    assert_eq!((again.applied, again.reason), (false, Some("no_changes")));
    scene.module("ship.md", "---\ndescription: Ship it\n---\nShip now.\n");
    assert_eq!(
        scene.changes(),
        ["update home/.claude/commands/ship.md", "update project/.claude/commands/ship.md"]
    );
    scene.deploy();
    assert!(scene.exists("project/.claude/commands/ap-plan.md"));
    assert_eq!(scene.changes(), Vec::<String>::new());
}

/// Also where the target's options write nothing else, so that its root would count as left behind.
#[test]
fn assets_stay_in_roots_that_nothing_else_is_written_to() {
    let scene = Scene::new();
    let manifest = crate::scene::MANIFEST.replace(
        "codex: { mode: files, scope: user }",
        "codex: { mode: files, scope: user, options: { write_user_skills: false } }",
    );
    scene.manifest(&manifest);
    scene.deploy();
    bootstrap(&scene, BootstrapScope::User, false).unwrap();
    assert!(scene.exists("home/.codex/skills/agentpack-operator/SKILL.md"));
    assert_eq!(scene.changes(), Vec::<String>::new());
    scene.write("home/.codex/skills/mine/SKILL.md", "mine");
    assert_eq!(status(&scene).drift.len(), 0, "nobody watches a root that is switched off");
    assert!(scene.try_deploy(false).unwrap().data.reason.is_some(), "nothing to do");
}

/// Weakness 25: a file of the user's is not overwritten without the word, and comes back.
#[test]
fn bootstrap_adopts_only_with_consent_and_is_taken_back() {
    let scene = Scene::deployed();
    scene.write("home/.claude/commands/ap-plan.md", "mine\n");
    let before = scene.picture("home");
    let error = refused(bootstrap(&scene, BootstrapScope::User, false), Code::AdoptConfirmRequired);
    assert_eq!(error.details()["adopt_updates"], 1);
    assert_eq!(scene.picture("home"), before);
    let id = bootstrap(&scene, BootstrapScope::User, true).unwrap().data.snapshot_id.unwrap();
    assert!(scene.read("home/.claude/commands/ap-plan.md").contains("keyless pack plan"));
    // A deploy after it is no obstacle, and the bootstrap's own state deletes no module.
    scene.module("review.md", "Review that.\n");
    scene.deploy();
    scene.rollback(&id);
    assert_eq!(scene.read("home/.codex/prompts/review.md"), "Review this.\n");
    assert!(scene.exists("home/.claude/commands/ap-doctor.md"));
    scene.rollback(&format!("before:{id}"));
    assert_eq!(scene.read("home/.claude/commands/ap-plan.md"), "mine\n");
    assert!(!scene.exists("home/.claude/commands/ap-doctor.md"));
    assert!(scene.exists("home/.claude/commands/ship.md"));
}

#[test]
fn a_module_of_the_same_id_takes_the_place_of_an_asset() {
    let scene = Scene::new();
    scene.manifest(&crate::scene::MANIFEST.replace("command:ship", "command:ap-plan"));
    bootstrap(&scene, BootstrapScope::Project, false).unwrap();
    assert!(!scene.exists("project/.claude/commands/ap-plan.md"));
    assert!(scene.exists("project/.claude/commands/ap-diff.md"));
}

#[test]
fn a_dry_run_and_a_missing_yes_write_nothing() {
    let scene = Scene::new();
    let options = BootstrapOptions { scope: BootstrapScope::Both, adopt: false, dry_run: true };
    let at = scene.surroundings();
    let before = scene.picture("");
    let answer = commands::bootstrap(&at, &Request::default(), options, false, &Unwatched).unwrap();
    assert_eq!(answer.data.reason, Some("dry_run"));
    assert!(answer.data.summary.create > 0);
    let options = BootstrapOptions { dry_run: false, ..options };
    let refused_call = commands::bootstrap(&at, &Request::default(), options, false, &Unwatched);
    refused(refused_call, Code::ConfirmRequired);
    assert_eq!(scene.picture(""), before);
}

/// A person's yes at a terminal is to the files that they saw.
#[test]
fn what_changes_while_a_person_is_asked_is_not_installed() {
    let scene = Scene::new();
    let (at, request) = (scene.surroundings(), Request::default());
    let options = BootstrapOptions { scope: BootstrapScope::User, adopt: true, dry_run: false };
    let skill = "home/.codex/skills/agentpack-operator/SKILL.md";
    let install =
        |hash: &str| commands::bootstrap_reviewed(&at, &request, options, hash, &Unwatched);
    let (shown, hash) = commands::bootstrap_for_review(&at, &request, options).unwrap();
    assert!(!shown.data.applied && !shown.data.changes.is_empty() && !scene.exists(skill));
    // Somebody else's, which was not there to be seen.
    scene.write(skill, "mine");
    refused(install(&hash), Code::PlanChanged);
    assert_eq!(scene.read(skill), "mine");
    let (_, hash) = commands::bootstrap_for_review(&at, &request, options).unwrap();
    assert!(install(&hash).unwrap().data.applied);
    assert_ne!(scene.read(skill), "mine");
}
