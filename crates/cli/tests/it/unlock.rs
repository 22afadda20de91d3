//! The broker in the background: unlocked once, used by many, locked again in every way.

use std::{fs, os::unix::fs::PermissionsExt as _};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    terminal::at_a_terminal,
    world::{ALLOWED, World, wait_until},
};

const USE: &str = r#"curl -sS -H "X: $TOKEN" https://api.allowed.test/"#;

fn unlocked(window: &str) -> World {
    let world = World::with_token();
    unlock(&world, window);
    world
}

fn unlock(world: &World, window: &str) {
    let data = world.keyless(&["unlock", "--for", window, "--json"]).run().data();
    assert_eq!(data["unlocked"], json!(true));
}

fn status(world: &World) -> Value {
    let status = world.keyless(&["status", "--json"]).without_passphrase().run().data();
    if let Some(pid) = status["broker"]["pid"].as_u64() {
        for file in ["cmdline", "environ"] {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            world.saw(&format!("the broker's {file}"), &bytes);
        }
    }
    status
}

/// `keyless run` as a user has it after `keyless unlock`: no passphrase, no routes of its own.
const RUN: [&str; 2] = ["run", "--"];

#[test]
fn a_run_needs_no_passphrase_until_lock() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    unlock(&world, "10m");
    let run = || {
        let command = [&RUN[..], &["sh", "-c", USE]].concat();
        world.keyless(&command).without_passphrase().run()
    };
    let before = status(&world);
    assert_eq!((&before["unlocked"], &before["broker"]["sessions"]), (&json!(true), &json!(0)));
    assert!(before["broker"]["locks_in_seconds"].as_u64().unwrap() <= 600, "{before}");
    assert!(run().ok().contains("kloak_"));
    world.assert_received(&origin);
    let socket = world.home.keyless_home().join("run/agent.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);

    let locked = world.keyless(&["lock", "--json"]).run().data();
    assert_eq!(locked, json!({ "locked": true, "was_unlocked": true }));
    wait_until("the broker is gone", || status(&world)["unlocked"] == json!(false));
    let seen = run();
    assert!(seen.exits(5).errors().contains("next:  run keyless unlock"), "{}", seen.errors());
    let again = world.keyless(&["lock", "--json"]).run().data();
    assert_eq!(again["was_unlocked"], json!(false));
    assert_eq!(world.log().len(), 4, "{:?}", world.log());
}

#[test]
fn the_store_locks_itself() {
    let world = unlocked("1s");
    wait_until("the window is over", || status(&world)["unlocked"] == json!(false));
}

#[test]
fn a_wrong_passphrase_opens_nothing() {
    let world = World::with_token();
    world.home.write("operator/passphrase", "something else entirely\n").unwrap();
    let seen = world.keyless(&["unlock", "--json"]).run();
    assert_eq!(seen.exits(5).json()["errors"][0]["code"], json!("wrong_passphrase"));
    assert_eq!(status(&world)["unlocked"], json!(false));
}

#[test]
fn the_recovery_phrase_opens_the_store() {
    let world = World::with_token();
    let phrase = fs::read_to_string(world.operator_file("recovery")).unwrap();
    let phrase = world.watch(keyless_testkit::Canary::of(phrase.trim_end()));
    let unlock = world.keyless(&["unlock", "--recovery"]).without_passphrase();
    at_a_terminal(
        &world,
        unlock,
        &format!("expect(': '); say({phrase:?} + '\\n'); finish(code=0)"),
    );
    assert_eq!(status(&world)["unlocked"], json!(true));
}

#[test]
fn a_killed_run_ends_its_session() {
    let world = unlocked("10m");
    let command = [&RUN[..], &["sh", "-c", "echo ready; exec sleep 300"]].concat();
    let mut run = world.keyless(&command).without_passphrase().start();
    assert_eq!(run.line(), "ready");
    assert_eq!(status(&world)["broker"]["sessions"], json!(1));
    run.signal(Signal::KILL);
    wait_until("its session is gone", || status(&world)["broker"]["sessions"] == json!(0));
    let sockets = fs::read_dir(world.home.keyless_home().join("run")).unwrap();
    let names: Vec<_> = sockets.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["agent.sock"]);
}

#[test]
fn lock_cuts_running_sessions_off() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    unlock(&world, "10m");
    let script = format!("while read line; do {USE} -o /dev/null 2>/dev/null; echo $?; done");
    let command = [&RUN[..], &["sh", "-c", &script]].concat();
    let mut session = world.keyless(&command).without_passphrase().start();
    session.say("go");
    assert_eq!(session.line(), "0");
    world.keyless(&["lock"]).run().ok();
    wait_until("the broker is gone", || status(&world)["unlocked"] == json!(false));
    let before = origin.requests().len();
    session.say("go");
    assert_ne!(session.line(), "0");
    assert_eq!(origin.requests().len(), before);
}

/// The agent's own socket is the operator's too until doors are told apart; the jail hides it.
#[test]
fn the_jailed_agent_does_not_see_the_broker() {
    let world = unlocked("10m");
    let script = r"
import glob, os, socket
home = os.environ['STORE']
print(sorted(glob.glob(home + '/**', recursive=True)))
s = socket.socket(socket.AF_UNIX)
try: s.connect(home + '/run/agent.sock'); s.sendall(b'{\x22call\x22:\x22lock\x22}\n'); print('reached', s.recv(99))
except OSError as error: print('refused', error)
";
    let command = [&RUN[..], &["python3", "-c", script]].concat();
    let store = world.home.keyless_home();
    let text = world.keyless(&command).without_passphrase().env("STORE", store).run().ok();
    assert!(text.contains("refused") && !text.contains(".db"), "{text}");
    assert_eq!(status(&world)["unlocked"], json!(true));
}

#[test]
fn unlock_twice_is_once() {
    let world = unlocked("10m");
    let pid = status(&world)["broker"]["pid"].clone();
    unlock(&world, "10m");
    assert_eq!(status(&world)["broker"]["pid"], pid);
}
