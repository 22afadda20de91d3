//! What `keyless run -- true` costs over `true`.
//!
//! Budget (design.md, section 7): <= 60 ms over `true` with a warm broker. Opening the store with a
//! passphrase costs Argon2id's 64 MiB on purpose; `--no-jail` shows how much of a cold start that is.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use keyless_benches::{Binary, Result, Table, decimals, finish, median, percentile, private};

const ROUNDS: usize = 15;
const SECRET: &str = "bench/run/token";

/// A name, and how to make its command.
type Subject<'a> = (&'a str, Box<dyn Fn() -> Command + 'a>);

fn main() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let cold = Binary::find(&scratch.path().join("cold"))?;
    let warm = Binary::find(&scratch.path().join("warm"))?;
    let passphrase = scratch.path().join("passphrase");
    private(&passphrase, "correct horse battery staple bench")?;
    prepare(&cold, &scratch.path().join("cold.phrase"), &passphrase)?;
    prepare(&warm, &scratch.path().join("warm.phrase"), &passphrase)?;
    let unlock = with(&warm, &["unlock"], &passphrase).output()?;
    let mut subjects: Vec<Subject<'_>> = vec![
        ("true", Box::new(|| Command::new("/bin/true"))),
        ("keyless --version", Box::new(|| arguments(&cold, &["--version"]))),
        (
            "keyless run -- true, cold",
            Box::new(|| run(&cold, &["--passphrase-file".as_ref(), &passphrase])),
        ),
        (
            "keyless run --no-jail -- true, cold",
            Box::new(|| {
                let no_jail = Path::new("--no-jail");
                run(&cold, &[no_jail, "--passphrase-file".as_ref(), &passphrase])
            }),
        ),
    ];
    if unlock.status.success() {
        subjects.push(("keyless run -- true, broker warm", Box::new(|| run(&warm, &[]))));
    }
    let measured = measure(&subjects);
    // The broker that `unlock` left behind, before its home goes.
    let _ = arguments(&warm, &["lock"]).output();
    println!("{}", measured?);
    println!("Budget: broker warm <= 60 ms over `true`.");
    if !unlock.status.success() {
        let said = String::from_utf8_lossy(&unlock.stderr);
        println!("No warm broker: `keyless unlock` said: {}", said.trim());
    }
    Ok(())
}

fn measure(subjects: &[Subject<'_>]) -> Result<Table> {
    let mut times = vec![Vec::new(); subjects.len()];
    for _ in 0..ROUNDS {
        for ((name, command), times) in subjects.iter().zip(&mut times) {
            let start = Instant::now();
            let output = command().stdin(Stdio::null()).output()?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(format!("{name}: {}: {said}", output.status).into());
            }
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    let mut table = Table::new(&["command", "median ms", "slowest ms", "over true, ms"]);
    for ((name, _), own) in subjects.iter().zip(&times) {
        table.row([
            (*name).to_owned(),
            decimals(median(own), 1),
            decimals(percentile(own, 100.0), 1),
            decimals(median(own) - median(&times[0]), 1),
        ]);
    }
    Ok(table)
}

/// A store with one secret.
fn prepare(binary: &Binary, phrase: &Path, passphrase: &Path) -> Result<()> {
    let mut init = with(binary, &["init"], passphrase);
    init.arg("--recovery-file").arg(phrase);
    finish(&mut init, b"")?;
    let add = [
        "secret",
        "add",
        SECRET,
        "--to",
        "api.bench.test",
        "--env",
        "BENCH_TOKEN",
        "--value-stdin",
    ];
    finish(&mut with(binary, &add, passphrase), b"bench-value-0123456789")
}

fn run(binary: &Binary, factor: &[&Path]) -> Command {
    let mut command = binary.command();
    command.arg("run").args(factor).args(["--secret", SECRET, "--", "true"]);
    command
}

fn with(binary: &Binary, words: &[&str], passphrase: &Path) -> Command {
    let mut command = arguments(binary, words);
    command.arg("--passphrase-file").arg(passphrase);
    command
}

fn arguments(binary: &Binary, words: &[&str]) -> Command {
    let mut command = binary.command();
    command.args(words);
    command
}
