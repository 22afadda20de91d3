//! What a person has said, as long as it has an effect: approvals to revoke, denials to lift.

use keyless_core::approval::Status;
use keyless_daemon::Shown;
use ratatui::layout::Constraint;

use super::{Row, View};
use crate::commands::{
    approve::{about, visible},
    ui::{
        app::{Act, App},
        dialog::{self, Deed},
        keys::Press,
        theme::Mood,
    },
};

pub(super) fn view(app: &App) -> View {
    View {
        title: "Approvals and denials".to_owned(),
        head: vec![
            ("Holds", Constraint::Length(8)),
            ("Answer", Constraint::Length(12)),
            ("What", Constraint::Length(9)),
            ("About", Constraint::Fill(2)),
            ("For", Constraint::Fill(1)),
        ],
        rows: app.seen.standing.iter().map(row).collect(),
        empty: "No approval and no denial is in effect.",
        about: "What was asked",
        detail: chosen(app).map(dialog::pieces_of).unwrap_or_default(),
        keys: "d take back",
    }
}

pub(super) fn press(app: &mut App, press: Press) -> Option<Act> {
    if matches!(press, Press::Char('d') | Press::Enter) {
        let shown = chosen(app)?.clone();
        app.open(Deed::TakeBack(Box::new(shown)));
    }
    None
}

fn chosen(app: &App) -> Option<&Shown> {
    let chosen = app.chosen()?;
    app.seen.standing.iter().find(|shown| shown.id.as_str() == chosen)
}

fn row(shown: &Shown) -> Row {
    let (answer, mood) = match shown.status {
        Status::Denied => ("denied", Mood::Bad),
        Status::Once => ("once", Mood::Good),
        _ => ("session", Mood::Good),
    };
    Row {
        cells: vec![
            shown.left_in_words(),
            answer.to_owned(),
            shown.asked.word().to_owned(),
            about(shown),
            visible(&shown.session),
        ],
        marked: (1, mood),
    }
}
