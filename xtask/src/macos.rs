//! `cargo xtask macos`: whether `keyless` compiles for macOS, asked on a machine that is none.
//!
//! Types and borrows are checked; nothing is linked and nothing runs. std comes from its sources, for which
//! `RUSTC_BOOTSTRAP=1` lets the installed stable take cargo's `-Z` flag; what is C comes through zig, which has Apple's headers.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::shell::{Failure, ask, cargo, root, run as call};

const TARGET: &str = "aarch64-apple-darwin";
/// Beside the other builds: with another compiler's path all of them would start anew.
const FOLDER: &str = "target/macos";
/// Where a toolchain has the sources of its std.
const SOURCES: &str = "lib/rustlib/src/rust/library/std/Cargo.toml";

/// What to check with.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A toolchain's folder that has the sources of std; the installed one's when none is named.
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
    /// The command that is zig; `zig` or `python3 -m ziglang` when none is named.
    #[arg(long, value_name = "COMMAND")]
    zig: Option<String>,
}

/// Checks the whole program.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let installed = PathBuf::from(ask("rustc", &["--print", "sysroot"]).unwrap_or_default());
    let sysroot = arguments.sysroot.as_ref().unwrap_or(&installed);
    if !sysroot.join(SOURCES).exists() {
        let words = format!(
            "no {SOURCES} below {}: `rustup component add rust-src`; or --sysroot with a copy of the toolchain (links do) and \
             std's sources of the same version in it, such as those of Debian's package rust-src",
            sysroot.display()
        );
        return Err(Failure::Other(words));
    }
    let zig = arguments.zig.clone().map_or_else(installed_zig, Ok)?;
    let folder = root().join(FOLDER).join("tools");
    fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
    let compiler = script(&folder, "cc", &C_COMPILER.replace("ZIG", &zig))?;
    let archiver = script(&folder, "ar", &format!("exec {zig} ar \"$@\"\n"))?;
    let (rustc, sysroot) = (installed.join("bin/rustc"), sysroot.display());
    let rustc = format!("exec {} --sysroot {sysroot} \"$@\"\n", rustc.display());
    let rustc = script(&folder, "rustc", &rustc)?;
    let std = ["check", "-Zbuild-std=std,panic_unwind", "--target", TARGET];
    let what = ["--target-dir", FOLDER, "-p", "keyless"];
    let mut check = cargo(&[std, what].concat());
    check.env("RUSTC_BOOTSTRAP", "1").env("RUSTC", rustc);
    check.env("CC_aarch64_apple_darwin", compiler).env("AR_aarch64_apple_darwin", archiver);
    call(&mut check)
}

/// zig has names of its own for targets, and is told none of the others.
const C_COMPILER: &str = r#"for word in "$@"; do
    shift
    case "$word" in
        --target=*) ;;
        -arch) skip=1 ;;
        *) if [ -n "$skip" ]; then skip=; else set -- "$@" "$word"; fi ;;
    esac
done
exec ZIG cc -target aarch64-macos "$@"
"#;

fn installed_zig() -> Result<String, Failure> {
    let is_there = |command: &&str| {
        let words: Vec<&str> = command.split(' ').chain(["version"]).collect();
        ask(words[0], &words[1..]).is_some()
    };
    let found = ["zig", "python3 -m ziglang"].into_iter().find(is_there);
    found.map(str::to_owned).ok_or_else(|| {
        Failure::Other("zig is missing: `pip install ziglang`, or --zig COMMAND".to_owned())
    })
}

fn script(folder: &Path, name: &str, text: &str) -> Result<PathBuf, Failure> {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}")).map_err(Failure::file(&path))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(Failure::file(&path))?;
    Ok(path)
}
