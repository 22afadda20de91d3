//! `keyless ui` at a pseudo-terminal, and what shells and `man` get.

mod dialogs;
mod golden;
mod keeping;
mod picture;
mod rooms;
mod scene;
/// A terminal whose screen can be read.
pub(crate) mod tmux;

use std::{fs, path::Path};

use serde_json::json;

// A screen is drawn cell by cell and blanks are left out, so single words are looked for.
use self::{golden::golden, tmux::Window};
use crate::{
    invocation::KEYLESS,
    mcp::{Agent, gated, unlocked},
    terminal::at_a_terminal,
    world::{ALLOWED, TOKEN, VARIABLE, World, wait_until},
};

/// Over a plain pseudo-terminal, as ssh gives one, it is the same as in tmux; a pipe or a terminal that can't be drawn
/// on is told the way.
#[test]
fn a_request_is_answered_over_a_plain_terminal() {
    let world = unlocked();
    gated(&world, "session");
    let mut agent = Agent::connect(&world);
    let reason = json!({ "path": TOKEN, "reason": "to look\u{202e} around" });
    let id = agent.ask("secrets_request_use_approval", &reason);
    let script = format!(
        "resize(24, 80); expect('Waiting'); expect('{TOKEN}'); expect('look\\\\u{{202e}}')
say('\\r'); expect('Deny'); expect('Enter take'); say('\\t\\t'); pause(); say('\\r'); expect('until')
say('q'); finish(code=0)"
    );
    at_a_terminal(&world, world.keyless(&["ui"]), &script);
    assert_eq!(agent.status(&id), "session");
    let piped = world.keyless(&["ui"]).run();
    assert!(piped.exits(2).errors().contains("keyless approve --list"), "{}", piped.errors());
    let dumb = "expect('keyless approve asks line by line'); finish(code=2)";
    at_a_terminal(&world, world.keyless(&["ui"]).env("TERM", "dumb"), dumb);
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

/// A bash and a zsh at a terminal: Tab writes out the path that the store has at that moment, of a secret that was just
/// added.
#[test]
fn shells_at_a_terminal_complete_paths() {
    let program = Path::new(KEYLESS).parent().unwrap().display();
    for (shell, prepare) in [
        (&["bash", "--norc", "--noprofile", "-i"][..], "source <(keyless completions bash)"),
        (
            &["zsh", "-f", "-i"],
            "autoload -Uz compinit; compinit -u -D; source <(keyless completions zsh)",
        ),
    ] {
        let world = World::with_token();
        let script = format!(
            "say('PS1=; PATH={program}:$PATH; {prepare}; echo rea$((1))dy\\n'); expect('rea1dy')
say('keyless secret show te\\t'); expect('am/api/token'); say('\\n'); expect('version:')
say('keyless secret add team/other/key --source env:OTHER\\n'); expect('Added team/other/key')
say('keyless secret show team/o\\t'); expect('ther/key'); say('\\n'); expect('env:OTHER')
say('exit\\n'); finish(code=0)"
        );
        let shell = world.keyless(&[]).instead(shell).env("TERM", "dumb");
        at_a_terminal(&world, shell, &script);
    }
}

/// A real fish completes commands with what they do, and what is in the store at that moment.
#[test]
fn fish_completes_paths_and_commands() {
    let world = World::with_token();
    world.keyless(&["secret", "set", TOKEN, "--description", "For the boards"]).run().ok();
    let program = Path::new(KEYLESS).parent().unwrap().display();
    let script = format!(
        "set -x PATH {program} $PATH; keyless completions fish | source
complete -C 'keyless secret show te'; complete -C 'keyless run --secret team/'; complete -C 'keyless we'
keyless secret add team/other/key --source env:OTHER; complete -C 'keyless secret show team/o'"
    );
    let told = world.keyless(&[]).instead(&["fish", "--no-config", "-c", &script]).run().ok();
    let path = format!("{TOKEN}\tFor the boards");
    let rows: Vec<&str> =
        told.lines().filter(|row| row.contains('/') || row.contains('\t')).collect();
    assert_eq!(rows[..2], [&path, &path], "{told}");
    assert!(rows[2].starts_with("web\tAnswer on a page"), "{told}");
    assert_eq!(rows.last(), Some(&"team/other/key"), "{told}");
}

/// A first run chooses places, refuses what does not fit, shows the phrase once and goes on; the next one asks for the
/// passphrase until it is right.
#[test]
fn a_store_is_made_and_opened_on_screen() {
    let world = World::empty();
    let ui = || world.keyless(&["ui"]).without_passphrase();
    let window = Window::open(&world, ui(), (80, 24));
    window.seen(&["There is no store yet", "Esc leave"]);
    golden(&window, "first-run-80x24.txt");
    window.resize(120, 40);
    window.seen(&["sources.toml, to be read and never written."]);
    golden(&window, "first-run-120x40.txt");
    window.press("Escape");
    window.closed();
    assert!(!world.home.keyless_home().join("store.db").exists(), "who leaves has nothing written");

    let passphrase = fs::read_to_string(world.operator_file("passphrase")).unwrap();
    let passphrase = passphrase.trim();
    let window = Window::open(&world, ui(), (80, 24));
    window.seen(&["There is no store yet"]);
    window.say(" ");
    window.seen(&["[x] pass"]);
    window.press("Down");
    window.say(" ");
    window.seen(&["[x] pass", "[x] 1Password"]);
    window.press("Enter");
    window.seen(&["A passphrase for the store"]);
    window.say("long enough for one\rand another one\r");
    window.seen(&["The two differ"]);
    golden(&window, "differ-80x24.txt");
    assert!(!world.home.keyless_home().join("store.db").exists(), "nothing is written yet");
    window.say(&format!("{passphrase}\r"));
    window.seen(&["once more"]);
    window.say(&format!("{passphrase}\r"));
    window.seen(&["Recovery phrase", "y it is written down"]);
    // Escape and what follows it at once would be one key.
    let before = window.screen(false);
    window.press("Escape");
    window.resize(100, 30);
    wait_until("it is drawn anew", || window.screen(false) != before);
    window.seen(&["y it is written down"]);
    window.say("y");
    window.seen(&["Nothing waits for an answer."]);
    window.say("q");
    window.closed();
    // Each place that was ticked is a source; the store itself is where a secret goes that names none.
    let listed = world.keyless(&["source", "list", "--json"]).run().data();
    let kinds = listed["declared"].as_array().unwrap().iter().map(|one| &one["kind"]);
    assert_eq!(kinds.collect::<Vec<_>>(), ["1password", "env", "pass"], "{listed}");
    let sources = world.home.keyless_home().join("sources.toml");
    assert!(!fs::read_to_string(sources).unwrap().contains("[default]"));
    world.add(TOKEN, &["--to", ALLOWED, "--env", VARIABLE]).ok();
    let shown = world.keyless(&["secret", "show", TOKEN, "--json"]).run().data();
    assert_eq!((&shown["source"], &shown["version"]), (&json!("local"), &json!(1)));

    let window = Window::open(&world, ui(), (80, 24));
    window.seen(&["The store is locked"]);
    window.say("not the passphrase\r");
    window.seen(&["does not open the store"]);
    golden(&window, "locked-80x24.txt");
    window.say(&format!("{passphrase}\r"));
    window.seen(&["Nothing waits for an answer."]);
}

/// Sixteen colours at most, and none where none are wanted; and a window that is too small says so.
#[test]
fn colours_are_few_and_a_small_window_says_so() {
    let world = unlocked();
    gated(&world, "session");
    let mut agent = Agent::connect(&world);
    let reason = format!("to look around\u{202e} {} and no further", "again and ".repeat(44));
    agent.ask("secrets_request_use_approval", &json!({ "path": TOKEN, "reason": reason }));
    let window = Window::open(&world, world.keyless(&["ui"]), (80, 24));
    window.seen(&["1 waiting", "look around\\u{202e}"]);
    golden(&window, "waiting-80x24.txt");
    let colours = window.screen(true);
    let numbers = colours.split("38;5;").skip(1).map(|rest| rest.split(['m', ';']).next().unwrap());
    assert!(!colours.contains("38;2;") && colours.contains("\u{1b}["));
    assert!(numbers.clone().all(|number| number.parse::<u8>().unwrap() < 16), "{colours:?}");
    window.resize(50, 12);
    window.seen(&["The window is too small"]);
    window.resize(80, 24);
    window.seen(&["look around\\u{202e}"]);
    drop(window);
    let plain = world.keyless(&["ui"]).env("NO_COLOR", "1");
    let window = Window::open(&world, plain, (80, 24));
    window.seen(&["1 waiting", "look around\\u{202e}"]);
    golden(&window, "waiting-80x24.txt");
    assert!(!window.screen(true).contains("38;"));
    let codes = window.screen(true);
    assert!((30..38).chain(90..98).all(|code| !codes.contains(&format!("[{code}m"))), "{codes:?}");
}
