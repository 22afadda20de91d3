//! `keyless vault`: what opens the store, and copies of what is in it.

mod copying;
mod envelope;

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::ExitCode,
};

use keyless_core::Error;
use keyless_daemon::path_unusable;

use crate::{args::VaultCommand, ui::Ui};

pub(super) async fn run(ui: &Ui, command: VaultCommand) -> Result<ExitCode, Error> {
    match command {
        VaultCommand::Envelope(command) => envelope::run(ui, command).await?,
        VaultCommand::Export(args) => copying::export(ui, args).await?,
        VaultCommand::Import(args) => copying::import(ui, args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a new 0600 file and makes it durable; never over one that is there.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let unusable = |error: io::Error| path_unusable(path, &error);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).map_err(unusable)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|error| {
        // A part of it is of no use, and would stand in the way of the next try.
        let _ = fs::remove_file(path);
        unusable(error)
    })
}
