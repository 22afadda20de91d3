//! One file per verb: what it is given, what it asks the broker for, how it says the answer.

mod action;
mod agent;
mod approve;
mod audit;
mod broker;
mod catalog;
mod completions;
mod delegation;
mod doctor;
mod egress;
mod forward;
mod grant;
mod guard;
mod hooks;
mod init;
mod manual;
mod mcp;
pub(crate) mod pack;
mod placeholders;
mod proxy;
mod run;
mod schema;
mod secret;
mod serve;
mod session;
mod setup;
mod slips;
mod source;
mod status;
mod ui;
mod unlock;
mod vault;
mod web;

use std::{
    fs::File,
    io::{self, Read as _},
    iter::successors,
    path::Path,
    process::ExitCode,
};

use clap::{ArgMatches, FromArgMatches as _, error::ErrorKind};
use keyless_core::{Code, Error, SafeText, action::MAX_BATCH, nl_message::MAX_MESSAGE_BYTES};
use keyless_daemon::{
    AgreedConfig, Config, Front, Leads, OlderBroker, Places, Store, check_place, ci, create_whole,
    path_unusable, read_variable, refuse_unset_clock, remember_passphrase_file,
    vault::{EnvName, Factor, Vault},
};
use zeroize::Zeroizing;

use crate::{
    args,
    args::{Cli, Command, FactorArgs, RouteArgs},
    demo, prompt,
    ui::{Format, Ui},
};

/// As much as a file with a request or a grant has, in bytes: a batch of whole messages.
const MAX_TEXT: u64 = (MAX_BATCH * MAX_MESSAGE_BYTES) as u64;

/// Reads the command line and runs the verb.
pub(crate) fn main() -> ExitCode {
    if pack::is_agentpack() {
        return pack::main_as_agentpack();
    }
    completions::answer_shell();
    let read = args::grouped()
        .try_get_matches()
        .and_then(|matches| Ok((name_of(&matches), Cli::from_arg_matches(&matches)?)));
    let (name, cli) = match read {
        Ok(read) => read,
        Err(error) => return refuse_arguments(error),
    };
    let ui = Ui::new(if cli.json { Format::Json } else { Format::Words });
    let ui = if cli.quiet { ui.hushed() } else { ui };
    if let Command::Pack(args) = &cli.command {
        return pack::run(&ui, args);
    }
    if cli.ci {
        ci::turn_on();
    }
    if ci::is_on() && needs_store(&cli.command) {
        return ui.fail(&name, &ci::refusal());
    }
    if let Err(error) = refuse_unset_clock()
        && !is_timeless(&cli.command)
    {
        return ui.fail(&name, &error);
    }
    if matches!(cli.command, Command::Broker(_)) {
        take_its_name();
    }
    if let Err(error) = close_memory(&cli.command) {
        return ui.fail(&name, &error);
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let detail = SafeText::words("threads can't be started: ").and(error.kind());
            return ui.fail(&name, &Error::with(Code::Internal, detail));
        }
    };
    let outcome = runtime.block_on(async {
        if is_operators(&cli.command) {
            keyless_daemon::refuse_inside_session()?;
        }
        match Box::pin(dispatch(&ui, cli.command)).await {
            Err(error) if error.code() == Code::SecretNotFound => {
                Err(slips::with_nearest(error).await)
            }
            other => other,
        }
    });
    runtime.shutdown_background();
    outcome.map_or_else(|error| ui.fail(&name, &error), Ui::done)
}

/// Closes this process's memory to others; one that holds values for long goes on in another, of which nobody has
/// anything open.
fn close_memory(command: &Command) -> Result<(), Error> {
    let front = match command {
        // `unlock`, which started it, waits for its word alone.
        Command::Broker(args) if args.factor_stdin => Front::Leaves,
        Command::Broker(args) if args.command.is_none() => Front::Stays,
        Command::Serve(args) if !args.stdio => Front::Stays,
        _ => {
            keyless_daemon::harden();
            return Ok(());
        }
    };
    keyless_daemon::harden_afresh(front)
}

/// What `pgrep`, `ss` and the kernel's words on a lack of memory call this process: its file's name otherwise, and a broker's
/// is `/proc/self/exe`.
fn take_its_name() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(c"keyless");
}

/// What clap has to say: help as it prints it, faults in the form that all have, or as JSON where that is asked.
fn refuse_arguments(error: clap::Error) -> ExitCode {
    let asked = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !error.use_stderr() || is_help && !asked {
        error.exit();
    }
    let written = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let verb = verb_of(written);
    if let Some(slips::ValueAsArgument { fault, next }) = slips::value_as_argument(&error, &verb) {
        if !asked {
            return Ui::refusal(&verb, &format!("{fault}\n\n  {next}"));
        }
        let error = Error::with(Code::Usage, SafeText::default().as_they_wrote(&fault));
        return Ui::new(Format::Json).fail_leading_to(&verb, &error, &next);
    }
    let error = slips::with_likeliest(error, &verb);
    if !asked {
        let text = in_plain_words(&error.to_string());
        // How clap ends; the next step stands in its place, as behind every other fault.
        let fault = text.split("\n\nFor more information").next().unwrap_or_default();
        let fault = fault.trim_start_matches("error: ").trim_end();
        return Ui::refusal(&verb, fault);
    }
    // Backticks, as in every other message; safe text would escape apostrophes.
    let text = in_plain_words(&error.to_string()).replace('\'', "`");
    let fault = text.trim_start_matches("error: ").lines().take_while(|line| !line.is_empty());
    let words: Vec<&str> = fault.map(str::trim).collect();
    let detail = SafeText::default().as_they_wrote(&words.join(" "));
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let detail = tip.into_iter().fold(detail, |detail, tip| detail.and("; ").as_they_wrote(tip));
    Ui::new(Format::Json).fail(&verb, &Error::with(Code::Usage, detail))
}

/// The words of the standard library and of clap about numbers, as a person would say them.
fn in_plain_words(fault: &str) -> String {
    fault
        .replace(": invalid digit found in string", ": it is no whole number")
        .replace(": cannot parse integer from empty string", ": it is no whole number")
        .replace(": number too large to fit in target type", ": it is too large")
        .replace(": number would be zero for non-zero type", ": it has to be 1 or more")
        .replace(" is not in 1..18446744073709551615", " is too small: it has to be 1 or more")
        .replace(" is not in 1..=4294967295", " is too small: it has to be 1 or more")
        .replace(" is not in 1..4294967295", " is too small: it has to be 1 or more")
}

/// The verb that the command line names, as far as it can be read; `keyless` where it names none.
fn verb_of(words: impl Iterator<Item = String>) -> String {
    let all = args::grouped();
    let (mut command, mut verb) = (&all, Vec::new());
    for word in words.filter(|word| !word.starts_with('-')) {
        let Some(inner) = command.find_subcommand(&word) else { break };
        verb.push(word);
        command = inner;
    }
    if verb.is_empty() { "keyless".to_owned() } else { verb.join(" ") }
}

/// Whether a command is nothing without a store or a person.
fn needs_store(command: &Command) -> bool {
    match command {
        Command::Action(_)
        | Command::Agent(_)
        | Command::Approve(_)
        | Command::Audit(_)
        | Command::Broker(_)
        | Command::Delegation(_)
        | Command::Exec(_)
        | Command::Grant(_)
        | Command::Init(_)
        | Command::Lock
        | Command::Secret(_)
        | Command::Serve(_)
        | Command::Session(_)
        | Command::Source(_)
        | Command::Ui(_)
        | Command::Unlock(_)
        | Command::Vault(_)
        | Command::Web(_) => true,
        Command::Catalog(_)
        | Command::Completions(_)
        | Command::Demo
        | Command::Doctor
        | Command::Egress(_)
        | Command::Forward(_)
        | Command::Guard(_)
        | Command::Hooks(_)
        | Command::Manual(_)
        | Command::Mcp(_)
        | Command::Pack(_)
        | Command::Placeholders(_)
        | Command::Proxy(_)
        | Command::Run(_)
        | Command::Schema(_)
        | Command::Setup(_)
        | Command::Status => false,
    }
}

/// Whether a command is the operator's, who runs it outside of agents' sessions: in one it would find no store, and say
/// what is not so, or one that was not hidden. The bridge to the broker is the agent's own.
fn is_operators(command: &Command) -> bool {
    needs_store(command) && !matches!(command, Command::Serve(args) if args.stdio)
}

/// Whether a command makes nothing that bears a time: it tells of a clock that is not set, or of words alone.
fn is_timeless(command: &Command) -> bool {
    matches!(
        command,
        Command::Completions(_)
            | Command::Doctor
            | Command::Manual(_)
            | Command::Schema(_)
            | Command::Status
    )
}

async fn dispatch(ui: &Ui, command: Command) -> Result<ExitCode, Error> {
    match command {
        Command::Action(command) => action::run(ui, command).await,
        Command::Agent(command) => agent::run(ui, command).await,
        Command::Approve(args) => Box::pin(approve::run(ui, args)).await,
        Command::Audit(command) => audit::run(ui, command).await,
        Command::Broker(args) => broker::run(ui, args).await,
        Command::Catalog(command) => catalog::run(ui, command).await,
        Command::Completions(args) => completions::run(ui, &args),
        Command::Delegation(command) => delegation::run(ui, command).await,
        Command::Demo => demo::run(ui),
        Command::Doctor => doctor::run(ui).await,
        Command::Egress(command) => egress::run(ui, command).await,
        Command::Exec(args) => action::exec(ui, args).await,
        Command::Forward(args) => forward::run(ui, args).await,
        Command::Grant(command) => grant::run(ui, command).await,
        Command::Guard(command) => guard::run(ui, command),
        Command::Hooks(command) => hooks::run(ui, command).await,
        Command::Init(args) => init::run(ui, args).await,
        Command::Lock => unlock::lock(ui).await,
        Command::Manual(args) => manual::run(ui, &args),
        Command::Mcp(args) => mcp::run(ui, args).await,
        Command::Pack(args) => Ok(pack::run(ui, &args)),
        Command::Placeholders(args) => placeholders::run(ui, &args),
        Command::Proxy(args) => proxy::run(ui, args).await,
        Command::Run(args) => run::run(ui, args).await,
        Command::Secret(command) => secret::run(ui, command).await,
        Command::Schema(args) => schema::run(ui, &args),
        Command::Serve(args) => serve::run(ui, args).await,
        Command::Session(command) => session::run(ui, command).await,
        Command::Setup(args) => setup::run(ui, args).await,
        Command::Source(command) => source::run(ui, command).await,
        Command::Status => status::run(ui).await,
        Command::Ui(args) => ui::run(ui, args).await,
        Command::Unlock(args) => unlock::run(ui, args).await,
        Command::Vault(command) => vault::run(ui, command).await,
        Command::Web(args) => web::run(ui, args).await,
    }
}

/// The verb as an answer names it, `secret add`.
fn name_of(matches: &ArgMatches) -> String {
    let words = successors(matches.subcommand(), |(_, below)| below.subcommand());
    words.map(|(word, _)| word).collect::<Vec<_>>().join(" ")
}

/// The store where the environment says, opened; not unlocked.
async fn open_store() -> Result<(Places, Store), Error> {
    keyless_daemon::refuse_inside_session()?;
    let places = Places::from_environment()?;
    let store = keyless_daemon::open_store(&places).await?;
    keyless_daemon::note_home(&places);
    Ok((places, store))
}

/// As [`open_store`], for what goes by nothing of `config.toml` but where the store is: a fault elsewhere in it is a warning.
async fn open_sure_store(ui: &Ui) -> Result<(Places, Store), Error> {
    keyless_daemon::refuse_inside_session()?;
    let places = Places::from_environment()?;
    let (store, fault) = keyless_daemon::open_sure_store(&places).await?;
    if let Some(fault) = &fault {
        warn_of_config(ui, &fault.message(), fault.code().remediation().action);
    }
    keyless_daemon::note_home(&places);
    Ok((places, store))
}

/// Says that the file is passed over. `fault` is a message, with its full stop.
fn warn_of_config(ui: &Ui, fault: &str, next: &str) {
    ui.warn(format!("config.toml as it lies there is not in force: {fault} Next: {next}"));
}

/// The vault as the proof to a broker that runs, which goes by the `config.toml` that it took up last: a fault in the file
/// since then is a warning. Without such a broker it is as [`unlock_vault`].
async fn unlock_beside_broker(ui: &Ui, factor: &FactorArgs) -> Result<(Places, Vault), Error> {
    let places = Places::from_environment()?;
    let fault = Config::load(&places.config_file()).err();
    let Some(fault) = fault else { return unlock_vault(factor).await };
    let status = keyless_daemon::service_status(&places.agent_socket()).await?;
    if status.is_none_or(|status| status.locked) {
        return Err(fault);
    }
    let (places, store) = open_sure_store(ui).await?;
    let vault = opened_vault(store, factor, || prompt::factor(factor)).await?;
    Ok((places, vault))
}

/// The vault, unlocked by what the arguments, the environment or a person give.
async fn unlock_vault(factor: &FactorArgs) -> Result<(Places, Vault), Error> {
    let (places, store) = open_store().await?;
    unlock_opened(places, store, factor).await
}

/// The vault of an open store, unlocked in the same way.
async fn unlock_opened(
    places: Places,
    store: Store,
    factor: &FactorArgs,
) -> Result<(Places, Vault), Error> {
    let vault = opened_vault(store, factor, || prompt::factor(factor)).await?;
    let config = have_agreed(&places, &vault, Config::load(&places.config_file())?, factor).await?;
    let vault = keyless_daemon::with_sources(vault, &places, &config)?;
    Ok((places, vault))
}

/// Opens the vault of `store`; who types what opens it may do so again where it was wrong.
async fn opened_vault(
    store: Store,
    args: &FactorArgs,
    mut factor: impl FnMut() -> Result<Factor, Error>,
) -> Result<Vault, Error> {
    let is_wrong = |code| {
        matches!(code, Code::WrongFactor | Code::WrongPassphrase | Code::WrongRecoveryPhrase)
    };
    let mut tries = prompt::Tries::of(prompt::factor_file(args).is_none());
    loop {
        match keyless_daemon::open_vault(store.clone(), factor()?).await {
            Err(error) if tries.again(&error, is_wrong) => {}
            opened => return opened,
        }
    }
}

/// Has whoever opened the vault agree to where config.toml, sources.toml and the catalog lead values, where nobody has before: a
/// person who typed the factor is asked, a factor from a file is the word for it.
async fn have_agreed(
    places: &Places,
    vault: &Vault,
    config: Config,
    factor: &FactorArgs,
) -> Result<AgreedConfig, Error> {
    let leads = Leads::of(places, config);
    let new = leads.new_lines(places, vault).await?;
    if let Some(first) = new.first()
        && prompt::factor_file(factor).is_none()
    {
        let lines: Vec<String> = new.iter().map(|line| approve::visible(line)).collect();
        let question = format!(
            "config.toml, sources.toml and the catalog lead values where nobody has agreed to yet:\n  {}\nIs that yours? [y/N] ",
            lines.join("\n  ")
        );
        if !matches!(prompt::line(&question)?.trim(), "y" | "Y" | "yes") {
            let words = SafeText::default().as_they_wrote(first);
            return Err(Error::with(Code::ConfigUnagreed, words));
        }
    }
    Box::pin(keyless_daemon::agree(places, vault, leads)).await
}

/// Writes a new file for its owner alone; never over one that is there.
fn write_private(file: &Path, text: &[u8]) -> Result<(), Error> {
    create_whole(file, text, 0o600).map_err(|error| unwritable(file, &error))
}

/// That a new file finds no place: what is not there is its folder.
pub(crate) fn unwritable(file: &Path, error: &io::Error) -> Error {
    if error.kind() != io::ErrorKind::NotFound {
        return path_unusable(file, error);
    }
    let place = SafeText::default().as_they_wrote(&file.to_string_lossy());
    Error::with(Code::PathUnusable, place.and(": the folder for it is not there; make it first"))
}

/// The JSON text in a file or a pipe, or on standard input for `-`.
fn read_text(file: &Path) -> Result<String, Error> {
    let mut text = String::new();
    let most = MAX_TEXT + 1;
    let read = if file == Path::new("-") {
        io::stdin().take(most).read_to_string(&mut text)
    } else {
        File::open(file).and_then(|file| file.take(most).read_to_string(&mut text))
    };
    match read {
        Ok(count) if count as u64 <= MAX_TEXT => Ok(text),
        Ok(_) => Err(path_unusable(file, &io::Error::from(io::ErrorKind::FileTooLarge))),
        Err(error) => Err(path_unusable(file, &error)),
    }
}

/// Writes what opens the store into such a file, which no agent gets to see that begins from then on.
fn write_opener(ui: &Ui, places: &Places, file: &Path, text: &str) -> Result<(), Error> {
    // What is there already is somebody's, and goes on being seen.
    check_private(Some(file))?;
    warn_of_open_runs(ui, file);
    remember_passphrase_file(places, file);
    let line = Zeroizing::new(format!("{text}\n"));
    write_private(file, line.as_bytes())
}

/// What was made before it began a command in a jail does not see; of what is made now it may have a copy.
fn warn_of_open_runs(ui: &Ui, place: &Path) {
    if keyless_daemon::open_runs_see(place) {
        ui.warn(format!(
            "a command of keyless run is open on this account, began before {} was there, and may read it: end that first, \
             or have this where Keyless keeps its own",
            place.display()
        ));
    }
}

/// Whether [`write_private`] will find a place, before what it is to write is made: nobody sees that twice.
fn check_private(file: Option<&Path>) -> Result<(), Error> {
    file.map_or(Ok(()), |file| check_place(file).map_err(|error| unwritable(file, &error)))
}

/// The variable that an option names.
fn variable_named(name: &str) -> Result<EnvName, Error> {
    read_variable(name).map_err(|error| Error::with(Code::Usage, error.detail().clone()))
}

/// `config.toml` with the command line's routes and roots.
fn config(places: &Places, routes: &RouteArgs) -> Result<Config, Error> {
    let RouteArgs { connect_to, extra_root } = routes;
    Config::load(&places.config_file())?.with_flags(connect_to, extra_root)
}

/// What helps where a broker is not found as those of this version are.
fn older_broker(older: &OlderBroker) -> String {
    let next = match older.status {
        Some(_) => "keyless lock ends it, and keyless unlock starts one of this version",
        None => &older.next(),
    };
    format!("{}: {next}", older.in_words())
}

/// An update of the program leaves the broker that runs as it is, with the faults that the update mends.
fn other_version(other: &str) -> String {
    let ours = env!("CARGO_PKG_VERSION");
    format!(
        "the broker that runs is {other}, this is keyless {ours}: keyless lock, then keyless unlock, starts it anew"
    )
}
