//! The command line of `cargo xtask`: which chores there are, and how a failed one is told.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{aws_models, bench, fuzz, macos, setup, test};

/// Keyless's chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Writes what `sdk_proxy` knows of AWS's services, from the models in botocore (PyPI).
    AwsModels,
    /// Runs the benchmarks in release mode and appends their tables to benches/RESULTS.md.
    Bench(bench::Arguments),
    /// Runs the fuzz targets for a while each, on the installed stable toolchain.
    Fuzz(fuzz::Arguments),
    /// Makes a config repo of a size for `keyless pack`: git, mixed or prompts.
    GenPackRepo(bench::PackRepoArguments),
    /// Checks that keyless compiles for macOS, from whatever machine; needs std's sources and zig.
    Macos(macos::Arguments),
    /// Installs what the tests need and is missing (Debian; root or passwordless sudo).
    Setup,
    /// Runs everything that CI runs: setup, format, lint, docs, licences, tests, doctests, demo.
    Test(test::Arguments),
}

/// Runs the chore of the command line.
pub(crate) fn run() -> ExitCode {
    let result = match Arguments::parse().chore {
        Chore::AwsModels => aws_models::run(),
        Chore::Bench(arguments) => bench::run(&arguments),
        Chore::Fuzz(arguments) => fuzz::run(&arguments),
        Chore::GenPackRepo(arguments) => bench::generate_pack_repo(&arguments),
        Chore::Macos(arguments) => macos::run(&arguments),
        Chore::Setup => setup::run(),
        Chore::Test(arguments) => test::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
