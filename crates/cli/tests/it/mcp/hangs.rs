//! A broker that is there and does not answer.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Agent, unlocked};
use crate::world::World;

/// The broker's process.
fn broker(world: &World) -> (i32, Pid) {
    let status = world.keyless(&["status", "--json"]).run().data();
    let pid = i32::try_from(status["broker"]["pid"].as_u64().unwrap()).unwrap();
    (pid, Pid::from_raw(pid).unwrap())
}

/// A broker that is stopped holds its connections open, and answers none of them.
#[test]
fn a_broker_that_hangs_is_told_to_each_tool_soon() {
    let world = unlocked();
    let (mut warm, mut fresh) = (Agent::connect(&world), Agent::connect(&world));
    warm.tool("secrets_list", &json!({})).unwrap();
    let (pid, process) = broker(&world);
    kill_process(process, Signal::STOP).unwrap();
    let begun = Instant::now();
    for (agent, tool) in [(0, "secrets_list"), (0, "secrets_status"), (1, "secrets_status")] {
        let agent = [&mut warm, &mut fresh].into_iter().nth(agent).unwrap();
        let message = agent.message_of(tool, &json!({}));
        assert!(message.contains(&format!("from process {pid}")), "{tool}: {message}");
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let (told, remedy) = fresh.fault("secrets_list", &json!({}));
    assert_eq!((told.as_str(), &remedy["actor"]), ("broker-hangs", &json!("user")));
    // Both go on with it once it does, and neither takes an answer that comes late for one to what it asks now.
    kill_process(process, Signal::CONT).unwrap();
    for agent in [&mut warm, &mut fresh] {
        assert_eq!(agent.tool("secrets_status", &json!({})).unwrap()["state"], "unlocked");
    }
}

/// Actions go over another kind of connection.
#[test]
fn a_broker_that_hangs_is_told_to_who_acts() {
    let world = unlocked();
    let (pid, process) = broker(&world);
    let mut server = world.keyless(&["mcp", "--toolset", "nl"]).without_passphrase().start();
    let mut call = |id: u32, method: &str, params: Value| {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        server.say(&request.to_string());
        server.line()
    };
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    });
    call(1, "initialize", hello);
    let list = || json!({ "name": "nl_list_secrets", "arguments": {} });
    call(2, "tools/call", list());
    kill_process(process, Signal::STOP).unwrap();
    let begun = Instant::now();
    let answer = call(3, "tools/call", list());
    assert!(answer.contains(&format!("from process {pid}")), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    kill_process(process, Signal::CONT).unwrap();
    let answer = call(4, "tools/call", list());
    assert!(answer.contains(r#""id":4"#) && !answer.contains("from process"), "{answer}");
}
