//! What reads the source so that a person need not: where a value could stand as plain text, and whether the tests that
//! the acceptance list names are there. Source: reference/secrets.md, section 17, lines 7 and 11.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::root;

/// Names of fields that hold what opens something.
const NAMES: [&str; 9] = [
    "api_key",
    "credential",
    "passphrase",
    "password",
    "private_key",
    "secret",
    "secret_value",
    "token",
    "totp",
];

/// Types that can be printed, cloned and written out by mistake.
const PLAIN: [&str; 6] = ["String", "Box<str>", "Arc<str>", "Cow<", "Vec<u8>", "&'a str"];

/// Fields that are named so and hold no value of the vault's.
const HARMLESS: [(&str, &str, &str); 6] = [
    ("crates/core/src/agent.rs", "token", "a vendor's word about an agent, which the agent shows"),
    ("crates/daemon/src/nl/attestation/attestor.rs", "token", "the same, for the agent to show"),
    ("crates/egress/src/door/postgres/client.rs", "password", "what the agent sent: a placeholder"),
    ("crates/egress/src/swap/basic.rs", "credential", "what the agent sent: a placeholder"),
    (
        "crates/mcp/src/secrets/arguments.rs",
        "totp",
        "a code that the agent sent, good for half a minute",
    ),
    ("crates/pack/src/confirm.rs", "token", "says which plan was shown, and opens nothing"),
];

/// A field called `token`, `password` and the like is no `String`: it is a type that wipes and does not print.
#[test]
fn what_opens_something_is_no_plain_text() {
    let mut harmless: BTreeSet<_> =
        HARMLESS.iter().map(|(file, field, _)| ((*file).to_owned(), (*field).to_owned())).collect();
    let mut faults = Vec::new();
    for file in sources(&root().join("crates")) {
        let place = file.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        if place.contains("/tests/") || place.starts_with("crates/testkit/") {
            continue;
        }
        for field in plain_fields(&fs::read_to_string(&file).unwrap()) {
            if !harmless.remove(&(place.clone(), field.clone())) {
                faults.push(format!("{place}: {field}"));
            }
        }
    }
    assert!(faults.is_empty(), "name them otherwise, or wipe them:\n{}", faults.join("\n"));
    assert!(harmless.is_empty(), "these are gone: {harmless:?}");
}

#[test]
fn the_guard_sees_what_it_should() {
    let planted = "struct A {\n    pub token: String,\n    password: Option<String>,\n    pub(crate) api_key: Vec<u8>,\n}";
    assert_eq!(plain_fields(planted), ["token", "password", "api_key"]);
    let fine = "struct A {\n    token: Zeroizing<String>,\n    tokens: usize,\n    token_url: String,\n}\nfn f(token: String) {}";
    assert!(plain_fields(fine).is_empty());
}

/// The fields of structs and variants in `text` that are called so and are plain.
fn plain_fields(text: &str) -> Vec<String> {
    let product = text.split("#[cfg(test)]").next().unwrap_or_default();
    let field = |line: &str| {
        let line = line.trim();
        let line =
            line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub(super) ")).unwrap_or(line);
        let (name, kind) = line.strip_prefix("pub ").unwrap_or(line).split_once(": ")?;
        let kind = kind.strip_suffix(',')?;
        let kind = kind.strip_prefix("Option<").unwrap_or(kind);
        let is_plain = NAMES.contains(&name) && PLAIN.iter().any(|plain| kind.starts_with(plain));
        is_plain.then(|| name.to_owned())
    };
    product.lines().filter_map(field).collect()
}

/// Every line of section 20 stands in the list, with a test that exists or a dash and its reason.
#[test]
fn acceptance_names_tests_that_exist() {
    let list = fs::read_to_string(root().join("docs/secrets-acceptance.md")).unwrap();
    let rows = list.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let mut lines = BTreeSet::new();
    for (line, shown) in rows.filter(|(line, _)| line.starts_with(|c: char| c.is_ascii_digit())) {
        assert!(
            shown.contains('`') || shown.contains('—'),
            "line {line} has neither test nor reason"
        );
        lines.extend(numbers(line));
    }
    let missing: Vec<_> = (1..=115).filter(|number| !lines.contains(number)).collect();
    assert!(missing.is_empty(), "lines without a row: {missing:?}");
    let named = named_in(&list, &["cli"]);
    assert!(named > 100, "{named}");
}

/// The same of the pack's list, whose tests are of two rooms.
#[test]
fn the_packs_acceptance_names_tests_that_exist() {
    let list = fs::read_to_string(root().join("docs/pack-acceptance.md")).unwrap();
    let named = named_in(&list, &["cli", "pack"]);
    assert!(named > 60, "{named}");
}

/// How many tests a list names, all of which are there; those without a package in one of `rooms`.
fn named_in(list: &str, rooms: &[&str]) -> usize {
    let mut named = 0;
    for quoted in list.split('`').skip(1).step_by(2) {
        let Some((package, name)) = named_test(quoted) else { continue };
        let rooms = if package == "cli" { rooms } else { &[package] };
        let files = rooms.iter().flat_map(|room| sources(&root().join("crates").join(room)));
        let texts: Vec<_> = files.map(|file| fs::read_to_string(file).unwrap()).collect();
        let is_there = |word: String| texts.iter().any(|text| text.contains(&word));
        let found = is_there(format!("fn {name}(")) || is_there(format!("mod {name}"));
        assert!(found, "no test {quoted}");
        named += 1;
    }
    named
}

/// `1`, `17 to 19`, `26, 27`, `1 list rows are …`.
fn numbers(cell: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = Vec::new();
    let mut up_to = false;
    for word in cell.split([' ', ',', ':']).filter(|word| !word.is_empty()) {
        match (word.parse::<u32>(), numbers.last()) {
            (Ok(number), Some(last)) if up_to => numbers.extend(last + 1..=number),
            (Ok(number), _) => numbers.push(number),
            (Err(_), Some(_)) if word == "to" => {}
            (Err(_), _) => break,
        }
        up_to = word == "to";
    }
    numbers
}

/// `mcp::doors::a_test`, `keyless-core approval::tests::a_test`, `keyless-vault::it life::a_test`: the room whose test it
/// is, and the test's own name or its module's.
fn named_test(quoted: &str) -> Option<(&str, &str)> {
    let (room, path) = match quoted.rsplit_once(' ') {
        Some(("keyless bin", path)) => ("cli", path),
        Some((package, path)) => (package.strip_prefix("keyless-")?.trim_end_matches("::it"), path),
        None if quoted.contains("::") && !quoted.starts_with("keyless") => ("cli", quoted),
        None => return None,
    };
    let is_name = |word: &&str| {
        word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit())
    };
    let mut words = path.rsplit("::").skip_while(|word| ["…", "*", "tests"].contains(word));
    words.next().filter(is_name).map(|name| (room, name))
}

/// Rust files of the product and its tests, in order.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
