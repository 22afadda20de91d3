//! `cargo xtask fuzz`: runs each target of `fuzz/` for a while, starting from its committed seeds.
//!
//! cargo-fuzz wants a nightly compiler for its `-Z` flags; `RUSTC_BOOTSTRAP=1` lets the installed stable
//! take them. That is for instruments only: no product code is ever built so.

use std::fs;

use crate::{
    setup::ensure_subcommand,
    shell::{Failure, capture, cargo, root, run as call},
};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The target; all when none is named.
    target: Option<String>,
    /// How long each target runs.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Watches memory too (AddressSanitizer). Slower to build; our parsers have no unsafe code.
    #[arg(long)]
    address_sanitizer: bool,
}

/// Runs the fuzz targets; a crash ends the run, and its input stays in fuzz/artifacts.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    ensure_subcommand("cargo-fuzz")?;
    let names = capture(cargo(&["fuzz", "list"]).env("RUSTC_BOOTSTRAP", "1"))?;
    let mut names: Vec<&str> = names.lines().collect();
    if let Some(target) = &arguments.target {
        names.retain(|name| name == target);
    }
    if names.is_empty() {
        return Err(Failure::Other("no such fuzz target; `cargo fuzz list` names them".into()));
    }
    for name in &names {
        println!("\n==> fuzz {name}, {} s", arguments.seconds);
        fuzz(name, arguments)?;
    }
    println!("\n==> nothing found: {}", names.join(", "));
    Ok(())
}

fn fuzz(name: &str, arguments: &Arguments) -> Result<(), Failure> {
    // What libFuzzer finds goes to the first folder; the seeds are only read.
    let found = format!("fuzz/corpus/{name}");
    let seeds = format!("fuzz/corpus-seeds/{name}");
    fs::create_dir_all(root().join(&found)).map_err(Failure::file(&found))?;
    let sanitizer = if arguments.address_sanitizer { "address" } else { "none" };
    let time = format!("-max_total_time={}", arguments.seconds);
    let limits = ["--", &time, "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"];
    let target = ["fuzz", "run", "--sanitizer", sanitizer, name, &found, &seeds];
    call(cargo(&[&target[..], &limits].concat()).env("RUSTC_BOOTSTRAP", "1"))
}
