//! `keyless secret set`: where a secret may go and how it is offered, and what of that is other than before.

use std::fmt::Write as _;

use keyless_core::{ApproveOnUse, Error, SecretPath};
use keyless_daemon::{
    Operator, SecretRow,
    vault::{Metadata, Secret},
};
use serde_json::{Value, json};

use super::{
    completed, describe, metadata::changed_metadata, narrow, remarks::remark, unlock_with,
};
use crate::{
    args::SetArgs,
    ui::{Ui, plain},
};

pub(super) async fn run(ui: &Ui, args: SetArgs) -> Result<(), Error> {
    let (places, vault) = unlock_with(&args.path, &args.factor).await?;
    let secret = vault.show(&args.path).await?;
    let before = secret.metadata.clone();
    let metadata = changed_metadata(before.clone(), &args.rule, &args.upkeep)?;
    let mut metadata =
        completed(ui, metadata, &args.rule.locations, args.upkeep.pattern_id(), Some(&vault))?;
    if before.egress.is_none() && args.rule.locations.is_empty() {
        narrow(&places, &vault, &args.path, &mut metadata, None)?;
    }
    if metadata == before {
        let words = format!(
            "Nothing to change: {} is so already, or nothing was said of it. keyless secret set --help\n",
            args.path
        );
        ui.answer("secret set", &json!({ "path": args.path, "changed": [] }), &words);
        return Ok(());
    }
    let changes = changes(&secret, &metadata);
    let all = vault.list().await?;
    Operator::new(vault).set(&args.path, &before, metadata.clone()).await?;
    remark(ui, &places, &args.path, &metadata, &with(all.to_vec(), &args.path, &metadata));
    let names: Vec<&str> = changes.iter().map(|(name, _)| name.as_str()).collect();
    let mut words = format!("Changed {}.\n", args.path);
    for (_, line) in &changes {
        let _ = writeln!(words, "  {line}");
    }
    ui.answer("secret set", &json!({ "path": args.path, "changed": names }), &words);
    Ok(())
}

/// What is other than before, each by its name, and in words.
fn changes(secret: &Secret, after: &Metadata) -> Vec<(String, String)> {
    // What was said, not what is in force.
    let described = |metadata: Metadata| {
        let secret = Secret { metadata, ..secret.clone() };
        describe(&SecretRow::today(secret, ApproveOnUse::Never))
    };
    let (before, after) = (described(secret.metadata.clone()), described(after.clone()));
    let fields = after.as_object().into_iter().flatten();
    let changed = fields.filter(|(name, value)| before[name.as_str()] != **value);
    let said = |(name, value): (&String, &Value)| {
        let line = format!("{name}: {} -> {}", word(&before[name.as_str()]), word(value));
        (name.clone(), line)
    };
    changed.map(said).collect()
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        value => Some(plain(value)).filter(|text| !text.is_empty()).unwrap_or("none".to_owned()),
    }
}

/// The secrets as they are now.
fn with(mut all: Vec<Secret>, path: &SecretPath, metadata: &Metadata) -> Vec<Secret> {
    for secret in all.iter_mut().filter(|secret| secret.path == *path) {
        secret.metadata = metadata.clone();
    }
    all
}
