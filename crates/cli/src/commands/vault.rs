//! `keyless vault`: what opens the store, and copies of what is in it.

mod copying;
mod envelope;

use std::process::ExitCode;

use keyless_core::Error;

use crate::{args::VaultCommand, ui::Ui};

pub(super) async fn run(ui: &Ui, command: VaultCommand) -> Result<ExitCode, Error> {
    match command {
        VaultCommand::Envelope(command) => envelope::run(ui, command).await?,
        VaultCommand::Export(args) => copying::export(ui, args).await?,
        VaultCommand::Import(args) => copying::import(ui, args).await?,
    }
    Ok(ExitCode::SUCCESS)
}
