//! Env-only mode: no store, no person, values from the environment, and nobody is asked.

use serde_json::json;

use crate::world::World;

const MANIFEST: &str = "required = [\"team/github/token\"]\noptional = [\"team/openai/api-key\"]\n";
#[test]
fn a_job_uses_what_its_environment_holds_and_never_holds_it() {
    let mut world = World::empty();
    let origin = world.origin("api.github.com");
    world.declares(MANIFEST);
    let script = "case \"$GITHUB_TOKEN\" in kloak_*|github_pat_*) ;; *) exit 9;; esac; \
                  curl -sS -o /dev/null -H \"Authorization: Bearer $GITHUB_TOKEN\" https://api.github.com/user";
    let run = |variable: &str| {
        world
            .agent_sh(script)
            .env("KEYLESS_CI", "1")
            .env_with_value(variable, world.canary.value())
            .run()
    };
    run("GITHUB_TOKEN").ok();
    run("KEYLESS_SECRET__TEAM__GITHUB__TOKEN").ok();
    world.assert_received(&origin);
    assert_eq!(origin.requests().len(), 2);
}

/// A service may have tokens of several forms; a client may check which one it is given.
#[test]
fn a_placeholder_looks_like_the_value_that_it_stands_for() {
    let world = World::empty();
    world.declares(MANIFEST);
    let token = world.github_token();
    let shown = world
        .agent_sh("printf %s \"$GITHUB_TOKEN\"")
        .env("KEYLESS_CI", "1")
        .env_with_value("GITHUB_TOKEN", &token)
        .run()
        .ok();
    assert!(shown.starts_with("ghp_") && shown.len() == token.len() && shown != token, "{shown}");
}

#[test]
fn what_is_missing_or_takes_a_person_is_told_at_once() {
    let world = World::empty();
    world.declares(MANIFEST);
    let missing = world.keyless(&["--ci", "run", "--json", "--", "true"]).run();
    let said = missing.exits(1).text() + &missing.errors();
    for name in ["KEYLESS_SECRET__TEAM__GITHUB__TOKEN", "GITHUB_TOKEN"] {
        assert!(said.contains(name), "{said}");
    }
    for command in [
        &["init"][..],
        &["secret", "list"],
        &["secret", "validate"],
        &["secret", "add", "a/b/c"],
        &["unlock"],
        &["approve"],
    ] {
        let refused =
            world.keyless(&[&["--json"], command].concat()).env("KEYLESS_CI", "true").run();
        assert_eq!(
            refused.exits(4).json()["errors"][0]["code"],
            json!("not_available_in_ci"),
            "{command:?}"
        );
    }
    let mcp = world.keyless(&["mcp"]).env("KEYLESS_CI", "1").stdin(concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#, "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"secrets_list","arguments":{}}}"#, "\n",
    ));
    let said = mcp.run().ok();
    assert!(said.contains("not-available-in-ci-mode") && said.contains("set_env_var"), "{said}");
}

/// Said before the command starts, since each use would fail later, in the midst of the job.
#[test]
fn a_value_that_no_request_could_carry_is_refused_at_the_start() {
    let world = World::empty();
    world.declares(MANIFEST);
    for (value, why) in [("k3y-0f7", "at least 8 bytes"), ("two\nlines-of-it", "CR, LF or NUL")] {
        let job = world.keyless(&["--ci", "run", "--no-jail", "--", "touch", "started"]);
        let errors = job.env_with_value("GITHUB_TOKEN", value).run().exits(2).errors();
        assert!(errors.contains("team/github/token: what GITHUB_TOKEN has"), "{errors}");
        assert!(errors.contains(why) && !errors.contains(value), "{errors}");
        assert!(!world.home.work().join("started").exists());
    }
}

#[test]
fn a_variable_with_a_slip_in_its_name_is_told() {
    let world = World::empty();
    world.declares(MANIFEST);
    let run = |name: &str| {
        let job = world.keyless(&["--ci", "run", "--no-jail", "--", "true"]);
        job.env_with_value(name, world.canary.value()).run()
    };
    let missing = run("KEYLESS_SECRET__TEAM__GITHUB__TOKN").exits(1).errors();
    let (slip, meant) = (
        "nothing reads the variable KEYLESS_SECRET__TEAM__GITHUB__TOKN",
        "KEYLESS_SECRET__TEAM__GITHUB__TOKEN?",
    );
    assert!(missing.contains(slip) && missing.contains(meant), "{missing}");
    let job = world.keyless(&["--ci", "run", "--no-jail", "--", "true"]);
    let job = job.env("KEYLESS_SECRET_TO__TEAM__GITHUB", "evil.test");
    let seen = job.env_with_value("GITHUB_TOKEN", world.canary.value()).run();
    seen.ok();
    assert!(
        seen.errors().contains("KEYLESS_SECRET_TO__TEAM__GITHUB: it belongs to no"),
        "{}",
        seen.errors()
    );
    let fine = run("KEYLESS_SECRET__TEAM__GITHUB__TOKEN");
    fine.ok();
    assert!(!fine.errors().contains("nothing reads"), "{}", fine.errors());
}

/// What the operator says of a secret holds whether the project declares it or not.
#[test]
fn a_secret_that_is_only_named_is_as_careful_as_the_operator_says() {
    let world = World::empty();
    world.declares("");
    let write = |name: &str, text: &str| {
        let home = world.home.keyless_home();
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join(name), text).unwrap();
    };
    let run = || {
        let command = ["--ci", "run", "--no-jail", "--secret", "team/github/token", "--", "true"];
        world.keyless(&command).env_with_value("GITHUB_TOKEN", world.canary.value()).run()
    };
    run().ok();
    let policy = "[secret.\"team/github/token\"]\napprove_on_use = \"per-call\"\n";
    for (name, text) in [
        ("index.toml", policy),
        ("index.toml", &policy.replace("per-call", "per-cal")),
        ("config.toml", "[unlock]\nprofile = \"strict\"\n"),
    ] {
        write(name, text);
        assert!(run().exits(4).errors().contains("takes a person's word"), "{name}: {text}");
        write(name, "");
    }
    run().ok();
}

/// A service that runs jobs is noticed and changes nothing.
#[test]
fn the_doctor_tells_the_mode() {
    let world = World::empty();
    let mode = |name: &str, value: &str| {
        let answer = world.keyless(&["doctor", "--json"]).env(name, value).run().json();
        let checks = answer["data"]["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["id"] == "machine.mode")
    };
    let state = |check: Option<serde_json::Value>| check.map(|check| check["state"].clone());
    let on = mode("KEYLESS_CI", "1").unwrap();
    assert_eq!(on["state"], json!("ok"));
    // Where values are looked for, in that order.
    let found = on["found"].as_str().unwrap();
    let at = |words: &str| found.find(words).unwrap_or_else(|| panic!("{words}: {found}"));
    assert!(at("env-only") < at("index.toml") && at("KEYLESS_SECRET__") < at("catalog"), "{found}");
    assert_eq!(state(mode("KEYLESS_CI", "Yes")), Some(json!("ok")));
    assert_eq!(state(mode("KEYLESS_CI", "off")), None);
    assert_eq!(state(mode("GITHUB_ACTIONS", "true")), Some(json!("note")));
    assert_eq!(state(mode("UNRELATED", "1")), None);
}

/// A job has no store to look into, and nobody to ask.
#[test]
fn what_helps_in_a_job_can_be_done_in_one() {
    let world = World::empty();
    let told = |words: &[&str]| {
        let seen = world.keyless(words).env("KEYLESS_CI", "1").env("GITHUB_TOKEN", "ghp_0").run();
        seen.text() + &seen.errors()
    };
    let undeclared = told(&["run", "--", "true"]);
    assert!(undeclared.contains("a job has what .keyless/secrets.toml declares"), "{undeclared}");
    world.declares(MANIFEST);
    let policy = "[secret.\"team/github/token\"]\napprove_on_use = \"per-call\"\n";
    world.home.write("keyless/index.toml", policy).unwrap();
    for words in [&["run", "--", "true"][..], &["doctor"]] {
        let told = told(words);
        assert!(told.contains("leave that secret out of the job"), "{told}");
        assert!(!told.contains("keyless approve") && !told.contains("set the variables"), "{told}");
    }
}
