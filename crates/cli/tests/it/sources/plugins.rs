//! Plugins: what is done with one that is late, and with one that says what it can't do; the secrets that settings name.

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

/// Answers with what its settings and its environment hold, and says in a file which process it is.
const TELLING: &str = r#"#!/usr/bin/env python3
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    method, params = request["method"].split(".")[1], request["params"]
    if method == "init":
        config, name = params["config"], params["source_name"]
    if method == "get":
        with open(config["mark"], "a") as mark: mark.write(str(os.getpid()) + "\n")
    deep = config["deep"][0]["token"]
    whole = config["plain"] == "see @secret:not/an/alias" and deep == os.environ["TOKEN"]
    result = {
        "init": {"source_name": name, "capabilities_bits": 1, "plugin_version": "1"},
        "is_available": {"status": "available"},
        "get": {"value": deep, "lease_seconds": 0} if whole else {"found": False},
    }[method]
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"#;

/// The secrets that a plugin's settings name are in its settings and its environment when it is asked, and nowhere else;
/// with another value it is started anew, and with none it is not.
#[test]
fn a_plugin_gets_the_secrets_that_its_settings_name() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let program = world.operator_file("keyless-source-telling");
    executable(&program, TELLING);
    let (checksum, mark) = (sha256(&program), mark(&world, "telling"));
    let path = std::env::var("PATH").unwrap();
    sources(
        &world,
        &format!(
            "[[source]]\nname = \"telling\"\ntype = \"plugin\"\nprogram = {program:?}\ncache_ttl_seconds = 0\n\
             checksum_sha256 = {checksum:?}\n\
             environment = {{ PATH = {path:?}, TOKEN = \"@secret:sources/telling/token\" }}\n\
             config = {{ mark = {mark:?}, plain = \"see @secret:not/an/alias\", deep = [{{ token = \"@secret:sources/telling/token\" }}] }}\n\
             [[route]]\nprefix = \"team/\"\nsource = \"telling\"\n",
        ),
    );
    add_routed(&world, "routed");
    unlock(&world);
    // What is named is not there yet: nothing is started with half of its settings.
    let checked = || world.keyless(&["source", "check", TOKEN]).run();
    let told = checked();
    assert!(told.exits(1).text().contains("sources/telling/token"), "{}", told.text());
    assert_eq!(state(&world, "telling")["state"], json!("needs-credential"));
    let doctor = world.keyless(&["doctor"]).run().text();
    assert!(doctor.contains("telling") && doctor.contains("sources/telling/token"), "{doctor}");
    assert!(!mark.exists());

    add_local(&world, "sources/telling/token", world.canary.value());
    world.agent_sh(USE).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
    assert_eq!(state(&world, "telling")["state"], json!("available"));
    // A session of `keyless run` asks a process of its own; the broker goes on with one for as long as it may.
    world.declares(format!("required = [{TOKEN:?}]\n"));
    let mut agent = Agent::connect(&world);
    let mut used_by = || {
        agent.tool("secrets_validate", &about(TOKEN)).unwrap();
        let all = fs::read_to_string(&mark).unwrap();
        all.lines().last().unwrap().to_owned()
    };
    let before = used_by();
    assert_eq!(used_by(), before);
    let other = world.another_value();
    let rotate = ["secret", "rotate", "sources/telling/token", "--value-stdin"];
    world.keyless(&rotate).stdin(other.clone()).run().ok();
    let after = used_by();
    assert_ne!(after, before);
    world.agent_sh(USE).run().ok();
    assert_eq!(origin.requests()[1].header("x"), Some(other.as_str().into()));
    let runs = |process: &str| {
        fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|line| !line.is_empty())
    };
    wait_until("the one before is ended", || !runs(&before));
    // It knows a value, and the vault is locked.
    assert!(runs(&after));
    world.keyless(&["lock"]).run().ok();
    wait_until("it is ended", || !runs(&after));
}
