//! The inventory: every secret, where it may go, how fresh it is. Never a value.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use keyless_core::ApproveOnUse;
use keyless_vault::{Freshness, Secret, SourceConfig};
use maud::{Markup, html};

use super::{Page, counted, empty};
use crate::web::{
    Web,
    form::{Proven, query},
    frame::{Room, page},
};

pub(in crate::web) async fn secrets(
    State(web): State<Arc<Web>>,
    RawQuery(wanted): RawQuery,
    Proven(visit): Proven,
) -> Page {
    let wanted = query(wanted.as_deref());
    let (text, state) = (wanted.text("q").to_lowercase(), wanted.text("state"));
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let mut all = web.desk.vault.list().await?;
    let total = all.len();
    all.retain(|secret| {
        has(secret, &text) && (state.is_empty() || state_of(secret, today) == state)
    });
    let body = html! {
        h1 { "Secrets" }
        p .lead { (counted(total, "secret")) ". Values are sealed; no page shows one." }
        form .filter role="search" {
            label { span .sr { "Find a path, host or variable" }
                input type="search" name="q" value=(wanted.text("q")) placeholder="Path, host or variable"; }
            label { span .sr { "State" }
                select name="state" {
                    option value="" { "Every state" }
                    @for word in ["registered", "expiring", "expired", "without a value"] {
                        option value=(word) selected[word == state] { (word) }
                    }
                }
            }
            button { "Show" }
        }
        @if all.is_empty() { (empty("No secret fits.")) } @else { (table(&all, today)) }
    };
    Ok(page(&visit, Room::Secrets, &body))
}

fn table(secrets: &[Secret], today: Date) -> Markup {
    html! {
        table .rows {
            thead { tr {
                th scope="col" { "Secret" } th scope="col" { "May go to" } th scope="col" { "Variable" }
                th scope="col" { "Asks" } th scope="col" { "State" }
            } }
            tbody {
                @for secret in secrets {
                    @let state = state_of(secret, today);
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

fn has(secret: &Secret, text: &str) -> bool {
    let to = secret.metadata.egress.iter().flat_map(|rule| &rule.to);
    let env = secret.metadata.env.as_ref().map(ToString::to_string).unwrap_or_default();
    secret.path.as_str().contains(text)
        || to.map(ToString::to_string).any(|to| to.contains(text))
        || env.to_lowercase().contains(text)
}

fn state_of(secret: &Secret, today: Date) -> &'static str {
    if secret.version.is_none() && matches!(secret.metadata.source, SourceConfig::Local) {
        return "without a value";
    }
    match secret.metadata.upkeep.freshness(today) {
        Freshness::Expired => "expired",
        Freshness::Expiring => "expiring",
        Freshness::Registered => "registered",
    }
}

fn asks(policy: ApproveOnUse) -> &'static str {
    match policy {
        ApproveOnUse::Never => "never",
        ApproveOnUse::PerCall => "at every use",
        ApproveOnUse::Session => "once a session",
    }
}
