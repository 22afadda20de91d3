//! `cargo xtask test`: every check that CI makes, in order of cost, stopping at the first failure.
//!
//! Dependencies are compiled three times and no more: checked (lint, docs), debug (tests, doctests) and
//! release (demo); those few of `keyless-guest` once more, for size. The advisory database is not asked here, for it needs the network at every run:
//! `cargo deny check advisories` does, with the configuration in deny.toml.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::Value;

use crate::{
    setup,
    shell::{Failure, capture, cargo, command, run as call},
};

/// The page's scripts, which say their types in comments; nothing is compiled from them.
const PAGE_SCRIPTS: &str = "crates/daemon/src/web/assets";

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Runs only this step; may be repeated. The order stays the same.
    #[arg(long, value_name = "STEP")]
    only: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Installs what is missing.
    Setup,
    /// Asks rustfmt whether all is formatted.
    Format,
    /// Runs clippy on everything, where a warning is an error, and TypeScript on the operator's page.
    Lint,
    /// Builds the documentation; a warning is an error.
    Docs,
    /// Checks licences, bans and sources of dependencies against deny.toml.
    Deny,
    /// Runs all unit and integration tests.
    Tests,
    /// Runs the examples in the documentation.
    Doctests,
    /// Runs the README's first command and reads its verdict.
    Demo,
}

/// Runs the steps that were asked for, all when none was named.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut times = Vec::new();
    for &step in Step::value_variants() {
        if !arguments.only.is_empty() && !arguments.only.contains(&step) {
            continue;
        }
        let name = format!("{step:?}").to_lowercase();
        println!("\n==> {name}");
        let start = Instant::now();
        let result = step.run();
        times.push((name.clone(), start.elapsed()));
        if let Err(error) = result {
            summarize(&times, "FAILED");
            return Err(Failure::Other(format!("step `{name}`: {error}")));
        }
    }
    summarize(&times, "ok");
    Ok(())
}

impl Step {
    fn run(self) -> Result<(), Failure> {
        match self {
            Self::Setup => setup::run(),
            Self::Format => call(&mut cargo(&["fmt", "--all", "--check"])),
            Self::Lint => {
                let clippy = ["clippy", "--workspace", "--all-targets", "--", "--deny=warnings"];
                call(&mut cargo(&clippy))?;
                // A workspace of its own, which nothing else here builds.
                let fuzz = ["--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target"];
                call(&mut cargo(&[&["clippy", "--locked"], &fuzz[..], &clippy[2..]].concat()))?;
                call(&mut command("tsc", &["--project", PAGE_SCRIPTS]))
            }
            Self::Docs => call(
                cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny=warnings"),
            ),
            Self::Deny => call(&mut cargo(&["deny", "check", "licenses", "bans", "sources"])),
            Self::Tests => {
                // Built here, so that no test's time is that of a compiler.
                call(&mut cargo(&["guest"]))?;
                call(&mut cargo(&["nextest", "run", "--workspace"]))
            }
            Self::Doctests => call(&mut cargo(&["test", "--doc", "--workspace"])),
            Self::Demo => demo(),
        }
    }
}

fn demo() -> Result<(), Failure> {
    let text = capture(&mut cargo(&["run", "--release", "--", "demo", "--json"]))?;
    let steps = verdict(&text).map_err(|reason| {
        print!("{text}");
        Failure::Other(format!("the demo {reason}"))
    })?;
    println!("    the demo is ok: {steps} steps, no leaks");
    Ok(())
}

/// Returns the number of steps of a demo that went well, or what is wrong with it.
fn verdict(text: &str) -> Result<usize, &'static str> {
    let report: Value = serde_json::from_str(text.trim()).map_err(|_| "did not print JSON")?;
    let steps = report["steps"].as_array().map_or(0, Vec::len);
    if report["leaks"] != 0 {
        return Err("leaked the value");
    }
    if report["ok"] != true || steps == 0 {
        return Err("is not ok");
    }
    Ok(steps)
}

fn summarize(times: &[(String, Duration)], last: &str) {
    println!("\n==> summary");
    for (index, (name, time)) in times.iter().enumerate() {
        let word = if index + 1 == times.len() { last } else { "ok" };
        println!("    {name:<10} {:>7.1} s  {word}", time.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_demo_with_steps_and_without_leaks_is_ok() {
        assert_eq!(verdict(r#"{"ok":true,"leaks":0,"steps":[{}]}"#), Ok(1));
        for bad in [
            "",
            r#"{"ok":true,"leaks":0,"steps":[]}"#,
            r#"{"ok":true,"leaks":1,"steps":[{}]}"#,
            r#"{"ok":false,"leaks":0,"steps":[{}]}"#,
        ] {
            assert!(verdict(bad).is_err(), "{bad}");
        }
    }
}
