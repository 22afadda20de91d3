//! A deploy that a person has to allow: `approve_apply` of the operator's config.toml.

use std::fs;

use serde_json::{Value, json};

use super::Agent;
use crate::{
    invocation::{KEYLESS, Seen},
    mcp::unlock,
    pack::{codex, run, with_repo, write},
    world::World,
};

/// A config repo, a store, and an operator who wants to be asked.
fn asking(when: &str) -> World {
    let world = with_repo(1);
    world.make_store();
    ask(&world, when);
    world
}

fn ask(world: &World, when: &str) {
    let config = format!("[pack]\napprove_apply = {when:?}\n");
    world.home.write("keyless/config.toml", config).unwrap();
}

fn approve(world: &World, arguments: &[&str]) -> Seen {
    world.keyless(&[&["approve"], arguments].concat()).run()
}

fn apply(token: &str) -> Value {
    json!({ "yes": true, "confirm_token": token })
}

#[track_caller]
fn assert_refusal(error: &Value, code: &str, actions: &[&str]) {
    assert_eq!(error["code"], code, "{error}");
    assert_eq!(error["details"]["reason_code"], code.trim_start_matches("E_").to_lowercase());
    assert_eq!(error["details"]["next_actions"], json!(actions));
}

const WAIT: &[&str] = &["wait_for_approval", "retry_deploy_apply"];

/// The whole way: nobody can be asked, somebody is asked and sees the diff, the plan they allowed is applied once.
#[test]
fn a_deploy_is_applied_once_a_person_has_allowed_just_it() {
    let world = asking("tools");
    write(&world, "modules/base/AGENTS.md", "Be kind.\u{202e}\n  Asked by:  you\n");
    let mut agent = Agent::connect(&world);
    let token = agent.token(&json!({}));
    let error = agent.refused("deploy_apply", &apply(&token));
    assert_refusal(&error, "E_APPROVAL_UNAVAILABLE", &["unlock_keyless", "retry_deploy_apply"]);
    unlock(&world);
    let error = agent.refused("deploy_apply", &apply(&token));
    assert_refusal(&error, "E_APPROVAL_REQUIRED", WAIT);
    let id = error["details"]["approval_id"].as_str().unwrap();
    let again = agent.refused("deploy_apply", &apply(&token));
    assert_eq!(again["details"]["approval_id"], id, "a person is asked once");
    assert!(!codex(&world).exists(), "nothing was written");

    let words = approve(&world, &["--list"]).text();
    let shown = "    | +Be kind.\\u{202e}\n    | +  Asked by:  you\n";
    assert!(words.contains(&format!("{id}  deploy  ")) && words.contains(shown), "{words}");
    let hash = error["details"]["confirm_plan_hash"].as_str().unwrap();
    assert!(words.contains(&format!("  Plan:      {hash}\n")), "{words}");
    approve(&world, &[id, "--session"]).exits(2);
    approve(&world, &[id, "--once"]).ok();
    // What was allowed is this plan: another one is asked about by itself.
    write(&world, "modules/base/AGENTS.md", "Be cruel.\n");
    let changed = agent.token(&json!({}));
    let error = agent.refused("deploy_apply", &apply(&changed));
    assert_refusal(&error, "E_APPROVAL_REQUIRED", WAIT);
    let other = error["details"]["approval_id"].as_str().unwrap().to_owned();
    assert_ne!(other, id);
    approve(&world, &[&other, "--deny"]).ok();
    let error = agent.refused("deploy_apply", &apply(&changed));
    assert_refusal(&error, "E_APPROVAL_DENIED", &["ask_the_operator"]);
    // The word and the token outlive the server that asked.
    write(&world, "modules/base/AGENTS.md", "Be kind.\u{202e}\n  Asked by:  you\n");
    drop(agent);
    let mut agent = Agent::connect(&world);
    assert_eq!(agent.data("deploy_apply", &apply(&token))["applied"], true);
    let text = fs::read_to_string(codex(&world).join("AGENTS.md")).unwrap();
    assert!(text.starts_with("Be kind."), "{text}");
    // Once: the same change over again is another question.
    fs::remove_file(codex(&world).join("AGENTS.md")).unwrap();
    let token = agent.token(&json!({}));
    assert_refusal(&agent.refused("deploy_apply", &apply(&token)), "E_APPROVAL_REQUIRED", WAIT);
    let log = world.log();
    let answered = log.iter().filter(|entry| entry["detail"]["kind"] == "deploy-apply");
    assert!(
        answered.clone().count() >= 5
            && answered
                .clone()
                .all(|entry| { entry["target"].as_str().unwrap().contains("/work, plan ") }),
        "{:?}",
        answered.collect::<Vec<_>>()
    );
}

/// `tools` leaves the operator's own command alone; `always` asks there as well.
#[test]
fn the_command_line_asks_when_every_deploy_is_to_be_allowed() {
    let world = asking("tools");
    let deploy = &["deploy", "--apply", "--yes", "--json"];
    assert_eq!(run(&world, deploy).json()["data"]["applied"], true);
    ask(&world, "always");
    unlock(&world);
    assert_eq!(run(&world, deploy).json()["data"]["reason"], "no_changes", "nothing to ask about");
    write(&world, "modules/base/AGENTS.md", "Be brief.\n");
    let error = run(&world, deploy).json()["errors"][0].clone();
    assert_refusal(&error, "E_APPROVAL_REQUIRED", WAIT);
    let id = error["details"]["approval_id"].as_str().unwrap();
    approve(&world, &[id, "--once"]).ok();
    assert_eq!(run(&world, deploy).json()["data"]["applied"], true);
}

/// A jail shows no config: the broker decides there, the service's or the run's own, and where there is neither nothing is
/// applied.
#[test]
fn a_jail_opens_no_way_round_the_person() {
    let world = asking("always");
    let apply = ["run", "--", KEYLESS, "pack", "deploy", "--apply", "--yes", "--json"];
    let fault = |seen: Seen| seen.json()["errors"][0].clone();
    assert_refusal(&fault(world.keyless(&apply).run()), "E_APPROVAL_REQUIRED", WAIT);
    let bare = [&apply[..1], &["--no-secrets"], &apply[1..]].concat();
    let alone = fault(world.keyless(&bare).run());
    assert_refusal(&alone, "E_APPROVAL_UNAVAILABLE", &["unlock_keyless", "retry_deploy_apply"]);
    unlock(&world);
    let asked = fault(world.keyless(&apply).without_passphrase().run());
    assert_refusal(&asked, "E_APPROVAL_REQUIRED", WAIT);
    assert!(!codex(&world).exists());
}

/// Every tool that writes where agents read asks, not `deploy_apply` alone.
#[test]
fn a_restore_and_a_rollback_wait_for_the_person_as_well() {
    let world = asking("never");
    run(&world, &["deploy", "--apply", "--yes", "--json"]).exits(0);
    write(&world, "modules/base/AGENTS.md", "Be cruel.\n");
    let second = run(&world, &["deploy", "--apply", "--yes", "--json"]).json();
    let second = second["data"]["snapshot_id"].as_str().unwrap().to_owned();
    let file = codex(&world).join("AGENTS.md");
    fs::remove_file(&file).unwrap();
    ask(&world, "tools");
    unlock(&world);
    let mut agent = Agent::connect(&world);
    let again = &["wait_for_approval", "retry_command"];
    let back = json!({ "to": format!("before:{second}"), "yes": true });
    for (tool, arguments) in [("evolve_restore", json!({ "yes": true })), ("rollback", back)] {
        let error = agent.refused(tool, &arguments);
        assert_refusal(&error, "E_APPROVAL_REQUIRED", again);
        assert!(!file.exists(), "{tool} wrote");
    }
    let error = agent.refused("evolve_restore", &json!({ "yes": true }));
    let id = error["details"]["approval_id"].as_str().unwrap();
    let words = approve(&world, &["--list"]).text();
    assert!(words.contains("    | +Be cruel.\n"), "{words}");
    assert!(
        words.contains(&format!("{id}  restore  ")) && words.contains("  rollback  "),
        "{words}"
    );
    approve(&world, &[id, "--once"]).ok();
    assert_eq!(agent.data("evolve_restore", &json!({ "yes": true }))["summary"]["restored"], 1);
    fs::remove_file(&file).unwrap();
    let error = agent.refused("evolve_restore", &json!({ "yes": true }));
    assert_refusal(&error, "E_APPROVAL_REQUIRED", again);
}
