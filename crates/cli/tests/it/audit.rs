//! Every session, swap and refusal is an entry, and a changed entry is found.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::{
    invocation::KEYLESS,
    schemas,
    world::{ALLOWED, TOKEN, VARIABLE, World},
};

#[test]
fn a_session_its_swaps_and_its_refusals_are_written_down() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.route(&format!("{ALLOWED}:80"), &origin.address().to_string());
    let script = r#"
        curl -sS -o /dev/null -H "X: $TOKEN" "https://api.allowed.test/v1/things?key=$TOKEN"
        curl -sS -o /dev/null -H "X: $TOKEN" http://api.allowed.test/
        true"#;
    world.agent_sh(script).run().ok();
    let mut log = world.log();
    let numbers: Vec<_> = log.iter().map(|entry| entry["sequence"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    // The session as an agent comes and goes.
    let lives = ["agent_register", "agent_transition"];
    assert_eq!((&log[2]["action"], &log[7]["action"]), (&json!(lives[0]), &json!(lives[1])));
    log.retain(|entry| !lives.iter().any(|life| entry["action"] == *life));
    // The first request's end and the second one's refusal are written by tasks of their own.
    let refused = log.iter().position(|entry| entry["action"] == "denied").unwrap();
    assert!(refused > 2, "{log:?}");
    let refusal = log.remove(refused);
    log.insert(5, refusal);
    let kinds: Vec<_> =
        log.iter().map(|entry| (entry["action"].as_str().unwrap(), &entry["target"])).collect();
    assert_eq!(
        kinds,
        [
            ("create", &json!(TOKEN)),
            ("session_start", &json!(TOKEN)),
            ("egress", &json!("api.allowed.test:443")),
            ("incident", &json!(TOKEN)),
            ("egress", &json!("api.allowed.test:443")),
            ("denied", &json!("api.allowed.test:80")),
            ("session_end", &json!("session")),
        ]
    );
    let swap = &log[2];
    assert_eq!(swap["result"], "success");
    assert_eq!(swap["secrets_used"], json!([TOKEN]));
    assert_eq!((&swap["detail"]["method"], &swap["detail"]["swaps"]), (&json!("GET"), &json!(1)));
    // The path as the agent sent it: with the placeholder.
    let path = swap["detail"]["path"].as_str().unwrap();
    assert!(path.starts_with("/v1/things"), "{path}");
    assert_eq!(swap["detail"]["kind"], "released");
    // What came back has the value.
    let echo = &log[3];
    assert_eq!(echo["correlation_id"], swap["correlation_id"]);
    assert_eq!(echo["detail"]["kind"], "value_in_output");
    // The same request when it was over.
    let whole = &log[4];
    assert_eq!(whole["correlation_id"], swap["correlation_id"]);
    assert_eq!(
        (&whole["secrets_used"], &whole["detail"]["status"]),
        (&json!([TOKEN]), &json!(200))
    );
    assert_eq!(log[5]["error_code"], "cleartext");
    let sessions: Vec<_> = log[1..].iter().map(|entry| &entry["agent"]["session_id"]).collect();
    assert!(sessions.iter().all(|session| *session == sessions[0]), "{sessions:?}");
}

/// A value that can't be had was not used: what is on record is that it was asked for in vain.
#[test]
fn a_miss_is_no_use() {
    const BOXED: &str = "team/db/password";
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let file = world.home.write("operator/value", world.canary.value()).unwrap();
    let source = format!("file:{}", file.display());
    let add = |path: &str, rule: &[&str]| {
        let words = [&["secret", "add", path, "--source", &source], rule].concat();
        world.keyless(&words).run().ok();
    };
    add(TOKEN, &["--to", ALLOWED, "--env", "TOKEN"]);
    add(BOXED, &[]);
    let uses = || {
        let log = world.log();
        let kind = |entry: &&Value| entry["detail"]["kind"] == "released";
        log.iter().filter(kind).count()
    };
    let script =
        r#"curl -sS -o /dev/null -w %{http_code} -H "X: $TOKEN" https://api.allowed.test/"#;
    let exec = ["exec", "--", "true {{nl:db/PASSWORD}}"];
    assert_eq!(world.agent_sh(script).run().ok(), "200");
    world.keyless(&exec).run().ok();
    assert_eq!(uses(), 2, "what is there is used, and that is on record");
    fs::remove_file(&file).unwrap();
    let before = world.log().len();
    assert_eq!(world.agent_sh(script).run().ok(), "502");
    world.keyless(&exec).run();
    assert_eq!((origin.requests().len(), uses()), (1, 2));
    let log = world.log();
    let missed: Vec<_> =
        log[before..].iter().filter(|entry| entry["error_code"] == "secret_unavailable").collect();
    let told: Vec<_> = missed.iter().map(|entry| (&entry["action"], &entry["result"])).collect();
    assert_eq!(
        told,
        [(&json!("egress"), &json!("error")), (&json!("exec"), &json!("error"))],
        "{log:#?}"
    );
    assert_eq!(missed[0]["secrets_used"], json!([]), "{log:#?}");
}

/// An empty answer would say that nothing happened.
#[test]
fn a_question_that_nothing_can_fit_is_refused() {
    let world = World::with_store();
    for (asked, words) in [
        (&["--since", "2026-02-02", "--until", "2026-02-01"][..], "--since lies behind --until"),
        (&["--agent", "acme/bot"], "nl://"),
        (&["-n", "0"], "1 or more"),
    ] {
        for verb in ["query", "export"] {
            let said = world.keyless(&[&["audit", verb], asked].concat()).run().exits(2).errors();
            assert!(said.contains(words), "{verb} {asked:?}: {said}");
        }
    }
}

#[test]
fn tail_shows_people_a_table() {
    let world = World::with_token();
    let text = world.keyless(&["audit", "tail", "-n", "1"]).run().ok();
    let [head, row] = &text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert!(head.starts_with("TIME") && head.contains("ACTION"), "{head}");
    assert!(row.contains("create") && row.contains(TOKEN), "{row}");
}

#[test]
fn an_export_is_json_whole_and_as_long_as_it_is_wanted() {
    let world = World::with_token();
    world.agent(&["true"]).run().ok();
    world.sqlite("UPDATE audit SET entry = replace(entry, 'token', 'tok' || char(8203) || 'en') WHERE sequence = 2");
    let export = |more: &[&str]| {
        let text = world.keyless(&[&["audit", "export"], more].concat()).run().ok();
        let read = |line: &str| serde_json::from_str::<Value>(line).unwrap()["sequence"].clone();
        (text.lines().map(read).collect::<Vec<_>>(), text)
    };
    // With the entry that says so.
    let (numbers, text) = export(&[]);
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    // As it is stored, and not as it is shown.
    assert!(text.contains("tok\u{200b}en"), "{text}");
    let rows =
        "SELECT group_concat(entry, char(10)) FROM (SELECT entry FROM audit ORDER BY sequence)";
    assert_eq!(text.trim_end(), world.sqlite_says(rows));
    assert_eq!(export(&["--json"]).0, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(export(&["-n", "1"]).0, [1]);
    assert_eq!(export(&["-n", "2", "--after", "1"]).0, [2, 3]);
    let cef = world.keyless(&["audit", "export", "--format", "cef", "-n", "2"]).run().ok();
    assert!(cef.lines().count() == 2 && cef.contains("tok\u{200b}en"), "{cef}");
    for (line, entry) in cef.lines().zip(world.log()) {
        let at: jiff::Timestamp = entry["timestamp"].as_str().unwrap().parse().unwrap();
        assert!(line.contains(&format!("|rt={} externalId=", at.as_millisecond())), "{line}");
        // No label of nothing.
        assert_eq!(line.matches("Label=").count(), line.matches(" cs").count() / 2, "{line}");
    }

    // A short log that seems whole is no log.
    let script = |line: &str| {
        let line = line.replace("KEYLESS", KEYLESS);
        world.keyless(&[]).instead(&["bash", "-o", "pipefail", "-c", &line]).run()
    };
    let full = script("KEYLESS audit export > /dev/full");
    assert_eq!(full.exits(6).errors().matches("error").count(), 1, "{}", full.errors());
    let full = script("KEYLESS audit query > /dev/full");
    assert!(full.exits(6).errors().contains("the answer can't be written"), "{}", full.errors());
    let gone = script("{ sleep 1; KEYLESS audit export; } | true");
    assert_eq!(gone.exits(0).errors(), "");
}

/// Whoever asks for the log from its start says `--after 0`, and is on record.
#[test]
fn what_is_read_of_the_log_is_on_record_wherever_it_begins() {
    let world = World::with_token();
    let reads = || world.log().iter().filter(|entry| entry["action"] == "query").count();
    for (number, verb) in ["query", "export"].into_iter().enumerate() {
        world.keyless(&["audit", verb, "--after", "0"]).run().ok();
        assert_eq!(reads(), number + 1, "{verb}");
    }
    // Who goes on page by page comes to an end.
    for _ in 0..2 {
        world.keyless(&["audit", "query", "--after", "1"]).run().ok();
        assert_eq!(reads(), 2);
    }
}

#[test]
fn a_sound_log_verifies() {
    let world = World::with_token();
    world.agent(&["true"]).run().ok();
    let found = json!({
        "entries": 5, "entries_verified": 5, "first_sequence": 1, "last_sequence": 5, "status": "valid",
        "head_checked": false, "checkpoints": 0, "checkpoints_elsewhere": 0, "removed": 0, "verification": "full",
    });
    // When, and how long it took, differs.
    let timed = |mut data: Value| {
        let data = data.as_object_mut().unwrap();
        let at = data.remove("timestamp").unwrap();
        assert!(at.as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{at}");
        assert!(data.remove("duration_ms").unwrap().is_u64());
        json!(data)
    };
    let open = world.keyless(&["audit", "verify", "--json"]).without_passphrase().run().data();
    assert_eq!(timed(open), found);
    let mut checked = found;
    checked["head_checked"] = json!(true);
    checked["hmac"] = json!({ "verified": 5, "absent": 0, "keys": ["log-1"] });
    assert_eq!(timed(world.keyless(&["audit", "verify", "--json"]).run().data()), checked);

    // Behind a checkpoint there is its own entry at least; behind what was closed, only what is new.
    world.keyless(&["audit", "checkpoint"]).run().ok();
    world.agent(&["true"]).run().ok();
    let verify = ["audit", "verify", "--json", "--incremental"];
    let since = world.keyless(&verify).run().data();
    let (entries, read) =
        (since["entries"].as_u64().unwrap(), since["entries_verified"].as_u64().unwrap());
    assert!(0 < read && read < entries, "{since}");
    assert_eq!(since["first_sequence"], json!(entries - read + 1));
    assert_eq!(since["last_sequence"], json!(entries));
    assert_eq!(since["hmac"]["verified"], json!(read));
}

/// Entries of the key before, of the new one, and of a command that had none.
#[test]
fn a_new_key_takes_over_and_the_old_one_still_verifies() {
    let world = World::with_token();
    let rotated = world.keyless(&["audit", "rotate", "--keys", "--json"]).run().data();
    assert_eq!(rotated, json!({ "key": "log-2", "replaced": "log-1" }));
    // That the log is asked for is written without a factor.
    let entries = world.keyless(&["audit", "query", "--json"]).run().data();
    let keys = entries["entries"].as_array().unwrap().iter();
    let keys: Vec<_> = keys.map(|entry| &entry["chain"]["hmac_key_id"]).collect();
    assert_eq!(keys, [&json!("log-1"), &json!("log-2"), &json!("log-2")]);
    assert_eq!(entries["entries"][1]["action"], "log_key_rotation");
    let verified = world.keyless(&["audit", "verify", "--json"]).run().data();
    assert_eq!(verified["hmac"], json!({ "verified": 3, "absent": 1, "keys": ["log-1", "log-2"] }));
    let text = world.keyless(&["audit", "verify"]).run().ok();
    assert!(text.contains("3 of them have an HMAC by log-1 to log-2, and it is right."), "{text}");
    assert!(text.contains("Without one: 1, written"), "{text}");
    // The key that was made is taken away with a plain SQLite client.
    world.sqlite("DELETE FROM audit_keys WHERE number = 2");
    let errors = world.keyless(&["audit", "verify"]).run().exits(6).errors();
    assert!(errors.contains("entry 2 has an HMAC of the key log-2"), "{errors}");
    world.keyless(&["run", "--", "true"]).run().exits(6);
}

#[test]
fn a_closed_part_of_the_log_is_a_file_and_everything_is_still_found() {
    let world = World::with_token();
    world.agent(&["true"]).run().ok();
    let before = world.log();
    let none = world.keyless(&["audit", "segments"]).run().ok();
    assert!(none.contains("No part of the log was closed yet"), "{none}");
    let rotated = world.keyless(&["audit", "rotate", "--json"]).run().data();
    let name = rotated["closed"]["file"].as_str().unwrap();
    let (first, last) = (&rotated["closed"]["first_sequence"], &rotated["closed"]["last_sequence"]);
    assert_eq!((first, last), (&json!(1), &json!(before.len() + 1)));
    let file = world.home.keyless_home().join("audit").join(name);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o400);
    let lines = fs::read_to_string(&file).unwrap();
    assert_eq!(lines.lines().count(), before.len() + 1);
    assert_eq!(serde_json::from_str::<Value>(lines.lines().next().unwrap()).unwrap(), before[0]);

    world.agent(&["true"]).run().ok();
    let all = world.keyless(&["audit", "query", "--json"]).run().data();
    let all = all["entries"].as_array().unwrap();
    assert_eq!(all[..before.len()], before);
    // That the log was asked for is an entry as well.
    let exported = world.keyless(&["audit", "export"]).run().ok();
    let numbers = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let numbers: Vec<u64> = numbers.map(|entry| entry["sequence"].as_u64().unwrap()).collect();
    assert!(numbers.len() > all.len() && numbers.iter().copied().eq(1..=numbers.len() as u64));
    let segments = world.keyless(&["audit", "segments"]).run().ok();
    assert!(segments.contains(name) && segments.contains("kept"), "{segments}");
    let verified = world.keyless(&["audit", "verify", "--json"]).run().data();
    assert_eq!((&verified["status"], &verified["checkpoints"]), (&json!("valid"), &json!(1)));
    assert!(verified["entries"].as_u64().unwrap() >= numbers.len() as u64);

    fs::remove_file(&file).unwrap();
    let gone = world.keyless(&["audit", "verify"]).run();
    let errors = gone.exits(6).errors();
    assert!(errors.contains("is missing"), "{errors}");
}

/// Each of these is done with a plain SQLite client by somebody who may write the file.
#[test]
fn tampering_is_found() {
    let world = World::with_token();
    world.agent(&["true"]).run().ok();
    let (sound, written) = (world.store_bytes(), world.log());
    for (statements, kind, sequence) in [
        (
            "UPDATE audit SET entry = replace(entry, 'session_start', 'session_stopp') WHERE sequence = 2",
            "hash_mismatch",
            2,
        ),
        ("DELETE FROM audit WHERE sequence = 2", "missing_entry", 2),
        ("DELETE FROM audit WHERE sequence = 3", "missing_entry", 3),
        // The end cut off with care: only the vault's seal over the head knows.
        (
            "DELETE FROM audit WHERE sequence > 2;
             UPDATE audit_head SET last = (SELECT entry FROM audit WHERE sequence = 2)",
            "truncated",
            2,
        ),
    ] {
        world.replace_store(&sound);
        world.keyless(&["audit", "verify"]).run().ok();
        world.sqlite(statements);
        let answer = world.keyless(&["audit", "verify", "--json"]).run().exits(6).json();
        assert_eq!(answer["errors"][0]["code"], json!("audit_tampered"), "{statements}: {answer}");
        let data = &answer["data"];
        assert_eq!((&data["status"], &data["verification"]), (&json!("tampered"), &json!("full")));
        let at = &data["tamper_detected_at"];
        assert_eq!((&at["type"], &at["sequence"]), (&json!(kind), &json!(sequence)), "{answer}");
        assert!(at["detail"].as_str().is_some_and(|words| words.contains("entry")), "{answer}");
        // The entry itself says which hash it had.
        let is_changed = kind == "hash_mismatch";
        let had = if is_changed { &written[1]["chain"]["hash"] } else { &Value::Null };
        assert_eq!(at["actual_hash"], *had, "{answer}");
        let shown = at["expected_hash"].as_str().is_some_and(|hash| *had != hash);
        assert_eq!(shown, is_changed, "{answer}");
        schemas::note(&world, "log-verification", data);
    }
    assert_eq!(schemas::misfits(&world), "");
    let errors = world.keyless(&["audit", "verify"]).run().exits(6).errors();
    assert!(errors.contains("next:  compare the log with a backup"), "{errors}");
}

/// Who has no factor knows no key of the log, and finds a bit of what it has said all the same.
#[test]
fn a_bit_of_an_hmac_counts_without_a_factor() {
    let world = World::with_token();
    world.agent(&["true"]).run().ok();
    let (sound, written) = (world.store_bytes(), world.log());
    for (member, at) in
        [("entry_hmac", 2), ("entry_hmac", written.len()), ("hmac", 2), ("hmac_key_id", 2)]
    {
        let value = written[at - 1]["chain"][member].as_str().unwrap();
        let (start, last) = value.split_at(value.len() - 1);
        let changed = format!("{start}{}", char::from(last.as_bytes()[0] ^ 1));
        world.replace_store(&sound);
        world.sqlite(&format!(
            "UPDATE audit SET entry = replace(entry, '{value}', '{changed}') WHERE sequence = {at}"
        ));
        let verified = world.keyless(&["audit", "verify", "--json"]).without_passphrase().run();
        let found = verified.exits(6).json()["data"]["tamper_detected_at"].clone();
        assert_eq!(
            (&found["type"], &found["sequence"]),
            (&json!("hash_mismatch"), &json!(at)),
            "{member}: {found}"
        );
    }
}

/// A cut that the broker wrote on, or signed, would be good from then on.
#[test]
fn a_cut_log_is_not_made_good() {
    let world = World::with_token();
    world.agent(&["true"]).run().ok();
    world.sqlite(
        "DELETE FROM audit WHERE sequence > 2;
         UPDATE audit_head SET last = (SELECT entry FROM audit WHERE sequence = 2)",
    );
    for verb in [&["audit", "checkpoint"][..], &["run", "--", "true"]] {
        let text = world.keyless(verb).run().exits(6).errors();
        assert!(text.contains("run keyless audit verify"), "{verb:?}: {text}");
    }
    world.keyless(&["audit", "verify"]).run().exits(6);
}

/// The operator has seen it: from then on it is told instead of failing, and everything goes on.
#[test]
fn a_break_that_was_accepted_is_told_for_good() {
    let world = World::with_token();
    world.agent(&["true"]).run().ok();
    let whole = world.keyless(&["audit", "accept-break"]).run();
    assert!(whole.exits(2).errors().contains("there is no break to accept"), "{}", whole.errors());
    world.sqlite(
        "DELETE FROM audit WHERE sequence > 2;
         UPDATE audit_head SET last = (SELECT entry FROM audit WHERE sequence = 2)",
    );
    world.keyless(&["run", "--", "true"]).run().exits(6);
    let accept = ["audit", "accept-break", "--reason", "a test has cut it"];
    let locked = world.keyless(&accept).without_passphrase().run();
    assert!(locked.errors().contains("passphrase"), "{}", locked.errors());
    world.keyless(&["audit", "verify"]).run().exits(6);
    let told = world.keyless(&accept).run().ok();
    assert!(told.contains("entries 3 to 5 are not what was written"), "{told}");
    world.agent(&["true"]).run().ok();
    let text = world.keyless(&["audit", "verify"]).run().ok();
    assert!(text.contains("but for what was accepted"), "{text}");
    let verified = world.keyless(&["audit", "verify", "--json"]).run().data();
    assert_eq!(verified["status"], "break_accepted");
    let [seen] = &verified["breaks"].as_array().unwrap()[..] else { panic!("{verified}") };
    assert_eq!((&seen["from"], &seen["to"], &seen["genuine"]), (&json!(3), &json!(5), &json!(2)));
    let entry = world.log().into_iter().find(|entry| entry["action"] == "log_break_accepted");
    let detail = &entry.unwrap()["detail"];
    assert_eq!(detail["purpose"], "a test has cut it");
    assert!(detail["note"].as_str().unwrap().contains("ends at entry 2 but had 5"), "{detail}");
    let segments = world.keyless(&["audit", "segments"]).run().ok();
    assert!(segments.contains("kept, not as written"), "{segments}");
}

/// The log has no place for a value, whatever an agent puts into a request.
#[test]
fn a_value_in_a_request_line_does_not_reach_the_log() {
    let mut world = World::with_token();
    let _origin = world.origin(ALLOWED);
    let script = r#"curl -sS "https://api.allowed.test/$TOKEN/$TOKEN?a=$TOKEN" -o /dev/null"#;
    world.agent_sh(script).run().ok();
    let log = world.log();
    let swap = log.iter().find(|entry| entry["action"] == "egress").unwrap();
    assert_eq!(swap["detail"]["swaps"], Value::from(1));
}

#[test]
fn a_checkpoint_that_was_kept_finds_an_older_log() {
    let world = World::with_token();
    let older = world.store_bytes();
    let signed = world.keyless(&["audit", "checkpoint"]).run().ok();
    world.home.write("operator/kept.jsonl", &signed).unwrap();
    let kept = world.operator_file("kept.jsonl").display().to_string();
    let verify =
        |more: &[&str]| world.keyless(&[&["audit", "verify", "--json"], more].concat()).run();
    let elsewhere = ["--checkpoints", kept.as_str()];
    assert_eq!(verify(&elsewhere).data()["checkpoints"], 1);
    world.add("team/db/password", &[]).ok();
    let since = verify(&["--incremental"]).data();
    assert_eq!(
        (&since["verification"], &since["status"]),
        (&json!("incremental"), &json!("valid"))
    );
    // One that somebody else has written is no word of the vault's.
    let mut forged: Value = serde_json::from_str(&signed).unwrap();
    forged["last_sequence"] = json!(1);
    world.home.write("operator/kept.jsonl", forged.to_string()).unwrap();
    verify(&elsewhere).exits(6);
    world.home.write("operator/kept.jsonl", &signed).unwrap();
    world.replace_store(&older);
    // The older file is whole in itself, and its end has the vault's own seal.
    fs::remove_file(world.home.keyless_home().join("audit-checkpoints.jsonl")).unwrap();
    assert_eq!(verify(&[]).data()["status"], "valid");
    world.home.write("operator/none.jsonl", "").unwrap();
    let none = world.operator_file("none.jsonl").display().to_string();
    let none = verify(&["--checkpoints", none.as_str()]);
    assert!(none.exits(3).text().contains("holds no checkpoint"), "{}", none.text());
    let cut = verify(&elsewhere);
    assert!(cut.exits(6).text().contains("cut or replaced"), "{}", cut.text());
}

/// A change and its entry are both there, or neither is: what the log can't take is not done, whatever it is.
#[test]
fn no_change_of_a_secret_goes_unrecorded() {
    let world = World::with_token();
    let file = world.operator_file("value");
    fs::write(&file, "another-value-0123456789").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let from = ["--from-file", file.to_str().unwrap()];
    let rotate: &[&str] = &["secret", "rotate", TOKEN, from[0], from[1]];
    let other = "team/other/token";
    world.keyless(&["secret", "add", other, from[0], from[1]]).run().ok();
    world.keyless(&["secret", "rotate", other, from[0], from[1], "--allow-weak"]).run().ok();
    world.keyless(&["secret", "add", "team/gone/token", from[0], from[1]]).run().ok();
    world.keyless(&["secret", "remove", "team/gone/token", "--yes"]).run().ok();
    let changes: &[&[&str]] = &[
        rotate,
        &["secret", "add", "team/new/token", from[0], from[1]],
        &["secret", "set", TOKEN, "--to", "evil.test"],
        &["secret", "restore", other, "--version", "1"],
        &["secret", "restore", "team/gone/token"],
        &["secret", "purge", "team/gone/token", "--yes"],
        &["secret", "purge", other, "--version", "1", "--yes"],
        &["secret", "revoke", other, "--compromised", "--yes"],
        &["secret", "remove", TOKEN, "--yes"],
        &["vault", "envelope", "remove", "recovery", "--yes"],
    ];
    let rows = "SELECT \
        (SELECT group_concat(path || metadata || coalesce(current, '') || coalesce(removed_at, '')) FROM secrets), \
        (SELECT group_concat(path || version) FROM versions), (SELECT group_concat(kind) FROM envelopes), \
        (SELECT generation FROM commitment)";
    let before = world.sqlite_says(rows);
    world.sqlite("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT raise(ABORT, 'no'); END");
    for change in changes {
        let seen = world.keyless(change).run();
        assert!(seen.exits(6).errors().contains("audit log"), "{change:?}: {}", seen.errors());
        assert_eq!(world.sqlite_says(rows), before, "{change:?}");
    }
    world.sqlite("DROP TRIGGER full");
    let entries = world.log().len();
    world.keyless(rotate).run().ok();
    assert_eq!(world.log().len(), entries + 1);
    world.keyless(&["audit", "verify"]).run().ok();
}

/// What it would come to is owed to the log, which could pile up for as long as it fails.
#[test]
fn without_a_log_no_request_goes_out_without_a_secret_either() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.sqlite(
        "CREATE TRIGGER full BEFORE INSERT ON audit WHEN NEW.entry LIKE '%\"action\":\"egress\"%' \
         BEGIN SELECT raise(ABORT, 'no'); END",
    );
    let script = format!(
        "curl -sS -o /dev/null -w '%{{http_code}}\\n' https://{ALLOWED}/one; sleep 1; \
         curl -si https://{ALLOWED}/two"
    );
    let text = world.agent_sh(&script).run().text();
    let (first, second) = text.split_once('\n').unwrap();
    assert_eq!(first, "200");
    assert!(second.starts_with("HTTP/1.1 503") || second.starts_with("HTTP/2 503"), "{second}");
    assert!(second.contains("audit_unavailable"), "{second}");
    assert_eq!(origin.requests().len(), 1);
}

/// Whichever way an entry comes to be: with the vault open or not, and past the writer that most go by.
#[test]
fn each_entry_says_which_profile_rules() {
    let world = World::with_store();
    world.home.write("keyless/config.toml", "[nl]\nprofile = 'final'\n").unwrap();
    let begun = world.log().len();
    world.add(TOKEN, &["--to", ALLOWED, "--env", "TOKEN"]).ok();
    world.keyless(&["audit", "query", "--json"]).run().ok();
    world.keyless(&["audit", "export"]).run().ok();
    world.keyless(&["audit", "rotate", "--keys"]).run().ok();
    world.keyless(&["audit", "checkpoint"]).run().ok();
    world.keyless(&["run", "--", "true"]).run().ok();
    world.home.write("operator/passphrase", "something else entirely\n").unwrap();
    world.keyless(&["unlock"]).run().exits(5);
    let log = world.log();
    for action in ["create", "query", "log_key_rotation", "checkpoint", "session_start", "unlock"] {
        let mut entries = log[begun..].iter().filter(|entry| entry["action"] == action).peekable();
        assert!(entries.peek().is_some(), "{action}: {log:?}");
    }
    for entry in &log[begun..] {
        assert_eq!(entry["metadata"]["nl_profile"], "final", "{entry}");
    }
}

/// Why the token does not work is found by the token's path: no use of it, and yet about it.
#[test]
fn what_was_refused_a_secret_is_found_by_its_path() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    world.add(TOKEN, &["--to", ALLOWED, "--env", VARIABLE, "--locations", "header"]).ok();
    let script = format!(
        "curl -sS -o /dev/null -d \"$TOKEN\" https://{ALLOWED}/body; \
         curl -sS -o /dev/null -H \"X: $TOKEN\" http://{ALLOWED}/plain; true"
    );
    world.agent_sh(&script).run().ok();
    assert!(origin.requests().is_empty());
    let asked = ["audit", "query", "--secret", TOKEN, "--result", "denied", "--json"];
    let found = world.keyless(&asked).run().data();
    let entries = found["entries"].as_array().unwrap();
    let codes: Vec<_> = entries.iter().map(|entry| entry["error_code"].as_str()).collect();
    assert_eq!(codes, [Some("location_not_allowed"), Some("cleartext")], "{found}");
    for entry in entries {
        assert_eq!(entry["detail"]["secrets_named"], json!([TOKEN]), "{entry}");
        assert_eq!(entry["secrets_used"], json!([]), "{entry}");
    }
    let other = ["audit", "query", "--secret", "team/api/other", "--json"];
    assert_eq!(world.keyless(&other).run().data()["entries"], json!([]));
    world.keyless(&["audit", "verify"]).run().ok();
}
