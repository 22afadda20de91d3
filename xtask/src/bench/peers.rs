//! Other proxies, beside which Keyless is measured: mitmproxy from PyPI in an environment of its own, and
//! the program in benches/hudsucker. Below target/, so that they go with it.

use std::path::PathBuf;

use crate::shell::{Failure, cargo, command, root, run as call};

/// The benchmark that wants them.
pub(super) const BENCHMARK: &str = "peers";
/// One version, so that runs can be compared.
const MITMPROXY: &str = "mitmproxy==11.0.2";
const FOLDER: &str = "target/bench-peers";

/// Installs what is not there yet. Gives the variables by which the benchmark finds it.
pub(super) fn install() -> Result<[(&'static str, PathBuf); 2], Failure> {
    let folder = root().join(FOLDER);
    let python = folder.join("mitmproxy/bin/python3");
    let mitmdump = folder.join("mitmproxy/bin/mitmdump");
    if !mitmdump.exists() {
        let environment = folder.join("mitmproxy").display().to_string();
        call(&mut command("python3", &["-m", "venv", &environment]))?;
        let python = python.display().to_string();
        call(&mut command(&python, &["-m", "pip", "install", "--quiet", MITMPROXY]))?;
    }
    let target = folder.join("hudsucker");
    let manifest = "benches/hudsucker/Cargo.toml";
    let build = ["build", "--release", "--locked", "--manifest-path", manifest];
    call(cargo(&build).env("CARGO_TARGET_DIR", &target))?;
    let hudsucker = target.join("release/keyless-bench-hudsucker");
    Ok([("KEYLESS_BENCH_MITMDUMP", mitmdump), ("KEYLESS_BENCH_HUDSUCKER", hudsucker)])
}
