//! What nobody may get by asking: a value, another's answer, a person's patience.

use std::{
    cell::RefCell,
    collections::VecDeque,
    fs,
    io::Write as _,
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use serde_json::{Value, json};

use super::{Agent, about, approve, gated, pending, unlock, unlocked};
use crate::world::{TOKEN, World, wait_until};

#[test]
fn a_late_answer_and_a_foreign_session_get_nothing() {
    let world = World::with_token();
    gated(&world, "session");
    unlock(&world);
    let (mut agent, mut other) = (Agent::connect(&world), Agent::connect(&world));
    let short = json!({ "path": TOKEN, "reason": "soon", "ttl_seconds": 1 });
    let id = agent.ask("secrets_request_use_approval", &short);
    let unknown = format!("unknown request_id: {id}");
    assert_eq!(other.tool("secrets_poll_status", &json!({ "request_id": id })), Err(unknown));
    let agent = RefCell::new(agent);
    wait_until("it expires", || agent.borrow_mut().status(&id) == "expired");
    let late = approve(&world, &[&id, "--session"]);
    assert_eq!(late.status.code(), Some(4), "{}", late.errors());
    assert_eq!(agent.borrow_mut().status(&id), "expired");
}

#[test]
fn a_person_is_not_flooded() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let propose =
        |number: u32| json!({ "suggested_path": format!("team/x/key{number}"), "metadata": {} });
    for number in 0..10 {
        agent.ask("secrets_propose_new_path", &propose(number));
    }
    let refused = agent.tool("secrets_propose_new_path", &propose(10));
    assert_eq!(refused, Err("rate-limited".to_owned()));
    assert_eq!(pending(&world).len(), 10);
}

#[test]
fn who_can_write_the_store_can_answer_nothing() {
    let world = World::with_token();
    gated(&world, "session");
    unlock(&world);
    let mut agent = Agent::connect(&world);
    let reason = json!({ "path": TOKEN, "reason": "please" });
    let id = agent.ask("secrets_request_use_approval", &reason);
    world.sqlite(&format!(
        "UPDATE requests SET settled = '{{\"at\":\"2026-01-01T00:00:00Z\",\"status\":{{\"kind\":\"session\"}},\
         \"holds_until\":\"2099-01-01T00:00:00Z\"}}' WHERE id = '{id}'"
    ));
    let polled = agent.tool("secrets_poll_status", &json!({ "request_id": id }));
    assert_eq!(polled, Err(format!("unknown request_id: {id}")));
    assert_eq!(
        approve(&world, &["--list", "--json"]).data(),
        json!({ "pending": [], "standing": [] })
    );
}

#[test]
fn a_stranger_of_the_same_account_gets_no_value_and_no_say() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let id = agent.ask("secrets_request_rotation", &about(TOKEN));
    let run = world.home.keyless_home().join("run");
    let mut operator = Stranger::at(&world, run.join("operator.sock"));
    for call in [
        json!({ "call": "pending" }),
        json!({ "call": "standing" }),
        json!({ "call": "take_back", "id": id }),
        json!({ "call": "answer", "id": id, "answer": { "word": "cancel" }, "value_bytes": null }),
        json!({ "call": "secure", "word": "00" }),
        json!({ "call": "secure", "word": "5a".repeat(48) }),
    ] {
        assert_eq!(operator.call(&call)["code"], json!("operator_required"), "{call}");
    }
    assert_eq!(operator.call(&json!({ "call": "reveal" }))["code"], json!("bad_request"));
    wait_until("all are logged", || world.log_of("operator_required").len() == 6);
    let mut socket = Stranger::at(&world, run.join("agent.sock"));
    let open = json!({ "call": "open_session", "wanted": "all", "inherited": [] });
    assert!(socket.call(&open)["environment"]["variables"][0]["placeholder"].is_string());
    let early = json!({ "call": "secrets", "manifest": null, "ask": { "ask": "status" } });
    assert_eq!(socket.call(&early)["code"], json!("bad_request"));
    let forged = json!({ "session": agent_session(&world), "seal": "00" });
    let greeted = socket.call(&json!({ "call": "hello", "ticket": forged }));
    assert_ne!(greeted["ticket"]["session"], forged["session"]);
    assert_eq!(agent.status(&id), "pending");
}

/// A socket of his own in the place of the broker's, which he goes on asking: he hands on what he hears, says some of it
/// twice, and answers himself.
#[test]
fn who_takes_the_brokers_place_hears_nothing_and_says_nothing() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let run = world.home.keyless_home().join("run");
    let (socket, heard) = (run.join("operator.sock"), world.operator_file("heard"));
    fs::rename(&socket, run.join("broker.sock")).unwrap();
    let between = "import os, socket, threading, sys
at, broker, heard = os.environ['AT'], os.environ['BROKER'], open(os.environ['HEARD'], 'wb', 0)
def carry(one, other, repeats):
    try:
        while data := one.recv(65536):
            heard.write(data); other.sendall(data)
            if repeats and not data.startswith(b'{'):
                other.sendall(data); repeats = False
        other.shutdown(socket.SHUT_WR)
    except OSError: pass
    other.close()
door = socket.socket(socket.AF_UNIX); door.bind(at); door.listen()
print('ready', flush=True)
for kind in ['hands on', 'repeats', 'answers']:
    ours, _ = door.accept()
    if kind == 'answers':
        heard.write(ours.makefile('rb').readline())
        ours.sendall(b'{\"reply\":\"secured\",\"word\":\"' + b'5a' * 48 + b'\"}\\n')
        while data := ours.recv(65536): heard.write(data)
        continue
    theirs = socket.socket(socket.AF_UNIX); theirs.connect(broker)
    threading.Thread(target=carry, args=(theirs, ours, False), daemon=True).start()
    carry(ours, theirs, kind == 'repeats')
print('done', flush=True)";
    let mut between = world
        .keyless(&[])
        .env("AT", &socket)
        .env("BROKER", run.join("broker.sock"))
        .env("HEARD", &heard)
        .instead(&["python3", "-c", between])
        .start();
    assert!(between.line().contains("ready"));
    let value = world.another_value();
    let answered = |id: &str| {
        let accept = ["approve", id, "--accept", "--overwrite", "--value-stdin"];
        world.keyless(&accept).stdin(value.as_str()).run()
    };
    let id = agent.ask("secrets_request_rotation", &about(TOKEN));
    answered(&id).ok();
    assert_eq!(agent.status(&id), "ok");
    let id = agent.ask("secrets_request_rotation", &about(TOKEN));
    let torn = answered(&id);
    assert!(torn.exits(5).errors().contains("is not running"), "{}", torn.errors());
    let refused = answered(&id);
    assert!(
        refused.exits(7).errors().contains("has not opened this vault"),
        "{}",
        refused.errors()
    );
    assert_eq!(agent.status(&id), "pending");
    assert!(between.line().contains("done"));
    let heard = fs::read(heard).unwrap();
    let has = |text: &str| heard.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(heard.len() > 1000 && !has(&value) && !has(TOKEN) && !has(&id));
}

/// As many connections as a process may have: those that showed nothing give way, and not to the operator alone.
#[test]
fn who_takes_all_connections_keeps_no_operator_out() {
    let world = unlocked();
    let mut agent = Agent::connect(&world);
    let id = agent.ask("secrets_request_rotation", &about(TOKEN));
    let run = world.home.keyless_home().join("run");
    let mut first = Stranger::at(&world, run.join("operator.sock"));
    first.call(&json!({ "call": "secure", "word": "00" }));
    let crowd: Vec<_> = (0..200)
        .map(|_| {
            let mut stranger = Stranger::at(&world, run.join("operator.sock"));
            stranger.call(&json!({ "call": "secure", "word": "00" }));
            stranger
        })
        .collect();
    assert!(first.has_ended(), "the oldest has given way");
    let listed = approve(&world, &["--list", "--json"]).data();
    assert_eq!(listed["pending"][0]["id"], json!(id), "{listed}");
    approve(&world, &[&id, "--deny"]).ok();
    drop(crowd);
}

/// Whoever connects anew faster than an operator can prove the factor takes the places of its own process.
#[test]
fn who_connects_in_a_loop_pushes_no_operator_out() {
    let world = unlocked();
    let socket = world.home.keyless_home().join("run/operator.sock");
    // An operator whose proof is not there yet.
    let proving = "import os, socket
stream = socket.socket(socket.AF_UNIX); stream.connect(os.environ['AT']); lines = stream.makefile('rw')
for line in ['{\"call\": \"secure\", \"word\": \"00\"}'] * 2:
    print(line, file=lines, flush=True); print(lines.readline(), end='', flush=True); input()";
    let proving = world.keyless(&[]).env("AT", &socket).instead(&["python3", "-c", proving]);
    let mut proving = proving.start();
    assert!(proving.line().contains("operator_required"));
    let (stop, rounds, mut seen) = (AtomicBool::new(false), AtomicUsize::new(0), Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut open = VecDeque::new();
            while !stop.load(Ordering::Relaxed) {
                open.push_back(UnixStream::connect(&socket).unwrap());
                if open.len() > 200 {
                    open.pop_front();
                }
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        wait_until("all places are taken", || rounds.load(Ordering::Relaxed) > 1000);
        for _ in 0..4 {
            seen.push(approve(&world, &["--list"]));
        }
        stop.store(true, Ordering::Relaxed);
    });
    for operator in seen {
        operator.ok();
    }
    proving.say("go on");
    assert!(proving.line().contains("operator_required"), "it is answered still");
}

/// Words about an action, a deploy or one deed are the broker's: else a person would read one thing and allow another.
#[test]
fn an_agent_puts_no_words_into_the_brokers_mouth() {
    let world = World::with_token();
    gated(&world, "session");
    unlock(&world);
    let mut socket = Stranger::at(&world, world.home.keyless_home().join("run/agent.sock"));
    socket.call(&json!({ "call": "hello", "ticket": null }));
    let wanted = json!({
        "agent": "nl://keyless.dev/run/0.1.0", "action": "exec", "secrets": [TOKEN], "hosts": [], "text": "ls",
        "purpose": null, "sha256": "0".repeat(64),
    });
    let deploy = json!({
        "plan_hash": "0".repeat(64), "verb": "deploy", "project": "/p", "repo": "/r", "profile": "default",
        "machine": "m", "files": [], "more_files": 0,
    });
    let deed = "GET api.allowed.test:443/";
    for asked in [
        json!({ "kind": "action-approval", "wanted": wanted }),
        json!({ "kind": "deploy-apply", "wanted": deploy }),
        json!({ "kind": "use-approval", "reason": "to look", "deed": deed }),
    ] {
        let ask = json!({ "ask": "request", "path": TOKEN, "asked": asked, "ttl_seconds": null });
        let refused = socket.call(&json!({ "call": "secrets", "manifest": null, "ask": ask }));
        assert_eq!(refused["code"], json!("bad_request"), "{asked}: {refused}");
    }
    let fields = json!({ "description": "mine" });
    let asked = json!({ "kind": "use-approval", "reason": "to look" });
    let ask = json!({ "ask": "request", "path": TOKEN, "asked": asked, "ttl_seconds": null });
    let made = socket.call(&json!({ "call": "secrets", "manifest": null, "ask": ask }));
    assert_eq!(made["answer"], json!("secrets"), "{made}");
    // What is declared is not the agent's to say either.
    let asked = json!({ "kind": "metadata-proposal", "fields": fields, "declared": fields });
    let ask = json!({ "ask": "request", "path": TOKEN, "asked": asked, "ttl_seconds": null });
    socket.call(&json!({ "call": "secrets", "manifest": null, "ask": ask }));
    let waiting = pending(&world);
    assert_eq!(waiting.len(), 2, "{waiting:?}");
    assert_eq!(waiting[1]["asked"].get("declared"), None, "{waiting:?}");
}

/// The session that asked.
fn agent_session(world: &World) -> Value {
    pending(world)[0]["session"].clone()
}

/// A process that connects to a socket and reads everything that it is told.
struct Stranger<'w> {
    world: &'w World,
    stream: std::io::BufReader<UnixStream>,
}

impl<'w> Stranger<'w> {
    fn at(world: &'w World, socket: PathBuf) -> Self {
        Self { world, stream: std::io::BufReader::new(UnixStream::connect(socket).unwrap()) }
    }

    /// Whether the other side has closed the connection.
    fn has_ended(&mut self) -> bool {
        let patience = std::time::Duration::from_secs(10);
        self.stream.get_ref().set_read_timeout(Some(patience)).unwrap();
        std::io::Read::read(&mut self.stream, &mut [0]).is_ok_and(|read| read == 0)
    }

    fn call(&mut self, call: &Value) -> Value {
        writeln!(self.stream.get_mut(), "{call}").unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut self.stream, &mut line).unwrap();
        self.world.saw("a socket", line.as_bytes());
        serde_json::from_str(&line).unwrap()
    }
}

/// Every tool, with every sort of argument, over a store that has a value: the world searches what was said.
#[test]
fn no_tool_and_no_error_shows_a_value() {
    let world = World::with_token();
    gated(&world, "per-call");
    let manifest =
        format!("required = [\"{TOKEN}\", \"Bad\", 7]\noptional = [\"team/bare/key\"]\n");
    world.declares(manifest);
    let canary = world.canary.value().to_owned();
    let mut agent = Agent::connect(&world);
    let names = [
        "secrets_list",
        "secrets_describe",
        "secrets_request_provision",
        "secrets_request_rotation",
        "secrets_propose_metadata",
        "secrets_propose_new_path",
        "secrets_request_use_approval",
        "secrets_poll_status",
        "secrets_status",
        "secrets_unlock",
        "secrets_validate",
    ];
    let tools = agent.call("tools/list", &json!({}));
    let listed: Vec<_> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(listed, names.map(Value::from));
    let beyond = agent.call("tools/list", &json!({ "cursor": "zz" }));
    assert_eq!(beyond["error"]["code"], -32602, "{beyond}");
    let arguments = [
        json!({}),
        about(TOKEN),
        about("team/none/such"),
        about("nonsense"),
        json!({ "path": TOKEN, "reason": "r", "fields": { "description": "d" }, "liveness": true }),
        json!({ "suggested_path": TOKEN, "request_id": "prov-000000000000", "totp": "123456" }),
    ];
    // Locked, open, with a broken manifest.
    for round in 0..3 {
        for name in names {
            for arguments in &arguments {
                let answer =
                    agent.call("tools/call", &json!({ "name": name, "arguments": arguments }));
                assert!(!answer.to_string().contains(&canary), "{name} {arguments}");
                assert_eq!(answer["result"]["content"][0]["type"], "text", "{answer}");
            }
        }
        match round {
            0 => unlock(&world),
            _ => {
                fs::write(world.home.work().join(".keyless/secrets.toml"), "required = [").unwrap();
            }
        }
    }
    assert_eq!(agent.tool("secrets_list", &json!({})), Err("merge-failed".to_owned()));
    let screen = approve(&world, &["--list"]).ok();
    assert!(!screen.contains(&canary));
}
