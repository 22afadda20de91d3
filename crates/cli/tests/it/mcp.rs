//! Tools for agents, and the person who answers at a terminal.

/// Values, rotations, proposals, and what becomes of them over a restart.
mod answers;
/// The official conformance suite.
mod conformance;
/// Where tools are served, and official clients of them.
mod doors;
/// A broker that does not answer.
mod hangs;
/// What of a broker other processes of the machine can read.
mod neighbours;
/// What nobody may get by asking.
mod strangers;
/// Uses that wait for a person's word.
mod uses;

use std::{fs, path::PathBuf};

use keyless_testkit::Canary;
use serde_json::{Value, json};

use crate::{
    invocation::{Background, Invocation, Seen},
    world::{TOKEN, World, wait_until},
};

pub(crate) const USE: &str =
    r#"curl -sS --max-time 60 -o body -w '%{http_code}' -H "X: $TOKEN" https://api.allowed.test/"#;

/// `keyless mcp` and an agent that speaks to it.
pub(crate) struct Agent<'w> {
    server: Background<'w>,
    calls: u64,
}

impl<'w> Agent<'w> {
    pub(crate) fn connect(world: &'w World) -> Self {
        let server = world.keyless(&["mcp"]).without_passphrase().start();
        let mut agent = Self { server, calls: 0 };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
        });
        assert_eq!(
            agent.call("initialize", &hello)["result"]["serverInfo"]["name"],
            "keyless-secrets"
        );
        agent.server.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        agent
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.calls, "method": method, "params": params });
        self.server.say(&request.to_string());
        let answer: Value = serde_json::from_str(&self.server.line()).unwrap();
        assert_eq!(answer["id"], json!(self.calls), "{answer}");
        answer
    }

    /// What a tool says: its JSON, or the word of its error.
    pub(crate) fn tool(&mut self, name: &str, arguments: &Value) -> Result<Value, String> {
        let answer = self.call("tools/call", &json!({ "name": name, "arguments": arguments }));
        let text =
            answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        let text: Value = serde_json::from_str(text).unwrap();
        if answer["result"]["isError"] == json!(true) {
            return Err(text["error"].as_str().unwrap().to_owned());
        }
        Ok(text)
    }

    /// The error of a tool: its word, and what to do about it.
    pub(crate) fn fault(&mut self, name: &str, arguments: &Value) -> (String, Value) {
        let answer = self.call("tools/call", &json!({ "name": name, "arguments": arguments }));
        assert_eq!(answer["result"]["isError"], json!(true), "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        let text: Value = serde_json::from_str(text).unwrap();
        (text["error"].as_str().unwrap().to_owned(), text["remediation"].clone())
    }

    /// What the error of a tool says happened.
    pub(crate) fn message_of(&mut self, name: &str, arguments: &Value) -> String {
        let answer = self.call("tools/call", &json!({ "name": name, "arguments": arguments }));
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        let text: Value = serde_json::from_str(text).unwrap();
        text["message"].as_str().unwrap_or_else(|| panic!("{text}")).to_owned()
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, name: &str, arguments: &Value) -> String {
        let reply = self.tool(name, arguments).unwrap();
        reply["request_id"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
    }

    pub(crate) fn poll(&mut self, id: &str) -> Value {
        self.tool("secrets_poll_status", &json!({ "request_id": id })).unwrap()
    }

    pub(crate) fn status(&mut self, id: &str) -> String {
        self.poll(id)["status"]["kind"].as_str().unwrap().to_owned()
    }
}

/// `keyless mcp --http`, with a credential that it has made.
pub(crate) struct HttpDoor<'w> {
    pub(crate) url: String,
    pub(crate) credential_file: PathBuf,
    _server: Background<'w>,
}

impl<'w> HttpDoor<'w> {
    pub(crate) fn open(world: &'w World, more: &[&str]) -> Self {
        let credential_file = world.operator_file("credential");
        let file = credential_file.to_str().unwrap();
        let options = ["mcp", "--http", "127.0.0.1:0", "--credential-file", file];
        Self::start(world.keyless(&[&options[..], more].concat()), credential_file)
    }

    fn start(server: Invocation<'w>, credential_file: PathBuf) -> Self {
        let mut server = server.without_passphrase().start();
        let line = server.line();
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        let url = url.trim_end_matches(';').to_owned();
        Self { url, credential_file, _server: server }
    }

    /// What a client has to show, and nobody else may see.
    pub(crate) fn credential(&self, world: &World) -> String {
        let credential = fs::read_to_string(&self.credential_file).unwrap();
        world.watch(Canary::of(credential.trim_end()))
    }
}

/// A world with [`TOKEN`] and an open store.
pub(crate) fn unlocked() -> World {
    let world = World::with_token();
    unlock(&world);
    world
}

pub(crate) fn unlock(world: &World) {
    world.keyless(&["unlock", "--for", "10m"]).run().ok();
}

fn lock(world: &World) {
    world.keyless(&["lock"]).run().ok();
    let socket = world.home.keyless_home().join("run/agent.sock");
    wait_until("the broker is gone", || !socket.exists());
}

pub(crate) fn approve(world: &World, arguments: &[&str]) -> Seen {
    world.keyless(&[&["approve"], arguments].concat()).run()
}

pub(crate) fn pending(world: &World) -> Vec<Value> {
    approve(world, &["--list", "--json"]).data()["pending"].as_array().unwrap().clone()
}

pub(crate) fn gated(world: &World, policy: &str) {
    world.keyless(&["secret", "set", TOKEN, "--approve-on-use", policy]).run().ok();
}

pub(crate) fn about(path: &str) -> Value {
    json!({ "path": path })
}
