//! Scope grants by the operator's hand: made, listed, explained, revoked, on record.

use serde_json::json;

use crate::world::{TOKEN, World};

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
