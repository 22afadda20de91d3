//! Claude Code asks before each tool (its PreToolUse hook): what comes in, what goes back, how it is set up.
//!
//! Source: code.claude.com/docs/en/hooks: JSON on stdin; status 2 blocks, and stderr is the reason that the
//! model reads. Any other status than 0 lets the call through, so that a hook which is not found has to end with 2 as well.
//! An allowed call gets no word, since an explicit `allow` would skip the person's own prompt.

mod calls;

use std::{env, fs, io, path::Path};

use keyless_core::{
    Code, Error, SafeText,
    deny::Blocked,
    shell::{self, SimpleCommand},
};
use keyless_vault::read_settings_text;
use serde_json::{Map, Value, json};

use self::calls::{attempts, quoted};
use super::GuardRules;
use crate::{
    path_unusable,
    whole_file::{rewrite_whole, write_whole},
};

/// What makes whatever goes wrong with the hook block the call.
const OR_BLOCK: &str = "|| exit 2";

/// What goes back for a call that is blocked.
pub struct Refusal {
    /// For the model, on stderr.
    pub words: String,
    /// The same as JSON, on stdout.
    pub json: Value,
}

/// Whether a settings file was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// It has the hook now.
    Added,
    /// It had it already.
    Before,
    /// It had one that would let calls through when the program is not found, or ran another program.
    Renewed,
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

/// The command that Claude Code is told to run: by its own path, since the hook's shell may look elsewhere for programs.
pub fn hook_command(program: &Path) -> Result<String, Error> {
    let name = program.to_str().ok_or_else(|| {
        let words = SafeText::words("the path of keyless is no UTF-8, which settings have to be");
        Error::with(Code::PathUnusable, words)
    })?;
    Ok(format!("{} guard hook {OR_BLOCK}", quoted(name)))
}

/// Whether a program lies where builds, restarts or cleaners remove it.
pub fn may_go_away(program: &Path) -> bool {
    let is_built = |folder: &Path| folder.file_name().is_some_and(|name| name == "target");
    let passing = ["/tmp", "/var/tmp", "/dev/shm", "/run", "/proc"].map(Path::new);
    program.ancestors().skip(1).any(is_built)
        || passing.iter().any(|folder| program.starts_with(folder))
        || program.starts_with(env::temp_dir())
}

/// Puts the hook into a settings file, beside what is there. `hook` is [`hook_command`]'s.
pub fn install(settings: &Path, hook: &str) -> Result<Installed, Error> {
    let unusable = |why: &str| {
        let place = SafeText::default().as_they_wrote(&settings.to_string_lossy());
        Error::with(Code::PathUnusable, place.and(": ").as_they_wrote(why))
    };
    let text = match read_settings_text(settings) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => "{}".to_owned(),
        Err(error) => return Err(unusable(&error.to_string())),
    };
    let mut whole: Map<String, Value> =
        serde_json::from_str(&text).map_err(|error| unusable(&error.to_string()))?;
    let hooks = whole.entry("hooks").or_insert_with(|| json!({}));
    let hooks = hooks.as_object_mut().ok_or_else(|| unusable("`hooks` is not an object"))?;
    let before_tools = hooks.entry("PreToolUse").or_insert_with(|| json!([]));
    let before_tools =
        before_tools.as_array_mut().ok_or_else(|| unusable("`PreToolUse` is not a list"))?;
    let installed = match renew(before_tools, hook) {
        Some(Installed::Before) => return Ok(Installed::Before),
        Some(renewed) => renewed,
        None => {
            before_tools.push(json!({
                "matcher": "*",
                "hooks": [{ "type": "command", "command": hook }],
            }));
            Installed::Added
        }
    };
    write(settings, &whole).map_err(|error| unusable(&error.kind().to_string()))?;
    Ok(installed)
}

/// [`Code::PathUnusable`] where a project's settings are a link out of the project: whoever wrote the project would say
/// which file of yours is written. In the home such links are a person's own.
pub fn check_inside(settings: &Path, project: &Path) -> Result<(), Error> {
    let place = || SafeText::default().as_they_wrote(&settings.to_string_lossy());
    let project = fs::canonicalize(project).map_err(|error| path_unusable(project, &error))?;
    let there = settings.ancestors().find_map(|above| fs::canonicalize(above).ok());
    match there.filter(|there| !there.starts_with(&project)) {
        None => Ok(()),
        Some(target) => {
            let words = place().and(" leads out of this project, to ");
            let words = words.as_they_wrote(&target.to_string_lossy());
            let words =
                words.and(": remove the link, or use `keyless guard install claude --user`");
            Err(Error::with(Code::PathUnusable, words))
        }
    }
}

/// Sees to it that the hooks of ours that are there block when they can't run; nothing when there is none for all tools:
/// one for some tools alone lets the others by.
fn renew(before_tools: &mut [Value], ours: &str) -> Option<Installed> {
    let mut found = None;
    for entry in before_tools.iter_mut().filter(|entry| is_for_all_tools(entry)) {
        for hook in entry["hooks"].as_array_mut().into_iter().flatten() {
            let command = hook["command"].as_str().filter(|_| hook["type"] == "command");
            let Some(command) = command else { continue };
            let Some(renewed) = renewed(command, ours) else { continue };
            if renewed == command {
                found = found.or(Some(Installed::Before));
            } else {
                hook["command"] = renewed.into();
                found = Some(Installed::Renewed);
            }
        }
    }
    found
}

fn is_for_all_tools(entry: &Value) -> bool {
    match &entry["matcher"] {
        Value::Null => true,
        matcher => matcher.as_str().is_some_and(|text| ["", "*", ".*"].contains(&text)),
    }
}

/// What a command has to be that asks the guard and nothing else; nothing when it is none. With words of a person's own,
/// such as variables, it keeps them.
fn renewed(command: &str, ours: &str) -> Option<String> {
    let script = shell::lex(command).ok()?;
    let (asks, rest) = script.commands.split_first()?;
    let is_plain = is_plainly_asking(asks)?;
    let blocks = match rest {
        [] => false,
        [_] if command.get(asks.span.end..).is_some_and(|rest| rest.trim() == OR_BLOCK) => true,
        _ => return None,
    };
    Some(match (is_plain, blocks) {
        (true, _) => ours.to_owned(),
        (false, true) => command.to_owned(),
        (false, false) => format!("{} {OR_BLOCK}", command.trim_end()),
    })
}

/// Whether a command that runs `keyless guard hook` is only that: no variables, no `env`, no redirection.
fn is_plainly_asking(command: &SimpleCommand) -> Option<bool> {
    let is_before = |word: &str| word.contains('=') || ["env", "exec"].contains(&word);
    let before = command.words.iter().take_while(|word| is_before(&word.text)).count();
    let [program, guard, hook] = &command.words[before..] else { return None };
    let is_ours = program.text.rsplit('/').next() == Some("keyless")
        && (guard.text.as_str(), hook.text.as_str()) == ("guard", "hook");
    let is_plain = before == 0
        && command.assignments.is_empty()
        && command.redirections.is_empty()
        && !program.text.contains(['$', '`', '~']);
    is_ours.then_some(is_plain)
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

/// The person's own file: its mode stays, and a link into the files that they keep in git stays one.
fn write(file: &Path, whole: &Map<String, Value>) -> io::Result<()> {
    let text = serde_json::to_string_pretty(whole)? + "\n";
    if file.exists() {
        return rewrite_whole(file, text.as_bytes());
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    write_whole(file, text.as_bytes(), 0o600)
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{PermissionsExt as _, symlink},
        sync::LazyLock,
    };

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

    const HOOK: &str = "'/opt/bin/keyless' guard hook || exit 2";

    #[test]
    fn settings_keep_what_they_have() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".claude/settings.json");
        assert_eq!(install(&file, HOOK).unwrap(), Installed::Added);
        assert_eq!(install(&file, HOOK).unwrap(), Installed::Before);
        fs::write(&file, r#"{"model": "x", "hooks": {"PreToolUse": [{"matcher": "Bash"}]}}"#)
            .unwrap();
        assert_eq!(install(&file, HOOK).unwrap(), Installed::Added);
        let whole: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(whole["model"], "x");
        assert_eq!(whole["hooks"]["PreToolUse"].as_array().unwrap().len(), 2);
        assert_eq!(whole["hooks"]["PreToolUse"][1]["hooks"][0]["command"], HOOK);
    }

    #[test]
    fn only_a_hook_before_each_tool_is_there_already() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("settings.json");
        let installed = |settings: Value| {
            fs::write(&file, settings.to_string()).unwrap();
            let installed = install(&file, HOOK).unwrap();
            assert_eq!(install(&file, HOOK).unwrap(), Installed::Before);
            let whole: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
            let command = &whole["hooks"]["PreToolUse"][0]["hooks"][0]["command"];
            (installed, command.as_str().unwrap_or_default().to_owned())
        };
        let before = |entry: Value| json!({ "hooks": { "PreToolUse": [entry] } });
        let runs = |command: &str| json!([{ "type": "command", "command": command }]);
        for absent in [
            json!({ "permissions": { "allow": ["Bash(keyless guard hook:*)"] } }),
            json!({ "hooks": { "PostToolUse": [{ "matcher": "*", "hooks": runs(HOOK) }] } }),
            before(json!({ "matcher": "Bash", "hooks": runs(HOOK) })),
            before(json!({ "matcher": "*", "description": HOOK, "hooks": runs("true") })),
            before(json!({ "matcher": "*", "hooks": runs("echo keyless guard hook") })),
            before(json!({ "matcher": "*", "hooks": runs("keyless guard check x") })),
            before(json!({ "matcher": "*", "hooks": runs("keyless guard hook || true") })),
            before(json!({ "matcher": "*", "hooks": runs("keyless guard hook; exit 0") })),
            before(json!({ "matcher": "*", "hooks": runs("keyless guard hook 'x") })),
            before(json!({ "matcher": "*", "hooks": [{ "type": "prompt", "command": HOOK }] })),
        ] {
            assert_eq!(installed(absent.clone()).0, Installed::Added, "{absent}");
        }
        assert_eq!(
            installed(before(json!({ "hooks": runs(HOOK) }))),
            (Installed::Before, HOOK.to_owned())
        );
        for (old, new) in [
            ("keyless guard hook", HOOK),
            ("/usr/bin/keyless guard hook", HOOK),
            ("'/my own/keyless' guard hook || exit 2", HOOK),
            (
                "KEYLESS_HOME=/x \"$HOME/bin/keyless\" guard hook",
                "KEYLESS_HOME=/x \"$HOME/bin/keyless\" guard hook || exit 2",
            ),
            ("env A=1 keyless guard hook 2>>log", "env A=1 keyless guard hook 2>>log || exit 2"),
        ] {
            let there = before(json!({ "matcher": ".*", "hooks": runs(old) }));
            assert_eq!(installed(there), (Installed::Renewed, new.to_owned()), "{old}");
        }
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

    #[test]
    fn settings_that_a_person_keeps_elsewhere_stay_there() {
        let home = tempfile::tempdir().unwrap();
        let (kept, link) = (home.path().join("dotfiles.json"), home.path().join("settings.json"));
        fs::write(&kept, "{}").unwrap();
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o644)).unwrap();
        symlink(&kept, &link).unwrap();
        assert_eq!(install(&link, HOOK).unwrap(), Installed::Added);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&kept).unwrap().contains(HOOK));
        assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o644);
    }
}
