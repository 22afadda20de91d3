//! Resident memory: idle, per idle tunnel, and after so many names, each asked once.
//!
//! A tunnel here is intercepted, the dearer kind: TLS on both sides, one request done, then kept.
//! Within reach by reference/egress.md, (e) 116 and (f): <= 15 MiB idle, < 64 KiB per tunnel.

use std::time::Duration;

use keyless_benches::{
    Binary, Fleet, Result, Stage, Subject, Table, Tunnel, decimals, name, play_if_asked,
};
use tokio::{runtime::Runtime, time::sleep};

/// As many as fit below the usual limit of 1,024 open files, two for each tunnel.
const TUNNELS: u32 = 400;
/// After as many names it is looked again.
const NAMES: [usize; 3] = [1, 1_000, 10_000];

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
    let many = binary.proxy_of_names(&stage, NAMES[NAMES.len() - 1])?;
    println!("{}", runtime.block_on(after_names(&many.subject()))?);
    Ok(())
}

/// Memory is to be flat: what is kept of a name (its leaf, its connection) is bounded.
async fn after_names(Subject { route, process }: &Subject<'_>) -> Result<Table> {
    let mut table = Table::new(&["names, one request each", "resident MiB"]);
    let mut asked = 0;
    for names in NAMES {
        for n in asked..names {
            drop(Tunnel::open_to(&name(n), route).await?);
        }
        asked = names;
        sleep(Duration::from_millis(300)).await;
        table.row([names.to_string(), mebibytes(process.usage()?.resident)]);
    }
    Ok(table)
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
