//! `keyless audit`: the newest entries, and the proof that none was changed.

use std::process::ExitCode;

use keyless_core::{Error, audit::Entry};
use keyless_daemon::vault::{Factor, Passphrase};
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
    let words = match rows.is_empty() {
        true => "Nothing has happened yet.\n".to_owned(),
        false => table(&["TIME", "SESSION", "ACTION", "RESULT", "TARGET", "ABOUT"], &rows),
    };
    ui.answer("audit tail", &json!({ "entries": entries }), &words);
    Ok(ExitCode::SUCCESS)
}

async fn verify(ui: &Ui, args: &VerifyArgs) -> Result<ExitCode, Error> {
    let (_, store) = open_store().await?;
    let factor = match prompt::passphrase_file(&args.factor) {
        Some(_) => Some(Factor::Passphrase(Passphrase::new(prompt::passphrase(&args.factor)?))),
        None => None,
    };
    let sealed = factor.is_some();
    let count = keyless_daemon::audit_verify(store, factor).await?;
    let words = match sealed {
        true => format!(
            "{count} entries, all as they were written; the end is sealed by the vault's key.\n"
        ),
        false => format!(
            "{count} entries, all as they were written. With --passphrase-file the end of the log is checked against the vault's key too.\n"
        ),
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
    let mut about = entry.error_code.clone().unwrap_or_default();
    if !entry.secrets_used.is_empty() {
        let paths: Vec<&str> = entry.secrets_used.iter().map(|path| path.as_str()).collect();
        about = [about, paths.join(",")].join(" ").trim().to_owned();
    }
    if let (Some(method), Some(path)) = (&entry.detail.method, &entry.detail.path) {
        about = format!("{about} {method} {path}").trim().to_owned();
    }
    vec![
        entry.timestamp.clone(),
        entry.agent.session_id.clone(),
        word(&json!(entry.action)),
        word(&json!(entry.result)),
        entry.target.clone(),
        about,
    ]
}
