//! Confirm tokens: the plan that was reviewed is the plan that is applied, once.

use std::thread;

use keyless_pack::{Answer, Code, DeployData, Request, Result, Unwatched, commands};

use crate::scene::{Scene, refused};

fn reviewed(scene: &Scene) -> DeployData {
    commands::deploy_for_review(&scene.surroundings(), &Request::default()).unwrap().data
}

fn apply(
    scene: &Scene,
    request: &Request,
    token: Option<&str>,
    adopt: bool,
) -> Result<Answer<DeployData>> {
    let confirm_token = token.map(str::to_owned);
    let options = commands::ApplyOptions { adopt, dry_run: false, yes: true, confirm_token };
    commands::deploy_apply(&scene.surroundings(), request, &options, &Unwatched)
}

fn plain(scene: &Scene, token: Option<&str>) -> Result<Answer<DeployData>> {
    apply(scene, &Request::default(), token, false)
}

#[test]
fn a_reviewed_plan_is_applied_once() {
    let scene = Scene::new();
    let data = reviewed(&scene);
    let token = data.confirm_token.unwrap();
    assert_eq!(token.len(), 64);
    assert_eq!(data.confirm_plan_hash.unwrap().len(), 64);
    assert!(data.confirm_token_expires_at.unwrap().ends_with('Z'));
    assert!(!scene.read("ap/state/confirm.json").contains(&token), "only its digest is kept");
    assert!(plain(&scene, Some(&token)).unwrap().data.applied);
    let error = refused(plain(&scene, Some(&token)), Code::ConfirmTokenMismatch);
    assert_eq!(
        error.details()["next_actions"],
        serde_json::json!(["call_deploy", "retry_deploy_apply"])
    );
}

#[test]
fn leaving_a_default_out_and_naming_it_are_one() {
    let scene = Scene::new();
    let token = reviewed(&scene).confirm_token.unwrap();
    let named = Request {
        profile: Some("default".to_owned()),
        target: Some("all".to_owned()),
        ..Request::default()
    };
    assert!(apply(&scene, &named, Some(&token), false).unwrap().data.applied);
}

#[test]
fn missing_unknown_foreign_and_outdated_tokens_are_refused() {
    let scene = Scene::new();
    refused(plain(&scene, None), Code::ConfirmTokenRequired);
    refused(plain(&scene, Some("")), Code::ConfirmTokenRequired);
    refused(plain(&scene, Some(&"0".repeat(64))), Code::ConfirmTokenMismatch);
    let token = reviewed(&scene).confirm_token.unwrap();
    let other = Request { target: Some("codex".to_owned()), ..Request::default() };
    refused(apply(&scene, &other, Some(&token), false), Code::ConfirmTokenMismatch);
    scene.module("base/AGENTS.md", "Changed after the review.\n");
    let error = refused(plain(&scene, Some(&token)), Code::ConfirmTokenMismatch);
    assert_ne!(error.details()["confirm_plan_hash"], error.details()["expected_confirm_plan_hash"]);
    assert!(!scene.exists("home/.codex/AGENTS.md"));
    scene.module("base/AGENTS.md", "Be kind.\n");
    assert!(
        plain(&scene, Some(&token)).unwrap().data.applied,
        "a refusal does not use the token up"
    );
}

#[test]
fn a_file_that_became_executable_after_the_review_is_another_plan() {
    let scene = Scene::new();
    let token = reviewed(&scene).confirm_token.unwrap();
    scene.chmod("ap/repo/modules/tidy/SKILL.md", 0o755);
    refused(plain(&scene, Some(&token)), Code::ConfirmTokenMismatch);
    assert!(!scene.exists("home/.codex"));
    scene.chmod("ap/repo/modules/tidy/SKILL.md", 0o644);
    assert!(plain(&scene, Some(&token)).unwrap().data.applied);
}

#[test]
fn an_expired_token_says_so_each_time() {
    let scene = Scene::new();
    let token = reviewed(&scene).confirm_token.unwrap();
    let file = scene.read("ap/state/confirm.json");
    let mut value: serde_json::Value = serde_json::from_str(&file).unwrap();
    let past = "2020-01-01T00:00:00.000000000Z";
    value["tokens"][0]["expires_at"] = past.into();
    scene.write("ap/state/confirm.json", &value.to_string());
    refused(plain(&scene, Some(&token)), Code::ConfirmTokenExpired);
    refused(plain(&scene, Some(&token)), Code::ConfirmTokenExpired);
}

/// Weakness 4: what would be adopted is part of what was reviewed, and the word for it can follow.
#[test]
fn adopting_needs_its_own_word_and_leaves_the_token() {
    let scene = Scene::new();
    scene.write("home/.codex/AGENTS.md", "mine\n");
    let token = reviewed(&scene).confirm_token.unwrap();
    let error = refused(plain(&scene, Some(&token)), Code::AdoptConfirmRequired);
    assert_eq!(error.details()["reason_code"], "adopt_confirm_required");
    assert!(apply(&scene, &Request::default(), Some(&token), true).unwrap().data.applied);
    // A file that turns up after the review is not adopted on the strength of it.
    let scene = Scene::new();
    let token = reviewed(&scene).confirm_token.unwrap();
    scene.write("home/.codex/AGENTS.md", "mine\n");
    refused(apply(&scene, &Request::default(), Some(&token), true), Code::ConfirmTokenMismatch);
}

/// Weakness 2: one token, sent twice at once, applies once.
#[test]
fn one_token_is_good_for_one_of_many() {
    let scene = Scene::new();
    let token = reviewed(&scene).confirm_token.unwrap();
    let outcomes: Vec<bool> = thread::scope(|scope| {
        let calls: Vec<_> = (0..8).map(|_| scope.spawn(|| plain(&scene, Some(&token)))).collect();
        calls
            .into_iter()
            .map(|call| call.join().unwrap().is_ok_and(|answer| answer.data.applied))
            .collect()
    });
    assert_eq!(outcomes.iter().filter(|applied| **applied).count(), 1, "{outcomes:?}");
}

/// Weakness 1: bytes that nobody reviewed are never applied, whatever races.
#[test]
fn an_edit_that_races_the_apply_is_never_applied_unreviewed() {
    for _ in 0..20 {
        let scene = Scene::new();
        let token = reviewed(&scene).confirm_token.unwrap();
        thread::scope(|scope| {
            scope.spawn(|| scene.module("base/AGENTS.md", "Unreviewed.\n"));
            let _ = plain(&scene, Some(&token));
        });
        let deployed = scene.at("home/.codex/AGENTS.md");
        let text = std::fs::read_to_string(deployed).unwrap_or_default();
        assert!(text.is_empty() || text == "Be kind.\n", "{text}");
    }
}

#[test]
fn yes_comes_before_everything() {
    let scene = Scene::empty();
    let options = commands::ApplyOptions::default();
    let outcome =
        commands::deploy_apply(&scene.surroundings(), &Request::default(), &options, &Unwatched);
    refused(outcome, Code::ConfirmRequired);
    assert!(!scene.exists("ap/state"));
}

#[test]
fn a_failed_review_gives_no_token() {
    let scene = Scene::empty();
    refused(
        commands::deploy_for_review(&scene.surroundings(), &Request::default()),
        Code::ConfigMissing,
    );
    assert!(!scene.exists("ap/state/confirm.json"));
}

/// A person's yes at a terminal is to the diff that they saw.
#[test]
fn what_changes_while_a_person_is_asked_is_not_applied() {
    let scene = Scene::new();
    let (at, request) = (scene.surroundings(), Request::default());
    let options = commands::DeployOptions { apply: true, yes: true, ..Default::default() };
    let deploy = |hash: &str| commands::deploy_reviewed(&at, &request, options, hash, &Unwatched);
    let hash = commands::preview_for_review(&at, &request).unwrap().plan_hash;
    scene.module("base/AGENTS.md", "Never reviewed.\n");
    let error = refused(deploy(&hash), Code::PlanChanged);
    assert!(error.message().contains("nothing was written"), "{error}");
    assert!(!scene.exists("home/.codex/AGENTS.md"));
    let hash = commands::preview_for_review(&at, &request).unwrap().plan_hash;
    assert!(deploy(&hash).unwrap().data.applied);
    assert_eq!(scene.read("home/.codex/AGENTS.md"), "Never reviewed.\n");
}
