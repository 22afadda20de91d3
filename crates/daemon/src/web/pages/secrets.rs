//! The inventory: every secret, where it may go, how fresh it is. Never a value.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use keyless_core::ApproveOnUse;
use keyless_vault::Secret;
use maud::{Markup, html};

use super::{Page, counted, empty};
use crate::{
    operator::{SecretRow, SecretState, SecretsWanted},
    web::{
        Web,
        form::{Proven, query},
        frame::{Room, page},
    },
};

pub(in crate::web) async fn secrets(
    State(web): State<Arc<Web>>,
    RawQuery(wanted): RawQuery,
    Proven(visit): Proven,
) -> Page {
    let wanted = query(wanted.as_deref());
    let (text, state) = (wanted.text("q").to_owned(), SecretState::parse(wanted.text("state")));
    let found = web.desk.overview.secrets(&SecretsWanted { text, state }).await?;
    let body = html! {
        h1 { "Secrets" }
        p .lead { (counted(found.total, "secret")) ". Values are sealed; no page shows one." }
        form .filter role="search" {
            label { span .sr { "Find a path, host or variable" }
                input type="search" name="q" value=(wanted.text("q")) placeholder="Path, host or variable"; }
            label { span .sr { "State" }
                select name="state" {
                    option value="" { "Every state" }
                    @for one in SecretState::ALL {
                        option value=(one.as_str()) selected[Some(one) == state] { (one.as_str()) }
                    }
                }
            }
            button { "Show" }
        }
        @if found.rows.is_empty() { (empty("No secret fits.")) } @else { (table(&found.rows)) }
    };
    Ok(page(&visit, Room::Secrets, &body))
}

fn table(rows: &[SecretRow]) -> Markup {
    html! {
        table .rows {
            thead { tr {
                th scope="col" { "Secret" } th scope="col" { "May go to" } th scope="col" { "Variable" }
                th scope="col" { "Asks" } th scope="col" { "State" }
            } }
            tbody {
                @for SecretRow { secret, state } in rows {
                    @let state = state.as_str();
                    tr {
                        th scope="row" {
                            span .path { (secret.path) }
                            @if let Some(words) = &secret.metadata.description { span .under { (words) } }
                        }
                        td data-head="May go to" { (destinations(secret)) }
                        td data-head="Variable" {
                            @match &secret.metadata.env {
                                Some(name) => { code { (name) } },
                                None => { span .none { "none" } },
                            }
                        }
                        td data-head="Asks" { (asks(secret.metadata.approve_on_use)) }
                        td data-head="State" {
                            span .state .{ "is-" (state.split(' ').next().unwrap_or_default()) } { (state) }
                            @if let Some(day) = secret.metadata.upkeep.expires_at {
                                span .under { "until " (day) }
                            }
                            @if let Some(at) = secret.rotated_at {
                                span .under { "set " (at.strftime("%e %b %Y").to_string()) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn destinations(secret: &Secret) -> Markup {
    let to = secret.metadata.egress.iter().flat_map(|rule| &rule.to);
    html! {
        @if secret.metadata.egress.is_none() { span .none { "nowhere on the wire" } }
        @for (index, to) in to.enumerate() { @if index > 0 { ", " } code { (to) } }
    }
}

fn asks(policy: ApproveOnUse) -> &'static str {
    match policy {
        ApproveOnUse::Never => "never",
        ApproveOnUse::PerCall => "at every use",
        ApproveOnUse::Session => "once a session",
    }
}
