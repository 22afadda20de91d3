//! Scope grants by the operator's hand: made, listed, explained, revoked, on record.

use serde_json::json;

use crate::{
    invocation::Seen,
    world::{TOKEN, World},
};

const AGENT: &str = "nl://acme.corp/bot/1.0.0";

#[test]
fn a_grant_is_made_explained_and_taken_back() {
    let world = World::with_token();
    let explain =
        |path: &str| world.keyless(&["grant", "explain", "--agent", AGENT, "--json", path]).run();
    explain(TOKEN).exits(4);
    let made =
        ["grant", "create", "--agent", AGENT, "--secret", "api/*", "--max-uses", "3", "--id", "g1"];
    world.keyless(&made).run().ok();
    assert_eq!(explain(TOKEN).data()["permissions"][0]["lacks"], json!([]));
    let other = explain("team/mail/token");
    other.exits(4);
    assert_eq!(other.json()["data"]["permissions"][0]["lacks"], json!(["it names other secrets"]));

    // The protocol's own object, from a file; a condition that is not known is refused.
    let mut grant = world.keyless(&["grant", "show", "g1", "--json"]).run().data()["grant"].clone();
    grant["grant_id"] = json!("g2");
    let from_stdin = |grant: &serde_json::Value| {
        world.keyless(&["grant", "create", "--file", "-"]).stdin(grant.to_string()).run()
    };
    from_stdin(&grant).ok();
    grant["permissions"][0]["conditions"]["moon_phase"] = json!("full");
    assert!(from_stdin(&grant).exits(2).errors().contains("moon_phase"));
    // The file is the whole of it: what stands beside would be passed over.
    for beside in [
        &["--approve"][..],
        &["--max-uses", "1"],
        &["--trust", "L2"],
        &["--host", "db.test"],
        &["--for", "1h"],
        &["--id", "g3"],
        &["--organization", "acme"],
    ] {
        let words = [&["grant", "create", "--file", "-"], beside].concat();
        let errors = world.keyless(&words).stdin("{}").run().exits(2).errors();
        assert!(errors.contains("--file") && errors.contains(beside[0]), "{errors}");
    }

    world.keyless(&["grant", "revoke", "g1", "--reason", "over"]).run().ok();
    let listed = world.keyless(&["grant", "list", "--json"]).run().data();
    let states: Vec<_> =
        listed["grants"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert_eq!(states, ["revoked", "active"]);
    let entries = world.keyless(&["audit", "tail", "--json"]).run().data().to_string();
    assert!(entries.contains("grant_create") && entries.contains("grant_revoke"), "{entries}");
    world.keyless(&["delegation", "list"]).run().ok();
}

/// As the agent itself writes it; and its own grants come before those of others.
#[test]
fn a_secret_is_explained_by_its_short_reference() {
    let world = World::with_token();
    world.add("team/web/api/token", &[]).ok();
    let granted = |id: &str, agent: &str, more: &[&str]| {
        let made = ["grant", "create", "--agent", agent, "--id", id];
        world.keyless(&[&made[..], more].concat()).run().ok();
    };
    let explain = |name: &str| {
        let asked = ["grant", "explain", "--agent", AGENT, "--json", name];
        world.keyless(&asked).run()
    };
    // Of several no grant says which.
    let ambiguous = explain("api/TOKEN").exits(2).json().to_string();
    assert!(ambiguous.contains("ambiguous") && ambiguous.contains(TOKEN), "{ambiguous}");
    granted("g-other", "nl://acme.corp/other/1.0.0", &["--secret", "**"]);
    granted("g-mail", AGENT, &["--secret", "mail/*"]);
    let told = |name: &str| {
        let said = explain(name).json()["data"]["permissions"].clone();
        let ids = said.as_array().unwrap().iter();
        ids.map(|one| (one["secret"].clone(), one["grant_id"].clone())).collect::<Vec<_>>()
    };
    let [first, second] = &told(TOKEN)[..] else { panic!() };
    assert_eq!((&first.1, &second.1), (&json!("g-mail"), &json!("g-other")));
    granted("g-own", AGENT, &["--secret", TOKEN]);
    for name in ["api/TOKEN", "{{nl:api/token}}", TOKEN] {
        assert_eq!(told(name)[0], (json!(TOKEN), json!("g-own")), "{name}");
        assert_eq!(explain(name).data()["allowed"], json!(true), "{name}");
    }
    explain("nothing/HERE").exits(3);
    explain("a b").exits(2);
}

#[test]
fn an_agent_that_may_not_act_is_not_told_to_be_allowed() {
    let world = World::with_token();
    let register = ["agent", "register", AGENT, "--json"];
    let registered = world.keyless(&register).run().data();
    let instance = registered["aid"]["instance_id"].as_str().unwrap();
    world.keyless(&["grant", "create", "--agent", AGENT, "--secret", "api/*"]).run().ok();
    let explain = || world.keyless(&["grant", "explain", "--agent", AGENT, "--json", TOKEN]).run();
    assert_eq!(explain().data()["allowed"], json!(true));
    for change in ["activate", "suspend"] {
        world.keyless(&["agent", change, instance]).run().ok();
    }
    let told = explain();
    told.exits(4);
    let data = &told.json()["data"];
    assert_eq!((&data["allowed"], &data["agent"]), (&json!(false), &json!(["agent_suspended"])));
}

#[test]
fn a_grant_for_an_organization_that_has_no_such_agent_is_warned_of() {
    let world = World::with_token();
    let warned = |more: &[&str]| {
        let made = ["grant", "create", "--agent", AGENT, "--secret", "api/*"];
        world.keyless(&[&made[..], more].concat()).run().exits(0).errors()
    };
    assert!(warned(&[]).contains("no agent is registered as"));
    world.keyless(&["agent", "register", AGENT, "--organization", "acme"]).run().ok();
    assert!(warned(&[]).contains("is of the organization local"));
    let fits = warned(&["--organization", "acme"]);
    assert!(!fits.contains("no agent"), "{fits}");
}

#[test]
fn an_organizations_own_type_of_agent_has_a_risk() {
    let world = World::with_token();
    let register = |more: &[&str]| {
        world.keyless(&[&["agent", "register", AGENT, "--json"], more].concat()).run()
    };
    for kind in ["custom", "custom:acme/reviewer"] {
        let aid = register(&["--type", kind, "--risk", "high"]).data()["aid"].clone();
        assert_eq!(
            (&aid["agent_type"], &aid["metadata"]["risk_level"]),
            (&json!(kind), &json!("high"))
        );
    }
    for (unfit, words) in [
        (&["--type", "custom"][..], "--risk"),
        (&["--risk", "low"], "--risk"),
        (&["--type", "custom", "--risk", "total"], "very_high"),
    ] {
        let refused = world.keyless(&[&["agent", "register", AGENT], unfit].concat()).run();
        assert!(refused.exits(2).errors().contains(words), "{unfit:?}");
    }
}

#[test]
fn a_grant_that_can_never_permit_anything_is_not_made() {
    let world = World::with_token();
    for (more, named) in [
        (["--action", "egress"], "sdk_proxy, delegate"),
        (["--max-concurrent", "0"], "--max-concurrent"),
        (["--max-per-minute", "0"], "--max-per-minute"),
    ] {
        let made = ["grant", "create", "--agent", AGENT, "--secret", "api/*"];
        let told = world.keyless(&[&made[..], &more].concat()).run().exits(2).errors();
        assert!(told.contains(named), "{told}");
    }
}

/// Before it says anything else of it, and with the place of what is wrong.
#[test]
fn a_grant_in_a_file_is_refused_by_the_field_that_is_wrong() {
    let world = World::with_token();
    let made = ["grant", "create", "--agent", AGENT, "--secret", "api/*", "--id", "g1", "--json"];
    let good = world.keyless(&made).run().data()["grant"].clone();
    for (until, words) in [
        (json!("tomorrow"), "`permissions[0].conditions.valid_until`: "),
        (
            json!("2001-01-01T00:00:00Z"),
            "the grant can't be used: permissions.conditions.valid_until",
        ),
    ] {
        let mut bad = good.clone();
        bad["permissions"][0]["conditions"]["valid_until"] = until;
        let refused = world.keyless(&["grant", "create", "--file", "-"]).stdin(bad.to_string());
        let refused = refused.without_passphrase().run();
        let told = refused.exits(2).errors();
        assert!(told.contains(words), "{told}");
        assert!(!(refused.text() + &told).contains("reaches no network"), "{told}");
    }
    // Nor of one whose name is taken.
    let taken = world.keyless(&["grant", "create", "--file", "-"]).stdin(good.to_string()).run();
    assert!(!(taken.exits(2).text() + &taken.errors()).contains("network"));
}

/// Nobody is to wonder in the evening why the agent may do nothing any more.
#[test]
fn a_grant_says_when_it_ends() {
    let world = World::with_token();
    let granted = |more: &[&str]| {
        let made = ["grant", "create", "--agent", AGENT, "--secret", "api/*"];
        let told = world.keyless(&[&made[..], more].concat()).run();
        told.exits(0).text()
    };
    let from = ["--from", "2040-05-01T09:00:00Z"];
    let usual = granted(&from);
    assert!(usual.contains(" until 2040-05-01 17:00 UTC (8 h after"), "{usual}");
    let long = granted(&[&from[..], &["--for", "168h"]].concat());
    assert!(long.contains(" until 2040-05-08 09:00 UTC."), "{long}");
    let help = world.keyless(&["grant", "create", "--help"]).run().exits(0).text();
    assert!(help.contains("8h when absent"), "{help}");
}

/// What another organization has granted explains nothing here.
#[test]
fn an_organization_is_told_of_its_own_grants_alone() {
    let world = World::with_token();
    for (id, organization) in [("g-acme", "acme"), ("g-other", "other")] {
        let made = ["grant", "create", "--agent", AGENT, "--secret", "api/*", "--id", id];
        world.keyless(&[&made[..], &["--organization", organization]].concat()).run().ok();
    }
    let register = |organization: &str| {
        let by = ["agent", "register", AGENT, "--organization", organization, "--json"];
        world.keyless(&by).run().data()["aid"]["instance_id"].as_str().unwrap().to_owned()
    };
    let instance = register("acme");
    let explain =
        |name: &str| world.keyless(&["grant", "explain", "--agent", name, "--json", TOKEN]).run();
    let told = |seen: &Seen| -> Vec<serde_json::Value> {
        let said = seen.json()["data"]["permissions"].as_array().unwrap().clone();
        said.iter().map(|one| one["grant_id"].clone()).collect()
    };
    assert_eq!(told(&explain(AGENT)), ["g-acme"]);
    // Of two that are called so, neither is meant more than the other.
    register("other");
    assert!(explain(AGENT).exits(2).json().to_string().contains("several organizations"));
    assert_eq!(told(&explain(&instance)), ["g-acme"]);
}

/// What can't work, or would be dropped in silence.
#[test]
fn what_can_not_work_is_said_when_a_grant_is_made() {
    let world = World::with_token();
    let create = |more: &[&str]| {
        let made = ["grant", "create", "--agent", AGENT, "--secret", "api/*"];
        world.keyless(&[&made[..], more].concat()).run()
    };
    for (option, value, words) in [
        ("--environment", "", "no environment has such a name"),
        ("--environment", "a b", "no environment has such a name"),
        ("--host", "https://api.example.com", "a host and its port alone"),
        ("--from", "yesterday", "a time such as 2026-02-08T10:00:00Z"),
    ] {
        let said = create(&[option, value]).exits(2).errors();
        assert!(said.contains(words), "{option} {value:?}: {said}");
    }
    world.keyless(&["agent", "register", AGENT]).run().ok();
    let nobody = "11111111-1111-4111-8111-111111111111";
    let made = create(&["--instance", nobody, "--environment", "Production", "--json"]);
    let warnings = made.json()["warnings"].to_string();
    assert!(warnings.contains(&format!("has the instance {nobody}")), "{warnings}");
    // Times are those of identities: milliseconds.
    let from = made.data()["grant"]["permissions"][0]["conditions"]["valid_from"].clone();
    let fraction = from.as_str().unwrap().split_once('.').unwrap().1;
    assert_eq!(fraction.len(), "000Z".len(), "{from}");
}
