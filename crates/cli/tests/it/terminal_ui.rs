//! `keyless ui` at a pseudo-terminal.

use serde_json::json;

// A screen is drawn cell by cell and blanks are left out, so single words are looked for.
use crate::{
    mcp::{Agent, gated, unlocked},
    terminal::at_a_terminal,
    world::TOKEN,
};

/// What waits appears as it comes in; it is answered below the screen, seen among what holds, and taken back.
#[test]
fn requests_are_answered_and_taken_back_in_a_terminal() {
    let world = unlocked();
    gated(&world, "session");
    let mut agent = Agent::connect(&world);
    let reason = json!({ "path": TOKEN, "reason": "to look\u{202e} around" });
    let id = agent.ask("secrets_request_use_approval", &reason);
    let script = format!(
        "resize(24, 80); expect('Waiting'); expect('{TOKEN}'); expect('look\\\\u{{202e}}')
say('\\r'); expect('[d]eny it? '); say('s\\n'); expect('until')
say('\\t'); resize(40, 120); expect('Approvals'); expect('session'); pause()
say('\\r'); expect('Take it back?'); say('y\\n'); expect('holding'); expect('effect')
say('q'); finish(code=0)"
    );
    at_a_terminal(&world, world.keyless(&["ui"]), &script);
    assert_eq!(agent.status(&id), "session");
    let piped = world.keyless(&["ui"]).run();
    assert!(piped.exits(2).errors().contains("keyless approve --list"), "{}", piped.errors());
}
