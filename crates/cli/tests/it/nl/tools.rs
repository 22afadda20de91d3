//! The toolset `nl`: messages as tools, and documents that need no identity.

use super::*;
use crate::mcp::unlock;

const REVIEWER: &str = "nl://acme.corp/reviewer/1.0.0";
/// The agent that tools without a credential are.
const MCP: &str = concat!("nl://keyless.dev/mcp/", env!("CARGO_PKG_VERSION"));

/// `keyless mcp` and a client of it.
struct Tools<'w> {
    server: Background<'w>,
    said: u64,
    /// Where what the tools answer is noted, to be held against the published schemas.
    noted: Option<&'w World>,
}

/// What each tool is answered with, if it is not refused.
const ANSWERS: &[(&str, &str)] = &[
    ("nl_check_access", "x_keyless_access"),
    ("nl_create_delegation", "delegation_response"),
    ("nl_discover", "discovery_response"),
    ("nl_execute_action", "action_response"),
    ("nl_get_agent", "agent_get_response"),
    ("nl_list_secrets", "x_keyless_secrets"),
    ("nl_query_audit", "audit_query_response"),
    ("nl_register_agent", "agent_register_ack"),
    ("nl_revoke_agent", "revocation_response"),
    ("nl_revoke_delegation", "delegation_revoke_ack"),
];

impl<'w> Tools<'w> {
    /// As nobody yet: greeted, and nothing called.
    fn start(server: Invocation<'w>) -> Self {
        Self { server: server.without_passphrase().start(), said: 0, noted: None }
    }

    /// As an agent that shows its credential.
    fn of(world: &'w World, toolsets: &str, agent: &Value) -> Self {
        let text = |key: &str| agent[key].as_str().unwrap().to_owned();
        let server = world
            .keyless(&["mcp", "--toolset", toolsets])
            .env("NL_AGENT_URI", text("agent_uri"))
            .env("NL_INSTANCE_ID", text("instance_id"))
            .env("NL_AGENT_CREDENTIAL", text("credential"));
        let mut tools = Self { noted: Some(world), ..Self::start(server) };
        let name = if toolsets == "nl" { "keyless-nl" } else { "keyless" };
        assert_eq!(tools.greet()["serverInfo"]["name"], name);
        tools
    }

    fn greet(&mut self) -> Value {
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
        });
        self.ask("initialize", &hello)["result"].clone()
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.say(method, params);
        self.heard()
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Value {
        self.send(name, arguments);
        let result = self.heard()["result"].clone();
        let kind = ANSWERS.iter().find(|(tool, _)| *tool == name);
        if let (Some(world), Some((_, kind))) = (self.noted, kind) {
            let text = result["content"][0]["text"].as_str().unwrap();
            let told: Value = serde_json::from_str(text).unwrap();
            let is_error = told.get("error").is_some() && told.get("status").is_none();
            let kind = if is_error { "error" } else { kind };
            schemas::note(world, "envelope", &schemas::enveloped(kind, &told));
        }
        result
    }

    /// Calls a tool, and waits for nothing.
    fn send(&mut self, name: &str, arguments: &Value) {
        self.say("tools/call", &json!({ "name": name, "arguments": arguments }));
    }

    fn say(&mut self, method: &str, params: &Value) {
        self.said += 1;
        let message =
            json!({ "jsonrpc": "2.0", "id": self.said, "method": method, "params": params });
        self.server.say(&message.to_string());
    }

    /// The next message.
    fn heard(&mut self) -> Value {
        serde_json::from_str(&self.server.line()).unwrap()
    }

    /// The error that a call is answered with.
    fn refused(&mut self, name: &str, arguments: &Value) -> Value {
        let answer = self.call(name, arguments);
        assert_eq!(answer["isError"], true, "{answer}");
        let text: Value =
            serde_json::from_str(answer["content"][0]["text"].as_str().unwrap()).unwrap();
        text["error"].clone()
    }
}

/// Whoever checks arguments before they are sent takes what is taken, and nothing else.
#[test]
fn what_a_tools_schema_takes_the_tool_takes() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let mut tools = Tools::of(&world, "nl", &served.agents["agent"]);
    let scope = json!({ "secrets": ["db/PASSWORD"] });
    let (act, hand, audit) = ("nl_execute_action", "nl_create_delegation", "nl_query_audit");
    let cases = [
        (act, true, json!({ "type": "exec", "template": "true" })),
        (act, true, json!({ "action_type": "exec", "template": "true" })),
        (act, true, json!({ "type": "exec", "template": "true", "scope": { "project": "x" } })),
        (act, true, json!({ "type": "exec", "template": "true", "timeout_ms": 1000 })),
        (act, true, json!({ "type": "exec", "template": "true", "timeout_ms": null })),
        (act, false, json!({ "template": "true" })),
        (act, false, json!({ "type": "exec", "action_type": "exec", "template": "true" })),
        (act, false, json!({ "type": "exec", "template": "true", "scope": {}, "context": {} })),
        (act, false, json!({ "type": "exec", "template": "true", "timeout_ms": 5 })),
        (act, false, json!({ "type": "exec", "template": "true", "timeout_ms": 600_001 })),
        (act, false, json!({ "type": "exec", "template": "true", "kind": "exec" })),
        (hand, true, json!({ "delegate_to": HELPER, "delegation_scope": scope })),
        (hand, true, json!({ "subject": HELPER, "scope": scope, "ttl_seconds": 60 })),
        (hand, false, json!({ "subject": HELPER, "scope": scope, "ttl_seconds": 0 })),
        (hand, false, json!({ "subject": HELPER, "delegate_to": HELPER, "scope": scope })),
        (hand, false, json!({ "subject": HELPER })),
        (audit, false, json!({ "page": 0 })),
        (audit, false, json!({ "page_size": 101 })),
    ];
    let listed = tools.ask("tools/list", &json!({}))["result"]["tools"].clone();
    let mut schemas = json!({});
    for tool in listed.as_array().unwrap() {
        schemas[tool["name"].as_str().unwrap()] = tool["inputSchema"].clone();
        for word in ["oneOf", "anyOf", "allOf"] {
            assert!(tool["inputSchema"].get(word).is_none(), "{tool}");
        }
    }
    let asked: Vec<Value> = cases
        .iter()
        .map(|(tool, valid, value)| {
            json!({ "schema": tool, "what": value.to_string(), "valid": valid, "value": value })
        })
        .collect();
    assert_eq!(schemas::judged(&world, &json!({ "schemas": schemas, "cases": asked })), "");
    for (tool, is_valid, arguments) in cases {
        let answer = tools.call(tool, &arguments);
        assert_eq!(answer["isError"] != true, is_valid, "{arguments}: {answer}");
    }
}

#[test]
fn tools_of_the_nl_set_are_messages() {
    let world = with_secrets();
    // It shows a value, and goes on.
    let served = Served::with(&world, "detection = 'record'");
    granted(&world, AGENT, &["db/*"]);
    let mut tools = Tools::of(&world, "secrets,nl", &served.agents["agent"]);
    let listed = tools.ask("tools/list", &json!({}))["result"]["tools"].clone();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"nl_execute_action") && names.contains(&"secrets_list"), "{names:?}");
    let reads = json!({
        "type": "inject_stdin", "command": "cat", "secret_ref": "{{nl:db/PASSWORD}}", "purpose": "test",
    });
    let done = tools.call("nl_execute_action", &reads);
    assert_eq!(done["structuredContent"]["result"]["stdout"], "[REDACTED:db/PASSWORD]\n", "{done}");
    let denied = json!({ "type": "exec", "template": "true {{nl:api/TOKEN}}" });
    let denied = tools.refused("nl_execute_action", &denied);
    assert_eq!(denied["code"], "NL-E200", "{denied}");
    let listed = tools.call("nl_list_secrets", &json!({}));
    assert_eq!(listed["structuredContent"]["secrets"][0]["name"], BOXED, "{listed}");
    let access = tools.call("nl_check_access", &json!({ "secret_name": TOKEN }));
    assert_eq!(access["structuredContent"]["allowed"], false, "{access}");
    let access = tools.call("nl_check_access", &json!({ "secret_name": BOXED }));
    assert_eq!(access["structuredContent"]["allowed"], true, "{access}");
    for kind in ["sdk_proxy", "delegate"] {
        let asked = json!({ "secret_name": "db/PASSWORD", "action_type": kind });
        let access = tools.call("nl_check_access", &asked);
        assert_eq!(access["structuredContent"]["allowed"], true, "{access}");
    }
    let misspelt = json!({ "secret_name": BOXED, "type": "sdk_proxy" });
    let misspelt = tools.refused("nl_check_access", &misspelt);
    assert!(misspelt["message"].as_str().unwrap().contains("`action_type`"), "{misspelt}");
    let discovered = tools.call("nl_discover", &json!({}));
    assert_eq!(discovered["structuredContent"]["provider"]["name"], "Keyless", "{discovered}");
    let shown = tools.call("nl_get_agent", &json!({}));
    assert_eq!(shown["structuredContent"]["agent_uri"], AGENT, "{shown}");
    let scope = json!({ "secrets": ["db/PASSWORD"], "max_uses": 1 });
    let handed = json!({ "delegate_to": HELPER, "delegation_scope": scope });
    let created = tools.call("nl_create_delegation", &handed);
    assert!(created["structuredContent"]["token_id"].is_string(), "{created}");
    let end = json!({ "token_id": created["structuredContent"]["token_id"] });
    let ended = tools.call("nl_revoke_delegation", &end);
    assert_eq!(ended["structuredContent"]["status"], "revoked", "{ended}");
}

#[test]
fn what_fails_before_it_is_a_message_fails_in_the_protocols_form() {
    let world = with_secrets();
    let served = Served::start(&world);
    let mut tools = Tools::of(&world, "nl", &served.agents["agent"]);
    let misused = tools.refused("nl_check_access", &json!({}));
    assert_eq!(
        (&misused["code"], &misused["name"]),
        (&json!("NL-E800"), &json!("X_MESSAGE_MALFORMED"))
    );
    assert!(misused["message"].as_str().unwrap().contains("secret_name"), "{misused}");
    let mut impostor = served.agents["agent"].clone();
    impostor["credential"] = served.agents["helper"]["credential"].clone();
    let refused = Tools::of(&world, "nl", &impostor).refused("nl_list_secrets", &json!({}));
    let expected = (&json!("NL-E100"), &json!("IDENTITY_VERIFICATION_FAILED"));
    assert_eq!((&refused["code"], &refused["name"]), expected, "{refused}");
    assert!(refused["resolution"].is_string(), "{refused}");
}

/// An agent asks by one toolset and acts by the other; to its person it is one agent.
#[test]
fn what_a_person_allows_the_tools_counts_for_the_actions_of_the_same_agent() {
    let world = with_secrets();
    world.keyless(&["secret", "set", BOXED, "--approve-on-use", "session"]).run().ok();
    world.declares(format!("required = [\"{BOXED}\"]\n"));
    granted(&world, MCP, &["db/*"]);
    unlock(&world);
    let start = || {
        let mut tools = Tools::start(world.keyless(&["mcp", "--toolset", "secrets,nl"]));
        tools.greet();
        tools
    };
    let (mut tools, mut other) = (start(), start());
    let asked = json!({ "path": BOXED, "reason": "to migrate the database" });
    let asked = tools.call("secrets_request_use_approval", &asked);
    let id = asked["structuredContent"]["request_id"].as_str().unwrap().to_owned();
    world.keyless(&["approve", "--session", &id]).run().ok();
    let reads = json!({
        "type": "inject_stdin", "command": "cat", "secret_ref": "{{nl:db/PASSWORD}}", "purpose": "test",
    });
    let done = tools.call("nl_execute_action", &reads);
    assert_eq!(done["structuredContent"]["result"]["stdout"], "[REDACTED:db/PASSWORD]\n", "{done}");
    // Another agent's word is its own.
    other.send("nl_execute_action", &reads);
    wait_until("the other agent's use is asked for", || !pending(&world).is_empty());
    let waits = pending(&world).remove(0)["id"].as_str().unwrap().to_owned();
    world.keyless(&["approve", "--deny", &waits]).run().ok();
    assert_eq!(other.heard()["result"]["isError"], true);
}

/// An action may take ten minutes, and what an agent wants to take back can't wait for it.
#[test]
fn a_long_action_keeps_nothing_else_waiting() {
    let world = with_secrets();
    let served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let mut tools = Tools::of(&world, "nl", &served.agents["agent"]);
    let params = json!({
        "name": "nl_execute_action",
        "arguments": {
            "type": "inject_stdin", "command": "sh -c 'sleep 4; cat'",
            "secret_ref": "{{nl:db/PASSWORD}}", "purpose": "test",
        },
    });
    let message =
        json!({ "jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": params });
    tools.server.say(&message.to_string());
    let listed = tools.call("nl_list_secrets", &json!({}));
    assert_eq!(listed["structuredContent"]["secrets"][0]["name"], BOXED, "{listed}");
    let ended: Value = serde_json::from_str(&tools.server.line()).unwrap();
    assert_eq!(ended["id"], "long", "{ended}");
    let done = &ended["result"]["structuredContent"]["result"];
    assert_eq!(done["stdout"], "[REDACTED:db/PASSWORD]\n", "{ended}");
}

#[test]
fn documents_are_read_before_anybody_is_known() {
    let world = World::empty();
    // No store, no broker, no identity.
    let mut tools = Tools::start(world.keyless(&["mcp", "--toolset", "nl"]));
    assert!(tools.greet()["capabilities"]["resources"].is_object());
    let listed = tools.ask("resources/list", &json!({}))["result"]["resources"].clone();
    let uris: Vec<&Value> =
        listed.as_array().unwrap().iter().map(|document| &document["uri"]).collect();
    assert_eq!(uris.len(), 5, "{listed}");
    let mut all = String::new();
    for uri in uris {
        let read = tools.ask("resources/read", &json!({ "uri": uri }))["result"].clone();
        assert_eq!(read["contents"][0]["uri"], *uri, "{read}");
        all += read["contents"][0]["text"].as_str().unwrap();
    }
    for said in
        ["{{nl:category/NAME}}", "inject_tempfile", "NL-4-DENY-001", "nl_register_agent", "$defs"]
    {
        assert!(all.contains(said), "{said}");
    }
    let nothing = json!({ "uri": "nl-provider://docs/values" });
    assert_eq!(tools.ask("resources/read", &nothing)["error"]["code"], -32002);
    // The other toolsets have none.
    let mut secrets = Tools::start(world.keyless(&["mcp", "--toolset", "secrets"]));
    assert!(secrets.greet()["capabilities"].get("resources").is_none());
}

#[test]
fn an_agent_gets_a_sub_agent_once_a_person_allows_it() {
    let world = with_secrets();
    let mut served = Served::start(&world);
    granted(&world, AGENT, &["db/*"]);
    let mut tools = Tools::of(&world, "nl", &served.agents["agent"]);
    let wanted = json!({
        "agent_uri": REVIEWER, "agent_type": "coding_assistant", "capabilities": ["exec"],
        "requested_ttl_hours": 1, "purpose": "to review what I have done",
    });
    // An agent has no command line to look for help at.
    let mut none = wanted.clone();
    none["capabilities"] = json!([]);
    let told = tools.refused("nl_register_agent", &none).to_string();
    assert!(told.contains("capabilities") && !told.contains("--help"), "{told}");
    let waits = tools.refused("nl_register_agent", &wanted);
    assert_eq!(waits["code"], "NL-E204", "{waits}");
    let id = waits["details"]["approval_id"].as_str().unwrap().to_owned();
    // What the person sees is what it will be.
    let shown = world.keyless(&["approve", "--list"]).run().ok();
    assert!(shown.contains(&id), "{shown}");
    world.keyless(&["approve", "--once", &id]).run().ok();
    let done = tools.call("nl_register_agent", &wanted);
    let registered = &done["structuredContent"];
    assert_eq!(registered["aid"]["agent_uri"], REVIEWER, "{done}");
    assert_eq!(registered["aid"]["delegated_by"]["identifier"], AGENT);
    // A name that brings somebody's grants is nobody's to take; others' agents and the log are not the caller's.
    let namesake =
        json!({ "agent_uri": HELPER, "agent_type": "coding_assistant", "capabilities": ["exec"] });
    assert_eq!(tools.refused("nl_register_agent", &namesake)["code"], "NL-E702");
    let other = json!({ "agent_uri": HELPER, "reason": "decommissioned" });
    assert_eq!(tools.refused("nl_revoke_agent", &other)["code"], "NL-E100");
    assert_eq!(tools.refused("nl_query_audit", &json!({}))["code"], "NL-E501");

    // It may use what is handed on to it, and nothing besides.
    served.know("reviewer", registered);
    let action = json!({ "type": "exec", "template": "true {{nl:db/PASSWORD}}" });
    let alone = json!({ "door": "unix", "as": "reviewer", "action": action });
    assert_eq!(served.client(&json!([alone])).remove(0)["status"], "denied");
    let scope = json!({ "secrets": ["db/PASSWORD"], "actions": ["exec"], "max_uses": 2 });
    let handed = json!({ "delegate_to": REVIEWER, "delegation_scope": scope });
    let token =
        tools.call("nl_create_delegation", &handed)["structuredContent"]["token_id"].clone();
    // By chapter 08's names as well.
    let named =
        json!({ "subject": REVIEWER, "scope": { "secrets": ["db/PASSWORD"] }, "ttl_seconds": 60 });
    let made = tools.call("nl_create_delegation", &named);
    assert!(made["structuredContent"]["token_id"].is_string(), "{made}");
    let mut under = alone;
    under["delegation"] = json!({ "token_id": token });
    assert_eq!(served.client(&json!([under])).remove(0)["status"], "success");
    let end = json!({ "agent_uri": REVIEWER, "reason": "decommissioned" });
    let ended = tools.call("nl_revoke_agent", &end);
    assert_eq!(ended["structuredContent"]["local_result"]["aid_revoked"], true, "{ended}");
    let over = served.client(&json!([under])).remove(0);
    assert_eq!(over["error"]["code"], "NL-E104", "{over}");
    let text = serde_json::to_string(&world.log()).unwrap();
    assert!(!text.contains(registered["credential"]["value"].as_str().unwrap()));
}
