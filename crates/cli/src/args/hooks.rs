//! `keyless hooks`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// Look for raw secrets, and for aliases that nothing resolves
    #[command(after_help = "\
Examples:
  keyless hooks check --staged                what the next commit would hold, as the hook does
  keyless hooks check --commits main..topic   each message and version of a file of these commits
  keyless hooks check .env.example config.yaml")]
    Check(HooksCheckArgs),
    /// Let git ask before each commit, merge and push; a hook that is there runs first, as ever
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
    #[arg(value_name = "FILE", required_unless_present_any = ["staged", "message", "commits", "push"])]
    pub(crate) files: Vec<PathBuf>,
    /// What is staged in the repository that this folder lies in
    #[arg(long, conflicts_with = "files")]
    pub(crate) staged: bool,
    /// A commit's message in the making, as git hands it to a commit-msg hook
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "staged"])]
    pub(crate) message: Option<PathBuf>,
    /// What commits bring, messages too, as `git log` takes them: also what a later one takes out again
    #[arg(long, value_name = "REVISION", num_args = 1.., conflicts_with_all = ["files", "staged", "message"])]
    pub(crate) commits: Vec<String>,
    /// What a push to this remote brings; reads git's lines for a pre-push hook from standard input
    #[arg(long, value_name = "REMOTE", conflicts_with_all = ["files", "staged", "message", "commits"])]
    pub(crate) push: Option<String>,
    /// How many seconds a push is looked through at most; one that takes longer is not let through
    #[arg(long, value_name = "SECONDS", default_value_t = 120, requires = "push")]
    pub(crate) within: u64,
}

#[derive(Debug, Args)]
pub(crate) struct HooksInstallArgs {
    /// Also into a folder of hooks outside of this repository
    #[arg(long)]
    pub(crate) shared: bool,
}
