//! Where agents went: requests by host, values swapped in, refusals, over the log's newest entries.

use std::sync::Arc;

use axum::extract::State;
use maud::{Markup, html};

use super::{Page, empty, heading};
use crate::{
    operator::Tally,
    web::{
        Web, chart,
        form::Proven,
        frame::{Room, page},
        words::plain,
    },
};

pub(in crate::web) async fn egress(State(web): State<Arc<Web>>, Proven(visit): Proven) -> Page {
    let view = web.desk.overview.egress().await?;
    let body = html! {
        (heading("Egress", "What left through the proxy, by host, as far back as the newest 10,000 entries go."))
        @if view.hosts.is_empty() { (empty("No request has left yet.")) } @else {
            figure .hour {
                (chart::bars(&view.hour.map(|tally| (tally.requests, tally.refusals))))
                figcaption { span .key .is-fine { "requests" } span .key .is-refused { "refused" }
                    span { "the last hour" } }
            }
            (table(&view.hosts))
        }
    };
    Ok(page(&visit, Room::Egress, &body))
}

fn table(hosts: &[(String, Tally)]) -> Markup {
    let most = hosts.iter().map(|(_, tally)| tally.all()).max().unwrap_or(1);
    html! {
        table .rows {
            thead { tr {
                th scope="col" { "Host" } th scope="col" .number { "Requests" }
                th scope="col" .number { "Swaps" } th scope="col" .number { "Refused" }
                th scope="col" { span .sr { "Share" } }
            } }
            tbody {
                @for (host, tally) in hosts {
                    tr {
                        th scope="row" .path { (plain(host)) }
                        td .number data-head="Requests" { (tally.requests) }
                        td .number data-head="Swaps" { (tally.swaps) }
                        td .number data-head="Refused" { (tally.refusals) }
                        td .share { (chart::share(tally.requests, tally.refusals, most)) }
                    }
                }
            }
        }
    }
}
