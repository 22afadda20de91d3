//! Secrets from birth to removal, by words and as JSON; sources other than the store; rotation
//! under a running session.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use keyless_testkit::Canary;
use serde_json::json;

use crate::{
    actions::submit,
    terminal::at_a_terminal,
    world::{ALLOWED, TOKEN, VARIABLE, World, wait_until},
};

const USE: &str = r#"curl -sS -o /dev/null -H "X: $TOKEN" https://api.allowed.test/"#;

#[test]
fn a_life_as_json() {
    let world = World::with_store();
    let rule = ["--to", ALLOWED, "--to", "*.cdn.test:8443", "--env", VARIABLE, "--json"];
    let answer = world.add(TOKEN, &rule).json();
    assert_eq!(
        answer,
        json!({
            "schema_version": 1,
            "ok": true,
            "command": "secret.add",
            "command_id": "secret add",
            "command_path": ["secret", "add"],
            "version": env!("CARGO_PKG_VERSION"),
            "data": {
                "path": TOKEN,
                "locations": ["basic", "body", "header", "password", "path", "query"],
            },
            "warnings": [],
            "errors": [],
        })
    );
    let show = |path: &str| world.keyless(&["secret", "show", path, "--json"]).run().data();
    let mut expected = json!({
        "path": TOKEN,
        "env": VARIABLE,
        "to": [ALLOWED, "*.cdn.test:8443"],
        "locations": ["basic", "body", "header", "password", "path", "query"],
        "max_occurrences": null,
        "on_foreign": "pass",
        "allow": null,
        "ask": null,
        "otherwise": null,
        "inject": null,
        "sign": null,
        "oauth": null,
        "seal": null,
        "placeholder": "default",
        "unsafe_expose": null,
        "source": "local",
        "kept_at": null,
        "version": 1,
        "retention": {},
        "state": "registered",
        "description": null,
        "approve_on_use": "never",
        "upkeep": {},
        "env_form": null,
        "honeypot": null,
        "compromised": null,
    });
    assert_eq!(show(TOKEN), expected);

    let set = [
        "secret",
        "set",
        TOKEN,
        "--to",
        ALLOWED,
        "--locations",
        "header,basic",
        "--on-foreign",
        "block",
        "--max-occurrences",
        "2",
        "--description",
        "for the API",
        "--json",
    ];
    world.keyless(&set).run().data();
    expected["to"] = json!([ALLOWED]);
    expected["locations"] = json!(["basic", "header"]);
    expected["on_foreign"] = json!("block");
    expected["max_occurrences"] = json!(2);
    expected["description"] = json!("for the API");
    assert_eq!(show(TOKEN), expected);

    let rotate = ["secret", "rotate", TOKEN, "--value-stdin", "--json"];
    let rotated = world.keyless(&rotate).stdin(world.another_value()).run().data();
    assert_eq!(rotated, json!({ "path": TOKEN, "version": 2, "kept_at": null }));
    let list = || world.keyless(&["secret", "list", "--json"]).run().data();
    expected["version"] = json!(2);
    // Whose place is asked for is told of one.
    expected.as_object_mut().unwrap().remove("kept_at");
    assert_eq!(list(), json!({ "secrets": [expected] }));

    world.keyless(&["secret", "remove", TOKEN, "--yes", "--json"]).run().data();
    assert_eq!(list(), json!({ "secrets": [] }));
    assert_eq!(world.keyless(&["secret", "show", TOKEN]).run().status.code(), Some(3));
}

#[test]
fn a_life_in_words() {
    let world = World::with_store();
    let list = || world.keyless(&["secret", "list"]).run().ok();
    assert!(list().contains("Next: keyless secret add"), "{}", list());
    assert_eq!(
        world.add(TOKEN, &["--to", ALLOWED, "--env", VARIABLE]).ok(),
        format!("Added {TOKEN}.\n")
    );
    assert_eq!(
        list(),
        "PATH            VARIABLE  GOES TO           SOURCE  VERSION  STATE\n\
         team/api/token  TOKEN     api.allowed.test  local   1        registered\n"
    );
    let shown = world.keyless(&["secret", "show", TOKEN]).run().ok();
    assert!(shown.contains("to:              api.allowed.test\n"), "{shown}");
    let set = ["secret", "set", TOKEN, "--description", "words"];
    assert_eq!(
        world.keyless(&set).run().ok(),
        format!("Changed {TOKEN}.\n  description: none -> words\n")
    );
    let remove = ["secret", "remove", TOKEN, "--yes"];
    assert_eq!(world.keyless(&remove).run().ok(), format!("Removed {TOKEN}.\n"));
}

#[test]
fn a_secret_that_has_ended_already_is_told_of() {
    let world = World::with_store();
    let added = world.add("team/api/old", &["--to", ALLOWED, "--expires", "2020-01-01"]);
    added.ok();
    assert!(added.errors().contains("its date lies behind"), "{}", added.errors());
}

#[test]
fn a_list_says_how_each_secret_stands() {
    let world = World::with_store();
    for name in ["expired", "expiring", "leaked", "sound"] {
        world.add(&format!("team/states/{name}"), &["--to", ALLOWED]).ok();
    }
    let soon = (jiff::Zoned::now().date() + jiff::Span::new().days(3)).to_string();
    for (path, day) in [("team/states/expired", "2020-01-01"), ("team/states/expiring", &soon)] {
        world.keyless(&["secret", "set", path, "--expires", day]).run().ok();
    }
    let revoke = ["secret", "revoke", "team/states/leaked", "--compromised", "--yes"];
    world.keyless(&revoke).run().ok();
    let list = world.keyless(&["secret", "list"]).run().ok();
    let states: Vec<_> = list.lines().map(|line| line.split_whitespace().next_back()).collect();
    assert_eq!(
        states,
        ["STATE", "expired", "expiring", "compromised", "registered"].map(Some),
        "{list}"
    );
    let told = world.keyless(&["secret", "list", "--json"]).run().data();
    assert_eq!(told["secrets"][2]["state"], json!("compromised"), "{told}");
    let shown = world.keyless(&["secret", "show", "team/states/expired"]).run().ok();
    assert!(shown.contains("state:           expired\n"), "{shown}");
}

#[test]
fn a_value_from_a_file_loses_its_line_end_with_a_warning() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let file = world.home.write("operator/value", format!("{}\n", world.canary.value())).unwrap();
    let file = file.to_str().unwrap();
    let add = ["secret", "add", TOKEN, "--to", ALLOWED, "--env", VARIABLE, "--from-file", file];
    let seen = world.keyless(&add).run();
    seen.ok();
    assert!(
        seen.errors().contains("warning: the value ended with a line end"),
        "{}",
        seen.errors()
    );
    world.agent_sh(USE).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
}

/// OpenSSH reads no key whose last line has no end.
#[test]
fn a_value_of_several_lines_is_kept_to_the_byte() {
    let world = World::with_store();
    let key = world.operator_file("key");
    fs::create_dir_all(key.parent().unwrap()).unwrap();
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
        .arg(&key)
        .status();
    let has_ssh = made.is_ok_and(|status| status.success());
    if !has_ssh {
        fs::write(
            &key,
            "-----BEGIN KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nQyNTUx\n-----END KEY-----\n",
        )
        .unwrap();
    }
    let value = fs::read_to_string(&key).unwrap();
    let add = ["secret", "add", "team/ssh/file", "--from-file", key.to_str().unwrap()];
    let errors = world.keyless(&add).run();
    errors.ok();
    assert!(!errors.errors().contains("left out"), "{}", errors.errors());
    let add = ["secret", "add", "team/ssh/stream", "--value-stdin"];
    world.keyless(&add).stdin("another value, replaced at once").run().ok();
    let rotate = ["secret", "rotate", "team/ssh/stream", "--value-stdin"];
    world.keyless(&rotate).stdin(&value[..]).run().ok();
    let in_file = |name: &str, command: &str| {
        json!({
            "type": "inject_tempfile", "command": command, "file_refs": { "KEY": format!("{{{{nl:ssh/{name}}}}}") }
        })
    };
    let mut actions = vec![
        in_file("FILE", "sha256sum < {{nl:KEY}}"),
        in_file("STREAM", "sha256sum < {{nl:KEY}}"),
    ];
    // Whether or not a program prints the last line end, all of it is taken out.
    actions.push(in_file("FILE", "cat {{nl:KEY}}"));
    actions.push(in_file("FILE", r#"printf '<%s>' "$(cat {{nl:KEY}})""#));
    if has_ssh {
        actions.push(in_file("FILE", "ssh-keygen -y -f {{nl:KEY}}"));
        actions.push(in_file("STREAM", "ssh-keygen -y -f {{nl:KEY}}"));
    }
    let responses = submit(&world, &actions);
    let told =
        |at: usize| responses[at]["result"]["stdout"].as_str().unwrap().trim_end().to_owned();
    let sum = Command::new("sha256sum").arg(&key).output().unwrap().stdout;
    let sum = String::from_utf8(sum).unwrap();
    assert_eq!(told(0), sum.replace(key.to_str().unwrap(), "-").trim_end());
    assert_eq!(told(0), told(1));
    assert_eq!((told(2), told(3)), ("[REDACTED:ssh/FILE]".into(), "<[REDACTED:ssh/FILE]>".into()));
    if has_ssh {
        let public = fs::read_to_string(key.with_extension("pub")).unwrap();
        assert_eq!([told(4), told(5)], [public.trim_end(), public.trim_end()], "{}", responses[4]);
    }
}

#[test]
fn a_value_stays_in_a_file_that_the_agent_does_not_see() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let file = world.home.write("operator/value", world.canary.value()).unwrap();
    let source = format!("file:{}", file.display());
    let add = ["secret", "add", TOKEN, "--to", ALLOWED, "--env", VARIABLE, "--source", &source];
    world.keyless(&add).run().ok();
    let script = format!("{USE}; cat {} 2>&1; ls -la {}", file.display(), file.display());
    world.agent_sh(&script).run();
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
    let checked = world.keyless(&["source", "check", "--json"]).run().data();
    assert_eq!((&checked["failed"], &checked["secrets"][0]["state"]), (&json!(0), &json!("ok")));
    // What is in the file counts, without a word to Keyless.
    std::fs::write(&file, world.another_value()).unwrap();
    world.agent_sh(USE).run().ok();
    assert_ne!(origin.requests()[1].header("x"), Some(world.canary.value().into()));
    std::fs::remove_file(&file).unwrap();
    let failed = world.keyless(&["source", "check", "--json"]).run();
    assert_eq!(failed.exits(1).json()["data"]["failed"], json!(1));
}

#[test]
fn a_value_stays_in_a_variable_that_the_agent_does_not_inherit() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let add = ["secret", "add", TOKEN, "--to", ALLOWED, "--env", VARIABLE, "--source", "env:REAL"];
    world.keyless(&add).run().ok();
    let script = format!("{USE}; env; cat /proc/[0-9]*/environ");
    let seen = world.agent_sh(&script).env_with_value("REAL", world.canary.value()).run();
    assert!(!seen.text().contains("REAL="), "{}", seen.text());
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
    let sources = world.keyless(&["source", "list", "--json"]).run().data();
    assert_eq!(sources["sources"][1]["secrets"], json!(1), "{sources}");
}

#[test]
fn a_running_session_takes_up_a_rotated_value() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let script = format!("while read line; do {USE} && echo sent; done");
    let mut session = world.agent_sh(&script).start();
    session.say("go");
    assert_eq!(session.line(), "sent");
    let fresh = world.another_value();
    world.keyless(&["secret", "rotate", TOKEN, "--value-stdin"]).stdin(&fresh[..]).run().ok();
    let session = std::cell::RefCell::new(session);
    wait_until("the new value is used", || {
        session.borrow_mut().say("go");
        assert_eq!(session.borrow_mut().line(), "sent");
        origin.requests().last().unwrap().header("x").as_deref() == Some(&fresh)
    });
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
    assert_eq!(session.borrow_mut().wait().code(), Some(0));
}

/// The placeholder can look like the real thing, for tools that check formats.
#[test]
fn a_placeholder_can_look_alike() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    world.add(TOKEN, &["--to", ALLOWED, "--env", VARIABLE, "--placeholder", "ghp_:40"]).ok();
    let text = world.agent_sh(&format!("{USE}; printf %s $TOKEN")).run().ok();
    assert!(text.starts_with("ghp_") && text.len() == 40, "{text}");
    world.assert_received(&origin);
}

/// Who has not written the words down is not told that all is well.
#[test]
fn the_recovery_phrase_wants_an_acknowledgement_at_a_terminal() {
    let world = World::empty();
    let pass = world.another_value();
    let init = world.keyless(&["init"]).without_passphrase();
    let script = format!(
        "expect(': '); say({pass:?} + '\\n'); expect(': '); say({pass:?} + '\\n')\n\
         expect('written down?'); say('\\n'); finish(code=2)"
    );
    let screen = at_a_terminal(&world, init, &script);
    assert!(screen.contains("keyless vault envelope change recovery"), "{screen}");
    assert!(!screen.contains("Next: ") && !screen.contains("arguments"), "{screen}");
    // So does one whose passphrase is in a file.
    let world = World::empty();
    let script = "expect('written down?'); say('y\\n'); expect('Next: '); finish(code=0)";
    at_a_terminal(&world, world.keyless(&["init"]), script);
    assert!(!world.home.keyless_home().join("recovery-phrase.txt").exists());
}

/// What a script prints is kept in logs, and read by agents.
#[test]
fn the_recovery_phrase_is_never_shown_where_nobody_can_write_it_down() {
    for options in [&["init"][..], &["init", "--json"]] {
        let world = World::empty();
        let seen = world.keyless(options).run();
        let said = seen.ok() + &seen.errors();
        let file = world.home.keyless_home().join("recovery-phrase.txt");
        let phrase = fs::read_to_string(&file).unwrap();
        assert_eq!(phrase.split_whitespace().count(), 24);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let pair = phrase.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        assert!(!said.contains(&pair), "{said}");
        assert!(said.contains(file.to_str().unwrap()), "{said}");
        if options.contains(&"--json") {
            let data = seen.data();
            assert_eq!(data["recovery_file"], json!(file), "{data}");
            assert!(data.get("recovery_phrase").is_none(), "{data}");
        } else {
            assert!(said.contains("delete it here") && said.contains("Next: "), "{said}");
        }
        let doctor = || world.keyless(&["doctor"]).run().text();
        assert!(doctor().contains("home.recovery"), "{}", doctor());
        let out = world.agent_sh(&format!("cat {}", file.display())).run();
        assert!(!out.text().contains(&pair), "{}", out.text());
        // It opens the store.
        fs::write(world.operator_file("recovery"), &phrase).unwrap();
        fs::remove_file(&file).unwrap();
        assert!(!doctor().contains("home.recovery"));
    }
    // One that lies there from before opens another store: it is not written over, and no store is made.
    let world = World::empty();
    let file = world.home.write("keyless/recovery-phrase.txt", "of another store\n").unwrap();
    let refused = world.keyless(&["init", "--json"]).run().exits(3).json();
    assert_eq!(refused["errors"][0]["code"], "path_unusable", "{refused}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "of another store\n");
    assert!(!world.home.keyless_home().join("store.db").exists());
}

#[test]
fn passphrases_that_differ_make_no_store() {
    let world = World::empty();
    let (pass, slip) = (world.another_value(), world.another_value());
    let store = world.home.keyless_home().join("store.db");
    let init = world.keyless(&["init"]).without_passphrase();
    let script = format!(
        "expect(': '); say({pass:?} + '\\n'); expect(': '); say({slip:?} + '\\n')\n\
         expect('passphrases differ'); expect('New passphrase')\n\
         assert not os.path.exists({store:?})\n\
         say({pass:?} + '\\n'); expect(': '); say({pass:?} + '\\n')\n\
         expect('written down?'); say('y\\n'); finish(code=0)"
    );
    at_a_terminal(&world, init, &script);
}

#[test]
fn typed_values_are_not_echoed() {
    let mut world = World::empty();
    let origin = world.origin(ALLOWED);
    let (pass, value) = (world.another_value(), world.canary.value().to_owned());
    let keyless = |arguments: &[&str]| world.keyless(arguments).without_passphrase();
    let script = format!(
        "expect(': '); say({pass:?} + '\\n'); expect(': '); say({pass:?} + '\\n')\n\
         expect('written down?'); say('y\\n'); expect('Next: '); finish(code=0)"
    );
    let screen = at_a_terminal(&world, keyless(&["init"]), &script);
    assert!(screen.contains("Recovery phrase, shown this once"), "{screen}");
    let script = format!(
        "expect(': '); say({pass:?} + '\\n'); expect(': '); say({value:?} + '\\n'); finish(code=0)"
    );
    let add = ["secret", "add", TOKEN, "--to", ALLOWED, "--env", VARIABLE];
    at_a_terminal(&world, keyless(&add), &script);
    world.home.write("operator/passphrase", &pass).unwrap();
    world.agent_sh(USE).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(value));
}

#[test]
fn an_awkward_value_passes_as_it_is() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let value = world.watch(Canary::awkward());
    let add = ["secret", "add", TOKEN, "--to", ALLOWED, "--env", VARIABLE, "--value-stdin"];
    world.keyless(&add).stdin(&value[..]).run().ok();
    let script = r#"curl -sS --json "{\"a\":\"$TOKEN\"}" -H "X: $TOKEN" "https://api.allowed.test/?a=$TOKEN""#;
    let seen = world.agent_sh(script).run();
    seen.ok();
    let request = &origin.requests()[0];
    assert_eq!(request.header("x"), Some(value.clone()));
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body["a"], json!(value));
}

/// What `xclip` does, with files for the clipboard and for what was ever in it.
const XCLIP: &str = r#"#!/bin/sh
case "$*" in
  *-out) cat "$0.held" ;;
  *-in) cat > "$0.held"; cp "$0.held" "$0.seen" ;;
  *) : > "$0.held" ;;
esac
"#;

/// A value is shown to a person at a terminal, in no other way, and leaves the clipboard by itself.
#[test]
fn a_value_is_revealed_to_a_person_alone() {
    let world = World::with_store();
    let (path, value) = ("team/other/key", "Qm7-xT4w9ZrK2bVp");
    let add = ["secret", "add", path, "--value-stdin"];
    let added = world.keyless(&[&add[..], &["--quiet"]].concat()).stdin(value).run();
    assert!(added.ok().contains("Added") && added.errors().is_empty(), "{}", added.errors());
    let reveal = ["secret", "reveal", path];
    for more in [&[][..], &["--yes"], &["--yes", "--json"], &["--yes", "--clipboard"]] {
        let piped = world.keyless(&[&reveal[..], more].concat()).run();
        assert!(!piped.exits(2).text().contains(value), "{more:?}");
    }
    let inside = world.keyless(&reveal).env("KEYLESS_AGENT_SOCKET", "/run/agent.sock");
    at_a_terminal(&world, inside, "expect('session'); finish(code=5)");
    let script = "expect('[y/N]'); say('n\\n'); expect('Nothing was shown'); finish(code=0)";
    let refused = at_a_terminal(&world, world.keyless(&reveal), script);
    assert!(!refused.contains(value));
    let script = format!(
        "expect('[y/N]'); say('y\\n'); expect('{value}'); expect('Enter hides it'); say('\\r')
expect('?1049l'); finish(code=0)"
    );
    at_a_terminal(&world, world.keyless(&reveal), &script);

    world.home.write("operator/bin/xclip", XCLIP).unwrap();
    let xclip = world.operator_file("bin/xclip");
    std::fs::set_permissions(&xclip, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let tools = format!("{}:/usr/bin:/bin", xclip.parent().unwrap().display());
    let clip = [&reveal[..], &["--clipboard", "--yes", "--for", "1s"]].concat();
    let desktop = world.keyless(&clip).env("PATH", tools).env("DISPLAY", ":7");
    let screen = at_a_terminal(&world, desktop, "expect('empty again'); finish(code=0)");
    assert!(!screen.contains(value));
    assert_eq!(std::fs::read_to_string(world.operator_file("bin/xclip.seen")).unwrap(), value);
    assert_eq!(std::fs::read_to_string(world.operator_file("bin/xclip.held")).unwrap(), "");
    // Elsewhere the terminal's own is asked, and emptied.
    let bare = world.keyless(&clip).env("DISPLAY", "");
    let screen = at_a_terminal(&world, bare, "expect(']52;c;!'); finish(code=0)");
    assert!(screen.contains("]52;c;UW03LXhUNHc5WnJLMmJWcA=="));
    let looks = world.log().into_iter().filter(|entry| entry["action"] == "reveal");
    assert_eq!(looks.count(), 3);
}

/// Each variable keeps its own secret's placeholder, whoever of the others is out of use.
#[test]
fn a_compromised_secret_shifts_no_other() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    for name in ["first", "second", "third"] {
        let (path, variable) = (format!("team/api/{name}"), name.to_uppercase());
        let value = world.another_value();
        let add = ["secret", "add", &path, "--to", ALLOWED, "--env", &variable, "--value-stdin"];
        world
            .keyless(&add)
            .stdin(if name == "second" { world.canary.value().into() } else { value })
            .run()
            .ok();
    }
    let revoke = ["secret", "revoke", "team/api/first", "--compromised", "--yes"];
    world.keyless(&revoke).run().ok();
    let script = r#"curl -sS -o /dev/null -H "X: $SECOND" https://api.allowed.test/; curl -sS -H "X: $FIRST" https://api.allowed.test/"#;
    let refused = world.agent_sh(script).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
    assert!(refused.contains("unknown_placeholder"), "{refused}");
    assert_eq!(origin.requests().len(), 1);
    let run = ["run", "--secret", "team/api/first", "--", "true"];
    let errors = world.keyless(&run).run().exits(4).errors();
    assert!(errors.contains("compromised") && errors.contains("secret rotate"), "{errors}");
    let alias = world.keyless(&["run", "--", "true"]).env("KEY", "@secret:team/api/first");
    let errors = alias.run().exits(4).errors();
    assert!(errors.contains("compromised") && errors.contains("team/api/first"), "{errors}");
    // With a new value it is there again.
    let rotate = ["secret", "rotate", "team/api/first", "--value-stdin"];
    world.keyless(&rotate).stdin(world.another_value()).run().ok();
    world.keyless(&run).run().ok();
}

/// Editors of Windows put it before text.
#[test]
fn a_byte_order_mark_is_no_part_of_a_value() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let marked = format!("\u{feff}{}\r\n", world.canary.value());
    let add = |path: &str, variable: &str, more: &[&str]| {
        let words = ["secret", "add", path, "--to", ALLOWED, "--env", variable];
        let added = world.keyless(&[&words[..], more].concat()).stdin(&marked[..]).run();
        added.ok();
        added.errors()
    };
    let errors = add("team/api/stream", "STREAM", &["--value-stdin"]);
    assert!(errors.contains("byte order mark, which was left out"), "{errors}");
    let file = world.operator_file("marked");
    fs::write(&file, &marked).unwrap();
    add("team/api/file", "FILE", &["--source", &format!("file:{}", file.display())]);
    let script = r#"for t in "$STREAM" "$FILE"; do curl -sS -o /dev/null -H "X: $t" https://api.allowed.test/; done"#;
    world.agent_sh(script).run().ok();
    for asked in origin.requests() {
        assert_eq!(asked.header("x"), Some(world.canary.value().into()));
    }
}

#[test]
fn what_was_said_of_a_secret_can_be_taken_back_and_each_change_is_told() {
    let world = World::with_token();
    let set =
        |options: &[&str]| world.keyless(&[&["secret", "set", TOKEN], options].concat()).run();
    let said = set(&["--env", "none", "--expires", "2099-01-01", "--to", "other.test"]).ok();
    assert!(said.contains("\n  env: TOKEN -> none\n"), "{said}");
    assert!(said.contains("\n  to: api.allowed.test -> other.test\n"), "{said}");
    assert!(said.contains("upkeep: none -> expires_at 2099-01-01"), "{said}");
    let said = set(&["--expires", "none", "--to", "none"]).ok();
    assert!(said.contains("\n  to: other.test -> none\n"), "{said}");
    let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
    assert_eq!(
        (&shown["to"], &shown["env"], &shown["upkeep"]),
        (&json!(null), &json!(null), &json!({}))
    );
    for nothing in [&[][..], &["--env", "none"]] {
        assert!(set(nothing).ok().starts_with("Nothing to change"), "{nothing:?}");
    }
    // Renewal and retention as well, which destroys versions.
    let renewal = [
        ("--rotate-every", "90"),
        ("--retrieval-url", "https://a.test/keys"),
        ("--pattern", "npm-token"),
        ("--cache-at-most", "60"),
        ("--keep-versions", "2"),
        ("--keep-days", "30"),
        ("--description", "Words"),
    ];
    set(&renewal.iter().flat_map(|(option, word)| [*option, *word]).collect::<Vec<_>>()).ok();
    for (option, _) in renewal {
        let nothing = if option == "--description" { "" } else { "none" };
        assert!(set(&[option, nothing]).ok().starts_with("Changed"), "{option}");
        assert!(set(&[option, nothing]).ok().starts_with("Nothing to change"), "{option}");
    }
    let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
    // Who renews it is what the pattern said, as are its host and variable: these stay.
    let kept = json!({ "rotation_method": "provider-ui" });
    assert_eq!((&shown["upkeep"], &shown["retention"]), (&kept, &json!({})), "{shown}");
    for page in ["javascript:alert(1)", "http://a.test", "none of them"] {
        let errors = set(&["--retrieval-url", page]).exits(2).errors();
        assert!(errors.contains("an https:// address"), "{errors}");
    }
    set(&["--to", "none", "--locations", "header"]).exits(2);
    let errors = set(&["--expires", "soon"]).exits(2).errors();
    assert!(errors.contains("a day is 2027-01-31, or none"), "{errors}");
}

/// Exposure, retention and the placeholder's form are metadata as any other, and the first of them is a risk.
#[test]
fn what_is_exposed_kept_and_stands_in_is_shown_and_its_change_is_told() {
    let world = World::with_token();
    let options = ["--unsafe-expose", "on", "--keep-versions", "7", "--placeholder", "colon"];
    let set = [&["secret", "set", TOKEN][..], &options, &["--json"]].concat();
    let changed = world.keyless(&set).run().data()["changed"].clone();
    for name in ["placeholder", "retention", "unsafe_expose"] {
        assert!(changed.as_array().unwrap().contains(&json!(name)), "{changed}");
    }
    assert_eq!(world.keyless(&set).run().data()["changed"], json!([]));
    let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
    assert_eq!(shown["unsafe_expose"], json!(true), "{shown}");
    assert_eq!(shown["retention"], json!({ "keep_versions": 7 }), "{shown}");
    assert_eq!(shown["placeholder"], "colon", "{shown}");
    let words = world.keyless(&["secret", "show", TOKEN]).run().ok();
    assert!(words.contains("unsafe_expose:") && words.contains("keep_versions 7"), "{words}");
    assert!(world.keyless(&["secret", "list"]).run().ok().contains("registered, exposed"));
    let doctor = world.keyless(&["doctor"]).run().text();
    assert!(doctor.contains("store.exposed") && doctor.contains("--unsafe-expose off"), "{doctor}");
    let back = ["secret", "set", TOKEN, "--unsafe-expose", "off", "--placeholder", "ghp_:40"];
    let told = world.keyless(&back).run().ok();
    assert!(told.contains("placeholder: colon -> ghp_:40"), "{told}");
    assert!(told.contains("unsafe_expose: true -> none"), "{told}");
    assert!(!world.keyless(&["doctor"]).run().text().contains("store.exposed"));
}

/// What can be known before is said before anybody types a passphrase or a value.
#[test]
fn a_path_that_is_there_or_not_is_told_before_anything_is_asked() {
    let world = World::with_token();
    let told = |words: &[&str], status: i32, says: &str| {
        let seen = world.keyless(words).without_passphrase().run();
        assert!(seen.exits(status).errors().contains(says), "{words:?}: {}", seen.errors());
    };
    let there = "A secret with this path exists; nothing was changed. (team/api/token)";
    told(&["secret", "add", TOKEN, "--to", ALLOWED, "--env", VARIABLE], 2, there);
    for verb in [&["rotate"][..], &["set"], &["remove"], &["revoke", "--compromised"]] {
        let words = [&["secret"], verb, &["team/no/such"]].concat();
        told(&words, 3, "There is no such secret. (team/no/such)");
    }
}

#[test]
fn what_is_hardly_meant_of_a_secret_is_remarked_upon() {
    let world = World::with_store();
    let remarked = |path: &str, options: &[&str], remark: &str| {
        let added = world.add(path, options);
        added.ok();
        assert!(added.errors().contains(remark), "{options:?}: {}", added.errors());
    };
    remarked(
        "team/a/key",
        &["--to", "localhost:3000", "--env", "A"],
        "localhost:3000 is the jail's own",
    );
    remarked("team/b/key", &["--to", "b.test"], "keyless secret set team/b/key --env NAME");
    let nowhere = ["--to", "c.test", "--env", "C", "--source", "source:nope:x"];
    let added = world.keyless(&[&["secret", "add", "team/c/key"], &nowhere[..]].concat()).run();
    added.ok();
    assert!(added.errors().contains("sources.toml has no source nope"), "{}", added.errors());
    // Bait is marked, and never fetched by a check.
    let bait = ["secret", "add", "team/bait/key", "--to", "d.test", "--env", "D", "--honeypot"];
    world.keyless(&bait).run().ok();
    let listed = world.keyless(&["secret", "list"]).run().ok();
    assert!(listed.contains("registered, honeypot"), "{listed}");
    let checked = world.keyless(&["source", "check", "team/bait/key"]).run().ok();
    assert!(checked.contains("bait: never fetched"), "{checked}");
}

/// A file in the catalog's folder may stand in the place of a bundled provider: where the value goes is said before it is typed.
#[test]
fn hosts_that_the_catalog_names_are_said_before_the_value_is_asked_for() {
    let world = World::with_store();
    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    let add = ["secret", "add", "team/github/token", "--pattern", "github-pat"];
    let value = world.github_token();
    let script = format!(
        "expect('Passphrase'); say({passphrase:?}); expect('It may go to api.github.com');
expect('not shown'); say({value:?} + '\\n'); finish(code=0)"
    );
    at_a_terminal(&world, world.keyless(&add).without_passphrase(), &script);
}
