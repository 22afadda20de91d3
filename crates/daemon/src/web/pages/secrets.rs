//! The inventory: every secret, where it may go, how fresh it is, who used it last. Never a value.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use keyless_core::{Code, Error, SecretPath};
use keyless_store::LatestUse;
use keyless_vault::Secret;
use maud::{Markup, html};

use super::{Page, empty};
use crate::{
    operator::{SecretRow, SecretState, SecretsWanted, ago, counted},
    web::{
        Web,
        dialog::{self, Act, Own},
        form::{Fields, Proven, query},
        frame::{Room, page},
        visitors::Visit,
        words::{in_steps, plain},
    },
};

/// As many rows are drawn, so that the page stays light; a filter finds the others.
const ROWS: usize = 100;
/// The address of a secret that is to be; a path has three segments.
pub(in crate::web) const NEW: &str = "new";

/// All of them, or those that fit.
pub(in crate::web) async fn secrets(
    State(web): State<Arc<Web>>,
    RawQuery(wanted): RawQuery,
    Proven(visit): Proven,
) -> Page {
    let wanted = query(wanted.as_deref());
    let uses = web.desk.overview.latest_uses().await?;
    let body = inventory(&web, &visit, &wanted, &uses).await?;
    Ok(page(&visit, Room::Secrets, &body))
}

/// One secret's dialog over them; `new` for one that is to be.
pub(in crate::web) async fn secret(
    State(web): State<Arc<Web>>,
    Path((_, path)): Path<(String, String)>,
    RawQuery(wanted): RawQuery,
    Proven(visit): Proven,
) -> Page {
    let wanted = query(wanted.as_deref());
    let secret = match &*path {
        NEW => None,
        path => Some(web.desk.vault.show(&known_path(path)?).await?),
    };
    let mut uses = web.desk.overview.latest_uses().await?;
    let body = inventory(&web, &visit, &query(None), &uses).await?;
    uses.retain(|one| secret.as_ref().is_some_and(|secret| secret.path == one.path));
    let own = Own {
        visit: &visit,
        secret: secret.as_ref(),
        kept_at: secret.as_ref().and_then(|secret| web.desk.vault.kept_at(secret)),
        act: Act::parse(wanted.text("act")),
        floor: web.desk.keeper.floor(),
        providers: &web.desk.providers().await,
        uses: &uses,
        prove_again: web.desk.prove_again().await,
        weak: wanted.is_ticked("weak"),
    };
    let body = html! { (body) (dialog::own(&own)) };
    Ok(page(&visit, Room::Secrets, &body))
}

/// A path of an address.
pub(in crate::web) fn known_path(text: &str) -> Result<SecretPath, Error> {
    SecretPath::parse(text).map_err(|_| Code::SecretNotFound.into())
}

async fn inventory(
    web: &Web,
    visit: &Visit,
    wanted: &Fields,
    uses: &[LatestUse],
) -> Result<Markup, Error> {
    let (text, state) = (wanted.text("q").to_owned(), SecretState::parse(wanted.text("state")));
    let found = web.desk.overview.secrets(&SecretsWanted { text, state }).await?;
    let place = &visit.place;
    Ok(html! {
        div .headed {
            h1 { "Secrets" }
            a .button href={ "/" (place) "/secrets/" (NEW) } { "Add a secret" }
        }
        p .lead { (counted(found.total, "secret")) ". Values are sealed; no page shows one." }
        form .filter role="search" action={ "/" (place) "/secrets" } {
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
            button { "Find" }
        }
        @if found.rows.is_empty() { (empty("No secret fits.")) }
        @else { (table(place, &found.rows, uses)) }
    })
}

fn table(place: &str, rows: &[SecretRow], uses: &[LatestUse]) -> Markup {
    html! {
        table .rows {
            thead { tr {
                th scope="col" { "Secret" } th scope="col" { "May go to" } th scope="col" { "Variable" }
                th scope="col" { "Asks" } th scope="col" { "Used" } th scope="col" { "State" }
            } }
            tbody {
                @for SecretRow { secret, state, asks, .. } in rows.iter().take(ROWS) {
                    @let state = state.as_str();
                    tr {
                        th .in-steps scope="row" {
                            a .path href={ "/" (place) "/secrets/" (secret.path) } { (in_steps(&secret.path)) }
                            @if let Some(words) = &secret.metadata.description { span .under { (plain(words)) } }
                        }
                        td data-head="May go to" { (destinations(secret)) }
                        td data-head="Variable" {
                            @match &secret.metadata.env {
                                Some(name) => { code { (name) } },
                                None => { span .none { "none" } },
                            }
                        }
                        td data-head="Asks" { (asks.in_words()) }
                        td data-head="Used" {
                            // They are sorted, the latest first.
                            @match uses.iter().find(|one| one.path == secret.path) {
                                Some(last) => { span .whole { (ago(last.at)) } },
                                None => { span .none .whole { "not lately" } },
                            }
                        }
                        td data-head="State" {
                            span .state .{ "is-" (state.split(' ').next().unwrap_or_default()) } { (state) }
                            @if let Some(day) = secret.metadata.upkeep.expires_at {
                                span .under .whole { "until " (day) }
                            }
                            @if let Some(at) = secret.rotated_at {
                                span .under .whole { "set " (at.strftime("%-d %b %Y").to_string()) }
                            }
                        }
                    }
                }
            }
        }
        @if rows.len() > ROWS { p .help .more { "And " (rows.len() - ROWS) " more: name a part of what you look for above." } }
    }
}

fn destinations(secret: &Secret) -> Markup {
    let to = secret.metadata.egress.iter().flat_map(|rule| &rule.to);
    html! {
        @if secret.metadata.egress.is_none() { span .none { "nowhere on the wire" } }
        @for (index, to) in to.enumerate() { @if index > 0 { ", " } code { (to) } }
    }
}

#[cfg(test)]
mod tests {
    use keyless_core::{ApproveOnUse, EgressRule};
    use keyless_vault::Metadata;

    use super::*;
    use crate::operator::read_destinations;

    #[test]
    fn the_page_stays_light_whatever_the_store_holds() {
        let at = "2026-01-02T03:04:05Z".parse().unwrap();
        let row = |number: usize| {
            let path = SecretPath::parse(&format!("team/some-service/token-{number}")).unwrap();
            let metadata = Metadata {
                egress: Some(EgressRule::to(
                    read_destinations("api.one.test, api.two.test").unwrap(),
                )),
                description: Some("For the boards of this team".to_owned()),
                ..Metadata::default()
            };
            let (created_at, updated_at, rotated_at) = (at, at, Some(at));
            let secret =
                Secret { path, metadata, created_at, updated_at, version: Some(1), rotated_at };
            SecretRow {
                secret,
                state: SecretState::Registered,
                asks: ApproveOnUse::Never,
                kept_at: None,
            }
        };
        let rows: Vec<SecretRow> = (0..2000).map(row).collect();
        let drawn = table("place", &rows, &[]).into_string();
        assert!(drawn.len() < 90 * 1024, "{}", drawn.len());
        assert!(
            drawn.contains("token-99<") && drawn.contains("And 1900 more"),
            "{}",
            &drawn[drawn.len() - 200..]
        );
        assert!(!table("place", &rows[..100], &[]).into_string().contains("more"));
    }
}
