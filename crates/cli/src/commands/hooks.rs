//! `keyless hooks`: what git asks before each commit. Nothing here prints a value.

mod check;
mod git;
mod install;
mod search;

use std::{path::PathBuf, process::ExitCode};

use keyless_core::Error;

use crate::{args::HooksCommand, ui::Ui};

/// The hook before commits of the repository that this folder lies in, there or not.
pub(super) fn hook_here() -> Option<PathBuf> {
    git::hooks().ok().map(|folder| folder.join(install::HOOK))
}

/// Whether a hook's text is ours.
pub(super) fn is_ours(text: &str) -> bool {
    text.lines().any(|line| line == install::MARK)
}

pub(super) async fn run(ui: &Ui, command: HooksCommand) -> Result<ExitCode, Error> {
    match command {
        HooksCommand::Check(args) => check::run(ui, &args).await,
        HooksCommand::Install(args) => install::install(ui, &args),
        HooksCommand::Uninstall => install::uninstall(ui),
    }
}
