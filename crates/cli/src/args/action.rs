//! The arguments of `exec` and `action`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use keyless_core::Destination;

use super::{FactorArgs, RouteArgs};

pub(super) const EXEC_EXAMPLES: &str = "\
Examples:
  keyless exec -- 'curl -H \"Authorization: Bearer {{nl:github/TOKEN}}\" https://api.github.com/user'
  keyless exec --host db.internal:5432 -- 'PGPASSWORD={{nl:db/PASSWORD}} psql -h db.internal -c \"select 1\"'
  keyless exec --dry-run -- 'deploy --token {{nl:team/prod/deploy/TOKEN}}'

A secret that names its destinations enters as a placeholder and is exchanged on the wire. Any other
enters a jail without people's files that reaches only the hosts named with --host.";

/// What may be done about actions.
#[derive(Debug, Subcommand)]
pub(crate) enum ActionCommand {
    /// Do what an action request says, and print the response
    ///
    /// Each run does it anew: request_id is told back as it came, and action_id is the run's own.
    #[command(after_help = "\
Examples:
  keyless action submit request.json
  generate-request | keyless action submit -")]
    Submit(SubmitArgs),
    /// Say whether an action request could be done, without doing it
    #[command(after_help = "Examples:\n  keyless action dry-run request.json")]
    DryRun(SubmitArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pub(crate) terms: TermArgs,
    /// The longest that it may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) timeout: u64,
    /// Look simple references up in this project first
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Check that it could be run, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The command, for a POSIX shell; several words are joined with blanks
    #[arg(required = true, trailing_var_arg = true, value_name = "TEMPLATE")]
    pub(crate) template: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub(crate) terms: TermArgs,
    /// A file with a request, or an array of them; `-` is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// On what terms an action is done.
#[derive(Debug, Args)]
pub(crate) struct TermArgs {
    /// A host that a value in the jail may reach; repeatable. None when absent
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Vec<Destination>,
    #[command(flatten)]
    pub(crate) routes: RouteArgs,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}
