//! `keyless audit`: the newest entries, and the proof that none was changed.

use std::process::ExitCode;

use keyless_core::{Error, SecretPath, audit::Entry};
use serde_json::json;

use super::{open_store, prompt};
use crate::{
    args::{AuditCommand, TailArgs, VerifyArgs},
    ui::{Ui, table},
};

pub(super) async fn run(ui: &Ui, command: AuditCommand) -> Result<ExitCode, Error> {
    match command {
        AuditCommand::Tail(args) => tail(ui, &args).await,
        AuditCommand::Verify(args) => verify(ui, &args).await,
    }
}

async fn tail(ui: &Ui, args: &TailArgs) -> Result<ExitCode, Error> {
    let (_, store) = open_store().await?;
    let entries = keyless_daemon::audit_tail(&store, args.lines).await?;
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    let words = if rows.is_empty() {
        "Nothing has happened yet.\n".to_owned()
    } else {
        table(&["TIME", "SESSION", "ACTION", "RESULT", "TARGET", "ABOUT"], &rows)
    };
    ui.answer("audit tail", &json!({ "entries": entries }), &words);
    Ok(ExitCode::SUCCESS)
}

async fn verify(ui: &Ui, args: &VerifyArgs) -> Result<ExitCode, Error> {
    let (_, store) = open_store().await?;
    let factor = match prompt::factor_file(&args.factor) {
        Some(_) => Some(prompt::factor(&args.factor)?),
        None => None,
    };
    let sealed = factor.is_some();
    let count = keyless_daemon::audit_verify(store, factor).await?;
    let words = if sealed {
        format!(
            "{count} entries, all as they were written; the end is sealed by the vault's key.\n"
        )
    } else {
        format!(
            "{count} entries, all as they were written. With --passphrase-file the end of the log is checked against the vault's key too.\n"
        )
    };
    ui.answer(
        "audit verify",
        &json!({ "entries": count, "status": "valid", "head_checked": sealed }),
        &words,
    );
    Ok(ExitCode::SUCCESS)
}

fn row(entry: &Entry) -> Vec<String> {
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let paths: Vec<&str> = entry.secrets_used.iter().map(SecretPath::as_str).collect();
    let request = entry.detail.method.iter().chain(&entry.detail.path).map(String::as_str);
    let about: Vec<&str> =
        entry.error_code.as_deref().into_iter().chain(paths).chain(request).collect();
    vec![
        entry.timestamp.clone(),
        entry.agent.session_id.clone(),
        word(&json!(entry.action)),
        word(&json!(entry.result)),
        entry.target.clone(),
        about.join(" "),
    ]
}
