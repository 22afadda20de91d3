//! Copies of a vault: any age program opens them with the right key, and taking one in overwrites nothing by itself.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use keyless_testkit::Canary;
use serde_json::{Value, json};

use crate::{
    invocation::KEYLESS,
    terminal::at_a_terminal,
    world::{ALLOWED, EVIL, TOKEN, VARIABLE, World},
};

/// A key pair as Debian's `age-keygen` makes one: its file and its public half.
fn key_pair(world: &World, name: &str) -> (PathBuf, String) {
    let file = world.operator_file(name);
    let made = Command::new("age-keygen").arg("-o").arg(&file).output().unwrap();
    assert!(made.status.success(), "age-keygen: {made:?}");
    let text = fs::read_to_string(&file).unwrap();
    let public = text.lines().find_map(|line| line.strip_prefix("# public key: ")).unwrap();
    world.watch(Canary::of(text.lines().last().unwrap()));
    (file, public.to_owned())
}

fn age(arguments: &[&str], stdin: &[u8]) -> Vec<u8> {
    let mut child = Command::new("age")
        .args(arguments)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), stdin).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "age {arguments:?}");
    output.stdout
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn import(world: &World, file: &Path, key: &Path, more: &[&str], code: i32) -> Value {
    let words = ["vault", "import", text(file), "--identity", text(key), "--json"];
    world.keyless(&[&words, more].concat()).run().exits(code).json()
}

#[test]
fn a_copy_moves_the_secrets_to_another_store() {
    let world = World::with_token();
    let newest = world.another_value();
    let rotate = ["secret", "rotate", TOKEN, "--value-stdin"];
    world.keyless(&rotate).stdin(&newest[..]).run().ok();
    world.add("team/old/token", &["--description", "gone"]).ok();
    world.keyless(&["secret", "remove", "team/old/token", "--yes"]).run().ok();
    let (key, public) = key_pair(&world, "backup.key");
    let copy = world.operator_file("vault.age");
    let export = ["vault", "export", text(&copy), "--to", &public];
    // As many as taking it in finds, the removed one among them.
    let told = world.keyless(&export).run().ok();
    assert!(told.contains("holds 2 secrets"), "{told}");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(world.keyless(&export).run().exits(3).errors().contains("there already"));
    let told = |file: &str, code: i32| {
        let export = ["vault", "export", file, "--to", &public];
        world.keyless(&export).run().exits(code).errors()
    };
    assert!(told("/no/folder/copy", 3).contains("/no/folder/copy: the folder for it is not there"));
    assert!(told("-", 2).contains("not to standard output"));
    let entry = world.log().into_iter().rfind(|entry| entry["action"] == "export").unwrap();
    assert_eq!(entry["target"], json!(TOKEN));
    // Another program opens it.
    let plain = age(&["-d", "-i", text(&key)], &fs::read(&copy).unwrap());
    let document: Value = serde_json::from_slice(&plain).unwrap();
    let paths: Vec<_> = document["secrets"].as_array().unwrap().iter().collect();
    assert_eq!(paths.len(), 2);
    let value = data_encoding::BASE64.encode(newest.as_bytes());
    assert_eq!(paths[0]["versions"][1]["value"], json!(value));

    let mut other = World::with_store();
    for value in [&newest[..], world.canary.value()] {
        other.watch(Canary::of(value));
    }
    let origin = other.origin(ALLOWED);
    let seen = import(&other, &copy, &key, &[], 0);
    assert_eq!(seen["data"]["added"], json!(["team/api/token", "team/old/token"]));
    other.agent_sh(r#"curl -sS -o /dev/null -H "X: $TOKEN" https://api.allowed.test/"#).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(newest.clone()));
    assert_eq!(VARIABLE, "TOKEN");
    other.keyless(&["secret", "restore", TOKEN, "--version", "1"]).run().ok();
    other.keyless(&["secret", "restore", "team/old/token"]).run().ok();
    // What another program encrypted, in ASCII, is a copy as well.
    let armored = other.operator_file("armored.age");
    fs::write(&armored, age(&["-a", "-r", &public], &plain)).unwrap();
    let refused = import(&other, &armored, &key, &[], 2);
    assert_eq!(refused["errors"][0]["code"], json!("copy_differs"));
    assert!(refused.to_string().contains("team/api/token, team/old/token"), "{refused}");
    assert!(refused.to_string().contains("say --keep for what is here"), "{refused}");
    let kept = import(&other, &armored, &key, &["--keep"], 0);
    assert_eq!(kept["data"]["kept"], json!(["team/api/token", "team/old/token"]));
    import(&other, &armored, &key, &["--replace", "--yes"], 0);
    other.keyless(&["secret", "show", "team/old/token"]).run().exits(3);
    let versions = other.keyless(&["secret", "versions", TOKEN, "--json"]).run().data();
    assert_eq!(versions["versions"].as_array().unwrap().len(), 2, "the copy's alone: {versions}");
    // Whoever uses the value has to know of each change, however it came.
    let rotations = other.log().into_iter().filter(|entry| entry["action"] == "rotate");
    let rotations: Vec<Value> =
        rotations.map(|entry| json!([entry["target"], entry["detail"]["note"]])).collect();
    let expected = ["secret_rotated: v1 in the place of v2", "secret_rotated: v4"];
    assert_eq!(rotations, expected.map(|note| json!([TOKEN, note])));
    other.agent_sh(r#"curl -sS -o /dev/null -H "X: $TOKEN" https://api.allowed.test/"#).run().ok();
    assert_eq!(origin.requests()[1].header("x"), Some(newest.clone()));
    let fresh = World::with_store();
    import(&fresh, &copy, &key, &[], 0);
    let again = import(&fresh, &copy, &key, &[], 0);
    assert_eq!(again["data"]["same"], json!(["team/api/token", "team/old/token"]));
}

#[test]
fn what_is_no_whole_copy_is_refused() {
    let world = World::with_token();
    let (key, public) = key_pair(&world, "backup.key");
    let (strange, _) = key_pair(&world, "strange.key");
    let copy = world.operator_file("vault.age");
    world.keyless(&["vault", "export", text(&copy), "--to", &public]).run().ok();
    let bytes = fs::read(&copy).unwrap();
    let broken = world.operator_file("broken.age");
    let refused = |bytes: &[u8], key: &Path| {
        fs::write(&broken, bytes).unwrap();
        let seen = import(&world, &broken, key, &[], 2);
        assert_eq!(seen["errors"][0]["code"], json!("backup_unusable"), "{seen}");
    };
    refused(&bytes, &strange);
    refused(&bytes[..bytes.len() - 1], &key);
    refused(b"", &key);
    refused(&age(&["-r", &public], b"{\"format\":\"keyless-vault\",\"version\":0}"), &key);
    let newer = age(&["-r", &public], b"{\"format\":\"keyless-vault\",\"version\":2}");
    fs::write(&broken, newer).unwrap();
    let seen = import(&world, &broken, &key, &[], 7);
    assert_eq!(seen["errors"][0]["code"], json!("keyless_outdated"), "{seen}");
    for at in [10, bytes.len() / 2, bytes.len() - 1] {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        refused(&flipped, &key);
    }
    world.keyless(&["vault", "export", text(&broken), "--to", "age1x"]).run().exits(2);
    // A private key in the wrong place is not shown again.
    let private = fs::read_to_string(&key).unwrap().lines().last().unwrap().to_owned();
    let mistaken = ["vault", "export", text(&broken), "--to", &private];
    let refused = std::process::Command::new(KEYLESS).args(mistaken).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("private key") && said.contains("age-keygen -y"), "{said}");
    assert!(!said.contains(&private));
    let seen = import(&world, &copy, &copy, &[], 3);
    assert!(!seen.to_string().contains("AGE-SECRET"), "{seen}");
    // A copy of this very store says nothing new.
    assert_eq!(import(&world, &copy, &key, &[], 0)["data"]["same"], json!([TOKEN]));
}

/// Who knows the public key can write a copy: what it would change is shown and asked about first.
#[test]
fn a_replacement_shows_where_values_may_go_and_asks() {
    let world = World::with_token();
    let (key, public) = key_pair(&world, "backup.key");
    let copy = world.operator_file("vault.age");
    world.keyless(&["vault", "export", text(&copy), "--to", &public]).run().ok();
    let plain = age(&["-d", "-i", text(&key)], &fs::read(&copy).unwrap());
    let mut document: Value = serde_json::from_slice(&plain).unwrap();
    let secret = &mut document["secrets"][0];
    secret["metadata"]["egress"]["to"] = json!([EVIL]);
    secret["metadata"]["unsafe_expose"] = json!(true);
    let forged = world.operator_file("forged.age");
    fs::write(&forged, age(&["-r", &public], document.to_string().as_bytes())).unwrap();
    let goes_to = || world.keyless(&["secret", "show", TOKEN, "--json"]).run().data().to_string();

    let refused = import(&world, &forged, &key, &["--replace"], 2);
    assert_eq!(refused["errors"][0]["code"], json!("terminal_required"));
    let words = ["vault", "import", text(&forged), "--identity", text(&key), "--replace"];
    let screen = at_a_terminal(
        &world,
        world.keyless(&words),
        "expect('[y/N]')\nsay('n\\n')\nexpect('Nothing was taken in.')\nfinish(code=0)",
    );
    assert!(screen.contains(TOKEN), "{screen}");
    let now = format!("now    to {ALLOWED}; approve_on_use never; unsafe_expose off");
    let after = format!("after  to {EVIL}; approve_on_use never; unsafe_expose on");
    assert!(screen.contains(&now) && screen.contains(&after), "{screen}");
    assert!(goes_to().contains(ALLOWED) && !goes_to().contains(EVIL));

    // Without a value of its own it replaces nothing, whatever is answered.
    document["secrets"][0]["versions"] = json!([]);
    let empty = world.operator_file("empty.age");
    fs::write(&empty, age(&["-r", &public], document.to_string().as_bytes())).unwrap();
    let refused = import(&world, &empty, &key, &["--replace", "--yes"], 2);
    assert!(refused.to_string().contains("none in the copy"), "{refused}");
    assert!(!goes_to().contains(EVIL));

    let screen = world.keyless(&[&words[..], &["--yes"]].concat()).run().ok();
    assert!(screen.contains(&after), "{screen}");
    assert!(goes_to().contains(EVIL));
}

/// A secret whose value is read from this machine comes in after a person saw from where, and where it may go.
#[test]
fn a_secret_that_would_be_read_here_is_shown_and_asked_about() {
    let world = World::with_token();
    let (key, public) = key_pair(&world, "backup.key");
    let copy = world.operator_file("vault.age");
    world.keyless(&["vault", "export", text(&copy), "--to", &public]).run().ok();
    let mut document: Value =
        serde_json::from_slice(&age(&["-d", "-i", text(&key)], &fs::read(&copy).unwrap())).unwrap();
    let one = document["secrets"][0].clone();
    let borrowed = |path: &str, source: Value| {
        let mut secret = one.clone();
        secret["path"] = json!(path);
        secret["versions"] = json!([]);
        secret["in_use"] = json!(null);
        secret["metadata"]["source"] = source;
        secret["metadata"]["egress"]["to"] = json!([EVIL]);
        secret
    };
    let named = [
        ("team/a/file", json!({ "file": { "path": "/etc/shadow" } }), "from   file:/etc/shadow"),
        (
            "team/b/env",
            json!({ "env": { "variable": "AWS_SECRET_ACCESS_KEY" } }),
            "from   env:AWS_SECRET_ACCESS_KEY",
        ),
        ("team/c/routed", json!({ "routed": { "source": "corp" } }), "from   source:corp"),
    ];
    let secrets = document["secrets"].as_array_mut().unwrap();
    secrets.extend(named.iter().map(|(path, source, _)| borrowed(path, source.clone())));
    let forged = world.operator_file("forged.age");
    fs::write(&forged, age(&["-r", &public], document.to_string().as_bytes())).unwrap();
    let there = || world.keyless(&["secret", "list", "--json"]).run().data().to_string();

    let refused = import(&world, &forged, &key, &[], 2);
    assert_eq!(refused["errors"][0]["code"], json!("terminal_required"));
    let words = ["vault", "import", text(&forged), "--identity", text(&key)];
    let screen = at_a_terminal(
        &world,
        world.keyless(&words),
        "expect('[y/N]')\nsay('n\\n')\nexpect('Nothing was taken in.')\nfinish(code=0)",
    );
    for (path, _, from) in &named {
        assert!(screen.contains(path) && screen.contains(from), "{screen}");
        assert!(!there().contains(path));
    }
    assert!(screen.contains(&format!("goes   to {EVIL}")), "{screen}");
    let taken = import(&world, &forged, &key, &["--yes"], 0);
    assert_eq!(taken["data"]["added"], json!(["team/a/file", "team/b/env", "team/c/routed"]));
    // What is here already, as the copy has it, was agreed to before.
    let again = import(&world, &forged, &key, &[], 0);
    assert_eq!(again["data"]["added"], json!([]));
}
