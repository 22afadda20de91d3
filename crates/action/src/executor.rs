//! One agent's actions, from what may enter to what may be seen.
//!
//! Every way out of an action, an error as much as a result, goes through the cleaning.

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;
use keyless_core::{
    Code, Destination, Error, Handle, SafeText, SecretPath,
    action::{Action, ActionResult, ActionType, Status},
    grant::PermissionRef,
    nl_message::Profile,
};
use parking_lot::Mutex;

pub use crate::cleaning::Redaction;
use crate::{
    captured::{Bounds, End, Ended, run_to_end},
    cleaning::{Cleaner, Sought, clean_outputs, is_looked_for},
    commands::{Prepared, check, outlined, prepare, render},
    kept::{Kept, Rendered, Shelf},
    material::Materials,
    ports::{Berth, Entrusted, Exit, Known, Release, Standing, WentOut},
    sdk::{BoundTo, Databases, Draft, Http, Providers, call, withhold},
};

/// How many values of earlier actions are looked for, at most.
const REMEMBERED: usize = 512;

/// The bounds of every action, and how it is told.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Between being asked to end and being ended (NL: `graceful_shutdown_ms`).
    pub grace: Duration,
    /// The most bytes of standard output and error together.
    pub output: usize,
    /// How long a command with a value in a file may take (NL-3.5.7).
    pub tempfile_life: Duration,
    /// How long a rendered file is kept.
    pub rendered_life: Duration,
    /// How it is marked where a value was taken out.
    pub profile: Profile,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(5),
            output: 16 << 20,
            tempfile_life: Duration::from_mins(1),
            rendered_life: Duration::from_mins(10),
            profile: Profile::default(),
        }
    }
}

/// An action that was [checked](Executor::check), and of a call of a service what would be sent, before its values are
/// in it: what was judged is what is done.
#[derive(Clone, Debug)]
pub struct Checked {
    action: Action,
    draft: Option<Draft>,
}

impl Checked {
    /// What is to be done.
    pub fn action(&self) -> &Action {
        &self.action
    }

    /// Finds whether the secret that a service is called with may go there, as far as it shows without the value.
    pub fn check_destination(&self, bounds: &BoundTo<'_>) -> Result<(), Error> {
        self.draft.as_ref().map_or(Ok(()), |draft| draft.check_destination(bounds))
    }

    /// Finds whether a secret that stands in a call's parameters may go where the call goes, as far as it shows without a
    /// value; `is_exposed`: though it names its hosts (`unsafe_expose`).
    pub fn check_parameter(&self, bounds: &BoundTo<'_>, is_exposed: bool) -> Result<(), Error> {
        self.draft.as_ref().map_or(Ok(()), |draft| draft.check_parameter(bounds, is_exposed))
    }

    /// An action of a test that runs something.
    #[cfg(test)]
    pub(crate) fn unchecked(action: Action) -> Self {
        Self { action, draft: None }
    }
}

/// One action that may be done.
#[derive(Clone, Debug)]
pub struct Work {
    /// `act_…`.
    pub action_id: String,
    /// What is to be done, as it was checked; a template with its text.
    pub checked: Checked,
    /// The secret of each handle, of those in [rendered files](Executor::kept_in) as well.
    pub secrets: Vec<Entrusted>,
    /// The rendered files that it was judged with, by the actions that made them.
    pub kept: Vec<String>,
    /// The hosts that a value may reach.
    pub allowed_hosts: Vec<Destination>,
    /// What permits it; nothing where a person acts.
    pub permissions: Vec<PermissionRef>,
    /// Where a command starts, when a person asks.
    pub working_directory: Option<PathBuf>,
}

#[cfg(test)]
impl Work {
    /// One with nothing in it that is looked at.
    pub(crate) fn idle() -> Self {
        let action = serde_json::json!({"type": "exec", "template": "true"});
        Self {
            action_id: "act_1".to_owned(),
            checked: Checked::unchecked(serde_json::from_value(action).expect("an action")),
            secrets: Vec::new(),
            kept: Vec::new(),
            allowed_hosts: Vec::new(),
            permissions: Vec::new(),
            working_directory: None,
        }
    }
}

impl Work {
    pub(crate) fn action(&self) -> &Action {
        &self.checked.action
    }
}

/// What came of an action. Everything in it may be seen by the agent.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// What it gave.
    pub result: Option<ActionResult>,
    /// Why it failed.
    pub fault: Option<Error>,
    /// What was taken out of the result.
    pub redactions: Vec<Redaction>,
    /// How its process ended, for the log.
    pub exit: Option<ExitReport>,
    /// Where members stood that were taken out of a service's answer as credentials.
    pub withheld: Vec<String>,
    /// What the agent should know beside.
    pub warnings: Vec<String>,
    /// When it was begun.
    pub executed_at: Timestamp,
    /// When it was over.
    pub completed_at: Timestamp,
}

/// How a process ended, in the log's words (NL-3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitReport {
    /// As a shell tells it.
    pub code: i32,
    /// Whether its time was over; it was then sent SIGTERM.
    pub timed_out: bool,
    /// Whether it ended when asked.
    pub graceful: bool,
    /// How long that took.
    pub graceful_wait: Duration,
    /// The time that it had.
    pub time: Duration,
}

/// What `sdk_proxy` needs.
pub struct Services {
    /// The providers.
    pub providers: Providers,
    /// The way to those of HTTP.
    pub http: Arc<dyn Http>,
    /// The way to databases.
    pub databases: Arc<dyn Databases>,
}

/// Does one agent's actions.
pub struct Executor {
    services: Services,
    limits: Limits,
    shelf: Shelf,
    known: Mutex<Memory>,
}

/// The values that an agent's actions have had.
#[derive(Default)]
struct Memory {
    known: Vec<Known>,
    /// Made of them when it is needed.
    sought: Option<Arc<Sought>>,
}

impl Executor {
    /// For one agent: what its actions have had is looked for in all that follow.
    pub fn new(services: Services, limits: Limits) -> Self {
        Self { services, limits, shelf: Shelf::default(), known: Mutex::default() }
    }

    /// Finds what is wrong with an action, `act_…`, as far as it shows without a value.
    pub fn check(&self, action: &Action, action_id: &str) -> Result<Checked, Error> {
        let draft = check(&action.deed, action_id, &self.services.providers)?;
        Ok(Checked { action: action.clone(), draft })
    }

    /// Finds whether what an action would render has room beside what is kept, as far as it shows without a value.
    pub fn check_room(&self, action: &Action, action_id: &str) -> Result<(), Error> {
        match outlined(action, action_id)? {
            Some((path, size)) => self.shelf.has_room(&path, size),
            None => Ok(()),
        }
    }

    /// The rendered files that an action's command names, as things are now. It uses the secrets in them as much as
    /// those that it names itself, and is to be judged so.
    pub async fn kept_in(&self, action: &Action, standing: &dyn Standing) -> Vec<Kept> {
        let Some(command) = action.command() else { return Vec::new() };
        if self.shelf.named_in(command).is_empty() {
            return Vec::new();
        }
        self.drop_outdated(standing).await;
        self.shelf.named_in(command).iter().map(Rendered::kept).collect()
    }

    /// Does an action with the values that `release` gives for it; its command, if its type
    /// [runs](keyless_core::ActionType::runs_command) one, in `berth`.
    pub async fn run(
        &self,
        work: &Work,
        berth: Option<Box<dyn Berth>>,
        release: &dyn Release,
    ) -> Outcome {
        let executed_at = Timestamp::now();
        let mut outcome = match self.attempt(work, berth, release).await {
            Ok(outcome) => outcome,
            Err(fault) => Outcome::failed(fault),
        };
        outcome.fault = outcome.fault.map(|fault| self.told(fault));
        outcome.executed_at = executed_at;
        outcome.completed_at = Timestamp::now();
        let handles = work.secrets.iter().map(|secret| &secret.handle);
        outcome.warnings.extend(handles.filter_map(Handle::alias_warning));
        outcome.warnings.extend(self.not_looked_for(work));
        outcome
    }

    /// Says which values of an action are not taken out of anything: they are too short to be told from other text.
    fn not_looked_for(&self, work: &Work) -> Vec<String> {
        let memory = self.known.lock();
        let short = memory.known.iter().filter(|known| !is_looked_for(&known.value));
        let written =
            |name: &str| work.secrets.iter().any(|secret| secret.handle.as_written() == name);
        let of_this = short.filter(|known| written(&known.name));
        let words = |known: &Known| {
            format!("{}: so short a value is not looked for in what comes back", known.name)
        };
        of_this.map(words).collect()
    }

    /// Drops rendered files whose permissions do not hold any more, or whose secrets were removed, or changed in
    /// value or terms.
    async fn drop_outdated(&self, standing: &dyn Standing) {
        for at in self.shelf.permissions() {
            if !standing.is_permitted(&at).await {
                self.shelf.withdraw(&at);
            }
        }
        for (path, held) in self.shelf.held() {
            if standing.edition(&path).await != Some(held) {
                self.shelf.forget(&path);
            }
        }
    }

    /// A text without the values that are known here.
    pub fn without_values(&self, text: &str) -> String {
        self.cleaner().text(text)
    }

    /// Words with a value in them are not told.
    fn told(&self, fault: Error) -> Error {
        let words = fault.detail().as_str();
        let is_clean = words.is_empty() || self.cleaner().text(words) == words;
        if is_clean { fault } else { Error::new(fault.code()) }
    }

    async fn attempt(
        &self,
        work: &Work,
        berth: Option<Box<dyn Berth>>,
        release: &dyn Release,
    ) -> Result<Outcome, Error> {
        let materials = Materials::fetch(&work.secrets, release).await?;
        self.remember(materials.known());
        let rendered = render(work, &materials, self.limits.rendered_life)?;
        if let Some((rendered, resolved, warnings)) = rendered {
            let path = rendered.file.path.to_string_lossy().into_owned();
            self.shelf.keep(rendered)?;
            let result = ActionResult {
                output_path: Some(path),
                resolved_count: Some(resolved),
                permissions: Some("0600".to_owned()),
                ..ActionResult::default()
            };
            return Ok(Outcome { warnings, ..Outcome::done(result) });
        }
        if let Some(draft) = work.checked.draft.clone() {
            return self.call_service(draft, work, &materials).await;
        }
        // A person may have been asked for the values: what held before that may not hold now.
        self.drop_outdated(release).await;
        match berth.zip(prepare(work, &materials, &self.shelf)?) {
            Some((berth, prepared)) => self.carry_out(work, berth, prepared).await,
            None => Err(Error::with(
                Code::ActionUnknown,
                SafeText::words("nothing runs for ").and(work.action().kind().as_str()),
            )),
        }
    }

    async fn call_service(
        &self,
        draft: Draft,
        work: &Work,
        materials: &Materials,
    ) -> Result<Outcome, Error> {
        let remember = |known| self.remember(known);
        let most = self.limits.output;
        let called = call(draft, work, materials, &self.services, most, &remember).await?;
        let mut cleaner = self.cleaner();
        let data = cleaner.json(called.data);
        // Rows are what a statement asked for, and AWS's models say themselves what is a credential.
        let (data, withheld) =
            if called.is_of_models { (data, Vec::new()) } else { withhold(data) };
        let mut outcome =
            Outcome::done(ActionResult { data: Some(data), ..ActionResult::default() });
        outcome.redactions = cleaner.redactions();
        outcome.warnings.extend(withheld_in_words(&withheld));
        outcome.withheld = withheld;
        if let Some(words) = called.refused {
            outcome.status = Status::Error;
            outcome.fault = Some(Error::with(Code::NonzeroExit, words));
        }
        Ok(outcome)
    }

    async fn carry_out(
        &self,
        work: &Work,
        berth: Box<dyn Berth>,
        prepared: Prepared,
    ) -> Result<Outcome, Error> {
        let Prepared { command, input, known, warnings } = prepared;
        self.remember(known.clone());
        let running = berth.start(command).await?;
        let bounds = self.bounds(work);
        let mut ended = run_to_end(running, input, &bounds).await?;
        let went_out = named(std::mem::take(&mut ended.went_out), &work.secrets);
        // Whatever went out, and whatever others did meanwhile, its own are among the newest.
        self.remember(went_out.into_iter().chain(known).collect());
        let mut outcome = self.cleaned(ended, bounds.time).await?;
        let mut cleaner = self.cleaner();
        outcome.warnings = warnings.iter().map(|warning| cleaner.text(warning)).collect();
        if outcome.status == Status::Timeout && bounds.time < work.action().timeout() {
            let seconds = bounds.time.as_secs();
            outcome.warnings.push(format!(
                "a command with a value in a file takes {seconds} s at most, whatever timeout_ms says"
            ));
        }
        Ok(outcome)
    }

    fn bounds(&self, work: &Work) -> Bounds {
        let time = match work.action().kind() {
            ActionType::InjectTempfile => work.action().timeout().min(self.limits.tempfile_life),
            _ => work.action().timeout(),
        };
        Bounds { time, grace: self.limits.grace, output: self.limits.output }
    }

    async fn cleaned(&self, ended: Ended, time: Duration) -> Result<Outcome, Error> {
        let Ended { captured, exit, end, at, .. } = ended;
        let report = report(exit, end, time);
        if end == End::Overflow {
            let mut outcome = Outcome::failed(Code::OutputTooLarge.into());
            outcome.exit = Some(report);
            return Ok(outcome);
        }
        let (clean, cleaner) = clean_outputs(self.cleaner(), captured).await?;
        let (status, fault) = match (end, exit) {
            (End::Itself, Exit::Code(0)) => (Status::Success, None),
            (End::Itself, exit) => (Status::Error, Some(nonzero(exit))),
            _ => (Status::Timeout, Some(Code::ActionTimeout.into())),
        };
        let (output, errors, encoding) = clean.written();
        let result = ActionResult {
            stdout: Some(output),
            stderr: Some(errors),
            encoding,
            exit_code: Some(exit.status()),
            ..ActionResult::default()
        };
        Ok(Outcome {
            status,
            result: Some(result),
            fault,
            redactions: cleaner.redactions(),
            withheld: Vec::new(),
            exit: Some(report),
            warnings: Vec::new(),
            executed_at: at,
            completed_at: at,
        })
    }

    /// Values are looked for in all that follows; the newest are kept.
    fn remember(&self, values: Vec<Known>) {
        let mut memory = self.known.lock();
        let Memory { known, sought } = &mut *memory;
        for value in values {
            let is_same = |other: &Known| other.value == value.value && other.name == value.name;
            if !known.iter().any(is_same) {
                *sought = None;
            }
            known.retain(|other| other.value != value.value);
            known.push(value);
        }
        let excess = known.len().saturating_sub(REMEMBERED);
        known.drain(..excess);
    }

    fn cleaner(&self) -> Cleaner {
        let mut memory = self.known.lock();
        let Memory { known, sought } = &mut *memory;
        let sought = Arc::clone(sought.get_or_insert_with(|| Arc::new(Sought::new(known))));
        Cleaner::new(sought, self.limits.profile)
    }
}

impl Outcome {
    fn done(result: ActionResult) -> Self {
        Self {
            status: Status::Success,
            result: Some(result),
            fault: None,
            ..Self::failed(Code::Internal.into())
        }
    }

    fn failed(fault: Error) -> Self {
        let now = Timestamp::now();
        Self {
            status: Status::stopped_by(fault.code()),
            result: None,
            fault: Some(fault),
            redactions: Vec::new(),
            withheld: Vec::new(),
            exit: None,
            warnings: Vec::new(),
            executed_at: now,
            completed_at: now,
        }
    }
}

/// Which members of an answer were withheld, in words.
pub fn withheld_in_words(places: &[String]) -> Option<String> {
    const NAMED: usize = 5;
    let named = places.get(..NAMED).unwrap_or(places).join(", ");
    let more = match places.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!places.is_empty())
        .then(|| format!("withheld, since it looks like a credential: {named}{more}"))
}

/// Values that have gone out, as the agent knows them: by what it wrote, or by the path where a server has minted one.
fn named(values: Vec<WentOut>, secrets: &[Entrusted]) -> Vec<Known> {
    let name = |path: &SecretPath| {
        let written = secrets.iter().find(|secret| secret.path == *path);
        written.map_or(path.as_str(), |secret| secret.handle.as_written()).to_owned()
    };
    values.into_iter().map(|WentOut { path, value }| Known { name: name(&path), value }).collect()
}

fn report(exit: Exit, end: End, time: Duration) -> ExitReport {
    let (timed_out, graceful, graceful_wait) = match end {
        End::Timeout { waited, graceful } => (true, graceful, waited),
        End::Itself | End::Overflow => (false, false, Duration::ZERO),
    };
    ExitReport { code: exit.status(), timed_out, graceful, graceful_wait, time }
}

fn nonzero(exit: Exit) -> Error {
    let words = match exit {
        Exit::Code(126) => SafeText::words("the program can't be executed"),
        Exit::Code(127) => SafeText::words("the program was not found"),
        Exit::Code(code) => SafeText::words("exit status ").and(code),
        Exit::Signal(signal) => SafeText::words("ended by signal ").and(signal),
    };
    Error::with(Code::NonzeroExit, words)
}

#[cfg(test)]
mod tests;
