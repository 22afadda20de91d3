//! The static binary, built as docs/guest.md says: `cargo guest`.

use std::{env, path::PathBuf, process::Command, sync::OnceLock};

use crate::invocation::KEYLESS;

/// Where it is; built when it is not, or is old.
pub(crate) fn path() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build(&["guest"], "keyless-guest")).clone()
}

/// The example of the same package that listens on vsock.
pub(crate) fn vsock_doors() -> PathBuf {
    let package = ["rustc", "--profile", "guest", "--package", "keyless-init"];
    let what = ["--example", "vsock_doors", "--", "-C", "target-feature=+crt-static"];
    build(&[&package[..], &what].concat(), "examples/vsock_doors")
}

fn build(arguments: &[&str], file: &str) -> PathBuf {
    // TARGET/debug/keyless
    let target = PathBuf::from(KEYLESS).ancestors().nth(2).unwrap().to_owned();
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_TERM_QUIET", "true")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("guest").join(file)
}
