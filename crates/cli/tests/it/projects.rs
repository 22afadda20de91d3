//! A project's manifest, merged with what the operator knows, as `secret validate` tells it; and
//! aliases in the environment of a command.

use serde_json::json;

use crate::world::{ALLOWED, TOKEN, VARIABLE, World};

fn manifest(world: &World, text: &str) {
    world.home.write("work/.keyless/secrets.toml", text).unwrap();
}

#[test]
fn what_is_needed_and_there_is_told_by_path() {
    let world = World::with_store();
    let options = ["--approve-on-use", "session", "--expires", "2999-01-31"];
    world.add(TOKEN, &[&["--to", ALLOWED, "--env", VARIABLE], &options[..]].concat()).ok();
    manifest(
        &world,
        "required = [\"team/api/token\", \"team/Bad\"]\noptional = [\"team/x/other\"]\n\
         [overrides.\"team/api/token\"]\napprove_on_use = \"never\"",
    );
    let seen = world.keyless(&["secret", "validate", "--values", "--json"]).run();
    let answer = seen.exits(1).json();
    let rows = [
        json!({ "path": TOKEN, "required": true, "origin": "operator", "state": "registered",
            "expires_at": "2999-01-31", "approve_on_use": "session", "fault": null }),
        json!({ "path": "team/x/other", "required": false, "origin": "bare", "state": "unknown",
            "expires_at": null, "approve_on_use": "never", "fault": null }),
    ];
    assert_eq!(answer["data"]["secrets"], json!(rows));
    let fault = "required[1]: 2 of at least 3 segments (project/category/name)";
    assert_eq!(answer["data"]["faults"], json!([fault]));
    assert_eq!(answer["warnings"].as_array().unwrap().len(), 2, "{answer}");

    manifest(&world, "required = [\"team/api/token\"]");
    world.keyless(&["secret", "validate"]).run().ok();
    world.keyless(&["secret", "set", TOKEN, "--expires", "2020-01-01"]).run().ok();
    let text = world.keyless(&["secret", "validate"]).run();
    assert!(text.exits(1).text().contains("expired"), "{}", text.text());
}

#[test]
fn no_manifest_and_a_broken_one_are_told() {
    let world = World::with_store();
    world.keyless(&["secret", "validate"]).run().exits(3);
    manifest(&world, "required = [");
    let answer = world.keyless(&["secret", "validate", "--json"]).run();
    assert_eq!(answer.exits(2).json()["errors"][0]["code"], json!("manifest_invalid"));
}

#[test]
fn an_alias_in_the_environment_becomes_a_placeholder() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    world.add(TOKEN, &["--to", ALLOWED]).ok();
    let script =
        r#"echo "$MY_TOKEN"; curl -sS -o /dev/null -H "X: $MY_TOKEN" https://api.allowed.test/"#;
    let run = |alias: &str, options: &[&str]| {
        world.agent_with(options, &["sh", "-c", script]).env("MY_TOKEN", alias).run()
    };
    let alias = format!("@secret:{TOKEN}");
    assert!(run(&alias, &[]).ok().starts_with("kloak_"));
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
    run(&alias, &["--secret", TOKEN]).ok();
    run("@secret:team/api/other", &[]).exits(3);
    run("@secret:nonsense", &[]).exits(2);
    world.add("team/api/second", &["--to", ALLOWED, "--env", VARIABLE]).ok();
    let seen = run(&alias, &["--secret", "team/api/second"]);
    assert!(seen.exits(2).errors().contains("does not name with --secret"), "{}", seen.errors());
    assert_eq!(origin.requests().len(), 2);
}
