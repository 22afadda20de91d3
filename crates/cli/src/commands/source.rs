//! `keyless source`: where values come from, and whether they can be had.

use std::process::ExitCode;

use keyless_core::Error;
use keyless_daemon::vault::{SourceConfig, State};
use serde_json::json;

use super::{open_store, secret::source_word, unlock_vault};
use crate::{
    args::{CheckArgs, SourceCommand, SourceListArgs},
    ui::{Ui, table},
};

pub(super) async fn run(ui: &Ui, command: SourceCommand) -> Result<ExitCode, Error> {
    match command {
        SourceCommand::Check(args) => check(ui, args).await,
        SourceCommand::List(args) => list(ui, args).await,
    }
}

async fn list(ui: &Ui, args: SourceListArgs) -> Result<ExitCode, Error> {
    let (_, store) = open_store().await?;
    let secrets = keyless_daemon::list_secrets(&store).await?;
    let count = |fits: fn(&SourceConfig) -> bool| {
        secrets.iter().filter(|secret| fits(&secret.metadata.source)).count()
    };
    let builtin = [
        ("local", "read, write, rotate", count(|s| matches!(s, SourceConfig::Local))),
        ("env", "read", count(|s| matches!(s, SourceConfig::Env { .. }))),
        ("file", "read", count(|s| matches!(s, SourceConfig::File { .. }))),
        ("routed", "as its source", count(|s| matches!(s, SourceConfig::Routed { .. }))),
    ];
    let rows: Vec<Vec<String>> = builtin
        .iter()
        .map(|(kind, can, n)| vec![(*kind).to_owned(), (*can).to_owned(), n.to_string()])
        .collect();
    let kinds: Vec<_> = builtin
        .iter()
        .map(|(kind, can, n)| json!({ "source": kind, "capabilities": can, "secrets": n }))
        .collect();
    let mut words = table(&["SOURCE", "CAN", "SECRETS"], &rows);
    let mut data = json!({ "sources": kinds });
    if args.declared {
        let (_, vault) = unlock_vault(&args.factor).await?;
        let reports = ui.wait("Asking the sources", vault.sources()).await?;
        let rows: Vec<Vec<String>> = reports
            .iter()
            .map(|report| {
                vec![
                    report.name.clone(),
                    report.kind.clone(),
                    report.declared.join(", "),
                    report.effective.join(", "),
                    report.state.as_str().to_owned(),
                    hint(report.state).to_owned(),
                ]
            })
            .collect();
        words.push('\n');
        words.push_str(&table(&["NAME", "TYPE", "CAN", "MAY", "STATE", "NEXT"], &rows));
        data["declared"] = json!(reports);
    }
    ui.answer("source list", &data, &words);
    Ok(ExitCode::SUCCESS)
}

/// What mends a source.
fn hint(state: State) -> &'static str {
    match state {
        State::Available => "",
        State::Locked => "unlock it or sign in, or renew its credential",
        State::NeedsCredential => "name its credential under [source_credentials]",
        State::NotInstalled => "install its program, or correct its place and checksum",
        State::Unavailable => "see whether it is up and reachable",
    }
}

async fn check(ui: &Ui, args: CheckArgs) -> Result<ExitCode, Error> {
    let (_, vault) = unlock_vault(&args.factor).await?;
    let mut secrets = vault.list().await?;
    if !args.paths.is_empty() {
        for path in &args.paths {
            vault.show(path).await?;
        }
        secrets.retain(|secret| args.paths.contains(&secret.path));
    }
    let (mut rows, mut data, mut failed) = (Vec::new(), Vec::new(), 0);
    for secret in secrets {
        // The value is fetched and dropped at once; only whether it came is told.
        let state = match ui.wait("Fetching values", vault.open(&secret.path)).await {
            Ok(_) => "ok".to_owned(),
            Err(error) => {
                failed += 1;
                error.message()
            }
        };
        let source = source_word(&secret.metadata.source);
        data.push(json!({ "path": secret.path, "source": source, "state": state }));
        rows.push(vec![secret.path.to_string(), source, state]);
    }
    let words = table(&["PATH", "SOURCE", "STATE"], &rows);
    ui.answer("source check", &json!({ "secrets": data, "failed": failed }), &words);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
