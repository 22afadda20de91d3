//! The program of a source, which is started as it was read: nobody can put another in its place in between.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
};

use sha2::{Digest, Sha256};

#[cfg(target_os = "linux")]
pub use self::linux::HeldProgram;
#[cfg(target_os = "macos")]
pub use self::macos::HeldProgram;
use super::ClientError;

/// Opens the program, makes sure that nobody else can change it, and compares what it is with `checksum`, 64 hex digits of
/// its SHA-256. Blocks.
///
/// Fails with [`ClientError::Checksum`], [`ClientError::Unsafe`] or [`ClientError::Unstartable`].
pub fn open_checked(path: &Path, checksum: &str) -> Result<HeldProgram, ClientError> {
    let unstartable = |error: io::Error| ClientError::Unstartable(error.kind());
    let file = File::open(path).map_err(unstartable)?;
    let metadata = file.metadata().map_err(unstartable)?;
    let owner = metadata.uid();
    let ours = owner == rustix::process::geteuid().as_raw() || owner == 0;
    if !metadata.is_file() || !ours || metadata.mode() & 0o022 != 0 {
        return Err(ClientError::Unsafe);
    }
    let mut program = HeldProgram::hold(file).map_err(unstartable)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match program.content().read(&mut buffer).map_err(unstartable)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    let found = data_encoding::HEXLOWER.encode(&hasher.finalize());
    if !found.eq_ignore_ascii_case(checksum) {
        return Err(ClientError::Checksum);
    }
    Ok(program)
}
