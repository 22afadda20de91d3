//! Plugins: what is done with one that is late, and with one that says what it can't do.

use super::*;
use crate::mcp::{Agent, about, unlock};

/// Answers everything; `config.mode` says what it does wrong.
const PLUGIN: &str = r#"#!/usr/bin/env python3
import json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    method = request["method"].split(".")[1]
    if method == "init":
        config = request["params"]["config"]
        name = request["params"]["source_name"]
    if method == "get":
        with open(config["mark"], "w") as mark: mark.write(str(os.getpid()))
        time.sleep(config.get("seconds", 0))
    result = {
        "init": {"source_name": name, "capabilities_bits": config.get("bits", 1), "plugin_version": "1"},
        "is_available": {"status": "available"},
        "get": {"value": "VALUE", "lease_seconds": 0},
    }[method]
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"#;

/// A plugin `name` with these settings and this `config`, for all below `plug/NAME/`.
fn declared(world: &World, name: &str, settings: &str, config: &str) -> String {
    let program = world.operator_file("keyless-source-probe");
    executable(&program, &PLUGIN.replace("VALUE", world.canary.value()));
    let (mark, path) = (mark(world, name).display().to_string(), std::env::var("PATH").unwrap());
    let checksum = sha256(&program);
    let program = program.display().to_string();
    format!(
        "[[source]]\nname = {name:?}\ntype = \"plugin\"\nprogram = {program:?}\n{settings}\n\
         checksum_sha256 = {checksum:?}\nenvironment = {{ PATH = {path:?} }}\n\
         config = {{ mark = {mark:?}, {config} }}\n[[route]]\nprefix = \"plug/{name}/\"\nsource = {name:?}\n"
    )
}

fn mark(world: &World, name: &str) -> PathBuf {
    world.operator_file(&format!("{name}.pid"))
}

#[test]
fn a_plugin_that_outlives_its_deadline_is_ended_and_tells_no_lies() {
    let world = World::with_store();
    let (brief, short) = ("timeout_seconds = 2", "seconds = 600");
    let declared = [
        declared(&world, "hangs", brief, short),
        declared(&world, "slow", "timeout_seconds = 5", "seconds = 7"),
    ];
    sources(&world, &declared.concat());
    for path in ["plug/hangs/token", "plug/slow/token"] {
        world.keyless(&["secret", "add", path, "--source", "routed"]).run().ok();
    }
    world.declares("required = [\"plug/hangs/token\", \"plug/slow/token\"]\n");
    unlock(&world);
    let mut agent = Agent::connect(&world);
    let mut told = |path: &str| agent.message_of("secrets_validate", &about(path));
    for name in ["hangs", "slow", "slow"] {
        let message = told(&format!("plug/{name}/token"));
        assert!(message.contains("did not answer in time"), "{name}: {message}");
        let process = fs::read_to_string(mark(&world, name)).unwrap();
        let runs =
            || fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|line| !line.is_empty());
        wait_until("it was ended", || !runs());
    }
}

#[test]
fn a_plugin_that_says_it_can_not_be_read_from_is_not() {
    let world = World::with_store();
    sources(&world, &declared(&world, "deaf", "", "bits = 8"));
    world.keyless(&["secret", "add", "plug/deaf/token", "--source", "routed"]).run().ok();
    let checked = world.keyless(&["source", "check", "plug/deaf/token"]).run();
    assert!(checked.exits(1).text().contains("it can't be read from"), "{}", checked.text());
    assert!(!mark(&world, "deaf").exists(), "it was asked all the same");
}
