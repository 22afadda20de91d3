//! Keyless beside others that decrypt and swap: a bare relay that does not even swap, mitmproxy and
//! hudsucker. Small requests, new connections, bodies of 256 MiB, server-sent events.
//!
//! With `KEYLESS_BENCH_QUICK` set it takes seconds and says little; it is for seeing that it runs.

use std::{env, time::Duration};

use keyless_benches::{
    Binary, Fleet, Load, Measured, Peer, Result, Stage, Subject, Table, Transfer, Tunnel, decimals,
    fresh_rounds, median, megabytes, paired_ratio, percentile, play_if_asked, rounds,
    watched_transfer,
};
use tokio::runtime::Runtime;

/// How long and how often everything is measured.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    round: Duration,
    body: u64,
    events: usize,
}

const WHOLE: Effort =
    Effort { rounds: 5, round: Duration::from_secs(2), body: 256 << 20, events: 300 };
const QUICK: Effort =
    Effort { rounds: 1, round: Duration::from_millis(300), body: 4 << 20, events: 20 };

fn main() -> Result<()> {
    play_if_asked()?;
    let effort = if env::var_os("KEYLESS_BENCH_QUICK").is_some() { QUICK } else { WHOLE };
    let stage = Stage::set()?;
    let binary = Binary::find(&stage.directory.path().join("home"))?;
    let keyless = binary.proxy(&stage, Fleet(100))?;
    let peers = Peer::all(&stage)?;
    let mut subjects = vec![stage.direct()?, stage.relay()?, keyless.subject()];
    subjects.extend(peers.iter().map(Peer::subject));
    Runtime::new()?.block_on(async {
        println!("{}", requests(&subjects, effort).await?);
        println!("{}", connections(&subjects, effort).await?);
        println!("Budget: >= 0.8 of the relay's.\n");
        println!("{}", bodies(&subjects, effort).await?);
        println!("{}", events(&subjects, effort).await?);
        println!("Budget: p99 <= 2 ms.");
        Ok(())
    })
}

/// Kept-alive requests with an answer of 1 KiB over 50 connections.
async fn requests(subjects: &[Subject<'_>], effort: Effort) -> Result<Table> {
    let load = Load { connections: 50, time: effort.round };
    let measured = rounds(subjects, load, effort.rounds).await?;
    let mut table = Table::new(&[
        "1 KiB, 50 connections",
        "requests/s",
        "of the relay",
        "p50 ms",
        "p99 ms",
        "CPU us/request",
        "memory MiB",
    ]);
    for (subject, ours) in subjects.iter().zip(&measured) {
        let ratio = |base: &Measured| decimals(paired_ratio(&ours.rates(), &base.rates()), 2);
        table.row([
            subject.route.name.to_owned(),
            decimals(median(&ours.rates()), 0),
            ratio(&measured[1]),
            decimals(ours.median_of(|loaded| loaded.p50), 3),
            decimals(ours.median_of(|loaded| loaded.p99), 3),
            decimals(median(&ours.cpu), 1),
            (subject.process.usage()?.resident >> 20).to_string(),
        ]);
    }
    Ok(table)
}

/// New connections with a whole handshake; the leaf is minted and cached by then.
async fn connections(subjects: &[Subject<'_>], effort: Effort) -> Result<Table> {
    let load = Load { connections: 4, time: effort.round };
    let rates = fresh_rounds(subjects, load, effort.rounds).await?;
    let mut table = Table::new(&["new connections", "per second", "of the relay"]);
    for (subject, ours) in subjects.iter().zip(&rates) {
        table.row([
            subject.route.name.to_owned(),
            decimals(median(ours), 0),
            decimals(paired_ratio(ours, &rates[1]), 2),
        ]);
    }
    Ok(table)
}

async fn bodies(subjects: &[Subject<'_>], effort: Effort) -> Result<Table> {
    let title = format!("{} MiB", effort.body >> 20);
    let mut table = Table::new(&[&title, "way", "MB/s", "of the relay", "memory grew by, MiB"]);
    for (way, name) in [(Transfer::Upload, "upload"), (Transfer::Download, "download")] {
        let mut rates = vec![Vec::new(); subjects.len()];
        let mut grown = vec![0; subjects.len()];
        for _ in 0..effort.rounds {
            for (at, subject) in subjects.iter().enumerate() {
                let (took, grew) = watched_transfer(subject, way, effort.body).await?;
                rates[at].push(megabytes(effort.body) / took.as_secs_f64());
                grown[at] = grown[at].max(grew);
            }
        }
        for (at, subject) in subjects.iter().enumerate() {
            table.row([
                name.to_owned(),
                subject.route.name.to_owned(),
                decimals(median(&rates[at]), 0),
                decimals(paired_ratio(&rates[at], &rates[1]), 2),
                (grown[at] >> 20).to_string(),
            ]);
        }
    }
    Ok(table)
}

/// From an event's sending to its arrival, 10 ms after the one before.
async fn events(subjects: &[Subject<'_>], effort: Effort) -> Result<Table> {
    let mut table = Table::new(&["events", "p50 ms", "added p50 ms", "added p99 ms"]);
    let mut direct = None;
    for subject in subjects {
        let late = Tunnel::open(&subject.route).await?.events(effort.events).await?;
        let (p50, p99) = (median(&late), percentile(&late, 99.0));
        let (base50, base99) = *direct.get_or_insert((p50, p99));
        table.row([
            subject.route.name.to_owned(),
            decimals(p50, 3),
            decimals(p50 - base50, 3),
            decimals(p99 - base99, 3),
        ]);
    }
    Ok(table)
}
