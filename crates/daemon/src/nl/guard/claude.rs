//! Claude Code asks before each tool (its PreToolUse hook): what comes in, what goes back, how it is set up.
//!
//! Source: code.claude.com/docs/en/hooks: JSON on stdin; status 2 blocks, and stderr is the reason that the
//! model reads. Any other status than 0 lets the call through, so that a hook which is not found has to end with 2 as well.
//! An allowed call gets no word, since an explicit `allow` would skip the person's own prompt.

mod calls;
mod settings;

use std::{env, path::Path};

use keyless_core::deny::Blocked;
use serde_json::{Value, json};

use self::calls::{attempts, quoted};
pub use self::settings::{Installed, check_inside, hook_command, install, uninstall};
use super::GuardRules;

/// What makes whatever goes wrong with the hook block the call.
const OR_BLOCK: &str = "|| exit 2";

/// What goes back for a call that is blocked.
pub struct Refusal {
    /// For the model, on stderr.
    pub words: String,
    /// The same as JSON, on stdout.
    pub json: Value,
}

/// Answers one call of the hook. What can't be read is blocked.
pub fn answer(rules: &GuardRules, input: &str) -> Option<Refusal> {
    let Ok(call) = serde_json::from_str::<Value>(input) else {
        return Some(refusal(&Blocked::failure("")));
    };
    let Some(tool) = call["tool_name"].as_str() else {
        return Some(refusal(&Blocked::failure("")));
    };
    let Some(attempts) = attempts(tool, &call["tool_input"]) else {
        return Some(refusal(&Blocked::failure("")));
    };
    attempts.iter().find_map(|attempt| attempt.refused_by(rules)).map(|by| refusal(&by))
}

/// Whether a program lies where builds, restarts or cleaners remove it.
pub fn may_go_away(program: &Path) -> bool {
    let is_built = |folder: &Path| folder.file_name().is_some_and(|name| name == "target");
    let passing = ["/tmp", "/var/tmp", "/dev/shm", "/run", "/proc"].map(Path::new);
    program.ancestors().skip(1).any(is_built)
        || passing.iter().any(|folder| program.starts_with(folder))
        || program.starts_with(env::temp_dir())
}

fn refusal(blocked: &Blocked) -> Refusal {
    let words = format!(
        "Blocked by keyless guard ({}): {} {}\nInstead: {} For example: {}\n{}",
        blocked.rule_id,
        blocked.reason,
        blocked.risk,
        blocked.safe_alternative.description,
        blocked.safe_alternative.example,
        blocked.agent_guidance,
    );
    let json = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": words,
    } });
    Refusal { words, json }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, sync::LazyLock};

    use super::*;

    fn ask(input: &Value) -> Option<Refusal> {
        static RULES: LazyLock<GuardRules> =
            LazyLock::new(|| GuardRules::new("/nonexistent/guard.toml".into()));
        answer(&RULES, &input.to_string())
    }

    #[test]
    fn calls_are_told_apart() {
        let call = |tool: &str, input: Value| json!({ "tool_name": tool, "tool_input": input });
        assert!(ask(&call("Bash", json!({ "command": "git status" }))).is_none());
        assert!(ask(&call("Edit", json!({ "file_path": "a.rs" }))).is_none());
        assert!(ask(&call("Read", json!({ "file_path": "/w/src/it's.rs" }))).is_none());
        for path in
            ["/w/my .env notes.md", "/w/src/api.keyboard.ts", "/w/src/entry.keys.ts", "/w/ca.crt"]
        {
            assert!(ask(&call("Read", json!({ "file_path": path }))).is_none(), "{path}");
        }
        for (tool, input) in [
            ("Grep", json!({ "pattern": "x", "path": "/w/src" })),
            ("PowerShell", json!({ "command": "Get-ChildItem src | Select-String \"a`\"b\"" })),
            (
                "WebFetch",
                json!({ "url": "https://docs.test/secrets/management/raw", "prompt": "x" }),
            ),
            ("mcp__x__export", json!({ "path": "/w/a.csv" })),
            ("mcp__vault__read_secret_metadata", json!({})),
            ("mcp__filesystem__write_file", json!({ "path": "/w/.env", "content": "A=1" })),
            ("mcp__browser__evaluate", json!({ "script": "document.title = 'it\\'s'" })),
            ("mcp__shell__run_command", json!({ "command": "npm test" })),
            ("mcp__batch__run", json!({ "calls": [{ "input": { "path": "/w/a.csv", "n": 1 } }] })),
            ("mcp__files__write_many", json!({ "files": [{ "path": "/w/.env", "text": "A=1" }] })),
        ] {
            assert!(ask(&call(tool, input.clone())).is_none(), "{tool} {input}");
        }
        for glob in ["*.{ts,tsx}", "!.env", "**/*.rs", ".env.example", "*", "*.json", ".github/**"]
        {
            let search = json!({ "pattern": "x", "glob": glob, "output_mode": "content" });
            assert!(ask(&call("Grep", search)).is_none(), "{glob}");
        }
        assert!(ask(&call("Grep", json!({ "pattern": "x" }))).is_none());
        for (tool, input) in [
            ("Bash", json!({ "command": "env" })),
            ("Read", json!({ "file_path": "/w/.env" })),
            ("NotebookRead", json!({ "notebook_path": "/w/.env" })),
            ("Grep", json!({ "pattern": "x", "path": "/w/.env" })),
            ("Grep", json!({ "pattern": "x", "glob": ".env" })),
            ("Grep", json!({ "pattern": "x", "path": "/w", "glob": "**/{.env,.envrc}" })),
            ("Grep", json!({ "pattern": "x", "glob": "**/.env*" })),
            ("Grep", json!({ "pattern": "x", "glob": "*env*" })),
            ("Grep", json!({ "pattern": "x", "glob": ".[e]nv" })),
            ("Grep", json!({ "pattern": "x", "glob": ".*" })),
            ("Grep", json!({ "pattern": "x", "glob": "id_rsa" })),
            ("Grep", json!({ "pattern": "x", "glob": "credentials" })),
            ("Grep", json!({ "pattern": "x", "path": "/home/u/.aws" })),
            ("Grep", json!({ "pattern": "x", "path": "/home/u/.ssh/" })),
            ("Grep", json!({ "pattern": "x", "path": "/proc/self" })),
            ("Grep", json!({ "pattern": "x", "path": "/w/server.key" })),
            ("PowerShell", json!({ "command": "Get-Content .e`nv" })),
            ("ReadMcpResourceTool", json!({ "server": "fs", "uri": "file:///w/.env" })),
            (
                "WebFetch",
                json!({ "url": "http://169.254.169.254/latest/meta-data/", "prompt": "x" }),
            ),
            ("mcp__filesystem__read_file", json!({ "path": "/w/.env" })),
            ("mcp__filesystem__read_multiple_files", json!({ "paths": ["/w/a", "/w/.env"] })),
            ("mcp__shell__run_command", json!({ "command": "cat .env" })),
            ("mcp__shell__run_command", json!({ "command": "cat", "args": ["/w/.env"] })),
            ("mcp__shell__run", json!({ "cmd": ["cat", "/w/.env"] })),
            (
                "mcp__batch__run",
                json!({ "calls": [{ "tool": "read", "input": { "path": "/w/.env" } }] }),
            ),
            ("mcp__batch__run", json!({ "steps": { "first": [[{ "command": "cat .env" }]] } })),
            ("mcp__filesystem__read_files", json!({ "paths": [["/w/a"], ["/w/.env"]] })),
            ("mcp__shell__run", json!({ "task": { "cmd": "cat", "args": ["/w/.env"] } })),
            ("mcp__x__read", json!({ "paths": vec!["/w/a"; 20_000] })),
            ("mcp__ide__executeCode", json!({ "code": "import os; print('it\\'s', os.environ)" })),
            ("mcp__vault__getSecretValue", json!({})),
            ("mcp__aws__get_secret_value", json!({})),
            ("mcp__vault__reveal-secret", json!({})),
            ("mcp__op__get_raw_value", json!({})),
            // What it is about can't be read.
            ("Bash", json!({ "command": ["cat", ".env"] })),
            ("Bash", json!(null)),
            ("Read", json!({ "path": "/w/.env" })),
            ("Grep", json!({ "pattern": "x", "glob": [".env"] })),
            ("mcp__vault__reveal_secret", json!({})),
        ] {
            let refusal = ask(&call(tool, input)).unwrap();
            let decision = &refusal.json["hookSpecificOutput"]["permissionDecision"];
            assert_eq!(decision, "deny", "{tool}");
            assert!(refusal.words.contains("Instead"), "{}", refusal.words);
        }
        assert!(answer(&GuardRules::new("/nonexistent".into()), "not json").is_some());
    }

    /// Each is run by a shell that finds no program by its name.
    #[test]
    fn a_hook_that_can_not_run_blocks() {
        let home = tempfile::tempdir().unwrap();
        let status = |program: &Path| {
            let command = hook_command(program).unwrap();
            let mut shell = std::process::Command::new("/bin/sh");
            shell.args(["-c", &command]).env("PATH", "/nonexistent");
            shell.output().unwrap().status.code()
        };
        let program = home.path().join("it's my/keyless");
        assert_eq!(status(&program), Some(2));
        fs::create_dir(program.parent().unwrap()).unwrap();
        for (script, expected) in [("exit 0", 0), ("exit 2", 2), ("exit 101", 2), ("kill -9 $$", 2)]
        {
            fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(status(&program), Some(expected), "{script}");
        }
    }

    #[test]
    fn where_a_program_stays_is_known() {
        for stays in ["/usr/bin/keyless", "/home/a/.cargo/bin/keyless", "/opt/target"] {
            assert!(!may_go_away(Path::new(stays)), "{stays}");
        }
        for goes in ["/home/a/keyless/target/release/keyless", "/tmp/k/keyless", "/run/user/1/k"] {
            assert!(may_go_away(Path::new(goes)), "{goes}");
        }
    }
}
