//! docs/errors.md lists every code as it is. `KEYLESS_BLESS=1` writes it anew.

use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use keyless_core::Code;

use crate::product::product_of;

const HEAD: &str = "\
# Errors

Every error that a person or an agent can meet. An HTTP refusal carries the code in `X-Keyless-Refused` and as JSON
`{code, message, remediation}`; a command prints the message and the next step, or both with `--json`. The table is generated from
`crates/core/src/error.rs` by the test that checks it.

| exit | meaning |
|---|---|
| 0 | done |
| 1 | something failed that no other status names |
| 2 | the arguments, a value or what a file says can't be used |
| 3 | a secret or store is not there; a file is not there, or can't be read or written |
| 4 | policy says no |
| 5 | the store is locked, or the factor is wrong |
| 6 | the store is damaged or tampered with, or the disk is full |
| 7 | this machine lacks something |
| 126, 127 | the command can't be executed, does not exist |

`keyless run` ends as its command does, by the same status or signal. So does `keyless exec`, by the same status; an action that ran too long
ends it with 124, as `timeout` has it, and not with its code's own.

With `--json` an answer's `ok` is `true` exactly when the exit status is 0. Where the command itself failed, `errors` says how. A command that examines something and finds it bad has
`\"ok\":false` too, with an empty `errors`: what it found is in `data`.

| command | exit status when it is bad |
|---|---|
| `catalog validate` | 2: a file can't be used |
| `catalog add-url`, `catalog refresh` | 1: an address gave no catalog that can be used |
| `doctor` | 1: a check is a `fault` |
| `egress explain` | 4: the request would be refused |
| `grant explain` | 4: the action would be refused |
| `guard check` | 4: the command would be blocked |
| `hooks check` | 1: something was found, or not all could be looked through |
| `secret check` | 1: a service rejected a value |
| `secret import` | 1: a value was refused |
| `secret validate` | 1: something required is missing or has expired, or an entry can't be used |
| `source check` | 1: a value can't be had |

| code | NL | HTTP | exit | what happened | who | what to do next | retry |
|---|---|---|---|---|---|---|---|
";

#[test]
fn the_document_lists_every_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    let expected = document();
    if std::env::var_os("KEYLESS_BLESS").is_some() {
        fs::write(&file, &expected).unwrap();
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), expected, "KEYLESS_BLESS=1 writes it anew");
}

/// What is listed can be met: some product code gives it, and the tables that say what a code is do not count as that.
#[test]
fn every_code_is_given_somewhere() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let tables =
        ["core/src/error.rs", "core/src/nl_message/fault.rs"].map(|file| crates.join(file));
    let mut given = BTreeSet::new();
    for room in fs::read_dir(crates).unwrap() {
        given_below(&room.unwrap().path().join("src"), &tables, &mut given);
    }
    let unused: Vec<_> =
        Code::ALL.iter().filter(|code| !given.contains(&format!("{code:?}"))).collect();
    assert!(unused.is_empty(), "nothing gives {unused:?}");
}

/// The variants that stand behind `Code::` in the sources below a folder.
fn given_below(folder: &Path, without: &[PathBuf], given: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            given_below(&path, without, given);
        } else if !without.contains(&path) {
            let product = product_of(&fs::read_to_string(&path).unwrap_or_default());
            let each = product.split("Code::").skip(1);
            let name = |rest: &str| -> String {
                rest.chars().take_while(char::is_ascii_alphanumeric).collect()
            };
            given.extend(each.map(name));
        }
    }
}

fn document() -> String {
    let mut text = HEAD.to_owned();
    for code in Code::ALL {
        let remediation = code.remediation();
        writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} | {} | {} |",
            code.as_str(),
            code.nl_code(),
            code.http_status(),
            code.exit() as u8,
            remediation.user_message,
            format!("{:?}", remediation.actor).to_lowercase(),
            remediation.action,
            if remediation.retryable { "yes" } else { "no" },
        )
        .unwrap();
    }
    text
}
