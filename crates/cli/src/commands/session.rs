//! `keyless session`: who is at work now, what they did, and their end.

use std::{process::ExitCode, sync::Arc};

use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText, audit::Entry};
use keyless_daemon::{ApproverHandle, Overview, SessionKind, SessionRow, lasting};
use serde_json::json;

use super::{approve::visible, unlock_beside_broker};
use crate::{
    args::{SessionCommand, SessionEndArgs, SessionListArgs, SessionShowArgs},
    prompt,
    ui::{Ui, table},
};

pub(super) async fn run(ui: &Ui, command: SessionCommand) -> Result<ExitCode, Error> {
    match command {
        SessionCommand::End(args) => end(ui, args).await?,
        SessionCommand::List(args) => list(ui, args).await?,
        SessionCommand::Show(args) => show(ui, args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(ui: &Ui, args: SessionListArgs) -> Result<(), Error> {
    let (places, vault) = unlock_beside_broker(ui, &args.factor).await?;
    let mut sessions = ApproverHandle::open(&places, vault).await?.sessions().await?;
    sessions.extend(keyless_daemon::runs_alone(&places));
    let words = if sessions.is_empty() {
        "No session is open.\n".to_owned()
    } else {
        table(&["ID", "WHAT", "FOR", "MAY USE"], &sessions.iter().map(row).collect::<Vec<_>>())
    };
    ui.answer("session list", &json!({ "sessions": sessions }), &words);
    Ok(())
}

async fn show(ui: &Ui, args: SessionShowArgs) -> Result<(), Error> {
    let (_, vault) = unlock_beside_broker(ui, &args.factor).await?;
    let mut entries = Overview::new(Arc::new(vault)).session_log(&args.id).await?;
    if entries.is_empty() {
        return Err(Error::with(Code::SessionUnknown, SafeText::default().as_they_wrote(&args.id)));
    }
    entries.reverse();
    let rows: Vec<_> = entries.iter().map(entry_row).collect();
    let words = table(&["WHEN", "OUTCOME", "WHAT", "ABOUT"], &rows);
    ui.answer("session show", &json!({ "entries": entries }), &words);
    Ok(())
}

async fn end(ui: &Ui, args: SessionEndArgs) -> Result<(), Error> {
    let (places, vault) = unlock_beside_broker(ui, &args.factor).await?;
    let mut approver = ApproverHandle::open(&places, vault).await?;
    let question = format!("End {}? Its connections break at once.", visible(&args.id));
    if !args.yes && !prompt::confirm(&question)? {
        ui.line("Nothing was ended.");
        return Ok(());
    }
    if !keyless_daemon::end_run_alone(&places, &args.id)? {
        approver.end_session(&args.id).await?;
    }
    let words = format!("{} has ended.\n", visible(&args.id));
    ui.answer("session end", &json!({ "session": args.id, "ended": true }), &words);
    Ok(())
}

fn row(row: &SessionRow) -> Vec<String> {
    let age = Timestamp::now().duration_since(row.since).as_secs();
    let uses = match row.kind {
        SessionKind::Run => {
            row.secrets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        SessionKind::Tools => "what it asks for".to_owned(),
    };
    vec![
        row.id.clone(),
        row.kind.as_str().to_owned(),
        lasting(u64::try_from(age).unwrap_or(0)),
        uses,
    ]
}

fn entry_row(entry: &Entry) -> Vec<String> {
    vec![
        entry.timestamp.clone(),
        entry.result.as_str().to_owned(),
        entry.action.as_str().to_owned(),
        visible(&entry.target),
    ]
}
