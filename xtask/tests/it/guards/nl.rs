//! Whether each requirement of the NL Protocol has a row in docs/nl-conformance.md, and each row the tests that it names.
//! Source: spec/nl-protocol-level2.md, reference/nl.md.

use std::{collections::BTreeSet, fs};

use super::{Source, all_sources};
use crate::root;

/// How many requirements are numbered below each number; of levels 6 and 7 none is.
const REQUIREMENTS: [(&str, u32); 9] = [
    ("1", 12),
    ("2", 20),
    ("2.6", 11),
    ("3", 12),
    ("3.3", 5),
    ("3.5", 7),
    ("4", 15),
    ("5", 20),
    ("8", 32),
];

#[test]
fn every_requirement_has_a_row_and_every_claim_a_test() {
    let list = fs::read_to_string(root().join("docs/nl-conformance.md")).unwrap();
    let all = all_sources();
    let (mut rows, mut unshown, mut gone, mut named) = (BTreeSet::new(), vec![], vec![], 0);
    for line in list.lines().filter_map(|line| line.strip_prefix("| ")) {
        let (what, shown) = line.split_once(" | ").unwrap();
        let tests = tests_in(shown);
        let is_there =
            |(place, test): &(Vec<&str>, &str)| all.iter().any(|source| is_in(source, place, test));
        gone.extend(tests.iter().filter(|test| !is_there(test)).map(|(_, test)| (what, *test)));
        let leads_on = ["as NL-", "the same"].iter().any(|words| shown.contains(words));
        if shown.starts_with("yes") && tests.is_empty() && !leads_on {
            unshown.push(what);
        }
        rows.extend(requirements(what));
        named += tests.len();
    }
    assert!(gone.is_empty(), "tests that are not there: {gone:#?}");
    assert!(unshown.is_empty(), "claimed without a test: {unshown:#?}");
    let wanted = REQUIREMENTS.iter();
    let wanted =
        wanted.flat_map(|(above, count)| (1..=*count).map(move |n| format!("{above}.{n}")));
    let missing: Vec<_> = wanted.filter(|id| !rows.contains(id)).collect();
    assert!(missing.is_empty(), "requirements without a row: {missing:?}");
    assert!(named > 200, "{named}");
}

/// `NL-1.5 lifecycle`, `NL-8.1 JSON, 8.2 envelope`, `NL-3.10 to 3.12`.
fn requirements(cell: &str) -> Vec<String> {
    let mut found: Vec<(&str, u32)> = Vec::new();
    let mut up_to = false;
    for word in cell.split([' ', ',']).filter(|word| !word.is_empty()) {
        let number = word.trim_start_matches("NL-").rsplit_once('.');
        let number = number.and_then(|(above, n)| Some((above, n.parse().ok()?)));
        match (number, found.last().copied()) {
            (Some((above, last)), Some((_, first))) if up_to => {
                found.extend((first + 1..=last).map(|n| (above, n)));
            }
            (number, _) => found.extend(number),
        }
        up_to = word == "to";
    }
    found.into_iter().map(|(above, n)| format!("{above}.{n}")).collect()
}

/// The tests that a row names, each with its place: what stands behind one (``daemon/nl/submit `a_test` ``), and names of
/// several words behind that.
fn tests_in(row: &str) -> Vec<(Vec<&str>, &str)> {
    let mut place: Vec<&str> = Vec::new();
    let mut tests = Vec::new();
    for pair in row.split('`').collect::<Vec<_>>().chunks_exact(2) {
        let (before, quoted) = (pair[0], pair[1]);
        let word = before.strip_suffix(' ').and_then(|text| text.split([' ', '(']).next_back());
        let steps: Vec<&str> = word.unwrap_or_default().split('/').collect();
        let is_room = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase());
        let is_placed = !steps[0].is_empty()
            && is_room(steps[0])
            && root().join("crates").join(steps[0]).is_dir();
        if is_placed {
            place = steps;
        }
        let is_name =
            quoted.bytes().all(|b| b.is_ascii_lowercase() || b"_:0123456789".contains(&b));
        let has_words = quoted.matches('_').count() > 2 && !quoted.starts_with("nl_");
        if is_name && (is_placed || has_words) {
            tests.push((place.clone(), quoted));
        }
    }
    tests
}

/// Whether `source` is at `place`, or below, and has the test: by its name or the end of it (`_over_stdio`), or by its
/// module's and its own.
fn is_in(source: &Source, place: &[&str], test: &str) -> bool {
    let mut parts = source.place.split('/');
    let is_at = place.iter().all(|step| parts.any(|part| part == *step));
    let (modules, name) = test.rsplit_once("::").unwrap_or(("", test));
    let is_below = modules.is_empty() || source.place.ends_with(modules);
    let names_it =
        |known: &String| known == name || (name.starts_with('_') && known.ends_with(name));
    is_at && is_below && source.tests.iter().any(names_it)
}

#[test]
fn rows_and_their_tests_are_read() {
    assert_eq!(requirements("NL-8.1 JSON, 8.2 envelope"), ["8.1", "8.2"]);
    assert_eq!(requirements("NL-3.3.3 to 3.3.5"), ["3.3.3", "3.3.4", "3.3.5"]);
    assert!(requirements("Basic: the four types").is_empty());
    let text = "#[test]\nfn a_test_of_it() {}\n#[test]\nfn short() {}\n".to_owned();
    let all = [Source::new("daemon/src/nl/submit", text)];
    let submit = || vec!["daemon", "nl", "submit"];
    let tests = tests_in("yes; `keep_days` | daemon/nl/submit `short`; of it: `a_test_of_it`");
    assert_eq!(tests, [(submit(), "short"), (submit(), "a_test_of_it")]);
    assert_eq!(tests_in("(daemon `short`) | an entry `clock_sync`"), [(vec!["daemon"], "short")]);
    let has = |place: &[&str], test| is_in(&all[0], place, test);
    assert!(has(&["daemon", "submit"], "submit::short") && has(&[], "_test_of_it"));
    assert!(
        !has(&["cli"], "short") && !has(&["daemon"], "longer") && !has(&["daemon"], "a::short")
    );
}
