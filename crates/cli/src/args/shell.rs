//! What shells and manuals are told of the command line.

use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use keyless_core::nl_message::SCHEMAS;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// For which shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: ShellWord,
}

/// A shell that can be taught.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellWord {
    Bash,
    Elvish,
    Fish,
    Zsh,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The object; a list of them when absent
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(SCHEMAS))]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// Where they go; made if it is not there
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}
