//! What a person has said and what still holds of it: approvals to revoke, denials to lift.

use std::sync::Arc;

use axum::extract::State;
use keyless_core::approval::{Asked, Status};
use maud::{Markup, html};

use super::{Page, empty, heading};
use crate::{
    operator::{Shown, lasting},
    web::{
        Web,
        form::Proven,
        frame::{Room, page, word},
        visitors::Visit,
        words::{plain, spelled},
    },
};

pub(in crate::web) async fn approvals(State(web): State<Arc<Web>>, Proven(visit): Proven) -> Page {
    let standing = web.desk.approver.standing().await?;
    let body = html! {
        (heading("Approvals", "What you allowed and what you denied, as long as it has an effect."))
        @if standing.is_empty() { (empty("No approval and no denial is in effect.")) }
        @else { (table(&visit, &standing)) }
    };
    Ok(page(&visit, Room::Approvals, &body))
}

fn table(visit: &Visit, standing: &[Shown]) -> Markup {
    html! {
        table .rows {
            thead { tr {
                th scope="col" { "About" } th scope="col" { "Answer" } th scope="col" { "For" }
                th scope="col" { "Holds" } th scope="col" { span .sr { "End it" } }
            } }
            tbody {
                @for shown in standing {
                    tr {
                        th scope="row" .path { (plain(&shown.title())) }
                        td data-head="Answer" { (answer(shown.status)) @if let Some(deed) = deed(shown) {
                            ": " code { (plain(deed)) } }
                            @if !shown.asked.is_permission() { ": " (shown.asked.word()) }
                            @if let Some(answers) = shown.answers() { ", " (answers) } }
                        td data-head="For" .path { (plain(&shown.session)) }
                        td data-head="Holds" {
                            @if shown.status == Status::Denied { "ten minutes at most" }
                            @else { "another " (lasting(shown.seconds_left)) }
                        }
                        td .end {
                            form method="post" action={ "/" (visit.place) "/approvals/" (shown.id) "/take-back" } {
                                (word(visit))
                                button aria-label={ (take_back(shown.status)) " for " (spelled(&shown.title())) } {
                                    (take_back(shown.status))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn deed(shown: &Shown) -> Option<&str> {
    match &shown.asked {
        Asked::UseApproval { deed, .. } => deed.as_deref(),
        _ => None,
    }
}

fn answer(status: Status) -> &'static str {
    match status {
        Status::Denied => "Denied",
        Status::Once => "Allowed once",
        _ => "Allowed for the session",
    }
}

fn take_back(status: Status) -> &'static str {
    if status == Status::Denied { "Lift" } else { "Revoke" }
}
