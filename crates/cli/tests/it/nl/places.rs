//! Places of sources that no secret stands for, named by their reference.

use std::fs;

use super::*;

/// A folder with values and a source for it, whose settings have these lines.
fn mounted(world: &World, more: &str) {
    let mount = world.operator_file("mount");
    for place in ["prod/db", "prod/bound", "prod/bait", "prod/never-granted", "apart/key"] {
        let file = mount.join(place);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, world.canary.value()).unwrap();
    }
    let folder = mount.display();
    let text =
        format!("[[source]]\nname = \"here\"\ntype = \"files\"\nfolder = '{folder}'\n{more}");
    world.home.write("keyless/sources.toml", text).unwrap();
}

fn exec(template: &str) -> Value {
    json!({ "type": "exec", "template": template })
}

/// What an agent is told of a place, but for the place itself.
fn refusal(served: &Served<'_>, place: &str) -> String {
    let answer = served.act(&exec(&format!("printf %s {{{{nl:{place}}}}}")));
    assert_eq!(answer["status"], 404, "{place}: {answer}");
    answer["body"]["error"].to_string().replace(place, "…")
}

#[test]
fn a_place_without_a_secret_is_had_by_a_grant_for_that_very_reference() {
    let world = with_secrets();
    mounted(&world, "references = [\"prod/*\"]\n");
    for (path, place, more) in [
        ("team/prod/bound", "prod/bound", ["--to", ALLOWED]),
        ("team/prod/bait", "prod/bait", ["--honeypot", "--json"]),
    ] {
        let source = format!("source:here:{place}");
        let add = ["secret", "add", path, "--source", &source];
        world.keyless(&[&add[..], &more].concat()).run().ok();
    }
    // It shows values on purpose, more than once.
    let served = Served::with(&world, "detection = 'record'");
    // Nothing names it; what names everything names secrets, and a wildcard none that nobody has thought of.
    let nowhere = refusal(&served, "here://prod/nothing");
    assert!(nowhere.contains("NL-E302"), "{nowhere}");
    granted(&world, AGENT, &["*", "**", "here://prod/*", "k8s://**"]);
    for place in ["here://prod/db", "k8s://prod/db", "here://prod/never-granted"] {
        assert_eq!(refusal(&served, place), nowhere);
    }
    let create = ["grant", "create", "--agent", AGENT, "--for", "1h", "--action", "*"];
    let warned = |place: &str| {
        let made = world.keyless(&[&create[..], &["--secret", place]].concat()).run();
        made.errors().contains("references in sources.toml")
    };
    assert_eq!((warned("here://prod/db"), warned("here://apart/key")), (false, true));
    // By its source's name and its kind's.
    for place in ["here://prod/db", "k8s://prod/db"] {
        let command = format!("printf %s {{{{nl:{place}}}}}");
        let had = served.act(&exec(&command));
        let marker = format!("[REDACTED:{place}]");
        assert_eq!(had["body"]["result"]["stdout"], marker.as_str(), "{had}");
        let own = world.keyless(&["exec", "--", &command]).run().ok();
        assert!(own.contains(&marker), "{own}");
    }
    // In a jail of its own: without a host of the grant's it reaches none.
    let call =
        format!("curl -sS --max-time 5 -H 'X: {{{{nl:here://prod/db}}}}' https://{ALLOWED}/");
    let call = served.act(&exec(&call));
    assert_eq!(call["body"]["error"]["nl_code"], "NL-EX01", "{call}");
    // Others stay as they were.
    for place in ["here://prod/never-granted", "here://prod/nothing", "here://prod//db"] {
        assert_eq!(refusal(&served, place), nowhere);
    }
    // Whoever has a grant for one that is not open is told.
    let closed = refusal(&served, "here://apart/key");
    assert!(
        closed.contains("NL-E302") && closed.contains("references in sources.toml"),
        "{closed}"
    );
    // A version of it nobody knows.
    let older = served.act(&exec("printf %s {{nl:here://prod/db@v1}}"));
    assert_eq!(older["body"]["error"]["nl_code"], "NL-E302", "{older}");
    // Work on it may be handed on, with that reference alone.
    let hello = json!([{ "over": "unix", "as": "helper", "messages": [] }]);
    assert_eq!(served.client(&hello)[0][0]["payload"]["status"], "authenticated");
    let handed = |secret: &str| {
        let scope = json!({ "secrets": [secret], "max_uses": 1, "ttl_seconds": 300 });
        served.act(&json!({
            "type": "delegate", "delegate_to": HELPER, "delegation_scope": scope,
            "delegated_action": exec("printf %s {{nl:here://prod/db}}"),
        }))
    };
    let done = handed("here://prod/db");
    assert_eq!(done["body"]["result"]["stdout"], "[REDACTED:here://prod/db]", "{done}");
    assert_ne!(handed("*")["body"]["status"], "success");
    // Where a secret is kept its own rules hold: a placeholder enters, and bait is bait.
    granted(&world, AGENT, &["here://prod/bound", "here://prod/BOUND", "here://prod/bait"]);
    let bound = served.act(&exec("printf %s {{nl:here://prod/bound}} | cut -c1-6"));
    assert_eq!(bound["body"]["result"]["stdout"], "kloak_\n", "{bound}");
    refusal(&served, "here://prod/BOUND");
    // What is on record names the place.
    let used = world.log().into_iter().filter(|entry| entry["detail"]["kind"] == "released");
    let paths: Vec<String> = used.map(|entry| entry["secrets_used"][0].to_string()).collect();
    assert!(paths.iter().any(|path| path.contains("at-source/here/prod-db-")), "{paths:?}");
    assert_eq!(world.keyless(&["audit", "verify", "--json"]).run().data()["status"], "valid");
    let bait = served.act(&exec("printf %s {{nl:here://prod/bait}}"));
    assert_eq!(bait["body"]["error"]["nl_code"], "NL-E602", "{bait}");
}

#[test]
fn a_source_is_closed_to_references_unless_the_operator_opens_it() {
    let world = with_secrets();
    mounted(&world, "");
    let served = Served::start(&world);
    let nowhere = refusal(&served, "here://prod/db");
    granted(&world, AGENT, &["here://prod/db", "env://HOME"]);
    let closed = refusal(&served, "here://prod/db");
    assert_ne!(closed, nowhere);
    assert!(closed.contains("references in sources.toml"), "{closed}");
    refusal(&served, "env://HOME");
    let own = ["exec", "--dry-run", "--", "true {{nl:here://prod/db}}"];
    world.keyless(&own).run().exits(3);
}

#[test]
fn a_person_is_asked_about_a_place_as_about_a_secret() {
    let world = with_secrets();
    mounted(&world, "references = [\"prod/*\"]\n");
    let served = Served::start(&world);
    granted_with(&world, AGENT, &["here://prod/db"], &["--approve"]);
    let action = exec("printf %s {{nl:here://prod/db}}");
    let ask = || {
        let step = json!([{ "over": "http", "action": action, "request_id": "ask-1" }]);
        served.client(&step).remove(0)
    };
    let told = ask();
    let error = &told["body"]["error"];
    assert_eq!(error["nl_code"], "NL-E204", "{told}");
    let id = error["details"]["approval_id"].as_str().unwrap().to_owned();
    let shown = world.keyless(&["approve", "--list"]).run().ok();
    assert!(
        shown.contains("here://prod/db") || shown.contains("at-source/here/prod-db-"),
        "{shown}"
    );
    world.keyless(&["approve", "--once", &id]).run().ok();
    let done = ask();
    assert_eq!(done["body"]["result"]["stdout"], "[REDACTED:here://prod/db]", "{done}");
}
