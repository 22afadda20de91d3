//! No credential in a deployed file: the plan stops, the value moves into the vault, the plan goes on.

use std::fs;

use keyless_testkit::Canary;
use serde_json::{Value, json};

use crate::{
    invocation::{KEYLESS, Seen},
    pack::{MANIFEST, run, write},
    world::{TOKEN, World},
};

/// A world whose instructions hold a token in their third line, and the token, which nobody may see.
fn with_token_in_a_module() -> (World, String) {
    let world = World::with_store();
    let token = world.watch(Canary::of(["ghp_Zk3v9QwT1rXb7LmN5p", "Yc2HsDf8GjKa4EuVoR"].concat()));
    write(&world, "agentpack.yaml", MANIFEST.split("  - id: skill").next().unwrap());
    write(
        &world,
        "modules/base/AGENTS.md",
        &format!("# Tools\n\nexport GITHUB_TOKEN={token} # for gh\n"),
    );
    (world, token)
}

#[track_caller]
fn refused(seen: &Seen, code: &str) -> Value {
    let error = seen.exits(1).json()["errors"][0].clone();
    assert_eq!(error["code"], code, "{error:#}");
    error["details"].clone()
}

const ADOPT: &[&str] = &["adopt-secret", "instructions:base", "--path", "team/github/token"];

#[test]
fn a_credential_in_a_module_moves_into_the_vault_and_the_plan_goes_on() {
    let (world, _) = with_token_in_a_module();
    let details = refused(&run(&world, &["plan"]), "E_SECRET_IN_MODULE");
    let finding = json!({ "file": "AGENTS.md", "line": 3, "kind": "GitHub: Classic token", "pattern": "github-pat" });
    assert_eq!(details["findings"], json!([finding]));
    refused(&run(&world, ADOPT), "E_CONFIRM_REQUIRED");
    let locked =
        world.keyless(&[&["pack", "--json", "--yes"], ADOPT].concat()).without_passphrase().run();
    refused(&locked, "E_VAULT_REFUSED");
    refused(&run(&world, &["plan"]), "E_SECRET_IN_MODULE");
    let adopted = run(&world, &[ADOPT, &["--yes"]].concat()).data();
    assert_eq!(adopted["reference"], "@secret:team/github/token");
    let file = world.home.home().join(".agentpack/repo/modules/base/AGENTS.md");
    let text = "# Tools\n\nexport GITHUB_TOKEN=@secret:team/github/token # for gh\n";
    assert_eq!(fs::read_to_string(file).unwrap(), text);
    assert_eq!(run(&world, &["plan"]).data()["summary"]["create"], 1);
    let shown = world.keyless(&["secret", "show", "team/github/token", "--json"]).run().data();
    assert_eq!(
        (&shown["env"], &shown["to"][0]),
        (&json!("GITHUB_TOKEN"), &json!("api.github.com"))
    );
}

/// The entry that a client gets, started as the client starts it.
#[test]
fn a_server_with_an_alias_is_started_with_a_placeholder() {
    let world = World::with_token();
    let servers = format!(
        "mcp_servers:\n  gh:\n    command: sh\n    args: [-c, 'printf %s \"$GH_TOKEN\"']\n    env: {{ GH_TOKEN: \"@secret:{TOKEN}\" }}\n"
    );
    let manifest = "version: 1\nprofiles: { default: {} }\ntargets: { cursor: { mode: files, scope: project } }\nmodules: []\n";
    write(&world, "agentpack.yaml", &format!("{manifest}{servers}"));
    run(&world, &["deploy", "--apply", "--yes"]).exits(0);
    let file = fs::read_to_string(world.home.work().join(".cursor/mcp.json")).unwrap();
    let entry: Value = serde_json::from_str(&file).unwrap();
    let entry = &entry["mcpServers"]["gh"];
    assert_eq!(entry["command"], "keyless");
    let words: Vec<&str> =
        entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let started =
        world.keyless(&words).env("GH_TOKEN", entry["env"]["GH_TOKEN"].as_str().unwrap()).run();
    let seen = started.ok();
    assert!(!seen.is_empty() && !seen.contains("@secret:"), "{seen}");
    // The client itself in a session, as docs/mcp.md recommends.
    let client = "import json, os, subprocess
entry = json.load(open('.cursor/mcp.json'))['mcpServers']['gh']
env = {'PATH': os.environ['PATH'], **entry['env']}
said = subprocess.run([keyless, *entry['args']], env=env, stdout=subprocess.PIPE, check=True).stdout
assert said.decode() == os.environ['TOKEN'], said";
    world.agent_python(&format!("keyless = {KEYLESS:?}\n{client}")).run().ok();
}

/// Where each client keeps settings, and how a token stands there, always in the third line.
const SETTINGS: &[(&str, &str)] = &[
    ("home/.claude.json", SERVERS),
    ("home/.claude/settings.json", SETTING),
    ("home/.claude/settings.local.json", SETTING),
    ("home/.codeium/windsurf/mcp_config.json", SERVERS),
    ("home/.codex/config.toml", CODEX),
    ("home/.config/Claude/claude_desktop_config.json", SERVERS),
    ("home/.config/Code/User/mcp.json", SERVERS),
    ("home/.config/Code/User/settings.json", SETTING),
    ("home/.config/opencode/opencode.json", SERVERS),
    ("home/.config/zed/settings.json", SETTING),
    ("home/.continue/config.json", SERVERS),
    ("home/.continue/config.yaml", CONTINUE),
    ("home/.cursor/mcp.json", SERVERS),
    ("home/.gemini/settings.json", SETTING),
    // As macOS has them; what is below a home is looked for on every system.
    ("home/Library/Application Support/Claude/claude_desktop_config.json", SERVERS),
    ("home/Library/Application Support/Code/User/mcp.json", SERVERS),
    ("home/Library/Application Support/Code/User/settings.json", SETTING),
    ("work/.claude/settings.json", SETTING),
    ("work/.claude/settings.local.json", SETTING),
    ("work/.codex/config.toml", CODEX),
    ("work/.cursor/mcp.json", SERVERS),
    ("work/.gemini/settings.json", SETTING),
    ("work/.mcp.json", SERVERS),
    ("work/.vscode/mcp.json", SERVERS),
    ("work/.vscode/settings.json", SETTING),
];
const DESKTOP: &str = "home/Library/Application Support/Claude/claude_desktop_config.json";
const SERVERS: &str = r#"{
  "mcpServers": { "gh": { "command": "gh-mcp", "env": {
    "GITHUB_TOKEN": "$TOKEN"
  } } }
}
"#;
const SETTING: &str = r#"{
  "env": {
    "GITHUB_TOKEN": "$TOKEN"
  }
}
"#;
const CODEX: &str = r#"[mcp_servers.gh]
command = "gh-mcp"
env = { GITHUB_TOKEN = "$TOKEN" } # mine
"#;
const CONTINUE: &str = r#"mcpServers:
  - name: gh # mine
    env: { GITHUB_TOKEN: "$TOKEN" }
"#;

/// In every client's settings, of the user and of the project, the token is found, named by its line, and moved.
#[test]
fn the_doctor_finds_tokens_in_the_settings_of_every_client() {
    let (world, token) = with_token_in_a_module();
    write(&world, "modules/base/AGENTS.md", "Be kind.\n");
    let place = |path: &str| world.home.root().join(path).to_str().unwrap().to_owned();
    for (path, text) in SETTINGS {
        world.home.write(path, text.replace("$TOKEN", &token)).unwrap();
    }
    let found = run(&world, &["doctor"]).data();
    let line = |token: &Value| {
        assert_eq!(token["kind"], "GitHub: Classic token", "{token}");
        (token["path"].as_str().unwrap().to_owned(), token["line"].as_u64().unwrap())
    };
    let mut seen: Vec<_> = found["plaintext_tokens"].as_array().unwrap().iter().map(line).collect();
    let mut wanted: Vec<_> = SETTINGS.iter().map(|(path, _)| (place(path), 3)).collect();
    seen.sort();
    wanted.sort();
    assert_eq!(seen, wanted);
    let next = found["next_actions"].to_string();
    assert!(wanted.iter().all(|(path, _)| next.contains(path.as_str())), "{next}");
    // A command that is copied into a shell names one file, whatever is in its name.
    let examined = world.keyless(&["doctor", "--json"]).run().data()["checks"].to_string();
    let desktop = place(DESKTOP);
    assert!(examined.contains(&format!("adopt-secret --file '{desktop}' --at ")), "{examined}");
    let moved =
        ["work/.mcp.json", "home/.codex/config.toml", "home/.continue/config.yaml", DESKTOP];
    for (number, path) in moved.iter().enumerate() {
        let (file, to) = (place(path), format!("team/github/token-{number}"));
        run(&world, &["adopt-secret", "--file", &file, "--path", &to, "--yes"]).exits(0);
        let (_, before) = SETTINGS.iter().find(|(other, _)| other == path).unwrap();
        let after = before.replace("$TOKEN", &format!("@secret:{to}"));
        assert_eq!(fs::read_to_string(&file).unwrap(), after, "nothing else changes in {path}");
    }
    let left = run(&world, &["doctor"]).data()["plaintext_tokens"].as_array().unwrap().len();
    assert_eq!(left, SETTINGS.len() - moved.len());
    // What is still there is ours to have written.
    for (path, _) in SETTINGS {
        fs::remove_file(place(path)).unwrap();
    }
}

#[test]
fn the_doctor_finds_tokens_in_the_settings_of_agents() {
    let (world, token) = with_token_in_a_module();
    write(&world, "modules/base/AGENTS.md", "Be kind.\n");
    let server = json!({ "mcpServers": { "gh": { "command": "gh-mcp", "env": { "GITHUB_TOKEN": token } } } });
    let file = world.home.write("home/.cursor/mcp.json", format!("{server:#}\n")).unwrap();
    let found = run(&world, &["doctor"]).data();
    let tokens = found["plaintext_tokens"].as_array().unwrap();
    assert_eq!((tokens.len(), &tokens[0]["kind"]), (1, &json!("GitHub: Classic token")));
    let next = found["next_actions"].to_string();
    assert!(next.contains("keyless pack adopt-secret --file"), "{next}");
    let path = file.to_str().unwrap();
    let adopt = ["adopt-secret", "--file", path, "--path", "team/github/token", "--yes"];
    run(&world, &adopt).exits(0);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(r#""GITHUB_TOKEN": "@secret:team/github/token""#), "{text}");
    assert_eq!(run(&world, &["doctor"]).data().get("plaintext_tokens"), None);
}
