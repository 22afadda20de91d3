//! `keyless hooks`: what git asks before each commit and each push. Nothing here prints a value.

mod check;
mod commits;
mod git;
mod install;
mod search;

use std::{path::PathBuf, process::ExitCode};

use keyless_core::Error;

use crate::{args::HooksCommand, ui::Ui};

/// The hooks of the repository that this folder lies in that ours stands for, there or not; before commits first.
pub(super) fn hooks_here() -> Option<Vec<PathBuf>> {
    let folder = git::hooks().ok()?;
    Some(install::HOOKS.iter().map(|name| folder.join(name)).collect())
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
