//! The places in the whole workspace that open a value, copy one, or say that one may be opened. A new one is a decision,
//! made here.

use std::{fs, path::Path};

use crate::product::product_of;

/// File (below `crates/`) and which opening it uses. Tests and benches are not product code.
const OPENINGS: &[(&str, &str)] = &[
    ("action/src/ports.rs", "open_with_permit"),
    // The operator's own eyes, at a terminal.
    ("daemon/src/operator/reveal.rs", "open_with_permit"),
    // Signing for an agent with the organization's key.
    ("daemon/src/nl/attestation/attestor.rs", "open_with_permit"),
    // Signing what a receiver of the operator's is told.
    ("daemon/src/nl/webhooks/key.rs", "open_with_permit"),
    ("egress/src/ports.rs", "open_with_permit"),
    // The vault's key is a value too: derived from, and wrapped.
    ("vault/src/key.rs", "expose_for_sealing"),
    // Handing a value to the source that keeps it, or logging in there.
    ("vault/src/source/aws.rs", "expose_to_its_source"),
    ("vault/src/source/bitwarden.rs", "expose_to_its_source"),
    ("vault/src/source/hashicorp.rs", "expose_to_its_source"),
    ("vault/src/source/keepass.rs", "expose_to_its_source"),
    ("vault/src/source/keyring/linux.rs", "expose_to_its_source"),
    ("vault/src/source/keyring/macos.rs", "expose_to_its_source"),
    ("vault/src/source/onepassword.rs", "expose_to_its_source"),
    ("vault/src/source/pass.rs", "expose_to_its_source"),
    ("vault/src/source/plugin.rs", "expose_to_its_source"),
    ("vault/src/source/supply.rs", "expose_to_its_source"),
    // Encrypting a copy of the vault to its owner's keys.
    ("vault/src/backup/document.rs", "expose_for_sealing"),
    // The suite that every source passes; compiled for tests only.
    ("vault/src/source/suite.rs", "expose_for_sealing"),
    // Sealing a new version, and checking that a value fits a new binding.
    ("vault/src/vault/secrets.rs", "expose_for_sealing"),
    // What was fetched, or mounted, and is given out again.
    ("daemon/src/fleet/mounted.rs", "copy_for_cache"),
    ("daemon/src/tokens/fetcher.rs", "copy_for_cache"),
    ("vault/src/router/cache.rs", "copy_for_cache"),
    // What a plugin was started with, to tell whether it still is that.
    ("vault/src/source/supply.rs", "copy_for_cache"),
    // The operator's own word, where no rule and no grant is asked.
    ("daemon/src/nl/actions/operator.rs", "allow_operators_action"),
    ("daemon/src/nl/attestation/attestor.rs", "allow_operators_action"),
    ("daemon/src/nl/webhooks/key.rs", "allow_operators_action"),
    ("daemon/src/operator/reveal.rs", "allow_operators_eyes"),
    // The step from an entry that is on record to the right to open a value.
    ("daemon/src/permits.rs", "from_recorded"),
    // What makes an entry one that is on record.
    ("store/src/audit/writer.rs", "after_commit"),
    // A broker for tests alone.
    ("egress/src/swap/testing.rs", "from_recorded"),
    ("egress/src/swap/testing.rs", "after_commit"),
    // Where a change without an entry has its name, and tests.
    ("vault/src/vault/entries.rs", "untold"),
    ("daemon/src/nl/approve/tests.rs", "untold"),
    ("daemon/src/nl/ask/tests.rs", "untold"),
    ("daemon/src/nl/attestation/tests.rs", "untold"),
    ("daemon/src/nl/delegate/tests.rs", "untold"),
    ("daemon/src/nl/scene.rs", "untold"),
    ("daemon/src/nl/submit/tests.rs", "untold"),
    ("daemon/src/web/corpus.rs", "untold"),
];

/// What opens a value, copies one, stands at the beginning of a permit, or changes a secret in silence.
const NAMES: [&str; 9] = [
    "after_commit",
    "allow_operators_action",
    "allow_operators_eyes",
    "copy_for_cache",
    "expose_for_sealing",
    "expose_to_its_source",
    "from_recorded",
    "open_with_permit",
    // A change of the vault that no entry tells of.
    "untold",
];

#[test]
fn values_are_opened_only_where_listed() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for room in fs::read_dir(crates).unwrap() {
        let source = room.unwrap().path().join("src");
        if source.is_dir() && !source.starts_with(crates.join("core")) {
            openings_below(&source, crates, &mut found);
        }
    }
    found.sort();
    let mut listed: Vec<(String, String)> =
        OPENINGS.iter().map(|(file, by)| ((*file).to_owned(), (*by).to_owned())).collect();
    listed.sort();
    assert_eq!(found, listed);
}

fn openings_below(folder: &Path, crates: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            openings_below(&path, crates, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let product = product_of(&text);
        for by in NAMES {
            if product.contains(&format!("{by}(")) || product.contains(&format!("::{by}")) {
                let file = path.strip_prefix(crates).unwrap().to_str().unwrap();
                found.push((file.to_owned(), by.to_owned()));
            }
        }
    }
}
