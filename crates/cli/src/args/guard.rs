//! `keyless guard`: what agents may not run.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum GuardCommand {
    /// Say whether a command would be blocked, and why; status 4 when it would
    #[command(
        after_help = "Examples:\n  keyless guard check -- 'cat .env | base64'\n  keyless guard check -- npm test"
    )]
    Check(GuardCheckArgs),
    /// Answer Claude Code's PreToolUse hook: JSON on stdin, status 2 blocks
    #[command(after_help = "Examples:\n  keyless guard hook < event.json")]
    Hook,
    /// Have a coding agent ask the guard before each tool
    #[command(
        after_help = "Examples:\n  keyless guard install claude            .claude/settings.json of this project\n  keyless guard install claude --user     ~/.claude/settings.json"
    )]
    Install(GuardInstallArgs),
    /// Take the hook out again
    #[command(
        after_help = "Examples:\n  keyless guard uninstall claude\n  keyless guard uninstall claude --user"
    )]
    Uninstall(GuardInstallArgs),
    /// List the rules that are in force
    #[command(alias = "list", after_help = "Examples:\n  keyless guard rules")]
    Rules,
}

#[derive(Debug, Args)]
pub(crate) struct GuardCheckArgs {
    /// The action that it would be: exec, template, inject_stdin, inject_tempfile, tool_call, api_call
    #[arg(long = "type", value_name = "TYPE", default_value = "exec")]
    pub(crate) action_type: String,
    /// The command line; several words are joined by spaces. All behind -- is the command; before it, flags are Keyless's
    // A flag that is mistyped must not pass for a word of the command, and that be allowed (NL-4.5).
    #[arg(value_name = "COMMAND", required = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GuardInstallArgs {
    /// Which agent
    #[arg(value_name = "AGENT")]
    pub(crate) agent: GuardedAgent,
    /// For all your projects, not only this one
    #[arg(long)]
    pub(crate) user: bool,
}

/// An agent that can be told to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuardedAgent {
    /// Claude Code
    Claude,
}
