//! Open sessions: what each may use, what it did, and its end.

use jiff::Timestamp;
use keyless_daemon::{SessionKind, SessionRow, lasting};
use ratatui::layout::Constraint;

use super::{Row, View, listed, log};
use crate::commands::ui::{
    app::{Act, App},
    dialog::Deed,
    keys::Press,
    pieces::Piece,
    theme::Mood,
};

pub(super) fn view(app: &App) -> View {
    View {
        title: "Sessions".to_owned(),
        head: vec![
            ("For", Constraint::Length(8)),
            ("What", Constraint::Length(17)),
            ("Session", Constraint::Fill(2)),
            ("May use", Constraint::Fill(2)),
        ],
        rows: app.seen.sessions.iter().map(row).collect(),
        empty: "No session is open.",
        about: "What it did, the newest first",
        detail: chosen(app).map(|row| detail(app, row)).unwrap_or_default(),
        keys: "d end it",
    }
}

pub(super) fn press(app: &mut App, press: Press) -> Option<Act> {
    if press == Press::Char('d') {
        let id = chosen(app)?.id.clone();
        app.open(Deed::EndSession(id));
    }
    None
}

fn chosen(app: &App) -> Option<&SessionRow> {
    let chosen = app.chosen()?;
    app.seen.sessions.iter().find(|row| row.id == chosen)
}

fn row(row: &SessionRow) -> Row {
    let age = Timestamp::now().duration_since(row.since).as_secs();
    Row {
        cells: vec![
            lasting(u64::try_from(age).unwrap_or(0)),
            row.kind.as_str().to_owned(),
            row.id.clone(),
            may_use(row),
        ],
        marked: (0, Mood::Plain),
    }
}

/// Tools of an agent name a secret when they ask for it; they have no list.
fn may_use(row: &SessionRow) -> String {
    match row.kind {
        SessionKind::Run => listed(&row.secrets, "no secrets"),
        SessionKind::Tools => "what it asks for".to_owned(),
    }
}

fn detail(app: &App, row: &SessionRow) -> Vec<Piece> {
    let mut pieces =
        vec![Piece::fact("Session", row.id.clone()), Piece::fact("May use", may_use(row))];
    pieces.push(Piece::Blank);
    if app.seen.deeds.is_empty() {
        pieces.push(Piece::ours("Nothing is on record yet."));
    }
    for entry in &app.seen.deeds {
        pieces.push(Piece::ours(format!(
            "{}  {:<8} {}  {}",
            log::clock(entry),
            entry.result.as_str(),
            log::what(entry),
            log::about(entry)
        )));
    }
    pieces
}
