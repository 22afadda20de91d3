//! The log's newest entries, filtered, and whether its chain holds.

use keyless_core::audit::{Action, Entry, Outcome};
use keyless_daemon::{ChainState, LOG_ACTIONS, LOG_OUTCOMES};
use ratatui::layout::Constraint;

use super::{Row, View, after};
use crate::commands::{
    approve::visible,
    ui::{
        app::{Act, App},
        keys::Press,
        pieces::Piece,
        theme::Mood,
    },
};

pub(super) fn view(app: &App) -> View {
    let (action, outcome) = (&app.log_wanted.action, &app.log_wanted.outcome);
    let or = |words: &str, other: &str| {
        if words.is_empty() { other.to_owned() } else { words.replace('_', " ") }
    };
    let more = if app.seen.log.as_ref().is_some_and(|view| view.more) { " and older" } else { "" };
    View {
        title: format!(
            "Log: {}{more}, {}, {}",
            entries(app).len(),
            or(action, "everything"),
            or(outcome, "every outcome")
        ),
        head: vec![
            ("When", Constraint::Length(8)),
            ("Outcome", Constraint::Length(8)),
            ("What", Constraint::Length(15)),
            ("About", Constraint::Fill(1)),
        ],
        rows: entries(app).iter().map(row).collect(),
        empty: "No entry fits.",
        about: "The entry",
        detail: detail(app),
        keys: "/ find  a act  o outcome  v verify the chain",
    }
}

pub(super) fn press(app: &mut App, press: Press) -> Option<Act> {
    let wanted = &mut app.log_wanted;
    match press {
        Press::Char('a') => {
            let present = LOG_ACTIONS.into_iter().find(|one| one.as_str() == wanted.action);
            wanted.action = word(after(&LOG_ACTIONS, present).map(Action::as_str));
        }
        Press::Char('o') => {
            let present = LOG_OUTCOMES.into_iter().find(|one| one.as_str() == wanted.outcome);
            wanted.outcome = word(after(&LOG_OUTCOMES, present).map(Outcome::as_str));
        }
        Press::Char('v') => return Some(Act::VerifyChain),
        _ => return None,
    }
    Some(Act::Turn)
}

fn word(word: Option<&str>) -> String {
    word.unwrap_or_default().to_owned()
}

pub(super) fn entries(app: &App) -> &[Entry] {
    app.seen.log.as_ref().map(|view| view.entries.as_slice()).unwrap_or_default()
}

fn row(entry: &Entry) -> Row {
    let mood = match entry.result {
        Outcome::Success => Mood::Good,
        _ => Mood::Bad,
    };
    Row {
        cells: vec![clock(entry), entry.result.as_str().to_owned(), what(entry), about(entry)],
        marked: (1, mood),
    }
}

/// What was done, in a word or two.
pub(super) fn what(entry: &Entry) -> String {
    entry.action.as_str().replace('_', " ")
}

/// What it was done to.
pub(super) fn about(entry: &Entry) -> String {
    let detail = &entry.detail;
    match (&detail.method, &detail.path) {
        (Some(method), Some(path)) => visible(&format!("{method} {}{path}", entry.target)),
        _ => visible(&entry.target),
    }
}

/// `10:30:00`.
pub(super) fn clock(entry: &Entry) -> String {
    entry
        .timestamp
        .split_once('T')
        .and_then(|(_, time)| time.get(..8))
        .unwrap_or_default()
        .to_owned()
}

fn detail(app: &App) -> Vec<Piece> {
    let mut pieces = chain(app.seen.chain.as_ref());
    let chosen = app.chosen();
    let entry = entries(app).iter().find(|entry| Some(entry.entry_id.as_str()) == chosen);
    pieces.extend(entry.map(one).unwrap_or_default());
    pieces
}

fn chain(chain: Option<&ChainState>) -> Vec<Piece> {
    let (words, mood) = match chain {
        None => return Vec::new(),
        Some(ChainState::Holds { entries, breaks: 0 }) => {
            (format!("The chain holds: {entries} entries, none changed."), Mood::Good)
        }
        Some(ChainState::Holds { entries, breaks }) => (
            format!(
                "The chain holds but for breaks that were accepted: {entries} entries, {breaks} breaks. Their entries \
                 log_break_accepted tell what was found."
            ),
            Mood::Warn,
        ),
        Some(ChainState::Unread) => (
            "The store could not be read, so nothing is known of the chain. Next: verify it once more, and look at \
             the disk if that fails too."
                .to_owned(),
            Mood::Bad,
        ),
        Some(ChainState::Changed(why)) => (
            format!(
                "The log is not what was written: {}. Next: compare it with a backup, and find out who could write \
                 the store.",
                visible(why)
            ),
            Mood::Bad,
        ),
    };
    vec![Piece::Ours(words, mood), Piece::Blank]
}

fn one(entry: &Entry) -> Vec<Piece> {
    let detail = &entry.detail;
    let mut pieces = vec![
        Piece::fact("Number", entry.sequence.to_string()),
        Piece::fact("When", entry.timestamp.clone()),
        Piece::fact("What", what(entry)),
        Piece::fact("About", about(entry)),
        Piece::fact("Outcome", entry.result.as_str()),
        Piece::fact("Session", visible(&entry.agent.session_id)),
    ];
    let mut fact = |name, words: Option<String>| {
        pieces.extend(words.map(|words| Piece::fact(name, visible(&words))));
    };
    fact("Kind", detail.kind.clone());
    fact("Note", detail.note.clone());
    fact("Code", entry.error_code.clone());
    fact("Status", detail.status.map(|status| status.to_string()));
    for path in &entry.secrets_used {
        fact("With", Some(path.to_string()));
    }
    pieces
}
