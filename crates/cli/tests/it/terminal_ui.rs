//! `keyless ui` at a pseudo-terminal, and what shells and `man` get.

use std::{fs, path::Path};

use serde_json::json;

// A screen is drawn cell by cell and blanks are left out, so single words are looked for.
use crate::{
    invocation::KEYLESS,
    mcp::{Agent, gated, unlocked},
    terminal::at_a_terminal,
    world::{TOKEN, World},
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

/// A real bash completes commands, options and what is in the store at that moment; `man` reads the pages.
#[test]
fn shells_complete_paths_and_manual_pages_are_written() {
    let world = World::with_token();
    let program = Path::new(KEYLESS).parent().unwrap().display();
    let script = format!(
        "PATH={program}:$PATH; source <(keyless completions bash)
complete_ () {{ COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; COMPREPLY=(); \
_clap_complete_keyless keyless \"${{@: -1}}\" \"${{@: -2:1}}\"; echo \"${{COMPREPLY[@]}}\"; }}
complete_ keyless secret show te; complete_ keyless run --secret team/; complete_ keyless we"
    );
    let shell = world.keyless(&[]).instead(&["bash", "-c", &script]).run().ok();
    assert_eq!(shell.split_whitespace().collect::<Vec<_>>(), [TOKEN, TOKEN, "web"], "{shell}");
    let folder = world.home.work().join("man");
    let written = world.keyless(&["manual", folder.to_str().unwrap()]).run();
    assert!(written.ok().contains("pages in"));
    let page = fs::read_to_string(folder.join("keyless-web.1")).unwrap();
    assert!(page.starts_with('.') && page.contains("keyless\\-web"), "{page}");
    // A slip of the finger is answered with what was meant.
    let slip = world.keyless(&["secrt", "list"]).run();
    assert!(slip.exits(2).errors().contains("secret"), "{}", slip.errors());
}
