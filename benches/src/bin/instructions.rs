//! Instructions of one small request in user space: through a bare relay, through Keyless.
//!
//! Nothing else on the machine changes them, so that one run shows what a change costs or saves where
//! rates need many. What they leave out is the kernel's part, and waiting. Keyless's log is written by
//! a thread for all requests of 20 ms together, which here are few; so that part weighs more than it
//! does under load. Needs valgrind.

use keyless_benches::{
    Binary, Counter, Fleet, Result, Stage, Subject, Table, Tunnel, decimals, play_if_asked,
};
use tokio::runtime::Runtime;

const WARM_UP: usize = 300;
const REQUESTS: u32 = 1_000;

fn main() -> Result<()> {
    play_if_asked()?;
    if !Counter::is_installed() {
        println!("Not counted: valgrind is not installed.");
        return Ok(());
    }
    let stage = Stage::counted()?;
    let binary = Binary::find(&stage.directory.path().join("home"))?;
    let keyless = binary.proxy(&stage, Fleet(100))?;
    let runtime = Runtime::new()?;
    let relay = runtime.block_on(count(&stage.relay()?))?;
    let ours = runtime.block_on(count(&keyless.subject()))?;
    let mut table = Table::new(&["way", "instructions a request", "of the relay"]);
    for (name, counted) in [("relay", relay), ("Keyless", ours)] {
        table.row([name.to_owned(), decimals(counted, 0), decimals(counted / relay, 2)]);
    }
    println!("{table}");
    Ok(())
}

async fn count(subject: &Subject<'_>) -> Result<f64> {
    let counter = subject.process.counter().ok_or("it is not counted")?;
    let mut tunnel = Tunnel::open(&subject.route).await?;
    for _ in 0..WARM_UP {
        tunnel.small().await?;
    }
    counter.zero(subject.process)?;
    for _ in 0..REQUESTS {
        tunnel.small().await?;
    }
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 instructions")]
    let total = counter.read(subject.process)? as f64;
    Ok(total / f64::from(REQUESTS))
}
