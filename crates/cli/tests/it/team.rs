//! Two brokers on one PostgreSQL: what they share, what they don't, and what is left when it dies.

use std::{cell::RefCell, fs, io::Write as _, process::Stdio};

use keyless_testkit::{Canary, Postgres, PostgresOptions, TestCa};
use serde_json::{Value, json};

use crate::{
    invocation::KEYLESS,
    mcp::{Agent, USE, about, approve, gated, pending, unlock},
    nl::{
        BOXED,
        sessions::{RUN, spoken, stdin_of},
    },
    sessions::{agents, ends, kill_broker},
    world::{ALLOWED, TOKEN, VARIABLE, World, wait_until},
};

/// Two homes with the same value to be seen by nobody, and the database of both.
struct Team {
    ann: World,
    bob: World,
    database: Postgres,
}

impl Team {
    /// Ann's machine has made the vault and has [`TOKEN`]; Bob's knows the address and the passphrase.
    fn new() -> Self {
        let (ann, mut bob) = (World::empty(), World::empty());
        let password = ann.another_value();
        let options = PostgresOptions { ca: &ann.ca, names: &["localhost"], password: &password };
        let database = Postgres::start(&options).unwrap();
        let passphrase = fs::read(ann.operator_file("passphrase")).unwrap();
        bob.home.write("operator/passphrase", passphrase).unwrap();
        bob.canary = Canary::of(ann.canary.value());
        bob.watch(Canary::of(&*password));
        for world in [&ann, &bob] {
            world.home.write("operator/password", &password).unwrap();
            world.home.write("operator/database.pem", ann.ca.pem()).unwrap();
            configure(world, &database);
        }
        let recovery = ann.operator_file("recovery");
        ann.keyless(&["init", "--recovery-file", recovery.to_str().unwrap()]).run().ok();
        ann.add(TOKEN, &["--to", ALLOWED, "--env", VARIABLE]).ok();
        Self { ann, bob, database }
    }
}

/// Writes `config.toml`: routes, and the store on the server.
fn configure(world: &World, database: &Postgres) {
    world.write_config();
    let config = world.home.keyless_home().join("config.toml");
    let egress = fs::read_to_string(&config).unwrap();
    let (port, user, name) = (database.address().port(), Postgres::USER, Postgres::DATABASE);
    let file = |name| world.operator_file(name).display().to_string();
    let (password, roots) = (file("password"), file("database.pem"));
    let store = format!(
        "[store]\nurl = \"postgres://{user}@localhost:{port}/{name}\"\npassword_file = {password:?}\nroots = {roots:?}\n"
    );
    world.home.write("keyless/config.toml", store + &egress).unwrap();
}

fn chains(world: &World) -> Value {
    let passphrase = world.operator_file("passphrase");
    let verify = ["audit", "verify", "--passphrase-file", passphrase.to_str().unwrap(), "--json"];
    let data = world.keyless(&verify).run().data();
    assert_eq!((&data["status"], &data["head_checked"]), (&json!("valid"), &json!(true)));
    data["chains"].clone()
}

#[test]
fn two_brokers_share_one_database() {
    let mut team = Team::new();
    let origin = team.bob.origin(ALLOWED);
    configure(&team.bob, &team.database);
    let Team { ann, bob, database } = &team;
    assert!(!ann.home.keyless_home().join("store.db").exists());
    let again = bob.keyless(&["init"]).run();
    assert!(again.exits(2).errors().contains("PostgreSQL keyless@localhost"), "{}", again.errors());

    // A secret of hers is used by him.
    unlock(ann);
    unlock(bob);
    let used = bob.keyless(&["run", "--", "sh", "-c", USE]).without_passphrase().run();
    assert_eq!(used.ok(), "200");
    bob.assert_received(&origin);
    // The database's password is hidden from agents, wherever it lies.
    let password = bob.operator_file("password");
    let look = format!("test -s {} || echo hidden", password.display());
    let look = bob.keyless(&["run", "--", "sh", "-c", &look]).without_passphrase().run();
    assert_eq!(look.ok(), "hidden\n");

    // What she changes holds for him at once, and she answers what is asked of him.
    gated(ann, "per-call");
    let mut run = bob.keyless(&["run", "--", "sh", "-c", USE]).without_passphrase().start();
    wait_until("it is asked for", || !pending(ann).is_empty());
    let id = pending(ann)[0]["id"].as_str().unwrap().to_owned();
    approve(ann, &[&id, "--once"]).ok();
    assert_eq!(run.line(), "200");

    // Each has a chain of its own, and either sees that both are whole.
    for world in [ann, bob] {
        let chains = chains(world);
        let entries = |at: usize| chains[at]["entries"].as_u64().unwrap();
        assert!(entries(0) > 2 && entries(1) > 2 && chains[2].is_null(), "{chains}");
    }
    database
        .sql("UPDATE audit SET entry = replace(entry, 'success', 'denied') WHERE sequence = 2")
        .unwrap();
    let changed = ann.keyless(&["audit", "verify"]).run();
    assert!(changed.errors().contains("in the chain "), "{}", changed.errors());

    // The server never had what opens a value, nor a value.
    let dump = database.dump().unwrap();
    assert!(String::from_utf8_lossy(&dump).contains(TOKEN));
    ann.canary.assert_absent("the database's dump", &dump);
    let passphrase = fs::read_to_string(ann.operator_file("passphrase")).unwrap();
    Canary::of(passphrase.trim()).assert_absent("the database's dump", &dump);
}

/// One team, one set of grants and one of answers: what is used up, taken back or answered at one broker is so at both.
#[test]
fn grants_requests_and_answers_are_the_teams() {
    let mut team = Team::new();
    let origin = team.bob.origin(ALLOWED);
    configure(&team.bob, &team.database);
    let Team { ann, bob, .. } = &team;
    ann.add(BOXED, &[]).ok();
    unlock(ann);
    unlock(bob);
    let grant = |id: &str, uses: &str| {
        let words = ["grant", "create", "--agent", RUN, "--secret", "db/*", "--action", "*"];
        let more = ["--for", "1h", "--max-uses", uses, "--id", id];
        ann.keyless(&[&words[..], &more].concat()).run().ok();
    };
    let script = json!([["action_request", { "action": stdin_of("db/PASSWORD") }]]);
    let acts = |world: &World| spoken(world, &script).remove(0);
    let is_done = |answer: &Value| answer["result"]["stdout"] == "[REDACTED:db/PASSWORD]\n";
    let is_refused = |answer: &Value| {
        answer["error"]["code"].as_str().is_some_and(|code| code.starts_with("NL-E2"))
    };
    // Two uses are two, wherever they are made.
    assert!(is_refused(&acts(bob)), "nothing is granted yet");
    grant("shared", "2");
    for (world, name) in [(bob, "bob"), (ann, "ann")] {
        let answer = acts(world);
        assert!(is_done(&answer), "{name}: {answer}");
    }
    for world in [ann, bob] {
        let answer = acts(world);
        assert!(is_refused(&answer), "it is used up: {answer}");
    }
    // What she gave he takes back.
    grant("short", "10");
    assert!(is_done(&acts(bob)));
    bob.keyless(&["grant", "revoke", "short"]).run().ok();
    assert!(is_refused(&acts(ann)));

    // What his agent asks she answers; nobody else's agent hears of it.
    gated(bob, "per-call");
    let (mut his, mut hers) = (Agent::connect(bob), Agent::connect(ann));
    let id = his.ask("secrets_request_use_approval", &json!({ "path": TOKEN, "reason": "to try" }));
    let unknown = Err(format!("unknown request_id: {id}"));
    assert_eq!(hers.tool("secrets_poll_status", &json!({ "request_id": id })), unknown);
    approve(ann, &[&id, "--once"]).ok();
    assert_eq!(his.status(&id), "once");
    // And her word for one use of his run is good for one.
    let script = format!("for use in 1 2; do {USE}; echo; done");
    let mut run = bob.keyless(&["run", "--", "sh", "-c", &script]).without_passphrase().start();
    wait_until("it is asked for", || !pending(ann).is_empty());
    let first = pending(ann)[0]["id"].as_str().unwrap().to_owned();
    approve(ann, &[&first, "--once"]).ok();
    assert_eq!(run.line(), "200");
    wait_until("the next use is asked for", || !pending(ann).is_empty());
    assert_eq!(origin.requests().len(), 1);
    let second = pending(bob)[0]["id"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    approve(ann, &[&second, "--deny"]).ok();
    assert_eq!(run.line(), "403");
    assert!(!approve(bob, &[&second, "--once"]).status.success(), "it has its answer");
}

/// Each home ends what its own killed brokers left, and nothing of others, whose brokers it knows nothing of.
#[test]
fn a_killed_broker_of_one_home_costs_no_session_of_another() {
    let mut team = Team::new();
    let origin = team.bob.origin(ALLOWED);
    configure(&team.bob, &team.database);
    let Team { ann, bob, .. } = &team;
    unlock(ann);
    unlock(bob);
    let script = format!("echo up; while read line; do {USE}; echo; done");
    let [mut hers, mut his] = [ann, bob].map(|world| {
        world.keyless(&["run", "--", "sh", "-c", &script]).without_passphrase().start()
    });
    assert_eq!((hers.line(), his.line()), ("up".to_owned(), "up".to_owned()));
    assert_eq!(agents(ann).len(), 2);
    kill_broker(ann);
    unlock(ann);
    let left = agents(ann);
    assert_eq!((left.len(), ends(ann).len()), (1, 1));
    assert_ne!(ends(ann)[0].0, left[0]);
    his.say("go");
    assert_eq!(his.line(), "200");
    assert_eq!(origin.requests().len(), 1);
    chains(bob);
}

/// Two operators answer one request at once, each at their own broker: one value is taken, and who was too late is told so.
#[test]
fn of_two_operators_who_answer_at_once_one_is_taken() {
    let team = Team::new();
    let Team { ann, bob, .. } = &team;
    unlock(ann);
    unlock(bob);
    let mut agent = Agent::connect(bob);
    let version = || {
        let shown = ann.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
        shown["version"].as_u64().unwrap()
    };
    for round in 0..3 {
        let id = agent.ask("secrets_request_rotation", &about(TOKEN));
        let before = version();
        let begun = [ann, bob].map(|world| {
            let options = ["approve", &id, "--accept", "--overwrite", "--value-stdin"];
            let mut command = world.keyless(&options).into_command();
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let value = world.another_value();
            child.stdin.take().unwrap().write_all(value.as_bytes()).unwrap();
            child
        });
        let ended = begun.map(|child| child.wait_with_output().unwrap());
        let mut codes = ended.each_ref().map(|one| one.status.code().unwrap());
        let errors = ended.each_ref().map(|one| String::from_utf8_lossy(&one.stderr).into_owned());
        codes.sort_unstable();
        assert_eq!((codes, version() - before), ([0, 4], 1), "{round}: {errors:?}");
        assert!(errors.concat().contains("is ok: it was settled"), "{errors:?}");
        assert_eq!(agent.status(&id), "ok");
    }
}

#[test]
fn without_the_database_nothing_is_allowed_until_it_is_back() {
    let mut team = Team::new();
    let origin = team.ann.origin(ALLOWED);
    configure(&team.ann, &team.database);
    unlock(&team.ann);
    let script = format!("while read line; do {USE}; echo; done");
    let run = team.ann.keyless(&["run", "--", "sh", "-c", &script]).without_passphrase().start();
    let run = RefCell::new(run);
    run.borrow_mut().say("go");
    assert_eq!(run.borrow_mut().line(), "200");

    team.database.kill();
    // A permit of before lives five seconds.
    wait_until("it is refused", || {
        run.borrow_mut().say("go");
        run.borrow_mut().line() != "200"
    });
    let before = origin.requests().len();
    run.borrow_mut().say("go");
    assert_ne!(run.borrow_mut().line(), "200");
    assert_eq!(origin.requests().len(), before);
    let listed = team.ann.keyless(&["secret", "list"]).run();
    assert!(listed.errors().contains("can't be reached"), "{}", listed.errors());

    team.database.restart().unwrap();
    wait_until("it goes on", || {
        run.borrow_mut().say("go");
        run.borrow_mut().line() == "200"
    });
    team.ann.keyless(&["secret", "list"]).run().ok();
    chains(&team.ann);
}

/// What the command did is done, and its own status says so; that the log lacks the end is a matter of the log.
#[test]
fn a_run_whose_store_is_lost_ends_as_its_command() {
    let mut team = Team::new();
    let errors = team.ann.home.work().join("errors");
    let line =
        format!("exec {KEYLESS} run -- sh -c 'echo up; read line; exit 9' 2>{}", errors.display());
    let mut run = team.ann.keyless(&[]).instead(&["sh", "-c", &line]).start();
    assert_eq!(run.line(), "up");
    team.database.kill();
    run.say("go");
    assert_eq!(run.wait().code(), Some(9));
    let errors = fs::read_to_string(errors).unwrap();
    assert!(errors.contains("its end could not be written to the log"), "{errors}");
    assert!(errors.contains("Next: "), "{errors}");
    team.database.restart().unwrap();
}

#[test]
fn a_database_with_the_wrong_certificate_gets_nothing() {
    let team = Team::new();
    let other = TestCa::new();
    team.bob.home.write("operator/database.pem", other.pem()).unwrap();
    let refused = team.bob.keyless(&["secret", "list"]).run();
    assert!(refused.errors().contains("certificate"), "{}", refused.errors());
    let config = team.bob.home.keyless_home().join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    let weak = text.replacen("@localhost:", "@db.corp.test:", 1).replacen(
        "/postgres\"",
        "/postgres?sslmode=require\"",
        1,
    );
    team.bob.home.write("keyless/config.toml", weak).unwrap();
    let refused = team.bob.keyless(&["secret", "list"]).run();
    assert!(refused.exits(2).errors().contains("sslmode=verify-full"), "{}", refused.errors());
}

/// A database that a newer Keyless has changed is left as it is, and so is what else is done with it.
#[test]
fn a_database_of_a_newer_keyless_is_left_alone() {
    let team = Team::new();
    team.database.sql("UPDATE keyless_schema SET version = 99").unwrap();
    let rows = || team.database.sql("SELECT count(*), max(sequence) FROM audit").unwrap();
    let before = rows();
    for words in [
        &["secret", "list"][..],
        &["run", "--", "true"],
        &["secret", "rotate", TOKEN, "--value-stdin"],
        &["audit", "verify"],
        &["init", "--recovery-file", "none"],
    ] {
        let refused = team.bob.keyless(words).stdin("another-value-of-it").run();
        let errors = refused.exits(7).errors();
        assert!(errors.contains("update Keyless"), "{words:?}: {errors}");
        let json = team.bob.keyless(&[&["--json"], words].concat()).stdin("x").run();
        assert_eq!(json.exits(7).json()["errors"][0]["code"], "keyless_outdated", "{words:?}");
    }
    assert_eq!(rows(), before);
    let version = team.database.sql("SELECT version FROM keyless_schema").unwrap();
    assert_eq!(version, "99");
    let found = team.bob.keyless(&["doctor"]).run();
    assert!(found.text().contains("a newer Keyless"), "{}", found.text());
}
