//! A project's manifest, merged with what the operator knows, as `secret validate` tells it; and
//! aliases in the environment of a command.

use std::fs;

use serde_json::{Value, json};

use crate::{
    invocation::KEYLESS,
    mcp::{Agent, unlock},
    world::{ALLOWED, TOKEN, VARIABLE, World},
};

#[test]
fn what_is_needed_and_there_is_told_by_path() {
    let world = World::with_store();
    let options = ["--approve-on-use", "session", "--expires", "2999-01-31"];
    world.add(TOKEN, &[&["--to", ALLOWED, "--env", VARIABLE], &options[..]].concat()).ok();
    world.declares(
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
    let fault = ".keyless/secrets.toml: required[1]: segment 2 has `B` in it, and takes a-z, 0-9 and single inner \
                 hyphens alone: project/category/name, such as team/github/token";
    assert_eq!(answer["data"]["faults"], json!([fault]));
    assert_eq!(answer["warnings"].as_array().unwrap().len(), 2, "{answer}");

    world.declares("required = [\"team/api/token\"]");
    world.keyless(&["secret", "validate"]).run().ok();
    world.keyless(&["secret", "set", TOKEN, "--expires", "2020-01-01"]).run().ok();
    let text = world.keyless(&["secret", "validate"]).run();
    assert!(text.exits(1).text().contains("expired"), "{}", text.text());
}

/// What a slip in a word says is not passed over: whoever uses the project's secrets is told, and a person is asked.
#[test]
fn a_misspelt_word_of_a_manifest_is_told_and_asks_a_person() {
    let world = World::with_token();
    world.declares(format!(
        "required = [{TOKEN:?}]\n[override.{TOKEN:?}]\napprove_on_use = \"per-call\"\n"
    ));
    let told = format!(
        ".keyless/secrets.toml: override.{TOKEN:?}: is unknown (did you mean overrides?); there are required, optional, \
         overrides, secret; a person is asked at each use"
    );
    let seen = world.agent(&["true"]).run();
    seen.ok();
    assert!(seen.errors().contains(&format!("warning: {told}")), "{}", seen.errors());
    let seen = world.keyless(&["mcp"]).without_passphrase().stdin("").run();
    assert!(seen.errors().contains(&told), "{}", seen.errors());
    let seen = world.keyless(&["secret", "validate", "--json"]).run();
    let row = &seen.exits(1).json()["data"]["secrets"][0];
    assert_eq!(row["approve_on_use"], "per-call", "{row}");
    let seen = world.keyless(&["--ci", "run", "--", "true"]).env(VARIABLE, "x").run();
    assert!(seen.errors().contains(&told), "{}", seen.errors());
}

/// Who has read a value, and when, is on record also where it went nowhere; what could not be had was not read.
#[test]
fn values_that_are_read_to_be_judged_are_on_record() {
    let world = World::with_token();
    world.add("team/b/other", &[]).ok();
    let gone = ["secret", "add", "team/c/gone", "--source", "env:NOT_THERE_AT_ALL"];
    world.keyless(&gone).run().ok();
    world.declares(format!("required = [{TOKEN:?}, \"team/c/gone\"]\n"));
    unlock(&world);
    let judged = || -> Vec<Value> {
        let log = world.log().into_iter();
        log.filter(|entry| entry["action"] == "validate").collect()
    };
    let mut agent = Agent::connect(&world);
    agent.tool("secrets_validate", &json!({ "path": TOKEN })).unwrap();
    agent.tool("secrets_validate", &json!({ "path": "team/c/gone" })).unwrap_err();
    world.keyless(&["secret", "validate"]).run().exits(0);
    world.keyless(&["secret", "validate", "--values"]).run().exits(1);
    world.keyless(&["source", "check", "team/c/gone"]).run().exits(1);
    world.keyless(&["source", "check"]).run().exits(1);
    let log = judged();
    let told: Vec<_> = log.iter().map(|one| (&one["detail"]["note"], &one["target"])).collect();
    assert_eq!(
        told,
        [
            (&json!("secrets_validate"), &json!(TOKEN)),
            (&json!("secret validate"), &json!(TOKEN)),
            (&json!("source check"), &json!(format!("{TOKEN},team/b/other"))),
        ],
        "{log:?}"
    );
    let who = |entry: &Value| entry["agent"]["session_id"].as_str().unwrap().to_owned();
    assert!(who(&log[0]).starts_with("m-"), "{log:?}");
    assert_eq!((who(&log[1]), who(&log[2])), ("operator".to_owned(), "operator".to_owned()));
    // It is no use: nobody was given the value.
    assert!(log.iter().all(|entry| entry["secrets_used"] == json!([])), "{log:?}");
}

#[test]
fn no_manifest_and_a_broken_one_are_told() {
    let world = World::with_store();
    world.keyless(&["secret", "validate"]).run().exits(3);
    world.declares("required = [");
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

/// A client that was started in a session starts its servers so, and hands them few variables of its own (the SDKs of MCP
/// hand on `PATH` and the like alone).
#[test]
fn a_run_in_a_session_joins_it() {
    let world = World::with_token();
    world.add("team/api/second", &["--to", ALLOWED, "--env", "SECOND"]).ok();
    let inner = |words: &[&str]| -> Vec<String> {
        let set =
            ["env", "-i", "PATH=/usr/bin:/bin", &format!("MINE=@secret:{TOKEN}"), KEYLESS, "run"];
        set.iter().chain(words).map(|word| (*word).to_owned()).collect()
    };
    let outer = |options: &[&str], inner: &[String]| {
        let script = ["echo $TOKEN; exec \"$0\" \"$@\""];
        let inner: Vec<&str> = inner.iter().map(String::as_str).collect();
        let words = [&["run"], options, &["--", "sh", "-c"], &script, &inner].concat();
        world.keyless(&words).run()
    };
    let says = inner(&["--", "sh", "-c", "echo $MINE; exit 7"]);
    let one = ["--secret", TOKEN];
    // A broker of the run's own, then the service's.
    for _ in 0..2 {
        let seen = outer(&one, &says);
        let text = seen.exits(7).text();
        let (theirs, mine) = text.trim_end().split_once('\n').unwrap();
        assert!(theirs.starts_with("kloak_") && theirs == mine, "{text}");
        assert_eq!(seen.errors(), "");
        unlock(&world);
    }
    // No more than the session has, and as it is.
    let other = outer(&["--secret", "team/api/second"], &says);
    assert!(
        other.exits(2).errors().contains(&format!("was not given {TOKEN}")),
        "{}",
        other.errors()
    );
    outer(&one, &inner(&["--secret", TOKEN, "--", "true"])).ok();
    outer(&one, &inner(&["--secret", "team/api/second", "--", "true"])).exits(2);
    let refused = outer(&one, &inner(&["--no-secrets", "--", "true"]));
    assert!(refused.exits(5).errors().contains("joins that session"), "{}", refused.errors());
    let bare = outer(&["--no-secrets"], &says);
    assert!(bare.exits(2).errors().contains("has nobody to ask"), "{}", bare.errors());
    outer(&one, &inner(&["--", "/no/such/program"])).exits(127);
    // Without a jail the environment says it, and the operator's commands are none of the command's business.
    let here =
        format!("MINE=@secret:{TOKEN} {KEYLESS} run -- sh -c 'echo $MINE'; {KEYLESS} secret list");
    let seen =
        world.keyless(&["run", "--no-jail", "--secret", TOKEN, "--", "sh", "-c", &here]).run();
    assert!(seen.exits(5).text().starts_with("kloak_"), "{}", seen.text());
    assert!(seen.errors().contains("This is an agent's session"), "{}", seen.errors());
}

/// Sessions set trust and proxies themselves: with a placeholder there the command would reach nothing.
#[test]
fn a_variable_of_sessions_takes_no_placeholder() {
    let world = World::with_token();
    for name in
        ["SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy", "KEYLESS_AGENT_SOCKET", "npm_config_proxy"]
    {
        for verb in ["add", "set"] {
            let path = if verb == "add" { "team/api/other" } else { TOKEN };
            let words = ["secret", verb, path, "--to", ALLOWED, "--env", name];
            let refused = world.keyless(&words).run();
            let errors = refused.exits(2).errors();
            assert!(errors.contains(name) && errors.contains("every session sets"), "{errors}");
        }
    }
    let run = |name: &str| world.agent(&["true"]).env(name, format!("@secret:{TOKEN}")).run();
    let errors = run("NODE_EXTRA_CA_CERTS").exits(2).errors();
    assert!(errors.contains("take the alias out of it"), "{errors}");
    // Nor does a project choose one for a job.
    let text =
        format!("required = [{TOKEN:?}]\n[secret.{TOKEN:?}]\nenv_var = \"CURL_CA_BUNDLE\"\n");
    world.declares(&text);
    let job = world.agent(&["true"]).env("KEYLESS_CI", "1");
    let job = job.env("KEYLESS_SECRET_TO__TEAM__API__TOKEN", ALLOWED);
    let value = world.canary.value().to_owned();
    let errors =
        job.env_with_value("KEYLESS_SECRET__TEAM__API__TOKEN", &value).run().exits(2).errors();
    assert!(errors.contains("wants the variable CURL_CA_BUNDLE"), "{errors}");
}

/// Who names a secret expects the command to find it.
#[test]
fn a_secret_without_a_variable_is_told() {
    let world = World::with_store();
    world.add(TOKEN, &["--to", ALLOWED]).ok();
    let run = |alias: &str| world.agent_with(&["--secret", TOKEN], &["true"]).env("A", alias).run();
    let errors = run("none").errors();
    assert!(errors.contains("has no variable") && errors.contains("--env NAME"), "{errors}");
    assert_eq!(run(&format!("@secret:{TOKEN}")).errors(), "");
    assert_eq!(world.agent(&["true"]).run().errors(), "", "of what was not named nobody asks");
    // What a project declares, its runs are for, whatever variable it has in mind.
    world.declares(format!("required = [{TOKEN:?}]\n[secret.{TOKEN:?}]\nenv_var = \"TOKEN\"\n"));
    let errors = world.agent(&["true"]).run().errors();
    assert_eq!(errors.matches("has no variable").count(), 1, "{errors}");
}

#[test]
fn a_long_manifest_is_one_for_everybody() {
    let world = World::with_token();
    let text = |length: usize| format!("required = [{TOKEN:?}]\n#{}\n", "x".repeat(length));
    world.declares(text(300 * 1024));
    world.keyless(&["secret", "validate"]).run().ok();
    world.agent(&["true"]).run().ok();
    world.declares(text(1024 * 1024));
    world.keyless(&["secret", "validate"]).run().exits(2);
    world.agent(&["true"]).run().exits(2);
}

#[test]
fn a_secret_that_is_named_twice_is_one() {
    let world = World::with_token();
    let run = world.keyless(&["run", "--secret", TOKEN, "--secret", TOKEN, "--", "true"]).run();
    run.ok();
}

/// What the variable has a placeholder for, the agent would read in the file beside it.
#[test]
fn raw_values_of_a_runs_own_secrets_in_its_files_are_warned_of() {
    let world = World::with_token();
    world.declares(format!("required = [{TOKEN:?}]\n"));
    let value = world.another_value();
    let raw = format!("LOG_LEVEL=debug\n{VARIABLE}={value}\nOTHER_API_KEY={value}\n");
    world.home.write("work/.env", &raw).unwrap();
    fs::create_dir_all(world.home.root().join("work/inner")).unwrap();
    let told = |options: &[&str]| {
        let run = world.keyless(&[options, &["--", "true"]].concat()).run();
        run.exits(0).errors()
    };
    let said = told(&["run"]);
    let line = format!("warning: .env ({VARIABLE}) holds raw values of this run's secrets");
    assert!(said.lines().any(|one| one.starts_with(&line)), "{said}");
    assert!(said.contains("keyless secret import .env --leave empty"), "{said}");
    for quiet in [&["run", "--hide", ".env"][..], &["run", "--no-secrets"], &["--quiet", "run"]] {
        assert!(!told(quiet).contains("raw values"), "{quiet:?}: {}", told(quiet));
    }
    // What is data and no settings is not read before a command begins.
    world.home.write("work/.env", format!("{raw}#{}\n", "x".repeat(65 * 1024))).unwrap();
    assert!(!told(&["run"]).contains("raw values"));
    world.home.write("work/.env", format!("{VARIABLE}=@secret:{TOKEN}\n")).unwrap();
    assert!(!told(&["run"]).contains("raw values"));
}

#[test]
fn of_two_secrets_for_one_variable_the_project_says_which() {
    let world = World::with_token();
    let (other, options) = ("team/other/token", ["--to", "other.test", "--env", VARIABLE]);
    let added = world.add(other, &options);
    added.ok();
    let told = added.errors();
    assert!(told.contains("team/api/token has the variable TOKEN too"), "{told}");
    let run = || world.keyless(&["run", "--", "sh", "-c", "echo $TOKEN"]).run();
    let refused = |why: &str| {
        let errors = run().exits(2).errors();
        assert!(errors.contains("both want the variable TOKEN"), "{why}: {errors}");
        assert!(!errors.contains("The arguments do not fit"), "{why}: {errors}");
        let choices = format!("keyless run --secret {TOKEN} -- COMMAND, or --secret {other} in");
        assert!(errors.contains(&choices), "{why}: {errors}");
    };
    refused("nobody says which");
    let doctor = world.keyless(&["doctor"]).run().text();
    assert!(doctor.contains(&format!("{TOKEN} and {other} want the variable TOKEN")), "{doctor}");

    world.declares(format!("required = [{TOKEN:?}]\n"));
    assert!(run().ok().starts_with("kloak_"));
    let log = world.log();
    let started = log.iter().rfind(|entry| entry["action"] == "session_start").unwrap();
    assert_eq!(started["target"], json!(TOKEN));
    world.declares(format!("required = [{TOKEN:?}]\noptional = [{other:?}]\n"));
    refused("it says both");
    world.keyless(&["secret", "set", other, "--env", "none"]).run().ok();
    run().ok();
}

/// A project's tools get what the project uses, and not every credential of the account.
#[test]
fn a_project_that_declares_secrets_gets_those() {
    let world = World::with_token();
    let options = ["--to", "other.test", "--env", "OTHER"];
    world.add("team/other/token", &options).ok();
    let script = "echo ${TOKEN:+token} ${OTHER:+other}";
    let run = |options: &[&str]| {
        let words = [&["run"], options, &["--", "sh", "-c", script]].concat();
        world.keyless(&words).run().ok()
    };
    assert_eq!(run(&[]), "token other\n", "outside of a project all of them");
    world.declares(format!("required = [{TOKEN:?}]\n"));
    assert_eq!(run(&[]), "token\n");
    assert_eq!(run(&["--secret", "team/other/token"]), "other\n", "what is named is given");
    world.declares("required = [\"api/token\"]\n");
    assert_eq!(run(&[]), "\n", "a slip in it gives no more");
    world.declares("# Nothing yet.\n");
    assert_eq!(run(&[]), "token other\n", "a manifest that names none is none");
}

/// What lies in the environment and looks like a credential is told, and kept from what is not trusted.
#[test]
fn credentials_in_the_environment_are_told_and_kept_from_a_bare_jail() {
    let world = World::with_token();
    let token = format!("ghp_{}", "A1b2C3d4E5f6".repeat(3));
    let script = "echo ${NPM_TOKEN:+npm} ${STRAY:+stray} ${GPG_KEY:+gpg} ${INVOCATION_ID:+id}";
    let run = |options: &[&str]| {
        let words = [&["run"], options, &["--", "sh", "-c", script]].concat();
        let mut job = world.keyless(&words);
        for (name, value) in [
            ("NPM_TOKEN", "something-of-mine-17"),
            ("STRAY", token.as_str()),
            ("GPG_KEY", "E3FF2839C048B25C084DEBE9B26995E310250568"),
            ("INVOCATION_ID", "5f0c1d8a9b7e4c3d8a6f5e4d3c2b1a09"),
            ("DATABASE_PASSWORD", ""),
            ("CI_REGISTRY_PASSWORD", "hunter2hunter2"),
        ] {
            job = job.env(name, value);
        }
        let seen = job.run();
        (seen.ok(), seen.errors())
    };
    let (out, errors) = run(&[]);
    assert_eq!(out, "npm stray gpg id\n");
    assert!(
        errors.contains(
            "looks like a credential: CI_REGISTRY_PASSWORD, NPM_TOKEN, STRAY. keyless secret import"
        ),
        "{errors}"
    );
    let (out, errors) = run(&["--no-secrets"]);
    assert_eq!(out, "gpg id\n");
    assert!(errors.contains("left out of the command's environment"), "{errors}");
    assert!(errors.contains("CI_REGISTRY_PASSWORD, NPM_TOKEN, STRAY (--keep-env"), "{errors}");
    let (out, errors) = run(&["--no-secrets", "--keep-env", "NPM_TOKEN", "--no-jail"]);
    assert_eq!(out, "npm gpg id\n");
    assert!(errors.contains("a credential: CI_REGISTRY_PASSWORD, STRAY (--keep-env"), "{errors}");
}
