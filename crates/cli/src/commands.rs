//! One file per verb: what it is given, what it asks the broker for, how it says the answer.

mod audit;
mod broker;
mod init;
mod placeholders;
mod proxy;
mod run;
mod secret;
mod source;
mod status;
mod unlock;

use std::process::ExitCode;

use clap::Parser;
use keyless_core::{Code, Error, SafeText};
use keyless_daemon::{
    Config, Places, Store,
    vault::{Factor, Passphrase, Vault},
};

use crate::{
    args::{Cli, Command, FactorArgs, RouteArgs},
    demo, prompt,
    ui::{Format, Ui},
};

/// Reads the command line and runs the verb.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(&error),
    };
    let ui = Ui::new(if cli.json { Format::Json } else { Format::Words });
    let name = name_of(&cli.command);
    keyless_daemon::harden();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let detail = SafeText::words("threads can't be started: ").and(error.kind());
            return ui.fail(name, &Error::with(Code::Internal, detail));
        }
    };
    let outcome = runtime.block_on(dispatch(&ui, cli.command));
    runtime.shutdown_background();
    outcome.unwrap_or_else(|error| ui.fail(name, &error))
}

/// What clap has to say: help and faults as it prints them, and faults as JSON where that is asked.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    let asked = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    if !asked || !error.use_stderr() {
        error.exit();
    }
    // Backticks, as in every other message; safe text would escape apostrophes.
    let text = error.to_string().replace('\'', "`");
    let fault = text.trim_start_matches("error: ").lines().take_while(|line| !line.is_empty());
    let words: Vec<&str> = fault.map(str::trim).collect();
    let detail = SafeText::default().as_they_wrote(&words.join(" "));
    Ui::new(Format::Json).fail("keyless", &Error::with(Code::Usage, detail))
}

async fn dispatch(ui: &Ui, command: Command) -> Result<ExitCode, Error> {
    match command {
        Command::Audit(command) => audit::run(ui, command).await,
        Command::Broker(args) => broker::run(ui, args).await,
        Command::Demo => demo::run(ui),
        Command::Init(args) => init::run(ui, args).await,
        Command::Lock => unlock::lock(ui).await,
        Command::Placeholders(args) => placeholders::run(&args),
        Command::Proxy(args) => proxy::run(ui, args).await,
        Command::Run(args) => run::run(ui, args).await,
        Command::Secret(command) => secret::run(ui, command).await,
        Command::Source(command) => source::run(ui, command).await,
        Command::Status => status::run(ui).await,
        Command::Unlock(args) => unlock::run(ui, args).await,
    }
}

fn name_of(command: &Command) -> &'static str {
    use crate::args::{AuditCommand, SecretCommand, SourceCommand};
    match command {
        Command::Audit(AuditCommand::Tail(_)) => "audit tail",
        Command::Audit(AuditCommand::Verify(_)) => "audit verify",
        Command::Broker(_) => "broker",
        Command::Demo => "demo",
        Command::Init(_) => "init",
        Command::Lock => "lock",
        Command::Placeholders(_) => "placeholders",
        Command::Proxy(_) => "proxy",
        Command::Run(_) => "run",
        Command::Secret(SecretCommand::Add(_)) => "secret add",
        Command::Secret(SecretCommand::List) => "secret list",
        Command::Secret(SecretCommand::Remove(_)) => "secret remove",
        Command::Secret(SecretCommand::Rotate(_)) => "secret rotate",
        Command::Secret(SecretCommand::Set(_)) => "secret set",
        Command::Secret(SecretCommand::Show(_)) => "secret show",
        Command::Source(SourceCommand::Check(_)) => "source check",
        Command::Source(SourceCommand::List) => "source list",
        Command::Status => "status",
        Command::Unlock(_) => "unlock",
    }
}

/// The store where the environment says, opened; not unlocked.
async fn open_store() -> Result<(Places, Store), Error> {
    let places = Places::from_environment()?;
    let store = keyless_daemon::open_store(&places).await?;
    Ok((places, store))
}

/// The vault, unlocked by the passphrase that the arguments, the environment or a person give.
async fn unlock_vault(factor: &FactorArgs) -> Result<(Places, Vault), Error> {
    let (places, store) = open_store().await?;
    let passphrase = prompt::passphrase(factor)?;
    let vault = Vault::unlock(store, Factor::Passphrase(Passphrase::new(passphrase))).await?;
    Ok((places, vault))
}

/// `config.toml` with the command line's routes and roots.
fn config(places: &Places, routes: &RouteArgs) -> Result<Config, Error> {
    let mut config = Config::load(&places.config_file())?;
    config.egress = config.egress.with_flags(&routes.connect_to, &routes.extra_root);
    Ok(config)
}
