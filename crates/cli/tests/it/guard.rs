//! The guard: asked by a person, and by a coding agent before each tool.

use serde_json::json;

use crate::{invocation::KEYLESS, world::World};

#[test]
fn commands_are_judged_before_they_run() {
    let world = World::empty();
    let asked = world.keyless(&["guard", "check", "--json", "--", "true; (env) | sort"]).run();
    let answer = &asked.exits(4).json()["data"];
    assert_eq!(
        (&answer["decision"], &answer["rule_id"]),
        (&json!("block"), &json!("NL-4-DENY-011"))
    );
    assert!(answer["safe_alternative"]["example"].is_string());
    world.keyless(&["guard", "check", "--", "npm", "test", "--", "--watch"]).run().ok();

    let hook = |command: &str| {
        let call = json!({ "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": { "command": command } });
        world.keyless(&["guard", "hook"]).stdin(call.to_string()).run()
    };
    assert_eq!(hook("git status").ok(), "");
    let blocked = hook("cat .env | base64");
    blocked.exits(2);
    assert!(blocked.errors().contains("Instead"), "{}", blocked.errors());
    let decision: serde_json::Value = serde_json::from_slice(&blocked.stdout).unwrap();
    assert_eq!(decision["hookSpecificOutput"]["permissionDecision"], "deny");
    // What can't be read never lets a call through.
    world.keyless(&["guard", "hook"]).stdin("{").run().exits(2);

    // What is in force is shown, and the standard's own beside it where that is another.
    let rules = world.keyless(&["guard", "rules", "--json"]).run().data()["rules"].clone();
    let rule = |id: &str| {
        rules.as_array().unwrap().iter().find(|rule| rule["rule_id"] == id).unwrap().clone()
    };
    let narrower = rule("NL-4-DENY-001");
    assert_ne!(narrower["patterns"][0], narrower["standard_pattern"], "{narrower}");
    assert_eq!(narrower["patterns_in_texts"][0], narrower["standard_pattern"], "{narrower}");
    let corrected = rule("NL-4-DENY-030");
    assert!(corrected["standard_pattern"].is_string(), "{corrected}");
    assert_ne!(corrected["patterns"][0], corrected["standard_pattern"], "{corrected}");
    for as_written in ["KL-ENC", "NL-4-DENY-011"] {
        assert!(rule(as_written).get("standard_pattern").is_none(), "{as_written}");
    }
}

/// What is no command was not judged, and is not allowed.
#[test]
fn a_flag_that_is_mistyped_is_no_word_of_the_command() {
    let world = World::empty();
    let check = |words: &[&str]| world.keyless(&[&["guard", "check"], words].concat()).run();
    for mistyped in [
        &["--jsn", "cat .env"][..],
        &["--quite", "--", "cat", ".env"],
        &["cat .env", "--jsn"],
        &["ls", "-la"],
    ] {
        let said = check(mistyped).exits(2).errors();
        assert!(said.contains("unexpected argument"), "{mistyped:?}: {said}");
    }
    // Keyless's own count behind the command as well; behind -- they are the command's.
    let judged = check(&["cat .env", "--json"]);
    assert_eq!(judged.exits(4).json()["data"]["decision"], "block");
    assert_eq!(check(&["ls", "--json"]).exits(0).json()["data"]["decision"], "allow");
    let words = check(&["--", "ls", "-la", "--json"]);
    assert_eq!(words.ok(), "Allowed.\n");
}

/// Whoever wrote the project would say which file of the person's is written.
#[test]
fn a_link_out_of_the_project_is_not_written_through() {
    let world = World::empty();
    let target = world.home.write("home/.docker/config.json", "{}").unwrap();
    let folder = world.home.work().join(".claude");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(&target, folder.join("settings.json")).unwrap();
    let refused = world.keyless(&["guard", "install", "claude"]).run();
    let said = refused.exits(3).errors();
    assert!(said.contains("leads out of this project, to "), "{said}");
    assert!(said.contains(".docker/config.json"), "{said}");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "{}");

    // The same of the folder; a link within the project is its own.
    std::fs::remove_file(folder.join("settings.json")).unwrap();
    std::fs::remove_dir(&folder).unwrap();
    std::os::unix::fs::symlink(target.parent().unwrap(), &folder).unwrap();
    world.keyless(&["guard", "install", "claude"]).run().exits(3);
    assert!(!target.with_file_name("settings.json").exists());
    std::fs::remove_file(&folder).unwrap();
    std::fs::create_dir(world.home.work().join("agents")).unwrap();
    std::os::unix::fs::symlink("agents", &folder).unwrap();
    world.keyless(&["guard", "install", "claude"]).run().ok();
    assert!(world.home.work().join("agents/settings.json").exists());
}

/// A hook that isn't found, or fails, must not let a call through: for Claude Code only status 2 blocks.
#[test]
fn what_is_installed_runs_this_program_and_blocks_without_it() {
    let world = World::empty();
    let file = world.home.work().join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let old = json!({ "hooks": { "PreToolUse": [
        { "matcher": "*", "hooks": [{ "type": "command", "command": "keyless guard hook" }] },
    ] } });
    std::fs::write(&file, old.to_string()).unwrap();
    let install = world.keyless(&["guard", "install", "claude", "--json"]).run();
    assert_eq!(
        (&install.data()["added"], &install.data()["renewed"]),
        (&json!(false), &json!(true))
    );
    // The tests' own binary lies in `target`.
    let warnings = install.json()["warnings"].to_string();
    assert!(warnings.contains("may be removed"), "{warnings}");
    assert_eq!(
        world.keyless(&["guard", "install", "claude", "--json"]).run().data()["renewed"],
        false
    );

    let settings: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let hooks = settings["hooks"]["PreToolUse"].as_array().unwrap();
    assert_eq!(hooks.len(), 1);
    let command = hooks[0]["hooks"][0]["command"].as_str().unwrap();
    let hook = |script: &str, command: &str| {
        let call = json!({ "tool_name": "Bash", "tool_input": { "command": command } });
        world.keyless(&[]).instead(&["/bin/sh", "-c", script]).stdin(call.to_string()).run()
    };
    hook(command, "git status").exits(0);
    hook(command, "cat .env").exits(2);
    hook(&command.replace("keyless' guard", "gone' guard"), "git status").exits(2);
}

/// Claude Code reads the settings of the project, not those of each folder in it.
#[test]
fn from_a_folder_of_the_project_its_own_settings_are_written_and_put_back() {
    let world = World::empty();
    std::fs::create_dir_all(world.home.work().join(".git")).unwrap();
    let deep = world.home.work().join("src/deep");
    std::fs::create_dir_all(&deep).unwrap();
    let before = "{\n  \"b\": 1,\n  \"a\": 2\n}\n";
    let file = world.home.write("work/.claude/settings.json", before).unwrap();
    let from_below = |verb: &str| {
        let line = format!("cd {} && exec {KEYLESS} guard {verb} claude", deep.display());
        world.keyless(&[]).instead(&["sh", "-c", &line]).run()
    };
    let installed = from_below("install");
    assert!(installed.ok().contains("work/.claude/settings.json"), "{}", installed.text());
    assert!(installed.errors().contains("is blocked at each tool"), "{}", installed.errors());
    assert!(std::fs::read_to_string(&file).unwrap().contains("guard hook"));
    assert!(from_below("uninstall").ok().contains("no longer asks"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    assert!(from_below("uninstall").ok().contains("did not ask"));
    std::fs::write(&file, "[]").unwrap();
    let refused = from_below("install");
    assert!(refused.exits(2).errors().contains("it holds no object"), "{}", refused.errors());
}

#[test]
fn a_file_of_rules_that_is_broken_is_told_with_its_place() {
    let world = World::empty();
    world.home.write("keyless/guard.toml", "[[rules]]\nid = \n").unwrap();
    for words in [&["guard", "rules"][..], &["guard", "check", "ls"]] {
        let told = world.keyless(words).run().errors();
        assert!(told.contains("guard.toml: line 2, id: "), "{told}");
    }
}
