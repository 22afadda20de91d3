//! KeePass databases as pykeepass makes them: both versions, every derivation, password and keyfile.

use std::{fs, path::PathBuf, process::Command};

use data_encoding::{BASE64, HEXLOWER};
use keyless_testkit::Canary;
use serde_json::{Value, json};

use crate::{
    sources::{sources, state},
    world::{ALLOWED, TOKEN, VARIABLE, World},
};

const USE: &str = r#"curl -sS -o /dev/null -H "X: $TOKEN" https://api.allowed.test/"#;
const PASSWORD: &str = "correct horse battery staple";
/// What opens a keyfile's database, as every form of keyfile has it.
const KEY: [u8; 32] = *b"0123456789abcdefghijklmnopqrstuv";
/// How the SHA-256 of that begins.
const CHECK: &str = "73337F47";

/// A store with a database beside it, and a secret that is kept there.
struct Scene {
    world: World,
    file: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let world = World::with_store();
        let add = ["secret", "add", "sources/desk/password", "--value-stdin"];
        world.keyless(&add).stdin(PASSWORD).run().ok();
        let file = world.operator_file("secrets.kdbx");
        let scene = Self { world, file };
        scene.declare("");
        scene.add(TOKEN, "routed");
        scene
    }

    /// Declares the database, with more settings, and its password unless those say otherwise.
    fn declare(&self, more: &str) {
        let file = self.file.display();
        let credential = "[source_credentials]\ndesk = \"@secret:sources/desk/password\"\n";
        let credential = if more.contains("alone") { "" } else { credential };
        let text = format!(
            "[[source]]\nname = \"desk\"\ntype = \"keepass\"\nfile = \"{file}\"\ncache_ttl_seconds = 0\n{more}\n\
             [default]\nsource = \"desk\"\n{credential}"
        );
        sources(&self.world, &text);
    }

    fn add(&self, path: &str, source: &str) {
        let add = ["secret", "add", path, "--to", ALLOWED, "--env", VARIABLE, "--source", source];
        self.world.keyless(&add).run().ok();
    }

    /// Has pykeepass make the database anew.
    fn make(&self, wanted: &Value) {
        let mut wanted = wanted.clone();
        if wanted.get("value").is_none() {
            wanted["value"] = json!(self.world.canary.value());
        }
        let made = Command::new("python3")
            .args(["-c", include_str!("keepass.py")])
            .arg(&self.file)
            .arg(wanted.to_string())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    /// Why the secret can't be fetched.
    fn fault(&self, path: &str) -> String {
        let seen = self.world.keyless(&["source", "check", path, "--json"]).run().exits(1).json();
        seen["data"]["secrets"][0]["state"].as_str().unwrap().to_owned()
    }

    fn opens(&self, wanted: &Value) {
        let seen = self.world.keyless(&["source", "check", TOKEN]).run().text();
        assert!(seen.contains("desk: team/api/token  ok"), "{wanted}: {seen}");
    }
}

#[test]
fn both_versions_and_every_derivation_open_with_the_password() {
    let mut scene = Scene::new();
    let origin = scene.world.origin(ALLOWED);
    for mut wanted in [
        json!({ "version": 4 }),
        json!({ "version": 4, "derivation": "argon2id", "cipher": "chacha20" }),
        json!({ "version": 4, "derivation": "aeskdf", "stream": "salsa20", "compressed": false }),
        json!({ "version": 3, "stream": "salsa20" }),
        json!({ "version": 3, "cipher": "chacha20", "compressed": false }),
    ] {
        wanted["password"] = json!(PASSWORD);
        scene.make(&wanted);
        scene.opens(&wanted);
    }
    scene.world.agent_sh(USE).run().ok();
    scene.world.assert_received(&origin);
    let look = format!("! test -s {}", scene.file.display());
    scene.world.agent_sh(&look).run().ok();
    let told = state(&scene.world, "desk");
    assert_eq!(
        (&told["state"], &told["declared"]),
        (&json!("available"), &json!(["read", "list"]))
    );
    assert_eq!(told["last_contact"]["outcome"], json!("available"), "{told}");
    let rotate = ["secret", "rotate", TOKEN, "--value-stdin"];
    let refused = scene.world.keyless(&rotate).stdin(scene.world.another_value()).run();
    assert!(refused.exits(2).errors().contains("may only read"), "{}", refused.errors());
    // Saved anew by whoever owns it: the next use has the new value.
    let fresh = scene.world.another_value();
    scene.make(&json!({ "version": 4, "password": PASSWORD, "value": fresh }));
    scene.world.agent_sh(USE).run().ok();
    assert_eq!(origin.requests()[1].header("x"), Some(fresh));
}

#[test]
fn every_form_of_keyfile_opens_alone_and_with_the_password() {
    let scene = Scene::new();
    let keyfile = scene.world.operator_file("key");
    let digits = HEXLOWER.encode(&KEY).to_uppercase();
    scene.world.watch(Canary::of(&digits));
    let second = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<KeyFile><Meta><Version>2.0</Version></Meta><Key>\n\
         <Data Hash=\"{CHECK}\">\n  {}\n  {}\n</Data></Key></KeyFile>",
        &digits[..32],
        &digits[32..]
    );
    let first = format!(
        "<KeyFile><Meta><Version>1.00</Version></Meta><Key><Data>{}</Data></Key></KeyFile>",
        BASE64.encode(&KEY)
    );
    let (alone, both) =
        (format!("keyfile = {keyfile:?} # alone"), format!("keyfile = {keyfile:?}"));
    let any = vec![7; 100_000];
    for (content, version) in [
        (second.as_bytes(), 4),
        (first.as_bytes(), 4),
        (&KEY, 3),
        (digits.as_bytes(), 4),
        (&any, 3),
    ] {
        fs::write(&keyfile, content).unwrap();
        let wanted = json!({ "version": version, "keyfile": keyfile });
        scene.make(&wanted);
        scene.declare(&alone);
        scene.opens(&wanted);
        let wanted = json!({ "version": version, "keyfile": keyfile, "password": PASSWORD });
        scene.make(&wanted);
        scene.declare(&both);
        scene.opens(&wanted);
    }
    // Each is needed, and the right one.
    scene.declare("");
    assert!(scene.fault(TOKEN).contains("is not the database's"), "{}", scene.fault(TOKEN));
    scene.declare(&both);
    fs::write(&keyfile, second.replace(&digits[..2], "00")).unwrap();
    assert!(scene.fault(TOKEN).contains("the keyfile is damaged"), "{}", scene.fault(TOKEN));
    fs::remove_file(&keyfile).unwrap();
    assert!(scene.fault(TOKEN).contains("the keyfile can't be read"), "{}", scene.fault(TOKEN));
}

#[test]
fn an_entry_is_named_by_its_groups_its_title_and_a_field() {
    let scene = Scene::new();
    scene.make(&json!({ "version": 4, "password": PASSWORD }));
    // Where a route is cut, the rest of the path leads to the entry.
    let there = [
        ("field", "team/api/token#deploy key"),
        ("name", "team/api/token#username"),
        ("root", "github"),
    ];
    for (name, reference) in there {
        scene.add(&format!("team/{name}/x"), &format!("source:desk:{reference}"));
        scene.world.keyless(&["source", "check", &format!("team/{name}/x")]).run().ok();
    }
    for (name, reference, why) in [
        ("past", "team/api/token#older", "has no value"),
        ("absent", "team/api/none", "has no value"),
        ("group", "team/api", "has no value"),
        ("rooted", "Root/github", "has no value"),
        ("binned", "team/api/gone", "has no value"),
        ("bin", "Recycle Bin/gone", "has no value"),
        ("twice", "team/api/twice", "several entries"),
        ("refers", "team/api/refers", "refers to another"),
        ("seed", "team/api/token#otp", "its seed is not given out"),
        ("seed-too", "team/api/token#TimeOtp-Secret-Base32", "its seed is not given out"),
    ] {
        let path = format!("team/{name}/y");
        scene.add(&path, &format!("source:desk:{reference}"));
        let fault = scene.fault(&path);
        assert!(fault.contains(why), "{reference}: {fault}");
    }
    // None of it says anything of the source.
    assert_eq!(state(&scene.world, "desk")["last_contact"]["outcome"], json!("available"));
}

#[test]
fn what_is_wrong_or_damaged_is_refused_and_told_apart() {
    let scene = Scene::new();
    assert!(scene.fault(TOKEN).contains("the database can't be read"), "{}", scene.fault(TOKEN));
    assert_eq!(state(&scene.world, "desk")["state"], json!("not-installed"));
    for version in [3, 4] {
        scene.make(&json!({ "version": version, "password": "another password" }));
        assert!(scene.fault(TOKEN).contains("is not the database's"), "{version}");
        assert_eq!(state(&scene.world, "desk")["state"], json!("locked"));
        scene.make(&json!({ "version": version, "password": PASSWORD }));
        let whole = fs::read(&scene.file).unwrap();
        for length in [60, whole.len() - 1] {
            fs::write(&scene.file, &whole[..length]).unwrap();
            refused(&scene, &format!("{version}, {length} bytes"));
        }
        for at in [100, whole.len() / 2] {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(&scene.file, flipped).unwrap();
            refused(&scene, &format!("{version}, bit at {at}"));
        }
    }
    for (mut wanted, why) in [
        (json!({ "version": 4, "cipher": "twofish" }), "does not know its cipher"),
        (json!({ "version": 4, "memory": 8_000_000_000_000_u64 }), "over 1 GiB"),
    ] {
        wanted["password"] = json!(PASSWORD);
        scene.make(&wanted);
        assert!(scene.fault(TOKEN).contains(why), "{}", scene.fault(TOKEN));
    }
    sources(&scene.world, "[[source]]\nname = \"desk\"\ntype = \"keepass\"\nfile = \"x.kdbx\"");
    let seen = scene.world.keyless(&["source", "check"]).run();
    assert!(seen.exits(2).errors().contains("file is not absolute"), "{}", seen.errors());
}

/// No value, no panic, and words of ours; every place of a file is tried where it costs less, in the vault's own tests.
fn refused(scene: &Scene, what: &str) {
    let fault = scene.fault(TOKEN);
    let ours = [
        "is damaged, or was not written to its end",
        "is no KeePass database of version 3.1 or 4",
        "is not the database's",
        "does not know its",
        "takes over 1 GiB",
    ];
    assert!(ours.iter().any(|words| fault.contains(words)), "{what}: {fault}");
}
