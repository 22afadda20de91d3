//! What opens the store, and what becomes of removed secrets and older versions.

use std::{fs, os::unix::fs::PermissionsExt as _};

use keyless_testkit::Canary;
use serde_json::{Value, json};

use crate::{
    invocation::KEYLESS,
    terminal::at_a_terminal,
    world::{ALLOWED, TOKEN, VARIABLE, World},
};

fn envelopes(world: &World) -> Vec<String> {
    let listed = world.keyless(&["vault", "envelope", "list", "--json"]).run().data();
    let kinds = listed["envelopes"].as_array().unwrap().iter();
    kinds.map(|envelope| envelope["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_key_file_opens_the_store() {
    let world = World::with_token();
    let file = world.operator_file("vault.key");
    let file = file.to_str().unwrap();
    world.keyless(&["vault", "envelope", "add", "keyfile", "--file", file]).run().ok();
    assert_eq!(envelopes(&world), ["keyfile", "passphrase", "recovery"]);
    let by_file = |words: &[&str]| {
        let words = [words, &["--keyfile", file]].concat();
        world.keyless(&words).without_passphrase().run()
    };
    by_file(&["source", "check"]).ok();
    by_file(&["unlock", "--for", "10m"]).ok();
    let methods = || {
        let mut agent = crate::mcp::Agent::connect(&world);
        agent.tool("secrets_status", &json!({})).unwrap()["available_methods"].clone()
    };
    assert_eq!(methods(), json!(["keyfile", "passphrase", "recovery"]));
    world.keyless(&["vault", "envelope", "remove", "recovery", "--yes"]).run().ok();
    assert_eq!(methods(), json!(["keyfile", "passphrase"]), "what is gone opens nothing");
    world.keyless(&["lock"]).run().ok();
    // Open to others, it is not trusted; and it opens no other store.
    fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(by_file(&["source", "check"]).exits(2).errors().contains("0600"));
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    let other = World::with_store();
    let seen = other.keyless(&["source", "check", "--keyfile", file, "--json"]);
    let seen = seen.without_passphrase().run();
    assert_eq!(seen.exits(5).json()["errors"][0]["code"], json!("wrong_factor"));
    world.keyless(&["vault", "envelope", "remove", "keyfile", "--yes"]).run().ok();
    by_file(&["source", "check"]).exits(5);
}

#[test]
fn the_last_one_stays() {
    let world = World::with_token();
    let remove =
        |kind: &str| world.keyless(&["vault", "envelope", "remove", kind, "--yes", "--json"]).run();
    let uri = world.operator_file("uri");
    let add = ["vault", "envelope", "add", "totp", "--output", uri.to_str().unwrap()];
    world.keyless(&add).run().ok();
    world.watch(Canary::of(fs::read_to_string(&uri).unwrap().trim()));
    remove("recovery").ok();
    // Codes open nothing from cold, so they don't count.
    assert_eq!(remove("passphrase").exits(2).json()["errors"][0]["code"], json!("last_envelope"));
    assert_eq!(envelopes(&world), ["passphrase", "totp"]);
    remove("totp").ok();
    remove("totp").exits(2);
    world.keyless(&["source", "check"]).run().ok();
}

#[test]
fn a_recovery_phrase_changes_only_when_it_is_written_down() {
    let world = World::with_token();
    let change = ["vault", "envelope", "change", "recovery"];
    let refused = at_a_terminal(
        &world,
        world.keyless(&change),
        "expect('[y/N] '); say('n\\n'); finish(code=2)",
    );
    assert!(refused.contains("nothing was changed"), "{refused}");
    let old = fs::read_to_string(world.operator_file("recovery")).unwrap();
    let file = world.operator_file("new-recovery");
    let changed = [&change[..], &["--output", file.to_str().unwrap()]].concat();
    world.keyless(&changed).run().ok();
    let new = fs::read_to_string(&file).unwrap();
    let unlock = |words: &str, code: i32| {
        let script = format!("expect(': '); say({words:?} + '\\n'); finish(code={code})");
        at_a_terminal(&world, world.keyless(&["unlock", "--recovery"]), &script);
    };
    unlock(old.trim(), 5);
    unlock(new.trim(), 0);
}

/// Who has lost the passphrase still has the words, and nothing is lost.
#[test]
fn a_lost_passphrase_is_replaced_with_the_recovery_phrase() {
    let world = World::with_token();
    let words = fs::read_to_string(world.operator_file("recovery")).unwrap();
    let words = world.watch(Canary::of(words.trim_end()));
    let fresh = world.operator_file("fresh");
    let passphrase = world.watch(Canary::of("Zr7 words nobody says together"));
    fs::write(&fresh, &passphrase).unwrap();
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600)).unwrap();
    let fresh = fresh.to_str().unwrap();
    let change = ["vault", "envelope", "change", "passphrase", "--recovery"];
    let change = [&change[..], &["--new-passphrase-file", fresh]].concat();
    let with = |words: &str, code: i32| {
        let command = world.keyless(&change).without_passphrase();
        let script = format!("expect('24 words): '); say({words:?} + '\\n'); finish(code={code})");
        at_a_terminal(&world, command, &script)
    };
    with(&format!("{}art", "abandon ".repeat(23)), 5);
    with(&words, 0);
    world.keyless(&["source", "check"]).run().exits(5);
    let new = ["source", "check", "--passphrase-file", fresh];
    world.keyless(&new).without_passphrase().run().ok();
    // What opens it is told without a factor.
    let listed = world.keyless(&["vault", "envelope", "list"]).without_passphrase().run().ok();
    assert!(listed.contains("passphrase  from cold") && listed.contains("recovery"), "{listed}");
}

/// A file with what opens the store is out of an agent's sight from when it is written.
#[test]
fn no_run_sees_a_file_that_opens_the_store() {
    let world = World::with_token();
    let place = |name: &str| world.home.work().join(name).to_str().unwrap().to_owned();
    let [key, words, uri, fresh] = ["vault.key", "words", "uri", "fresh"].map(place);
    world.home.write("work/fresh", "Zr7 words nobody says together").unwrap();
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600)).unwrap();
    let envelope = |words: &[&str]| {
        world.keyless(&[&["vault", "envelope"], words].concat()).run().ok();
    };
    envelope(&["add", "keyfile", "--file", &key]);
    envelope(&["change", "recovery", "--output", &words]);
    envelope(&["add", "totp", "--output", &uri]);
    // A command that fails hides nobody's file.
    world.home.write("work/notes", "of somebody").unwrap();
    let notes = place("notes");
    for add in [["change", "recovery", "--output"], ["change", "totp", "--output"]] {
        world.keyless(&[&["vault", "envelope"], &add[..], &[&notes]].concat()).run().exits(3);
    }
    envelope(&["change", "passphrase", "--new-passphrase-file", &fresh]);
    let all = [&key, &words, &uri, &fresh];
    let script = format!("cat {key} {words} {uri} {fresh} 2>/dev/null; true");
    let run = ["run", "--no-secrets", "--", "sh", "-c", &script];
    assert_eq!(world.keyless(&run).run().ok(), "");
    assert!(all.iter().all(|file| !fs::read(file).unwrap().is_empty()));
    let run = ["run", "--no-secrets", "--", "cat", &notes];
    assert_eq!(world.keyless(&run).run().ok(), "of somebody");
}

#[test]
fn a_removed_secret_comes_back_until_it_is_purged() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let script = r#"curl -sS -o /dev/null -H "X: $TOKEN" https://api.allowed.test/"#;
    let run = |words: &[&str]| world.keyless(words).run();
    let fresh = world.another_value();
    let rotate = ["secret", "rotate", TOKEN, "--value-stdin"];
    world.keyless(&rotate).stdin(&fresh[..]).run().ok();
    run(&["secret", "remove", TOKEN, "--yes"]).ok();
    let shown = run(&["secret", "show", TOKEN]);
    assert!(
        shown.exits(3).errors().contains("secret restore brings it back"),
        "{}",
        shown.errors()
    );
    let add = world.add(TOKEN, &["--to", ALLOWED, "--env", VARIABLE]);
    assert!(add.exits(2).errors().contains("restore or purge"), "{}", add.errors());

    let restored = run(&["secret", "restore", TOKEN, "--version", "1", "--json"]).data();
    assert_eq!(restored, json!({ "path": TOKEN, "version": 1 }));
    world.agent_sh(script).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
    let versions = run(&["secret", "versions", TOKEN, "--json"]).data();
    let in_use = |n: usize| versions["versions"][n]["in_use"].clone();
    assert_eq!((in_use(0), in_use(1)), (json!(true), json!(false)));
    run(&["secret", "purge", TOKEN, "--version", "1", "--yes"]).exits(2);
    run(&["secret", "purge", TOKEN, "--version", "2", "--yes"]).ok();
    run(&["secret", "restore", TOKEN, "--version", "2"]).exits(3);
    let is_purge = |entry: &Value| entry["detail"]["note"] == "purged version 2";
    assert!(world.log().iter().any(is_purge), "the log says which one");

    run(&["secret", "remove", TOKEN, "--yes"]).ok();
    run(&["secret", "purge", TOKEN, "--yes"]).ok();
    run(&["secret", "restore", TOKEN]).exits(3);
    world.add(TOKEN, &["--to", ALLOWED, "--env", VARIABLE]).ok();
}

#[test]
fn only_so_many_versions_are_kept() {
    let world = World::with_store();
    world.add(TOKEN, &["--to", ALLOWED, "--keep-versions", "2"]).ok();
    for _ in 0..3 {
        let value = world.another_value();
        let rotate = ["secret", "rotate", TOKEN, "--value-stdin"];
        world.keyless(&rotate).stdin(&value[..]).run().ok();
    }
    let versions = world.keyless(&["secret", "versions", TOKEN, "--json"]).run().data();
    let numbers: Vec<_> =
        versions["versions"].as_array().unwrap().iter().map(|v| v["version"].clone()).collect();
    assert_eq!(numbers, [json!(3), json!(4)]);
    // What went is on record, beside the value that it went for.
    let notes = |action: &str| -> Vec<String> {
        let log = world.log().into_iter().filter(|entry| entry["action"] == action);
        log.map(|entry| entry["detail"]["note"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(notes("rotate").len(), 3);
    let gone = ["purged version 1 by its retention", "purged version 2 by its retention"];
    assert_eq!(notes("delete"), gone);
}

/// Without a terminal, what is said to help has to be what does.
#[test]
fn what_is_asked_for_without_a_terminal_is_named() {
    let world = World::with_store();
    let told = |more: &[&str]| {
        let words = ["setsid", "-w", KEYLESS, "vault", "envelope", "change", "passphrase"];
        world.keyless(&[]).instead(&[&words[..], more].concat()).run().errors()
    };
    let fresh = told(&[]);
    assert!(fresh.contains("give --new-passphrase-file FILE"), "{fresh}");
    let words = told(&["--recovery"]);
    assert!(words.contains("the 24 words are typed at a terminal alone"), "{words}");
}
