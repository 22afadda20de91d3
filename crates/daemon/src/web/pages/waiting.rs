//! What waits for an answer, and the dialog of one request over it.

use std::sync::Arc;

use axum::{
    extract::{Path, RawQuery, State},
    http::HeaderMap,
    response::{Html, IntoResponse as _},
};
use jiff::Timestamp;
use keyless_core::{
    Code,
    approval::{Asked, Status},
};
use maud::{Markup, html};

use super::Page;
use crate::{
    operator::{Shown, ago, lasting},
    web::{
        Web,
        dialog::{self, Scene},
        form::{BY_SCRIPT, Proven, query},
        frame::{CODE, Room, page},
        handlers::{Answered, request_id},
        visitors::Visit,
        words::{outcome, plain},
    },
};

/// As many requests are drawn, the oldest: a list that nobody reads to its end need not be there.
const CARDS: usize = 100;
/// Characters of a deed on a card.
const DEED: usize = 120;

pub(in crate::web) async fn waiting(State(web): State<Arc<Web>>, Proven(visit): Proven) -> Page {
    let body = body(&visit, &web.desk.approver.pending().await?);
    Ok(page(&visit, Room::Waiting, &body))
}

/// The list alone, for the page's script.
pub(in crate::web) async fn list(State(web): State<Arc<Web>>, Proven(visit): Proven) -> Page {
    let shown = web.desk.approver.pending().await?;
    Ok(Html(rows(&visit, &shown).into_string()))
}

/// One request's dialog, over the list; of one that waits no more, what became of it.
pub(in crate::web) async fn request(
    State(web): State<Arc<Web>>,
    Path((_, id)): Path<(String, String)>,
    RawQuery(wanted): RawQuery,
    headers: HeaderMap,
    Proven(visit): Proven,
) -> Answered {
    let id = request_id(&id)?;
    let waiting = web.desk.approver.pending().await?;
    let Some(shown) = waiting.iter().find(|shown| shown.id == id) else {
        let (shown, since) = web.desk.approver.look(&id).await?;
        let past = past(&visit, &shown, since);
        let code = [(CODE, Code::RequestSettled.as_str())];
        // A script puts it into the page that it is in, whose notice is the next whole page's.
        if headers.contains_key(BY_SCRIPT) {
            return Ok((code, Html(past.into_string())).into_response());
        }
        let body = html! { (past) (body(&visit, &waiting)) };
        return Ok((code, page(&visit, Room::Waiting, &body)).into_response());
    };
    let secret = match &shown.path {
        Some(path) => web.desk.vault.show(path).await.ok(),
        None => None,
    };
    let providers = web.desk.providers().await;
    let scene = Scene {
        visit: &visit,
        shown,
        secret: secret.as_ref(),
        providers: &providers,
        weak: query(wanted.as_deref()).is_ticked("weak"),
        prove_again: web.desk.prove_again().await,
    };
    let body = html! { (body(&visit, &waiting)) (dialog::render(&scene)) };
    Ok(page(&visit, Room::Waiting, &body).into_response())
}

/// What the catalog says of another kind of token of the same service.
pub(in crate::web) async fn guide(
    State(web): State<Arc<Web>>,
    Path((_, occasion, variant)): Path<(String, String, String)>,
    Proven(_): Proven,
) -> Page {
    let providers = web.desk.providers().await;
    let (provider, variant) = providers.variant(&variant).ok_or(Code::SecretNotFound)?;
    Ok(Html(dialog::guide(provider, variant, occasion == "another").into_string()))
}

/// What became of a request that waits no more.
fn past(visit: &Visit, shown: &Shown, since: Timestamp) -> Markup {
    let end = match shown.status {
        Status::Cancelled => "Declined",
        Status::Denied => "Denied",
        Status::Expired => "Expired",
        Status::Failed { .. } => "Failed",
        Status::Ok => "Done",
        Status::Once => "Allowed once",
        Status::Pending => "Waiting",
        Status::Session => "Allowed for the session",
    };
    let holds = matches!(shown.status, Status::Denied | Status::Once | Status::Session);
    html! {
        section aria-label="What became of a request" {
            p .kind { (shown.heading()) }
            p .path { (plain(&shown.title())) }
            p data-end="" { "It does not wait any more. " (plain(&outcome(shown))) }
            dl .facts {
                div { dt { "Request" } dd { code { (shown.id) } } }
                div { dt { "Asked by" } dd { (plain(&shown.session)) ", " (lasting(shown.age_seconds)) " ago" } }
                div { dt { (end) } dd { (ago(since)) ", at " (since.strftime("%H:%M:%S UTC, %-d %B %Y").to_string()) } }
            }
            @if holds {
                p .help { "What still holds of it is under " a href={ "/" (visit.place) "/approvals" } { "Approvals" } "." }
            }
        }
    }
}

fn body(visit: &Visit, shown: &[Shown]) -> Markup {
    html! {
        h1 { "Waiting for you" }
        div #lost .fault role="alert" hidden {
            p { "The broker does not answer any more, so this list stands still." }
            p .next { "Next: keyless status; where it has ended, keyless unlock, then keyless web, which leads to the new page." }
        }
        div #waiting data-list={ "/" (visit.place) "/list" } data-events={ "/" (visit.place) "/events" } {
            (rows(visit, shown))
        }
    }
}

fn rows(visit: &Visit, shown: &[Shown]) -> Markup {
    html! {
        @if shown.is_empty() {
            div .calm {
                p { "Nothing waits for an answer." }
                p .help { "This page shows a request as soon as an agent makes one. You can leave it open." }
            }
        } @else {
            ul .cards {
                @for shown in shown.iter().take(CARDS) { li { (card(visit, shown)) } }
            }
            @if shown.len() > CARDS {
                p .help .more { "And " (shown.len() - CARDS) " more, as soon as these are answered or their time is over." }
            }
        }
    }
}

fn card(visit: &Visit, shown: &Shown) -> Markup {
    html! {
        a .card href={ "/" (visit.place) "/requests/" (shown.id) } {
            span .kind { (shown.asked.word()) }
            span .path { (plain(&shown.title())) }
            @if let Asked::UseApproval { deed: Some(deed), .. } = &shown.asked {
                span .deed { (plain(&beginning(deed))) }
            }
            span .meta {
                span { (plain(&shown.session)) ", " (dialog::age(shown)) }
                (dialog::left(shown))
            }
        }
    }
}

/// As much of a deed as a card has room for; its dialog has all of it.
fn beginning(deed: &str) -> String {
    match deed.char_indices().nth(DEED) {
        None => deed.to_owned(),
        Some((end, _)) => format!("{}…", &deed[..end]),
    }
}
