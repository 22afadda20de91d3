//! What only bare lines show: versions, what is no message, and calls that are withdrawn.

use std::fs;

use serde_json::{Value, json};

use super::{KEYLESS, SERVER};
use crate::{
    invocation::Background,
    pack::{codex, with_repo},
    world::{World, wait_until},
};

/// A client that speaks bare lines.
struct Wire<'w>(Background<'w>);

impl<'w> Wire<'w> {
    fn open(world: &'w World) -> Self {
        let command = [&[KEYLESS], SERVER].concat();
        Self(world.keyless(&[]).env("AGENTPACK_FSYNC", "0").instead(&command).start())
    }

    fn send(&mut self, id: u32, method: &str, params: &Value) {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.0.say(&request.to_string());
    }

    /// The next line; whatever it is, it is a message of the protocol.
    fn hear(&mut self) -> Value {
        let line = self.0.line();
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    fn greet(&mut self, version: &str) -> Value {
        let client = json!({ "name": "t", "version": "1" });
        let params =
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
        self.send(0, "initialize", &params);
        let answer = self.hear();
        self.0.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        answer["result"]["protocolVersion"].clone()
    }
}

/// "If the client requests a supported version … that same version; otherwise 2025-06-18."
#[test]
fn two_versions_are_spoken_and_no_other_is_echoed() {
    let world = World::empty();
    for (asked, answered) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-06-18"),
        ("2025-11-25", "2025-06-18"),
        ("1999-01-01", "2025-06-18"),
        ("draft", "2025-06-18"),
    ] {
        assert_eq!(Wire::open(&world).greet(asked), answered, "{asked}");
    }
}

/// Requirement "No non-protocol output on stdout", with its scenario: warnings, faults and bad lines stay protocol.
#[test]
fn nothing_but_protocol_is_on_stdout_and_the_server_lives_on() {
    let world = with_repo(1);
    crate::pack::write(
        &world,
        "agentpack.yaml",
        &format!("{}unknown_key: 1\n", crate::pack::MANIFEST),
    );
    let mut wire = Wire::open(&world);
    wire.greet("2025-06-18");
    for line in ["{", "[]", "true", r#"{"foo":1}"#, r#"{"jsonrpc":"1.0","id":5,"method":"ping"}"#] {
        wire.0.say(line);
        assert!(wire.hear()["error"]["code"].as_i64().unwrap() <= -32600, "{line}");
    }
    wire.0.say("");
    wire.send(6, "tools/call", &json!({ "name": "plan", "arguments": {} }));
    let answer = wire.hear();
    let envelope = &answer["result"]["structuredContent"];
    assert!(answer["id"] == 6 && envelope["warnings"][0].as_str().unwrap().contains("unknown_key"));
    wire.send(7, "tools/call", &json!({ "name": "plan", "arguments": [] }));
    assert_eq!(wire.hear()["error"]["code"], -32602);
    wire.send(8, "no/such", &json!({}));
    assert_eq!(wire.hear()["error"]["code"], -32601);
    assert!(wire.0.wait().success(), "it ends with its input");
}

/// A call that is withdrawn stops between two writes and is undone.
#[test]
fn a_cancelled_apply_leaves_nothing_behind() {
    let world = with_repo(3000);
    let mut wire = Wire::open(&world);
    wire.greet("2025-06-18");
    wire.send(1, "tools/call", &json!({ "name": "deploy", "arguments": {} }));
    let token = wire.hear()["result"]["structuredContent"]["data"]["confirm_token"].clone();
    let arguments = json!({ "yes": true, "confirm_token": token });
    let meta = json!({ "progressToken": "p" });
    let params = json!({ "name": "deploy_apply", "arguments": arguments, "_meta": meta });
    wire.send(2, "tools/call", &params);
    let first = wire.hear();
    assert_eq!(first["method"], "notifications/progress");
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } });
    wire.0.say(&cancel.to_string());
    // The next call waits for its turn, which comes when the apply has been undone.
    wire.send(3, "tools/call", &json!({ "name": "status", "arguments": {} }));
    let status = loop {
        let message = wire.hear();
        if message["id"] == 3 {
            break message["result"]["structuredContent"].clone();
        }
        assert_eq!(message["method"], "notifications/progress", "no answer to what was cancelled");
    };
    assert_eq!(status["data"]["summary"]["missing"], 3002, "{}", status["data"]["summary"]);
    let warnings = status["warnings"].to_string();
    assert!(!warnings.contains("interrupted"), "{warnings}");
    wait_until("nothing is left", || {
        fs::read_dir(codex(&world).join("skills")).map_or(true, |mut d| d.next().is_none())
    });
}
