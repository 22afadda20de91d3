//! `keyless hooks`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// Look for raw secrets, and for aliases that nothing resolves
    #[command(after_help = "\
Examples:
  keyless hooks check --staged            what the next commit would hold, as the hook does
  keyless hooks check .env.example config.yaml")]
    Check(HooksCheckArgs),
    /// Let git ask before each commit and merge; a hook that is there runs first, as ever
    #[command(after_help = "\
Examples:
  keyless hooks install
  keyless hooks install --shared          also where core.hooksPath is a folder of many repositories")]
    Install(HooksInstallArgs),
    /// Take it out again; the hook that was there before is back
    #[command(after_help = "Examples:\n  keyless hooks uninstall")]
    Uninstall,
}

#[derive(Debug, Args)]
pub(crate) struct HooksCheckArgs {
    /// The files to look at
    #[arg(value_name = "FILE", required_unless_present = "staged")]
    pub(crate) files: Vec<PathBuf>,
    /// What is staged in the repository that this folder lies in
    #[arg(long, conflicts_with = "files")]
    pub(crate) staged: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HooksInstallArgs {
    /// Also into a folder of hooks outside of this repository
    #[arg(long)]
    pub(crate) shared: bool,
}
