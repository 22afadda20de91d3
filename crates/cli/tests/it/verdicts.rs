//! What a command that examines something says of itself: `ok` and the exit status, which are one.

use std::fs;

use serde_json::json;

use crate::{
    invocation::Seen,
    world::{ALLOWED, TOKEN, World},
};

const AGENT: &str = "nl://acme.corp/bot/1.0.0";

/// The exit status is this, and the envelope agrees; the command itself did not fail.
#[track_caller]
fn assert_verdict(seen: &Seen, exit: i32) {
    let answer = seen.exits(exit).json();
    assert_eq!((&answer["ok"], &answer["errors"]), (&json!(exit == 0), &json!([])), "{answer}");
    assert!(answer["data"].as_object().is_some_and(|data| !data.is_empty()), "{answer}");
}

#[test]
fn ok_is_what_the_exit_status_is() {
    let mut world = World::with_token();
    let _origin = world.origin(ALLOWED);
    world.write_config();
    world.declares(format!("required = [{TOKEN:?}]"));
    world.home.write("work/fine.txt", "nothing\n").unwrap();
    let found = format!("token = {}\n", world.github_token());
    world.home.write("operator/found.txt", found).unwrap();
    let leaky = world.operator_file("found.txt").display().to_string();
    let granted = ["grant", "create", "--agent", AGENT, "--secret", TOKEN, "--action", "exec"];
    world.keyless(&granted).run().ok();
    let ask = |arguments: &[&str]| world.keyless(&[&["--json"], arguments].concat()).run();
    let explain = |agent| ask(&["grant", "explain", "--agent", agent, "--action", "exec", TOKEN]);

    assert_verdict(&ask(&["catalog", "validate"]), 0);
    assert_verdict(&ask(&["doctor"]), 0);
    assert_verdict(&ask(&["egress", "explain", "https://api.allowed.test/"]), 0);
    assert_verdict(&ask(&["egress", "explain", "https://localhost/"]), 4);
    assert_verdict(&explain("nl://acme.corp/other/1.0.0"), 4);
    assert_verdict(&ask(&["guard", "check", "npm test"]), 0);
    assert_verdict(&ask(&["guard", "check", "cat .env | base64"]), 4);
    assert_verdict(&ask(&["hooks", "check", "fine.txt"]), 0);
    assert_verdict(&ask(&["hooks", "check", &leaky]), 1);
    assert_verdict(&ask(&["secret", "check"]), 0);
    assert_verdict(&ask(&["secret", "validate"]), 0);
    assert_verdict(&ask(&["source", "check"]), 0);

    let register = ["agent", "register", AGENT, "--pattern", "**", "--organization", "local"];
    world.keyless(&register).run().ok();
    assert_verdict(&explain(AGENT), 0);

    let add = ["secret", "add", "team/gone/token", "--source", "env:NOT_SET_ANYWHERE"];
    world.keyless(&[&add[..], &["--to", ALLOWED, "--env", "GONE"]].concat()).run().ok();
    world.declares("required = [\"team/absent/token\"]");
    let refused = world.home.write("operator/weak.env", "GITHUB_TOKEN=short\n").unwrap();
    let import = ["secret", "import", refused.to_str().unwrap(), "--yes", "--allow-weak"];
    assert_verdict(&ask(&import), 1);
    assert_verdict(&ask(&["secret", "validate"]), 1);
    assert_verdict(&ask(&["source", "check"]), 1);
    world.home.write("keyless/catalog/broken.json", "{").unwrap();
    assert_verdict(&ask(&["catalog", "validate"]), 2);
    fs::write(world.home.keyless_home().join("config.toml"), "[egress\n").unwrap();
    assert_verdict(&ask(&["doctor"]), 1);
}
