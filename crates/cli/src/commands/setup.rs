//! `keyless setup`: a project's variables become secrets with paths. Five steps, each of which can be left and taken
//! up again; with `--json` a line for each.

mod provision;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use keyless_core::{Code, Error, SecretPath};
use keyless_daemon::{
    AgreedBy, Places, ci, counted,
    doctor::{Check, CheckState},
    manifest_of, path_unusable,
    setup::{
        Existing, Judged, Proposer, Scan, SetupState, Step, StepStatus, is_taken_from, scan,
        write_manifest,
    },
    vault::{Manifest, Providers},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{catalog::warn_of_faults, doctor, init, pack::looks_secret};
use crate::{
    args::SetupArgs,
    prompt,
    ui::{Ui, table},
    visible::one_line,
};

/// The checks whose findings leave the setting up unfinished, without being a fault.
const UNFINISHED: [&str; 4] =
    ["project.hosts", doctor::UNREADABLE, "project.values", "store.variables"];
/// The check of the settings of agents and editors, of which the project's own are told.
const CLIENTS: &str = "clients.tokens";
/// Places that are told by name; the JSON line has all.
const NAMED: usize = 3;

pub(super) async fn run(ui: &Ui, args: SetupArgs) -> Result<ExitCode, Error> {
    ui.answer_in_lines();
    let setup = Setup::new(ui, args)?;
    let providers = keyless_daemon::project_providers(&setup.places, &setup.root, AgreedBy::File)?;
    warn_of_faults(ui, &providers);
    let looks = looks_secret();
    setup.run(&setup.proposer(&providers, &looks)).await
}

/// One run, and where it works.
struct Setup<'u> {
    ui: &'u Ui,
    args: SetupArgs,
    places: Places,
    root: PathBuf,
}

/// What a step came to.
struct Came {
    status: StepStatus,
    summary: String,
    data: Value,
    /// The person wanted it not, or not yet: they are asked again.
    is_open: bool,
}

/// What is used of the store by names alone, with its variables, and all that has a value there.
#[derive(Default)]
struct Reuse {
    paths: BTreeMap<SecretPath, Vec<String>>,
    stored: BTreeSet<SecretPath>,
}

/// The step that leaves the setting up unfinished.
#[derive(Clone, Copy)]
enum Unfinished {
    Failed(Step),
    /// The person wanted it not.
    Declined(Step),
}

/// Whose word a manifest is: one that this setting up wrote is changed by it too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    ByOthers,
    BySetup,
}

impl<'u> Setup<'u> {
    fn new(ui: &'u Ui, args: SetupArgs) -> Result<Self, Error> {
        let here = || Manifest::project_of(&PathBuf::from(".").canonicalize().ok()?);
        let above = if args.root.is_none() { here() } else { None };
        let root = args.root.clone().or(above).unwrap_or_else(|| PathBuf::from("."));
        let unusable = |error: io::Error| path_unusable(&root, &error);
        let real = root.canonicalize().map_err(unusable)?;
        if !real.is_dir() {
            return Err(unusable(io::ErrorKind::NotADirectory.into()));
        }
        Ok(Self { ui, args, places: Places::from_environment()?, root: real })
    }

    fn proposer<'a>(
        &self,
        providers: &'a Providers,
        looks: &'a dyn Fn(&str) -> bool,
    ) -> Proposer<'a> {
        Proposer::new(
            providers,
            &self.root.file_name().unwrap_or_default().to_string_lossy(),
            looks,
        )
    }

    async fn run(&self, proposer: &Proposer<'_>) -> Result<ExitCode, Error> {
        let mut state = if self.args.resume {
            SetupState::resume(&self.places, &self.root)
        } else {
            SetupState::fresh(&self.places, &self.root)
        };
        let last = if self.args.scan_only {
            Step::Propose
        } else if self.args.write_manifest {
            Step::Manifest
        } else {
            Step::Doctor
        };
        // One that was written and is gone is nobody's work done.
        let is_over = |state: &SetupState, step: Step| {
            let is_there = || self.manifest_place().exists();
            state.is_over(step) && (step != Step::Manifest || !state.is_done(step) || is_there())
        };
        let manifest_is_over = is_over(&state, Step::Manifest);
        let mut found = scan(&self.root, proposer);
        if last == Step::Doctor
            && let Some(status) = self.without_store(&found).await?
        {
            return Ok(status);
        }
        let reuse = if manifest_is_over || self.keeps_manifest() {
            Reuse::default()
        } else {
            self.reuse(&found).await
        };
        let mut unfinished = None;
        for step in [Step::Scan, Step::Propose, Step::Manifest, Step::Provision, Step::Doctor] {
            let tell = |found: &Scan, came: &Came| {
                if step == last && last != Step::Doctor {
                    self.warn_of_raw(found, &[]);
                    self.warn_of_unseen(found);
                }
                self.tell(step, came);
            };
            let before_manifest = matches!(step, Step::Scan | Step::Propose) && manifest_is_over;
            if before_manifest || (step != Step::Doctor && is_over(&state, step)) {
                tell(&found, &Came::skipped("was done before"));
                if step == last {
                    break;
                }
                continue;
            }
            if !self.args.scan_only {
                state.note(step, StepStatus::InProgress)?;
            }
            let is_ours = state.is_done(Step::Manifest);
            let manifest = if is_ours { Written::BySetup } else { Written::ByOthers };
            let came = match step {
                Step::Scan => self.scanned(&found),
                Step::Propose => self.proposed(&found, &reuse, proposer),
                Step::Manifest => self.manifest(&mut found, &reuse, proposer)?,
                Step::Provision => Box::pin(provision::run(self, &found, manifest)).await?,
                Step::Doctor => self.examined(&found, unfinished).await?,
            };
            tell(&found, &came);
            if !self.args.scan_only && !came.is_open {
                state.note(step, came.status)?;
            }
            if came.status == StepStatus::Failed {
                unfinished = Some(Unfinished::Failed(step));
            } else if came.is_open && unfinished.is_none() {
                unfinished = Some(Unfinished::Declined(step));
            }
            if step == last {
                break;
            }
        }
        let is_failed = matches!(unfinished, Some(Unfinished::Failed(_)));
        Ok(if is_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Where there is something to put into a store and there is none, a person may make one before anything is asked;
    /// gives what ends it early.
    async fn without_store(&self, found: &Scan) -> Result<Option<ExitCode>, Error> {
        let is_needed = found.secrets() > 0 || manifest_of(&self.root)?.is_some();
        let is_there = || keyless_daemon::open_store(&self.places);
        if !is_needed
            || ci::is_on()
            || !is_there().await.is_err_and(|e| e.code() == Code::NotInitialised)
        {
            return Ok(None);
        }
        let is_asked = !self.args.yes && !self.ui.is_json() && io::stdin().is_terminal();
        let question = "There is no store yet. Make one now, as keyless init does?";
        if is_asked && prompt::confirm(question)? {
            let made = init::for_setup(self.ui, self.args.factor.clone()).await?;
            return Ok((made != ExitCode::SUCCESS).then_some(made));
        }
        self.ui.warn("there is no store yet, so no value is taken in. Next: keyless init, then keyless setup --resume");
        Ok(None)
    }

    /// What stays where it is, whatever was taken in; what has been `told` of a file is not said twice.
    fn warn_of_raw(&self, found: &Scan, told: &[&Check]) {
        for (file, places) in &found.raw {
            let place = format!("{}:", self.root.join(file).display());
            if told.iter().any(|check| check.id == CLIENTS && check.found.starts_with(&place)) {
                continue;
            }
            let shown = one_line(&file.to_string_lossy()).into_owned();
            let next = if is_taken_from(file) {
                format!("keyless secret import {shown} --allow-weak takes short values too")
            } else {
                "keep each with keyless secret add, and have the file name a variable in its place"
                    .to_owned()
            };
            self.ui.warn(format!("raw values stay in {shown} ({}). Next: {next}", few(places)));
        }
    }

    /// What is in none of the lists, since nobody could read it. Otherwise the last step tells it.
    fn warn_of_unseen(&self, found: &Scan) {
        for check in doctor::unseen(&found.unreadable, &found.unread, &self.root) {
            self.warn_of(&check);
        }
    }

    fn warn_of(&self, check: &Check) {
        let next = check.remedy.as_deref().unwrap_or_default();
        self.ui.warn(format!("{}. Next: {next}", check.found));
    }

    /// Whether a manifest is there that stays.
    fn keeps_manifest(&self) -> bool {
        !self.args.force && self.manifest_place().exists()
    }

    fn manifest_place(&self) -> PathBuf {
        self.root.join(".keyless/secrets.toml")
    }

    /// Whether somebody is asked about what is proposed.
    fn asks(&self) -> bool {
        !(self.args.yes || self.args.scan_only || self.args.write_manifest)
    }

    /// What the project would use of the store by its names alone; without a store nothing.
    async fn reuse(&self, found: &Scan) -> Reuse {
        let Ok(store) = keyless_daemon::open_store(&self.places).await else {
            return Reuse::default();
        };
        let stored = keyless_daemon::list_secrets(&store).await.unwrap_or_default();
        let stored: BTreeSet<SecretPath> =
            stored.into_iter().filter(|one| !one.lacks_value()).map(|one| one.path).collect();
        let before = Manifest::load(&self.root).unwrap_or_default();
        Reuse { paths: found.reused(&stored, |path| before.declares(path)), stored }
    }

    /// Where nobody is asked it is told: it may be meant.
    fn warn_of_reuse(&self, reuse: &Reuse, proposer: &Proposer<'_>) {
        for (path, names) in &reuse.paths {
            let own = proposer.own_path(path, &reuse.stored);
            let own = own.as_ref().map_or("PATH", SecretPath::as_str);
            self.ui.warn(format!(
                "{} uses what is stored already: {path}, of which no file here has the value. Next: nothing, if that is \
                 meant; else declare {own} in .keyless/secrets.toml in its place, and keyless secret add {own}",
                names.join(", ")
            ));
        }
    }

    fn scanned(&self, found: &Scan) -> Came {
        let (variables, files) = (found.variables.len(), found.files);
        let more = if found.cut_short { ", and there are more files" } else { "" };
        let is_here = self.args.root.is_some()
            || Path::new(".").canonicalize().is_ok_and(|here| here == self.root);
        let place = if is_here {
            String::new()
        } else {
            format!(" of the project at {}", self.root.display())
        };
        Came::done(
            format!(
                "{} in {}{place}{more}{}",
                counted(variables, "variable"),
                counted(files, "file"),
                unreadable(&found.unreadable)
            ),
            json!({
                "root": self.root.to_string_lossy(), "variables": variables, "files": files, "cut_short": found.cut_short,
                "unreadable": texts(&found.unreadable), "unread_lines": unread(found), "raw": raw(found),
            }),
        )
    }

    fn proposed(&self, found: &Scan, reuse: &Reuse, proposer: &Proposer<'_>) -> Came {
        let rows: Vec<Vec<String>> =
            found.variables.iter().map(|(name, one)| cells(name, &one.judged, reuse)).collect();
        if !rows.is_empty() {
            self.ui.line(table(&["VARIABLE", "PATH", "FOR"], &rows).trim_end());
        }
        if !self.asks() {
            self.warn_of_reuse(reuse, proposer);
        }
        // Otherwise the last step tells it.
        if self.args.scan_only || found.secrets() == 0 {
            for (file, names) in &found.doubtful {
                let staying = found.uncarried.get(file);
                let file = file.strip_prefix(&self.root).unwrap_or(file).display().to_string();
                let (found, remedy) = doctor::doubt(&file, names, staying);
                self.ui.warn(format!("{found}. Next: {remedy}"));
            }
        }
        let row = |(name, one): (&String, &keyless_daemon::setup::Variable)| match &one.judged {
            Judged::Secret(proposal) => json!({
                "variable": name, "path": proposal.path, "pattern": proposal.pattern, "to": proposal.to,
                "locations": proposer.metadata(proposal, &[]).egress.map(|rule| rule.locations),
                "uses_stored": reuse.paths.contains_key(&proposal.path),
                "used_in": texts(&one.used_in),
            }),
            Judged::Skip(why) => {
                json!({ "variable": name, "skipped": why, "used_in": texts(&one.used_in) })
            }
        };
        let count = found.secrets();
        Came::done(
            format!("{} proposed", counted(count, "secret")),
            json!({ "variables": found.variables.iter().map(row).collect::<Vec<_>>() }),
        )
    }

    fn manifest(
        &self,
        found: &mut Scan,
        reuse: &Reuse,
        proposer: &Proposer<'_>,
    ) -> Result<Came, Error> {
        let existing = if self.args.force { Existing::Replace } else { Existing::Keep };
        let place = self.manifest_place();
        if self.keeps_manifest() {
            return Ok(Came::skipped("there is one already; --force replaces it"));
        }
        if found.secrets() == 0 {
            return Ok(Came::skipped("there is nothing to write down"));
        }
        if !self.args.yes
            && !self.args.write_manifest
            && !prompt::confirm(&format!("Write {}?", place.display()))?
        {
            return Ok(Came::declined("was not wanted".to_owned(), json!({})));
        }
        if self.asks() {
            for (path, names) in &reuse.paths {
                let question = format!(
                    "{path} is stored already, and nothing here but a name ({}) leads to it. Is its value this project's \
                     too?",
                    names.join(", ")
                );
                if !prompt::confirm(&question)?
                    && let Some(own) = found.give_own_path(path, &reuse.stored, proposer)
                {
                    self.ui.line(&format!("{} goes to {own}", names.join(", ")));
                }
            }
        }
        let file = write_manifest(&self.root, found, existing)?;
        Ok(Came::done(
            format!("written: {}", file.display()),
            json!({ "file": file.to_string_lossy() }),
        ))
    }

    async fn examined(&self, found: &Scan, unfinished: Option<Unfinished>) -> Result<Came, Error> {
        let checks = doctor::checks(&self.root).await?;
        let below = format!("{}/", self.root.display());
        let is_own = |check: &Check| {
            UNFINISHED.contains(&check.id) || check.id == CLIENTS && check.found.starts_with(&below)
        };
        let is_warning = |check: &Check| check.state == CheckState::Warning;
        let told: Vec<&Check> =
            checks.iter().filter(|check| is_own(check) && check.remedy.is_some()).collect();
        for check in &told {
            self.warn_of(check);
        }
        self.warn_of_raw(found, &told);
        // What is no matter of this project's is counted.
        let others = checks.iter().filter(|check| is_warning(check) && !is_own(check)).count();
        let faults: Vec<&Check> =
            checks.iter().filter(|check| check.state == CheckState::Fault).collect();
        // A folder may be no part of the project; a file of values that nobody has read is.
        let unseen = found.unreadable.iter().find(|place| is_taken_from(place));
        // With --yes nobody was asked for it.
        let lacks_hosts = |check: &&Check| check.id == "project.hosts" && is_warning(check);
        let is_missing = self.args.yes && told.iter().any(lacks_hosts);
        let is_raw = !found.raw.is_empty();
        let (status, mut summary) = match (faults.first(), unseen, unfinished) {
            (Some(first), ..) => {
                let more = match faults.len() - 1 {
                    0 => String::new(),
                    more => format!("; {more} more: keyless doctor"),
                };
                (StepStatus::Failed, format!("{}: {}{more}", first.id, first.found))
            }
            (_, Some(file), _) => {
                let file = one_line(&file.to_string_lossy()).into_owned();
                (StepStatus::Failed, format!("{file} can't be read: see the warnings"))
            }
            _ if is_missing => {
                (StepStatus::Failed, "hosts are missing: see the warnings".to_owned())
            }
            (_, _, Some(Unfinished::Failed(step))) => (
                StepStatus::Failed,
                format!("setting up is not finished: see {} above", word(step)),
            ),
            (_, _, Some(Unfinished::Declined(step))) => {
                let words = format!(
                    "nothing is at fault; {} is left to do: keyless setup --resume asks again",
                    word(step)
                );
                (StepStatus::Done, words)
            }
            _ if !told.is_empty() || is_raw => {
                (StepStatus::Done, "nothing is at fault, but see the warnings".to_owned())
            }
            _ if others > 0 => (StepStatus::Done, "this project is in order".to_owned()),
            _ => (StepStatus::Done, "everything is in order".to_owned()),
        };
        if others > 0 {
            let beside = if told.is_empty() { "" } else { " beside" };
            let others = counted(others, "warning");
            summary = format!("{summary}; {others}{beside}: keyless doctor");
        }
        Ok(Came { status, summary, data: json!({ "checks": checks }), is_open: false })
    }

    /// A line for people, or one for machines, with what was warned of since the last one.
    fn tell(&self, step: Step, came: &Came) {
        if self.ui.is_json() {
            let line = json!({
                "phase": step, "status": came.status, "summary": came.summary, "data": came.data,
                "warnings": self.ui.take_warnings(),
            });
            Ui::verbatim(&line.to_string());
            return;
        }
        self.ui.line(&format!("{:<10} {:<12} {}", word(step), word(came.status), came.summary));
    }
}

impl Came {
    fn done(summary: String, data: Value) -> Self {
        Self { status: StepStatus::Done, summary, data, is_open: false }
    }

    fn failed(summary: String, data: Value) -> Self {
        Self { status: StepStatus::Failed, summary, data, is_open: false }
    }

    fn skipped(summary: &str) -> Self {
        let (summary, data) = (summary.to_owned(), json!({}));
        Self { status: StepStatus::Skipped, summary, data, is_open: false }
    }

    /// As [`skipped`](Self::skipped), by a person who is asked again when it is taken up.
    fn declined(summary: String, data: Value) -> Self {
        Self { status: StepStatus::Skipped, summary, data, is_open: true }
    }
}

/// A word as the JSON line has it.
fn word(value: impl Serialize) -> String {
    json!(value).as_str().unwrap_or_default().to_owned()
}

fn raw(found: &Scan) -> Value {
    let files = found.raw.iter();
    files.map(|(file, places)| (file.to_string_lossy().into_owned(), json!(places))).collect()
}

fn unread(found: &Scan) -> Value {
    let files = found.unread.iter();
    files.map(|(file, lines)| (file.to_string_lossy().into_owned(), json!(lines))).collect()
}

/// What could not be looked into: the first few by name, since a secret may be in any of them.
fn unreadable(places: &BTreeSet<PathBuf>) -> String {
    if places.is_empty() {
        return String::new();
    }
    let places = places.iter().map(|place| one_line(&place.to_string_lossy()).into_owned());
    format!("; can't be read: {}", few(&places.collect()))
}

fn few(places: &BTreeSet<String>) -> String {
    let named: Vec<&str> = places.iter().take(NAMED).map(String::as_str).collect();
    let rest = match places.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    named.join(", ") + &rest
}

/// Names of files as JSON has them, which knows nothing but UTF-8.
fn texts(places: &BTreeSet<PathBuf>) -> Vec<Cow<'_, str>> {
    places.iter().map(|place| place.to_string_lossy()).collect()
}

fn cells(name: &str, judged: &Judged, reuse: &Reuse) -> Vec<String> {
    match judged {
        Judged::Secret(proposal) => {
            let stored = reuse.paths.contains_key(&proposal.path);
            let stored = stored.then(|| "uses what is stored already".to_owned());
            let words: Vec<String> = proposal.service.clone().into_iter().chain(stored).collect();
            vec![name.to_owned(), proposal.path.to_string(), words.join("; ")]
        }
        Judged::Skip(why) => vec![name.to_owned(), String::new(), format!("({why})")],
    }
}
