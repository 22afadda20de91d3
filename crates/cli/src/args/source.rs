//! `keyless source`.

use clap::{Args, Subcommand, ValueEnum};
use keyless_core::{PathError, SecretPath, alias};
use keyless_daemon::vault::SourceType;

use super::FactorArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum SourceCommand {
    /// Declare a source in sources.toml, with what leads to it; comments and order stay
    #[command(after_help = "\
Examples:
  keyless source add mine --type pass folder=work --default
  keyless source add corp --type vault addr=https://vault.corp.example:8200 mount=kv \\
      --route team/ --credential sources/corp/token --access readwrite
  keyless source add desk --type keepass file=/home/ada/secrets.kdbx --credential sources/desk/password

Settings are those of docs/sources.md, one NAME=VALUE each; environment.NAME=VALUE is a variable for its program, \
config.NAME=VALUE what a plugin is told.")]
    Add(SourceAddArgs),
    /// Say what a source holds, by the references that a secret may name; never values
    #[command(after_help = "\
Examples:
  keyless source browse mine
  keyless source browse mine github
  keyless secret add team/github/token --to api.github.com --env GITHUB_TOKEN --source source:mine:work/github")]
    Browse(BrowseArgs),
    /// Try to fetch each secret's value, without showing it
    #[command(after_help = "\
Examples:
  keyless source check
  keyless source check team/github/token")]
    Check(CheckArgs),
    /// List the sources: how many secrets stand on each kind, and of those in sources.toml what they can, what they
    /// may, and how they are
    #[command(after_help = "Examples:\n  keyless source list")]
    List(SourceListArgs),
    /// Take a source out of sources.toml, with the routes that lead to it
    #[command(after_help = "Examples:\n  keyless source remove corp")]
    Remove(SourceRemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SourceAddArgs {
    /// What to call it: a-z, 0-9, - and _
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Its kind, such as vault, pass or 1password
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: SourceType,
    /// Its settings; lines of docs/sources.md
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Whether Keyless may write there
    #[arg(long, value_name = "ACCESS", default_value = "read")]
    pub(crate) access: AccessWord,
    /// Secrets whose path begins so are kept there; ends with a slash; repeatable
    #[arg(long, value_name = "PREFIX")]
    pub(crate) route: Vec<String>,
    /// Secrets that nothing else leads elsewhere are kept there
    #[arg(long)]
    pub(crate) default: bool,
    /// The secret of the store that opens it; also as @secret:PATH
    #[arg(long, value_name = "PATH", value_parser = path_or_alias)]
    pub(crate) credential: Option<SecretPath>,
}

/// What Keyless may do at a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessWord {
    /// Fetch values.
    Read,
    /// Fetch and put values.
    Readwrite,
}

#[derive(Debug, Args)]
pub(crate) struct BrowseArgs {
    /// The source
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Only what has this in its reference or name
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SourceListArgs {
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SourceRemoveArgs {
    /// The source
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The secrets to try; all when absent
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<SecretPath>,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

fn path_or_alias(text: &str) -> Result<SecretPath, PathError> {
    alias(text).unwrap_or_else(|| SecretPath::parse(text))
}
