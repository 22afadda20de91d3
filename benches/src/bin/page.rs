//! How soon the operator's page is on the screen: first paint of each view in Chromium, over loopback.
//!
//! Budget (issue 7): <= 200 ms, with <= 100 KiB a view (`views_are_light_and_still` holds the latter). The baseline is
//! Chromium itself: a page of as many bytes, from a server of a few lines, in interleaved rounds.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use keyless_benches::{Binary, Result, Table, decimals, finish, median, percentile, private};
use serde_json::Value;

const PASSPHRASE: &str = "correct horse battery staple bench";
const ROUNDS: usize = 15;
const SECRETS: usize = 100;
const SCRIPT: &str = include_str!("page.js");

fn main() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let binary = Binary::find(&scratch.path().join("home"))?;
    let passphrase = scratch.path().join("passphrase");
    private(&passphrase, PASSPHRASE)?;
    prepare(&binary, scratch.path(), &passphrase)?;
    finish(binary.command().args(["unlock", "--passphrase-file"]).arg(&passphrase), b"")?;
    let measured = measure(&binary, scratch.path());
    // The broker that `unlock` left behind, before its home goes.
    let _ = binary.command().arg("lock").output();
    println!("{}", measured?);
    println!("Budget: first paint <= 200 ms on loopback.");
    Ok(())
}

/// A store whose inventory has something to draw.
fn prepare(binary: &Binary, scratch: &Path, passphrase: &Path) -> Result<()> {
    let mut variables = String::new();
    for number in 0..SECRETS {
        writeln!(variables, "BENCH_KEY_{number:04}=value-of-the-benchmark-{number:04}")?;
    }
    let file = scratch.join("many.env");
    private(&file, &variables)?;
    let factor = ["--passphrase-file".as_ref(), passphrase.as_os_str()];
    let phrase = scratch.join("phrase");
    finish(binary.command().arg("init").args(factor).arg("--recovery-file").arg(phrase), b"")?;
    finish(binary.command().args(["secret", "import", "--yes"]).arg(file).args(factor), b"")
}

/// Each line of the script is a view, with its paints and those of the plain page, in milliseconds.
fn measure(binary: &Binary, scratch: &Path) -> Result<Table> {
    let link = binary.command().args(["web", "--json"]).output()?;
    let link: Value = serde_json::from_slice(&link.stdout)?;
    let link = link["data"]["url"].as_str().ok_or("keyless web --json gives data.url")?;
    let script = scratch.join("page.cjs");
    std::fs::write(&script, SCRIPT)?;
    let packages = Command::new("npm").args(["root", "-g"]).output()?;
    let mut node = Command::new("node");
    node.env("NODE_PATH", String::from_utf8(packages.stdout)?.trim()).env("TMPDIR", scratch);
    node.arg(script).args([link, PASSPHRASE, &ROUNDS.to_string()]);
    let mut node = node.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(node.stdout.take().ok_or("a piped stdout is there")?).lines();
    let mut table =
        Table::new(&["view", "KiB of HTML", "median ms", "p99 ms", "a plain page, median ms"]);
    for line in lines {
        let view: Value = serde_json::from_str(&line?)?;
        let times = |name: &str| -> Vec<f64> {
            view[name].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
        };
        let (ours, plain) = (times("ours"), times("plain"));
        table.row([
            view["view"].as_str().unwrap_or_default().to_owned(),
            decimals(view["bytes"].as_f64().unwrap_or_default() / 1024.0, 1),
            decimals(median(&ours), 0),
            decimals(percentile(&ours, 99.0), 0),
            decimals(median(&plain), 0),
        ]);
    }
    if !node.wait()?.success() {
        return Err("Chromium could not be driven; cargo xtask setup installs what it takes".into());
    }
    Ok(table)
}
