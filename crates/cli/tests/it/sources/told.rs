//! What the operator is told of sources: where a secret is looked for there, and what mends one that gives nothing.

use std::fs;

use serde_json::json;

use super::{KV2, Server, add_local, add_routed, sources, state};
use crate::{
    mcp::{Agent, about, unlock},
    terminal_ui::tmux::Window,
    web::in_a_browser,
    world::{TOKEN, World},
};

fn declare(world: &World, server: &Server, more: &str) {
    sources(
        world,
        &format!(
            "[[source]]\nname = \"corp\"\ntype = \"vault\"\naddr = \"http://127.0.0.1:{}\"\nmount = \"kv\"\n\
             namespace = \"team-a\"\naccess = \"readwrite\"\n[[route]]\nprefix = \"team/\"\nsource = \"corp\"\n{more}\
             [source_credentials]\ncorp = \"sources/corp/token\"\n",
            server.port
        ),
    );
}

/// The server cuts the route's prefix off; one who does not know that looks in the wrong place.
#[test]
fn where_a_secret_is_looked_for_is_told_to_the_operator_alone() {
    let world = World::with_store();
    let token = world.another_value();
    let server = Server::python(&world, KV2, &[&token]);
    add_local(&world, "sources/corp/token", &token);
    add_routed(&world, "routed");
    declare(&world, &server, "");
    let at = json!({ "source": "corp", "reference": "api/token#value" });
    let checked = world.keyless(&["source", "check", TOKEN, "--json"]).run().exits(1).json();
    assert_eq!(checked["data"]["secrets"][0]["kept_at"], at);
    let table = world.keyless(&["source", "check", TOKEN]).run();
    assert!(table.exits(1).text().contains("corp: api/token#value"), "{}", table.text());
    let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
    assert_eq!(shown["kept_at"], at);
    let own = world.keyless(&["secret", "show", "sources/corp/token", "--json"]).run().data();
    assert_eq!(own["kept_at"], json!(null));
    // Wherever an answer is given, it is the same: at the terminal, on screen, at the page.
    world.keyless(&["secret", "set", TOKEN, "--approve-on-use", "session"]).run().ok();
    unlock(&world);
    let mut agent = Agent::connect(&world);
    let reason = json!({ "path": TOKEN, "reason": "to look" });
    let id = agent.ask("secrets_request_use_approval", &reason);
    let listed = world.keyless(&["approve", "--list", "--json"]).run().data();
    assert_eq!(listed["pending"][0]["known"]["kept_at"], at);
    let listed = world.keyless(&["approve", "--list"]).run().ok();
    assert!(listed.contains("Kept at:   corp: api/token#value"), "{listed}");
    let window = Window::open(&world, world.keyless(&["ui"]), (120, 40));
    window.seen(&["1 waiting", "Kept at", "corp: api/token#value"]);
    window.say("3");
    window.seen(&["Secrets: "]);
    window.press("Down");
    window.seen(&["Secrets: ", "Kept at", "corp: api/token#value"]);
    window.say("q");
    window.closed();
    let script = format!(
        "await page.goto(path('requests/{id}')); await seen('corp: api/token#value');
await page.goto(path('secrets/{TOKEN}')); await seen('corp: api/token#value');"
    );
    in_a_browser(&world, &script);
    let told = agent.tool("secrets_describe", &about(TOKEN)).unwrap().to_string();
    assert!(!told.contains("api/token#value"), "{told}");
    world.keyless(&["lock"]).run().ok();
    world.keyless(&["secret", "set", TOKEN, "--approve-on-use", "never"]).run().ok();
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

/// A token that is let in, a policy that is not the secret's, and a server that has had enough. That one path is closed
/// says nothing of the source.
#[test]
fn what_mends_a_source_goes_by_what_it_gave_last() {
    let world = World::with_store();
    let token = world.another_value();
    let refusing = |path: &str, status: &str| {
        let from = "        if not self.allowed():\n            return self.answer(403)\n        if self.path == \"/v1/auth";
        assert!(KV2.contains(from));
        let to = format!(
            "        if {path} in self.path:\n            return self.answer({status})\n{from}"
        );
        Server::python(&world, &KV2.replace(from, &to), &[&token])
    };
    add_local(&world, "sources/corp/token", &token);
    add_routed(&world, "routed");
    let (closed, busy) = (refusing("\"/data/\"", "403"), refusing("\"/\"", "429"));
    declare(&world, &closed, "");
    let checked = world.keyless(&["source", "check", TOKEN]).run();
    let told = checked.exits(1).text();
    assert!(told.contains("its token's policy does not allow this; reading takes read"), "{told}");
    let corp = state(&world, "corp");
    let outcome = &corp["last_contact"]["outcome"];
    assert_eq!((&corp["state"], outcome), (&json!("available"), &json!("available")));
    // With a token that has ended the server answers the same.
    add_local(&world, "sources/corp/other", &world.another_value());
    let other = "sources/corp/token";
    let sources_file = world.home.keyless_home().join("sources.toml");
    let text = fs::read_to_string(&sources_file).unwrap().replace(other, "sources/corp/other");
    fs::write(&sources_file, text).unwrap();
    world.keyless(&["source", "check", TOKEN]).run().exits(1);
    let corp = state(&world, "corp");
    let outcome = &corp["last_contact"]["outcome"];
    assert_eq!((&corp["state"], outcome), (&json!("locked"), &json!("locked")));
    declare(&world, &busy, "");
    let corp = state(&world, "corp");
    assert_eq!(corp["state"], json!("unavailable"), "a busy server is not locked: {corp}");
}

/// What does not fit is told of where it is kept; nothing was to be stored.
#[test]
fn a_value_that_does_not_fit_is_not_told_as_one_to_store() {
    let world = World::with_store();
    let mount = world.operator_file("mount");
    fs::create_dir(&mount).unwrap();
    fs::write(mount.join("token"), "short").unwrap();
    sources(
        &world,
        &format!("[[source]]\nname = \"here\"\ntype = \"files\"\nfolder = {mount:?}\n"),
    );
    add_routed(&world, "source:here:token");
    let checked = world.keyless(&["source", "check", TOKEN]).run();
    let told = checked.exits(1).text();
    assert!(told.contains("can't be used as it is"), "{told}");
    assert!(!told.contains("stored"), "{told}");
}
