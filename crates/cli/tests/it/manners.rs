//! How the command line behaves at a terminal: tables that fit it, a word about what takes long.

use std::time::Duration;

use http::StatusCode;
use keyless_testkit::{Handler, reply};

use crate::{
    terminal::at_a_terminal,
    world::{ALLOWED, World},
};

/// At any width no line of a table is longer than the terminal is wide, and nothing is cut where there is room.
#[test]
fn tables_fit_the_terminal() {
    let world = World::with_token();
    let long = "team/some-service-with-a-long-name/a-token-of-many-words-for-the-nightly-build";
    let hosts = [
        "--to",
        ALLOWED,
        "--to",
        "uploads.some-service.test",
        "--env",
        "SOME_SERVICE_NIGHTLY_TOKEN",
    ];
    world.add(long, &hosts).ok();
    world
        .keyless(&[
            "grant",
            "create",
            "--agent",
            "nl://acme.corp/some-agent/1.0.0",
            "--secret",
            "api/*",
        ])
        .run()
        .ok();
    for columns in [40_usize, 80, 200] {
        for command in
            [&["secret", "list"][..], &["audit", "tail"], &["grant", "list"], &["source", "list"]]
        {
            let shell = format!(
                "stty cols {columns}; exec {} {}",
                crate::invocation::KEYLESS,
                command.join(" ")
            );
            let screen = at_a_terminal(
                &world,
                world.keyless(&[]).instead(&["sh", "-c", &shell]),
                "finish(code=0)",
            );
            let plain = anstream::adapter::strip_str(&screen).to_string();
            // What said that it takes long was written over.
            let last = |line: &str| line.rsplit('\r').next().unwrap_or_default().to_owned();
            for line in plain.lines().map(last) {
                assert!(
                    line.trim_end().chars().count() <= columns,
                    "{command:?} at {columns}: {line}"
                );
            }
            if columns == 40 && command[0] == "secret" {
                // Too narrow for columns: nothing is lost all the same.
                let all: String = plain.split_whitespace().collect();
                assert!(
                    all.contains(long) && all.contains("SOME_SERVICE_NIGHTLY_TOKEN"),
                    "{plain}"
                );
            }
            if columns == 200 && command[0] == "secret" {
                assert!(plain.contains(long) && !plain.contains('…'), "{plain}");
            }
        }
    }
}

/// What takes longer than half a second says what it is about, to people at a terminal, and goes again when it is done.
#[test]
fn what_takes_long_says_so() {
    let mut world = World::with_store();
    let handler = Handler::new(|_| async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        reply(StatusCode::OK, "{}")
    });
    let _origin = world.origin_of("api.github.com", handler);
    world.write_config();
    let value = world.github_token();
    let add = ["secret", "add", "team/github/token", "--pattern", "github-pat", "--value-stdin"];
    world.keyless(&add).stdin(&value[..]).run().ok();
    let check = ["secret", "check", "team/github/token"];
    let script = "expect('Asking their services'); expect('valid'); finish(code=0)";
    let keyless = |more: &[&str]| world.keyless(&[&check[..], more].concat()).env("TERM", "xterm");
    at_a_terminal(&world, keyless(&[]), script);
    for more in ["--json", "--quiet"] {
        let screen = at_a_terminal(&world, keyless(&[more]), "finish(code=0)");
        assert!(!screen.contains("Asking their"), "{more}: {screen}");
    }
    assert!(world.keyless(&check).run().ok().contains("valid"), "a pipe gets the answer alone");
}

/// A slip of the finger is answered with the one command that was most likely meant.
#[test]
fn a_slip_is_answered_with_what_was_meant() {
    let world = World::empty();
    for (typed, meant) in [("secrets", "secret"), ("apprve", "approve"), ("doctr", "doctor")] {
        let errors = world.keyless(&[typed]).run().exits(2).errors();
        let tip = format!("tip: a similar subcommand exists: '{meant}'\n");
        assert!(errors.contains(&tip), "{typed}: {errors}");
        let told = world.keyless(&[typed, "--json"]).run();
        let fault = told.exits(2).json()["errors"][0].clone();
        let message = fault["message"].as_str().unwrap();
        assert!(message.contains(&format!("a similar subcommand exists: `{meant}`")), "{fault}");
    }
    // Programs are sent to the verb's own page, as people are.
    let fault = world.keyless(&["secret", "add", "--jsn", "--json"]).run().exits(2).json();
    assert_eq!(fault["command"], "secret.add");
    assert_eq!(
        fault["errors"][0]["details"]["remediation"]["action"],
        "see keyless secret add --help"
    );
}

/// Words of other tools lead to ours; what is no path, to the path that is meant.
#[test]
fn what_was_meant_is_named() {
    let world = World::with_store();
    world.add("team/github/token", &["--env", "GITHUB_TOKEN"]).ok();
    for (typed, meant) in [
        (&["log"][..], "a similar subcommand exists: 'audit tail'"),
        (&["secret", "get", "team/github/token"], "a similar subcommand exists: 'secret reveal'"),
        (&["set", "team/github/token"], "a similar subcommand exists: 'secret add'"),
        (&["version"], "keyless --version says it"),
        (&["uninstall"], "docs/setup.md says"),
        (
            &["secret", "show", "GITHUB_TOKEN"],
            "GITHUB_TOKEN is the variable of team/github/token: name that path",
        ),
        (
            &["run", "--secret", "GITHUB_TOKEN", "--", "true"],
            "GITHUB_TOKEN is the variable of team/github/token: name that path",
        ),
    ] {
        let errors = world.keyless(typed).run().exits(2).errors();
        assert!(errors.contains(meant), "{typed:?}: {errors}");
    }
    for typed in [
        &["secret", "show", "team/githb/token"][..],
        &["run", "--secret", "team/githb/token", "--", "true"],
    ] {
        let errors = world.keyless(typed).run().exits(3).errors();
        assert!(errors.contains("did you mean team/github/token?"), "{typed:?}: {errors}");
    }
    let errors = world.agent(&["echo hi"]).run().exits(127).errors();
    assert!(errors.contains("keyless run -- sh -c takes a line"), "{errors}");
}

/// It stands in the shell's history by then; the logs of a job need not have it as well.
#[test]
fn a_value_on_the_command_line_is_not_repeated() {
    let world = World::with_store();
    let value = world.github_token();
    for verb in ["add", "rotate", "set"] {
        for more in [&[][..], &["--json"]] {
            let typed = [&["secret", verb, "team/github/token", &value], more].concat();
            let mut command = world.keyless(&typed).into_command();
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(2));
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8(said).unwrap();
            assert!(said.contains("a value is never an argument"), "{said}");
            assert!(!said.contains(&value), "{said}");
            // What is said to do works of a secret that is there, and of one that is not.
            let advice = if more.is_empty() {
                said
            } else {
                let told: serde_json::Value = serde_json::from_str(&said).unwrap();
                told["errors"][0]["details"]["remediation"]["action"].to_string()
            };
            let next: &[&str] = if verb == "set" { &["rotate", "add"] } else { &[verb] };
            for verb in next {
                let next = format!("keyless secret {verb} PATH");
                assert!(advice.contains(&next), "{advice}");
            }
        }
    }
}

/// Options of which nothing would come.
#[test]
fn what_a_command_has_no_use_for_is_refused() {
    let world = World::empty();
    for (words, why) in [
        (&["serve", "--stdio", "--http", "127.0.0.1:0"][..], "--http"),
        (&["serve", "--stdio", "--plaintext-discovery"], "--plaintext-discovery"),
        (&["serve", "--stdio", "--for", "1h"], "--for"),
        (&["mcp", "--json"], "leave --json away"),
    ] {
        let refused = world.keyless(words).run();
        let said = refused.exits(2).errors() + &refused.text();
        assert!(said.contains(why), "{words:?}: {said}");
    }
}
