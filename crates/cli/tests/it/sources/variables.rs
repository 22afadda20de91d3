//! The file that `KEYLESS_SECRETS_FILE` names: looked at after the environment, and seen by nobody else.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::json;

use super::{USE, add_routed, sources};
use crate::world::{ALLOWED, TOKEN, World};

const DERIVED: &str = "KEYLESS_SECRET__TEAM__API__TOKEN";

fn write(file: &Path, text: &str, mode: u32) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_value_comes_from_the_file_and_no_child_sees_any_of_it() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    sources(&world, "[default]\nsource = \"env\"\n");
    let index = format!("[secret.{TOKEN:?}]\nenv_var = \"MYTOK\"\n");
    world.home.write("keyless/index.toml", index).unwrap();
    add_routed(&world, "routed");
    let file = world.operator_file("variables.env");
    let (value, other) = (world.canary.value().to_owned(), world.another_value());
    let script = format!(
        "{USE}; env | grep -q -e KEYLESS_SECRET -e MYTOK && exit 9; test ! -s {} || exit 8",
        file.display()
    );
    let used = |text: String, set: &[(&str, &str)]| {
        write(&file, &text, 0o600);
        let asked = world.agent_sh(&script).env("KEYLESS_SECRETS_FILE", &file);
        let asked =
            set.iter().fold(asked, |asked, (name, value)| asked.env_with_value(name, value));
        asked.run().ok();
        origin.requests().last().unwrap().header("x")
    };
    // What the index calls it goes before, in the file as in the environment; the environment before the file.
    let both = format!("export MYTOK='{value}' # mine\n{DERIVED}={other}\n");
    assert_eq!(used(both, &[]), Some(value.as_str().into()));
    assert_eq!(used(format!("{DERIVED}={value}\n"), &[]), Some(value.as_str().into()));
    let named = format!("MYTOK={other}\n");
    assert_eq!(used(named, &[(DERIVED, &value)]), Some(value.as_str().into()));
}

#[test]
fn a_file_that_is_not_there_or_not_private_is_told() {
    let world = World::with_store();
    sources(&world, "[default]\nsource = \"env\"\n");
    add_routed(&world, "routed");
    let file = world.operator_file("variables.env");
    let asked =
        |arguments: &[&str]| world.keyless(arguments).env("KEYLESS_SECRETS_FILE", &file).run();
    let doctor = || {
        let checks = asked(&["doctor", "--json"]).json()["data"]["checks"].clone();
        let of_file = |check: &&serde_json::Value| check["id"] == "files.variables";
        let check = checks.as_array().unwrap().iter().find(of_file).unwrap().clone();
        (check["state"].as_str().unwrap().to_owned(), check["found"].as_str().unwrap().to_owned())
    };
    let refused = |why: &str| {
        let check = asked(&["source", "check", "--json"]);
        let data = &check.exits(1).json()["data"];
        let state = data["secrets"][0]["state"].as_str().unwrap();
        assert!(state.contains(why) && state.contains("KEYLESS_SECRETS_FILE"), "{state}");
        let env =
            &data["declared"].as_array().unwrap().iter().find(|s| s["name"] == "env").unwrap();
        assert_eq!(env["state"], json!("unavailable"));
        assert!(env["hint"].as_str().unwrap().contains("0600"), "{env}");
        assert!(asked(&["source", "list"]).errors().contains(why));
        let (state, found) = doctor();
        assert!(state == "fault" && found.contains(why), "{found}");
    };
    refused("it is not there");
    let value = world.canary.value();
    write(&file, &format!("{DERIVED}={value}\n"), 0o640);
    refused("open to others");
    write(&file, &format!("{DERIVED}={value}\nOTHER=1\nwhat is this\n"), 0o600);
    asked(&["source", "check"]).ok();
    let (state, found) = doctor();
    assert!(state == "warning" && found.contains("line 3"), "{found}");
    write(&file, &format!("{DERIVED}={value}\nOTHER=1\n"), 0o600);
    assert_eq!(doctor().0, "ok");
}

/// A secret that names its variable, and a job without a store, look there as well.
#[test]
fn the_file_counts_in_every_mode() {
    let mut world = World::with_store();
    let (origin, github) = (world.origin(ALLOWED), world.origin("api.github.com"));
    add_routed(&world, "env:MYTOK");
    let file = world.operator_file("variables.env");
    let value = world.canary.value();
    write(&file, &format!("MYTOK={value}\n"), 0o600);
    world.agent_sh(USE).env("KEYLESS_SECRETS_FILE", &file).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(value.into()));

    world.declares("required = [\"team/github/token\"]\n");
    let script = format!(
        "test ! -s {} || exit 8; env | grep KEYLESS_SECRETS && exit 9; curl -sS -o /dev/null \
         -H \"Authorization: Bearer $GITHUB_TOKEN\" https://api.github.com/user",
        file.display()
    );
    let job = || {
        let job = world.agent_sh(&script).env("KEYLESS_CI", "1");
        job.env("KEYLESS_SECRETS_FILE", &file).run()
    };
    let missing = job();
    let said = missing.errors();
    assert!(said.contains("GITHUB_TOKEN") && said.contains("variables.env"), "{said}");
    write(&file, &format!("GITHUB_TOKEN={value}\n"), 0o644);
    assert!(job().errors().contains("open to others"));
    write(&file, &format!("GITHUB_TOKEN={value}\n"), 0o600);
    job().ok();
    world.assert_received(&github);
}
