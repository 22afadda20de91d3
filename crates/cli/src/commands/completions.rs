//! `keyless completions`: what a shell sources, and the answers when it asks.
//!
//! The shell asks this program at every Tab, so that paths are those of the store at that moment. They are
//! metadata: no key is needed, and no value is near.

use std::{any::TypeId, process::ExitCode};

use clap::{Arg, Command, CommandFactory};
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCandidates, CompletionCandidate},
    env::Shells,
};
use keyless_core::{Code, Error, SecretPath};
use keyless_daemon::Places;

use crate::{
    args::{Cli, CompletionsArgs, ShellWord},
    ui::Ui,
};

/// Set by what the shell sources.
const VARIABLE: &str = "KEYLESS_COMPLETE";
const NAME: &str = "keyless";

/// Answers a shell that asks, and ends; returns when none does.
pub(super) fn answer_shell() {
    CompleteEnv::with_factory(command).var(VARIABLE).bin(NAME).complete();
}

pub(super) fn run(ui: &Ui, args: &CompletionsArgs) -> Result<ExitCode, Error> {
    let shells = Shells::builtins();
    let shell = shells.completer(name(args.shell)).ok_or(Code::Internal)?;
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, NAME, NAME, NAME, &mut script)
        .map_err(|_| Error::new(Code::Internal))?;
    let script = String::from_utf8_lossy(&script).into_owned();
    ui.answer("completions", &serde_json::json!({ "script": script }), &script);
    Ok(ExitCode::SUCCESS)
}

/// The command line, where every path of a secret is completed from the store.
fn command() -> Command {
    with_paths(Cli::command())
}

fn with_paths(command: Command) -> Command {
    command.mut_args(with_candidates).mut_subcommands(with_paths)
}

fn with_candidates(arg: Arg) -> Arg {
    if arg.get_value_parser().type_id() == TypeId::of::<SecretPath>() {
        return arg.add(ArgValueCandidates::new(paths));
    }
    arg
}

/// The paths in the store; none when it can't be read.
fn paths() -> Vec<CompletionCandidate> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Ok(runtime), Ok(places)) = (runtime, Places::from_environment()) else {
        return Vec::new();
    };
    let secrets = runtime.block_on(async {
        keyless_daemon::refuse_inside_session()?;
        let store = keyless_daemon::open_store(&places).await?;
        keyless_daemon::list_secrets(&store).await
    });
    let candidates = secrets.into_iter().flatten().map(|secret| {
        let help = secret.metadata.description.map(Into::into);
        CompletionCandidate::new(secret.path.as_str()).help(help)
    });
    candidates.collect()
}

fn name(shell: ShellWord) -> &'static str {
    match shell {
        ShellWord::Bash => "bash",
        ShellWord::Elvish => "elvish",
        ShellWord::Fish => "fish",
        ShellWord::Zsh => "zsh",
    }
}
