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
        // What starts the server is all else that changes.
        let run = "\"command\": \"keyless\", \"args\": [\"run\", \"--\", \"gh-mcp\"]";
        let after = after.replace("\"command\": \"gh-mcp\"", run).replace(
            "command = \"gh-mcp\"",
            "args = [\"run\", \"--\", \"gh-mcp\"]\ncommand = \"keyless\"",
        );
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

/// An alias is nothing to a server that is started without us, so `keyless run` starts it from then on.
#[test]
fn a_server_whose_token_is_moved_is_started_by_run() {
    let (world, token) = with_token_in_a_module();
    write(&world, "modules/base/AGENTS.md", "Be kind.\n");
    let entry = json!({ "command": "sh", "args": ["-c", "printf %s \"$GITHUB_TOKEN\""], "env": { "GITHUB_TOKEN": token } });
    let servers = json!({ "mcpServers": { "gh": entry } });
    let file = world.home.write("work/.mcp.json", format!("{servers:#}\n")).unwrap();
    let line =
        fs::read_to_string(&file).unwrap().lines().position(|l| l.contains("ghp_")).unwrap() + 1;
    // By the name that it has from here.
    let at = format!(".mcp.json:{line}");
    let adopt = [
        "adopt-secret",
        "--file",
        ".mcp.json",
        "--at",
        &at,
        "--path",
        "team/github/token",
        "--yes",
    ];
    let nowhere = [
        "adopt-secret",
        "--file",
        ".mcp.json",
        "--at",
        ".mcp.json:1",
        "--path",
        "team/github/token",
        "--yes",
    ];
    let error = run(&world, &nowhere).exits(1).json();
    let message = error["errors"][0]["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "nothing at .mcp.json:1 looks like a credential");
    let adopted = run(&world, &adopt);
    let warned = adopted.exits(0).json()["warnings"].to_string();
    assert!(warned.contains("the server gh is started by `keyless run` from now on"), "{warned}");
    let entry: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let entry = &entry["mcpServers"]["gh"];
    let words: Vec<&str> = [&entry["command"]]
        .into_iter()
        .chain(entry["args"].as_array().unwrap())
        .map(|word| word.as_str().unwrap())
        .collect();
    assert_eq!(words[..4], ["keyless", "run", "--", "sh"]);
    let alias = entry["env"]["GITHUB_TOKEN"].as_str().unwrap();
    assert_eq!(alias, "@secret:team/github/token");
    let started = world.keyless(&words[1..]).env("GITHUB_TOKEN", alias).run();
    let seen = started.ok();
    assert!(!seen.is_empty() && !seen.contains("@secret:"), "{seen}");

    // What no start resolves stays, with a word on what helps.
    for (entry, why) in [
        (json!({ "url": "https://a.test", "headers": { "X": token } }), "is reached at an address"),
        (json!({ "command": "x", "args": ["--token", token] }), "the whole value of a variable"),
    ] {
        let text = format!("{:#}\n", json!({ "mcpServers": { "gh": entry } }));
        fs::write(&file, &text).unwrap();
        let refused = run(
            &world,
            &["adopt-secret", "--file", ".mcp.json", "--path", "team/other/token", "--yes"],
        );
        let said = refused.exits(1).json()["errors"][0]["message"].as_str().unwrap().to_owned();
        assert!(said.contains(why), "{said}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    fs::remove_file(&file).unwrap();
}

/// After `setup` the vault has the value: the alias is all that is left to do. Another value is never given up for it.
#[test]
fn a_value_that_the_vault_has_leaves_its_alias_and_another_stays() {
    let (world, token) = with_token_in_a_module();
    write(&world, "modules/base/AGENTS.md", "Be kind.\n");
    let add = ["secret", "add", "team/github/token", "--value-stdin", "--to", "api.github.com"];
    world.keyless(&add).stdin(&token[..]).run().ok();
    let text = |token: &str| SETTING.replace("$TOKEN", token);
    let file = world.home.write("work/.claude/settings.json", text(&token)).unwrap();
    let adopt =
        ["adopt-secret", "--file", ".claude/settings.json", "--path", "team/github/token", "--yes"];
    let adopted = run(&world, &adopt);
    let warned = adopted.exits(0).json()["warnings"].to_string();
    assert!(warned.contains("gets @secret:team/github/token as it is, unless"), "{warned}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text("@secret:team/github/token"));
    let other = text(&world.github_token());
    fs::write(&file, &other).unwrap();
    let error = run(&world, &adopt).exits(1).json()["errors"][0].clone();
    assert_eq!(error["code"], "E_VAULT_REFUSED");
    let said = error.to_string();
    assert!(
        said.contains("team/github/token holds another value")
            && said.contains("give another --path"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), other);
    fs::remove_file(&file).unwrap();
}
