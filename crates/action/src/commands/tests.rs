use std::sync::Arc;

use data_encoding::{BASE64, HEXLOWER};
use jiff::Timestamp;
use keyless_core::{SecretPath, grant::PermissionRef, nl_message::Profile};
use serde_json::json;

use super::*;
use crate::{
    Checked,
    cleaning::{Cleaner, Sought},
    ports::{Edition, Entrusted},
};

fn materials(value: &[u8]) -> Materials {
    let secret = Entrusted {
        handle: Handle::parse_alone("", "{{nl:db/PASSWORD}}").unwrap(),
        path: "team/db/password".parse().unwrap(),
        version: None,
        entry: Entry::Value,
        rule: None,
        is_exposed: false,
        edition: Edition { version: Some(1), set_at: Timestamp::UNIX_EPOCH },
    };
    Materials::holding(vec![Material { secret, bytes: Zeroizing::new(value.to_vec()) }])
}

fn work(action: serde_json::Value) -> Work {
    Work {
        action_id: "act_1".to_owned(),
        checked: Checked::unchecked(serde_json::from_value(action).unwrap()),
        secrets: Vec::new(),
        allowed_hosts: Vec::new(),
        kept: vec!["act_1".to_owned()],
        permissions: Vec::new(),
        working_directory: None,
    }
}

#[test]
fn a_value_is_looked_for_as_it_entered_without_its_nul_bytes() {
    let value = b"Qm7xT4w9\0ZrK2bVpUIz";
    let bare = b"Qm7xT4w9ZrK2bVpUIz";
    let action = json!({"type": "exec", "template": "V={{nl:db/PASSWORD}}"});
    let prepared = prepare(&work(action), &materials(value), &Shelf::default()).unwrap().unwrap();
    assert_eq!(prepared.command.environment[0].1.as_slice(), bare);
    let mut cleaner = Cleaner::new(Arc::new(Sought::new(&prepared.known)), Profile::Seed);
    for entered in [&value[..], bare] {
        for text in [BASE64.encode(entered), HEXLOWER.encode(entered)] {
            assert!(cleaner.text(&text).starts_with("[REDACTED:db/PASSWORD:"), "{text}");
        }
    }
    // Other readers leave them out as well, so that it does not matter how the value came.
    let stdin = json!({
        "type": "inject_stdin", "command": "read V", "secret_ref": "{{nl:db/PASSWORD}}"
    });
    let prepared = prepare(&work(stdin), &materials(value), &Shelf::default()).unwrap().unwrap();
    assert!(prepared.known.iter().any(|known| known.value.as_slice() == bare));
}

/// Else a use of its grant would be gone, and a value opened, for what can't begin.
#[test]
fn a_command_that_the_kernel_would_not_take_is_refused_before_anything_is_taken() {
    let refused = |text: &str| fits(text).map_err(|error| error.code()).err();
    assert_eq!(refused(&"x ".repeat(60_000)), None);
    assert_eq!(refused(&"x ".repeat(66_000)), Some(Code::CommandNotExecutable));
    let many = |count: usize| "echo '{{nl:api/KEY}}'\n".repeat(count);
    assert_eq!(refused(&many(200)), None);
    assert_eq!(refused(&many(1_000)), Some(Code::CommandNotExecutable));
}

/// NL-3.2.
#[test]
fn a_value_in_arguments_is_warned_of() {
    let warned = |template: &str| {
        let action = work(json!({ "type": "exec", "template": template }));
        let prepared = prepare(&action, &materials(b"Qm7xT4w9"), &Shelf::default());
        prepared.unwrap().unwrap().warnings.len()
    };
    for fine in [
        "V={{nl:db/PASSWORD}} psql -c 'select 1'",
        "psql <<< {{nl:db/PASSWORD}}",
        "psql <<E\n{{nl:db/PASSWORD}}\nE",
        "printf %s {{nl:db/PASSWORD}} | psql",
        "V={{nl:db/PASSWORD}}; export V; [ -n {{nl:db/PASSWORD}} ] && psql # {{nl:db/PASSWORD}}",
    ] {
        assert_eq!(warned(fine), 0, "{fine}");
    }
    for shown in [
        "psql postgres://me:{{nl:db/PASSWORD}}@db/shop",
        "true; (curl -u \"me:{{nl:db/PASSWORD}}\" https://a.test; curl -u {{nl:db/PASSWORD}} b.test)",
        "/usr/bin/printf %s {{nl:db/PASSWORD}}",
        "X=$(sh -c 'true \"$1\"' x {{nl:db/PASSWORD}})",
        "curl -u \"$(printf %s {{nl:db/PASSWORD}})\" a.test",
    ] {
        assert_eq!(warned(shown), 1, "{shown}");
    }
}

#[test]
fn a_value_enters_without_its_nul_bytes_unless_they_are_asked_for() {
    let value = b"one\0two";
    let prepared = |action| {
        let prepared = prepare(&work(action), &materials(value), &Shelf::default());
        prepared.unwrap().unwrap()
    };
    let stdin = prepared(json!({
        "type": "inject_stdin", "command": "cat", "secret_ref": "{{nl:db/PASSWORD}}",
    }));
    assert_eq!(stdin.input.unwrap().as_slice(), b"onetwo\n");
    let told = ["db/PASSWORD: 1 NUL bytes were left out"];
    assert_eq!(stdin.warnings, told);
    let template = work(json!({"type": "template", "template_content": "{{nl:db/PASSWORD}}"}));
    let life = std::time::Duration::ZERO;
    let (rendered, _, warnings) = render(&template, &materials(value), life).unwrap().unwrap();
    assert_eq!(
        (rendered.file.content.as_slice(), &*warnings),
        (&b"onetwo"[..], &told.map(str::to_owned)[..])
    );
    let kept = prepared(json!({
        "type": "inject_tempfile", "command": "cat {{nl:F}}", "binary": true,
        "file_refs": {"F": "{{nl:db/PASSWORD}}"},
    }));
    assert_eq!(kept.command.files[0].content.as_slice(), value);
}

#[test]
fn a_rendered_file_does_not_grow_without_bound() {
    let rendered = |times: usize| {
        let text = "{{nl:db/PASSWORD}}".repeat(times);
        let work = work(json!({"type": "template", "template_content": text}));
        render(&work, &materials(&vec![b'x'; 128 << 10]), std::time::Duration::ZERO)
    };
    assert!(rendered(128).is_ok());
    assert_eq!(rendered(129).err().unwrap().code(), Code::OutputTooLarge);
}

/// A shelf with one file, rendered where `host` may be reached, under one permission.
fn shelf(host: &str) -> (Shelf, PermissionRef) {
    let template = json!({
        "type": "template", "template_content": "{{nl:db/PASSWORD}}", "output_path": "app.conf"
    });
    let permission: PermissionRef =
        serde_json::from_value(json!({"grant": "grant-1", "index": 0})).unwrap();
    let work = Work {
        allowed_hosts: vec![host.parse().unwrap()],
        permissions: vec![permission.clone()],
        ..work(template)
    };
    let shelf = Shelf::default();
    let life = std::time::Duration::from_mins(1);
    shelf.keep(render(&work, &materials(b"s3ntinel"), life).unwrap().unwrap().0).unwrap();
    (shelf, permission)
}

/// What a command that names the file may reach, where `hosts` are granted to it; and its files.
fn reached(shelf: &Shelf, hosts: &[&str]) -> (Option<Vec<Destination>>, usize) {
    let action = json!({"type": "exec", "template": "cat /tmp/nl-secure/app.conf"});
    let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
    let work = Work { allowed_hosts: hosts, ..work(action) };
    let command = prepare(&work, &Materials::holding(Vec::new()), shelf).unwrap().unwrap().command;
    (command.reach.only, command.files.len())
}

#[test]
fn a_rendered_value_reaches_its_own_hosts_alone() {
    let (shelf, _) = shelf("db.test");
    let only = |hosts: &[&str]| reached(&shelf, hosts).0;
    assert_eq!(only(&["db.test", "evil.test"]), Some(vec!["db.test".parse().unwrap()]));
    assert_eq!(only(&["evil.test"]), Some(Vec::new()));
    assert_eq!(only(&[]), Some(Vec::new()));
}

#[test]
fn a_rendered_file_goes_with_its_permission_and_its_secret() {
    let (kept, permission) = shelf("db.test");
    let other = serde_json::from_value(json!({"grant": "grant-1", "index": 1})).unwrap();
    kept.withdraw(&other);
    assert_eq!(reached(&kept, &[]).1, 1);
    kept.withdraw(&permission);
    assert_eq!(reached(&kept, &[]).1, 0);
    let (kept, _) = shelf("db.test");
    let path: SecretPath = "team/db/password".parse().unwrap();
    assert_eq!(kept.held()[0].0, path);
    kept.forget(&path);
    assert_eq!(reached(&kept, &[]).1, 0);
}
