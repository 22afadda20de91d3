//! `keyless secret versions`, `restore` and `purge`.

use keyless_core::Error;
use keyless_daemon::Operator;
use serde_json::json;

use super::super::unlock_vault;
use crate::{
    args::{PurgeArgs, RestoreArgs, VersionsArgs},
    prompt,
    ui::{Ui, table},
};

pub(super) async fn list(ui: &Ui, args: VersionsArgs) -> Result<(), Error> {
    let (_, vault) = unlock_vault(&args.factor).await?;
    let versions = vault.versions(&args.path).await?;
    let rows: Vec<Vec<String>> = versions
        .iter()
        .map(|version| {
            let set = version.created_at.strftime("%Y-%m-%d %H:%M").to_string();
            let used = if version.in_use { "in use" } else { "" };
            vec![version.version.to_string(), set, used.to_owned()]
        })
        .collect();
    let words = table(&["VERSION", "SET (UTC)", ""], &rows);
    ui.answer("secret versions", &json!({ "path": args.path, "versions": versions }), &words);
    Ok(())
}

pub(super) async fn restore(ui: &Ui, args: RestoreArgs) -> Result<(), Error> {
    let (_, vault) = unlock_vault(&args.factor).await?;
    let secret = Operator::new(vault).restore(&args.path, args.version).await?;
    let words = match secret.version {
        Some(version) => format!("{} is there, with version {version} in use.\n", args.path),
        None => format!("{} is there.\n", args.path),
    };
    ui.answer("secret restore", &json!({ "path": args.path, "version": secret.version }), &words);
    Ok(())
}

pub(super) async fn purge(ui: &Ui, args: PurgeArgs) -> Result<(), Error> {
    let (_, vault) = unlock_vault(&args.factor).await?;
    vault.versions(&args.path).await?;
    let (question, words) = match args.version {
        None => (
            format!("Forget {} and all its versions for good?", args.path),
            format!("Forgot {}.\n", args.path),
        ),
        Some(version) => (
            format!("Forget version {version} of {} for good?", args.path),
            format!("Forgot version {version} of {}.\n", args.path),
        ),
    };
    if !args.yes && !prompt::confirm(&question)? {
        ui.line("Nothing was forgotten.");
        return Ok(());
    }
    Operator::new(vault).purge(&args.path, args.version).await?;
    ui.answer("secret purge", &json!({ "path": args.path, "version": args.version }), &words);
    Ok(())
}
