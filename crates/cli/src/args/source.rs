//! `keyless source`.

use clap::{Args, Subcommand};
use keyless_core::SecretPath;

use super::FactorArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum SourceCommand {
    /// List the kinds of sources and how many secrets stand on each
    #[command(after_help = "Examples:\n  keyless source list\n  keyless source list --declared")]
    List(SourceListArgs),
    /// Try to fetch each secret's value, without showing it
    #[command(after_help = "\
Examples:
  keyless source check
  keyless source check team/github/token")]
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SourceListArgs {
    /// Also those of sources.toml: what they can do, what they may, and how they are
    #[arg(long)]
    pub(crate) declared: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The secrets to try; all when absent
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<SecretPath>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}
