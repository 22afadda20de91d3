//! Screens that are kept beside the tests, compared without what differs from run to run.

use std::{
    env, fs,
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use super::tmux::Window;
use crate::world::PATIENCE;

/// What a name is known by: all of it, up to its end, differs from run to run.
const NAMES: [&str; 6] = ["prov-", "m-", "s-", "kl-", "req-", ".tmp"];
/// Hexadecimal digits that stand alone are of a digest, from so many on.
const DIGEST: usize = 4;
const MACHINE: [char; 8] = ['m', 'a', 'c', 'h', 'i', 'n', 'e', ' '];

/// Compares what a window shows in both sizes with what is kept, resizing it while it runs. Leaves it at 80 by 24.
#[track_caller]
pub(crate) fn both_sizes(window: &Window<'_>, name: &str, seen: &[&str]) {
    for (columns, rows) in [(120, 40), (80, 24)] {
        window.resize(columns, rows);
        window.fills(columns, rows);
        window.seen(seen);
        golden(window, &format!("{name}-{columns}x{rows}.txt"));
    }
}

/// Waits until a window shows the screen that is kept, or keeps what it shows (`KEYLESS_BLESS=1`).
#[track_caller]
pub(crate) fn golden(window: &Window<'_>, name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/ui").join(name);
    let kept = fs::read_to_string(&file).unwrap_or_default();
    let blesses = env::var_os("KEYLESS_BLESS").is_some();
    // What is looked at may be half drawn.
    let patience = if blesses { Duration::from_secs(1) } else { PATIENCE };
    let deadline = Instant::now() + patience;
    let mut screen = shown(window);
    while loose(&screen) != loose(&kept) && Instant::now() < deadline {
        sleep(Duration::from_millis(50));
        screen = shown(window);
    }
    if loose(&screen) == loose(&kept) {
        return;
    }
    if blesses {
        return fs::write(&file, &screen).unwrap();
    }
    assert_eq!(screen, kept, "{name}");
}

/// What a window shows, without what differs from run to run.
fn shown(window: &Window<'_>) -> String {
    let screen = steady(&window.screen(false));
    let rows: Vec<&str> = screen.lines().map(str::trim_end).collect();
    format!("{}\n", rows.join("\n").trim_end())
}

/// In as many columns, with `0` for every digit and for all of a name, a digest or what is left of one in sight.
fn steady(screen: &str) -> String {
    let characters: Vec<char> = screen.chars().collect();
    let (mut steady, mut at) = (String::new(), 0);
    while at < characters.len() {
        let before = at.checked_sub(1).map_or(' ', |before| characters[before]);
        let rest = &characters[at..];
        let changes = if before.is_ascii_alphanumeric() { 0 } else { changing(before, rest) };
        let length = changes.max(1);
        let word = rest[..length].iter();
        let is_kept = |one: &char| changes == 0 && !one.is_ascii_digit();
        steady.extend(word.map(|one| if is_kept(one) { *one } else { '0' }));
        at += length;
    }
    steady
}

/// How much of `rest`, which begins a word after `before`, differs from run to run.
fn changing(before: char, rest: &[char]) -> usize {
    let is_hex = |one: &&char| one.is_ascii_digit() || ('a'..='f').contains(*one);
    let of_name = |one: &&char| one.is_ascii_alphanumeric() || matches!(one, '-' | '.');
    let is_name = |name: &&str| rest.iter().zip(name.chars()).all(|(one, other)| *one == other);
    if NAMES.iter().any(is_name) {
        return rest.iter().take_while(of_name).count();
    }
    let hex = rest.iter().take_while(is_hex).count();
    let after = rest.get(hex).copied().unwrap_or(' ');
    // A dialog or a column's end leaves a piece of one in sight.
    let is_piece = |edge: char| matches!(edge, '-' | '│');
    let alone = !after.is_ascii_alphanumeric();
    if alone && (hex >= DIGEST || is_piece(before) || is_piece(after)) {
        return hex;
    }
    // The machine that the tests run on.
    if rest.starts_with(&MACHINE) {
        return MACHINE.len() + rest[MACHINE.len()..].iter().take_while(of_name).count();
    }
    0
}

/// Without how long a number is, how much blank follows it up to a column's end, and what stands in the bars of an hour.
fn loose(screen: &str) -> String {
    let mut loose = String::new();
    // On a slow machine what took seconds takes minutes.
    for character in screen.replace("0 min", "0 s").chars() {
        let character = if ('▁'..='█').contains(&character) { ' ' } else { character };
        if matches!(character, '0' | ' ' | '─') && loose.ends_with(character) {
            continue;
        }
        if character == '│' && loose.ends_with(' ') {
            loose.pop();
        }
        loose.push(character);
    }
    loose
}

#[test]
fn what_differs_from_run_to_run_is_no_difference() {
    let one = steady("│by m-0190-ab, 7 s ago   │ sha 0123456789abcdef now");
    let other = steady("│by m-7e21-00, 12 s ago  │ sha fedcba9876543210 now");
    assert_eq!(loose(&one), loose(&other));
    assert_ne!(loose(&one), loose(&steady("│by m-0190-ab, 7 h ago   │ sha 0123456789abcdef now")));
    assert_eq!(loose(&steady("3 s ago │")), loose(&steady("12 s ago│")));
    assert_eq!(loose(&steady("3 s ago    │")), loose(&steady("12 min ago │")));
    assert!(one.contains("by 000000000, 0 s ago"), "{one}");
}
