//! Resident memory: idle, and per idle tunnel.
//!
//! A tunnel here is intercepted, the dearer kind: TLS on both sides, one request done, then kept.
//! Within reach by reference/egress.md, (e) 116 and (f): <= 15 MiB idle, < 64 KiB per tunnel.

use std::time::Duration;

use keyless_benches::{
    Binary, Child, Fleet, Result, Route, Stage, Table, Tunnel, decimals, play_if_asked,
};
use tokio::{runtime::Runtime, time::sleep};

/// As many as fit below the usual limit of 1,024 open files, two for each tunnel.
const TUNNELS: u32 = 400;

fn main() -> Result<()> {
    play_if_asked()?;
    let stage = Stage::set()?;
    let binary = Binary::find(&stage.directory.path().join("home"))?;
    let fleets = [1, 100, 10_000].map(|secrets| binary.proxy(&stage, Fleet(secrets)));
    let [one, hundred, many] = fleets;
    let (one, hundred, many) = (one?, hundred?, many?);
    let subjects = [
        ("relay", stage.relay()?, &stage.relay_process),
        ("Keyless, 1 secret", one.route, &one.process),
        ("Keyless, 100 secrets", hundred.route, &hundred.process),
        ("Keyless, 10,000 secrets", many.route, &many.process),
    ];
    let mut table = Table::new(&["process", "idle MiB", "with 400 tunnels, MiB", "KiB per tunnel"]);
    let runtime = Runtime::new()?;
    for (name, route, process) in &subjects {
        table.row(runtime.block_on(measure(name, route, process))?);
    }
    println!("{table}");
    Ok(())
}

async fn measure(name: &str, route: &Route, process: &Child) -> Result<[String; 4]> {
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
