//! What waits for an answer.

use keyless_daemon::Shown;
use ratatui::layout::Constraint;

use super::{Row, View};
use crate::commands::{
    approve::visible,
    ui::{
        app::{Act, App},
        dialog,
        keys::Press,
        pieces::Piece,
        theme::Mood,
    },
};

/// A request with so many seconds left is nearly over.
const SOON: u64 = 60;

pub(super) fn view(app: &App) -> View {
    let chosen = chosen(app);
    View {
        title: "Waiting for you".to_owned(),
        head: vec![
            ("Left", Constraint::Length(5)),
            ("What", Constraint::Length(9)),
            ("About", Constraint::Fill(2)),
            ("Asked by", Constraint::Fill(1)),
        ],
        rows: app.seen.waiting.iter().map(row).collect(),
        empty: "Nothing waits for an answer. A request appears here as soon as an agent makes one.",
        about: "What is asked",
        detail: chosen.map(detail).unwrap_or_default(),
        keys: "Enter answer",
    }
}

pub(super) fn press(app: &mut App, press: Press) -> Option<Act> {
    match press {
        Press::Enter => Some(Act::OpenRequest(chosen(app)?.id.clone())),
        _ => None,
    }
}

fn chosen(app: &App) -> Option<&Shown> {
    let chosen = app.chosen()?;
    app.seen.waiting.iter().find(|shown| shown.id.as_str() == chosen)
}

fn detail(shown: &Shown) -> Vec<Piece> {
    let mut pieces = vec![Piece::fact("Request", shown.id.to_string())];
    pieces.extend(dialog::pieces_of(shown));
    pieces
}

fn row(shown: &Shown) -> Row {
    Row {
        cells: vec![
            shown.clock(),
            shown.asked.word().to_owned(),
            visible(&shown.title()),
            visible(&shown.session),
        ],
        marked: (0, if shown.seconds_left < SOON { Mood::Warn } else { Mood::Plain }),
    }
}
