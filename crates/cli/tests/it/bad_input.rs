//! What can't be used ends with the documented exit status and says what, why and what next: in
//! words, and as JSON. Nothing is lost and nothing panics. Source: issue 2, "Bad input".

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    invocation::{KEYLESS, Seen},
    world::{ALLOWED, PATIENCE, TOKEN, VARIABLE, World, wait_until},
};

/// A command that must fail, and how.
struct Bad<'a> {
    arguments: &'a [&'a str],
    stdin: &'a [u8],
    exit: i32,
    code: &'a str,
    /// Words that must be in the message: what, and why.
    says: &'a [&'a str],
}

/// Runs it in words and as JSON, and compares.
#[track_caller]
fn assert_refused(world: &World, bad: &Bad<'_>) {
    let words = world.keyless(bad.arguments).stdin(bad.stdin).run();
    assert_words(&words, bad);
    let json = [&["--json"], bad.arguments].concat();
    let json = world.keyless(&json).stdin(bad.stdin).run();
    assert_json(&json, bad);
}

#[track_caller]
fn assert_words(seen: &Seen, bad: &Bad<'_>) {
    let errors = seen.exits(bad.exit).errors();
    assert!(errors.contains("error: "), "{errors}");
    assert!(errors.lines().any(|line| line.starts_with("next:  ")), "{errors}");
    assert!(bad.says.iter().all(|word| errors.contains(word)), "{:?} in {errors}", bad.says);
    assert!(!errors.contains("panicked") && seen.stdout.is_empty(), "{errors}{}", seen.text());
}

#[track_caller]
fn assert_json(seen: &Seen, bad: &Bad<'_>) {
    let answer = seen.exits(bad.exit).json();
    assert_eq!((&answer["ok"], &answer["schema_version"]), (&json!(false), &json!(1)), "{answer}");
    let [error] = &answer["errors"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!(error["code"], json!(bad.code), "{answer}");
    let message = error["message"].as_str().unwrap();
    assert!(bad.says.iter().all(|word| message.contains(word)), "{:?} in {message}", bad.says);
    let remediation = &error["details"]["remediation"];
    for field in ["actor", "action", "user_message"] {
        assert!(remediation[field].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    }
    assert!(remediation["retryable"].is_boolean(), "{answer}");
}

fn bad<'a>(arguments: &'a [&'a str], exit: i32, code: &'a str, says: &'a [&'a str]) -> Bad<'a> {
    Bad { arguments, stdin: b"", exit, code, says }
}

#[test]
fn arguments_that_do_not_fit() {
    let world = World::with_store();
    for (arguments, says) in [
        (&["run"][..], "COMMAND"),
        (&["run", "--secret", "one", "--", "true"], "one"),
        (&["secret", "add", "Team/API/Token", "--value-stdin"], "Team/API/Token"),
        (&["secret", "add", TOKEN, "--to", "*.github.io", "--value-stdin"], "*.github.io"),
        (&["secret", "add", TOKEN, "--to", "*", "--value-stdin"], "whole first label"),
        (&["secret", "add", TOKEN, "--value", "x"], "--value"),
        (&["unlock", "--for", "9d"], "9d"),
        (&["run", "--connect-to", "nonsense", "--", "true"], "nonsense"),
        (&["run", "--connect-to", "a.test:443=b.test:443", "--", "true"], "b.test:443"),
        (&["nonsense"], "nonsense"),
    ] {
        let seen = world.keyless(arguments).run();
        let errors = seen.exits(2).errors();
        assert!(errors.contains("error: ") && errors.contains(says), "{arguments:?}: {errors}");
        let seen = world.keyless(&[&["--json"], arguments].concat()).run();
        let answer = seen.exits(2).json();
        assert_eq!(answer["errors"][0]["code"], json!("usage"), "{answer}");
        assert!(answer["errors"][0]["message"].as_str().unwrap().contains(says), "{answer}");
    }
}

#[test]
fn secrets_that_are_not_there_or_twice() {
    let world = World::with_token();
    let missing = "team/api/missing";
    for arguments in [
        &["run", "--secret", missing, "--", "true"][..],
        &["secret", "show", missing],
        &["secret", "rotate", missing, "--value-stdin"],
        &["secret", "set", missing, "--env", "X"],
        &["secret", "remove", missing, "--yes"],
        &["source", "check", missing],
    ] {
        let says = [missing];
        let case = Bad { stdin: b"new-value", ..bad(arguments, 3, "secret_not_found", &says) };
        assert_refused(&world, &case);
    }
    let arguments = ["secret", "add", TOKEN, "--to", "other.test", "--value-stdin"];
    let case = Bad { stdin: b"other-value", ..bad(&arguments, 2, "secret_exists", &[TOKEN]) };
    assert_refused(&world, &case);
    let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
    assert_eq!((&shown["to"], &shown["version"]), (&json!([ALLOWED]), &json!(1)));
}

#[test]
fn a_secret_without_destination_enters_no_session() {
    let world = World::with_store();
    world.add("team/db/password", &[]).ok();
    let arguments = ["run", "--secret", "team/db/password", "--", "true"];
    assert_refused(
        &world,
        &bad(&arguments, 2, "session_unfit", &["team/db/password", "--to HOST"]),
    );
}

#[test]
fn values_that_can_not_be_swapped() {
    let world = World::with_store();
    let bound = ["secret", "add", TOKEN, "--to", ALLOWED, "--env", VARIABLE, "--value-stdin"];
    for value in [&b"two\nlines of text"[..], b"a\rreturn here", b"a\0zero byte", b"short", b""] {
        let case = Bad { stdin: value, ..bad(&bound, 2, "value_refused", &[]) };
        assert_refused(&world, &case);
    }
    let large = vec![b'x'; 65_537];
    assert_refused(&world, &Bad { stdin: &large, ..bad(&bound, 2, "value_refused", &["65536"]) });
    // None of them left anything behind; a secret that goes nowhere may have lines.
    let list = world.keyless(&["secret", "list", "--json"]).run().data();
    assert_eq!(list, json!({ "secrets": [] }));
    let free = ["secret", "add", "team/ssh/key", "--value-stdin"];
    world.keyless(&free).stdin("two\nlines of text").run().ok();
}

/// What is shown once is not made where the file that is to have it finds no place.
#[test]
fn a_phrase_or_a_credential_that_nobody_would_have_is_not_made() {
    let world = World::empty();
    let taken = world.home.write("operator/taken", "mine").unwrap();
    let places =
        [(taken.to_str().unwrap(), "it is there already"), ("/gone/phrase", "it is not there")];
    for (place, why) in places {
        let init = ["init", "--recovery-file", place];
        let next = "next:  name another place, or take away what is there";
        let said = world.keyless(&init).run().errors();
        assert_eq!(said.contains(next), why == "it is there already", "{said}");
        assert_refused(&world, &bad(&init, 3, "path_unusable", &[place, why]));
    }
    assert_refused(&world, &bad(&["secret", "list"], 3, "not_initialised", &[]));
    let world = World::with_store();
    for (place, why) in places {
        let agent = ["agent", "register", "nl://acme.corp/bot/1.0.0", "--credential-file", place];
        assert_refused(&world, &bad(&agent, 3, "path_unusable", &[place, why]));
    }
    assert_eq!(world.keyless(&["agent", "list", "--json"]).run().data()["agents"], json!([]));
    assert_eq!(fs::read_to_string(taken).unwrap(), "mine");
}

#[test]
fn no_store_and_no_key() {
    let world = World::empty();
    for arguments in [
        &["run", "--", "true"][..],
        &["secret", "list"],
        &["secret", "add", TOKEN, "--value-stdin"],
        &["audit", "verify"],
        &["unlock"],
    ] {
        assert_refused(&world, &bad(arguments, 3, "not_initialised", &[]));
    }
    let world = World::with_token();
    assert_refused(&world, &bad(&["init"], 2, "already_initialised", &["store.db"]));
    for (arguments, exit, code) in [
        (&["run", "--", "true"][..], 5, "locked"),
        (&["secret", "rotate", TOKEN, "--value-stdin"], 2, "terminal_required"),
        (&["unlock"], 2, "terminal_required"),
    ] {
        let case = bad(arguments, exit, code, &[]);
        let alone = |arguments: &[&str]| {
            // Without a controlling terminal there is nobody to ask.
            let command = [&["setsid", "-w", KEYLESS], arguments].concat();
            world.keyless(&[]).without_passphrase().instead(&command).run()
        };
        assert_words(&alone(arguments), &case);
        assert_json(&alone(&[&["--json"], arguments].concat()), &case);
    }
}

#[test]
fn passphrases_that_do_not_open() {
    let world = World::with_token();
    let file = world.operator_file("passphrase");
    let right = fs::read(&file).unwrap();
    fs::write(&file, "wrong but long enough\n").unwrap();
    for arguments in [
        &["run", "--", "true"][..],
        &["unlock"],
        &["secret", "remove", TOKEN, "--yes"],
        &["audit", "verify"],
    ] {
        assert_refused(&world, &bad(arguments, 5, "wrong_passphrase", &[]));
    }
    fs::write(&file, &right).unwrap();
    let private = fs::Permissions::from_mode(0o644);
    fs::set_permissions(&file, private).unwrap();
    let case = bad(&["run", "--", "true"], 2, "key_file_unsafe", &["passphrase", "0600"]);
    assert_refused(&world, &case);
    fs::remove_file(&file).unwrap();
    assert_refused(&world, &bad(&["run", "--", "true"], 3, "path_unusable", &["passphrase"]));
    world.home.write("operator/passphrase", right).unwrap();
    world.agent(&["true"]).run().ok();
}

#[test]
fn catalogs_that_can_not_be_used() {
    let world = World::empty();
    world.home.write("operator/mounted/api/token", world.canary.value()).unwrap();
    let place = |name: &str| world.operator_file(name).display().to_string();
    let (catalog, mounted) = (place("catalog.yaml"), place("mounted"));
    let entry = |more: &str, to: &str| {
        format!(
            "apiVersion: keyless.dev/v1alpha1\nkind: SecretProxy\nspec:\n  secrets:\n    - env: A\n      \
             secretRef: {{ name: api, key: token }}\n      egressTo: {to}\n{more}"
        )
    };
    let proxy = ["proxy", "--catalog", &catalog, "--secrets-dir", &mounted];
    for (text, says) in [
        (entry("      egresTo: [x.test]\n", "[api.test]"), "egresTo"),
        (entry("", "{ a: 1 }"), ":7:17: expected sequence"),
        (entry("", "['*.github.io']"), "*.github.io"),
        (entry("", "['*']"), "*"),
        (entry("      locations: [cookie]\n", "[api.test]"), "cookie"),
        ("kind: [".to_owned(), ""),
        (String::new(), ""),
    ] {
        world.home.write("operator/catalog.yaml", text).unwrap();
        assert_refused(&world, &bad(&proxy, 2, "catalog_invalid", &[says, "catalog.yaml"]));
    }
    fs::remove_file(&catalog).unwrap();
    let seen = world.keyless(&proxy).run();
    assert!(matches!(seen.status.code(), Some(2 | 3)), "{}", seen.errors());
    assert!(seen.errors().contains("catalog.yaml"), "{}", seen.errors());
    // A value that is not mounted is told at the start.
    world.home.write("operator/catalog.yaml", entry("", "[api.test]")).unwrap();
    fs::remove_file(world.operator_file("mounted/api/token")).unwrap();
    assert_refused(&world, &bad(&proxy, 3, "path_unusable", &["api/token"]));
}

#[test]
fn a_config_that_can_not_be_used() {
    let world = World::with_token();
    for (text, says) in [
        ("[egress]\nconect_to = {}\n", "conect_to"),
        ("[egress]\nextra_roots = 3\n", "extra_roots"),
        ("[egress]\npolicy = \"maybe\"\n", "maybe"),
        ("[egress\n", "config.toml"),
    ] {
        world.home.write("keyless/config.toml", text).unwrap();
        let run = ["run", "--", "true"];
        assert_refused(&world, &bad(&run, 2, "config_invalid", &[says, "config.toml"]));
    }
    let missing = ["run", "--extra-root", "/no/such/root.pem", "--", "true"];
    fs::remove_file(world.home.keyless_home().join("config.toml")).unwrap();
    assert_refused(&world, &bad(&missing, 3, "path_unusable", &["/no/such/root.pem"]));
    let words = world.home.write("work/words.pem", "no certificate").unwrap();
    let words = words.to_str().unwrap();
    let no_root = ["run", "--extra-root", words, "--", "true"];
    assert_refused(&world, &bad(&no_root, 2, "config_invalid", &[words, "no certificate in PEM"]));
}

/// The broker goes on by what it took up last, and so does what the operator asks it.
#[test]
fn a_config_with_a_typo_keeps_nobody_from_the_broker() {
    let world = World::with_token();
    world.keyless(&["unlock"]).run().ok();
    let write = |text: &str| drop(world.home.write("keyless/config.toml", text).unwrap());
    write("[egress]\npolcy = \"x\"\n");
    for words in [
        &["status"][..],
        &["session", "list"],
        &["approve", "--list"],
        &["audit", "tail"],
        &["audit", "verify"],
        &["vault", "envelope", "list"],
    ] {
        let seen = world.keyless(words).run();
        let warned = seen.errors();
        seen.ok();
        assert!(warned.contains("not in force: ") && warned.contains("line 2, polcy"), "{warned}");
        // One full stop, the message's own.
        assert!(warned.contains(") Next: "), "{words:?}: {warned}");
    }
    // What decides by the file, and what may be about another store, does not go on.
    for words in [&["secret", "list"][..], &["web"]] {
        assert_refused(&world, &bad(words, 2, "config_invalid", &["polcy"]));
    }
    for text in ["[stor]\nurl = \"x\"\n", "[store]\nurl = 3\n", "[egress\n"] {
        write(text);
        for words in [["session", "list"], ["audit", "tail"]] {
            assert_refused(&world, &bad(&words, 2, "config_invalid", &["config.toml"]));
        }
        let status = world.keyless(&["status", "--json"]).run().data();
        assert!(status["unlocked"] == json!(true) && status["store"].is_null(), "{status}");
    }
    world.keyless(&["lock"]).run().ok();
    write("[egress]\npolcy = \"x\"\n");
    assert_refused(&world, &bad(&["session", "list"], 2, "config_invalid", &["polcy"]));
}

#[test]
fn stores_that_are_damaged() {
    let world = World::with_token();
    let sound = world.store_bytes();
    let half = &sound[..sound.len() / 2];
    for damaged in [&b"not a database at all, but long enough to be one"[..], half] {
        world.replace_store(damaged);
        assert_refused(&world, &bad(&["run", "--", "true"], 6, "store_unusable", &[]));
    }
    world.replace_store(half);
    assert_status_tells(&world);
    // SQLite takes these for new databases: nobody is led to make a store in the place of one that is to be restored.
    for cut in [&b""[..], b"S"] {
        world.replace_store(cut);
        for words in [&["secret", "list"][..], &["init", "--recovery-file", "none"]] {
            assert_refused(&world, &bad(words, 6, "store_unusable", &["restore a backup"]));
        }
        assert_eq!(std::fs::read(world.home.keyless_home().join("store.db")).unwrap(), cut);
    }
    assert_status_tells(&world);
    world.replace_store(&sound);
    world.agent_with(&["--secret", TOKEN], &["true"]).run().ok();
    // Of a newer Keyless.
    world.sqlite("PRAGMA user_version = 99");
    let says = ["a newer Keyless", "schema 99"];
    assert_refused(&world, &bad(&["secret", "list"], 7, "keyless_outdated", &says));
    let told = world.keyless(&["secret", "list", "--json"]).run().exits(7).json();
    assert_eq!(told["errors"][0]["details"]["remediation"]["retryable"], false, "{told}");
    assert_status_tells(&world);
    for words in [&["secret", "list"][..], &["doctor"], &["status"]] {
        let told = world.keyless(words).run();
        let told = told.text() + &told.errors();
        assert!(told.contains("update Keyless") && !told.contains("backup"), "{words:?}: {told}");
    }
}

/// Whose file was emptied is told so at once: nobody waits for a store to be made that was made long ago.
#[test]
fn an_emptied_store_is_told_at_once() {
    let world = World::with_token();
    let sound = world.store_bytes();
    // For as long as another process might be making it.
    thread::sleep(Duration::from_secs(2));
    let told = |bytes: &[u8]| {
        world.replace_store(bytes);
        let begun = Instant::now();
        let words = world.keyless(&["status"]).run().ok();
        (begun.elapsed(), words)
    };
    let (damaged, _) = told(&sound[..sound.len() / 2]);
    let (emptied, words) = told(b"");
    assert!(words.contains("empty") && words.contains("restore a backup"), "{words}");
    assert!(emptied < damaged + Duration::from_millis(1500), "{emptied:?}, {damaged:?}");
}

/// `keyless status` of a store that can't be read says so, and how it is in JSON.
fn assert_status_tells(world: &World) {
    let words = world.keyless(&["status"]).run().ok();
    assert!(words.contains("store.db: ") && words.contains("next: "), "{words}");
    let data = world.keyless(&["status", "--json"]).run().data();
    assert!(data["initialised"].is_null() && data["store_problem"].is_string(), "{data}");
}

/// Runs a command and says on stderr how much memory it had, in KiB.
const MEASURED: &str = "import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(status)";

/// Somebody has put far more into a column than Keyless ever writes there: that is told, without having it in memory.
#[test]
fn columns_that_are_far_too_large() {
    const SIZE: u32 = 64 << 20;
    /// Without the column's value, in KiB.
    const MEMORY: u32 = 120 << 10;
    const TAMPERED: &str = "The store was changed behind Keyless's back";
    const RUN: &[&str] = &["run", "--", "true"];
    const LIST: &[&str] = &["secret", "list"];
    const VERIFY: &[&str] = &["audit", "verify"];
    let world = World::with_token();
    let sound = world.store_bytes();
    let text = format!("hex(zeroblob({}))", SIZE / 2);
    let request = format!(
        "INSERT INTO requests (id, path, session, asked, created_at, expires_at, seal, full_id) VALUES \
         ('prov-0123456789ab', 'a/b/c', 's', {text}, '2026-01-01T00:00:00Z', '2099-01-01T00:00:00Z', x'00', \
         'prov-0123456789ab')"
    );
    // What somebody has put beside ours, and no key of ours vouches for, is left out.
    let left_out = "";
    for (change, commands, says) in [
        (
            format!("UPDATE versions SET ciphertext = zeroblob({SIZE})"),
            &[RUN, LIST, VERIFY][..],
            TAMPERED,
        ),
        (format!("UPDATE envelopes SET wrapped = zeroblob({SIZE})"), &[RUN], TAMPERED),
        (format!("UPDATE secrets SET metadata = {text}"), &[RUN, LIST], TAMPERED),
        (
            format!("UPDATE audit SET entry = {text} WHERE sequence = 1"),
            &[VERIFY, &["audit", "tail"]],
            "can't be read",
        ),
        (request, &[&["approve", "--list"]], left_out),
        (
            format!("INSERT INTO grants VALUES ('g', {text}, 0, x'00')"),
            &[&["grant", "list"]],
            left_out,
        ),
    ] {
        world.replace_store(&sound);
        world.sqlite(&change);
        for words in commands {
            let measured = [&["python3", "-c", MEASURED, KEYLESS][..], words].concat();
            let seen = world.keyless(&[]).instead(&measured).run();
            let errors = seen.errors();
            let (errors, memory) = errors.trim_end().rsplit_once('\n').unwrap_or(("", &errors));
            let memory: u32 = memory.trim().parse().unwrap();
            assert!(memory < MEMORY, "{change}: {words:?} took {memory} KiB");
            if says.is_empty() {
                seen.ok();
            } else {
                seen.exits(6);
                assert!(errors.contains(says) && errors.contains("next:  "), "{change}: {errors}");
            }
        }
    }
}

/// What is large and not too large is only in the way of who reads it.
#[test]
fn an_entry_of_the_log_that_is_long_is_shown() {
    let world = World::with_token();
    world.sqlite("UPDATE audit SET entry = json_set(entry, '$.target', hex(zeroblob(4194304))) WHERE sequence = 1");
    let shown = world.keyless(&["audit", "tail"]).run().ok();
    assert!(shown.contains(&"0".repeat(8 << 20)), "{} bytes", shown.len());
    world.keyless(&["audit", "verify"]).run().exits(6);
}

/// Whoever can write the file can't send a secret elsewhere.
#[test]
fn a_destination_that_was_changed_in_the_file_is_not_believed() {
    let world = World::with_token();
    world
        .sqlite("UPDATE secrets SET metadata = replace(metadata, 'api.allowed.test', 'evil.test')");
    let shown = world.keyless(&["secret", "show", TOKEN]).run().ok();
    assert!(shown.contains("evil.test"), "{shown}");
    for arguments in [&["run", "--", "true"][..], &["source", "check"], &["unlock"]] {
        assert_refused(&world, &bad(arguments, 6, "store_tampered", &[]));
    }
}

/// On a file system of 600 KiB: what was there stays, and works again when there is room.
#[test]
fn a_full_disk_loses_nothing() {
    let world = World::with_token();
    let small = SmallDisk::over(&world);
    fs::write(small.0.join("ballast"), vec![0; 8 << 20]).unwrap_err();
    let rotate = ["secret", "rotate", TOKEN, "--value-stdin"];
    let fresh = world.another_value();
    let seen = world.keyless(&[&["--json"], &rotate[..]].concat()).stdin(&fresh[..]).run();
    let answer = seen.exits(6).json();
    let code = answer["errors"][0]["code"].as_str().unwrap();
    assert!(["disk_full", "audit_unavailable"].contains(&code), "{answer}");
    fs::remove_file(small.0.join("ballast")).unwrap();
    let version = || -> Value {
        world.keyless(&["secret", "show", TOKEN, "--json"]).run().data()["version"].clone()
    };
    assert_eq!(version(), json!(1));
    world.agent(&["true"]).run().ok();
    world.keyless(&rotate).stdin(&fresh[..]).run().ok();
    assert_eq!(version(), json!(2));
    world.keyless(&["audit", "verify"]).run().ok();
}

/// Who has freed space tries again, as was advised: what the first try left is no store that was lost.
#[test]
fn a_store_is_made_once_a_full_disk_has_room() {
    let world = World::empty();
    let home = world.home.keyless_home();
    fs::create_dir_all(&home).unwrap();
    let small = SmallDisk::at(home);
    fs::write(small.0.join("ballast"), vec![0; 8 << 20]).unwrap_err();
    let phrase = world.home.root().join("operator/phrase");
    let init = ["init", "--recovery-file", phrase.to_str().unwrap()];
    assert_refused(&world, &bad(&init, 6, "disk_full", &[]));
    assert!(!small.0.join("store.db").exists());
    fs::remove_file(small.0.join("ballast")).unwrap();
    let _ = fs::remove_file(&phrase);
    world.keyless(&init).run().ok();
}

/// A session that is open when the disk fills: what can't be written down is not sent, and nobody has to start anew.
#[test]
fn a_full_disk_holds_an_open_session_until_there_is_room() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let small = SmallDisk::over(&world);
    let script = format!(
        "while read word; do curl -sS -o /dev/null -w '%{{http_code}}\\n' -H \"X: ${VARIABLE}\" https://{ALLOWED}/; done"
    );
    let mut session = world.agent(&["sh", "-c", &script]).start();
    let mut used = || {
        session.say("use");
        session.line()
    };
    assert_eq!(used(), "200");
    fs::write(small.0.join("ballast"), vec![0; 8 << 20]).unwrap_err();
    // What the file has room for already is written still.
    let mut until = |status: &str| {
        let deadline = Instant::now() + PATIENCE;
        while used() != status {
            assert!(Instant::now() < deadline, "waited in vain until {status}");
        }
    };
    until("503");
    let sent = origin.requests().len();
    until("503");
    until("503");
    assert_eq!(origin.requests().len(), sent, "nothing leaves that is not on record");
    world.keyless(&["secret", "list"]).run().ok();
    fs::remove_file(small.0.join("ballast")).unwrap();
    until("200");
    assert!(session.wait().success());
    world.keyless(&["audit", "verify"]).run().ok();
}

/// A part of a file would be of no use, and stand in the way of the next try.
#[test]
fn a_copy_that_finds_no_room_leaves_no_file() {
    let world = World::with_token();
    let folder = world.home.root().join("small");
    fs::create_dir(&folder).unwrap();
    let small = SmallDisk::at(folder);
    fs::write(small.0.join("ballast"), vec![0; 8 << 20]).unwrap_err();
    let copy = small.0.join("vault.age");
    let recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    let export = ["vault", "export", copy.to_str().unwrap(), "--to", recipient];
    assert_refused(&world, &bad(&export, 6, "disk_full", &["vault.age"]));
    assert!(!copy.exists());
    fs::remove_file(small.0.join("ballast")).unwrap();
    world.keyless(&export).run().ok();
}

/// A limit on the size of files ends a write and not Keyless; the command has the signal as ever.
#[test]
fn a_limit_on_files_is_told() {
    let world = World::with_token();
    let limited = |script: &str| world.keyless(&[]).instead(&["sh", "-c", script, KEYLESS]).run();
    for blocks in [1, 20] {
        let seen = limited(&format!(r#"ulimit -f {blocks}; exec "$0" run -- true"#));
        let errors = seen.exits(6).errors();
        assert!(errors.contains("ulimit -f") && errors.contains("next:  "), "{blocks}: {errors}");
    }
    let seen = limited(r#""$0" run -- sh -c 'ulimit -f 1; head -c 9999 /dev/zero > f; echo $?'"#);
    assert_eq!(seen.ok(), "153\n");
}

/// A folder that may not be read is not an empty one, and one that may not be written is not a broken disk.
#[test]
fn folders_that_are_closed_are_said_to_be() {
    let world = World::with_store();
    let home = world.home.keyless_home();
    let (root, home) = (world.home.root(), home.as_path());
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        run("chown", &["-R".as_ref(), "65534:65534".as_ref(), root]);
    }
    let ask = |words: &[&str]| {
        let ids = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
        let before: &[&str] = if is_root { &ids } else { &[] };
        let asked = world.keyless(&[]).env("KEYLESS_HOME", "").env("XDG_DATA_HOME", root);
        asked.instead(&[before, &[KEYLESS], words].concat()).run()
    };
    let mode = |mode: u32| fs::set_permissions(home, fs::Permissions::from_mode(mode)).unwrap();
    // The last to close the store folds its write-ahead log in, but no process waits for that to end.
    wait_until("nothing is beside the store", || {
        ask(&["secret", "list"]).ok();
        !home.join("store.db-wal").exists()
    });
    mode(0o000);
    let said = ask(&["status"]).ok();
    assert!(said.contains("you may not read or write it") && !said.contains("none at"), "{said}");
    let said = ask(&["doctor"]).exits(1).text();
    assert!(said.contains("you may not read and write"), "{said}");
    assert!(said.contains("chmod u+rwx") && !said.contains("audit verify"), "{said}");
    mode(0o500);
    let errors = ask(&["secret", "list"]).exits(6).errors();
    assert!(errors.contains("may not write its file or the folder"), "{errors}");
    mode(0o700);
    ask(&["secret", "list"]).ok();
}

/// A tmpfs over the store's folder, with a copy of the store; needs root, as CI has it.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn over(world: &World) -> Self {
        let home = world.home.keyless_home();
        let copy = world.home.root().join("operator/copy");
        run("cp", &["-a".as_ref(), &home, &copy]);
        let disk = Self::at(home);
        run("cp", &["-a".as_ref(), &copy.join("."), &disk.0]);
        fs::remove_dir_all(copy).unwrap();
        disk
    }

    fn at(folder: std::path::PathBuf) -> Self {
        let options = ["-t", "tmpfs", "-o", "size=600k,mode=700", "keyless-small"].map(Path::new);
        run("mount", &[&options[..], &[&folder]].concat());
        Self(folder)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &[&self.0]);
    }
}

fn run(program: &str, arguments: &[&Path]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What reads an answer may go before its end.
#[test]
fn a_reader_who_has_gone_is_no_error() {
    let pipe =
        "\"$0\" --json catalog list | head -c 1 > /dev/null; \"$0\" catalog list | head -n 1";
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", pipe, env!("CARGO_BIN_EXE_keyless")]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Below `/dev` and `/run` (as disks that the desktop mounts are) a jail has nothing of the host's.
#[test]
fn who_starts_in_a_folder_that_the_jail_lacks_is_told_how_to_bring_it_in() {
    let world = World::empty();
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let place = folder.path().to_str().unwrap();
    let run = |options: &str| {
        let script = format!("cd {place} && exec {KEYLESS} run {options} --no-secrets -- pwd");
        world.keyless(&[]).instead(&["sh", "-c", &script]).run()
    };
    let said = run("").exits(3).errors();
    assert!(said.contains(&format!("keyless run --show {place} brings the folder in")), "{said}");
    assert_eq!(run(&format!("--show {place}")).ok().trim_end(), place);
}

/// A name of bytes that are no UTF-8, as old file systems and archives have them, is told as well as can be.
#[test]
fn names_that_are_no_utf_8_stop_nothing() {
    let world = World::with_store();
    let folder = r"$(printf 'caf\351')";
    let run = |script: &str| {
        let script = format!(
            "mkdir -p {folder} && cd {folder} && git init -q && keyless() {{ {KEYLESS} \"$@\"; }} && {script}"
        );
        world.keyless(&[]).instead(&["sh", "-c", &script]).run()
    };
    for script in [
        "keyless hooks install --json && keyless hooks install",
        "keyless hooks uninstall --json",
        "keyless guard install claude --user --json",
        "HOME=$PWD keyless guard install claude --user --json",
        "touch key && HOME=$PWD keyless broker install --keyfile key --json",
        "keyless manual $PWD/pages --json",
        "echo 'f(process.env.ACME_API_KEY)' > \"$(printf 'x\\351.js')\" && keyless setup --write-manifest --json",
        "head -c 30 /dev/urandom | base64 > ../long; echo \"ACME_API_KEY=$(cat ../long)\" > .env && \
         keyless secret import $PWD/.env --leave aliases --yes --json",
        "keyless doctor --json",
        "test -z \"$(keyless run --no-secrets --hide $PWD/.env -- cat .env)\"",
    ] {
        let seen = run(script);
        let told = seen.errors();
        assert!(!told.contains("panicked"), "{script}: {told}");
        seen.ok();
    }
    let said = run("KEYLESS_HOME=$PWD/home keyless init --recovery-file ../never");
    let told = said.exits(6).errors();
    assert!(told.contains("not in UTF-8") && !told.contains("server"), "{told}");

    world.keyless(&["unlock"]).run().ok();
    let hidden = run("unset KEYLESS_PASSPHRASE_FILE; keyless run --hide $PWD/.env -- cat .env");
    world.keyless(&["lock"]).run().ok();
    assert_eq!(hidden.ok(), "");
}
