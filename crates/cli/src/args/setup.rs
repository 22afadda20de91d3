//! `keyless setup`.

use std::path::PathBuf;

use clap::Args;

use super::{FactorArgs, LeaveWord};

pub(super) const SETUP_EXAMPLES: &str = "\
Examples:
  keyless setup                           looks, proposes, writes .keyless/secrets.toml, gets the values, examines
  keyless setup --scan-only               only looks
  keyless setup --resume                  goes on where it was left
  keyless setup --yes --leave aliases     without a question; @secret:PATH takes the values' place in .env files";

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct SetupArgs {
    /// The project's root; here when absent
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Look and propose; write nothing
    #[arg(long, conflicts_with_all = ["resume", "yes"])]
    pub(crate) scan_only: bool,
    /// Stop when the manifest is written
    #[arg(long, conflicts_with = "scan_only")]
    pub(crate) write_manifest: bool,
    /// Put a new manifest in the place of one that is there, which is kept beside it
    #[arg(long)]
    pub(crate) force: bool,
    /// Skip the steps that are done
    #[arg(long)]
    pub(crate) resume: bool,
    /// What takes the values' place in .env files, once they are in the vault
    #[arg(long, value_name = "WHAT", default_value = "values")]
    pub(crate) leave: LeaveWord,
    /// Let what no request carries go out of its file too; no program in keyless run finds it then
    #[arg(long)]
    pub(crate) also_uncarried: bool,
    /// Don't ask; what only a person knows stays missing, and is told
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}
