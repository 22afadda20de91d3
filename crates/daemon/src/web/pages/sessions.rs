//! Open sessions: what each may use, what it did, and its end.

use std::sync::Arc;

use axum::extract::{Path, State};
use jiff::Timestamp;
use maud::{Markup, html};

use super::{Page, empty, heading, log::entries};
use crate::{
    operator::lasting,
    session_book::{SessionKind, SessionRow},
    web::{
        Web,
        form::Proven,
        frame::{Room, page, word},
        visitors::Visit,
        words::{plain, spelled},
    },
};

pub(in crate::web) async fn sessions(State(web): State<Arc<Web>>, Proven(visit): Proven) -> Page {
    let rows = web.desk.book.rows();
    let body = html! {
        (heading("Sessions", "Agents that are at work now. Ending one cuts its connections at once."))
        @if rows.is_empty() { (empty("No session is open.")) }
        @else { ul .cards { @for row in &rows { li { (card(&visit, row)) } } } }
    };
    Ok(page(&visit, Room::Sessions, &body))
}

/// What one session did, the newest first.
pub(in crate::web) async fn session(
    State(web): State<Arc<Web>>,
    Path((_, id)): Path<(String, String)>,
    Proven(visit): Proven,
) -> Page {
    let all = web.desk.overview.session_log(&id).await?;
    let open = web.desk.book.rows().into_iter().find(|row| row.id == id);
    let body = html! {
        h1 { "Session" }
        @match &open {
            Some(row) => { div .single { (card(&visit, row)) } },
            None => { p .lead { span .path { (plain(&id)) } " has ended." } },
        }
        h2 { "What it did" }
        @if all.is_empty() { (empty("Nothing is on record.")) } @else { (entries(&visit, &all)) }
    };
    Ok(page(&visit, Room::Sessions, &body))
}

fn card(visit: &Visit, row: &SessionRow) -> Markup {
    let age = Timestamp::now().duration_since(row.since).as_secs();
    let base = format!("/{}/sessions/{}", visit.place, row.id);
    html! {
        article .card {
            span .kind { (row.kind.as_str()) }
            a .path href=(base) { (plain(&row.id)) }
            @if row.kind == SessionKind::Run {
                p .uses {
                    @if row.secrets.is_empty() { span .none { "no secrets" } }
                    @for (index, path) in row.secrets.iter().enumerate() {
                        @if index > 0 { ", " }
                        code { (path) }
                    }
                }
            }
            span .meta {
                span { "for " (lasting(u64::try_from(age).unwrap_or(0))) }
                form method="post" action={ (base) "/end" } {
                    (word(visit))
                    button .grave aria-label={ "End session " (spelled(&row.id)) } { "End" }
                }
            }
        }
    }
}
