//! What was fetched is kept for a while, and for as long as its secret stays what it was.

use std::cell::RefCell;

use keyless_testkit::Origin;

use super::*;

/// As it is declared by default: a value is kept for a quarter of an hour.
#[test]
fn what_was_fetched_goes_nowhere_once_its_secret_says_otherwise() {
    let mut world = World::with_store();
    let (one, two) = (world.origin("one.allowed.test"), world.origin("two.allowed.test"));
    let token = world.another_value();
    let [first, second, third, fourth] = [(); 4].map(|()| world.another_value());
    let server = Server::python(&world, KV2, &[&token]);
    for (place, value) in [("app/one", &first), ("app/two", &second)] {
        let body = format!("{{\"data\":{{\"value\":\"{value}\"}}}}");
        server.vault("POST", place, &token, &body);
    }
    add_local(&world, "sources/corp/token", &token);
    sources(
        &world,
        &format!(
            "[[source]]\nname = \"corp\"\ntype = \"vault\"\naddr = \"http://127.0.0.1:{}\"\n\
             mount = \"kv\"\nnamespace = \"team-a\"\naccess = \"readwrite\"\n\
             [source_credentials]\ncorp = \"sources/corp/token\"\n",
            server.port
        ),
    );
    let add = |to: &str, source: &str| {
        let words = ["secret", "add", TOKEN, "--to", to, "--env", VARIABLE, "--source", source];
        world.keyless(&words).run().ok();
    };
    let put = |value: &str| {
        let rotate = ["secret", "rotate", TOKEN, "--value-stdin"];
        world.keyless(&rotate).stdin(value).run().ok();
    };
    add("one.allowed.test", "source:corp:app/one");
    let script =
        "while read host; do curl -sS -o /dev/null -H \"X: $TOKEN\" https://$host/; echo; done";
    let session = RefCell::new(world.agent_sh(script).start());
    let arrives = |origin: &Origin, host: &str, value: &str| {
        wait_until("the value arrives", || {
            session.borrow_mut().say(host);
            session.borrow_mut().line();
            origin.requests().last().is_some_and(|last| last.header("x").as_deref() == Some(value))
        });
    };
    arrives(&one, "one.allowed.test", &first);
    // Another secret of the same path, kept elsewhere and for another host.
    world.keyless(&["secret", "remove", TOKEN, "--yes"]).run().ok();
    world.keyless(&["secret", "purge", TOKEN, "--yes"]).run().ok();
    add("two.allowed.test", "source:corp:app/two");
    arrives(&two, "two.allowed.test", &second);
    // One that others know, and two in one day: another process puts each.
    world.keyless(&["secret", "revoke", TOKEN, "--compromised", "--yes"]).run().ok();
    put(&third);
    arrives(&two, "two.allowed.test", &third);
    put(&fourth);
    arrives(&two, "two.allowed.test", &fourth);
    let sent: Vec<_> = two.requests().iter().filter_map(|one| one.header("x")).collect();
    assert!(!sent.contains(&first), "what is for one host went to another");
    assert_eq!(session.borrow_mut().wait().code(), Some(0));
}
