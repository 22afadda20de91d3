//! Arguments of `keyless audit`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use keyless_core::{SecretPath, agent::AgentUri};

use super::{FactorArgs, time::moment};

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Go on behind what was cut or changed in the log, once you have seen what it is
    #[command(after_help = "\
Examples:
  keyless audit verify
  keyless audit accept-break --reason 'restored from the backup of Monday'
  keyless audit accept-break --checkpoints /mnt/elsewhere/checkpoints.jsonl --passphrase-file pass")]
    AcceptBreak(AcceptBreakArgs),
    /// Sign where the log ends now; keep what it says where the log is not
    #[command(
        after_help = "Examples:\n  keyless audit checkpoint >> /mnt/elsewhere/checkpoints.jsonl"
    )]
    Checkpoint(CheckpointArgs),
    /// Write entries for another program, one a line
    #[command(after_help = "\
Examples:
  keyless audit export > audit.jsonl
  keyless audit export --format cef --since 2026-02-08T00:00:00Z")]
    Export(ExportArgs),
    /// Show the entries that fit
    #[command(after_help = "\
Examples:
  keyless audit query --agent nl://acme.corp/bot/1.0.0 --result denied
  keyless audit query --secret team/github/token --since 2026-02-08T00:00:00Z --json")]
    Query(QueryArgs),
    /// Close the log so far: its entries move to a file of their own; or change the key that vouches for entries
    #[command(after_help = "\
Examples:
  keyless audit rotate --passphrase-file pass
  keyless audit rotate --keys")]
    Rotate(RotateArgs),
    /// Show the closed parts of the log
    #[command(after_help = "Examples:\n  keyless audit segments\n  keyless audit segments --json")]
    Segments,
    /// Show the newest entries
    #[command(after_help = "Examples:\n  keyless audit tail\n  keyless audit tail -n 100 --json")]
    Tail(TailArgs),
    /// Verify the chain, and that every checkpoint fits it
    #[command(after_help = "\
Examples:
  keyless audit verify
  keyless audit verify --passphrase-file pass --incremental
  keyless audit verify --checkpoints /mnt/elsewhere/checkpoints.jsonl")]
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The form of the lines
    #[arg(long, default_value = "jsonl")]
    pub(crate) format: ExportFormat,
    #[command(flatten)]
    pub(crate) query: QueryArgs,
}

/// Which entries; all that is given must fit.
#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    /// Those of agents with this URI
    #[arg(long, value_name = "URI", value_parser = uri)]
    pub(crate) agent: Option<String>,
    /// Those about this secret
    #[arg(long, value_name = "PATH")]
    pub(crate) secret: Option<SecretPath>,
    /// Those at or after this time: 2026-02-08T10:00:00Z, 2026-02-08, today, yesterday, 3h ago as 3h
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) since: Option<Timestamp>,
    /// Those before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) until: Option<Timestamp>,
    /// Those of one request
    #[arg(long, value_name = "ID")]
    pub(crate) correlation: Option<String>,
    /// Those that have this anywhere in them
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Those that ended so
    #[arg(long)]
    pub(crate) result: Option<ResultWord>,
    /// Those after the entry of this number: where the last answer ended
    #[arg(long, value_name = "NUMBER")]
    pub(crate) after: Option<u64>,
    /// At most so many; 1000 where it is not said, and all of them for export
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
}

/// As it is written in the log.
fn uri(text: &str) -> Result<String, String> {
    AgentUri::parse(text).map(|uri| uri.to_string()).map_err(|error| error.to_string())
}

/// `--result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResultWord {
    /// Stopped before it was tried.
    Blocked,
    /// Policy said no.
    Denied,
    /// It failed.
    Error,
    /// It was done.
    Success,
    /// It took too long.
    Timeout,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// ArcSight's Common Event Format.
    Cef,
    /// The entries as they are stored.
    Jsonl,
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// How many
    #[arg(short = 'n', long, default_value_t = 20)]
    pub(crate) lines: u32,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Only what was written since the newest checkpoint
    #[arg(long)]
    pub(crate) incremental: bool,
    /// Checkpoints that were kept elsewhere; those beside the store when absent
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoints: Option<PathBuf>,
    /// The key that must have signed them, as a checkpoint's public_key; the vault's own with a factor
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AcceptBreakArgs {
    /// What you know of it, for the log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Checkpoints that were kept elsewhere; those beside the store when absent
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoints: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// Have a new key vouch for entries from now on; those before it stay, to verify by
    #[arg(long)]
    pub(crate) keys: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}
