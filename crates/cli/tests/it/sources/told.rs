//! What the operator is told of sources: where a secret is looked for there, and what mends one that gives nothing.

use serde_json::json;

use super::{KV2, Server, add_local, add_routed, sources};
use crate::world::{TOKEN, World};

/// The server cuts the route's prefix off; one who does not know that looks in the wrong place.
#[test]
fn where_a_secret_is_looked_for_is_told_to_the_operator_alone() {
    let world = World::with_store();
    let token = world.another_value();
    let server = Server::python(&world, KV2, &[&token]);
    add_local(&world, "sources/corp/token", &token);
    add_routed(&world, "routed");
    sources(
        &world,
        &format!(
            "[[source]]\nname = \"corp\"\ntype = \"vault\"\naddr = \"http://127.0.0.1:{}\"\nmount = \"kv\"\n\
             namespace = \"team-a\"\naccess = \"readwrite\"\n[[route]]\nprefix = \"team/\"\nsource = \"corp\"\n\
             [source_credentials]\ncorp = \"sources/corp/token\"\n",
            server.port
        ),
    );
    let at = json!({ "source": "corp", "reference": "api/token#value" });
    let checked = world.keyless(&["source", "check", TOKEN, "--json"]).run().exits(1).json();
    assert_eq!(checked["data"]["secrets"][0]["kept_at"], at);
    let table = world.keyless(&["source", "check", TOKEN]).run();
    assert!(table.exits(1).text().contains("corp: api/token#value"), "{}", table.text());
    let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
    assert_eq!(shown["kept_at"], at);
    let own = world.keyless(&["secret", "show", "sources/corp/token", "--json"]).run().data();
    assert_eq!(own["kept_at"], json!(null));
    // A new value goes to a place that is named.
    let rotate = ["secret", "rotate", TOKEN, "--value-stdin"];
    let said = world.keyless(&rotate).stdin(world.canary.value()).run().ok();
    assert!(said.contains("at its source, corp: api/token#value"), "{said}");
    // A file that is wrong takes nothing else of the secret away.
    sources(&world, "[default]\nsource = \"gone\"\n");
    let shown = world.keyless(&["secret", "show", TOKEN]).run();
    assert!(shown.errors().contains("where it is kept is not shown"), "{}", shown.errors());
    assert!(shown.ok().contains("routed"));
}
