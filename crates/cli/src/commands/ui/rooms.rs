//! The rooms of the screen: each says, of what was seen last, which rows there are, what is to be read of the chosen
//! one, and what its own keys lead to.

mod approvals;
mod egress;
mod grants;
mod log;
mod secrets;
mod sessions;
mod sources;
mod waiting;

use ratatui::layout::Constraint;

use super::{
    app::{Act, App},
    keys::Press,
    pieces::Piece,
    theme::Mood,
};

/// A room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Room {
    #[default]
    Waiting,
    Approvals,
    Secrets,
    Sessions,
    Grants,
    Log,
    Egress,
    Sources,
}

/// What a room shows.
pub(super) struct View {
    /// Over the list.
    pub(super) title: String,
    pub(super) head: Vec<(&'static str, Constraint)>,
    pub(super) rows: Vec<Row>,
    /// Where there is no row.
    pub(super) empty: &'static str,
    /// Over the chosen one.
    pub(super) about: &'static str,
    pub(super) detail: Vec<Piece>,
    /// The room's own keys.
    pub(super) keys: &'static str,
}

/// A row of a list.
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    /// The cell that says how it stands.
    pub(super) marked: (usize, Mood),
}

impl Room {
    pub(super) const ALL: [Self; 8] = [
        Self::Waiting,
        Self::Approvals,
        Self::Secrets,
        Self::Sessions,
        Self::Grants,
        Self::Log,
        Self::Egress,
        Self::Sources,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Approvals => "Approvals",
            Self::Secrets => "Secrets",
            Self::Sessions => "Sessions",
            Self::Grants => "Grants",
            Self::Log => "Log",
            Self::Egress => "Egress",
            Self::Sources => "Sources",
        }
    }

    pub(super) fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }

    pub(super) fn before(self) -> Self {
        Self::ALL[(self as usize + Self::ALL.len() - 1) % Self::ALL.len()]
    }
}

/// What the present room shows.
pub(super) fn view(app: &App) -> View {
    match app.room {
        Room::Waiting => waiting::view(app),
        Room::Approvals => approvals::view(app),
        Room::Secrets => secrets::view(app),
        Room::Sessions => sessions::view(app),
        Room::Grants => grants::view(app),
        Room::Log => log::view(app),
        Room::Egress => egress::view(app),
        Room::Sources => sources::view(app),
    }
}

/// The names of the rows, in their order.
pub(super) fn keys(app: &App) -> Vec<String> {
    let seen = &app.seen;
    match app.room {
        Room::Waiting => seen.waiting.iter().map(|one| one.id.to_string()).collect(),
        Room::Approvals => seen.standing.iter().map(|one| one.id.to_string()).collect(),
        Room::Secrets => secrets::rows(app).map(|row| row.secret.path.to_string()).collect(),
        Room::Sessions => seen.sessions.iter().map(|one| one.id.clone()).collect(),
        Room::Grants => seen.grants.iter().map(|one| one.grant.grant_id.to_string()).collect(),
        Room::Log => log::entries(app).iter().map(|entry| entry.entry_id.clone()).collect(),
        Room::Egress => egress::hosts(app).iter().map(|(host, _)| host.clone()).collect(),
        Room::Sources => sources::names(app),
    }
}

/// What a room's own key leads to.
pub(super) fn press(app: &mut App, press: Press) -> Option<Act> {
    match app.room {
        Room::Waiting => waiting::press(app, press),
        Room::Approvals => approvals::press(app, press),
        Room::Secrets => secrets::press(app, press),
        Room::Sessions => sessions::press(app, press),
        Room::Grants => grants::press(app, press),
        Room::Log => log::press(app, press),
        Room::Egress | Room::Sources => None,
    }
}

/// What is searched for, in the rooms that can be searched.
pub(super) fn text_of(app: &mut App) -> Option<&mut String> {
    match app.room {
        Room::Secrets => Some(&mut app.secrets_wanted.text),
        Room::Log => Some(&mut app.log_wanted.text),
        _ => None,
    }
}

/// The element after `present` in a round that also has none at all.
fn after<T: Copy + PartialEq>(all: &[T], present: Option<T>) -> Option<T> {
    let Some(present) = present else { return all.first().copied() };
    let at = all.iter().position(|one| *one == present)?;
    all.get(at + 1).copied()
}

/// A list with commas; a word of ours where it is empty.
pub(super) fn listed<T: ToString>(all: &[T], none: &str) -> String {
    if all.is_empty() {
        return none.to_owned();
    }
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
