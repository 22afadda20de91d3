//! MCP servers: entries of ours in files that others write too.

use keyless_pack::{Code, Request, commands};
use serde_json::{Value, json};

use crate::scene::{Scene, refused};

const MANIFEST: &str = "\
version: 1
profiles:
  default: { include_tags: [base] }
targets:
  claude_code: { mode: files, scope: user }
  codex: { mode: files, scope: user }
  cursor: { mode: files, scope: project }
  vscode: { mode: files, scope: project }
modules: []
mcp_servers:
  docs:
    url: https://mcp.example.com/mcp
    targets: [vscode]
  github:
    command: gh-mcp
    args: [--stdio]
    env: { GITHUB_TOKEN: \"@secret:team/github/token\" }
  other:
    command: other-mcp
    tags: [elsewhere]
";

const CODEX: &str = "# mine\nmodel = \"o5\"\n\n[mcp_servers.mine] # keep\ncommand = \"mine\"\n";
const CLAUDE: &str =
    "{ \"numStartups\": 7, \"mcpServers\": { \"mine\": { \"command\": \"mine\" } } }\n";
const VSCODE: &str = "{\n  // the team's\n  \"servers\": {\n    \"mine\": { \"url\": \"https://x\" }, // keep\n  },\n}\n";

fn scene() -> Scene {
    let scene = Scene::empty();
    scene.manifest(MANIFEST);
    scene.write("home/.codex/config.toml", CODEX);
    scene.write("home/.claude.json", CLAUDE);
    scene.chmod("home/.claude.json", 0o600);
    scene.write("project/.vscode/mcp.json", VSCODE);
    scene
}

fn json(scene: &Scene, path: &str) -> Value {
    serde_json::from_str(&scene.read(path)).unwrap()
}

#[test]
fn servers_go_into_every_clients_file_and_the_rest_stays() {
    let scene = scene();
    let plan = scene.changes();
    let expected = [
        "update home/.claude.json",
        "update home/.codex/config.toml",
        "create project/.cursor/mcp.json",
        "update project/.vscode/mcp.json",
    ];
    assert_eq!(plan, expected);
    scene.deploy();
    let started = json!({
        "command": "keyless", "args": ["run", "--", "gh-mcp", "--stdio"],
        "env": { "GITHUB_TOKEN": "@secret:team/github/token" },
    });
    assert_eq!(
        json(&scene, "project/.cursor/mcp.json"),
        json!({ "mcpServers": { "github": started } })
    );
    let claude = json(&scene, "home/.claude.json");
    assert_eq!(
        (&claude["numStartups"], &claude["mcpServers"]["mine"]["command"]),
        (&json!(7), &json!("mine"))
    );
    assert_eq!(claude["mcpServers"]["github"]["type"], "stdio");
    assert_eq!(scene.mode("home/.claude.json"), 0o600);
    let codex = scene.read("home/.codex/config.toml");
    assert!(codex.starts_with(CODEX) && codex.contains("[mcp_servers.github]"), "{codex}");
    let vscode = scene.read("project/.vscode/mcp.json");
    assert!(vscode.contains("// the team's") && vscode.contains("// keep"), "{vscode}");
    assert!(vscode.contains("\"docs\"") && !vscode.contains("other-mcp"), "{vscode}");
    assert_eq!(scene.changes(), [""; 0]);
    assert_eq!(scene.try_deploy(false).unwrap().data.reason, Some("no_changes"));
}

#[test]
fn what_others_write_meanwhile_stays_and_what_is_ours_is_mended_and_removed() {
    let scene = scene();
    scene.deploy();
    // Claude writes its file anew, in its own order, and somebody edits our entry in Cursor's.
    let mut claude = json(&scene, "home/.claude.json");
    claude["numStartups"] = json!(8);
    scene.write("home/.claude.json", &claude.to_string());
    let cursor =
        json!({ "mcpServers": { "github": { "command": "evil" }, "theirs": { "command": "t" } } });
    scene.write("project/.cursor/mcp.json", &cursor.to_string());
    let status = commands::status(&scene.surroundings(), &Request::default(), &[]).unwrap().data;
    assert_eq!((status.summary.modified, status.summary.extra), (1, 0), "{status:?}");
    assert!(status.drift[0].edited && status.drift[0].path.ends_with(".cursor/mcp.json"));
    scene.deploy();
    assert_eq!(
        json(&scene, "project/.cursor/mcp.json")["mcpServers"]["github"]["command"],
        "keyless"
    );
    // No longer wanted: only ours goes.
    scene.manifest(MANIFEST.split("mcp_servers:").next().unwrap());
    scene.deploy();
    assert_eq!(
        json(&scene, "project/.cursor/mcp.json"),
        json!({ "mcpServers": { "theirs": { "command": "t" } } })
    );
    assert_eq!(json(&scene, "home/.claude.json")["numStartups"], 8);
    assert_eq!(scene.read("home/.codex/config.toml"), CODEX);
    assert_eq!(scene.changes(), [""; 0]);
}

#[test]
fn a_users_server_of_the_same_name_is_replaced_only_on_request_and_comes_back() {
    let scene = scene();
    let mine = json!({ "mcpServers": { "github": { "command": "mine" } }, "theme": "dark" });
    scene.write("project/.cursor/mcp.json", &mine.to_string());
    refused(scene.try_deploy(false), Code::AdoptConfirmRequired);
    let id = scene.try_deploy(true).unwrap().data.snapshot_id.unwrap();
    let mut now = json(&scene, "project/.cursor/mcp.json");
    assert_eq!(now["mcpServers"]["github"]["command"], "keyless");
    now["theme"] = json!("light");
    scene.write("project/.cursor/mcp.json", &now.to_string());
    scene.rollback(&format!("before:{id}"));
    let back = json!({ "mcpServers": { "github": { "command": "mine" } }, "theme": "light" });
    assert_eq!(
        json(&scene, "project/.cursor/mcp.json"),
        back,
        "our entry goes back, their edit stays"
    );
    assert_eq!(scene.read("home/.codex/config.toml"), CODEX);
}

#[test]
fn a_rollback_brings_entries_back_and_leaves_later_edits_of_others() {
    let scene = scene();
    let first = scene.deploy();
    let newer = MANIFEST
        .replace("gh-mcp", "gh-mcp2")
        .replace("  docs:", "  late:\n    command: late\n  docs:");
    scene.manifest(&newer);
    scene.deploy();
    let mut claude = json(&scene, "home/.claude.json");
    assert_eq!(claude["mcpServers"]["github"]["args"][2], "gh-mcp2");
    claude["numStartups"] = json!(9);
    scene.write("home/.claude.json", &claude.to_string());
    scene.rollback(&first);
    let claude = json(&scene, "home/.claude.json");
    assert_eq!(
        (&claude["numStartups"], &claude["mcpServers"]["github"]["args"][2]),
        (&json!(9), &json!("gh-mcp"))
    );
    assert_eq!(claude["mcpServers"].get("late"), None);
    let codex = scene.read("home/.codex/config.toml");
    assert!(
        codex.starts_with(CODEX) && codex.contains("gh-mcp\"") && !codex.contains("late"),
        "{codex}"
    );
    // What is ours is known again: the older manifest has nothing to do.
    scene.manifest(MANIFEST);
    assert_eq!(scene.changes(), [""; 0]);
    assert_eq!(scene.try_deploy(false).unwrap().data.reason, Some("no_changes"));
}

#[test]
fn a_target_can_be_left_out() {
    let scene = scene();
    scene.manifest(&MANIFEST.replace(
        "scope: user }\n  cursor",
        "scope: user, options: { write_mcp_servers: false } }\n  cursor",
    ));
    scene.deploy();
    assert_eq!(scene.read("home/.codex/config.toml"), CODEX);
    assert!(!scene.exists("home/.codex/.agentpack.manifest.codex.json"));
}

#[test]
fn what_can_not_be_merged_is_refused_and_left_alone() {
    let scene = scene();
    scene.write("project/.cursor/mcp.json", "{ not json");
    let error = refused(scene.plan(), Code::ConfigInvalid);
    assert!(error.message().contains(".cursor/mcp.json can't be read"), "{error}");
    assert_eq!(scene.read("project/.cursor/mcp.json"), "{ not json");
    for (from, to, words) in [
        ("command: gh-mcp", "url: https://x", "env"),
        ("    url: https://mcp.example.com/mcp\n", "    headers: {}\n", "exactly one"),
        ("[--stdio]", "[\"@secret:a/b/c\"]", "belongs into `env`"),
        ("[vscode]", "[zed]", "has no file for servers"),
    ] {
        scene.manifest(&MANIFEST.replace(from, to));
        let error = refused(scene.plan(), Code::ConfigInvalid);
        assert!(
            error.message().contains("agentpack.yaml:") && error.message().contains(words),
            "{error}"
        );
    }
}

#[test]
fn no_credential_goes_into_a_clients_file_or_a_diff() {
    let scene = scene();
    let token = ["ghp_Zk3v9QwT1rXb7LmN5p", "Yc2HsDf8GjKa4EuVoR"].concat();
    scene.manifest(&MANIFEST.replace("@secret:team/github/token", &token));
    let error = refused(scene.plan(), Code::SecretInModule);
    assert!(error.message().contains("agentpack.yaml:17"), "{error}");
    scene.manifest(MANIFEST);
    let held = json!({ "mcpServers": { "github": { "env": { "GITHUB_TOKEN": token } } } });
    scene.write("project/.cursor/mcp.json", &format!("{held:#}"));
    let preview = commands::preview(&scene.surroundings(), &Request::default(), true).unwrap();
    let told = serde_json::to_string(&preview.data).unwrap() + &preview.warnings.join("\n");
    assert!(
        !told.contains(&token) && told.contains("+    \\\"command\\\": \\\"keyless\\\""),
        "{told}"
    );
    assert!(!told.contains("numStartups"), "what is the user's is in no diff: {told}");
}
