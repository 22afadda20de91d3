//! The pack's tools for agents, requirement by requirement of spec/agentpack-mcp.md, through official clients.

/// Deploys that a person has to allow.
mod approval;
/// Whole tokens, wrong tokens, and what is said about them.
mod confirm;
/// Over HTTP.
mod http;
/// Bare lines: versions, bad input, cancellation.
mod wire;

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use serde_json::{Value, json};

use crate::{
    invocation::{Background, KEYLESS},
    pack::{MANIFEST, codex, with_repo, write},
    world::{World, global_packages},
};

const SERVER: &[&str] = &["mcp", "--toolset", "pack"];

/// An official client in Python, connected to a server of the built binary.
pub(crate) struct Agent<'w> {
    bridge: Background<'w>,
    hello: Value,
    tools: Vec<Value>,
}

impl<'w> Agent<'w> {
    pub(crate) fn connect(world: &'w World) -> Self {
        Self::connect_to(world, &[&[KEYLESS], SERVER].concat())
    }

    fn connect_to(world: &'w World, server: &[&str]) -> Self {
        let file = world.home.write("bridge.py", include_str!("pack_mcp/bridge.py")).unwrap();
        let command = [&["python3", file.to_str().unwrap()], server].concat();
        let environment = world.keyless(&[]).env("AGENTPACK_FSYNC", "0");
        let mut bridge = environment.instead(&command).start();
        let first: Value = serde_json::from_str(&bridge.line()).unwrap();
        let tools = first["tools"].as_array().unwrap().clone();
        Self { bridge, hello: first["hello"].clone(), tools }
    }

    /// Calls made at once; each gives `result` and `progress`, or `refused`.
    fn together(&mut self, calls: &Value) -> Vec<Value> {
        self.bridge.say(&calls.to_string());
        serde_json::from_str(&self.bridge.line()).unwrap()
    }

    /// One call's result. That its text and its structure are one envelope is checked here, for every call.
    #[track_caller]
    fn result(&mut self, name: &str, arguments: &Value) -> Value {
        let answers = self.together(&json!([{ "name": name, "arguments": arguments }]));
        let result = answers[0].get("result").unwrap_or_else(|| panic!("{name}: {answers:?}"));
        let envelope = &result["structuredContent"];
        let text: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, *envelope, "{name}");
        assert_eq!(result["isError"], !envelope["ok"].as_bool().unwrap(), "{name}: {result}");
        result.clone()
    }

    /// The payload of a call that went well.
    #[track_caller]
    pub(crate) fn data(&mut self, name: &str, arguments: &Value) -> Value {
        let envelope = self.result(name, arguments)["structuredContent"].clone();
        assert_eq!(envelope["ok"], true, "{envelope}");
        envelope["data"].clone()
    }

    /// The error of a call that was refused.
    #[track_caller]
    pub(crate) fn refused(&mut self, name: &str, arguments: &Value) -> Value {
        let envelope = self.result(name, arguments)["structuredContent"].clone();
        assert_eq!((&envelope["ok"], &envelope["data"]), (&json!(false), &json!({})), "{envelope}");
        envelope["errors"][0].clone()
    }

    pub(crate) fn token(&mut self, arguments: &Value) -> String {
        self.data("deploy", arguments)["confirm_token"].as_str().unwrap().to_owned()
    }
}

fn repo(world: &World) -> PathBuf {
    world.home.home().join(".agentpack/repo")
}

/// Requirement "Provide an MCP server over stdio", with its scenario, under both names of the server.
#[test]
fn a_client_can_initialize_the_server() {
    let world = with_repo(1);
    let link = world.home.home().join("agentpack");
    symlink(KEYLESS, &link).unwrap();
    for server in [&[&[KEYLESS], SERVER].concat()[..], &[link.to_str().unwrap(), "mcp", "serve"]] {
        let agent = Agent::connect_to(&world, server);
        assert!(
            ["2025-06-18", "2025-03-26"]
                .contains(&agent.hello["protocolVersion"].as_str().unwrap())
        );
        assert!(agent.hello["capabilities"]["tools"].is_object(), "{}", agent.hello);
        assert_eq!(agent.hello["serverInfo"]["name"], "agentpack");
    }
}

/// Requirement "Expose Agentpack operations as MCP tools": the schemas are the spec's, and more is said beside them.
#[test]
fn tools_list_has_every_tool_with_the_schema_of_the_spec() {
    const PLAN: &str = include_str!("../../../mcp/src/pack/schemas/plan.json");
    let world = World::empty();
    let agent = Agent::connect(&world);
    let expected = [
        ("plan", PLAN, "read"),
        ("diff", PLAN, "read"),
        ("preview", include_str!("../../../mcp/src/pack/schemas/preview.json"), "read"),
        ("status", include_str!("../../../mcp/src/pack/schemas/status.json"), "read"),
        ("doctor", include_str!("../../../mcp/src/pack/schemas/doctor.json"), "read"),
        ("deploy", PLAN, "add"),
        (
            "deploy_apply",
            include_str!("../../../mcp/src/pack/schemas/deploy_apply.json"),
            "replace",
        ),
        ("rollback", include_str!("../../../mcp/src/pack/schemas/rollback.json"), "replace"),
        (
            "evolve_propose",
            include_str!("../../../mcp/src/pack/schemas/evolve_propose.json"),
            "add",
        ),
        (
            "evolve_restore",
            include_str!("../../../mcp/src/pack/schemas/evolve_restore.json"),
            "add",
        ),
        ("explain", include_str!("../../../mcp/src/pack/schemas/explain.json"), "read"),
    ];
    assert_eq!(agent.tools.len(), expected.len());
    for (tool, (name, schema, effect)) in agent.tools.iter().zip(expected) {
        let schema: Value = serde_json::from_str(schema).unwrap();
        assert_eq!((&tool["name"], &tool["inputSchema"]), (&json!(name), &schema));
        assert!(
            tool["title"].is_string() && tool["outputSchema"]["properties"]["errors"].is_object()
        );
        let hints = &tool["annotations"];
        assert_eq!(hints["readOnlyHint"], effect == "read", "{name}");
        assert_eq!(hints["destructiveHint"], effect == "replace", "{name}");
    }
}

/// Requirement "Tool results reuse the Agentpack JSON envelope": the command of each tool, and a plan's envelope.
#[test]
fn every_tool_answers_with_the_envelope_of_its_command() {
    let world = with_repo(1);
    let mut agent = Agent::connect(&world);
    let token = agent.token(&json!({}));
    let calls = [
        ("plan", json!({}), "plan"),
        ("diff", json!({ "target": "codex" }), "diff"),
        ("preview", json!({ "diff": true }), "preview"),
        ("status", json!({ "only": ["missing"] }), "status"),
        ("doctor", json!({}), "doctor"),
        ("deploy", json!({ "dry_run": true }), "deploy"),
        ("deploy_apply", json!({ "yes": true, "confirm_token": token }), "deploy"),
        ("evolve_propose", json!({ "dry_run": true }), "evolve.propose"),
        ("evolve_restore", json!({ "yes": true }), "evolve.restore"),
        ("explain", json!({ "kind": "plan" }), "explain.plan"),
        ("explain", json!({ "kind": "diff" }), "explain.plan"),
        ("explain", json!({ "kind": "status" }), "explain.status"),
    ];
    let mut snapshot = Value::Null;
    for (tool, arguments, command) in calls {
        let envelope = agent.result(tool, &arguments)["structuredContent"].clone();
        assert_eq!(
            (&envelope["ok"], &envelope["command"]),
            (&json!(true), &json!(command)),
            "{envelope}"
        );
        assert_eq!(envelope["schema_version"], 1);
        assert!(envelope["version"].is_string());
        if tool == "deploy_apply" {
            assert_eq!(envelope["command_id"], "deploy --apply");
            snapshot = envelope["data"]["snapshot_id"].clone();
        }
    }
    let back = agent.result("rollback", &json!({ "to": snapshot, "yes": true }));
    assert_eq!(back["structuredContent"]["command"], "rollback");
    let failed = agent.result("rollback", &json!({ "to": "../../evil", "yes": true }));
    assert_eq!(failed["structuredContent"]["command"], "rollback");
    assert_eq!(failed["structuredContent"]["errors"][0]["code"], "E_SNAPSHOT_NOT_FOUND");
}

/// Requirement "Mutating tools require explicit approval", with its scenario: also when the call is wrong otherwise,
/// and when there is nothing to read yet.
#[test]
fn mutating_tools_without_yes_are_refused_and_write_nothing() {
    let world = World::empty();
    let mut agent = Agent::connect(&world);
    for tool in ["deploy_apply", "rollback", "evolve_propose", "evolve_restore"] {
        for arguments in
            [json!({}), json!({ "yes": false }), json!({ "yes": "true", "nonsense": 1 })]
        {
            let error = agent.refused(tool, &arguments);
            assert_eq!(error["code"], "E_CONFIRM_REQUIRED", "{tool} {arguments}");
            assert_eq!(error["details"]["next_actions"], json!(["retry_with_yes"]));
        }
    }
    assert!(!world.home.home().join(".agentpack").exists());
}

/// What agents write otherwise than it should be is an envelope too; a tool that nobody knows is the protocol's.
#[test]
fn errors_are_envelopes_with_codes() {
    let world = World::empty();
    let mut agent = Agent::connect(&world);
    for (tool, arguments, code) in [
        ("plan", json!({}), "E_CONFIG_MISSING"),
        ("deploy", json!({}), "E_CONFIG_MISSING"),
        ("deploy_apply", json!({ "yes": true }), "E_CONFIRM_TOKEN_REQUIRED"),
        ("plan", json!({ "nonsense": true }), "E_ARGUMENTS_INVALID"),
        ("rollback", json!({ "yes": true }), "E_ARGUMENTS_INVALID"),
        ("explain", json!({ "kind": "all" }), "E_ARGUMENTS_INVALID"),
        ("plan", json!({ "cwd": "/no/such/place" }), "E_IO_INVALID_PATH"),
    ] {
        let error = agent.refused(tool, &arguments);
        assert_eq!(error["code"], code, "{tool} {arguments}");
        assert!(
            error["details"]["reason_code"].is_string()
                && error["details"]["next_actions"].is_array()
        );
    }
    let unknown = agent.together(&json!([{ "name": "deploy_all", "arguments": {} }]));
    assert!(unknown[0]["refused"].as_str().unwrap().contains("unknown tool"), "{unknown:?}");
    write(&world, "agentpack.yaml", MANIFEST);
    assert_eq!(
        agent.refused("plan", &json!({ "target": "emacs" }))["code"],
        "E_TARGET_UNSUPPORTED"
    );
}

/// One server, several projects: each call may name the directory that it means.
#[test]
fn a_call_may_name_its_project() {
    let world = with_repo(1);
    write(&world, "agentpack.yaml", &MANIFEST.replace("scope: user", "scope: project"));
    let projects =
        ["one", "two"].map(|name| world.home.write(&format!("{name}/.git/HEAD"), "").unwrap());
    let mut agent = Agent::connect(&world);
    let elsewhere = json!({ "yes": true, "confirm_token": agent.token(&json!({})), "cwd": projects[0].parent() });
    assert_eq!(agent.refused("deploy_apply", &elsewhere)["code"], "E_CONFIRM_TOKEN_MISMATCH");
    for head in &projects {
        let project = fs::canonicalize(head.parent().unwrap().parent().unwrap()).unwrap();
        let here = json!({ "cwd": project });
        let token = agent.token(&here);
        let apply = json!({ "cwd": project, "yes": true, "confirm_token": token });
        assert_eq!(agent.data("deploy_apply", &apply)["applied"], true);
        assert!(project.join("AGENTS.md").exists());
        let by_host =
            json!([{ "name": "plan", "arguments": {}, "meta": { "keyless/cwd": project } }]);
        let changes =
            &agent.together(&by_host)[0]["result"]["structuredContent"]["data"]["changes"];
        assert_eq!(*changes, json!([]));
    }
}

/// The TypeScript SDK holds every answer to its output schema.
#[test]
fn the_typescript_sdk_reviews_applies_and_rolls_back() {
    let world = with_repo(1);
    world.home.write("work/story.js", include_str!("pack_mcp/story.js")).unwrap();
    let command = [&["node", "story.js", KEYLESS], SERVER].concat();
    let packages = global_packages();
    let told = world.keyless(&[]).instead(&command).env("NODE_PATH", packages).run().ok();
    let told: Value = serde_json::from_str(&told).unwrap();
    let none = json!({ "modified": 0, "missing": 0, "extra": 0 });
    assert_eq!(told, json!([11, "E_CONFIRM_REQUIRED", true, none, true]));
    assert!(!codex(&world).join("AGENTS.md").exists());
}
