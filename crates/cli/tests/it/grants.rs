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

    world.keyless(&["grant", "revoke", "g1", "--reason", "over"]).run().ok();
    let listed = world.keyless(&["grant", "list", "--json"]).run().data();
    let states: Vec<_> =
        listed["grants"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert_eq!(states, ["revoked", "active"]);
    let entries = world.keyless(&["audit", "tail", "--json"]).run().data().to_string();
    assert!(entries.contains("grant_create") && entries.contains("grant_revoke"), "{entries}");
    world.keyless(&["delegation", "list"]).run().ok();
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
