//! Sessions by the operator's commands: seen, looked into, ended.

use serde_json::json;

use crate::{
    invocation::KEYLESS,
    mcp::{Agent, unlocked},
    world::{ALLOWED, TOKEN, World},
};

fn open(world: &World) -> Vec<serde_json::Value> {
    let listed = world.keyless(&["session", "list", "--json"]).run().data();
    listed["sessions"].as_array().unwrap().clone()
}

#[test]
fn sessions_are_listed_looked_into_and_ended_by_command() {
    let world = unlocked();
    assert!(open(&world).is_empty());
    let mut agent = Agent::connect(&world);
    let reason = json!({ "path": TOKEN, "reason": "to look" });
    agent.tool("secrets_status", &json!({})).unwrap();
    let waits = "echo up; while read line; do echo; done";
    let mut run = world.keyless(&["run", "--", "sh", "-c", waits]).without_passphrase().start();
    assert_eq!(run.line(), "up");
    let sessions = open(&world);
    let of = |kind| sessions.iter().find(|one| one["kind"] == kind).unwrap();
    assert_eq!(of("run")["secrets"], json!([TOKEN]));
    let words = world.keyless(&["session", "list"]).run().ok();
    assert!(words.contains("keyless run") && words.contains("Tools of an agent"), "{words}");

    let id = of("run")["id"].as_str().unwrap();
    let shown = world.keyless(&["session", "show", id, "--json"]).run().data();
    assert_eq!(shown["entries"][0]["action"], "session_start");
    // Nobody is there to be asked.
    let unasked = world.keyless(&["session", "end", id]).run();
    assert!(unasked.exits(2).errors().contains("--yes"), "{}", unasked.errors());
    world.keyless(&["session", "end", id, "--yes"]).run().ok();
    assert!(open(&world).iter().all(|one| one["kind"] == "tools"));
    world.keyless(&["session", "end", id, "--yes"]).run().exits(4);
    let tools = of("tools")["id"].as_str().unwrap();
    world.keyless(&["session", "end", tools, "--yes"]).run().ok();
    assert!(agent.tool("secrets_request_use_approval", &reason).is_err());
    let log = world.keyless(&["session", "show", id]).run().ok();
    assert!(log.contains("session_end"), "{log}");
    let nobody = world.keyless(&["session", "show", "nobody"]).run();
    assert!(nobody.exits(3).errors().contains("on record"), "{}", nobody.errors());
}

/// Its requests are refused from then on, and nobody would know why.
#[test]
fn a_command_that_outlives_its_session_is_told() {
    let world = unlocked();
    let run = |meanwhile: &str| {
        let script = format!(
            r#""$0" run -- sh -c 'echo up > up; while [ -e up ]; do sleep 0.05; done' &
            while [ ! -e up ]; do sleep 0.05; done; {meanwhile}; rm up; wait $!"#
        );
        let run = world.keyless(&[]).without_passphrase();
        run.instead(&["sh", "-c", &script, KEYLESS]).run()
    };
    let seen = run("true");
    assert_eq!((seen.ok().as_str(), seen.errors().as_str()), ("", ""));
    let seen = run(r#""$0" lock"#);
    seen.ok();
    assert!(seen.errors().contains("the session was over before"), "{}", seen.errors());
}

/// A run that opened the store by itself is under the operator's commands all the same.
#[test]
fn a_run_with_a_factor_of_its_own_is_seen_and_ended() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    let run = |end: &str| {
        let script = format!(
            r#""$0" run -- sh -c 'echo up > up; while [ -e up ]; do sleep 0.05; done; curl -sS https://{ALLOWED}/ || echo refused' &
            while [ ! -e up ]; do sleep 0.05; done
            "$0" session list --json > list; {end}; rm up; wait $!"#
        );
        world.keyless(&[]).instead(&["sh", "-c", &script, KEYLESS]).run()
    };
    let listed = || {
        let text = std::fs::read_to_string(world.home.work().join("list")).unwrap();
        let listed: serde_json::Value = serde_json::from_str(&text).unwrap();
        listed["data"]["sessions"].clone()
    };
    let went_on = run("true");
    assert!(!went_on.ok().contains("refused") && went_on.errors().is_empty());
    assert_eq!((&listed()[0]["kind"], &listed()[0]["secrets"]), (&json!("run"), &json!([TOKEN])));
    assert_eq!(origin.requests().len(), 1);
    assert!(open(&world).is_empty());
    let by_name = r#""$0" session end --yes $(grep -o 's-[0-9a-f-]*' list | head -1) > ended"#;
    for end in [r#""$0" lock > ended"#, by_name] {
        let seen = run(&format!("{end}; sleep 1"));
        assert!(seen.ok().contains("refused"), "{}", seen.errors());
        assert!(seen.errors().contains("the session was over before"), "{}", seen.errors());
        assert_eq!(origin.requests().len(), 1);
    }
}
