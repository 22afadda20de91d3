//! Sources that are programs: what they are asked for, and what of theirs a jail hides.

use super::*;

/// `bw`, as far as reading goes: its arguments, its output, its complaints. It searches as the real one does: for items
/// in whose name, user or address the word is.
const BW: &str = r#"#!/bin/sh
[ "$1 $2" = "--nointeraction --raw" ] || exit 9
[ "$BW_SESSION" = "BWSESSION" ] && state=unlocked || state=locked
one='{"id":"11111111-aaaa-4bbb-8ccc-000000000001","name":"api/token","login":{"password":"x","uris":null}}'
two='{"id":"11111111-aaaa-4bbb-8ccc-000000000002","name":"old-stripe","login":{"password":"y"}}'
same='{"id":"11111111-aaaa-4bbb-8ccc-000000000003","name":"twice","login":{}},{"id":"11111111-aaaa-4bbb-8ccc-000000000004","name":"twice","login":{}}'
locked() { [ $state = unlocked ] || { printf 'Vault is locked.' >&2; exit 1; }; }
case "$3 $4 $5 $6" in
  "status   ") printf '{"serverUrl":null,"status":"%s"}' "$state" ;;
  "list items --search api/token") locked; printf '[%s]' "$one" ;;
  "list items --search stripe") locked; printf '[%s]' "$two" ;;
  "list items --search twice") locked; printf '[%s]' "$same" ;;
  "list "*) locked; printf '[]' ;;
  "get password 11111111-aaaa-4bbb-8ccc-000000000001 "|"get username 11111111-aaaa-4bbb-8ccc-000000000002 ") locked; printf %s "BWVALUE" ;;
  "get password old-stripe "|"get password stripe ") locked; printf %s "OTHERVALUE" ;;
  "get "*) locked; printf 'Not found.' >&2; exit 1 ;;
esac
"#;

#[test]
fn bitwarden_by_its_tool() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let session = world.another_value();
    let bw = world.operator_file("bw");
    executable(&bw, &BW.replace("BWSESSION", &session).replace("BWVALUE", world.canary.value()));
    let declared = format!(
        "[[source]]\nname = \"bw\"\ntype = \"bitwarden\"\nprogram = {bw:?}\ncache_ttl_seconds = 0\n\
         OPENED[[route]]\nprefix = \"team/\"\nsource = \"bw\"\n"
    );
    let credential = "[source_credentials]\nbw = \"@secret:sources/bw/session\"\n";
    sources(&world, &(declared.replace("OPENED", "") + credential));
    add_local(&world, "sources/bw/session", &session);
    add_routed(&world, "routed");
    world.agent_sh(USE).run().ok();
    assert_eq!(origin.requests()[0].header("x"), Some(world.canary.value().into()));
    assert_eq!(state(&world, "bw")["state"], json!("available"));
    // A name is the whole name of one item, and an id is looked up.
    let told = |name: &str, reference: &str| {
        let path = format!("team/names/{name}");
        let source = format!("source:bw:{reference}");
        world.keyless(&["secret", "add", &path, "--source", &source]).run().ok();
        world.keyless(&["source", "check", &path]).run().text()
    };
    assert!(told("renamed", "stripe").contains("has no value"));
    assert!(told("twice", "twice").contains("several items go by this name"));
    assert!(told("gone", "nothing").contains("has no value"));
    let by_id = told("by-id", "11111111-aaaa-4bbb-8ccc-000000000002#username");
    assert!(by_id.contains(" ok"), "{by_id}");
    // A variable of its own that names a secret does as well.
    let granted = "environment = { BW_SESSION = \"@secret:sources/bw/session\" }\n";
    sources(&world, &declared.replace("OPENED", granted));
    assert_eq!(state(&world, "bw")["state"], json!("available"));
    let wrong = ["secret", "rotate", "sources/bw/session", "--value-stdin"];
    world.keyless(&wrong).stdin(world.another_value()).run().ok();
    assert_eq!(state(&world, "bw")["state"], json!("locked"));
    let locked = world.keyless(&["source", "check", TOKEN]).run();
    assert!(locked.exits(1).text().contains("is locked"), "{}", locked.text());
    // What opens it is known to others: nobody is asked with it.
    world.keyless(&["secret", "revoke", "sources/bw/session", "--compromised", "--yes"]).run().ok();
    let revoked = world.keyless(&["source", "check", TOKEN]).run();
    assert!(revoked.exits(1).text().contains("sources/bw/session"), "{}", revoked.text());
}

/// Where the operator says that a program's data and keys are, no agent looks, and what the agent needs stays.
#[test]
fn what_a_program_is_granted_is_hidden_from_the_agent() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    let home = world.home.home();
    let places = ["gnupg", "passwords", "bitwarden", "op", "plugin"];
    let places = places.map(|name| home.join("srv").join(name));
    for place in &places {
        fs::create_dir_all(place).unwrap();
        fs::write(place.join("key"), world.canary.value()).unwrap();
    }
    let [gnupg, store, bitwarden, op, plugin] = &places;
    let none = world.operator_file("none");
    let (path, work) = (std::env::var("PATH").unwrap(), world.home.work());
    sources(
        &world,
        &format!(
            "[[source]]\nname = \"p\"\ntype = \"pass\"\nprogram = {none:?}\n\
             [source.environment]\nGNUPGHOME = {gnupg:?}\nPASSWORD_STORE_DIR = {store:?}\nPATH = {path:?}\n\
             [[source]]\nname = \"b\"\ntype = \"bitwarden\"\nprogram = {none:?}\n\
             [source.environment]\nBITWARDENCLI_APPDATA_DIR = {bitwarden:?}\nHOME = {home:?}\n\
             [[source]]\nname = \"o\"\ntype = \"1password\"\nprogram = {none:?}\n\
             [source.environment]\nOP_CONFIG_DIR = {op:?}\nWORK = {work:?}\n\
             [[source]]\nname = \"plugin\"\ntype = \"plugin\"\nprogram = {none:?}\n\
             checksum_sha256 = \"{}\"\nenvironment = {{ KEYS = {plugin:?}, CERTS = \"/etc/ssl\" }}\n",
            "0".repeat(64)
        ),
    );
    add_local(&world, "team/other/value", &world.another_value());
    world.add(TOKEN, &["--to", ALLOWED, "--env", VARIABLE]).ok();
    for place in &places {
        let look = format!("cat {}/key", place.display());
        let seen = world.agent_sh(&look).run();
        assert_ne!(seen.status.code(), Some(0), "{}: {}", place.display(), seen.text());
    }
    world.agent_sh(&format!("ls . /etc/ssl \"$HOME\" > /dev/null && {USE}")).run().ok();
    world.assert_received(&origin);
    fs::remove_dir_all(home.join("srv")).unwrap();
}
