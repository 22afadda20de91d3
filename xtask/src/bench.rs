//! `cargo xtask bench`: runs the programs of `benches/src/bin` in release mode and keeps their tables.
//!
//! A benchmark is a program that prints a Markdown table to stdout; what it measures is its own affair.

mod peers;

use std::{fs, io::Write as _};

use crate::shell::{Failure, ask, capture, cargo, root, run as call};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Runs only this benchmark; may be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

/// What to make.
#[derive(clap::Args)]
pub(crate) struct PackRepoArguments {
    /// An empty directory; AGENTPACK_HOME is `ap` below it, the project `project`.
    folder: String,
    /// git, mixed or prompts.
    #[arg(long, default_value = "mixed")]
    shape: String,
    /// How many.
    #[arg(long, default_value = "1000")]
    modules: usize,
}

const RESULTS: &str = "benches/RESULTS.md";
const PACKAGE: &str = "keyless-benches";

/// Runs the benchmarks and appends what they print to benches/RESULTS.md.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let names = programs()?;
    if let Some(unknown) = arguments.only.iter().find(|name| !names.contains(name)) {
        let known = names.join(", ");
        return Err(Failure::Other(format!("no benchmark `{unknown}`; there are: {known}")));
    }
    // Two builds, for the benchmarks also start the real binary.
    call(&mut cargo(&["build", "--release", "--package", "keyless"]))?;
    call(&mut cargo(&["build", "--release", "--package", PACKAGE, "--bins"]))?;
    let heading = heading();
    append(&heading)?;
    for name in names {
        if arguments.only.is_empty() || arguments.only.contains(&name) {
            let run = ["run", "--release", "--quiet", "--package", PACKAGE, "--bin", &name];
            let mut run = cargo(&run);
            if name == peers::BENCHMARK {
                run.envs(peers::install()?);
            }
            let table = capture(&mut run)?;
            println!("{table}");
            // One at a time: what was measured is kept when a later one fails.
            append(&format!("\n### {name}\n\n{}\n", table.trim()))?;
        }
    }
    println!("appended to {RESULTS}");
    Ok(())
}

/// Makes a config repo as the benchmark `pack` has them.
pub(crate) fn generate_pack_repo(arguments: &PackRepoArguments) -> Result<(), Failure> {
    let count = arguments.modules.to_string();
    let generate = ["generate", &arguments.folder, &arguments.shape, &count];
    let run = ["run", "--quiet", "--package", PACKAGE, "--bin", "pack", "--"];
    call(&mut cargo(&[&run[..], &generate].concat()))
}

fn programs() -> Result<Vec<String>, Failure> {
    let folder = root().join("benches/src/bin");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(Failure::file(&folder))? {
        let path = entry.map_err(Failure::file(&folder))?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|stem| stem.display().to_string()));
        }
    }
    names.sort();
    Ok(names)
}

/// When, what and where: figures mean nothing without.
fn heading() -> String {
    let unknown = || "unknown".to_owned();
    let date = ask("date", &["-u", "+%Y-%m-%d %H:%M UTC"]).unwrap_or_else(unknown);
    let revision = ask("git", &["describe", "--always", "--dirty"]).unwrap_or_else(unknown);
    let kernel = ask("uname", &["-sr"]).unwrap_or_else(unknown);
    let rust = ask("rustc", &["--version"]).unwrap_or_else(unknown);
    let cores = ask("nproc", &[]).unwrap_or_else(unknown);
    let processor = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| processor(&text))
        .unwrap_or_else(unknown);
    format!("\n## {date}, revision {revision}\n\n{processor}, {cores} cores, {kernel}, {rust}\n")
}

fn processor(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn append(text: &str) -> Result<(), Failure> {
    let path = root().join(RESULTS);
    let mut file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(Failure::file(&path))?;
    file.write_all(text.as_bytes()).map_err(Failure::file(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n";
        assert_eq!(processor(cpuinfo).as_deref(), Some("Some CPU @ 2.0GHz"));
    }
}
