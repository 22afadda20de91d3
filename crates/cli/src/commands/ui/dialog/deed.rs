//! What the operator does by themselves and can't be undone by the same key: asked about once more.

use keyless_core::{SecretPath, approval::Status, grant::GrantId};
use keyless_daemon::Shown;

use super::pieces_of;
use crate::commands::ui::{app::Act, pieces::Piece, theme::Mood};

/// A deed.
pub(in crate::commands::ui) enum Deed {
    EndSession(String),
    Lock { sessions: usize },
    Remove(SecretPath),
    RevokeGrant(GrantId),
    TakeBack(Box<Shown>),
}

impl Deed {
    pub(super) fn title(&self) -> &'static str {
        match self {
            Self::EndSession(_) => "End a session",
            Self::Lock { .. } => "Lock all",
            Self::Remove(_) => "Remove a secret",
            Self::RevokeGrant(_) => "Revoke a grant",
            Self::TakeBack(shown) if shown.status == Status::Denied => "Lift a denial",
            Self::TakeBack(_) => "Revoke an approval",
        }
    }

    pub(super) fn button(&self) -> &'static str {
        match self {
            Self::EndSession(_) => "End it",
            Self::Lock { .. } => "Lock everything",
            Self::Remove(_) => "Remove it",
            Self::TakeBack(shown) if shown.status == Status::Denied => "Lift it",
            Self::RevokeGrant(_) | Self::TakeBack(_) => "Revoke it",
        }
    }

    pub(super) fn body(&self) -> Vec<Piece> {
        let (name, words) = match self {
            Self::EndSession(id) => (
                id.clone(),
                "Its connections break at once, and what was approved for it is over.".to_owned(),
            ),
            Self::Lock { sessions } => {
                let sessions = match sessions {
                    1 => "1 session".to_owned(),
                    count => format!("{count} sessions"),
                };
                let words = format!(
                    "The store closes and every session ends: {sessions} at present. Approvals are gone; what \
                     waits for an answer still waits. Opening it again takes the passphrase."
                );
                return vec![Piece::Ours(words, Mood::Warn)];
            }
            Self::Remove(path) => (
                path.to_string(),
                "Nothing can use it any more. Its versions stay sealed: keyless secret restore brings it back, \
                 until it is purged."
                    .to_owned(),
            ),
            Self::RevokeGrant(id) => {
                (id.to_string(), "It permits nothing any more, for good.".to_owned())
            }
            Self::TakeBack(shown) => {
                let words = if shown.status == Status::Denied {
                    "It may be asked for again."
                } else {
                    "The next use is asked about again."
                };
                let mut pieces = vec![Piece::Ours(words.to_owned(), Mood::Warn), Piece::Blank];
                pieces.extend(pieces_of(shown));
                return pieces;
            }
        };
        vec![Piece::heading(name), Piece::Blank, Piece::Ours(words, Mood::Warn)]
    }

    pub(super) fn act(&self) -> Act {
        match self {
            Self::EndSession(id) => Act::EndSession(id.clone()),
            Self::Lock { .. } => Act::Lock,
            Self::Remove(path) => Act::Remove(path.clone()),
            Self::RevokeGrant(id) => Act::RevokeGrant(id.clone()),
            Self::TakeBack(shown) => Act::TakeBack(shown.id.clone()),
        }
    }
}
