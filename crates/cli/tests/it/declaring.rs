//! `sources.toml` by commands: a source is added, looked through and taken out, and what people wrote there stays.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::{
    sources::sources,
    terminal::at_a_terminal,
    world::{ALLOWED, TOKEN, World},
};

fn file(world: &World) -> String {
    fs::read_to_string(world.home.keyless_home().join("sources.toml")).unwrap()
}

fn held(world: &World, source: &str) -> Value {
    world.keyless(&["source", "browse", source, "--json"]).run().data()["held"].clone()
}

fn script(world: &World, name: &str, text: &str) -> String {
    let path = world.operator_file(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_source_is_added_and_taken_out_and_the_rest_of_the_file_stays() {
    let world = World::with_store();
    let folder = world.operator_file("mount");
    fs::create_dir_all(folder.join("api")).unwrap();
    fs::write(folder.join("api/token"), world.canary.value()).unwrap();
    let before =
        "# ours\nschema_version = 1\n\n[[source]] # kept\nname = \"other\"\ntype = \"env\"\n";
    sources(&world, before);
    let setting = format!("folder={}", folder.display());
    let add = ["source", "add", "mount", "--type", "files", &setting, "--route", "team/"];
    world.keyless(&add).without_passphrase().run().ok();
    let text = file(&world);
    assert!(text.starts_with(before) && text.contains("prefix = \"team/\""), "{text}");
    let secret = ["secret", "add", TOKEN, "--to", ALLOWED, "--source", "routed"];
    world.keyless(&secret).run().ok();
    world.keyless(&["source", "check", TOKEN]).run().ok();
    let listed = world.keyless(&["source", "list"]).run().ok();
    assert!(listed.contains("mount") && listed.contains("read, list"), "{listed}");

    // A name twice, a credential in the clear, a kind that nobody knows, a setting that is missing: nothing is written.
    for (words, told) in [
        (&["mount", "--type", "env"][..], "already"),
        (&["corp", "--type", "vault", "addr=https://v.test", "token=abc"], "--credential"),
        (&["corp", "--type", "nonsense"], "unknown"),
        (&["corp", "--type", "vault"], "addr is missing"),
        (&["corp", "--type", "vault", "addr=v.test"], "no https:// URL"),
        (&["corp", "--type", "vault", "addr=http://vault.example.com"], "this machine alone"),
        (&["corp", "--type", "openbao", "addr=http://10.0.0.1:8200"], "this machine alone"),
        (&["corp", "--type", "pass", "checksum_sha256=zz"], "64 hexadecimal digits"),
        (&["corp", "--type", "files", "folder=/m", "access=readwrite"], "takes no values"),
        (&["corp", "--type", "files", "folder=/m", "--access", "readwrite"], "takes no values"),
        (&["corp", "--type", "pass", "foldr=work"], "there are folder, program"),
        (&["Corp", "--type", "env"], "no name"),
        (&["corp", "--type", "env", "--route", "team"], "slash"),
        (&["corp", "--type", "env", "nothing"], "NAME=VALUE"),
    ] {
        let refused = world.keyless(&[&["source", "add"], words].concat()).run();
        assert!(refused.exits(2).errors().contains(told), "{words:?}: {}", refused.errors());
        // The file is whole, and nobody is sent to mend it.
        assert!(!refused.errors().contains("correct sources.toml"), "{}", refused.errors());
        assert_eq!(file(&world), text, "{words:?}");
    }

    // Where it was not, that is what is told.
    sources(&world, &format!("{text}\n[[source]]\nname = \"bad\"\ntype = \"vaultt\"\n"));
    let refused = world.keyless(&["source", "add", "corp", "--type", "env", "--json"]).run();
    let error = refused.exits(2).json()["errors"][0].clone();
    assert_eq!(error["code"], "sources_invalid", "{error}");
    world.keyless(&["source", "remove", "bad"]).run().ok();
    sources(&world, &text);

    let remove = |name: &str| world.keyless(&["source", "remove", name]).run();
    assert!(remove("mount").exits(2).errors().contains(TOKEN), "it is kept there");
    world.keyless(&["secret", "remove", TOKEN, "--yes"]).run().ok();
    remove("mount").ok();
    assert!(
        world
            .keyless(&["source", "browse", "mount"])
            .run()
            .exits(3)
            .errors()
            .contains("has no source")
    );
    assert!(remove("mount").exits(3).errors().contains("has no source"));
    let after = file(&world);
    assert!(after.starts_with(before) && !after.contains("mount"), "{after}");
    assert!(world.keyless(&["source", "list"]).run().ok().contains("other"));
}

/// Though a broker may be unlocked: whoever is asked for a passphrase is told what for.
#[test]
fn a_list_of_sources_says_why_it_asks() {
    let world = World::with_store();
    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    world.keyless(&["source", "add", "mine", "--type", "env"]).run().ok();
    let list = world.keyless(&["source", "list"]).without_passphrase();
    let script = format!(
        "expect('for the sources')\nexpect('assphrase'); say({passphrase:?})\nexpect('mine'); finish(code=0)"
    );
    at_a_terminal(&world, list, &script);
}

#[test]
fn a_first_source_makes_the_file_with_its_default_and_credential() {
    let world = World::with_store();
    let add = [
        "source",
        "add",
        "corp",
        "--type",
        "vault",
        "addr=https://vault.test:8200",
        "mount=kv",
        "timeout_seconds=5",
        "--access",
        "readwrite",
        "--default",
        "--credential",
        "sources/corp/token",
    ];
    world.keyless(&add).run().ok();
    let expected = "schema_version = 1\n\n[[source]]\nname = \"corp\"\ntype = \"vault\"\n\
                    addr = \"https://vault.test:8200\"\nmount = \"kv\"\ntimeout_seconds = 5\n\
                    access = \"readwrite\"\n\n[default]\nsource = \"corp\"\n\n[source_credentials]\n\
                    corp = \"sources/corp/token\"\n";
    assert_eq!(file(&world), expected);
    let second = ["source", "add", "mine", "--type", "pass", "--default"];
    assert!(world.keyless(&second).run().exits(2).errors().contains("default already"));
    // What led to it goes with it, the default too.
    assert_eq!(file(&world), expected);
    world.keyless(&["source", "remove", "corp"]).run().ok();
    let left = file(&world);
    assert!(!left.contains("corp") && !left.contains("[default]"), "{left}");
    world.keyless(&second).run().ok();
}

/// npm and others put programs elsewhere than a distribution does.
#[test]
fn a_program_is_found_where_it_is_and_what_is_missing_is_said() {
    let world = World::with_store();
    let bin = world.operator_file("bin");
    fs::create_dir_all(&bin).unwrap();
    let bw = script(&world, "bin/bw", "#!/bin/sh\nexit 1\n");
    let add = |words: &[&str], path: &str| {
        let path = format!("{path}:/usr/bin:/bin");
        world.keyless(&[&["source", "add"], words].concat()).env("PATH", path).run()
    };
    add(&["warden", "--type", "bitwarden"], bin.to_str().unwrap()).ok();
    assert!(file(&world).contains(&format!("program = \"{bw}\"")), "{}", file(&world));
    let seen = add(&["mount", "--type", "files", "folder=/nowhere/at/all"], "/nowhere");
    seen.ok();
    assert!(seen.errors().contains("no folder at /nowhere/at/all"), "{}", seen.errors());
    let seen = add(&["mine", "--type", "pass", "program=/nowhere/pass"], "/nowhere");
    seen.ok();
    assert!(seen.errors().contains("no program at /nowhere/pass"), "{}", seen.errors());
}

/// devboy's own names for kinds, and its words for "no credential", as its guide has them.
#[test]
fn a_devboy_router_works_as_it_is() {
    let world = World::with_token();
    sources(
        &world,
        "schema_version = 1\n[[source]]\nname = \"vault\"\ntype = \"local-vault\"\n\
         [[source]]\nname = \"ci\"\ntype = \"env-store\"\n\
         [[source]]\nname = \"keys\"\ntype = \"keychain\"\n\
         [default]\nsource = \"vault\"\nfallback = \"ci\"\n\
         [source_credentials]\nkeys = \"biometric\"\nci = \"default-profile\"\n",
    );
    world.keyless(&["source", "check", TOKEN]).run().ok();
    let listed = world.keyless(&["source", "list"]).run().ok();
    assert!(listed.contains("ci    env") && listed.contains("keys  keyring"), "{listed}");
}

#[test]
fn what_a_source_holds_is_told_without_a_value() {
    let world = World::with_store();
    let value = world.canary.value().to_owned();
    let store = world.operator_file("password-store");
    for entry in ["work/github.gpg", "work/aws/key.gpg", ".git/x.gpg", "home/mail.gpg"] {
        let path = store.join(entry);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &value).unwrap();
    }
    let op = script(
        &world,
        "op",
        &format!(
            "#!/bin/sh\n[ \"$1 $2 $3 $4 $5 $6\" = 'item list --format json --vault Team' ] || exit 9\n\
             echo '[{{\"id\":\"it1\",\"title\":\"GitHub\",\"vault\":{{\"id\":\"v1\",\"name\":\"Team\"}},\"additional_information\":\"{value}\"}}]'\n"
        ),
    );
    let bw = script(
        &world,
        "bw",
        &format!(
            "#!/bin/sh\n[ \"$*\" = '--nointeraction --raw list items' ] || exit 9\n\
             echo '[{{\"id\":\"b-1\",\"name\":\"Mail\",\"login\":{{\"password\":\"{value}\"}}}}]'\n"
        ),
    );
    let plugin = script(
        &world,
        "plugin",
        "#!/usr/bin/env python3\nimport json, sys\nfor line in sys.stdin:\n    q = json.loads(line)\n    m = q['method'].split('.')[1]\n    r = {'init': {'source_name': 'echo', 'capabilities_bits': 7, 'plugin_version': '1'}, 'list': {'entries': [{'reference': 'a/b', 'display': None}, {'reference': 'a/c', 'display': 'Third'}]}}[m]\n    print(json.dumps({'jsonrpc': '2.0', 'id': q['id'], 'result': r}), flush=True)\n",
    );
    let checksum = crate::sources::sha256(&std::path::PathBuf::from(&plugin));
    sources(
        &world,
        &format!(
            "[[source]]\nname = \"mine\"\ntype = \"pass\"\nfolder = \"work\"\n[source.environment]\nPASSWORD_STORE_DIR = {store:?}\n\
             [[source]]\nname = \"one\"\ntype = \"1password\"\nprogram = {op:?}\nvault = \"Team\"\n\
             [[source]]\nname = \"bit\"\ntype = \"bitwarden\"\nprogram = {bw:?}\n\
             [[source]]\nname = \"echo\"\ntype = \"plugin\"\nprogram = {plugin:?}\nchecksum_sha256 = {checksum:?}\n\
             environment = {{ PATH = {:?} }}\n",
            std::env::var("PATH").unwrap()
        ),
    );
    let add = ["secret", "add", TOKEN, "--to", ALLOWED, "--source", "source:mine:work/github"];
    world.keyless(&add).run().ok();
    let one = |reference: &str, name: Option<&str>, path: Option<&str>| json!({ "reference": reference, "name": name, "path": path });
    let expected = json!([one("work/aws/key", None, None), one("work/github", None, Some(TOKEN))]);
    assert_eq!(held(&world, "mine"), expected);
    let github = one("op://v1/it1/password", Some("Team/GitHub"), None);
    assert_eq!(held(&world, "one"), json!([github]));
    assert_eq!(held(&world, "bit"), json!([one("b-1", Some("Mail"), None)]));
    let both = json!([one("a/b", None, None), one("a/c", Some("Third"), None)]);
    assert_eq!(held(&world, "echo"), both);
    let found = world.keyless(&["source", "browse", "echo", "third"]).run().ok();
    assert!(found.contains("a/c") && !found.contains("a/b"), "{found}");
    let refused = world.keyless(&["source", "browse", "env"]).run();
    assert!(refused.exits(2).errors().contains("can't say what it holds"), "{}", refused.errors());
    world.keyless(&["source", "browse", "nobody"]).run().exits(3);
}
