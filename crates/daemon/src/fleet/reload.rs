//! Takes up what changed in a running sidecar: catalog, configuration, private roots, values.
//!
//! All of it is read and checked first; only then does any of it take the place of what is in
//! force. What can't be used leaves everything as it was, and is told once.

use std::{collections::BTreeMap, path::PathBuf, pin::pin, sync::Arc, time::Duration};

use jiff::Timestamp;
use keyless_core::{Code, Error, SecretPath, SecretValue};
use keyless_egress::{Engine, EngineConfig};
use keyless_vault::Catalog;
use parking_lot::Mutex;

use super::{mounted::Checked, read_catalog, sessions::Sessions, standing::StandingFile};
use crate::{
    broker::agent,
    config::{Config, ConfigSource},
    egress_door::{engine_config, explain},
    notes::{Note, Notes},
    reload::{self, Change, Watcher},
};

/// After which it is read again what could not be read.
const TRYING_AGAIN: Duration = Duration::from_secs(2);

/// How reloading goes, for who looks at a sidecar's health.
#[derive(Clone, Debug, Default)]
pub struct ReloadState {
    /// How often something was taken up.
    pub taken_up: u64,
    /// How often something could not be used.
    pub refused: u64,
    /// When something was taken up last; the start counts.
    pub last: Option<Timestamp>,
    /// Why catalog or configuration, as they lie there now, are not in force.
    pub rules_problem: Option<Error>,
    /// Why values, as they lie there now, can't be used.
    pub value_problems: BTreeMap<SecretPath, Error>,
    /// Secrets in force.
    pub secrets: usize,
}

impl ReloadState {
    /// What was counted so far, without a problem.
    fn counters(&self) -> Self {
        let Self { taken_up, refused, last, .. } = *self;
        Self { taken_up, refused, last, ..Self::default() }
    }

    /// Whether something may be as it should be by now without another change of its file.
    fn has_unread(&self) -> bool {
        self.rules_problem.is_some() || self.value_problems.values().any(is_unread)
    }

    /// Why something that lies there now is not in force.
    pub fn problem(&self) -> Option<&Error> {
        self.rules_problem.as_ref().or_else(|| self.value_problems.values().next())
    }
}

/// Of a value: whether it was not even read.
fn is_unread(problem: &Error) -> bool {
    problem.code() == Code::SecretUnavailable
}

/// A sidecar's state, shared with who shows it.
pub(super) type SharedState = Arc<Mutex<ReloadState>>;

/// Keeps a sidecar in step with its files.
pub(super) struct Reloader {
    pub(super) catalog: PathBuf,
    pub(super) config: ConfigSource,
    pub(super) sessions: Arc<Sessions>,
    /// The sidecar's own, which its words in the log are of.
    pub(super) session: String,
    pub(super) state: SharedState,
    pub(super) standing: StandingFile,
    pub(super) notes: Notes,
}

/// Everything that lies there, read and checked.
struct Read {
    catalog: Catalog,
    checked: Checked,
    config: Config,
    engine: EngineConfig,
}

impl Reloader {
    /// Follows the files until it is dropped. `watcher` has seen them as they are in force.
    pub(super) async fn follow(self, mut watcher: Watcher) {
        loop {
            watcher.watch(self.files()).await;
            let mut changed = pin!(watcher.changed());
            let change = loop {
                tokio::select! {
                    change = &mut changed => break change,
                    () = self.another_try_is_due() => self.try_again().await,
                }
            };
            match change {
                Change::Hangup => self.read_again().await,
                Change::Files(changed) => self.judge(changed).await,
            }
        }
    }

    /// The files that matter now.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mounted = &self.sessions.mounted;
        let values = mounted.files(&mounted.catalog());
        self.rules().chain(values.into_iter().map(|(file, _)| file)).collect()
    }

    /// Those that say what is allowed.
    fn rules(&self) -> impl Iterator<Item = PathBuf> {
        // What a file names and can't be used yet is watched too, so that it may come later.
        let config = self.config.load().unwrap_or_default();
        let own = [self.catalog.clone(), self.config.file.clone()].into_iter();
        own.chain(config.egress.files().collect::<Vec<_>>())
    }

    /// Everything, whether it has changed or not. Where rules are refused, the values that lie there are in force all the same.
    async fn read_again(&self) {
        if !self.take_up(&Change::Hangup, self.read().await).await {
            let mounted = &self.sessions.mounted;
            let values = mounted.files(&mounted.catalog());
            self.renew(values.iter().map(|(_, path)| path)).await;
        }
    }

    /// Resolves where something could not be read, after a while; never where all could.
    async fn another_try_is_due(&self) {
        if !self.state.lock().has_unread() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(TRYING_AGAIN).await;
    }

    /// What could not be read for a reason that does not show in the file (no descriptor was free, a mount hung) may be by
    /// now. What still can't, was told. What was read and is no good, is no better until it changes.
    async fn try_again(&self) {
        let ReloadState { rules_problem, value_problems, .. } = self.state.lock().clone();
        // Rules may name what could not be read.
        if rules_problem.is_some()
            && let Ok(read) = self.read().await
        {
            self.take_up(&Change::Files(self.rules().collect()), Ok(read)).await;
        }
        let mut renewed = Vec::new();
        for (path, _) in value_problems.iter().filter(|(_, problem)| is_unread(problem)) {
            renewed.extend(self.sessions.mounted.read(path).await.ok());
        }
        self.put_values_in_force(&renewed);
    }

    /// Values are fetched anew by themselves; anything else is read as a whole.
    async fn judge(&self, changed: Vec<PathBuf>) {
        let mounted = &self.sessions.mounted;
        let values = mounted.files(&mounted.catalog());
        let value_of = |file: &PathBuf| values.iter().find(|(other, _)| other == file);
        let (of_values, rules): (Vec<_>, Vec<_>) =
            changed.into_iter().partition(|file| value_of(file).is_some());
        if !rules.is_empty() {
            self.take_up(&Change::Files(rules), self.read().await).await;
        }
        // A secret that has left the catalog with its file is nobody's any more.
        let in_force = mounted.files(&mounted.catalog());
        let changed = of_values.iter().filter_map(value_of).map(|(_, path)| path);
        self.renew(changed.filter(|path| in_force.iter().any(|(_, still)| still == *path))).await;
    }

    /// The next use of each gets the value that lies there now: of all that changed together, in one step. One that can't
    /// be used is told, and those beside it are in force.
    async fn renew(&self, paths: impl Iterator<Item = &SecretPath>) {
        let mounted = &self.sessions.mounted;
        let mut renewed = Vec::new();
        for path in paths {
            match mounted.read(path).await {
                Ok(value) => renewed.push(value),
                Err(error) => self.failed(&error, |state| {
                    state.value_problems.insert(path.clone(), error.clone())
                }),
            }
        }
        self.put_values_in_force(&renewed);
    }

    fn put_values_in_force(&self, renewed: &[SecretValue]) {
        if renewed.is_empty() {
            return;
        }
        self.sessions.mounted.put_in_force(renewed);
        self.succeeded(|state| {
            for value in renewed {
                state.value_problems.remove(value.path());
            }
        });
    }

    /// Whether all of it is in force now.
    async fn take_up(&self, change: &Change, read: Result<Read, Error>) -> bool {
        let taken_up = match read {
            Ok(read) => self.put_in_force(read).await,
            Err(error) => Err(error),
        };
        let rules: Vec<_> = self.rules().collect();
        let who = agent("proxy", &self.session);
        // What can't be written stops what agents do, not what the operator has said.
        let entry = reload::entry(who, change, &rules, taken_up.as_ref().err());
        let _ = self.sessions.log.append(entry).await;
        let is_in_force = taken_up.is_ok();
        match taken_up {
            // All values were fetched once, so none has a problem.
            Ok(secrets) => {
                self.succeeded(|state| *state = ReloadState { secrets, ..state.counters() });
            }
            Err(error) => self.failed(&error, |state| state.rules_problem.replace(error.clone())),
        }
        is_in_force
    }

    async fn read(&self) -> Result<Read, Error> {
        let catalog = read_catalog(&self.catalog)?;
        let config: Config = self.config.load()?;
        let checked = self.sessions.mounted.check(&catalog).await?;
        let engine = engine_config(&config, Some(&catalog))?;
        Ok(Read { catalog, checked, config, engine })
    }

    /// How many secrets there are then.
    async fn put_in_force(&self, read: Read) -> Result<usize, Error> {
        let Read { catalog, checked: Checked { warnings, values }, config, engine } = read;
        for warning in &warnings {
            self.notes.write(Note::Warning { text: warning });
        }
        let secrets = catalog.entries.len();
        let reload = |to: &Engine| to.reload(engine).map_err(|error| explain(&error, &config));
        self.sessions.take_up(catalog, &values, reload).await?;
        Ok(secrets)
    }

    fn succeeded(&self, note: impl FnOnce(&mut ReloadState)) {
        let mut state = self.state.lock();
        note(&mut state);
        state.taken_up += 1;
        state.last = Some(Timestamp::now());
        self.standing.say(&state);
        self.notes.write(Note::Reloaded { secrets: state.secrets });
    }

    /// Notes a problem; says it if it is another than `note` found there.
    fn failed(&self, error: &Error, note: impl FnOnce(&mut ReloadState) -> Option<Error>) {
        let mut state = self.state.lock();
        state.refused += 1;
        let before = note(&mut state);
        self.standing.say(&state);
        if before.as_ref() != Some(error) {
            self.notes.write(Note::ReloadRefused { error });
        }
    }
}
