//! The pack between machines and over time: remotes, sync, events, scores.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::{
    invocation::Seen,
    pack::{run, with_repo, write},
    world::World,
};

fn repo(world: &World) -> PathBuf {
    world.home.home().join(".agentpack/repo")
}

/// Runs a script in the config repo, with a bare repository beside it in `$ORIGIN`.
fn sh(world: &World, script: &str) -> Seen {
    let origin = world.home.home().join("origin.git");
    let identity = "export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t";
    let (origin, repo) = (origin.display(), repo(world));
    let script = format!("set -e; {identity}; ORIGIN={origin}; cd {}; {script}", repo.display());
    let seen = world.keyless(&[]).instead(&["sh", "-c", &script]).run();
    seen.exits(0);
    seen
}

/// A world whose config repo is committed and has an empty bare repository as its origin.
fn with_origin() -> World {
    let world = with_repo(1);
    sh(&world, "git init -q --bare $ORIGIN; git init -q -b main; git add -A; git commit -qm first");
    let origin = world.home.home().join("origin.git");
    let set = run(&world, &["remote", "set", origin.to_str().unwrap(), "--yes"]).data();
    assert_eq!((&set["remote"], &set["url"]), (&json!("origin"), &json!(origin.to_str().unwrap())));
    world
}

#[track_caller]
fn refused(seen: &Seen, code: &str) -> Value {
    let answer = seen.exits(1).json();
    assert_eq!(answer["errors"][0]["code"], code, "{answer:#}");
    answer["errors"][0]["details"].clone()
}

#[test]
fn a_sync_pushes_then_pulls_what_another_machine_pushed() {
    let world = with_origin();
    let dry = run(&world, &["sync", "--yes", "--dry-run"]).data();
    assert_eq!(dry["commands"], json!(["git push origin main"]));
    assert_eq!(sh(&world, "git ls-remote $ORIGIN").text(), "", "a dry run pushes nothing");
    run(&world, &["sync", "--yes"]).exits(0);
    sh(
        &world,
        "git clone -q -b main $ORIGIN $ORIGIN.other; cd $ORIGIN.other; echo more >> modules/base/AGENTS.md;
         git commit -qam theirs; git push -q origin main",
    );
    let data = run(&world, &["sync", "--rebase", "--yes"]).data();
    assert_eq!(data["branch"], "main");
    assert_eq!(data["commands"], json!(["git pull --rebase origin main", "git push origin main"]));
    let text = fs::read_to_string(repo(&world).join("modules/base/AGENTS.md")).unwrap();
    assert!(text.ends_with("more\n"), "{text}");
}

#[test]
fn a_sync_that_conflicts_leaves_the_repo_as_it_was() {
    let world = with_origin();
    run(&world, &["sync", "--yes"]).exits(0);
    sh(
        &world,
        "git clone -q -b main $ORIGIN $ORIGIN.other; cd $ORIGIN.other; echo theirs > modules/base/AGENTS.md;
         git commit -qam theirs; git push -q origin main",
    );
    sh(&world, "echo ours > modules/base/AGENTS.md; git commit -qam ours");
    let before = sh(&world, "git rev-parse HEAD").text();
    let details = refused(&run(&world, &["sync", "--rebase", "--yes"]), "E_GIT_FAILED");
    assert_eq!(details["undone"], true);
    assert_eq!(sh(&world, "git rev-parse HEAD; git status --porcelain").text(), before);
    assert_eq!(sh(&world, "git symbolic-ref --short HEAD").text(), "main\n");
}

#[test]
fn a_sync_says_what_it_lacks() {
    let world = with_repo(1);
    let details = refused(&run(&world, &["sync", "--yes"]), "E_GIT_REPO_REQUIRED");
    assert_eq!(details["command"], "sync");
    refused(&run(&world, &["sync"]), "E_CONFIRM_REQUIRED");
    sh(&world, "git init -q -b main; git add -A; git commit -qm first");
    let details = refused(&run(&world, &["sync", "--yes"]), "E_GIT_REMOTE_MISSING");
    assert_eq!(details["remote"], "origin");
    write(&world, "modules/base/AGENTS.md", "changed\n");
    refused(&run(&world, &["sync", "--yes"]), "E_GIT_WORKTREE_DIRTY");
    sh(&world, "git commit -qam second; git checkout -q --detach");
    refused(&run(&world, &["sync", "--yes"]), "E_GIT_DETACHED_HEAD");
}

#[test]
fn a_remote_is_no_option_and_no_command() {
    let world = with_repo(1);
    let harm = world.home.home().join("harm");
    let touch = format!("ext::sh -c touch% {}", harm.display());
    for url in [touch.as_str(), "relative/path"] {
        refused(&run(&world, &["remote", "set", url, "--yes"]), "E_CONFIG_INVALID");
    }
    let option = format!("--upload-pack=touch {}", harm.display());
    refused(&run(&world, &["remote", "set", "--yes", "--", &option]), "E_CONFIG_INVALID");
    refused(&run(&world, &["remote", "set", "/x", "--name=--all", "--yes"]), "E_CONFIG_INVALID");
    assert!(!harm.exists() && !repo(&world).join(".git").exists());
}

/// A filter may be what encrypts a file: it is not passed by.
#[test]
fn a_filter_of_the_persons_own_settings_runs_and_one_of_the_repositorys_is_refused() {
    let world = with_origin();
    let ran = world.home.home().join("ran");
    let filter = format!("sh -c 'touch {}; cat'", ran.display());
    let attributes =
        "mkdir -p .git/info; echo '* filter=mine' > .git/info/attributes; touch agentpack.yaml";
    let set = |scope: &str| {
        sh(&world, &format!("git config {scope} filter.mine.clean \"{filter}\"; {attributes}"));
    };
    set("--local");
    let details = refused(&run(&world, &["sync", "--yes"]), "E_GIT_FAILED");
    assert_eq!(details["keys"], json!(["filter.mine.clean"]));
    let hint = details["hint"].as_str().unwrap();
    assert!(hint.contains("git config --global filter.mine.clean VALUE"), "{hint}");
    assert!(!ran.exists());
    // What both say is the person's.
    set("--global");
    run(&world, &["sync", "--yes"]).exits(0);
    assert!(ran.exists());
    sh(&world, "git config --local --unset-all filter.mine.clean");
    run(&world, &["sync", "--yes"]).exits(0);
}

/// Whoever writes to a repository writes its hooks; a folder of hooks in one's own home is one's own.
#[test]
fn a_sync_runs_the_persons_own_hooks_alone() {
    let world = with_origin();
    let ran = world.home.home().join("ran");
    let hook =
        format!("printf '#!/bin/sh\\ntouch {}\\n' > pre-push; chmod +x pre-push", ran.display());
    sh(&world, &format!("mkdir -p .git/hooks; cd .git/hooks; {hook}"));
    let details = refused(&run(&world, &["sync", "--yes"]), "E_GIT_FAILED");
    assert_eq!(details["hooks"], json!(["pre-push"]));
    assert!(!ran.exists());
    sh(&world, "rm .git/hooks/pre-push");
    run(&world, &["sync", "--yes"]).exits(0);
    assert!(!ran.exists());
    sh(
        &world,
        &format!("mkdir ~/hooks; git config --global core.hooksPath ~/hooks; cd ~/hooks; {hook}"),
    );
    run(&world, &["sync", "--yes"]).exits(0);
    assert!(ran.exists());
}

/// A credential in a URL would be told to whoever reads the answer, and stays in the repo's config.
#[test]
fn a_remote_with_a_credential_in_its_url_is_refused_and_not_repeated() {
    let world = with_repo(1);
    for url in [
        "https://me:hunter2@git.example/acme/pack.git",
        "https://hunter2@git.example/acme/pack.git",
        "gopher://me:hunter2@git.example/acme/pack.git",
    ] {
        let seen = run(&world, &["remote", "set", url, "--yes"]);
        assert!(!seen.text().contains("hunter2") && !seen.errors().contains("hunter2"), "{url}");
        refused(&seen, "E_CONFIG_INVALID");
    }
    assert!(!repo(&world).join(".git").exists());
    run(&world, &["remote", "set", "git@git.example:acme/pack.git", "--yes"]).exits(0);
}

fn record(world: &World, event: &str) -> Seen {
    world.keyless(&["pack", "--json", "record", "--yes"]).stdin(event).run()
}

#[test]
fn events_are_recorded_and_scored() {
    let world = with_repo(1);
    for event in [
        r#"{"moduleId":"skill:many","ok":false,"durationMs":5,"targets":["b","a","a"]}"#,
        r#"{"module_id":"skill:many"}"#,
        r#"{"module_id":"skill:gone","success":true}"#,
    ] {
        let recorded = record(&world, event).data();
        assert!(recorded["recorded_at"].as_str().unwrap().ends_with('Z'));
    }
    let log = world.home.home().join(".agentpack/state/logs/events.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["targets"], json!(["a", "b"]));
    assert_eq!((&first["duration_ms"], &first["success"]), (&json!(5), &json!(false)));
    let scores = run(&world, &["score"]).data();
    let rows: Vec<(&str, &Value)> = scores["modules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["module_id"].as_str().unwrap(), &row["failure_rate"]))
        .collect();
    assert_eq!(
        rows,
        [
            ("skill:many", &json!(0.5)),
            ("skill:gone", &json!(0.0)),
            ("instructions:base", &Value::Null)
        ]
    );
    let words = world.keyless(&["pack", "score"]).run().exits(0).text();
    assert!(words.contains("1 of 2 failed (50.0 %)") && words.contains("never seen"), "{words}");
}

#[test]
fn a_broken_event_log_is_read_as_far_as_it_goes() {
    let world = with_repo(1);
    let bad = [
        b"nope\n\n\xff\xfe\n".as_slice(),
        br#"{"schema_version":2,"recorded_at":"x","machine_id":"x","event":1}"#,
    ]
    .concat();
    let log = world.home.home().join(".agentpack/state/logs/events.jsonl");
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    fs::write(&log, bad).unwrap();
    // The last line has no end, as a writer that was killed leaves it.
    record(&world, r#"{"module_id":"skill:many"}"#).exits(0);
    let answer = run(&world, &["score"]).exits(0).json();
    assert_eq!(
        answer["data"]["read_stats"],
        json!({
            "lines_total": 5, "lines_empty": 1, "records_ok": 1, "skipped_total": 3, "skipped_io_errors": 1,
            "skipped_malformed_json": 1, "skipped_unsupported_schema_version": 1
        })
    );
    assert_eq!(answer["warnings"].as_array().unwrap().len(), 3);
}

#[test]
fn what_is_no_event_is_not_recorded() {
    let world = with_repo(1);
    for bad in ["", "{", "{} {}"] {
        let details = refused(&record(&world, bad), "E_CONFIG_INVALID");
        assert_eq!(details["reason_code"], "event_invalid");
    }
    refused(&record(&world, &format!("\"{}\"", "x".repeat(1024 * 1024))), "E_CONFIG_INVALID");
    let seen = world.keyless(&["pack", "--json", "record"]).stdin("{}").run();
    refused(&seen, "E_CONFIRM_REQUIRED");
    assert!(!world.home.home().join(".agentpack/state/logs").exists());
    // A person who pipes an event in is not asked.
    world.keyless(&["pack", "record"]).stdin("{}").run().exits(0);
}

#[test]
fn a_script_that_reads_words_may_change_the_config_repo_and_no_more() {
    let world = with_repo(1);
    let called = |arguments: &[&str]| world.keyless(&[&["pack"], arguments].concat()).run();
    for words in
        [&["lock"][..], &["fetch"], &["overlay", "edit", "skill:many"], &["remove", "skill:many"]]
    {
        called(words).exits(0);
    }
    called(&["remote", "set", "/srv/agents.git"]).exits(0);
    called(&["deploy", "--apply"]).exits(1);
    assert!(!world.home.home().join(".codex").exists());
}
