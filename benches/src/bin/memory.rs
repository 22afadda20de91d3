//! Resident memory: idle, and per idle tunnel.
//!
//! A tunnel here is intercepted, the dearer kind: TLS on both sides, one request done, then kept.
//! Within reach by reference/egress.md, (e) 116 and (f): <= 15 MiB idle, < 64 KiB per tunnel.

use std::time::Duration;

use keyless_benches::{
    Binary, Fleet, Result, Stage, Subject, Table, Tunnel, decimals, play_if_asked,
};
use tokio::{runtime::Runtime, time::sleep};

/// As many as fit below the usual limit of 1,024 open files, two for each tunnel.
const TUNNELS: u32 = 400;

fn main() -> Result<()> {
    play_if_asked()?;
    let stage = Stage::set()?;
    let binary = Binary::find(&stage.directory.path().join("home"))?;
    let (one, hundred) = (binary.proxy(&stage, Fleet(1))?, binary.proxy(&stage, Fleet(100))?);
    let subjects = [
        ("relay", stage.relay()?),
        ("Keyless, 1 secret", one.subject()),
        ("Keyless, 100 secrets", hundred.subject()),
    ];
    let mut table = Table::new(&["process", "idle MiB", "with 400 tunnels, MiB", "KiB per tunnel"]);
    let runtime = Runtime::new()?;
    for (name, subject) in &subjects {
        table.row(runtime.block_on(measure(name, subject))?);
    }
    println!("{table}");
    Ok(())
}

async fn measure(name: &str, Subject { route, process }: &Subject<'_>) -> Result<[String; 4]> {
    // One request first: what is made once (a leaf, a pool) is not of the tunnels.
    drop(Tunnel::open(route).await?);
    sleep(Duration::from_millis(300)).await;
    let idle = process.usage()?.resident;
    let mut tunnels = Vec::new();
    for _ in 0..TUNNELS {
        tunnels.push(Tunnel::open(route).await?);
    }
    sleep(Duration::from_millis(300)).await;
    let full = process.usage()?.resident;
    Ok([
        name.to_owned(),
        mebibytes(idle),
        mebibytes(full),
        decimals(kibibytes(full.saturating_sub(idle)) / f64::from(TUNNELS), 1),
    ])
}

fn mebibytes(bytes: u64) -> String {
    decimals(kibibytes(bytes) / 1024.0, 1)
}

fn kibibytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX))
}
