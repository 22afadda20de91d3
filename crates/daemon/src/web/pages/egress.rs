//! Where agents went: requests by host, values swapped in, refusals, over the log's newest entries.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::State;
use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    Error,
    audit::{Action, Entry, Outcome},
};
use maud::{Markup, html};

use super::{Page, empty, heading};
use crate::web::{
    Web, chart,
    form::Proven,
    frame::{Room, page},
    words::plain,
};

const LOOKED: u32 = 10_000;
/// The hour is drawn in bars of this many seconds.
const BAR_SECONDS: i64 = 120;
const BARS: usize = 30;
const HOSTS: usize = 20;

/// What became of the requests to one host.
#[derive(Clone, Copy, Default)]
struct Tally {
    requests: u64,
    swaps: u64,
    refusals: u64,
}

pub(in crate::web) async fn egress(State(web): State<Arc<Web>>, Proven(visit): Proven) -> Page {
    web.desk.log.flush().await?;
    let all = web.desk.vault.store().audit_tail(LOOKED).await.map_err(Error::from)?;
    let (hosts, hour) = tally(&all, Timestamp::now());
    let body = html! {
        (heading("Egress", "What left through the proxy, by host, as far back as the newest 10,000 entries go."))
        @if hosts.is_empty() { (empty("No request has left yet.")) } @else {
            figure .hour {
                (chart::bars(&hour.map(|tally| (tally.requests, tally.refusals))))
                figcaption { span .key .is-fine { "requests" } span .key .is-refused { "refused" }
                    span { "the last hour" } }
            }
            (table(&hosts))
        }
    };
    Ok(page(&visit, Room::Egress, &body))
}

fn table(hosts: &[(String, Tally)]) -> Markup {
    let most = hosts.iter().map(|(_, tally)| tally.requests + tally.refusals).max().unwrap_or(1);
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

/// By host, the busiest first; and by time, the oldest bar first.
fn tally(entries: &[Entry], now: Timestamp) -> (Vec<(String, Tally)>, [Tally; BARS]) {
    let (mut hosts, mut hour) = (BTreeMap::<String, Tally>::new(), [Tally::default(); BARS]);
    for entry in entries {
        let Some(one) = counted(entry) else { continue };
        hosts.entry(entry.target.clone()).or_default().add(one);
        let age = entry.timestamp.parse().map(|at: Timestamp| now.duration_since(at));
        if let Some(bar) = age.ok().and_then(bar_of) {
            hour[bar].add(one);
        }
    }
    let mut hosts: Vec<_> = hosts.into_iter().collect();
    hosts.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.requests + tally.refusals));
    hosts.truncate(HOSTS);
    (hosts, hour)
}

/// What an entry adds: a request that is over or was refused; not the release that came before.
fn counted(entry: &Entry) -> Option<Tally> {
    let refused = matches!(entry.result, Outcome::Blocked | Outcome::Denied);
    match (entry.action, entry.detail.kind.as_deref()) {
        (Action::Egress, Some("released" | "closed")) => None,
        (Action::Egress | Action::Blocked | Action::Denied, _) if refused => {
            entry.target.contains(':').then_some(Tally { refusals: 1, ..Tally::default() })
        }
        (Action::Egress, _) => {
            let swaps = entry.detail.swaps.unwrap_or(0);
            Some(Tally { requests: 1, swaps, refusals: 0 })
        }
        _ => None,
    }
}

fn bar_of(age: SignedDuration) -> Option<usize> {
    let back = usize::try_from(age.as_secs().max(0) / BAR_SECONDS).ok()?;
    BARS.checked_sub(back + 1)
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.swaps += other.swaps;
        self.refusals += other.refusals;
    }
}
