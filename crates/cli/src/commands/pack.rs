//! `keyless pack …`, and the same as `agentpack …` when the binary is called so: agentpack's command line.
//!
//! Everything is decided in `keyless-pack`; here are arguments, questions and words. Answers for machines are
//! the pack's own envelopes, exit statuses are agentpack's: 0, 1 for errors, 2 for arguments.

mod adopt;
mod args;
mod catalog;
mod events;
mod import;
mod init;
mod overlay;
mod person;
mod policy;
mod share;
pub(crate) mod tools;
mod words;

use std::{
    env,
    io::{IsTerminal as _, stdin},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{CommandFactory as _, Parser as _};
use keyless_daemon::{
    AgreedBy, DeployBy, Places,
    vault::{Provider, Providers, Variant},
};
use keyless_pack::{
    Answer, CommandId, Doctor, DriftKind, Envelope, PackError, PlaintextToken, ProposeOptions,
    Request, Surroundings, TokenForm, TokenForms, Unwatched, UpdateOptions,
    commands::{self, DeployOptions, ForReview},
    scan,
};
use serde::Serialize;
use tokio::runtime::Runtime;

pub(crate) use self::args::PackArgs;
use self::args::{AgentpackCli, EvolveCommand, ExplainCommand, McpCommand, PackCommand};
use crate::{
    prompt,
    rows::fitted,
    ui::{Format, Ui},
};

type Outcome = Result<(), PackError>;

/// Whether the binary was called by agentpack's name.
pub(crate) fn is_agentpack() -> bool {
    let name = env::args_os().next();
    name.is_some_and(|name| Path::new(&name).file_name().is_some_and(|name| name == "agentpack"))
}

/// Advice as this program's user would type it; agentpack's own words stay in JSON.
fn for_people(advice: &str) -> String {
    let advice = advice.replace(" --json", "");
    if is_agentpack() { advice } else { advice.replace("agentpack ", "keyless pack ") }
}

/// `agentpack …`.
pub(crate) fn main_as_agentpack() -> ExitCode {
    let cli = AgentpackCli::parse();
    let ui = Ui::new(if cli.json { Format::Json } else { Format::Words });
    run(&ui, &cli.pack)
}

/// `keyless pack …`.
pub(crate) fn run(ui: &Ui, args: &PackArgs) -> ExitCode {
    let id = args.command.id(args.global.dry_run);
    let surroundings = surroundings(None, token_forms(), DeployBy::CommandLine);
    let outcome = surroundings.and_then(|surroundings| {
        let call = Call { ui, args, id, surroundings, request: args.global.request() };
        call.dispatch()
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // A person, or the answer in a pipe, said no, and that is what they wanted.
        Err(error) if error.code() == keyless_pack::Code::ConfirmRequired && !ui.is_json() => {
            ui.line("Nothing was written. (A script says yes with --yes.)");
            ExitCode::SUCCESS
        }
        Err(error) => {
            // On the stdout of `mcp serve` is nothing but protocol.
            if ui.is_json() && !matches!(args.command, PackCommand::Mcp(_)) {
                ui.machine(&Envelope::failure(id, &error).text());
            } else {
                words::error(&error);
            }
            ExitCode::FAILURE
        }
    }
}

/// The environment, the token catalog that is in force here, and who may have to allow a deploy.
fn surroundings(
    cwd: Option<PathBuf>,
    forms: TokenForms,
    by: DeployBy,
) -> Result<Surroundings, PackError> {
    let gate = person::gate(by);
    Ok(Surroundings { forms, gate, ..Surroundings::from_process(cwd)? })
}

/// What tokens look like; read when a module is first looked at.
pub(crate) fn token_forms() -> TokenForms {
    TokenForms::new(|| {
        let places = Places::from_environment();
        let providers =
            places.and_then(|places| keyless_daemon::providers(&places, AgreedBy::File));
        let providers = providers.unwrap_or_else(|_| Providers::bundled());
        let names = |provider: &Provider, variant: &Variant| {
            let own = variant.env_var.iter().map(|name| name.as_str().to_owned());
            let patterns = provider.env_var_patterns.iter();
            let globs = patterns.filter(|pattern| pattern.variant == variant.id);
            own.chain(globs.flat_map(|pattern| pattern.matches.clone())).collect()
        };
        let form = |provider: &Provider, variant: &Variant| {
            Some(TokenForm {
                pattern: variant.id.clone(),
                kind: format!("{}: {}", provider.display_name, variant.display_name),
                format: variant.format_regex.clone()?,
                names: names(provider, variant),
            })
        };
        let mut forms = Vec::new();
        for (_, provider) in providers.iter() {
            forms.extend(provider.variants.iter().filter_map(|variant| form(provider, variant)));
        }
        forms
    })
}

/// Credentials in the settings of agents and editors, of this user and of the project that `folder` lies in.
pub(crate) fn plaintext_tokens(folder: &Path) -> Result<Vec<PlaintextToken>, PackError> {
    let by = DeployBy::CommandLine;
    let surroundings = surroundings(Some(folder.to_owned()), token_forms(), by)?;
    Ok(commands::plaintext_tokens(&surroundings, &Request::default()))
}

/// Whether a line of a file holds what looks like a credential.
pub(crate) fn looks_secret() -> impl Fn(&str) -> bool {
    let forms = token_forms();
    move |line| !scan("", line.as_bytes(), &forms).is_empty()
}

fn runtime() -> Result<Runtime, PackError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| {
        let message = format!("threads can't be started: {error}");
        PackError::new(keyless_pack::Code::Unexpected, message)
    })
}

/// One call: what it was given, and where its answer goes.
struct Call<'c> {
    ui: &'c Ui,
    args: &'c PackArgs,
    id: CommandId,
    surroundings: Surroundings,
    request: Request,
}

impl Call<'_> {
    fn dispatch(&self) -> Outcome {
        let (at, request) = (&self.surroundings, &self.request);
        let dry_run = self.args.global.dry_run;
        if dry_run && !self.args.command.heeds_dry_run() {
            return Err(no_dry_run(self.id));
        }
        match &self.args.command {
            PackCommand::Add(add) => {
                let yes = self.yes("Add the module to agentpack.yaml?")?;
                self.answer(commands::add(at, request, &add.options(), yes)?, words::module)
            }
            PackCommand::AdoptSecret(adopt) => self.adopt(adopt),
            PackCommand::Bootstrap(bootstrap) => self.bootstrap(bootstrap),
            PackCommand::Completions(_) if self.ui.is_json() => {
                let message = "completions prints a script, which --json is none of";
                let error = PackError::new(keyless_pack::Code::Unexpected, message);
                Err(error.hint("run it without that option"))
            }
            PackCommand::Completions(shell) => {
                let mut command = AgentpackCli::command();
                shell.print(&mut command);
                Ok(())
            }
            PackCommand::Deploy(deploy) => self.deploy(deploy.apply, deploy.adopt),
            PackCommand::Diff => {
                if self.ui.is_json() {
                    return self.answer(commands::plan(at, request)?, words::plan);
                }
                self.answer(commands::preview(at, request, true)?, words::preview)
            }
            PackCommand::Doctor(doctor) if doctor.fix => {
                let yes = self.yes("Add a line to .gitignore, and undo what was interrupted?")?;
                commands::confirmed(yes, "doctor --fix")?;
                let how = if dry_run { Doctor::Look } else { Doctor::Mend };
                self.answer(commands::doctor(at, request, how, yes)?, words::doctor)
            }
            PackCommand::Doctor(_) => {
                self.answer(commands::doctor(at, request, Doctor::Look, false)?, words::doctor)
            }
            PackCommand::Evolve(command) => self.evolve(command),
            PackCommand::Explain(ExplainCommand::Diff | ExplainCommand::Plan) => {
                self.answer(commands::explain_plan(at, request)?, words::explain_plan)
            }
            PackCommand::Explain(ExplainCommand::Status) => {
                self.answer(commands::explain_status(at, request)?, words::explain_status)
            }
            PackCommand::Fetch => {
                let yes = self.yes("Fetch git modules into the cache?")?;
                self.answer(commands::fetch(at, request, yes)?, words::fetch)
            }
            PackCommand::Help(help) => {
                let catalog = catalog::catalog();
                if help.markdown && !self.ui.is_json() {
                    self.ui.line(catalog.markdown().trim_end());
                    return Ok(());
                }
                self.answer(Answer::new(catalog), catalog::Catalog::words)
            }
            PackCommand::Import(words) => self.import(words),
            PackCommand::Init(init) => self.init(init),
            PackCommand::Lock => {
                let yes = self.yes("Write agentpack.lock.json?")?;
                self.answer(commands::lock(at, request, yes)?, words::lock)
            }
            PackCommand::Mcp(McpCommand::Serve) => self.serve(),
            PackCommand::Overlay(command) => self.overlay(command),
            PackCommand::Plan => self.answer(commands::plan(at, request)?, words::plan),
            PackCommand::Policy(command) => self.policy(command),
            PackCommand::Preview(preview) => {
                self.answer(commands::preview(at, request, preview.diff)?, words::preview)
            }
            PackCommand::Record => self.record(),
            PackCommand::Remote(command) => self.remote(command),
            PackCommand::Remove(remove) => {
                let yes = self.yes("Remove the module from agentpack.yaml?")?;
                self.answer(commands::remove(at, request, &remove.module_id, yes)?, words::module)
            }
            PackCommand::Rollback(rollback) => self.rollback(&rollback.to),
            PackCommand::Schema => {
                self.answer(Answer::new(catalog::schema()), catalog::schema_words)
            }
            PackCommand::Score => self.score(),
            PackCommand::Status(status) => {
                let only: Vec<DriftKind> = status.only.iter().map(|kind| (*kind).into()).collect();
                self.answer(commands::status(at, request, &only)?, words::status)
            }
            PackCommand::Sync(words) => self.sync(words),
            PackCommand::Update(update) => {
                let yes = self.yes("Lock where needed, and fetch?")?;
                let options = UpdateOptions {
                    lock: update.lock.then_some(true).or(update.no_lock.then_some(false)),
                    fetch: update.fetch.then_some(true).or(update.no_fetch.then_some(false)),
                };
                self.answer(commands::update(at, request, options, yes)?, words::update)
            }
        }
    }

    fn deploy(&self, apply: bool, adopt: bool) -> Outcome {
        let (at, request, dry_run) = (&self.surroundings, &self.request, self.args.global.dry_run);
        let mut options = DeployOptions { apply, adopt, yes: self.args.global.yes, dry_run };
        if apply && !dry_run && !options.yes && !self.ui.is_json() {
            // A person sees the diff first, and then says yes to it.
            let review = commands::preview_for_review(at, request)?;
            options.yes = !review.writes || self.reviewed(&review)?;
            let hash = &review.plan_hash;
            let done = commands::deploy_reviewed(at, request, options, hash, &Unwatched)?;
            return self.answer(done, words::deploy);
        }
        self.answer(commands::deploy(at, request, options, &Unwatched)?, words::deploy)
    }

    /// What a person says to what a deploy would write, once they have seen it.
    fn reviewed(&self, review: &ForReview) -> Result<bool, PackError> {
        let preview = &review.preview.data;
        self.ui.line(&fitted(words::preview(preview).trim_end()));
        self.plain_yes(if preview.plan.changes.is_empty() {
            "Write the list of what is deployed into each root?"
        } else {
            "Apply these changes?"
        })
    }

    fn evolve(&self, command: &EvolveCommand) -> Outcome {
        let (at, request, dry_run) = (&self.surroundings, &self.request, self.args.global.dry_run);
        match command {
            EvolveCommand::Propose(propose) => {
                let options = ProposeOptions {
                    module_id: propose.module_id.clone(),
                    scope: propose.scope.into(),
                    branch: propose.branch.clone(),
                    dry_run,
                    yes: dry_run
                        || self.plain_yes("Commit the edits as overlays on a new branch?")?,
                };
                self.answer(commands::evolve_propose(at, request, &options)?, words::propose)
            }
            EvolveCommand::Restore(restore) => {
                let yes = dry_run || self.plain_yes("Put missing files back?")?;
                let module = restore.module_id.as_deref();
                self.answer(
                    commands::evolve_restore(at, request, module, dry_run, yes)?,
                    words::restore,
                )
            }
        }
    }

    fn rollback(&self, to: &str) -> Outcome {
        let (at, request) = (&self.surroundings, &self.request);
        if self.args.global.dry_run {
            let answer = commands::rollback_preview(at, request, to)?;
            return self.answer(answer, words::rollback_preview);
        }
        let yes = self.yes("Roll back? What is overwritten is backed up.")?;
        self.answer(commands::rollback(at, request, to, yes, &Unwatched)?, words::rollback)
    }

    /// Tools for agents; nothing else may be on stdout.
    fn serve(&self) -> Outcome {
        let unable = |words: String| PackError::new(keyless_pack::Code::Unexpected, words);
        if self.ui.is_json() {
            let fault = unable("mcp serve speaks the protocol, which --json is none of".to_owned());
            return Err(fault.hint("run it without that option"));
        }
        let runtime = runtime()?;
        let served = runtime.block_on(tools::serve(self.request.clone()));
        // Reading stdin can't be broken off.
        runtime.shutdown_background();
        served.map_err(|error| unable(error.message()))
    }

    /// A yes to writing into the config repo or the cache: a machine must give the option, a person is asked,
    /// and a script that reads words may go on, as agentpack lets it.
    fn yes(&self, question: &str) -> Result<bool, PackError> {
        if !self.ui.is_json() && !stdin().is_terminal() {
            return Ok(true);
        }
        self.plain_yes(question)
    }

    /// A yes to writing where agents read: the option says it, a person, or whoever answers in a pipe.
    fn plain_yes(&self, question: &str) -> Result<bool, PackError> {
        let by_option = self.args.global.yes;
        if by_option || self.ui.is_json() {
            return Ok(by_option);
        }
        if stdin().is_terminal() { ask(question) } else { piped_yes(question) }
    }

    /// Prints a payload: as an envelope, or in words.
    #[expect(clippy::unnecessary_wraps, reason = "every verb ends with it, as its outcome")]
    fn answer<T: Serialize>(&self, answer: Answer<T>, words: impl Fn(&T) -> String) -> Outcome {
        if self.ui.is_json() {
            self.ui.machine(&Envelope::success(self.id, answer).text());
        } else {
            for warning in &answer.warnings {
                self.ui.warn(for_people(warning));
            }
            self.ui.line(&fitted(words(&answer.data).trim_end()));
        }
        Ok(())
    }
}

fn no_dry_run(id: CommandId) -> PackError {
    let message = format!("`{}` writes, and can't say beforehand what; nothing was done", id.id());
    PackError::new(keyless_pack::Code::ArgumentsInvalid, message)
        .with("command", id.id())
        .hint("leave --dry-run away")
}

/// `yes | agentpack …`, as agentpack takes it. Where nobody answers at all, a script would go on as if it were done.
fn piped_yes(question: &str) -> Result<bool, PackError> {
    let mut answer = String::new();
    if let Ok(1..) = stdin().read_line(&mut answer) {
        return Ok(matches!(answer.trim(), "y" | "Y" | "yes"));
    }
    let message = format!("nobody is there to answer, so nothing was written: {question}");
    let error = PackError::new(keyless_pack::Code::TtyRequired, message);
    Err(error.hint("add --yes, or run it in a terminal"))
}

fn ask(question: &str) -> Result<bool, PackError> {
    prompt::confirm(question).map_err(|error| {
        PackError::new(keyless_pack::Code::TtyRequired, error.to_string()).hint("answer with --yes")
    })
}
