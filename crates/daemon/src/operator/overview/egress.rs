//! Where agents went: requests by host, values swapped in, refusals, over the log's newest entries.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    Error,
    audit::{Action, Entry, Outcome},
};

use super::Overview;

const LOOKED: u32 = 10_000;
const HOSTS: usize = 20;
/// The hour is given in bars of this many seconds.
const HOUR_BAR_SECONDS: i64 = 120;
/// How many of them an hour has.
pub const HOUR_BARS: usize = 30;

/// What became of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that went.
    pub requests: u64,
    /// Values that were put into requests.
    pub swaps: u64,
    /// Requests that were refused.
    pub refusals: u64,
}

/// What left through the proxy.
#[derive(Clone, Debug)]
pub struct EgressView {
    /// The busiest hosts, the busiest first.
    pub hosts: Vec<(String, Tally)>,
    /// The last hour, its oldest bar first.
    pub hour: [Tally; HOUR_BARS],
}

impl Overview {
    /// Counts the newest 10,000 entries.
    pub async fn egress(&self) -> Result<EgressView, Error> {
        self.log.flush().await?;
        let entries = self.vault.store().audit_tail(LOOKED).await?;
        Ok(count(&entries, Timestamp::now()))
    }
}

fn count(entries: &[Entry], now: Timestamp) -> EgressView {
    let (mut hosts, mut hour) = (BTreeMap::<String, Tally>::new(), [Tally::default(); HOUR_BARS]);
    for entry in entries {
        let Some(one) = counted(entry) else { continue };
        hosts.entry(entry.target.clone()).or_default().add(one);
        let age = entry.timestamp.parse().map(|at: Timestamp| now.duration_since(at));
        if let Some(bar) = age.ok().and_then(bar_of) {
            hour[bar].add(one);
        }
    }
    let mut hosts: Vec<_> = hosts.into_iter().collect();
    hosts.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.all()));
    hosts.truncate(HOSTS);
    EgressView { hosts, hour }
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
    let back = usize::try_from(age.as_secs().max(0) / HOUR_BAR_SECONDS).ok()?;
    HOUR_BARS.checked_sub(back + 1)
}

impl Tally {
    /// Requests, refused or not.
    pub fn all(self) -> u64 {
        self.requests + self.refusals
    }

    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.swaps += other.swaps;
        self.refusals += other.refusals;
    }
}
