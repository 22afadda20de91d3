//! The operator's pages. Each asks the broker and draws what it is told.

mod approvals;
mod egress;
mod grants;
mod log;
mod passkeys;
mod secrets;
mod sessions;
mod sources;
mod waiting;

use std::sync::Arc;

use axum::{extract::State, response::Html};
use maud::{Markup, html};

pub(super) use self::{
    approvals::approvals,
    egress::egress,
    grants::grants,
    log::{export, log, session_name},
    passkeys::passkeys,
    secrets::{NEW, known_path, secret, secrets},
    sessions::{session, sessions},
    sources::sources,
    waiting::{guide, list, request, waiting},
};
use super::{
    Web,
    form::Proven,
    frame::{Failure, Room, page, word},
};
use crate::operator::counted;

/// What a page's handler gives.
type Page = Result<Html<String>, Failure>;

/// Asks whether everything shall end; the one act that is not undone by another one here.
pub(super) async fn lock(State(web): State<Arc<Web>>, Proven(visit): Proven) -> Page {
    let open = web.desk.book.rows().len();
    let body = html! {
        h1 { "Lock all" }
        p .lead { "The store closes and every session ends: " (counted(open, "session")) " at present. "
            "Approvals are gone; what waits for an answer still waits. "
            "Opening it again takes the passphrase, in a terminal." }
        form method="post" action={ "/" (visit.place) "/lock" } {
            (word(&visit))
            div .buttons {
                a .button href={ "/" (visit.place) "/" } { "Leave it open" }
                button .main .grave { "Lock everything" }
            }
        }
    };
    Ok(page(&visit, Room::Lock, &body))
}

/// A heading with a sentence below.
fn heading(title: &str, lead: &str) -> Markup {
    html! { h1 { (title) } p .lead { (lead) } }
}

/// Nothing to show.
fn empty(words: &str) -> Markup {
    html! { p .empty { (words) } }
}
