//! `keyless vault`: what opens the store, and copies of what is in it.

mod copying;
mod envelope;

use std::{
    fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt, path::Path, process::ExitCode,
};

use keyless_core::{Code, Error, SafeText};

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
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    written.map_err(|error| {
        let place = SafeText::default().as_they_wrote(&path.to_string_lossy());
        Error::with(Code::PathUnusable, place.and(": ").and(error.kind()))
    })
}
