//! The inventory: every secret, how it stands, where its value may go. Never a value.

use keyless_core::SecretPath;
use keyless_daemon::{LatestUse, SecretRow, SecretState, ago};
use ratatui::layout::Constraint;

use super::{Row, View, after, listed};
use crate::commands::{
    approve::visible,
    secret::source_word,
    ui::{
        app::{Act, App},
        dialog::{Deed, Dialog},
        keys::Press,
        pieces::Piece,
        theme::Mood,
    },
};

/// As many sessions are listed.
const USERS: usize = 6;

pub(super) fn view(app: &App) -> View {
    let total = app.seen.secrets.as_ref().map_or(0, |view| view.total);
    let state = app.secrets_wanted.state.map_or("every state", SecretState::as_str);
    View {
        title: format!("Secrets: {} of {total}, {state}", rows(app).count()),
        head: vec![
            ("State", Constraint::Length(15)),
            ("Path", Constraint::Fill(1)),
            ("May go to", Constraint::Fill(1)),
            ("Used", Constraint::Length(12)),
        ],
        rows: rows(app).map(|one| row(one, app)).collect(),
        empty: "No secret fits. n adds one.",
        about: "What is known of it",
        detail: chosen(app).map(|one| detail(one, app)).unwrap_or_default(),
        keys: "Enter value  n new  e edit  c check  d remove  / find  s state",
    }
}

pub(super) fn press(app: &mut App, press: Press) -> Option<Act> {
    if press == Press::Char('s') {
        app.secrets_wanted.state = after(&SecretState::ALL, app.secrets_wanted.state);
        return Some(Act::Turn);
    }
    if press == Press::Char('n') {
        return Some(Act::OpenValue(None));
    }
    let secret = chosen(app)?.secret.clone();
    match press {
        Press::Enter | Press::Char('v') => return Some(Act::OpenValue(Some(secret.path))),
        Press::Char('c') => return Some(Act::Check(secret.path)),
        Press::Char('e') => app.dialog = Some(Dialog::of_metadata(secret)),
        Press::Char('d') => app.open(Deed::Remove(secret.path)),
        _ => {}
    }
    None
}

pub(super) fn rows(app: &App) -> impl Iterator<Item = &SecretRow> {
    app.seen.secrets.iter().flat_map(|view| &view.rows)
}

fn chosen(app: &App) -> Option<&SecretRow> {
    let chosen = app.chosen()?;
    rows(app).find(|row| row.secret.path.as_str() == chosen)
}

fn row(row: &SecretRow, app: &App) -> Row {
    let metadata = &row.secret.metadata;
    let to = metadata.egress.as_ref().map(|rule| listed(&rule.to, "nowhere"));
    let used = uses(app, &row.secret.path).next().map(|last| ago(last.at));
    Row {
        cells: vec![
            row.state.as_str().to_owned(),
            row.secret.path.to_string(),
            to.unwrap_or_else(|| "nowhere".to_owned()),
            used.unwrap_or_else(|| "not lately".to_owned()),
        ],
        marked: (0, mood(row.state)),
    }
}

/// A secret's latest uses, the last one first.
fn uses<'a>(app: &'a App, path: &'a SecretPath) -> impl Iterator<Item = &'a LatestUse> {
    app.seen.uses.iter().filter(move |one| one.path == *path)
}

/// The agents and sessions that used a secret lately.
fn used_by(app: &App, path: &SecretPath) -> Vec<Piece> {
    let all = uses(app, path).count();
    if all == 0 {
        return vec![Piece::fact("Used by", "nobody, as far back as the log’s newest entries go")];
    }
    let one = |(index, one): (usize, &LatestUse)| {
        let who = format!("{} {}", visible(&one.session_id), visible(&one.agent_uri));
        let entries = if one.entries == 1 { "entry" } else { "entries" };
        let words = format!("{who}, {}, in {} {entries}", ago(one.at), one.entries);
        Piece::fact(if index == 0 { "Used by" } else { "" }, words)
    };
    let mut pieces: Vec<Piece> = uses(app, path).take(USERS).enumerate().map(one).collect();
    if all > USERS {
        pieces.push(Piece::fact("", format!("and {} more sessions", all - USERS)));
    }
    pieces
}

fn mood(state: SecretState) -> Mood {
    match state {
        SecretState::Compromised | SecretState::Expired => Mood::Bad,
        SecretState::Expiring | SecretState::Missing => Mood::Warn,
        SecretState::Registered => Mood::Good,
    }
}

fn detail(row: &SecretRow, app: &App) -> Vec<Piece> {
    let secret = &row.secret;
    let (metadata, upkeep) = (&secret.metadata, &secret.metadata.upkeep);
    let mut pieces = vec![Piece::heading(secret.path.to_string())];
    let mut fact = |name, words: Option<String>| {
        pieces.extend(words.map(|words| Piece::fact(name, words)));
    };
    fact("For", metadata.description.as_deref().map(visible));
    let state = match upkeep.expires_at {
        Some(day) => format!("{}, until {day}", row.state.as_str()),
        None => row.state.as_str().to_owned(),
    };
    fact("State", Some(state));
    let to = metadata.egress.as_ref().map(|rule| listed(&rule.to, "nowhere"));
    fact("May go to", Some(to.unwrap_or_else(|| "nowhere on the wire".to_owned())));
    fact("Variable", metadata.env.as_ref().map(ToString::to_string));
    fact("Asks", Some(row.asks.in_words().to_owned()));
    fact("Kept in", Some(visible(&source_word(&metadata.source))));
    fact("Kept at", row.kept_at.as_ref().map(|at| visible(&at.in_words())));
    fact("Version", secret.version.map(|version| version.to_string()));
    fact("Set", secret.rotated_at.map(|at| at.strftime("%Y-%m-%d %H:%M").to_string()));
    fact("Renewal", upkeep.rotate_every_days.map(|days| format!("every {days} days")));
    fact("Got at", upkeep.retrieval_url.as_deref().map(visible));
    fact("Pattern", upkeep.pattern_id.as_deref().map(visible));
    pieces.extend(used_by(app, &secret.path));
    if secret.is_compromised() {
        let words = "others may know its value: it is given out no more, until it has another one";
        pieces.push(Piece::Ours(words.to_owned(), Mood::Bad));
    }
    pieces
}
