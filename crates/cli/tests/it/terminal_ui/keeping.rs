//! What the operator does to a secret on the screen, by themselves.

use std::fs;

use serde_json::json;

use super::{golden::both_sizes, tmux::Window};
use crate::{
    liveness::github,
    mcp::{USE, unlock, unlocked},
    world::{ALLOWED, TOKEN, World},
};

/// A secret is added with its first value, chosen in the list, and its service asked; an address that is taken is
/// refused in place.
#[test]
fn a_secret_is_added_and_its_service_asked_on_screen() {
    let mut world = World::with_token();
    let live = world.github_token();
    let _origin = github(&mut world, &live);
    unlock(&world);
    let window = Window::open(&world, world.keyless(&["ui"]), (120, 40));
    window.say("3");
    window.seen(&[TOKEN, "not lately"]);
    window.say("n");
    window.seen(&["Add a secret", "A path of your own", "lower case, digits, hyphens"]);
    both_sizes(&window, "dialog-new", &["A path of your own"]);
    let fill = |texts: &[&str]| {
        for text in texts {
            window.say(text);
            window.press("Enter");
        }
        window.seen(&[">[ Save ]"]);
        window.press("Enter");
    };
    fill(&[TOKEN, &live, "api.github.com", "GH"]);
    window.seen(&["with this path exists"]);
    window.press("Tab");
    window.press("C-u");
    fill(&["team/github/token", "", "", ""]);
    window.seen(&["team/github/token has its value"]);
    window.say("c");
    window.seen(&["team/github/token: api.github.com takes its value."]);
    let shown = world.keyless(&["secret", "show", "team/github/token", "--json"]).run().data();
    assert_eq!(
        (&shown["version"], &shown["to"]),
        (&json!(1), &json!(["api.github.com"])),
        "{shown}"
    );
    window.say("n");
    window.seen(&["A path of your own"]);
    let value = world.another_value();
    fill(&["team/later/key", &value, "", "9 BAD"]);
    window.seen(&["9 BAD:"]);
    // Past the button that declines.
    window.press("BTab");
    window.press("BTab");
    window.press("C-u");
    window.say("TUI_KEY");
    window.press("Enter");
    window.seen(&[">[ Save ]"]);
    window.press("Enter");
    window.seen(&["team/later/key has its value"]);
    let later = world.keyless(&["secret", "show", "team/later/key", "--json"]).run().data();
    let env = (&later["env"], later["to"].as_array().map_or(0, Vec::len));
    assert_eq!(env, (&json!("TUI_KEY"), 0), "hosts can come later: {later}");
    window.resize(60, 16);
    window.fills(60, 16);
    window.seen(&["running sessions take it up\n within seconds.", "/ find  s s…"]);
}

/// Who used what last stands in the list, and by whom below it.
#[test]
fn who_used_a_secret_last_is_seen() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.write_config();
    unlock(&world);
    world.keyless(&["run", "--", "sh", "-c", USE]).without_passphrase().run().ok();
    world.assert_received(&origin);
    let window = Window::open(&world, world.keyless(&["ui"]), (120, 40));
    window.say("3");
    window.seen(&[TOKEN, " ago", "Used by", "s-", " entries"]);
}

fn prove(world: &World, window: &Window<'_>) {
    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    window.say(&format!("{}\r", passphrase.trim()));
}

/// The screen of the secrets, for who has proven the factor at the door.
fn among_secrets(world: &World) -> Window<'_> {
    let window = Window::open(world, world.keyless(&["ui"]).without_passphrase(), (120, 40));
    window.seen(&["The store is locked"]);
    prove(world, &window);
    window.say("3");
    window.seen(&[TOKEN]);
    window
}

/// An editor has it open: what needs no file of it goes on, and what needs it says so.
#[test]
fn a_config_that_cant_be_read_throws_nobody_out() {
    let world = unlocked();
    let window = Window::open(&world, world.keyless(&["ui"]), (120, 40));
    window.say("3");
    window.seen(&[TOKEN]);
    let file = world.home.keyless_home().join("config.toml");
    let before = fs::read_to_string(&file).unwrap_or_default();
    world.home.write("keyless/config.toml", "[web]\nprove_again = ").unwrap();
    window.say("e");
    window.seen(&["What is known of it", "Description"]);
    window.press("Down");
    window.say(", other.test");
    window.press("BTab");
    window.press("BTab");
    window.seen(&[">[ Save ]"]);
    window.press("Enter");
    window.seen(&["What is known of it", "configuration could not be read"]);
    world.home.write("keyless/config.toml", before).unwrap();
    window.press("Enter");
    window.seen(&["is changed."]);
}

/// Who comes back to the screen with the file still open in an editor is told at the door, and stands there until it is saved.
#[test]
fn a_config_that_cant_be_read_is_told_at_the_door() {
    let world = unlocked();
    let window = among_secrets(&world);
    let file = world.home.keyless_home().join("config.toml");
    let before = fs::read_to_string(&file).unwrap_or_default();
    world.home.write("keyless/config.toml", "[web]\nprove_again = ").unwrap();
    world.keyless(&["lock"]).without_passphrase().run().ok();
    window.seen(&["Prove your factor once more"]);
    prove(&world, &window);
    window.seen(&["configuration could not be read"]);
    world.home.write("keyless/config.toml", before).unwrap();
    prove(&world, &window);
    window.seen(&[TOKEN]);
}

/// With `prove_again = "always"` a change takes the passphrase at the screen as it does at the page, and is made once it
/// was right. Of two people who edit at once the later one is told, whoever the other was.
#[test]
fn a_change_takes_the_factor_and_no_other_change_with_it() {
    let world = unlocked();
    world.home.write("keyless/config.toml", "[web]\nprove_again = \"always\"\n").unwrap();
    let window = among_secrets(&world);
    window.say("e");
    window.seen(&["What is known of it", "Description"]);
    window.press("Down");
    window.say(", other.test");
    window.press("BTab");
    window.press("BTab");
    window.seen(&[">[ Save ]"]);
    window.press("Enter");
    window.seen(&["Prove your factor once more"]);
    window.say("not the passphrase\r");
    window.seen(&["does not open the store"]);
    let to = || world.keyless(&["secret", "show", TOKEN, "--json"]).run().data()["to"].clone();
    assert_eq!(to(), json!([ALLOWED]));
    prove(&world, &window);
    window.seen(&["is changed."]);
    assert_eq!(to(), json!([ALLOWED, "other.test"]));

    window.say("e");
    window.seen(&["What is known of it", "other.test"]);
    world.keyless(&["secret", "set", TOKEN, "--description", "Of the other one"]).run().ok();
    window.say("Mine");
    window.press("BTab");
    window.seen(&[">[ Save ]"]);
    window.press("Enter");
    window.seen(&["Prove your factor once more"]);
    prove(&world, &window);
    window.seen(&["changed it meanwhile", "Mine"]);
    let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
    assert_eq!(shown["description"], "Of the other one", "{shown}");
}
