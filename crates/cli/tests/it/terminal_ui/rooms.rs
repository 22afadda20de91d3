//! Every room, as it looks in both sizes, and all that an operator does in it.

use super::{golden::both_sizes, picture, scene, tmux::Window};
use crate::{
    mcp::Agent,
    nl::{Served, with_secrets},
    world::{ALLOWED, TOKEN, World, wait_until},
};

#[test]
fn every_room_is_seen_and_what_it_is_for_is_done() {
    let mut world = with_secrets();
    let _origin = world.origin(ALLOWED);
    scene::furnish(&world);
    let _served = Served::start(&world);
    scene::rules(&world);
    let mut agent = Agent::connect(&world);
    let held = scene::past(&world, &mut agent);
    let _run = scene::at_work(&world);
    let window = Window::open(&world, world.keyless(&["ui"]), (80, 24));
    window.seen(&["Nothing waits for an answer."]);
    for (key, name, seen) in [
        ("1", "waiting", "Nothing waits for an answer."),
        ("2", "approvals", "to list the boards"),
        ("3", "secrets", "team/github/token"),
        ("4", "sessions", "keyless run"),
        ("5", "grants", "backups"),
        ("6", "log", "session start"),
        ("7", "egress", ALLOWED),
        ("8", "sources", "not installed"),
    ] {
        window.say(key);
        window.seen(&[seen]);
        // What is done in the log between two looks differs from run to run.
        if name != "log" {
            both_sizes(&window, &format!("room-{name}"), &[seen]);
        }
        picture::keep(&window, &format!("ui-{name}"));
    }

    take_back(&window, &world, &held);
    inventory(&window, &world);
    ends(&window, &world);
    log(&window);

    // Locking everything takes one more word, and leaves the door.
    window.say("L");
    window.seen(&["Lock all", "every session ends"]);
    both_sizes(&window, "dialog-lock", &["Lock everything"]);
    window.press("Escape");
    window.gone(&["Lock everything"]);
    window.say("L");
    window.seen(&["Lock everything"]);
    window.press("Tab");
    window.press("Enter");
    window.closed();
    let socket = world.home.keyless_home().join("run/agent.sock");
    wait_until("the broker is gone", || !socket.exists());
}

/// An approval is taken back, only after one more word.
fn take_back(window: &Window<'_>, world: &World, held: &str) {
    window.say("2");
    window.seen(&[TOKEN]);
    window.say("d");
    window.seen(&["Revoke an approval", ">[ Not now ]"]);
    both_sizes(window, "dialog-take-back", &["Revoke an approval"]);
    window.press("Tab");
    window.press("Enter");
    window.seen(&["has no effect any more", "No approval and no denial"]);
    let listed = world.keyless(&["approve", "--list", "--json"]).run().data();
    assert!(!listed["standing"].to_string().contains(held), "{listed}");
}

/// The inventory is searched, a secret edited, given a value and removed.
fn inventory(window: &Window<'_>, world: &World) {
    window.say("3/GH");
    window.seen(&["Secrets: 1 of 4"]);
    window.press("Enter");
    window.say("e");
    window.seen(&["What is known of it", "Description"]);
    both_sizes(window, "dialog-edit", &["Renewal, in days"]);
    window.say("For the boards");
    for key in ["Down", "Down", "Down", "Right", "Down"] {
        window.press(key);
    }
    window.say("2031-03-31");
    window.press("BTab");
    for _ in 0..4 {
        window.press("BTab");
    }
    window.seen(&[">[ Save ]"]);
    window.press("Enter");
    window.seen(&["is changed."]);
    let known = world.keyless(&["secret", "show", "team/github/token", "--json"]).run().data();
    assert_eq!(known["description"], "For the boards", "{known}");
    assert_eq!(known["approve_on_use"], "session");
    assert_eq!(known["upkeep"]["expires_at"], "2031-03-31");
    window.press("Enter");
    window.seen(&["Rotate secret", "New value"]);
    window.press("Escape");
    window.gone(&["Rotate secret"]);
    window.say("d");
    window.seen(&["Remove a secret"]);
    both_sizes(window, "dialog-remove", &["Nothing can use it any more."]);
    window.press("Tab");
    window.press("Enter");
    window.seen(&["is removed", "No secret fits."]);
    window.say("/");
    window.seen(&["Find: GH"]);
    window.press("Escape");
    window.gone(&["Find: "]);
    window.say("sss");
    window.seen(&["1 of 3, expired", "team/old/key"]);
}

/// A session is ended, and a grant.
fn ends(window: &Window<'_>, world: &World) {
    window.say("4");
    window.until(&["> ", "keyless run"], |window| window.press("Up"));
    window.say("d");
    window.seen(&["End a session"]);
    window.press("Tab");
    window.press("Enter");
    window.seen(&["has ended."]);
    let open = world.keyless(&["session", "list", "--json"]).run().data();
    assert!(!open.to_string().contains("\"run\""), "{open}");
    window.say("5d");
    window.seen(&["Revoke a grant", "backups"]);
    window.press("Tab");
    window.press("Enter");
    window.seen(&["permits nothing any more", "revoked"]);
}

/// The log is searched, filtered, and its chain verified.
fn log(window: &Window<'_>) {
    window.say("6v");
    window.seen(&["The chain holds: "]);
    window.say("oo");
    window.seen(&["denied"]);
    window.say("o");
    window.say("/backups");
    window.press("Enter");
    window.seen(&["blocked"]);
}
