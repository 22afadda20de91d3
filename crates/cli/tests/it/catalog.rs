//! The token catalog: what it knows, what it fills in, and what it refuses to store.

use keyless_testkit::{Origin, Script, Step};
use serde_json::json;

use crate::{
    terminal::at_a_terminal,
    world::{EVIL, TOKEN, World},
};

#[test]
fn it_lists_shows_and_checks() {
    let world = World::empty();
    let all = world.keyless(&["catalog", "list", "--json"]).run().data();
    assert!(all["patterns"].as_array().unwrap().len() > 45, "{all}");
    let text = world.keyless(&["catalog", "list", "fine-grained"]).run().ok();
    assert!(text.contains("github-fine-grained-pat  GITHUB_TOKEN  api.github.com"), "{text}");
    let text = world.keyless(&["catalog", "show", "npm-token"]).run().ok();
    assert!(text.contains("goes to:   registry.npmjs.org"), "{text}");
    world.keyless(&["catalog", "show", "no-such-thing"]).run().exits(3);
    world.keyless(&["catalog", "validate"]).run().ok();
}

/// The operator's own file takes the place of ours once that is agreed to, and one that can't be used is left out.
#[test]
fn the_operators_files_come_first() {
    let world = World::with_store();
    let ours = include_str!("../../../vault/catalog/npm.json");
    let own = ours.replace("registry.npmjs.org", "npm.corp.test");
    world.home.write("keyless/catalog/npm.json", own).unwrap();
    world.keyless(&["unlock"]).run().ok();
    world.home.write("keyless/catalog/broken.json", "{").unwrap();
    let listed = world.keyless(&["catalog", "list", "npm-token", "--json"]).run().json();
    assert_eq!(listed["data"]["patterns"][0]["to"], json!(["npm.corp.test"]));
    assert_eq!(listed["data"]["patterns"][0]["tier"], json!("user"));
    assert!(listed["warnings"][0].as_str().unwrap().contains("broken.json"), "{listed}");
    let checked = world.keyless(&["catalog", "validate", "--json"]).run();
    assert_eq!(checked.exits(2).json()["data"]["faults"].as_array().unwrap().len(), 1);
}

#[test]
fn a_pattern_fills_in_what_is_not_said() {
    let world = World::with_store();
    let value = world.watch(keyless_testkit::Canary::new());
    let add = ["secret", "add", TOKEN, "--pattern", "npm-token", "--value-stdin", "--json"];
    let refused = world.keyless(&add).stdin(&value[..]).run();
    assert_eq!(refused.exits(2).json()["errors"][0]["code"], json!("value_weak"));
    let anyway = [&add[..], &["--allow-weak"]].concat();
    world.keyless(&anyway).stdin(&value[..]).run().data();
    let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
    assert_eq!(shown["to"], json!(["registry.npmjs.org"]));
    assert_eq!(shown["locations"], json!(["header"]));
    assert_eq!(shown["env"], json!("NPM_TOKEN"));
    assert_eq!(shown["upkeep"]["pattern_id"], json!("npm-token"));
    let unknown = ["secret", "set", TOKEN, "--pattern", "npm-tokn"];
    world.keyless(&unknown).run().exits(2);
}

/// A kind of token of the operator's own; a project has none.
#[test]
fn the_operators_patterns_stand_beside_the_catalog() {
    let world = World::with_store();
    let value =
        world.watch(keyless_testkit::Canary::of("corp_token_0123456789_abcdefghij".to_owned()));
    let pattern = |id: &str| {
        format!(
            "[[pattern]]\nid = {id:?}\ndisplay_name = \"Corp key\"\nformat_regex = \"^corp_[a-z0-9_]+$\"\n\
             severity = \"high\"\nhint = \"x\"\n[pattern.metadata]\nretrieval_url = \"https://corp.test/keys\"\n"
        )
    };
    world.home.write("work/.keyless/patterns.d/corp.toml", pattern("corp-key")).unwrap();
    world.keyless(&["catalog", "show", "corp-key"]).run().exits(3);
    world.home.write("keyless/patterns.d/corp.toml", pattern("corp-key")).unwrap();
    world.home.write("keyless/patterns.d/broken.toml", "[[pattern\n").unwrap();
    world.home.write("keyless/patterns.d/npm.toml", pattern("npm-token")).unwrap();
    let shown = world.keyless(&["catalog", "show", "corp-key"]).run().ok();
    assert!(shown.contains("https://corp.test/keys"), "{shown}");

    let add = ["secret", "add", TOKEN, "--pattern", "corp-key", "--value-stdin"];
    let other = world.another_value();
    world.keyless(&add).stdin(&other[..]).run().exits(2);
    world.keyless(&add).stdin(&value[..]).run().ok();
    let upkeep = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data()["upkeep"].clone();
    assert_eq!(upkeep["pattern_id"], json!("corp-key"));
    assert_eq!(upkeep["retrieval_url"], json!("https://corp.test/keys"));

    let checks = world.keyless(&["doctor", "--json"]).run().json()["data"]["checks"].clone();
    let told: Vec<String> = checks
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["id"] == "files.patterns" && check["state"] == "warning")
        .map(|check| check["found"].as_str().unwrap().to_owned())
        .collect();
    for (file, words) in [
        ("broken.toml", "it is left out"),
        ("corp.toml", "\"hint\", which nothing reads"),
        ("npm.toml", "takes the place of the one that npm has"),
    ] {
        assert!(told.iter().any(|said| said.contains(file) && said.contains(words)), "{told:?}");
    }
    let file = world.home.keyless_home().join("patterns.d/broken.toml");
    world.keyless(&["catalog", "validate", file.to_str().unwrap()]).run().exits(2);
}

#[test]
fn what_looks_like_no_secret_is_not_stored() {
    let world = World::with_store();
    let add = |value: &str, more: &[&str]| {
        let words = [&["secret", "add", TOKEN, "--to", "a.test", "--value-stdin"], more].concat();
        world.keyless(&words).stdin(value).run()
    };
    for slip in [
        "changeme123",
        "<your-token-here>",
        "hunter2hunt",
        "aaaaaaaaaaaaaaaaaaaa",
        "CHANGE_ME_PLEASE",
        "TODO-insert-token",
        "123456789012",
        "%(secret)s-abcdef",
    ] {
        let seen = add(slip, &["--json"]);
        assert_eq!(seen.exits(2).json()["errors"][0]["code"], json!("value_weak"), "{slip}");
    }
    // What stands for a value is none, whatever is said.
    for options in [&[][..], &["--allow-weak"]] {
        let seen = add("kloak_abcdefghijkl1234", options);
        assert!(seen.errors().contains("placeholder of Keyless"), "{}", seen.errors());
        seen.exits(2);
    }
    add("changeme123", &["--allow-weak"]).ok();
}

const URL: &str = "https://catalog.test/acme.json";

/// A catalog of a provider `acme`, served as JSON; `name` is its only difference.
fn catalog(name: &str) -> String {
    let text = include_str!("../../../vault/catalog/npm.json");
    text.replace("\"npm\"", "\"acme\"")
        .replace("npm-token", "acme-token")
        .replace("The npm registry", name)
}

fn answer(kind: &str, body: &str) -> Script {
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
    Script::answer(head + body)
}

/// Serves `body` at [`URL`] from now on.
fn served(world: &mut World, kind: &str, body: &str) -> Origin {
    let script = answer(kind, body);
    let origin = world.origin_with("catalog.test", |options| options.script(script));
    world.write_config();
    origin
}

fn outcome(world: &World, words: &[&str], code: i32) -> serde_json::Value {
    let seen = world.keyless(&[&["catalog"], words, &["--json"]].concat()).run();
    let data = seen.exits(code).json()["data"].clone();
    data["addresses"][0]["outcome"].clone()
}

#[test]
fn what_an_address_brought_first_it_has_to_bring_again() {
    let mut world = World::empty();
    let first = served(&mut world, "application/json", &catalog("one"));
    let seen = outcome(&world, &["add-url", URL, "--enable", "--yes"], 0);
    assert_eq!((seen, first.connections().len()), (json!("loaded"), 1));
    let listed = world.keyless(&["catalog", "list", "acme", "--json"]).run().data();
    assert_eq!(listed["patterns"][0]["tier"], json!("url"));
    // Within its time nothing is fetched.
    assert_eq!(outcome(&world, &["refresh"], 0), json!("loaded-from-cache"));
    assert_eq!(first.connections().len(), 1);
    // But what is named is.
    assert_eq!(outcome(&world, &["refresh", URL], 0), json!("loaded"));
    assert_eq!(first.connections().len(), 2);
    world.keyless(&["catalog", "refresh", "https://other.test/x.json"]).run().exits(2);
    drop(first);
    assert_eq!(outcome(&world, &["refresh", "--all"], 1), json!("served-stale-cache"));

    let other = served(&mut world, "application/json", &catalog("two"));
    assert_eq!(outcome(&world, &["refresh", "--all"], 1), json!("blocked-tofu-mismatch"));
    let known = world.home.keyless_home().join("state/catalog/known_hashes.toml");
    let known = std::fs::read_to_string(known).unwrap();
    let recorded = known.rsplit('"').nth(1).unwrap();
    let told = world.keyless(&["catalog", "refresh", "--all", "--json"]).run().json().to_string();
    assert!(
        told.contains(URL) && told.contains(&format!("tofu:{}", &recorded[..12])),
        "{told} {known}"
    );
    let listed = world.keyless(&["catalog", "list", "acme", "--json"]).run().data();
    assert_eq!(listed["patterns"].as_array().unwrap().len(), 1, "the first stays in force");
    world.keyless(&["catalog", "forget", URL]).run().ok();
    assert_eq!(outcome(&world, &["status"], 0), json!("pending"));
    assert_eq!(outcome(&world, &["refresh"], 0), json!("loaded"));
    world.keyless(&["catalog", "pin", URL, "ABCDEF"]).run().exits(2);
    world.keyless(&["catalog", "pin", URL]).run().ok();
    drop(other);
    let _third = served(&mut world, "application/json", &catalog("three"));
    assert_eq!(outcome(&world, &["refresh", "--all"], 1), json!("blocked-pin"));
    let row = world.keyless(&["catalog", "status", "--json"]).run().json();
    assert!(row.to_string().contains(r#""pin:"#), "{row}");
    // A cache that was changed is no cache.
    let cache = world.home.keyless_home().join("state/catalog/cache");
    for entry in std::fs::read_dir(cache).unwrap() {
        std::fs::write(entry.unwrap().path(), catalog("four")).unwrap();
    }
    assert_eq!(outcome(&world, &["status"], 0), json!("blocked-pin"), "why none is in force");
    world.keyless(&["catalog", "remove", URL]).run().ok();
    world.keyless(&["catalog", "remove", URL]).run().exits(2);
    let record = world.home.keyless_home().join("state/catalog/audit.log");
    let lines = std::fs::read_to_string(record).unwrap();
    assert!(lines.lines().count() >= 6 && lines.contains("blocked-pin"), "{lines}");
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["url"], &first["outcome"], &first["status_code"]),
        (&json!(URL), &json!("loaded"), &json!(200))
    );
    assert!(first["timestamp"].is_string() && first["sha256"].is_string(), "{first}");
}

/// The operator's file stays theirs, remarks and all.
#[test]
fn an_address_is_added_to_the_file_as_it_was_written() {
    let mut world = World::empty();
    let _origin = served(&mut world, "application/json", &catalog("one"));
    let ours = "# ours\nenable_url_catalogs   = false # not yet\n";
    let file = world.home.write("keyless/catalog-sources.toml", ours).unwrap();
    assert_eq!(outcome(&world, &["add-url", URL, "--enable", "--yes"], 0), json!("loaded"));
    let read = || std::fs::read_to_string(&file).unwrap();
    let enabled = ours.replace("false", "true");
    assert_eq!(read(), format!("{enabled}\n[[source]]\nurl = \"{URL}\"\n"));
    world.keyless(&["catalog", "pin", URL]).run().ok();
    assert!(read().starts_with(&enabled) && read().contains("\nsha256 = "), "{}", read());
    world.keyless(&["catalog", "remove", URL]).run().ok();
    assert_eq!(read(), enabled);
}

/// A file that did not come whole says nothing of what is there: what came before stays in force, as when nobody answers.
#[test]
fn an_answer_that_breaks_off_is_no_large_one() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let half = "{\"schema_version\": 1,";
    for (broken, end) in [
        (format!("{head}content-length: 4096\r\n\r\n{half}"), None),
        (format!("{head}content-length: 4096\r\n\r\n{half}"), Some(Step::Abort)),
        (format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\n{half}"), None),
        ("HTTP/1.1 200".to_owned(), None),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n".to_owned(), None),
    ] {
        let script = || {
            let answer = [Step::ReadHead, Step::Send(broken.clone().into())];
            Script::new(answer.into_iter().chain(end.clone()))
        };
        let mut world = World::empty();
        let origin = world.origin_with("catalog.test", |options| options.script(script()));
        world.write_config();
        let seen = outcome(&world, &["add-url", URL, "--enable", "--yes"], 1);
        assert_eq!(seen, json!("network-error"), "{broken}");
        drop(origin);
        let whole = served(&mut world, "application/json", &catalog("one"));
        assert_eq!(outcome(&world, &["refresh"], 0), json!("loaded"));
        drop(whole);
        let _origin = world.origin_with("catalog.test", |options| options.script(script()));
        world.write_config();
        assert_eq!(outcome(&world, &["refresh", "--all"], 1), json!("served-stale-cache"));
    }
}

#[test]
fn what_is_no_catalog_is_not_taken() {
    let large = format!("{{\"x\": \"{}\"}}", "y".repeat(300 * 1024));
    let newer = catalog("one").replace("\"schema_version\": 1", "\"schema_version\": 2");
    for (kind, body, expected) in [
        ("text/html", catalog("one"), "blocked-content-type"),
        ("application/json", "{}".to_owned(), "blocked-parse"),
        ("application/json", newer, "blocked-schema-version"),
        ("application/json", large, "blocked-size"),
    ] {
        let mut world = World::empty();
        let _origin = served(&mut world, kind, &body);
        let seen = outcome(&world, &["add-url", URL, "--enable", "--yes"], 1);
        assert_eq!(seen, json!(expected));
        let listed = world.keyless(&["catalog", "list", "acme", "--json"]).run().data();
        assert_eq!(listed["patterns"], json!([]));
    }
    // Without a length it is seen by its bytes.
    let kind = "content-type: application/json\r\ntransfer-encoding: chunked";
    let endless = format!("HTTP/1.1 200 OK\r\n{kind}\r\n\r\n60000\r\n{}", "y".repeat(0x60000));
    let mut world = World::empty();
    let _origin =
        world.origin_with("catalog.test", |options| options.script(Script::answer(endless)));
    world.write_config();
    let seen = outcome(&world, &["add-url", URL, "--enable", "--yes"], 1);
    assert_eq!(seen, json!("blocked-size"));
    let world = World::empty();
    let http = ["catalog", "add-url", "http://catalog.test/a.json", "--enable", "--yes"];
    world.keyless(&http).run().exits(2);
    // It is refused before anybody is asked whether it is to be trusted.
    let refused = world.keyless(&http[..4]).run();
    assert!(refused.exits(2).errors().contains("no plain https address"), "{}", refused.errors());
    // Without the operator's route the name would be an internal address.
    let internal =
        ["catalog", "add-url", "https://localhost/a.json", "--enable", "--yes", "--json"];
    let refused = world.keyless(&internal).run().exits(4).json();
    let told = &refused["errors"][0];
    assert_eq!(told["code"], json!("catalog_internal"));
    assert!(told.to_string().contains("put the file itself into catalog/"), "{told}");
    // As things are it can't be fetched from: nothing waits for that.
    let status = world.keyless(&["catalog", "status", "--json"]).run().data();
    assert_eq!((&status["addresses"], &status["enabled"]), (&json!([]), &json!(false)));
    let unasked = ["catalog", "add-url", URL, "--enable"];
    world.keyless(&unasked).run().exits(2);
}

/// What was added before addresses counted is let count by the word that the warning names.
#[test]
fn an_address_may_be_let_count_later() {
    let mut world = World::empty();
    let _origin = served(&mut world, "application/json", &catalog("one"));
    let add = ["catalog", "add-url", URL, "--yes"];
    let warned = world.keyless(&add).run();
    assert!(warned.errors().contains("--enable lets them"), "{}", warned.errors());
    let known = || {
        let listed = world.keyless(&["catalog", "list", "acme", "--json"]).run().data();
        listed["patterns"].as_array().unwrap().len()
    };
    assert_eq!(known(), 0);
    assert_eq!(outcome(&world, &["add-url", URL, "--enable"], 0), json!("loaded-from-cache"));
    assert_eq!(known(), 1);
    // Once is enough for everything else.
    let errors = world.keyless(&add).run().exits(2).errors();
    assert!(errors.contains("is there already"), "{errors}");
}

/// What an address brings says where a token may go: for a service that Keyless knows it is told, another service's pattern
/// stays what it was, and its words make no lines of ours.
#[test]
fn an_address_takes_no_service_over_unseen() {
    let mut world = World::empty();
    let sly = catalog("one")
        .replace("Publishes and reads packages", "One\\n  goes to:   api.github.com")
        .replace("acme-token", "github-pat");
    let _origin = served(&mut world, "application/json", &sly);
    let added = world.keyless(&["catalog", "add-url", URL, "--enable", "--yes"]).run();
    assert!(!added.errors().contains("in place of"), "{}", added.errors());
    let shown = world.keyless(&["catalog", "show", "github-pat"]).run().ok();
    assert!(shown.starts_with("GitHub · github-pat"), "{shown}");
    let shown = world.keyless(&["catalog", "show", "acme"]).run().ok();
    let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with("  goes to:")).collect();
    assert_eq!(lines, ["  goes to:   registry.npmjs.org"], "{shown}");

    let mut world = World::empty();
    let ours = include_str!("../../../vault/catalog/npm.json");
    let _origin =
        served(&mut world, "application/json", &ours.replace("registry.npmjs.org", "n.test"));
    let added = world.keyless(&["catalog", "add-url", URL, "--enable", "--yes"]).run();
    let errors = added.errors();
    assert!(errors.contains("says of npm counts in place of what Keyless knows"), "{errors}");
}

/// A project's catalog is written by whoever writes in the project, agents too: a person reads it at a terminal first, and
/// again when it has changed.
#[test]
fn a_projects_file_counts_once_a_person_trusts_it() {
    let mut world = World::with_store();
    let host = "registry.npmjs.org";
    let origin = world.origin(host);
    world.write_config();
    let text = catalog("Ours").replace("npm_", "acme_").replace("\"NPM_TOKEN\"", "\"ACME_KEY\"");
    let file = ".keyless/catalog/acme.json";
    world.home.write("work/.keyless/catalog/acme.json", &text).unwrap();
    world.home.write("work/.keyless/catalog/broken.json", "{").unwrap();
    world.home.write("work/.env.example", "ACME_KEY=\n").unwrap();
    let list = || {
        let listed = world.keyless(&["catalog", "list", "acme", "--json"]).run().json();
        (listed["data"]["patterns"].clone(), listed["warnings"].to_string())
    };
    let proposed = || {
        let lines = world.keyless(&["setup", "--scan-only", "--json"]).run().text();
        lines.contains("\"acme-token\"") && lines.contains(host)
    };
    let value = world.watch(keyless_testkit::Canary::new());
    let key = format!("acme_{}", &value.replace(|c: char| !c.is_ascii_alphanumeric(), "x")[..36]);
    let add = ["secret", "add", "team/acme/key", "--pattern", "acme-token", "--value-stdin"];

    let (none, warned) = list();
    assert_eq!(none, json!([]));
    assert!(warned.contains("counts once you trust it: keyless catalog trust FILE"), "{warned}");
    assert!(warned.contains("broken.json: EOF"), "{warned}");
    assert!(!proposed());
    world.keyless(&add).stdin(&key[..]).run().exits(2);
    let checked = world.keyless(&["catalog", "validate", "--json"]).run().exits(2).json();
    assert_eq!(checked["data"]["faults"].as_array().unwrap().len(), 1, "{checked}");

    // Nobody but a person at a terminal.
    let trust = ["catalog", "trust", file];
    let refused = world.keyless(&trust).run().exits(2).errors();
    assert!(refused.contains("by a person at a terminal"), "{refused}");
    let no = "expect('goes to:   registry.npmjs.org')\nexpect('Trust this file?')\nsay('n\\r')\nfinish(code=0)";
    at_a_terminal(&world, world.keyless(&trust), no);
    assert_eq!(list().0, json!([]));
    let yes = no.replace("'n\\r'", "'y\\r'");
    at_a_terminal(&world, world.keyless(&trust), &yes);
    let (listed, warned) = list();
    assert_eq!((&listed[0]["tier"], &listed[0]["to"]), (&json!("project"), &json!([host])));
    assert!(!warned.contains("acme.json") && warned.contains("broken.json"), "{warned}");
    assert!(proposed());
    let status = world.keyless(&["catalog", "status", "--json"]).run().data();
    assert_eq!(status["files"][0]["trust"], json!("trusted"), "{status}");

    // The format counts, and so do the hosts and the check.
    world.keyless(&add).stdin(&value[..]).run().exits(2);
    world.keyless(&add).stdin(&key[..]).run().ok();
    let verdict = || {
        let checked = world.keyless(&["secret", "check", "team/acme/key", "--json"]).run().json();
        checked["data"]["secrets"][0]["verdict"].clone()
    };
    assert_eq!(verdict(), json!("valid"));
    assert_eq!(origin.requests().len(), 1);

    // What it says now nobody has read.
    let moved = text.replace(host, EVIL);
    world.home.write("work/.keyless/catalog/acme.json", moved).unwrap();
    let (none, warned) = list();
    assert_eq!(none, json!([]));
    assert!(warned.contains("it is not the file that you trusted"), "{warned}");
    assert_eq!(verdict(), json!("unsupported"));
    world.home.write("work/.keyless/catalog/acme.json", &text).unwrap();
    assert_eq!(verdict(), json!("valid"));
    world.keyless(&["catalog", "forget", file]).run().ok();
    assert_eq!((list().0, verdict()), (json!([]), json!("unsupported")));
    world.keyless(&["catalog", "forget", file]).run().exits(2);

    // One that is gone can still be forgotten, and does not count when it comes back.
    at_a_terminal(&world, world.keyless(&trust), &yes);
    std::fs::remove_file(world.home.root().join("work").join(file)).unwrap();
    world.keyless(&["catalog", "forget", file]).run().ok();
    world.home.write("work/.keyless/catalog/acme.json", &text).unwrap();
    assert_eq!(list().0, json!([]));
    let record = world.home.keyless_home().join("state/catalog/audit.log");
    let lines = std::fs::read_to_string(record).unwrap();
    assert!(lines.contains("\"trusted\"") && lines.contains("\"forgotten\""), "{lines}");
}

/// One catalog counts for all stored secrets: two projects that say different things of one service are not both trusted.
#[test]
fn one_project_does_not_speak_for_another() {
    let world = World::empty();
    let text = catalog("Ours").replace("npm_", "acme_").replace("\"NPM_TOKEN\"", "\"ACME_KEY\"");
    let theirs = text.replace("registry.npmjs.org", EVIL);
    world.home.write("work/.keyless/catalog/acme.json", &text).unwrap();
    world.home.write("work/a/.keyless/catalog/acme.json", &theirs).unwrap();
    world.home.write("work/b/.keyless/catalog/acme.json", &text).unwrap();
    let trust = |file: &str, script: &str| {
        at_a_terminal(&world, world.keyless(&["catalog", "trust", file]), script)
    };
    let yes = "expect('check:     GET https://')\nexpect('Trust this file?')\nsay('y\\r')\nfinish(code=0)";
    trust(".keyless/catalog/acme.json", yes);
    let no = "expect('says something else of acme')\nfinish(code=1)";
    let screen = trust("a/.keyless/catalog/acme.json", no);
    assert!(!screen.contains("Trust this file?"), "{screen}");
    // A copy says the same.
    trust("b/.keyless/catalog/acme.json", yes);
}

/// What Keyless or its operator knows is not a project's to say, whoever would trust it.
#[test]
fn a_projects_file_takes_no_service_over() {
    let world = World::empty();
    let ours = include_str!("../../../vault/catalog/npm.json");
    let theirs = ours.replace("registry.npmjs.org", EVIL);
    world.home.write("work/.keyless/catalog/npm.json", theirs).unwrap();
    let trust = world.keyless(&["catalog", "trust"]);
    let screen = at_a_terminal(&world, trust, "expect('takes nobody')\nfinish(code=1)");
    assert!(!screen.contains("Trust this file?"), "{screen}");
    let shown = world.keyless(&["catalog", "show", "npm-token"]).run().ok();
    assert!(shown.contains("goes to:   registry.npmjs.org"), "{shown}");
    // Only what lies in a project's catalog is one.
    world.home.write("work/acme.json", catalog("one")).unwrap();
    let trust = world.keyless(&["catalog", "trust", "acme.json"]);
    at_a_terminal(&world, trust, "expect('lies in no .keyless/catalog')\nfinish(code=1)");
}
