//! Requests per second, latency and big bodies: direct, through a bare relay, through Keyless.
//!
//! Every part is a process of its own on the same cores, so that the ratios hold where the rates
//! don't. Every request through Keyless carries a placeholder, and the origin sees that the value
//! arrived in its stead. Budgets: design.md, section 7.

use std::time::Duration;

use keyless_benches::{
    Binary, Child, Fleet, Keyless, Load, Loaded, Result, Route, Stage, Table, Transfer, decimals,
    load, median, megabytes, paired_ratio, play_if_asked, transfer,
};
use tokio::runtime::Runtime;

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(1200);
const BODY: u64 = 1 << 30;
const BODY_ROUNDS: usize = 3;

/// One way to the origin, and the process to watch on it.
struct Subject<'a> {
    route: Route,
    process: &'a Child,
}

fn main() -> Result<()> {
    play_if_asked()?;
    let stage = Stage::set()?;
    let binary = Binary::find(&stage.directory.path().join("home"))?;
    let fleets = [1, 100, 10_000].map(|secrets| binary.proxy(&stage, Fleet(secrets)));
    let [one, hundred, many] = fleets;
    let (one, hundred, many) = (one?, hundred?, many?);
    let subjects = [
        Subject { route: stage.direct()?, process: &stage.origin_process },
        Subject { route: stage.relay()?, process: &stage.relay_process },
        of(&hundred),
    ];
    Runtime::new()?.block_on(async {
        println!("{}", requests(&subjects).await?);
        println!("Budget: >= 0.85 of the relay's requests/s; p50 <= +0.15 ms, p99 <= +1 ms.\n");
        println!("{}", bodies(&subjects).await?);
        println!("Budget: >= 0.8 of the relay's MB/s; memory <= 32 MiB over idle.\n");
        println!("{}", placeholders(&[of(&one), of(&hundred), of(&many)]).await?);
        println!("Budget: from 1 to 10,000 placeholders, throughput falls by < 10 %.");
        Ok(())
    })
}

fn of(keyless: &Keyless) -> Subject<'_> {
    Subject { route: keyless.route.clone(), process: &keyless.process }
}

/// Kept-alive requests with an answer of 1 KiB; Keyless with 100 secrets.
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
        let measured = rounds(subjects, Load { connections, time: ROUND }).await?;
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

/// What one subject came to, round by round.
#[derive(Default)]
struct Measured {
    loaded: Vec<Loaded>,
    /// Microseconds of its process per request.
    cpu: Vec<f64>,
}

impl Measured {
    fn rates(&self) -> Vec<f64> {
        self.loaded.iter().map(|loaded| loaded.rate).collect()
    }

    fn median_of(&self, figure: impl Fn(&Loaded) -> f64) -> f64 {
        median(&self.loaded.iter().map(figure).collect::<Vec<_>>())
    }
}

/// Interleaved: each round visits every subject, beginning with another one each time.
async fn rounds(subjects: &[Subject<'_>], kind: Load) -> Result<Vec<Measured>> {
    let mut measured: Vec<Measured> = subjects.iter().map(|_| Measured::default()).collect();
    for round in 0..ROUNDS {
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

/// One body of 1 GiB in each direction, with the swap and the scrub on.
async fn bodies(subjects: &[Subject<'_>]) -> Result<Table> {
    let mut table =
        Table::new(&["1 GiB", "way", "MB/s", "of direct", "of the relay", "memory grew by, MiB"]);
    for (way, name) in [(Transfer::Upload, "upload"), (Transfer::Download, "download")] {
        let mut rates = vec![Vec::new(); subjects.len()];
        let mut grown = vec![0; subjects.len()];
        for _ in 0..BODY_ROUNDS {
            for (at, subject) in subjects.iter().enumerate() {
                let (rate, grew) = body(subject, way).await?;
                rates[at].push(rate);
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

/// MB/s, and by how many bytes the proxy's memory stood above its start at the highest.
async fn body(subject: &Subject<'_>, way: Transfer) -> Result<(f64, u64)> {
    let before = subject.process.usage()?.resident;
    let moving = transfer(&subject.route, way, BODY);
    tokio::pin!(moving);
    let mut highest = before;
    loop {
        tokio::select! {
            took = &mut moving => {
                return Ok((megabytes(BODY) / took?.as_secs_f64(), highest - before));
            }
            () = tokio::time::sleep(Duration::from_millis(10)) => {
                highest = highest.max(subject.process.usage()?.resident);
            }
        }
    }
}

/// The same load with more and more placeholders in the session.
async fn placeholders(subjects: &[Subject<'_>; 3]) -> Result<Table> {
    let mut table = Table::new(&["placeholders", "requests/s", "of one", "upload MB/s", "of one"]);
    let measured = rounds(subjects, Load { connections: 16, time: ROUND }).await?;
    let mut uploads = vec![Vec::new(); subjects.len()];
    for _ in 0..BODY_ROUNDS {
        for (subject, uploads) in subjects.iter().zip(&mut uploads) {
            uploads.push(body(subject, Transfer::Upload).await?.0);
        }
    }
    for (at, count) in ["1", "100", "10,000"].into_iter().enumerate() {
        let rates = measured[at].rates();
        table.row([
            count.to_owned(),
            decimals(median(&rates), 0),
            decimals(paired_ratio(&rates, &measured[0].rates()), 2),
            decimals(median(&uploads[at]), 0),
            decimals(paired_ratio(&uploads[at], &uploads[0]), 2),
        ]);
    }
    Ok(table)
}
