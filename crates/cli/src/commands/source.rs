//! `keyless source`: where values come from, what there is, and whether they can be had.

mod declaring;

use std::{collections::BTreeMap, process::ExitCode, sync::Arc};

use keyless_core::{Error, Exit, SecretPath};
use keyless_daemon::{
    LookedOver, Operator,
    vault::{Held, RouterConfig, SecretsFile, SourceConfig, SourceReport},
};
use serde_json::json;

use super::{
    approve::visible,
    open_store,
    secret::{place, source_word},
    unlock_vault,
};
use crate::{
    args::{BrowseArgs, CheckArgs, FactorArgs, SourceCommand, SourceListArgs},
    prompt,
    ui::{Ui, table},
};

pub(super) async fn run(ui: &Ui, command: SourceCommand) -> Result<ExitCode, Error> {
    match command {
        SourceCommand::Add(args) => declaring::add(ui, args),
        SourceCommand::Browse(args) => browse(ui, args).await,
        SourceCommand::Check(args) => check(ui, args).await,
        SourceCommand::List(args) => list(ui, args).await,
        SourceCommand::Remove(args) => declaring::remove(ui, &args).await,
    }
}

async fn list(ui: &Ui, args: SourceListArgs) -> Result<ExitCode, Error> {
    let (places, store) = open_store().await?;
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
    // How they are takes their credentials, so the factor; without any, nobody is asked for it.
    let config = RouterConfig::load(&places.sources_file())?;
    warn_of_unread(ui, config.unread());
    warn_of_secrets_file(ui);
    if config.declares_any() {
        say_why(ui, &args.factor);
        let (_, vault) = unlock_vault(&args.factor).await?;
        let reports = ui.wait("Asking the sources", vault.sources()).await?;
        words.push('\n');
        words.push_str(&declared(&reports));
        data["declared"] = json!(reports);
    }
    ui.answer("source list", &data, &words);
    Ok(ExitCode::SUCCESS)
}

/// Before the passphrase is asked for, whether a broker is unlocked or not: that one's door for agents lists no sources.
fn say_why(ui: &Ui, factor: &FactorArgs) {
    if prompt::factor_file(factor).is_none() {
        ui.aside(
            "The store is opened for the sources' credentials, to ask each source how it is; an unlocked broker opens them for \
             sessions alone.",
        );
    }
}

fn warn_of_unread(ui: &Ui, unread: &[String]) {
    for said in unread {
        ui.warn(format!("sources.toml: {}", visible(said)));
    }
}

/// Of a file that can't be used no value comes, whatever the sources say.
fn warn_of_secrets_file(ui: &Ui) {
    if let Some(error) = SecretsFile::named().and_then(|file| file.read().err()) {
        ui.warn(visible(&error.message()));
    }
}

/// What the declared sources can do, how they are now, and how they were when a value was last asked for or given.
fn declared(reports: &[SourceReport]) -> String {
    let row = |report: &SourceReport| {
        let contact = report.last_contact.as_ref().map_or_else(
            || "never".to_owned(),
            |last| format!("{} {}", last.at.strftime("%Y-%m-%d %H:%M"), last.outcome),
        );
        vec![
            report.name.clone(),
            report.kind.to_string(),
            report.declared.join(", "),
            report.effective.join(", "),
            report.state.as_str().to_owned(),
            contact,
            report.hint.unwrap_or_default().to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = reports.iter().map(row).collect();
    table(&["NAME", "TYPE", "CAN", "MAY", "STATE", "LAST CONTACT", "NEXT"], &rows)
}

async fn browse(ui: &Ui, args: BrowseArgs) -> Result<ExitCode, Error> {
    let (_, vault) = unlock_vault(&args.factor).await?;
    let mut held = ui.wait("Asking the source", vault.browse(&args.name)).await?;
    if let Some(text) = args.text.as_deref().map(str::to_lowercase) {
        let has = |word: &str| word.to_lowercase().contains(&text);
        held.retain(|(one, _)| has(&one.reference) || one.name.as_deref().is_some_and(has));
    }
    let row = |(one, path): &(Held, Option<SecretPath>)| {
        let name = one.name.as_deref().map(visible).unwrap_or_default();
        let path = path.as_ref().map(SecretPath::to_string).unwrap_or_default();
        vec![visible(&one.reference), name, path]
    };
    let rows: Vec<Vec<String>> = held.iter().map(row).collect();
    let words = if rows.is_empty() {
        "It holds nothing that fits.\n".to_owned()
    } else {
        let next = format!(
            "keyless secret add PATH --to HOST --env NAME --source 'source:{}:REFERENCE' makes one a secret.\n",
            args.name
        );
        table(&["REFERENCE", "NAME", "SECRET"], &rows) + &next
    };
    let data: Vec<_> = held
        .iter()
        .map(|(one, path)| json!({ "reference": one.reference, "name": one.name, "path": path }))
        .collect();
    ui.answer("source browse", &json!({ "source": args.name, "held": data }), &words);
    Ok(ExitCode::SUCCESS)
}

async fn check(ui: &Ui, args: CheckArgs) -> Result<ExitCode, Error> {
    let (_, vault) = unlock_vault(&args.factor).await?;
    let vault = Arc::new(vault);
    warn_of_unread(ui, vault.unread_of_sources());
    warn_of_secrets_file(ui);
    let mut secrets = vault.list().await?.to_vec();
    if !args.paths.is_empty() {
        for path in &args.paths {
            vault.show(path).await?;
        }
        secrets.retain(|secret| args.paths.contains(&secret.path));
    }
    // To ask for bait is what the alarm is for.
    let asked = secrets.iter().filter(|secret| !secret.metadata.honeypot);
    let asked: Vec<SecretPath> = asked.map(|secret| secret.path.clone()).collect();
    let operator = Operator::new(Arc::clone(&vault));
    let found = ui.wait("Fetching values", operator.look_over(&asked, "source check")).await?;
    let found: BTreeMap<SecretPath, Result<LookedOver, Error>> =
        asked.into_iter().zip(found).collect();
    let (mut rows, mut data, mut failed) = (Vec::new(), Vec::new(), 0);
    for secret in secrets {
        let found = found.get(&secret.path);
        let instead = found.and_then(|found| found.as_ref().ok()?.instead.clone());
        let state = match found {
            None => "bait: never fetched".to_owned(),
            Some(Ok(_)) => "ok".to_owned(),
            Some(Err(error)) => {
                failed += 1;
                error.message()
            }
        };
        let source = source_word(&secret.metadata.source);
        let kept_at = vault.kept_at(&secret);
        data.push(
            json!({ "path": secret.path, "source": source, "kept_at": kept_at, "state": state, "instead": instead }),
        );
        // It is not there, but for the one that stands in.
        let state =
            instead.map_or(state, |instead| format!("ok, from {} in its stead", visible(&instead)));
        let kept_at = kept_at.as_ref().map(place).unwrap_or_default();
        rows.push(vec![secret.path.to_string(), source, kept_at, state]);
    }
    let mut words = table(&["PATH", "SOURCE", "KEPT AT", "STATE"], &rows);
    let reports = ui.wait("Asking the sources", vault.sources()).await?;
    words.push('\n');
    words.push_str(&declared(&reports));
    let data = json!({ "secrets": data, "failed": failed, "declared": reports });
    let outcome = if failed == 0 { Ok(()) } else { Err(Exit::Failure) };
    Ok(ui.conclude("source check", outcome, &data, &words))
}
