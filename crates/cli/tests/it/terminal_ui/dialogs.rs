//! Every dialog, from the agent's question to what the agent is told; each as it looks in both sizes.

use super::{golden::both_sizes, picture, scene, tmux::Window};
use crate::{
    mcp::Agent,
    nl::{Served, with_secrets},
    pack::codex,
    pack_mcp,
    world::{ALLOWED, TOKEN, World},
};

/// Goes to a request and opens its dialog.
#[track_caller]
fn open(window: &Window<'_>, id: &str, title: &str) {
    window.say("1");
    window.resize(120, 40);
    window.fills(120, 40);
    window.until(&["Request", id], |window| window.press("Down"));
    window.press("Enter");
    window.seen(&[title, "Esc not now"]);
}

fn press(window: &Window<'_>, keys: &[&str]) {
    for key in keys {
        window.press(key);
    }
}

#[test]
fn each_kind_of_request_is_answered_on_screen() {
    let mut world = with_secrets();
    let _origin = world.origin(ALLOWED);
    scene::furnish(&world);
    let served = Served::start(&world);
    scene::rules(&world);
    let mut agent = Agent::connect(&world);
    let questions = scene::questions(&mut agent);
    let [used, value, rotation, metadata, new_path] = questions.each_ref().map(String::as_str);
    let waits = scene::action(&served);
    let action = waits["body"]["error"]["details"]["approval_id"].as_str().unwrap();
    let mut pack = pack_mcp::Agent::connect(&world);
    let (deploy, apply) = scene::deploy(&mut pack);
    let window = Window::open(&world, world.keyless(&["ui"]), (120, 40));
    window.seen(&["7 waiting"]);

    permission(&window, &mut agent, used);
    first_value(&window, &mut agent, value);
    rotated(&window, &mut agent, (rotation, &world.another_value()));
    taken_over(&window, &mut agent, metadata);
    registered(&window, &mut agent, new_path);
    deeds(&window, action, &deploy);
    assert_eq!(pack.data("deploy_apply", &apply)["applied"], true);
    assert!(codex(&world).join("AGENTS.md").exists());
}

/// A dialog whose request was answered elsewhere says so, and answers nothing.
#[test]
fn an_answer_from_elsewhere_is_seen_in_the_dialog() {
    let world = crate::mcp::unlocked();
    let mut agent = Agent::connect(&world);
    let id = agent.ask("secrets_request_rotation", &crate::mcp::about(TOKEN));
    let window = Window::open(&world, world.keyless(&["ui"]), (120, 40));
    open(&window, &id, "Rotate secret");
    deny_elsewhere(&world, &id);
    window.seen(&["It does not wait any more", " over "]);
    window.press("Escape");
    window.gone(&["Esc not now"]);
    assert_eq!(agent.status(&id), "cancelled");
}

fn deny_elsewhere(world: &World, id: &str) {
    world.keyless(&["approve", id, "--deny"]).run().ok();
}

/// Who only presses Enter has said nothing, and nothing that the agent wrote leaves its bar.
fn permission(window: &Window<'_>, agent: &mut Agent<'_>, used: &str) {
    open(window, used, "Allow a use");
    window.seen(&[
        "│ to look at the board\\u{202e}\\u{200b}, and nothing else",
        "│   Secret:    team/other/path",
    ]);
    both_sizes(window, "dialog-use", &["Allow for this session"]);
    picture::keep(window, "ui-use");
    window.press("Enter");
    window.gone(&["Esc not now"]);
    assert_eq!(agent.status(used), "pending");
    open(window, used, "Allow a use");
    press(window, &["Tab", "Tab"]);
    window.seen(&[">[ Allow for this session ]"]);
    window.press("Enter");
    window.seen(&["until the session ends", "6 waiting"]);
    assert_eq!(agent.status(used), "session");
}

/// A value is typed unseen, and one that is none is taken only with a tick.
fn first_value(window: &Window<'_>, agent: &mut Agent<'_>, value: &str) {
    open(window, value, "Provision secret");
    window.seen(&["Stripe", " 1. "]);
    both_sizes(window, "dialog-value", &["The agent never sees it."]);
    picture::keep(window, "ui-value");
    window.say("changeme-123");
    window.seen(&["••••••••••••", "12 characters"]);
    press(window, &["Enter", "C-u"]);
    window.say("api.stripe.com");
    press(window, &["Enter", "Enter", "Enter"]);
    window.seen(&["although it does not look like one", "Next:"]);
    press(window, &["BTab", "BTab", "BTab", "Space"]);
    window.seen(&["[x] Save it although"]);
    press(window, &["Enter", "Enter"]);
    window.seen(&["done.", "5 waiting"]);
    assert_eq!(agent.status(value), "ok");
}

/// The present value goes only with a tick.
fn rotated(window: &Window<'_>, agent: &mut Agent<'_>, (rotation, next): (&str, &str)) {
    open(window, rotation, "Rotate secret");
    both_sizes(window, "dialog-rotation", &["[ ] I understand that this overwrites"]);
    window.say(next);
    press(window, &["Enter", "Enter", "Enter"]);
    window.seen(&["tick the box"]);
    press(window, &["BTab", "BTab", "BTab", "Space"]);
    window.seen(&["[x] I understand"]);
    press(window, &["Enter"]);
    window.seen(&[">[ Overwrite the value ]"]);
    window.press("Enter");
    // A GitHub token has a form of its own; this is none.
    window.seen(&["although it does not look like one"]);
    press(window, &["BTab", "BTab", "BTab", "Space"]);
    window.seen(&["[x] Save it although"]);
    press(window, &["Enter", "Enter"]);
    window.seen(&["done.", "4 waiting"]);
    assert_eq!(agent.status(rotation), "ok");
}

/// What is known stands beside what is proposed; only what is ticked is taken over.
fn taken_over(window: &Window<'_>, agent: &mut Agent<'_>, metadata: &str) {
    open(window, metadata, "Change what is known");
    window.seen(&["│ Main token\\u{202e} of the boards"]);
    both_sizes(window, "dialog-metadata", &["take over: Renewal, in days"]);
    press(window, &["Down", "Space", "Enter", "Enter"]);
    window.seen(&["done.", "3 waiting"]);
    let polled = agent.poll(metadata);
    assert_eq!(
        polled["outcome"]["applied_fields"],
        serde_json::json!(["rotate_every_days"]),
        "{polled}"
    );
}

/// The name is the person's.
fn registered(window: &Window<'_>, agent: &mut Agent<'_>, new_path: &str) {
    open(window, new_path, "Register a path");
    both_sizes(window, "dialog-new-path", &["The name is yours"]);
    window.press("C-u");
    window.say("not a path");
    press(window, &["Enter", "Enter", "Enter"]);
    window.seen(&["Next:", ">[ Register ]"]);
    press(window, &["Tab", "C-u"]);
    window.say("team/linear/token");
    window.seen(&["team/linear/token"]);
    press(window, &["Enter", "Enter", "Enter"]);
    window.seen(&["done.", "2 waiting"]);
    assert_eq!(agent.poll(new_path)["outcome"]["final_path"], "team/linear/token");
}

/// An action and a deploy are allowed once, with every line in reach.
fn deeds(window: &Window<'_>, action: &str, deploy: &str) {
    open(window, action, "Allow an action");
    window.seen(&["│ wc -c dump.sql", "[ Deny ]"]);
    both_sizes(window, "dialog-action", &["Allow an action"]);
    press(window, &["PageDown", "Tab", "Enter"]);
    window.seen(&["may not be done", "1 waiting"]);
    open(window, deploy, "Allow a deploy");
    both_sizes(window, "dialog-deploy", &["Allow a deploy"]);
    picture::keep(window, "ui-deploy");
    window.resize(80, 24);
    window.fills(80, 24);
    window.until(&["│ +Be kind\\u{202e}"], |window| window.press("PageDown"));
    press(window, &["Tab", "Tab"]);
    window.seen(&[">[ Allow once ]"]);
    window.resize(120, 40);
    window.fills(120, 40);
    window.press("Enter");
    window.seen(&["may be done once", "Nothing waits"]);
}
