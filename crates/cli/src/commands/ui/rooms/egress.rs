//! Where agents went: requests by host, values swapped in, refusals; and the last hour, as a line of bars.

use keyless_daemon::{EgressView, Tally};
use ratatui::layout::Constraint;

use super::{Row, View};
use crate::commands::{
    approve::visible,
    ui::{app::App, pieces::Piece, theme::Mood},
};

/// Bars of eight heights.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn view(app: &App) -> View {
    View {
        title: "Egress, as far back as the newest 10,000 entries go".to_owned(),
        head: vec![
            ("Requests", Constraint::Length(8)),
            ("Swaps", Constraint::Length(8)),
            ("Refused", Constraint::Length(8)),
            ("Host", Constraint::Fill(1)),
        ],
        rows: hosts(app).iter().map(row).collect(),
        empty: "No request has left yet.",
        about: "The last hour",
        detail: app.seen.egress.as_ref().map(hour).unwrap_or_default(),
        keys: "",
    }
}

pub(super) fn hosts(app: &App) -> &[(String, Tally)] {
    app.seen.egress.as_ref().map(|view| view.hosts.as_slice()).unwrap_or_default()
}

fn row((host, tally): &(String, Tally)) -> Row {
    let Tally { requests, swaps, refusals } = *tally;
    Row {
        cells: vec![requests.to_string(), swaps.to_string(), refusals.to_string(), visible(host)],
        marked: (2, if refusals > 0 { Mood::Warn } else { Mood::Plain }),
    }
}

fn hour(view: &EgressView) -> Vec<Piece> {
    let bars = |of: fn(&Tally) -> u64| -> String {
        let most = view.hour.iter().map(of).max().unwrap_or(0).max(1);
        let bar = |tally: &Tally| match of(tally) {
            0 => ' ',
            count => BARS[usize::try_from((count * 8 - 1) / most).unwrap_or(7).min(7)],
        };
        view.hour.iter().map(bar).collect()
    };
    let sum = |of: fn(&Tally) -> u64| view.hour.iter().map(of).sum::<u64>();
    vec![
        Piece::fact(
            "Requests",
            format!("{} {}", bars(|one| one.requests), sum(|one| one.requests)),
        ),
        Piece::Fact(
            "Refused",
            format!("{} {}", bars(|one| one.refusals), sum(|one| one.refusals)),
            Mood::Warn,
        ),
    ]
}
