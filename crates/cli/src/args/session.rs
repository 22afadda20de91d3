//! `keyless session`: who is at work now.

use clap::{Args, Subcommand};

use super::FactorArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List the sessions that are open, and what each may use
    #[command(after_help = "Examples:\n  keyless session list\n  keyless session list --json")]
    List(SessionListArgs),
    /// Show what a session did, open or over
    #[command(
        after_help = "Examples:\n  keyless session show s-01890a5d-ac96-774b-bcce-b302099a8057"
    )]
    Show(SessionShowArgs),
    /// End a session: its connections break at once, and what was approved for it is over
    #[command(after_help = "\
Examples:
  keyless session end s-01890a5d-ac96-774b-bcce-b302099a8057
  keyless session end s-01890a5d-ac96-774b-bcce-b302099a8057 --yes")]
    End(SessionEndArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SessionListArgs {
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SessionShowArgs {
    /// Its name, as the list and the log have it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SessionEndArgs {
    /// Its name, as the list has it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Don't ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}
