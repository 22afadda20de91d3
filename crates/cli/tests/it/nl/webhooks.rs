//! Receivers of notifications: a server in Python that knows the specification and the key.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use super::{Served, with_secrets};
use crate::{
    invocation::Background,
    schemas,
    world::{TOKEN, World, wait_until},
};

const KEY: &str = "a key that the receiver has as well";

/// A receiver that fails twice before it takes anything, and writes down what it took.
fn receiver(world: &World) -> (Background<'_>, u16) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/nl/receiver.py");
    let taken = world.operator_file("taken");
    let command = ["python3", script, KEY, taken.to_str().unwrap()];
    let mut receiver = world.keyless(&[]).without_passphrase().instead(&command).start();
    let port = receiver.line().trim().parse().unwrap();
    (receiver, port)
}

/// What the receiver took, each once: a broker that ends before it has noted an answer tells the same again.
fn taken(world: &World) -> Vec<Value> {
    let text = fs::read_to_string(world.operator_file("taken")).unwrap_or_default();
    // The last line may be half written.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut taken: Vec<Value> =
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    taken.dedup_by_key(|one| one["message"]["payload"]["rotation_id"].clone());
    taken
}

fn rotate(world: &World) {
    let value = world.another_value();
    world.keyless(&["secret", "rotate", TOKEN, "--value-stdin"]).stdin(value).run().ok();
}

/// NL-2.20 and NL-8.24.
#[test]
fn a_receiver_is_told_of_what_was_rotated_even_while_nobody_was_there() {
    let world = with_secrets();
    let (_receiver, port) = receiver(&world);
    world.home.write("operator/webhook.key", KEY).unwrap();
    let key = world.operator_file("webhook.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let nl = format!(
        "[[nl.webhooks]]\nurl = 'http://127.0.0.1:{port}/nl?from=keyless'\nkey_file = {key:?}\n"
    );
    // What happened before a receiver was named is not told.
    rotate(&world);
    let state = world.home.keyless_home().join("webhooks.json");
    {
        let _served = Served::with(&world, &nl);
        wait_until("the receiver is known", || state.exists());
        rotate(&world);
        wait_until("it was told after two failures", || taken(&world).len() == 1);
    }
    rotate(&world);
    world.keyless(&["secret", "revoke", TOKEN, "--compromised", "--yes"]).run().ok();
    let _served = Served::with(&world, &nl);
    wait_until("it was told what happened meanwhile", || taken(&world).len() == 3);
    let taken = taken(&world);
    for (message, (event, reason)) in taken.iter().zip([
        ("rotated", "rotation"),
        ("rotated", "rotation"),
        ("revoked", "compromised"),
    ]) {
        assert_eq!(message["is_signed"], true, "{message}");
        assert_eq!(message["path"], "/nl?from=keyless");
        let payload = &message["message"]["payload"];
        assert_eq!((&payload["event"], &payload["reason"]), (&event.into(), &reason.into()));
        assert_eq!(payload["secret_ref"], TOKEN);
        schemas::note(&world, "envelope", &message["message"]);
        schemas::note(&world, "rotation", payload);
    }
    let versions = |at: usize| {
        let payload = &taken[at]["message"]["payload"];
        (payload["previous_version"].clone(), payload["new_version"].clone())
    };
    assert_eq!(
        (versions(0), versions(1)),
        ((json!("v2"), json!("v3")), (json!("v3"), json!("v4")))
    );
    assert_eq!(versions(2), (json!(null), json!(null)));
    let ids: std::collections::BTreeSet<&str> = taken
        .iter()
        .map(|one| one["message"]["payload"]["rotation_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 3);
    world.saw("the receiver", serde_json::to_string(&taken).unwrap().as_bytes());
    let told = |entry: &Value| entry["action"] == "rotation_notification";
    wait_until("the log says so", || world.log().iter().filter(|entry| told(entry)).count() >= 3);
}

/// The key is looked up for each message: none is sent while it can't be had, and none is lost.
#[test]
fn a_receivers_key_may_be_a_secret_and_each_use_of_it_is_on_record() {
    const PATH: &str = "team/hooks/key";
    let world = with_secrets();
    let (_receiver, port) = receiver(&world);
    let nl = format!(
        "[[nl.webhooks]]\nurl = 'http://127.0.0.1:{port}/nl?from=keyless'\nkey = '@secret:{PATH}'\n"
    );
    let state = world.home.keyless_home().join("webhooks.json");
    let _served = Served::with(&world, &nl);
    wait_until("the receiver is known", || state.exists());
    let releases = || {
        let all = world.log().into_iter();
        all.filter(|entry| {
            entry["detail"]["kind"] == "released" && entry["secrets_used"] == json!([PATH])
        })
        .count()
    };
    let doctor = || {
        let checks = world.keyless(&["doctor", "--json"]).run().text();
        let checks: Value = serde_json::from_str(&checks).unwrap();
        let all = checks["data"]["checks"].as_array().unwrap().clone();
        all.into_iter().find(|check| check["id"] == "store.receivers")
    };
    let fault = doctor().expect("doctor tells of a key that is not there");
    assert_eq!(fault["state"], "fault");
    assert!(fault["found"].as_str().unwrap().contains("team/hooks/key is its key"), "{fault}");
    assert_eq!(fault["remedy"], format!("keyless secret add {PATH}"));
    rotate(&world);
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!((taken(&world).len(), releases()), (0, 0), "there is no key yet");
    let add = ["secret", "add", PATH, "--value-stdin", "--allow-weak"];
    world.keyless(&add).stdin(KEY).run().ok();
    assert_eq!(doctor(), None);
    wait_until("it was told after two failures", || taken(&world).len() == 1);
    assert_eq!(taken(&world)[0]["is_signed"], true);
    assert_eq!(releases(), 3, "each signature is a use");
}

/// config.toml is no place for a key, and a key that is written there is not shown around.
#[test]
fn a_literal_key_and_an_alias_that_nothing_resolves_are_refused() {
    let world = with_secrets();
    world.write_config();
    let config = world.home.keyless_home().join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    let refused = |lines: &str| {
        fs::write(&config, format!("{text}{lines}\n")).unwrap();
        let run = world.keyless(&["serve", "--http", "127.0.0.1:0"]).run();
        run.errors().clone()
    };
    let hook = "[[nl.webhooks]]\nurl = 'https://hooks.test/x'\n";
    let literal = refused(&format!("{hook}key = '{KEY}'"));
    assert!(literal.contains("nl.webhooks: key is no alias"), "{literal}");
    assert!(literal.contains("@secret:PATH") && !literal.contains(KEY), "{literal}");
    let alias = refused("[desktop]\nnotify = '@secret:team/x/y'");
    assert!(alias.contains("desktop.notify is an alias"), "{alias}");
    assert!(alias.contains("the file that holds it"), "{alias}");
}

/// A key that others can read is no key.
#[test]
fn a_key_that_others_can_read_stops_the_broker() {
    let world = with_secrets();
    world.home.write("operator/webhook.key", KEY).unwrap();
    let key = world.operator_file("webhook.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    world.write_config();
    let config = world.home.keyless_home().join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    let hook = |url: &str| format!("{text}[[nl.webhooks]]\nurl = '{url}'\nkey_file = {key:?}\n");
    fs::write(&config, hook("https://hooks.test/x")).unwrap();
    let refused = world.keyless(&["serve", "--http", "127.0.0.1:0"]).run();
    assert!(refused.errors().contains("others can read it"), "{}", refused.errors());
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&config, hook("http://hooks.test/x")).unwrap();
    let refused = world.keyless(&["serve", "--http", "127.0.0.1:0"]).run();
    assert!(refused.errors().contains("https://"), "{}", refused.errors());
}
