//! What shells and manuals are told of the command line.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

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
pub(crate) struct ManualArgs {
    /// Where they go; made if it is not there
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}
