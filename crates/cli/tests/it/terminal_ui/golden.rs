//! Screens that are kept beside the tests, compared without what differs from run to run.

use std::{env, fs, path::Path};

/// What a name is known by: all of it, up to its end, differs from run to run.
const NAMES: [&str; 6] = ["prov-", "m-", "s-", "g-", "req-", ".tmp"];
/// Hexadecimal digits in a row that are a digest, or part of one.
const DIGEST: usize = 12;

/// Compares a screen with the one that is kept, or keeps it (`KEYLESS_BLESS=1`).
#[track_caller]
pub(crate) fn golden(name: &str, screen: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/ui").join(name);
    let screen = steady(screen);
    let rows: Vec<&str> = screen.lines().map(str::trim_end).collect();
    let screen = format!("{}\n", rows.join("\n").trim_end());
    let kept = fs::read_to_string(&file).unwrap_or_default();
    if loose(&screen) == loose(&kept) {
        return;
    }
    if env::var_os("KEYLESS_BLESS").is_some() {
        return fs::write(&file, &screen).unwrap();
    }
    assert_eq!(screen, kept, "{name}");
}

/// In as many columns, with `0` for every digit and for all of a name or a digest.
fn steady(screen: &str) -> String {
    let characters: Vec<char> = screen.chars().collect();
    let (mut steady, mut at) = (String::new(), 0);
    while at < characters.len() {
        let rest = &characters[at..];
        let is_start = at == 0 || !characters[at - 1].is_ascii_alphanumeric();
        let of_name = |one: &&char| one.is_ascii_alphanumeric() || **one == '-' || **one == '.';
        let of_digest = |one: &&char| one.is_ascii_digit() || ('a'..='f').contains(*one);
        let digest = rest.iter().take_while(of_digest).count();
        let is_name = NAMES.iter().any(|name| {
            let name = name.chars();
            let mut both = rest.iter().zip(name.clone());
            rest.len() > name.count() && both.all(|(one, other)| *one == other)
        });
        let length = if is_start && is_name {
            rest.iter().take_while(of_name).count()
        } else if is_start && digest >= DIGEST {
            digest
        } else {
            0
        };
        if length > 0 {
            steady.push_str(&"0".repeat(length));
            at += length;
            continue;
        }
        steady.push(if rest[0].is_ascii_digit() { '0' } else { rest[0] });
        at += 1;
    }
    steady
}

/// Without how long a number is, how much blank follows it, and what stands in the bars of an hour.
fn loose(screen: &str) -> String {
    let mut loose = String::new();
    for character in screen.chars() {
        let character = if ('▁'..='█').contains(&character) { ' ' } else { character };
        if matches!(character, '0' | ' ' | '─') && loose.ends_with(character) {
            continue;
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
    assert!(one.contains("by 000000000, 0 s ago"), "{one}");
}
