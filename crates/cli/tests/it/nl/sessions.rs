//! Sessions as agents: who is in a jail speaks NL at the jail's own socket, and grants say what it may do.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use super::{AGENT, Served, granted, scale::Line, with_secrets};
use crate::{
    invocation::KEYLESS,
    mcp::unlock,
    schemas,
    world::{World, wait_until},
};

/// The agent that each session of `keyless run` is.
pub(crate) const RUN: &str = concat!("nl://keyless.dev/run/", env!("CARGO_PKG_VERSION"));
/// Speaks as whoever the socket says: a greeting, then a message for each line of the script.
const SPEAK: &str = "
import json, os, socket, sys, uuid
from datetime import datetime, timezone
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ['KEYLESS_AGENT_SOCKET'])
stream = line.makefile('rwb')
for kind, payload in json.loads(sys.argv[1]):
    now = datetime.now(timezone.utc).strftime('%Y-%m-%dT%H:%M:%S.%f')[:-3] + 'Z'
    stream.write(json.dumps({'nl_version': '1.0', 'message_type': kind, 'message_id': str(uuid.uuid4()),
        'timestamp': now, 'payload': payload}).encode() + b'\\n')
    stream.flush()
    print(stream.readline().decode().strip())
";

/// What the messages of a script are answered, from inside a session's jail.
pub(crate) fn spoken(world: &World, script: &Value) -> Vec<Value> {
    spoken_with(world, &[], script)
}

/// The same, with options for `keyless run`.
fn spoken_with(world: &World, options: &[&str], script: &Value) -> Vec<Value> {
    let script = script.to_string();
    let command = ["--", "python3", "-c", SPEAK, &script];
    let seen = world.keyless(&[&["run"], options, &command].concat());
    payloads(world, &seen.without_passphrase().run().ok())
}

fn payloads(world: &World, text: &str) -> Vec<Value> {
    let told = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: Vec<Value> = told.collect();
    for one in &told {
        schemas::note(world, "envelope", one);
    }
    assert_eq!(schemas::misfits(world), "");
    told.into_iter().map(|one| one["payload"].clone()).collect()
}

pub(crate) fn stdin_of(secret: &str) -> Value {
    let reference = format!("{{{{nl:{secret}}}}}");
    json!({ "type": "inject_stdin", "command": "cat", "secret_ref": reference })
}

#[test]
fn a_session_is_an_agent_and_its_grants_say_what_it_may_do() {
    let world = with_secrets();
    granted(&world, RUN, &["db/*"]);
    unlock(&world);
    let forged =
        json!({ "agent_uri": AGENT, "instance_id": "11111111-1111-4111-8111-111111111111" });
    let answers = spoken(
        &world,
        &json!([
            ["handshake", {}],
            ["action_request", { "action": stdin_of("db/PASSWORD") }],
            ["action_request", { "action": stdin_of("api/TOKEN") }],
            ["action_request", { "action": stdin_of("db/PASSWORD"), "agent": forged }],
        ]),
    );
    assert_eq!(answers[0]["agent"]["agent_uri"], RUN, "{}", answers[0]);
    assert_eq!(answers[1]["result"]["stdout"], "[REDACTED:db/PASSWORD]\n", "{}", answers[1]);
    assert_eq!(answers[2]["error"]["code"], "NL-E200", "{}", answers[2]);
    assert_eq!(answers[3]["error"]["code"], "NL-E100", "{}", answers[3]);
    let instance = answers[0]["agent"]["instance_id"].as_str().unwrap();
    let lives = || -> Vec<Value> {
        let log = world.log().into_iter();
        log.filter(|entry| entry["target"].as_str().is_some_and(|it| it.ends_with(instance)))
            .map(|entry| entry["action"].clone())
            .filter(|action| action.as_str().is_some_and(|action| action.starts_with("agent_")))
            .collect()
    };
    wait_until("the session is over", || lives().len() > 1);
    assert_eq!(lives(), ["agent_register", "agent_transition"]);
    let listed = world.keyless(&["agent", "list", "--json"]).run().data();
    assert_eq!(listed["agents"], json!([]), "a session that is over is no agent");
}

/// What an agent may do does not hang on who opened the store.
#[test]
fn a_run_that_opens_the_store_itself_is_an_agent_too() {
    let world = with_secrets();
    granted(&world, RUN, &["db/*"]);
    let template = world.home.keyless_home().join("config.toml");
    let hidden = json!({ "type": "template", "template_path": template });
    let script = json!([
        ["handshake", {}],
        ["action_request", { "action": stdin_of("db/PASSWORD") }],
        ["action_request", { "action": stdin_of("api/TOKEN") }],
        ["action_request", { "action": hidden }],
    ])
    .to_string();
    let answers = world.keyless(&["run", "--", "python3", "-c", SPEAK, &script]).run().ok();
    let answers = payloads(&world, &answers);
    assert_eq!(answers[0]["agent"]["agent_uri"], RUN, "{}", answers[0]);
    assert_eq!(answers[1]["result"]["stdout"], "[REDACTED:db/PASSWORD]\n", "{}", answers[1]);
    assert_eq!(answers[2]["error"]["code"], "NL-E200", "{}", answers[2]);
    assert_eq!(answers[3]["error"]["keyless_code"], "path_unusable", "{}", answers[3]);
    let instance = answers[0]["agent"]["instance_id"].as_str().unwrap();
    let log = world.log().into_iter();
    let about =
        log.filter(|entry| entry["target"].as_str().is_some_and(|it| it.ends_with(instance)));
    let lives: Vec<Value> = about
        .map(|entry| entry["action"].clone())
        .filter(|action| action.as_str().is_some_and(|action| action.starts_with("agent_")))
        .collect();
    assert_eq!(lives, ["agent_register", "agent_transition"]);
    let listed = world.keyless(&["agent", "list", "--json"]).run().data();
    assert_eq!(listed["agents"], json!([]), "a session that is over is no agent");
    let left = fs::read_dir(world.home.keyless_home().join("run")).unwrap().flatten();
    let sockets = left.filter(|one| one.path().extension().is_some_and(|it| it == "sock"));
    assert_eq!(sockets.count(), 0, "no socket stays");
    // Tools for secrets ask at the same socket; who has no store has none.
    let hello = r#"printf '{"call":"status"}\n' | python3 -c '
import os, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ["KEYLESS_AGENT_SOCKET"])
line.sendall(sys.stdin.buffer.read())
print(line.makefile().readline())'"#;
    let status = world.keyless(&["run", "--", "sh", "-c", hello]).run().ok();
    assert!(status.contains(r#""locked":false"#), "{status}");
    let bare = ["run", "--no-secrets", "--", "sh", "-c", "echo ${KEYLESS_AGENT_SOCKET-none}"];
    assert_eq!(world.keyless(&bare).run().ok(), "none\n");
}

#[test]
fn an_action_is_no_way_to_what_is_hidden_from_its_session() {
    let world = with_secrets();
    unlock(&world);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan");
    fs::write(&file, "of theirs").unwrap();
    for (path, mode) in [(folder.path(), 0o755), (&file, 0o644)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let file = file.to_str().unwrap();
    let action = json!({ "type": "template", "template_path": file });
    let script = json!([["action_request", { "action": action }]]);
    assert_eq!(spoken(&world, &script)[0]["status"], "success");
    let hidden = spoken_with(&world, &["--hide", file], &script).remove(0);
    assert_eq!(hidden["error"]["keyless_code"], "path_unusable", "{hidden}");
    assert_eq!(spoken(&world, &script)[0]["status"], "success");
}

#[test]
fn programs_of_a_session_need_no_credential() {
    let world = with_secrets();
    granted(&world, RUN, &["db/*"]);
    unlock(&world);
    let action = json!({ "action": stdin_of("db/PASSWORD") });
    let message = json!({
        "nl_version": "1.0", "message_type": "action_request", "message_id": "m1",
        "timestamp": jiff::Timestamp::now().to_string(), "payload": action,
    });
    let script = format!("printf '%s\\n' '{message}' | {KEYLESS} serve --stdio");
    let text = world.keyless(&["run", "--", "sh", "-c", &script]).without_passphrase().run().ok();
    assert!(text.contains("[REDACTED:db/PASSWORD]"), "{text}");
    // The last one is one without its line break as well.
    let message = message.to_string().replace("\"m1\"", "\"m2\"");
    let script = format!("printf '%s' '{message}' | {KEYLESS} serve --stdio");
    let text = world.keyless(&["run", "--", "sh", "-c", &script]).without_passphrase().run().ok();
    assert!(text.contains("[REDACTED:db/PASSWORD]"), "{text}");
}

#[test]
fn a_connection_that_is_an_agents_does_not_become_anothers() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let (agent, helper) = (&served.agents["agent"], &served.agents["helper"]);
    let mut line = Line::of(&served, agent);
    let refused = line.ask("handshake", helper);
    assert_eq!(refused["error"]["code"], "NL-E100", "{refused}");
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("another agent's"), "{words}");
    // Who does not wait for that answer does nothing under the first one's name, which may be shown again.
    let undone = line.act(&stdin_of("db/PASSWORD"));
    assert_eq!(undone["error"]["code"], "NL-E100", "{undone}");
    assert!(
        undone["error"]["message"].as_str().unwrap().contains("handshake here failed"),
        "{undone}"
    );
    assert_eq!(line.ask("handshake", agent)["status"], "authenticated");
    let done = line.act(&stdin_of("db/PASSWORD"));
    assert_eq!(done["result"]["stdout"], "[REDACTED:db/PASSWORD]\n", "{done}");
    Line::of(&served, helper);
}

#[test]
fn a_session_whose_handshake_failed_does_nothing_until_one_succeeds() {
    let world = with_secrets();
    granted(&world, RUN, &["db/*"]);
    unlock(&world);
    let forged = json!({
        "agent_uri": AGENT, "instance_id": "11111111-1111-4111-8111-111111111111", "credential": "nlk_guessed",
    });
    let action = json!({ "action": stdin_of("db/PASSWORD") });
    let answers = spoken(
        &world,
        &json!([
            ["handshake", forged],
            ["action_request", action],
            ["handshake", {}],
            ["action_request", action],
        ]),
    );
    let codes: Vec<_> = answers.iter().map(|one| &one["error"]["code"]).collect();
    let refused = &json!("NL-E100");
    assert_eq!(codes, [refused, refused, &Value::Null, &Value::Null], "{answers:#?}");
    assert_eq!(answers[3]["result"]["stdout"], "[REDACTED:db/PASSWORD]\n", "{}", answers[3]);
}

/// Section 8.1 of the digest: the credential comes from the environment, never from stdin.
#[test]
fn nobody_becomes_another_agent_over_stdio() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let (agent, helper) = (&served.agents["agent"], &served.agents["helper"]);
    let text = |of: &Value, key: &str| of[key].as_str().unwrap().to_owned();
    let named = json!({ "agent_uri": agent["agent_uri"], "instance_id": agent["instance_id"] });
    let action = json!({ "action": stdin_of("db/PASSWORD") });
    let messages = [
        ("handshake", helper),
        ("action_request", &action),
        ("handshake", agent),
        ("handshake", &named),
        ("action_request", &action),
    ];
    let lines = messages.iter().enumerate().map(|(number, (kind, payload))| {
        let message = json!({
            "nl_version": "1.0", "message_type": kind, "message_id": format!("m{number}"),
            "timestamp": jiff::Timestamp::now().to_string(), "payload": payload,
        });
        format!("{message}\n")
    });
    let serve = world.keyless(&["serve", "--stdio"]).without_passphrase();
    let serve = serve.env("NL_AGENT_URI", text(agent, "agent_uri"));
    let serve = serve.env("NL_INSTANCE_ID", text(agent, "instance_id"));
    let serve = serve.env("NL_AGENT_CREDENTIAL", text(agent, "credential"));
    let told = payloads(&world, &serve.stdin(lines.collect::<String>()).run().ok());
    let codes: Vec<_> = told.iter().map(|one| &one["error"]["code"]).collect();
    let refused = &json!("NL-E100");
    assert_eq!(codes, [refused, refused, refused, &Value::Null, &Value::Null], "{told:#?}");
    assert_eq!(told[4]["result"]["stdout"], "[REDACTED:db/PASSWORD]\n", "{}", told[4]);
}
