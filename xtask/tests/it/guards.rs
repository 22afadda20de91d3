//! What reads the source so that a person need not: where a value could stand as plain text, and whether the tests that
//! the acceptance list names are there. Source: reference/secrets.md, section 17, lines 7 and 11.

/// The same of the NL Protocol's requirements.
mod nl;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::{product::product_of, root};

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
const HARMLESS: [(&str, &str, &str); 14] = [
    ("crates/core/src/action.rs", "approval_token", APPROVAL),
    ("crates/core/src/action/wire.rs", "approval_token", APPROVAL),
    ("crates/core/src/agent.rs", "token", "a vendor's word about an agent, which the agent shows"),
    ("crates/daemon/src/nl/attestation/attestor.rs", "token", "the same, for the agent to show"),
    ("crates/egress/src/door/postgres/client.rs", "password", "what the agent sent: a placeholder"),
    ("crates/egress/src/swap/basic.rs", "credential", "what the agent sent: a placeholder"),
    ("crates/mcp/src/pack.rs", "confirm_token", PLAN),
    ("crates/mcp/src/secrets.rs", "totp", CODE),
    ("crates/mcp/src/secrets/arguments.rs", "totp", CODE),
    ("crates/pack/src/commands.rs", "confirm_token", PLAN),
    ("crates/pack/src/confirm.rs", "token", PLAN),
    ("crates/pack/src/deploy.rs", "confirm_token", PLAN),
    ("crates/vault/src/envelope/totp.rs", "sealed_secret", "sealed with the vault's key"),
    (
        "crates/vault/src/source/hashicorp.rs",
        "client_token",
        "borrowed from an answer whose bytes are wiped",
    ),
];

const APPROVAL: &str = "names a person's answer, which is good for who asked alone";
const CODE: &str = "a code that the agent sent, good for half a minute";
const PLAN: &str = "says which plan was shown, and opens nothing";

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
    let further = "#[cfg(test)]\nmod scene;\nenum Ask {\n    Unlock { totp: String, seconds: u64 },\n}\nstruct B {\n    access_token: String,\n}";
    assert_eq!(plain_fields(further), ["totp", "access_token"]);
    let fine = "struct A {\n    token: Zeroizing<String>,\n    tokens: usize,\n    token_url: String,\n}\nfn f(token: String) {}";
    assert!(plain_fields(fine).is_empty());
}

/// The fields of structs and variants in `text` that are called so and are plain.
fn plain_fields(text: &str) -> Vec<String> {
    let is_called_so = |name: &str| {
        NAMES.into_iter().any(|known| {
            name.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
        })
    };
    let field = |piece: &str| {
        let piece = piece.trim();
        let inner = piece.strip_prefix("pub(crate) ").or(piece.strip_prefix("pub(super) "));
        let inner = inner.or(piece.strip_prefix("pub ")).unwrap_or(piece);
        let (name, kind) = inner.split_once(": ")?;
        let kind = kind.strip_prefix("Option<").unwrap_or(kind);
        let is_plain = is_called_so(name) && PLAIN.iter().any(|plain| kind.starts_with(plain));
        is_plain.then(|| name.to_owned())
    };
    let product = product_of(text);
    // A field ends with a comma; a variant on one line has its fields between braces.
    let pieces = product.lines().flat_map(|line| match line.trim().strip_suffix(',') {
        Some(variant) if variant.ends_with('}') && !variant.contains('(') => {
            variant.split(['{', '}', ',']).collect()
        }
        Some(field) => vec![field],
        None => Vec::new(),
    });
    pieces.filter_map(field).collect()
}

/// Every line of section 20 stands in the list, with a test that exists or a dash and its reason.
#[test]
fn acceptance_names_tests_that_exist() {
    let list = fs::read_to_string(root().join("docs/secrets-acceptance.md")).unwrap();
    let rows = list.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let (mut lines, mut unshown, all) = (BTreeSet::new(), Vec::new(), all_sources());
    for (line, shown) in rows.filter(|(line, _)| line.starts_with(|c: char| c.is_ascii_digit())) {
        let shown = shown.trim_end_matches(" |");
        if named_in(shown, &["cli"], &all) == 0 && !shown.starts_with('—') {
            unshown.push(line);
        }
        for number in numbers(line) {
            let (first, again) = (lines.insert(number), line);
            assert!(first, "line {number} stands there twice: {again}");
        }
    }
    // Rows are moved and put in between, and "the same" says then what it never said.
    let vague: Vec<&str> =
        list.lines().filter(|row| row.starts_with('|') && row.contains("| the same")).collect();
    assert!(vague.is_empty(), "rows that name no test of their own: {vague:#?}");
    assert!(unshown.is_empty(), "neither a test nor a dash with a reason: {unshown:#?}");
    let missing: Vec<_> = (1..=115).filter(|number| !lines.contains(number)).collect();
    assert!(missing.is_empty(), "lines without a row: {missing:?}");
    let named = named_in(&list, &["cli"], &all);
    assert!(named > 100, "{named}");
}

/// The same of the pack's list, whose tests are of two rooms.
#[test]
fn the_packs_acceptance_names_tests_that_exist() {
    let list = fs::read_to_string(root().join("docs/pack-acceptance.md")).unwrap();
    let named = named_in(&list, &["cli", "pack"], &all_sources());
    assert!(named > 60, "{named}");
}

/// How many tests a list names, all of which are there; those without a package in one of `rooms`.
fn named_in(list: &str, rooms: &[&str], all: &[Source]) -> usize {
    let mut named = 0;
    for quoted in list.split('`').skip(1).step_by(2) {
        let Some((package, path)) = named_test(quoted) else { continue };
        let rooms = if package == "cli" { rooms } else { &[package] };
        let in_rooms = |source: &&Source| {
            rooms.iter().any(|room| source.place.split('/').next() == Some(room))
        };
        let is_there = all.iter().filter(in_rooms).any(|source| source.has_test(&path));
        assert!(is_there, "no test {quoted}");
        named += 1;
    }
    named
}

/// A file below `crates`.
struct Source {
    /// Where, without its end.
    place: String,
    text: String,
    tests: BTreeSet<String>,
}

impl Source {
    fn new(place: &str, text: String) -> Self {
        let tests = tests_of(&text).into_iter().map(ToOwned::to_owned).collect();
        Self { place: place.to_owned(), text, tests }
    }

    /// Whether it has the test that the last word of `path` names, or is (in) the module that it names and has tests.
    /// The word before stands in the file's own place.
    fn has_test(&self, path: &[&str]) -> bool {
        let Some((name, modules)) = path.split_last() else { return false };
        let is_in = |module: &str| {
            self.place.split('/').any(|part| part == module)
                || self.text.contains(&format!("mod {module} {{"))
        };
        (self.tests.contains(*name) || (!self.tests.is_empty() && is_in(name)))
            && modules.last().is_none_or(|module| is_in(module))
    }
}

fn all_sources() -> Vec<Source> {
    let crates = root().join("crates");
    let read = |file: PathBuf| {
        let place = file.strip_prefix(&crates).unwrap().with_extension("");
        Source::new(place.to_str().unwrap(), fs::read_to_string(&file).unwrap())
    };
    sources(&crates).into_iter().map(read).collect()
}

/// The functions that a test runner runs: by their attribute, by a macro that runs each on both databases, or by
/// `proptest!`.
fn tests_of(text: &str) -> BTreeSet<&str> {
    let mut tests = BTreeSet::new();
    let (mut marked, mut on_both) = (false, false);
    for line in text.lines().map(str::trim) {
        let name = line.split_once("fn ").and_then(|(_, rest)| rest.split(['(', '<']).next());
        match line {
            "on_both! {" => on_both = true,
            "}" => on_both = false,
            name if on_both => {
                tests.insert(name);
            }
            _ if line.starts_with("#[") => {
                marked |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            }
            _ if marked && name.is_some() => {
                tests.extend(name);
                marked = false;
            }
            _ => {}
        }
    }
    tests
}

#[test]
fn only_what_runs_is_a_test() {
    let text = "on_both! {\n    one\n}\n#[tokio::test]\nasync fn two() {}\n#[test]\n#[ignore]\nfn three() {}\n\
                fn helper() {}\nmod inner {\n}\n";
    assert_eq!(tests_of(text), BTreeSet::from(["one", "three", "two"]));
    let source = Source::new("cli/tests/it/mcp/uses", text.to_owned());
    let has = |path: &[&str]| source.has_test(path);
    assert!(has(&["uses", "two"]) && has(&["mcp", "uses"]) && has(&["inner"]));
    assert!(!has(&["helper"]) && !has(&["doors", "two"]) && !has(&["doors"]));
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
/// is, and the names of its modules and its own, or its module's.
fn named_test(quoted: &str) -> Option<(&str, Vec<&str>)> {
    let (room, path) = match quoted.rsplit_once(' ') {
        Some(("keyless bin", path)) => ("cli", path),
        Some((package, path)) => (package.strip_prefix("keyless-")?.trim_end_matches("::it"), path),
        None if quoted.contains("::") && !quoted.starts_with("keyless") => ("cli", quoted),
        None => return None,
    };
    let is_name = |word: &str| {
        word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit())
    };
    let words = path.split("::").filter(|word| !["…", "*", "tests", "it"].contains(word));
    let words: Vec<&str> = words.collect();
    words.iter().all(|word| is_name(word)).then_some((room, words))
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
