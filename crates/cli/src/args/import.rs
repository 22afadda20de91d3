//! `keyless secret import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use keyless_core::SecretPath;

use super::FactorArgs;

pub(super) const IMPORT_EXAMPLES: &str = "\
Examples:
  keyless secret import .env                          shows what it would do, and asks
  keyless secret import .env --dry-run
  keyless secret import .env --leave aliases --yes    and puts @secret:PATH where the values stood
  keyless secret import --from-env --only GITHUB_TOKEN
  keyless secret import .env --as ACME_KEY=team/acme/api-key --skip LEGACY_KEY";

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct ImportArgs {
    /// The file: the form of .env, or JSON or YAML by its name
    #[arg(value_name = "FILE", required_unless_present = "from_env")]
    pub(crate) file: Option<PathBuf>,
    /// Take the variables of this environment
    #[arg(long, conflicts_with = "file")]
    pub(crate) from_env: bool,
    /// Take these alone; repeatable
    #[arg(long, value_name = "NAME", conflicts_with = "skip")]
    pub(crate) only: Vec<String>,
    /// Take this one too, whatever it looks like; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) also: Vec<String>,
    /// Leave this one alone; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) skip: Vec<String>,
    /// The path for a variable; repeatable
    #[arg(long = "as", value_name = "NAME=PATH", value_parser = parse_as)]
    pub(crate) paths: Vec<(String, SecretPath)>,
    /// What takes the values' place in the file, once they are in the vault
    #[arg(long, value_name = "WHAT", default_value = "values", conflicts_with = "from_env")]
    pub(crate) leave: LeaveWord,
    /// Let what no request carries go out of the file too; no program in keyless run finds it then
    #[arg(long, conflicts_with = "from_env")]
    pub(crate) also_uncarried: bool,
    /// Take values also if they look like none, such as those under 12 characters
    #[arg(long)]
    pub(crate) allow_weak: bool,
    /// Show what it would do, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Don't ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) factor: FactorArgs,
}

/// `--leave`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LeaveWord {
    /// @secret:PATH: `keyless run` resolves it in a variable that it inherits, not in a file that a program reads.
    Aliases,
    /// `# NAME=@secret:PATH`, a comment: a shell that reads the file (`. ./.env`) keeps what keyless run put into the variable.
    Comments,
    /// Nothing: whoever reads the file finds the variable empty.
    Empty,
    /// The values: the file stays as it is, and keyless run shows it.
    Values,
}

fn parse_as(text: &str) -> Result<(String, SecretPath), String> {
    let (name, path) =
        text.split_once('=').ok_or("NAME=PATH, such as ACME_KEY=team/acme/api-key")?;
    let path = SecretPath::parse(path).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), path))
}
