//! The course that every subject runs: loads in interleaved rounds, and big bodies under watch.

use std::time::Duration;

use tokio::time::sleep;

use crate::{
    Child, Load, Loaded, Result, Route, Transfer,
    client::{fresh, load, transfer},
    figures::median,
};

/// How often memory is looked at while a body moves.
const GLANCE: Duration = Duration::from_millis(10);

/// One way to the origin, and the process to watch on it.
pub struct Subject<'a> {
    /// The way.
    pub route: Route,
    /// The proxy's process; the origin's where there is no proxy.
    pub process: &'a Child,
}

/// What one subject came to, round by round.
#[derive(Default)]
pub struct Measured {
    /// The loads.
    pub loaded: Vec<Loaded>,
    /// Microseconds of its process per request.
    pub cpu: Vec<f64>,
}

impl Measured {
    /// Requests per second.
    pub fn rates(&self) -> Vec<f64> {
        self.loaded.iter().map(|loaded| loaded.rate).collect()
    }

    /// The median of one figure of the loads.
    pub fn median_of(&self, figure: impl Fn(&Loaded) -> f64) -> f64 {
        median(&self.loaded.iter().map(figure).collect::<Vec<_>>())
    }
}

/// Interleaved: each round visits every subject, beginning with another one each time.
pub async fn rounds(subjects: &[Subject<'_>], kind: Load, rounds: usize) -> Result<Vec<Measured>> {
    let mut measured: Vec<Measured> = subjects.iter().map(|_| Measured::default()).collect();
    for round in 0..rounds {
        for turn in 0..subjects.len() {
            let at = (round + turn) % subjects.len();
            let subject = &subjects[at];
            let before = subject.process.usage()?.cpu;
            let loaded = load(&subject.route, kind).await?;
            let cpu = subject.process.usage()?.cpu.saturating_sub(before);
            measured[at].cpu.push(cpu.as_secs_f64() * 1e6 / f64::from(loaded.requests));
            measured[at].loaded.push(loaded);
        }
    }
    Ok(measured)
}

/// How long a body of `bytes` bytes took, and by how many bytes the proxy's memory stood above its
/// start at the highest.
pub async fn watched_transfer(
    subject: &Subject<'_>,
    way: Transfer,
    bytes: u64,
) -> Result<(Duration, u64)> {
    let before = subject.process.usage()?.resident;
    let moving = transfer(&subject.route, way, bytes);
    tokio::pin!(moving);
    let mut highest = before;
    loop {
        tokio::select! {
            took = &mut moving => return Ok((took?, highest - before)),
            () = sleep(GLANCE) => highest = highest.max(subject.process.usage()?.resident),
        }
    }
}

/// New connections per second, round by round, interleaved as [`rounds`] are.
pub async fn fresh_rounds(
    subjects: &[Subject<'_>],
    kind: Load,
    rounds: usize,
) -> Result<Vec<Vec<f64>>> {
    let mut rates = vec![Vec::new(); subjects.len()];
    for round in 0..rounds {
        for turn in 0..subjects.len() {
            let at = (round + turn) % subjects.len();
            rates[at].push(fresh(&subjects[at].route, kind).await?);
        }
    }
    Ok(rates)
}
