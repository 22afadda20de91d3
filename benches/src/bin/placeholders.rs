//! The same load with 1, 100 and 10,000 placeholders in the session.
//!
//! One is used, all of them are looked for. Budget (design.md, section 7): from 1 to 10,000,
//! throughput falls by less than 10 %.

use std::time::Duration;

use keyless_benches::{
    Binary, Fleet, Load, Measured, Result, Stage, Subject, Table, Transfer, decimals, median,
    megabytes, paired_ratio, play_if_asked, rounds, watched_transfer,
};
use tokio::runtime::Runtime;

const ROUNDS: usize = 5;
const LOAD: Load = Load { connections: 16, time: Duration::from_millis(1200) };
const BODY: u64 = 512 << 20;
const BODY_ROUNDS: usize = 3;

fn main() -> Result<()> {
    play_if_asked()?;
    let stage = Stage::set()?;
    let binary = Binary::find(&stage.directory.path().join("home"))?;
    let start = |secrets| binary.proxy(&stage, Fleet(secrets));
    let (one, hundred, many) = (start(1)?, start(100)?, start(10_000)?);
    let subjects = [one.subject(), hundred.subject(), many.subject()];
    println!("{}", Runtime::new()?.block_on(measure(&subjects))?);
    println!("Budget: from 1 to 10,000 placeholders, throughput falls by < 10 %.");
    Ok(())
}

async fn measure(subjects: &[Subject<'_>; 3]) -> Result<Table> {
    let measured = rounds(subjects, LOAD, ROUNDS).await?;
    let mut uploads = vec![Vec::new(); subjects.len()];
    for _ in 0..BODY_ROUNDS {
        for (subject, uploads) in subjects.iter().zip(&mut uploads) {
            let (took, _) = watched_transfer(subject, Transfer::Upload, BODY).await?;
            uploads.push(megabytes(BODY) / took.as_secs_f64());
        }
    }
    let rates: Vec<Vec<f64>> = measured.iter().map(Measured::rates).collect();
    let mut table = Table::new(&["placeholders", "requests/s", "of one", "upload MB/s", "of one"]);
    for (at, count) in ["1", "100", "10,000"].into_iter().enumerate() {
        table.row([
            count.to_owned(),
            decimals(median(&rates[at]), 0),
            decimals(paired_ratio(&rates[at], &rates[0]), 2),
            decimals(median(&uploads[at]), 0),
            decimals(paired_ratio(&uploads[at], &uploads[0]), 2),
        ]);
    }
    Ok(table)
}
