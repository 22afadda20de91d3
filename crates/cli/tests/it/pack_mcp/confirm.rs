//! Requirements "Deploy uses a two-stage confirmation token for apply" and its refusals.

use std::fs;

use serde_json::{Value, json};

use super::{Agent, repo};
use crate::{
    pack::{codex, fill, with_repo, write},
    world::World,
};

fn apply(token: &str) -> Value {
    json!({ "yes": true, "confirm_token": token })
}

#[track_caller]
fn assert_token_refusal(error: &Value, code: &str) {
    assert_eq!(error["code"], code, "{error}");
    let reason = code.trim_start_matches("E_").to_lowercase();
    assert_eq!(error["details"]["reason_code"], reason);
    assert_eq!(error["details"]["next_actions"], json!(["call_deploy", "retry_deploy_apply"]));
}

/// Scenario "deploy tool returns a confirm_token"; the token outlives its server, and works once.
#[test]
fn a_token_applies_the_reviewed_plan_once_and_outlives_its_server() {
    let world = with_repo(1);
    let data = Agent::connect(&world).data("deploy", &json!({}));
    let token = data["confirm_token"].as_str().unwrap();
    let hash = data["confirm_plan_hash"].as_str().unwrap();
    assert!(hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{hash}");
    assert!(data["confirm_token_expires_at"].is_string() && data["applied"] == false);
    assert!(!codex(&world).exists());
    let mut other = Agent::connect(&world);
    // Leaving a default out and naming it are one.
    let named = json!({ "yes": true, "confirm_token": token, "profile": "default", "target": "all", "adopt": false });
    assert_eq!(other.data("deploy_apply", &named)["applied"], true);
    assert!(codex(&world).join("AGENTS.md").exists());
    assert_token_refusal(&other.refused("deploy_apply", &apply(token)), "E_CONFIRM_TOKEN_MISMATCH");
}

/// Scenarios "deploy_apply with mismatched token is refused" and "… includes refusal details", and its siblings.
#[test]
fn tokens_that_are_missing_unknown_foreign_outdated_or_expired_are_refused() {
    let world = with_repo(1);
    let mut agent = Agent::connect(&world);
    for none in [json!({ "yes": true }), json!({ "yes": true, "confirm_token": null }), apply("")] {
        assert_token_refusal(&agent.refused("deploy_apply", &none), "E_CONFIRM_TOKEN_REQUIRED");
    }
    let unknown = agent.refused("deploy_apply", &apply(&"0".repeat(64)));
    assert_token_refusal(&unknown, "E_CONFIRM_TOKEN_MISMATCH");
    let token = agent.token(&json!({}));
    let foreign = json!({ "yes": true, "confirm_token": token, "machine": "another" });
    assert_token_refusal(&agent.refused("deploy_apply", &foreign), "E_CONFIRM_TOKEN_MISMATCH");
    write(&world, "modules/base/AGENTS.md", "Changed since the review.\n");
    let outdated = agent.refused("deploy_apply", &apply(&token));
    assert_token_refusal(&outdated, "E_CONFIRM_TOKEN_MISMATCH");
    let details = &outdated["details"];
    assert_ne!(details["confirm_plan_hash"], details["expected_confirm_plan_hash"]);
    let token = agent.token(&json!({}));
    expire_tokens(&world);
    for _ in 0..2 {
        let expired = agent.refused("deploy_apply", &apply(&token));
        assert_token_refusal(&expired, "E_CONFIRM_TOKEN_EXPIRED");
    }
    assert!(!codex(&world).exists(), "nothing was written");
}

/// Ten minutes later, as far as the state file knows.
fn expire_tokens(world: &World) {
    let file = world.home.home().join(".agentpack/state/confirm.json");
    let mut state: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    for row in state["tokens"].as_array_mut().unwrap() {
        row["expires_at"] = json!("2026-01-01T00:00:00.000000000Z");
    }
    fs::write(file, state.to_string()).unwrap();
}

/// Requirement "Adopt-confirm refusals are machine-actionable", with its scenario.
#[test]
fn adopting_needs_its_own_word() {
    let world = with_repo(1);
    world.home.write("home/.codex/AGENTS.md", "mine\n").unwrap();
    let mut agent = Agent::connect(&world);
    let token = agent.token(&json!({}));
    let error = agent.refused("deploy_apply", &apply(&token));
    assert_eq!(error["code"], "E_ADOPT_CONFIRM_REQUIRED");
    assert_eq!(error["details"]["reason_code"], "adopt_confirm_required");
    assert_eq!(error["details"]["next_actions"], json!(["retry_with_adopt"]));
    assert_eq!(fs::read_to_string(codex(&world).join("AGENTS.md")).unwrap(), "mine\n");
    let adopt = json!({ "yes": true, "confirm_token": token, "adopt": true });
    assert_eq!(agent.data("deploy_apply", &adopt)["applied"], true);
    assert_eq!(fs::read_to_string(codex(&world).join("AGENTS.md")).unwrap(), "Be kind.\n");
}

/// A failed review gives nothing to apply.
#[test]
fn no_token_comes_with_an_error() {
    let world = with_repo(1);
    fs::remove_dir_all(repo(&world).join("modules/base")).unwrap();
    let result = Agent::connect(&world).result("deploy", &json!({}));
    assert_eq!(
        (&result["isError"], &result["structuredContent"]["data"]),
        (&json!(true), &json!({}))
    );
    assert!(!world.home.home().join(".agentpack/state/confirm.json").exists());
}

/// Two applies with one token at once: they take turns, one applies, and it tells how far it is.
#[test]
fn applies_take_turns_and_tell_their_progress() {
    let world = with_repo(200);
    fill(&world, 200, "first");
    let mut agent = Agent::connect(&world);
    let token = agent.token(&json!({}));
    let call = json!({ "name": "deploy_apply", "arguments": apply(&token) });
    let answers = agent.together(&json!([call, call]));
    let (won, lost): (Vec<&Value>, Vec<&Value>) =
        answers.iter().partition(|answer| answer["result"]["isError"] == false);
    assert_eq!((won.len(), lost.len()), (1, 1), "{answers:?}");
    let error = &lost[0]["result"]["structuredContent"]["errors"][0];
    assert_eq!(error["code"], "E_CONFIRM_TOKEN_MISMATCH");
    let steps = won[0]["progress"].as_array().unwrap();
    let done: Vec<f64> = steps.iter().map(|step| step[0].as_f64().unwrap()).collect();
    assert!(!done.is_empty() && done.is_sorted_by(|a, b| a < b), "{done:?}");
    let end = steps.last().unwrap();
    assert_eq!(end[0], end[1], "it was told to the end: {end}");
}
