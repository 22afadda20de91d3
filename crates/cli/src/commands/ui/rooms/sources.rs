//! Where values come from, and whether each place can be asked.

use keyless_daemon::{
    counted,
    vault::{SourceReport, State},
};
use ratatui::layout::Constraint;

use super::{Row, View};
use crate::commands::{
    approve::visible,
    ui::{app::App, pieces::Piece, theme::Mood},
};

/// The store itself.
const LOCAL: &str = "local";

pub(super) fn view(app: &App) -> View {
    let local = app.seen.sources.as_ref().map(|view| Row {
        cells: vec![
            "available".to_owned(),
            LOCAL.to_owned(),
            "sealed store".to_owned(),
            format!("{} here", counted(view.local, "secret")),
        ],
        marked: (0, Mood::Good),
    });
    View {
        title: "Sources".to_owned(),
        head: vec![
            ("State", Constraint::Length(16)),
            ("Name", Constraint::Fill(1)),
            ("Kind", Constraint::Fill(1)),
            ("May", Constraint::Fill(2)),
        ],
        rows: local.into_iter().chain(reports(app).iter().map(row)).collect(),
        empty: "The sources are being asked.",
        about: "How it is",
        detail: detail(app),
        keys: "",
    }
}

pub(super) fn names(app: &App) -> Vec<String> {
    let local = app.seen.sources.iter().map(|_| LOCAL.to_owned());
    local.chain(reports(app).iter().map(|report| report.name.clone())).collect()
}

fn reports(app: &App) -> &[SourceReport] {
    app.seen.sources.as_ref().map(|view| view.reports.as_slice()).unwrap_or_default()
}

fn row(report: &SourceReport) -> Row {
    Row {
        cells: vec![
            report.state.as_str().replace('-', " "),
            visible(&report.name),
            report.kind.to_string(),
            report.effective.join(", "),
        ],
        marked: (0, if report.state == State::Available { Mood::Good } else { Mood::Bad }),
    }
}

fn detail(app: &App) -> Vec<Piece> {
    let chosen = app.chosen();
    if chosen == Some(LOCAL) {
        return vec![Piece::ours(
            "The sealed store on this machine: what is typed here is kept in it.",
        )];
    }
    let Some(report) = reports(app).iter().find(|report| Some(report.name.as_str()) == chosen)
    else {
        return Vec::new();
    };
    let mut pieces = vec![
        Piece::fact("Source", visible(&report.name)),
        Piece::fact("Can", report.declared.join(", ")),
        Piece::fact("May", report.effective.join(", ")),
        Piece::fact("State", report.state.as_str().replace('-', " ")),
    ];
    if let Some(last) = &report.last_contact {
        let words = format!("{}, {}", last.at.strftime("%Y-%m-%d %H:%M"), last.outcome);
        pieces.push(Piece::fact("Contact", visible(&words)));
    }
    if let Some(next) = report.hint {
        pieces.push(Piece::Fact("Next", next.to_owned(), Mood::Warn));
    }
    pieces
}
