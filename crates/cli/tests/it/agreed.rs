use std::fs;

use serde_json::{Value, json};

use crate::{
    mcp::{unlock, unlocked},
    sources::sha256,
    terminal::at_a_terminal,
    world::{ALLOWED, EVIL, TOKEN, World, wait_until},
};

/// A process of the account, in no jail, leads a host elsewhere and brings the certificates for it: nothing of it is in
/// force, in a broker that runs or in one that a program starts, until somebody with the factor says so.
#[test]
fn where_values_go_takes_the_word_of_who_has_the_factor() {
    let world = unlocked();
    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    let trusts = world.ca.pem().lines().nth(1).unwrap().to_owned();
    let trusted = || {
        let script = format!("grep -cF '{trusts}' \"$SSL_CERT_FILE\"");
        let run = ["run", "--secret", TOKEN, "--", "sh", "-c", &script];
        world.keyless(&run).without_passphrase().run().text() == "1\n"
    };
    world.write_config();
    let refused = || world.log_of("config_unagreed");
    wait_until("it is on record", || !refused().is_empty());
    assert!(!trusted(), "a root that nobody agreed to");
    let problem = || world.keyless(&["status", "--json"]).without_passphrase().run().data();
    assert!(
        problem().to_string().contains("nobody who has the factor has agreed"),
        "{}",
        problem()
    );

    // What somebody else has written there has no seal of the vault's.
    let agreed = world.home.keyless_home().join("agreed.json");
    let forged =
        json!({ "lines": [format!("connect_to {ALLOWED}:443 = 127.0.0.1:9")], "seal": "00" });
    fs::write(&agreed, forged.to_string()).unwrap();
    assert!(!trusted());

    // Who types the factor is asked, of a store that is open, too.
    let no = format!(
        "expect('Passphrase'); say({passphrase:?}); expect('SHA-256'); expect('Is that yours?'); say('n\\n'); finish(code=4)"
    );
    at_a_terminal(&world, world.keyless(&["unlock"]).without_passphrase(), &no);
    assert!(!trusted());
    let yes = format!(
        "expect('Passphrase'); say({passphrase:?}); expect('Is that yours?'); say('y\\n'); expect('Unlocked already'); finish(code=0)"
    );
    at_a_terminal(&world, world.keyless(&["unlock"]).without_passphrase(), &yes);
    assert!(trusted(), "the next run has it");
    let noted = |entry: &Value| entry["detail"]["note"] == "agreed to";
    assert!(world.log().iter().any(noted));
    // Once is enough, and what is taken away needs nobody's word.
    let again = world.keyless(&["unlock"]).without_passphrase().run().ok();
    assert!(again.contains("Unlocked already"), "{again}");
    fs::write(world.home.keyless_home().join("config.toml"), "").unwrap();
    assert!(!trusted(), "the next run is without");
}

/// A program that is declared as a source gets no value by that alone.
#[test]
fn what_a_source_is_given_takes_the_word_of_who_has_the_factor() {
    let world = World::with_token();
    let got = world.operator_file("got");
    let script = format!("#!/bin/sh\nprintf %s \"$T\" > {}\n", got.display());
    let program = world.home.write("operator/greedy", script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&program, mode).unwrap();
    let checksum = sha256(&program);
    let declared = format!(
        "[[source]]\nname = \"mine\"\ntype = \"plugin\"\nprogram = {program:?}\nchecksum_sha256 = {checksum:?}\nenvironment = {{ T = \"@secret:{TOKEN}\" }}\n"
    );
    world.home.write("keyless/sources.toml", declared).unwrap();
    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    let no = format!(
        "expect('Passphrase'); say({passphrase:?}); expect('the source mine'); expect('{TOKEN}'); say('n\\n'); finish(code=4)"
    );
    for command in [&["unlock"][..], &["source", "check"], &["secret", "reveal", TOKEN]] {
        at_a_terminal(&world, world.keyless(command).without_passphrase(), &no);
        assert!(!got.exists(), "{command:?}");
    }
    // What was shown is what is agreed to, whatever the file says by the time of the answer.
    let sources = world.home.keyless_home().join("sources.toml");
    let other = fs::read_to_string(&sources).unwrap().replace("T =", "U =");
    let meanwhile = format!(
        "expect('Passphrase'); say({passphrase:?}); expect('Is that yours?'); open({sources:?}, 'w').write({other:?}); say('y\\n'); finish(code=4)"
    );
    at_a_terminal(&world, world.keyless(&["unlock"]).without_passphrase(), &meanwhile);
    assert!(!got.exists());
    unlock(&world);
}

/// A program that takes the place of one that is given new values gets none of them, and a secret is not led to another of a
/// source that is opened for Keyless.
#[test]
fn who_gets_new_values_and_what_is_asked_of_a_source_takes_the_word_too() {
    let world = World::with_token();
    let got = world.operator_file("got");
    let program = |name: &str| {
        let script = format!("#!/bin/sh\ncat > {}\n", got.display());
        let program = world.home.write(&format!("operator/{name}"), script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&program, mode).unwrap();
        let checksum = sha256(&program);
        format!("program = {program:?}\nchecksum_sha256 = {checksum:?}\n")
    };
    let declared = |program: &str, more: &str| {
        let text = format!(
            "[[source]]\nname = \"mine\"\ntype = \"plugin\"\n{program}access = \"readwrite\"\n\
             [[source]]\nname = \"opened\"\ntype = \"vault\"\naddr = \"https://127.0.0.1:9\"\nmount = \"kv\"\n\
             [[route]]\nprefix = \"plug/\"\nsource = \"mine\"\n{more}\
             [source_credentials]\nopened = \"{TOKEN}\"\n"
        );
        world.home.write("keyless/sources.toml", text).unwrap();
    };
    let first = program("first");
    declared(&first, "");
    world.keyless(&["secret", "add", "plug/a/token", "--source", "routed"]).run().ok();
    unlock(&world);
    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    let asked = |command: &[&str], of: &str| {
        let no = format!(
            "expect('Passphrase'); say({passphrase:?}); expect({of:?}); expect('Is that yours?'); say('n\\n'); finish(code=4)"
        );
        at_a_terminal(&world, world.keyless(command).without_passphrase(), &no);
        assert!(!got.exists(), "{command:?}");
    };
    declared(&program("greedy"), "");
    asked(&["secret", "rotate", "plug/a/token"], "is given new values");
    let other = "[secret.\"team/low/token\"]\nsource = \"opened\"\nreference = \"prod/high\"\n";
    declared(&first, other);
    asked(&["unlock"], "team/low/token is prod/high at the source opened");
    let route = "[[route]]\nprefix = \"team/\"\nsource = \"opened\"\nmount = \"high\"\n";
    declared(&first, route);
    asked(&["unlock"], "what begins with team/ is kept at the source opened, mount");
    // As it was, nobody is asked.
    declared(&first, "");
    let again = world.keyless(&["unlock"]).without_passphrase().run().ok();
    assert!(again.contains("Unlocked already"), "{again}");
}

/// A file in the catalog's folder that takes the place of a provider of ours binds no token to a host of its own, and takes it to
/// no other place in a request, until who has the factor has said so.
#[test]
fn where_tokens_of_a_service_go_takes_the_word_too() {
    let world = World::with_store();
    let (host, home) = ("registry.npmjs.org", world.home.keyless_home());
    let ours = include_str!("../../../vault/catalog/npm.json");
    let wider = ("          \"header\"\n", "\"header\", \"body\"\n");
    let theirs = ours.replace(host, EVIL).replace(wider.0, wider.1);
    assert!(theirs.contains("\"body\""));
    let file = world.home.write("keyless/catalog/npm.json", theirs).unwrap();
    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    let listed = || {
        let list = ["catalog", "list", "npm-token", "--json"];
        let listed = world.keyless(&list).without_passphrase().run().json();
        (listed["data"]["patterns"][0]["to"].clone(), listed["warnings"].to_string())
    };
    let doctor = || {
        let checks = world.keyless(&["doctor", "--json"]).without_passphrase().run().json();
        let checks = checks["data"]["checks"].as_array().unwrap().clone();
        let counts = |check: &&Value| check["id"] == "files.catalog" && check["state"] != "ok";
        let told = checks.iter().filter(counts);
        told.map(|check| format!("{}: {}", check["state"], check["found"]))
            .collect::<Vec<_>>()
            .concat()
    };
    let add = ["secret", "add", "--pattern", "npm-token", "--allow-weak", "--value-stdin"];
    let asked = |path: &str| {
        let no = format!(
            "expect('Passphrase'); say({passphrase:?}); expect('in place of what Keyless knows of npm: npm-token to {EVIL} in header, body'); \
             expect('Is that yours?'); say('n\\n'); finish(code=4)"
        );
        at_a_terminal(
            &world,
            world.keyless(&[&add[..], &[path]].concat()).without_passphrase(),
            &no,
        );
        world.keyless(&["secret", "show", path]).run().exits(3);
    };
    let (to, warned) = listed();
    assert_eq!(to, json!([host]));
    assert!(warned.contains("npm.json: nobody who has the factor has agreed"), "{warned}");
    let told = doctor();
    assert!(told.starts_with("\"warning\""), "{told}");
    assert!(told.contains("npm.json: nobody who has the factor has agreed"), "{told}");
    asked(TOKEN);

    // A factor from a file is the word.
    let value = world.watch(keyless_testkit::Canary::new());
    let added = world.keyless(&[&add[..], &[TOKEN]].concat()).stdin(&value[..]).run().ok();
    assert!(added.contains(&format!("may go to {EVIL}")), "{added}");
    assert_eq!(listed(), (json!([EVIL]), json!([]).to_string()));
    let told = doctor();
    assert!(told.starts_with("\"note\""), "{told}");
    assert!(told.contains("npm.json: it takes the place of what Keyless knows of npm"), "{told}");

    // One that somebody else has written has no seal of the vault's, and convinces nothing that binds a token.
    let agreed = home.join("agreed.json");
    let mut forged: Value = serde_json::from_slice(&fs::read(&agreed).unwrap()).unwrap();
    forged["seal"] = json!("00");
    fs::write(&agreed, forged.to_string()).unwrap();
    asked("team/other/token");
    // What was agreed to is what the file was.
    world.keyless(&["source", "list"]).run().ok();
    let other = fs::read_to_string(&file).unwrap().replace(EVIL, "evil.corp.test");
    fs::write(&file, other).unwrap();
    assert_eq!(listed().0, json!([host]));
}

/// For how long the store stays open, and how often a person is asked, is made tighter by anybody, and looser by who has the factor.
#[test]
fn a_strict_profile_is_lifted_by_who_has_the_factor() {
    let world = World::with_store();
    let config = |text: &str| world.home.write("keyless/config.toml", text).unwrap();
    config("[unlock]\nprofile = \"strict\"\n");
    world.keyless(&["unlock"]).run().ok();
    world.keyless(&["lock"]).run().ok();
    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    let unlock = |script: &str| {
        let typed = format!("expect('Passphrase'); say({passphrase:?}); {script}");
        at_a_terminal(&world, world.keyless(&["unlock"]).without_passphrase(), &typed);
    };
    let asked = |window: &str| {
        format!("expect({window:?}); expect('Is that yours?'); say('n\\n'); finish(code=4)")
    };
    let kept = world.sqlite_says("SELECT agreed FROM vault");
    assert!(kept.contains("window 900, longest 3600, idle 300, asks per-call"), "{kept}");
    for (loose, window) in [
        ("", "[unlock] window 28800, longest 86400, idle never, asks never"),
        (
            "[unlock]\nprofile = \"strict\"\nidle = \"10m\"\n",
            "window 900, longest 3600, idle 600, asks per-call",
        ),
    ] {
        config(loose);
        unlock(&asked(window));
        let status = world.keyless(&["status", "--json"]).run().data();
        assert_eq!(status["unlocked"], json!(false));
    }
    // What is tighter takes nobody's word, and is what counts from then on.
    config("[unlock]\nprofile = \"strict\"\nwindow = \"5m\"\n");
    unlock("expect('Unlocked for 5 min'); finish(code=0)");
    world.keyless(&["lock"]).run().ok();
    config("[unlock]\nprofile = \"strict\"\n");
    unlock(&asked("window 900"));
    config("");
    // Nor is it lifted by who takes away what was agreed to, or the vault's word on it.
    let agreed = world.home.keyless_home().join("agreed.json");
    fs::remove_file(&agreed).unwrap();
    unlock(&asked("window 28800"));
    fs::write(&agreed, "{\"lines\": [], \"seal\": \"00\"}").unwrap();
    unlock(&asked("window 28800"));
    unlock("expect('Is that yours?'); say('y\\n'); expect('Unlocked for 8 h'); finish(code=0)");
    world.keyless(&["lock"]).run().ok();
    unlock("expect('Unlocked for 8 h'); finish(code=0)");
    world.keyless(&["lock"]).run().ok();
    // An older one that is put back is no word of today's.
    let loose = fs::read(&agreed).unwrap();
    config("[unlock]\nprofile = \"strict\"\n");
    unlock("expect('Unlocked for 15 min'); finish(code=0)");
    world.keyless(&["lock"]).run().ok();
    fs::write(&agreed, loose).unwrap();
    config("");
    unlock(&asked("window 28800"));
    // In the store it is what the vault has committed to.
    world.sqlite("UPDATE vault SET agreed = NULL");
    let seen = world.keyless(&["unlock"]).run();
    assert!(seen.exits(6).errors().contains("changed"), "{}", seen.errors());
}
