//! Requests per second, latency and big bodies: direct, through a bare relay, through Keyless.
//!
//! Every part is a process of its own on the same cores, so that the ratios hold where the rates
//! don't. Every request through Keyless carries a placeholder, and the origin sees that the value
//! arrived in its stead. Budgets: design.md, section 7.

use std::time::Duration;

use keyless_benches::{
    Binary, Fleet, Load, Measured, Result, Stage, Subject, Table, Transfer, decimals, median,
    megabytes, paired_ratio, play_if_asked, rounds, watched_transfer,
};
use tokio::runtime::Runtime;

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(1200);
const BODY: u64 = 1 << 30;
const BODY_ROUNDS: usize = 3;

fn main() -> Result<()> {
    play_if_asked()?;
    let stage = Stage::set()?;
    let binary = Binary::find(&stage.directory.path().join("home"))?;
    let keyless = binary.proxy(&stage, Fleet(100))?;
    let subjects = [stage.direct()?, stage.relay()?, keyless.subject()];
    let with_log = [stage.direct()?, stage.relay()?, keyless.subject(), stage.logging_relay()?];
    Runtime::new()?.block_on(async {
        println!("{}", requests(&with_log).await?);
        println!("Budget: >= 0.85 of the relay's requests/s; p50 <= +0.15 ms, p99 <= +1 ms.\n");
        println!("{}", bodies(&subjects).await?);
        println!("Budget: >= 0.8 of the relay's MB/s; memory <= 32 MiB over idle.");
        Ok(())
    })
}

/// Kept-alive requests with an answer of 1 KiB; Keyless with 100 secrets. What the relay comes to that keeps
/// the log as well is the most that Keyless can: an entry for each request is no part of the budget to give up.
async fn requests(subjects: &[Subject<'_>]) -> Result<Table> {
    let mut table = Table::new(&[
        "connections",
        "way",
        "requests/s",
        "of direct",
        "of the relay",
        "p50 ms",
        "p99 ms",
        "proxy CPU us/request",
    ]);
    for connections in [1, 16] {
        let measured = rounds(subjects, Load { connections, time: ROUND }, ROUNDS).await?;
        for (subject, ours) in subjects.iter().zip(&measured) {
            let ratio = |base: &Measured| decimals(paired_ratio(&ours.rates(), &base.rates()), 2);
            let is_proxy = subject.route.proxy_authorization.is_some();
            table.row([
                connections.to_string(),
                subject.route.name.to_owned(),
                decimals(median(&ours.rates()), 0),
                ratio(&measured[0]),
                if is_proxy { ratio(&measured[1]) } else { String::new() },
                decimals(ours.median_of(|loaded| loaded.p50), 3),
                decimals(ours.median_of(|loaded| loaded.p99), 3),
                if is_proxy { decimals(median(&ours.cpu), 1) } else { String::new() },
            ]);
        }
    }
    Ok(table)
}

/// One body of 1 GiB in each direction, with the swap and the scrub on.
async fn bodies(subjects: &[Subject<'_>]) -> Result<Table> {
    let mut table =
        Table::new(&["1 GiB", "way", "MB/s", "of direct", "of the relay", "memory grew by, MiB"]);
    for (way, name) in [(Transfer::Upload, "upload"), (Transfer::Download, "download")] {
        let mut rates = vec![Vec::new(); subjects.len()];
        let mut grown = vec![0; subjects.len()];
        for _ in 0..BODY_ROUNDS {
            for (at, subject) in subjects.iter().enumerate() {
                let (took, grew) = watched_transfer(subject, way, BODY).await?;
                rates[at].push(megabytes(BODY) / took.as_secs_f64());
                grown[at] = grown[at].max(grew);
            }
        }
        for (at, subject) in subjects.iter().enumerate() {
            let is_proxy = subject.route.proxy_authorization.is_some();
            let ratio = |base: &[f64]| decimals(paired_ratio(&rates[at], base), 2);
            table.row([
                name.to_owned(),
                subject.route.name.to_owned(),
                decimals(median(&rates[at]), 0),
                ratio(&rates[0]),
                if is_proxy { ratio(&rates[1]) } else { String::new() },
                if is_proxy { (grown[at] >> 20).to_string() } else { String::new() },
            ]);
        }
    }
    Ok(table)
}
