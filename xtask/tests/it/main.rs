//! The house's rules, held by tests: who may know whom, where heavy dependencies live, how many
//! packages there are. Source: design.md, section 3.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod guards;
#[path = "../../../crates/core/tests/it/product.rs"]
mod product;

use std::{collections::BTreeSet, fs, path::Path};

/// Each room and the rooms that it may name.
const ARROWS: &[(&str, &[&str])] = &[
    ("action", &["core", "rewrite"]),
    ("cli", &["core", "daemon", "pack", "testkit"]),
    ("client", &["core", "sockets"]),
    // The one table of characters that nobody sees: the guard folds by it, the sanitizer looks behind it.
    ("core", &["rewrite"]),
    (
        "daemon",
        &[
            "action", "client", "core", "egress", "guest", "jail", "mcp", "sockets", "store",
            "vault",
        ],
    ),
    ("egress", &["core", "rewrite", "sockets"]),
    ("guest", &["core", "sockets"]),
    ("init", &["guest", "jail", "sockets"]),
    ("jail", &[]),
    ("pack", &[]),
    ("mcp", &["core", "sockets"]),
    ("plugin", &[]),
    ("rewrite", &[]),
    ("sockets", &[]),
    ("store", &["core"]),
    ("testkit", &[]),
    ("vault", &["core", "plugin", "store"]),
];

/// A heavy dependency and the rooms that may name it.
const HOMES: &[(&str, &[&str])] = &[
    // The keychain of macOS.
    ("apple-native-keyring-store", &["vault"]),
    // A passphrase, and an agent's credential.
    ("argon2", &["daemon", "vault"]),
    ("clap", &["cli"]),
    ("h2", &["egress"]),
    ("hickory-proto", &["guest"]),
    ("hyper", &["daemon", "egress", "mcp", "testkit"]),
    // The daemon's for macOS alone.
    ("libc", &["daemon", "jail"]),
    ("prometheus-client", &["daemon"]),
    ("rcgen", &["egress", "testkit"]),
    ("rmcp", &["mcp"]),
    ("rustls", &["egress", "testkit"]),
    ("seccompiler", &["jail"]),
    // The desktop's keyring.
    ("secret-service", &["vault"]),
    ("sqlx", &["store"]),
    // A word on the desktop.
    ("zbus", &["daemon"]),
];

/// Raised knowingly: each package is something to trust and to build. Last for copies of the vault
/// that other programs open (age), the desktop's keyring (secret-service, so zbus) and PostgreSQL; and by one for
/// `keyless-client`, a room of our own that brings nobody else's.
const PACKAGE_BUDGET: usize = 546;

#[test]
fn rooms_know_only_whom_they_may() {
    for (room, allowed) in ARROWS {
        let known = dependencies(room);
        let rooms = known.iter().filter_map(|name| name.strip_prefix("keyless-"));
        for other in rooms {
            assert!(allowed.contains(&other), "{room} may not know {other}");
        }
    }
    let rooms = fs::read_dir(root().join("crates")).unwrap().count();
    assert_eq!(rooms, ARROWS.len(), "a room is missing from the list");
}

#[test]
fn heavy_dependencies_have_a_home() {
    for (room, _) in ARROWS {
        let known = dependencies(room);
        for (heavy, homes) in HOMES {
            assert!(!known.contains(*heavy) || homes.contains(room), "{room} names {heavy}");
        }
    }
}

#[test]
fn the_lock_file_stays_within_its_budget() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages = lock.matches("[[package]]").count();
    assert!(packages <= PACKAGE_BUDGET, "{packages} packages, the budget is {PACKAGE_BUDGET}");
}

#[test]
fn unsafe_code_is_in_files_called_sys() {
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let is_sys = path.file_name().is_some_and(|name| name == "sys.rs");
                assert!(is_sys || !text.contains("unsafe {"), "{}", path.display());
            }
        }
    }
}

/// `room::module::test`, as docs/egress-cases.md names them; the last part may be a module.
#[test]
fn the_tests_that_the_cases_name_exist() {
    let cases = fs::read_to_string(root().join("docs/egress-cases.md")).unwrap();
    for quoted in cases.split('`').skip(1).step_by(2) {
        let Some((room, inside)) = quoted.split_once("::") else { continue };
        let room = root().join("crates").join(room);
        let text_of = |module: &str| {
            let module = module.replace("::", "/");
            let places = [format!("tests/it/{module}.rs"), format!("src/{module}.rs")];
            let texts = places.iter().map(|place| fs::read_to_string(room.join(place)));
            texts.filter_map(Result::ok).collect::<String>()
        };
        let (module, test) = inside.rsplit_once("::").unwrap_or((inside, ""));
        // `tests` may be a module within its file.
        let inline = module.strip_suffix("::tests").map(&text_of).unwrap_or_default();
        let source = text_of(module) + &inline;
        let is_module = !text_of(inside).is_empty() || source.contains(&format!("mod {test} {{"));
        assert!(is_module || source.contains(&format!("fn {test}(")), "no test {quoted}");
    }
}

/// The names under `[dependencies]` in a room's manifest, those for one system among them.
fn dependencies(room: &str) -> BTreeSet<String> {
    let manifest = root().join("crates").join(room).join("Cargo.toml");
    let text = fs::read_to_string(manifest).unwrap();
    let sections = text.split("\n[").filter_map(|part| part.split_once("]\n"));
    let wanted = |title: &str| {
        title == "dependencies" || title.starts_with("target.") && title.ends_with(".dependencies")
    };
    let lines = sections.filter(|(title, _)| wanted(title)).flat_map(|(_, names)| names.lines());
    let name = |line: &str| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned();
    lines.map(name).filter(|name| !name.is_empty() && !name.starts_with('#')).collect()
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}
