//! What `keyless doctor` finds, and what it says helps.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::{
    invocation::KEYLESS,
    sources::{executable, sha256, sources},
    world::{TOKEN, World},
};

fn checks(world: &World, status: i32) -> Vec<(String, String)> {
    let answer =
        world.keyless(&["doctor", "--json"]).without_passphrase().run().exits(status).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = answer["data"]["checks"].as_array().unwrap();
    for check in all.iter().filter(|check| check["state"] != json!("ok")) {
        assert!(!check["remedy"].as_str().unwrap_or_default().is_empty(), "no remedy: {check}");
    }
    all.iter().map(|check| (text(&check["id"]), text(&check["state"]))).collect()
}

#[track_caller]
fn assert_state(checks: &[(String, String)], id: &str, state: &str) {
    let pair = (id.to_owned(), state.to_owned());
    assert!(checks.contains(&pair), "{id} is not {state}: {checks:#?}");
}

#[test]
fn a_home_in_order_is_told_so_and_every_fault_with_its_remedy() {
    let world = World::with_token();
    let fine = checks(&world, 0);
    for id in ["machine.jail", "home.permissions", "files.config", "files.catalog", "store.there"] {
        assert_state(&fine, id, "ok");
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let is_limited = !["", "0"].contains(&scope.trim());
    assert_state(&fine, "machine.tracing", if is_limited { "ok" } else { "warning" });
    assert_state(&fine, "project.manifest", "note");
    assert_state(&fine, "broker.running", "note");

    world.keyless(&["secret", "set", TOKEN, "--expires", "2020-01-01"]).run().ok();
    world.home.write("keyless/config.toml", "[egress\n").unwrap();
    world.home.write("keyless/catalog/acme.json", "{}").unwrap();
    world.home.write("keyless/providers/acme.json", "{}").unwrap();
    world.declares("required = [\"team/none/such\"]\n");
    let token = format!("ghp_{}", "Zk3v9QwT1rXb7LmN5pYc2HsDf8GjKa4EuVoR");
    world
        .home
        .write("work/.mcp.json", format!("{{\"env\": {{\"GITHUB_TOKEN\": \"{token}\"}}}}\n"))
        .unwrap();
    let home = world.home.keyless_home();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o777)).unwrap();
    world.sqlite(
        "UPDATE audit SET entry = replace(entry, '\"timestamp\":\"20', '\"timestamp\":\"21')",
    );
    let found = checks(&world, 1);
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    for (id, state) in [
        ("home.permissions", "fault"),
        ("files.config", "fault"),
        ("files.catalog", "warning"),
        ("files.providers", "warning"),
        ("store.expiry", "warning"),
        ("store.clock", "fault"),
        ("project.secrets", "fault"),
        ("clients.tokens", "warning"),
    ] {
        assert_state(&found, id, state);
    }
    let words = world.keyless(&["doctor"]).run();
    assert!(
        words.exits(1).text().contains("next: keyless secret rotate team/api/token"),
        "{}",
        words.text()
    );
    assert!(!words.text().contains(&token));
}

/// A jail shows an agent what it logs in with, which nobody would look for.
#[test]
fn the_agents_own_logins_are_told_as_a_note() {
    let world = World::with_token();
    assert_state(&checks(&world, 0), "clients.tokens", "ok");
    world.home.write("home/.claude/.credentials.json", "{}").unwrap();
    let words = world.keyless(&["doctor"]).run().text();
    let told = words.lines().find(|line| line.contains(".claude/.credentials.json")).unwrap();
    assert!(told.starts_with("note") && words.contains("--hide FILE"), "{words}");
}

/// As for an entry of index.toml: a rule that is none judges nothing, which nobody would see.
#[test]
fn a_stored_format_that_is_none_is_told() {
    let world = World::with_store();
    let value = world.github_token();
    let add = ["secret", "add", TOKEN, "--pattern", "github-pat", "--value-stdin"];
    world.keyless(&add).stdin(&value[..]).run().ok();
    let ids =
        |world: &World| -> Vec<String> { checks(world, 0).into_iter().map(|(id, _)| id).collect() };
    assert!(!ids(&world).contains(&"store.format".to_owned()));
    let kept = world.store_bytes();
    world
        .sqlite("UPDATE secrets SET metadata = json_set(metadata, '$.upkeep.format_regex', '^(a')");
    assert_state(&checks(&world, 0), "store.format", "warning");
    // The remedy helps: another pattern brings its own rule.
    world.replace_store(&kept);
    world.keyless(&["secret", "set", TOKEN, "--pattern", "npm-token"]).run().ok();
    let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
    assert!(shown["upkeep"]["format_regex"].as_str().unwrap().contains("npm"), "{shown}");
}

#[test]
fn a_running_broker_tells_its_last_bad_reload() {
    let world = World::with_token();
    world.keyless(&["unlock", "--for", "10m"]).run().ok();
    assert_state(&checks(&world, 0), "broker.running", "ok");
    assert_state(&checks(&world, 0), "broker.sockets", "ok");
    world.home.write("keyless/config.toml", "[egress\n").unwrap();
    let told = || checks(&world, 1).contains(&("broker.reload".to_owned(), "fault".to_owned()));
    crate::world::wait_until("the broker has seen the file", told);
}

/// What is written after the clock was set back does not make it right.
#[test]
fn an_entry_in_the_future_is_told_though_newer_ones_are_not() {
    let world = World::with_token();
    let later =
        "UPDATE audit SET entry = replace(entry, '\"timestamp\":\"20', '\"timestamp\":\"21')";
    world.add("team/other/token", &[]).ok();
    world.sqlite(&format!("{later} WHERE sequence = 1"));
    // It was not written so, which is told as well.
    assert_state(&checks(&world, 1), "store.clock", "warning");
    world.sqlite(later);
    assert_state(&checks(&world, 1), "store.clock", "fault");
}

/// What anybody with the file can do to the log shows without a key.
#[test]
fn a_log_that_was_changed_is_a_fault() {
    let world = World::with_token();
    assert_state(&checks(&world, 0), "store.log", "ok");
    let earlier =
        "UPDATE audit SET entry = replace(entry, '\"timestamp\":\"20', '\"timestamp\":\"19')";
    world.sqlite(&format!("{earlier} WHERE sequence = 1"));
    assert_state(&checks(&world, 1), "store.log", "fault");
    let words = world.keyless(&["doctor"]).run();
    let told = "next: keyless audit verify";
    assert!(words.exits(1).text().contains(told), "{}", words.text());
    world.keyless(&["audit", "verify"]).run().exits(6);
}

/// A command without secrets keeps its log in the store's file, in which there is no vault then.
#[test]
fn a_store_that_has_a_log_alone_is_no_fault() {
    let world = World::empty();
    world.keyless(&["run", "--no-secrets", "--", "true"]).run().ok();
    let answer = world.keyless(&["doctor", "--json"]).run().json();
    let all = answer["data"]["checks"].as_array().unwrap();
    let there = all.iter().find(|check| check["id"] == json!("store.there")).unwrap();
    assert_eq!(there["state"], json!("note"), "{there}");
    assert!(there["remedy"].as_str().unwrap().contains("keyless init"), "{there}");
    assert!(all.iter().any(|check| check["id"] == json!("store.log")), "{all:?}");
}

/// A folder that nobody has set up yet is where raw values lie.
#[test]
fn raw_values_are_told_before_there_is_a_manifest() {
    let world = World::with_store();
    let random = "Zk3v9QwT1rXb7LmN5pYc2HsDf8GjKa4EuVoR";
    let text = format!("GITHUB_TOKEN=ghp_{random}\nACME_API_KEY=9c{random}\n");
    world.home.write("work/.env", &text).unwrap();
    world.home.write("work/deep/.env", &text).unwrap();
    let told = |file: &str| {
        let words = world.keyless(&["doctor"]).run();
        words.text().contains(&format!(
            "{file} holds raw values, which keyless run shows (GITHUB_TOKEN, ACME_API_KEY)"
        ))
    };
    assert!(told(" .env") && !told("deep/.env"), "nothing says that it is one project");
    world.home.write("work/.git/HEAD", "ref: refs/heads/main\n").unwrap();
    assert!(told(" .env") && told("deep/.env"));
}

/// Nothing is wrong with a file that waits for its owner's word; what to do is not to mend it.
#[test]
fn a_config_that_nobody_has_agreed_to_is_led_to_unlock() {
    let world = World::with_token();
    world.keyless(&["unlock"]).run().ok();
    let config = "[egress.connect_to]\n\"api.test:443\" = \"127.0.0.1:9\"\n";
    world.home.write("keyless/config.toml", config).unwrap();
    let told = || checks(&world, 0).contains(&("broker.reload".to_owned(), "note".to_owned()));
    crate::world::wait_until("the broker has seen it", told);
    let next = "keyless unlock shows what is new in it and asks for your word";
    assert!(world.keyless(&["doctor"]).run().text().contains(next));
    let warned = world.keyless(&["status"]).run().errors();
    assert!(warned.contains("is not in force: ") && warned.contains(next), "{warned}");
    world.keyless(&["unlock"]).run().ok();
    crate::world::wait_until("it is in force", || {
        world.keyless(&["status"]).run().errors().is_empty()
    });
}

/// With each of these files `unlock` and `run` are refused.
#[test]
fn a_source_whose_settings_do_not_fit_is_told() {
    let world = World::with_token();
    for said in [
        "type = \"vault\"",
        "type = \"vaultt\"",
        "type = \"vault\"\naddr = \"https://vault.test\"\ntoken = \"t\"",
        "type = \"plugin\"\nprogram = \"mine\"",
        "type = \"keepass\"",
        "type = \"files\"\nfolder = \"mount\"",
    ] {
        sources(&world, &format!("[[source]]\nname = \"corp\"\n{said}\n"));
        assert_state(&checks(&world, 1), "files.sources", "fault");
        let words = world.keyless(&["doctor"]).run().text();
        assert!(words.contains("source corp: "), "{said}: {words}");
        assert!(world.keyless(&["source", "list"]).run().exits(2).errors().contains("corp"));
    }
}

#[test]
fn a_source_that_lacks_its_program_is_told_and_no_program_is_started() {
    let world = World::with_token();
    let (program, mark) = (world.operator_file("mine"), world.operator_file("was-started"));
    executable(&program, &format!("#!/bin/sh\ntouch {}\n", mark.display()));
    let (gone, right) = (world.operator_file("gone"), sha256(&program));
    let plugin = |checksum: &str| {
        format!("type = \"plugin\"\nprogram = {program:?}\nchecksum_sha256 = {checksum:?}\n")
    };
    let all = [
        (plugin(&right), "", None),
        (plugin(&"0".repeat(64)), "checksum is not the one that was allowed", Some("fault")),
        (format!("type = \"1password\"\nprogram = {gone:?}\n"), "no program at ", Some("fault")),
        (format!("type = \"files\"\nfolder = {gone:?}\n"), "no folder at ", Some("fault")),
        (format!("type = \"keepass\"\nfile = {gone:?}\n"), "no file at ", Some("fault")),
        (
            format!(
                "type = \"pass\"\nprogram = {gone:?}\n[default]\nsource = \"corp\"\nfallback = \"local\"\n"
            ),
            "local is asked in its stead",
            Some("note"),
        ),
    ];
    for (said, words, state) in all {
        sources(&world, &format!("[[source]]\nname = \"corp\"\n{said}"));
        let found = checks(&world, i32::from(state == Some("fault")));
        let there = found.iter().find(|(id, _)| id == "sources.there");
        assert_eq!(there.map(|(_, state)| state.as_str()), state, "{said}");
        assert_state(&found, "files.sources", "ok");
        assert!(world.keyless(&["doctor"]).run().text().contains(words), "{said}");
    }
    assert!(!mark.exists(), "nobody has unlocked anything");
}

/// What a jail hides, and can't make, is no fault of the machine's for an agent to set right.
#[test]
fn in_an_agents_session_nothing_is_found_wrong() {
    let world = World::with_token();
    let told = world.agent(&[KEYLESS, "doctor"]).run().ok();
    assert!(told.contains("note     session.inside"), "{told}");
    assert!(!told.contains("fault") && !told.contains("keyless init"), "{told}");
}

/// What can't be started is no next step.
#[test]
fn before_there_is_a_store_nobody_is_told_to_unlock_one() {
    let world = World::empty();
    for arguments in [&["doctor"][..], &["--ci", "doctor"]] {
        let told = world.keyless(arguments).run().text();
        assert!(told.contains("broker.running"), "{told}");
        assert!(!told.contains("keyless unlock"), "{arguments:?}: {told}");
    }
}

/// Every command is refused with such a `[store]`; a store that lies elsewhere says nothing of it.
#[test]
fn a_store_that_config_toml_does_not_lead_to_is_not_found_in_another_place() {
    let world = World::with_token();
    for said in [
        "url = \"postgres://keyless:hunter2@db.example.com/keyless\"",
        "url = \"mysql://db.example.com/keyless\"",
        "url = \"postgres://keyless@db.example.com/postgres?sslmode=disable\"",
        "url = \"postgres://keyless@db.example.com/keyless\"\npassword_file = \"/nope\"",
        "url = \"postgres://keyless@db.example.com/keyless\"\nroots = \"/nope\"",
    ] {
        world.home.write("keyless/config.toml", format!("[store]\n{said}\n")).unwrap();
        let found = checks(&world, 1);
        assert_state(&found, "store.there", "fault");
        assert_state(&found, "files.config", "fault");
        let words = world.keyless(&["doctor"]).run().text();
        assert!(words.contains("next: correct [store] in "), "{said}: {words}");
        assert!(!words.contains("hunter2") && !words.contains("store.db"), "{said}: {words}");
    }
}
