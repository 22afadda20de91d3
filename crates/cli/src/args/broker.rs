//! `keyless broker`.

use std::{path::PathBuf, time::Duration};

use clap::{ArgGroup, Args, Subcommand};

use super::{FactorArgs, parse_time};

pub(super) const BROKER_EXAMPLES: &str = "\
Examples:
  keyless broker                                      asks for the passphrase, and serves
  keyless broker --keyfile ~/.local/state/keyless/vault.key --for 12h
  keyless broker install --keyfile ~/.local/state/keyless/vault.key";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BrokerArgs {
    #[command(subcommand)]
    pub(crate) command: Option<BrokerCommand>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
    /// How long the store stays open, such as 30m; as `unlock` in config.toml says when absent (8h)
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    pub(crate) window: Option<Duration>,
    /// Read the factor from stdin: one line, `passphrase …` or `recovery …` (what `unlock` does)
    #[arg(long, hide = true)]
    pub(crate) factor_stdin: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BrokerCommand {
    /// Write a unit for systemd that starts it when you log in
    #[command(after_help = "\
Examples:
  keyless broker install --keyfile ~/.local/state/keyless/vault.key
  systemctl --user enable --now keyless-broker")]
    Install(BrokerInstallArgs),
}

/// Nobody is at a terminal when it starts, so a file opens the store.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("factor").required(true))]
pub(crate) struct BrokerInstallArgs {
    /// The key file that opens the store (keyless vault envelope add keyfile)
    #[arg(long, value_name = "FILE", group = "factor")]
    pub(crate) keyfile: Option<PathBuf>,
    /// The file with the passphrase, yours and 0600
    #[arg(long, value_name = "FILE", group = "factor")]
    pub(crate) passphrase_file: Option<PathBuf>,
}
