//! `keyless audit`: entries, for people and programs, and the proof that none was changed.

mod export;
mod verify;

use std::{io, process::ExitCode};

use keyless_core::{
    Code, Error, SafeText, SecretPath,
    audit::{Entry, Outcome, Segment},
};
use keyless_daemon::{AuditQuery, BreaksSeen, Config};
use serde_json::json;

use super::{open_sure_store, unlock_vault};
use crate::{
    args::{
        AcceptBreakArgs, AuditCommand, CheckpointArgs, ExportArgs, FactorArgs, QueryArgs,
        ResultWord, TailArgs,
    },
    ui::{Ui, table, unwritten},
};

/// How many entries an answer has, unless it is said.
const AT_ONCE: u32 = 1000;

pub(super) async fn run(ui: &Ui, command: AuditCommand) -> Result<ExitCode, Error> {
    match command {
        AuditCommand::AcceptBreak(args) => accept_break(ui, args).await,
        AuditCommand::Checkpoint(args) => checkpoint(ui, &args).await,
        AuditCommand::Export(args) => export(ui, args).await,
        AuditCommand::Query(args) => query(ui, args).await,
        AuditCommand::Rotate(args) if args.keys => rotate_keys(ui, &args.factor).await,
        AuditCommand::Rotate(args) => rotate(ui, &args.factor).await,
        AuditCommand::Segments => segments(ui).await,
        AuditCommand::Tail(args) => tail(ui, &args).await,
        AuditCommand::Verify(args) => verify::run(ui, args).await,
    }
}

async fn tail(ui: &Ui, args: &TailArgs) -> Result<ExitCode, Error> {
    let (_, store) = open_sure_store(ui).await?;
    let entries = keyless_daemon::audit_tail(&store, args.lines).await?;
    let nothing =
        if args.lines == 0 { "None was asked for.\n" } else { "Nothing has happened yet.\n" };
    let words = shown(&entries, nothing);
    ui.answer("audit tail", &json!({ "entries": entries }), &words);
    Ok(ExitCode::SUCCESS)
}

async fn query(ui: &Ui, args: QueryArgs) -> Result<ExitCode, Error> {
    refuse_reversed(&args)?;
    let (_, store) = open_sure_store(ui).await?;
    let entries = keyless_daemon::audit_query(&store, &wanted(args)).await?;
    let next = entries.last().map(|entry| entry.sequence);
    let words = shown(&entries, "No entry fits.\n");
    ui.answer("audit query", &json!({ "entries": entries, "next_after": next }), &words);
    Ok(ExitCode::SUCCESS)
}

async fn export(ui: &Ui, args: ExportArgs) -> Result<ExitCode, Error> {
    refuse_reversed(&args.query)?;
    let (_, store) = open_sure_store(ui).await?;
    // All of them, unless it is said how many.
    let mut left = args.query.limit;
    let mut wanted = AuditQuery { limit: left, ..wanted(args.query) };
    let mut entries = keyless_daemon::audit_query(&store, &wanted).await?;
    while let Some(last) = entries.last() {
        let lines: String =
            entries.iter().map(|entry| export::line(entry, args.format) + "\n").collect();
        match Ui::export(&lines) {
            // Who reads has seen enough (`| head`).
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            written => written.map_err(|error| unwritten(&error))?,
        }
        left = left.map(|left| left.saturating_sub(u32::try_from(entries.len()).unwrap_or(left)));
        if left == Some(0) {
            break;
        }
        wanted = AuditQuery { after: Some(last.sequence), limit: left, ..wanted };
        // That it was asked for is on record by now.
        entries = store.audit_query(&wanted).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Nothing lies in such a time, and an empty answer would say that nothing happened.
fn refuse_reversed(args: &QueryArgs) -> Result<(), Error> {
    if args.since.zip(args.until).is_some_and(|(since, until)| since > until) {
        let words = "--since lies behind --until; say the earlier time with --since";
        return Err(Error::with(Code::Usage, SafeText::words(words)));
    }
    Ok(())
}

fn wanted(args: QueryArgs) -> AuditQuery {
    let QueryArgs { agent, secret, since, until, correlation, text, result, after, limit } = args;
    AuditQuery {
        after,
        since,
        until,
        agent_uri: agent,
        secret,
        correlation_id: correlation,
        text,
        outcome: result.map(|word| match word {
            ResultWord::Blocked => Outcome::Blocked,
            ResultWord::Denied => Outcome::Denied,
            ResultWord::Error => Outcome::Error,
            ResultWord::Success => Outcome::Success,
            ResultWord::Timeout => Outcome::Timeout,
        }),
        limit: Some(limit.unwrap_or(AT_ONCE)),
        ..AuditQuery::default()
    }
}

fn shown(entries: &[Entry], nothing: &str) -> String {
    if entries.is_empty() {
        return nothing.to_owned();
    }
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    table(&["TIME (UTC)", "SESSION", "ACTION", "RESULT", "TARGET", "ABOUT"], &rows)
}

async fn checkpoint(ui: &Ui, args: &CheckpointArgs) -> Result<ExitCode, Error> {
    let (places, vault) = unlock_vault(&args.factor).await?;
    let log = keyless_daemon::audit_log(&vault);
    let signed = keyless_daemon::sign_log(&vault, &log, &places).await?;
    let lines: Vec<String> =
        signed.iter().filter_map(|one| serde_json::to_string(one).ok()).collect();
    ui.answer("audit checkpoint", &json!({ "checkpoints": signed }), &(lines.join("\n") + "\n"));
    Ok(ExitCode::SUCCESS)
}

async fn accept_break(ui: &Ui, args: AcceptBreakArgs) -> Result<ExitCode, Error> {
    let (places, vault) = unlock_vault(&args.factor).await?;
    let seen = BreaksSeen { checkpoints: args.checkpoints, reason: args.reason };
    let accepting = keyless_daemon::accept_log_breaks(&vault, &places, &seen);
    let breaks = ui.wait("Verifying the log", accepting).await?;
    let lines: Vec<String> =
        breaks.iter().map(|one| format!("Accepted: {}.\n", one.words)).collect();
    let told = "The log goes on behind it. keyless audit verify tells it from now on.\n";
    let data = breaks.iter().map(|one| json!({ "words": one.words, "part": one.part }));
    let data = json!({ "breaks": data.collect::<Vec<_>>() });
    ui.answer("audit accept-break", &data, &(lines.concat() + told));
    Ok(ExitCode::SUCCESS)
}

async fn rotate(ui: &Ui, factor: &FactorArgs) -> Result<ExitCode, Error> {
    let (places, vault) = unlock_vault(factor).await?;
    let config = Config::load(&places.config_file())?.audit;
    let log = keyless_daemon::audit_log(&vault);
    let closed =
        ui.wait("Closing the log", keyless_daemon::rotate_log(&vault, &log, &places)).await?;
    let removed = keyless_daemon::remove_old_log(&vault, &log, config).await?;
    let moved = format!(
        "Entries {} to {} are in {} now.\n",
        closed.first_sequence, closed.last_sequence, closed.file
    );
    let gone = |one: &Segment| format!("{} was removed: [audit] keep_days is over.\n", one.file);
    let words: String = std::iter::once(moved).chain(removed.iter().map(gone)).collect();
    ui.answer("audit rotate", &json!({ "closed": closed, "removed": removed }), &words);
    Ok(ExitCode::SUCCESS)
}

async fn rotate_keys(ui: &Ui, factor: &FactorArgs) -> Result<ExitCode, Error> {
    let (places, vault) = unlock_vault(factor).await?;
    let log = keyless_daemon::audit_log(&vault);
    let (before, now) = keyless_daemon::rotate_log_keys(&vault, &log, &places).await?;
    let words = format!("{now} vouches for entries now; {before} stays, to verify by.\n");
    let data = json!({ "key": now.to_string(), "replaced": before.to_string() });
    ui.answer("audit rotate", &data, &words);
    Ok(ExitCode::SUCCESS)
}

async fn segments(ui: &Ui) -> Result<ExitCode, Error> {
    let (_, store) = open_sure_store(ui).await?;
    let segments = store.audit_segments().await?;
    let rows: Vec<Vec<String>> = segments.iter().map(segment_row).collect();
    let words = if rows.is_empty() {
        "No part of the log was closed yet: all entries are in the store.\n".to_owned()
    } else {
        table(&["FIRST", "LAST", "CLOSED", "FILE", "STATE"], &rows)
    };
    ui.answer("audit segments", &json!({ "segments": segments }), &words);
    Ok(ExitCode::SUCCESS)
}

fn segment_row(segment: &Segment) -> Vec<String> {
    let state = segment.removed_at.as_ref().map_or("kept".to_owned(), |at| format!("removed {at}"));
    let broken = if segment.broken.is_some() { ", not as written" } else { "" };
    vec![
        segment.first_sequence.to_string(),
        segment.last_sequence.to_string(),
        segment.closed_at.clone(),
        segment.file.clone(),
        state + broken,
    ]
}

fn row(entry: &Entry) -> Vec<String> {
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let paths: Vec<&str> = entry.secrets_used.iter().map(SecretPath::as_str).collect();
    let request = entry.detail.method.iter().chain(&entry.detail.path).map(String::as_str);
    let redacted = entry.detail.redacted_count.map(|count| format!("redacted {count}"));
    let words = entry.error_code.as_deref().into_iter().chain(paths).chain(request);
    let about: Vec<&str> = words.chain(redacted.as_deref()).collect();
    let second = entry.timestamp.get(..19).unwrap_or(&entry.timestamp);
    vec![
        second.replace('T', " "),
        entry.agent.session_id.clone(),
        word(&json!(entry.action)),
        word(&json!(entry.result)),
        entry.target.clone(),
        about.join(" "),
    ]
}
