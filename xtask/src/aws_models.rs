//! `cargo xtask aws-models`: what `sdk_proxy` knows of AWS's services, from the models in botocore.
//!
//! One version of botocore, which is Apache-2.0, is installed below `target` for it; what comes of it is the
//! same every time, but for how a zlib of another version packs it.

use crate::shell::{Failure, command, run as call};

/// The version that the files in the repository are of.
const BOTOCORE: &str = "botocore==1.43.11";
const FOLDER: &str = "target/botocore";
const FILE: &str = "crates/action/providers/aws.models";
const SCRIPT: &str = include_str!("aws_models.py");
/// Requests as botocore writes them, to compare with.
const VECTORS: &str = "crates/action/src/sdk/aws/request/vectors.json";
const VECTORS_SCRIPT: &str = include_str!("aws_vectors.py");

/// Writes both files anew.
pub(crate) fn run() -> Result<(), Failure> {
    let target = ["--target", FOLDER, "--upgrade"];
    call(&mut command(
        "python3",
        &[&["-m", "pip", "install", "--quiet"], &target[..], &[BOTOCORE]].concat(),
    ))?;
    write(SCRIPT, FILE)?;
    write(VECTORS_SCRIPT, VECTORS)
}

fn write(script: &str, file: &str) -> Result<(), Failure> {
    println!("    writing {file}");
    let mut write = command("python3", &["-c", script, file]);
    write.env("PYTHONPATH", FOLDER).env("AWS_CONFIG_FILE", "/dev/null");
    let status = write.status().map_err(Failure::file(file))?;
    if status.success() { Ok(()) } else { Err(Failure::Other(format!("{file} was not written"))) }
}
