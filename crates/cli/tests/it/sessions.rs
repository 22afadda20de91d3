//! Sessions by the operator's commands: seen, looked into, ended.

use serde_json::json;

use crate::{
    invocation::KEYLESS,
    mcp::{Agent, unlocked},
    world::{TOKEN, World},
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
