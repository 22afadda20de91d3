//! `keyless hooks`: what git asks before each commit. Nothing here prints a value.

mod check;
mod git;
mod install;

use std::process::ExitCode;

use keyless_core::Error;

use crate::{args::HooksCommand, ui::Ui};

pub(super) async fn run(ui: &Ui, command: HooksCommand) -> Result<ExitCode, Error> {
    match command {
        HooksCommand::Check(args) => check::run(ui, &args).await,
        HooksCommand::Install(args) => install::install(ui, &args),
        HooksCommand::Uninstall => install::uninstall(ui),
    }
}
