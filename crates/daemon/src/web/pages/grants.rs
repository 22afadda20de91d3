//! What agents may do by themselves: the grants, how much of each is used, and their end.

use std::sync::Arc;

use axum::extract::State;
use keyless_core::grant::{GrantState, Permission};
use maud::{Markup, html};

use super::{Page, empty, heading};
use crate::{
    nl::grants::ShownGrant,
    web::{
        Web,
        form::Proven,
        frame::{Room, page, word},
        visitors::Visit,
        words::plain,
    },
};

pub(in crate::web) async fn grants(State(web): State<Arc<Web>>, Proven(visit): Proven) -> Page {
    let all = web.desk.overview.grants().await?;
    let lead = "What agents may do with which secrets, without asking you each time.";
    let body = html! {
        (heading("Grants", lead))
        @if all.is_empty() { (empty("No grant was made. In a terminal: keyless grant create")) }
        @else { (table(&visit, &all)) }
    };
    Ok(page(&visit, Room::Grants, &body))
}

fn table(visit: &Visit, all: &[ShownGrant]) -> Markup {
    html! {
        table .rows {
            thead { tr {
                th scope="col" { "Agent" } th scope="col" { "May" } th scope="col" { "Until" }
                th scope="col" { "Uses" } th scope="col" { "State" } th scope="col" { span .sr { "End it" } }
            } }
            tbody { @for shown in all { (row(visit, shown)) } }
        }
    }
}

fn row(visit: &Visit, shown: &ShownGrant) -> Markup {
    let grant = &shown.grant;
    let until = grant.permissions.iter().map(|one| one.conditions.valid_until).max();
    html! {
        tr {
            th scope="row" .path {
                (plain(&grant.agent_uri.to_string()))
                span .under { (plain(grant.grant_id.as_str())) }
            }
            td data-head="May" { @for one in &grant.permissions { (permission(one)) } }
            td data-head="Until" {
                @if let Some(until) = until { (until.strftime("%-d %b %Y %H:%M").to_string()) }
            }
            td data-head="Uses" { (uses(shown)) }
            td data-head="State" {
                span .state .{ "is-" (shown.state.as_str()) } { (shown.state.as_str()) }
            }
            td .end {
                @if shown.state == GrantState::Active {
                    form method="post" action={ "/" (visit.place) "/grants/revoke" } {
                        (word(visit))
                        input type="hidden" name="grant" value=(grant.grant_id.as_str());
                        button aria-label={ "Revoke " (grant.grant_id.as_str()) } { "Revoke" }
                    }
                }
            }
        }
    }
}

fn permission(one: &Permission) -> Markup {
    let actions: Vec<String> =
        one.action_types.iter().map(|action| String::from(*action)).collect();
    let secrets: Vec<String> = one.secrets.iter().map(ToString::to_string).collect();
    let hosts: Vec<String> = one.conditions.allowed_hosts.iter().map(ToString::to_string).collect();
    html! {
        div {
            (plain(&actions.join(", "))) " with " code { (plain(&secrets.join(", "))) }
            @if !hosts.is_empty() { span .under { "reaching " (hosts.join(", ")) } }
            @if one.conditions.allow_writes { span .under { "and changing rows of databases" } }
            @if one.conditions.require_human_approval { span .under { "each time you allow it" } }
        }
    }
}

/// `3/100`, and `no limit` where nobody counts.
fn uses(shown: &ShownGrant) -> String {
    let each = shown.grant.permissions.iter().zip(&shown.used).map(|(permission, used)| {
        let most = permission.conditions.max_uses;
        most.map_or_else(|| "no limit".to_owned(), |most| format!("{used}/{most}"))
    });
    each.collect::<Vec<_>>().join(", ")
}
