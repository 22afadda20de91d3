//! `keyless secret`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use keyless_core::SecretPath;

use super::{FactorArgs, ImportArgs, RevokeArgs, RuleArgs, UpkeepArgs, import, parse_time};

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Add a secret; its value comes from a prompt, stdin or a file, never from an argument
    #[command(after_help = "\
Examples:
  keyless secret add team/github/token --to api.github.com --to github.com --env GITHUB_TOKEN
  pass show ci/npm | keyless secret add team/npm/token --to registry.npmjs.org --env NPM_TOKEN --value-stdin
  keyless secret add team/openai/key --to api.openai.com --env OPENAI_API_KEY --source env:OPENAI_API_KEY
  keyless secret add team/github/site --preset github-read=acme/site --env GITHUB_TOKEN
  keyless secret add team/search/key --to api.search.test --inject header:X-Api-Key --allow 'GET /v1/**'")]
    Add(AddArgs),
    /// Take values out of a .env file or the environment, into the vault
    #[command(after_help = import::IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Change where a secret may go and how it is offered; the value stays
    #[command(
        after_help = "Examples:\n  keyless secret set team/github/token --to api.github.com --locations header,basic\n  keyless secret set team/github/old-token --env none --expires none"
    )]
    Set(SetArgs),
    /// List secrets: paths, destinations, variables; never values
    #[command(after_help = "Examples:\n  keyless secret list\n  keyless secret list --json")]
    List,
    /// Show everything about a secret but its value
    #[command(after_help = "Examples:\n  keyless secret show team/github/token")]
    Show(OnePath),
    /// Show a value to you, at your terminal or in your clipboard, and nowhere else
    #[command(after_help = "\
Examples:
  keyless secret reveal team/github/token                     on a screen of its own, until Enter
  keyless secret reveal team/github/token --clipboard         for 30 seconds, for one paste
  keyless secret reveal team/github/token --clipboard --for 2m")]
    Reveal(RevealArgs),
    /// Give a secret a new value
    #[command(
        after_help = "Examples:\n  keyless secret rotate team/github/token\n  gen-token | keyless secret rotate team/github/token --value-stdin"
    )]
    Rotate(RotateArgs),
    /// Remove a secret; it can be restored until it is purged
    #[command(after_help = "\
Examples:
  keyless secret remove team/github/token
  keyless secret remove team/github/token --yes")]
    Remove(RemoveArgs),
    /// Bring a removed secret back, or put an older version in use
    #[command(
        after_help = "Examples:\n  keyless secret restore team/github/token\n  keyless secret restore team/github/token --version 2"
    )]
    Restore(RestoreArgs),
    /// Forget a secret with all its versions, or one version, for good
    #[command(after_help = "\
Examples:
  keyless secret purge team/github/token
  keyless secret purge team/github/token --version 2 --yes")]
    Purge(PurgeArgs),
    /// Refuse every use of a secret whose value others may know
    #[command(after_help = "Examples:\n  keyless secret revoke team/github/token --compromised")]
    Revoke(RevokeArgs),
    /// List a secret's versions; never values
    #[command(after_help = "Examples:\n  keyless secret versions team/github/token")]
    Versions(VersionsArgs),
    /// Ask services whether they take your values: the catalog's checks, over https, to hosts that a secret names
    #[command(after_help = "\
Examples:
  keyless secret check                    every secret whose service can be asked
  keyless secret check team/github/token
  keyless secret check team/twilio/token --user AC0123456789")]
    Check(SecretCheckArgs),
    /// Say what this project needs, and what of it is there
    #[command(after_help = "\
Examples:
  keyless secret validate                 by .keyless/secrets.toml, here or above
  keyless secret validate --values        and fetch each value once, without showing it")]
    Validate(ValidateArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OnePath {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// The project's root; found from here when absent
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Fetch each value once as well, which opens the store
    #[arg(long)]
    pub(crate) values: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    #[command(flatten)]
    pub(crate) rule: RuleArgs,
    #[command(flatten)]
    pub(crate) upkeep: UpkeepArgs,
    #[command(flatten)]
    pub(crate) value: ValueArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
    /// Make it bait: nobody has a reason to use it, and an agent that names it is stopped. Its value is drawn
    /// at random when none is given
    #[arg(long)]
    pub(crate) honeypot: bool,
    /// Where the value is kept: local, env:NAME (the broker's environment), file:PATH, routed (as
    /// sources.toml says) or source:NAME, source:NAME:REFERENCE of sources.toml
    #[arg(long, value_name = "SOURCE", default_value = "local", conflicts_with_all = ["value_stdin", "from_file"])]
    pub(crate) source: String,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    #[command(flatten)]
    pub(crate) rule: RuleArgs,
    #[command(flatten)]
    pub(crate) upkeep: UpkeepArgs,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RevealArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    /// Put it into the clipboard in place of showing it
    #[arg(long)]
    pub(crate) clipboard: bool,
    /// How long it stays in the clipboard
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, default_value = "30s", requires = "clipboard")]
    pub(crate) life: std::time::Duration,
    /// Don't ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    #[command(flatten)]
    pub(crate) value: ValueArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    /// Don't ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    /// The version to put in use
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PurgeArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    /// This version alone, which must not be in use
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
    /// Don't ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct VersionsArgs {
    /// The secret, as project/category/name
    #[arg(value_name = "PATH")]
    pub(crate) path: SecretPath,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

/// Where a value comes from. There is no option that takes the value itself.
#[derive(Debug, Default, Args)]
pub(crate) struct ValueArgs {
    /// Read the value from stdin
    #[arg(long)]
    pub(crate) value_stdin: bool,
    /// Read the value from a file
    #[arg(long, value_name = "FILE", conflicts_with = "value_stdin")]
    pub(crate) from_file: Option<PathBuf>,
    /// Take a value also if it looks like none, such as one under 12 characters
    #[arg(long)]
    pub(crate) allow_weak: bool,
}

impl ValueArgs {
    /// Whether a person is asked for it.
    pub(crate) fn is_typed(&self) -> bool {
        !self.value_stdin && self.from_file.is_none()
    }
}

/// What is asked before a value is saved.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct SaveArgs {
    /// Ask its service whether it takes the value, and don't save one that is refused
    #[arg(long, conflicts_with = "allow_weak")]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SecretCheckArgs {
    /// The secrets to ask about; all when absent
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<SecretPath>,
    /// Whose it is, for services that want to be told: an email address, an account's id
    #[arg(long, value_name = "NAME", requires = "paths", value_parser = service_user)]
    pub(crate) user: Option<String>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

/// The user of Basic: everything up to the colon.
fn service_user(text: &str) -> Result<String, &'static str> {
    let fits = !text.is_empty() && !text.contains(|c: char| c == ':' || c.is_control());
    if fits {
        Ok(text.to_owned())
    } else {
        Err("a user's name has no colon and no control characters")
    }
}
