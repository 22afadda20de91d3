//! `pack remote set` and `pack sync`: the config repo between machines.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use keyless_pack::{RemoteData, SyncData, SyncOptions, commands};

use super::{Call, Outcome};

#[derive(Debug, Subcommand)]
pub(crate) enum RemoteCommand {
    /// Set the URL of a remote of the config repo; make the remote where there is none
    #[command(
        after_help = "Examples:\n  keyless pack remote set https://git.example/acme/pack.git"
    )]
    Set(RemoteSetWords),
}

#[derive(Debug, Args)]
pub(crate) struct RemoteSetWords {
    url: String,
    /// Remote name
    #[arg(long, default_value = "origin")]
    name: String,
}

#[derive(Debug, Args)]
pub(crate) struct SyncWords {
    /// Pull with rebase (recommended)
    #[arg(long)]
    rebase: bool,
    /// Remote name
    #[arg(long, default_value = "origin")]
    remote: String,
}

impl Call<'_> {
    pub(super) fn remote(&self, command: &RemoteCommand) -> Outcome {
        let RemoteCommand::Set(set) = command;
        let yes = self.yes("Change the remote of the config repo?")?;
        let (at, request) = (&self.surroundings, &self.request);
        self.answer(commands::remote_set(at, request, &set.name, &set.url, yes)?, remote)
    }

    pub(super) fn sync(&self, words: &SyncWords) -> Outcome {
        let options = SyncOptions {
            remote: words.remote.clone(),
            rebase: words.rebase,
            dry_run: self.args.global.dry_run,
        };
        let yes = self.yes("Pull and push the config repo?")?;
        let answer = commands::sync(&self.surroundings, &self.request, &options, yes)?;
        let verb = if options.dry_run { "would call" } else { "called" };
        self.answer(answer, |data| synced(data, verb))
    }
}

fn remote(data: &RemoteData) -> String {
    format!("{} of {} leads to {}\n", data.remote, data.repo, data.url)
}

fn synced(data: &SyncData, verb: &str) -> String {
    let mut text = String::new();
    for command in &data.commands {
        writeln!(text, "{verb} {command}").expect("a string");
    }
    text
}
