//! Keeps the log within bounds: closes a part that is large or old, removes files that were kept for as long as the
//! operator wants, changes its keys, and signs where it ends (NL-5.11 to 5.14).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    Code, Error, SafeText,
    audit::{Action, Annotations, Draft, LogKeyId, Mark, Outcome, Segment, Target},
    grant::SecretPattern,
    nl_message::Profile,
};
use keyless_store::{AuditLog, Store};
use keyless_vault::Vault;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    broker::{agent, plain_entry},
    checkpoints::{has_grown, sign_log},
    clock_watch::{ClockWatch, in_step},
    config::Config,
    places::Places,
};

/// How often a broker looks whether there is something to do.
const INTERVAL: Duration = Duration::from_mins(1);
/// How often a broker signs the end of a log that has grown.
const SIGN_INTERVAL: Duration = Duration::from_hours(1);
/// After failures it looks less and less often, down to this: each try leaves an entry.
const MOST_PATIENCE: Duration = Duration::from_hours(1);
/// NL-5.12 for its lowest tier; the highest wants seven years.
const LEAST_KEPT_DAYS: u32 = 90;
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// `[audit]`. A broker reads it each minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditConfig {
    /// A part of the log is closed when it has so many entries; 15,000 are about 10 MB.
    pub rotate_entries: u64,
    /// A part of the log is also closed when its first entry is so many days old.
    pub rotate_days: u32,
    /// How long closed parts are kept, 90 days at least; for good when absent.
    pub keep_days: Option<u32>,
    /// A new key vouches for entries when the last one is so old.
    pub rotate_keys_days: u32,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { rotate_entries: 15_000, rotate_days: 30, keep_days: None, rotate_keys_days: 90 }
    }
}

impl AuditConfig {
    /// What is wrong with it.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.keep_days {
            Some(days) if days < LEAST_KEPT_DAYS => Err(format!(
                "[audit] keep_days = {days}: a log is kept for {LEAST_KEPT_DAYS} days at least"
            )),
            _ if [self.rotate_days, self.rotate_keys_days].contains(&0)
                || self.rotate_entries == 0 =>
            {
                let names = "rotate_entries, rotate_days and rotate_keys_days";
                Err(format!("[audit] {names} are 1 or more"))
            }
            _ => Ok(()),
        }
    }
}

/// `[[compliance]]`: what entries about some secrets have in `metadata` (NL-5.19).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComplianceConfig {
    /// Patterns of secrets, as in grants.
    pub secrets: Vec<String>,
    /// What is noted.
    pub metadata: BTreeMap<String, Value>,
}

impl ComplianceConfig {
    pub(crate) fn mark(&self) -> Result<Mark, String> {
        let pattern = |text: &String| {
            SecretPattern::parse(text).map_err(|error| format!("[[compliance]] {text}: {error}"))
        };
        let secrets: Vec<_> = self.secrets.iter().map(pattern).collect::<Result<_, _>>()?;
        let mark = Mark::new(secrets, self.metadata.clone());
        mark.map_err(|why| format!("[[compliance]]: {why}"))
    }
}

/// Has entries from now on say which profile of the protocol rules, what the operator wants noted, and whether the clock is known not
/// to be kept in step. With a configuration that can't be read, which `keyless status` tells, what was noted before is noted.
pub(crate) fn annotate(store: &Store, config: &Config) {
    annotate_under(config.nl.profile, store, config);
}

/// As [`annotate`], for a proxy, which does not ask about the clock: the unit that it runs under kills a process that
/// makes that system call.
pub(crate) fn annotate_without_clock(store: &Store, config: &Config) {
    put(store, config, config.nl.profile, false);
}

/// As [`annotate`], under the profile that rules whatever the configuration says by now.
fn annotate_under(profile: Profile, store: &Store, config: &Config) {
    put(store, config, profile, in_step() == Some(false));
}

fn put(store: &Store, config: &Config, profile: Profile, clock_lost: bool) {
    if let Ok(marks) = config.marks() {
        store.annotate(Annotations { profile: Some(profile), clock_lost, marks });
    }
}

/// Closes the log behind an entry that says so; gives what was closed. The end is then signed.
pub async fn rotate_log(vault: &Vault, log: &AuditLog, places: &Places) -> Result<Segment, Error> {
    let marker =
        plain_entry(agent("broker", "broker"), Action::LogRotation, Outcome::Success, Target::Log);
    let marker = log.append(marker).await?.sequence();
    let segment = vault.store().audit_close(marker, &*vault.head_sealer()).await?;
    sign_log(vault, log, places).await?;
    Ok(segment)
}

/// Has a new key vouch for entries from now on, which is an entry itself; gives the names of the last key and of the new one.
/// The end is then signed.
pub async fn rotate_log_keys(
    vault: &Vault,
    log: &AuditLog,
    places: &Places,
) -> Result<(LogKeyId, LogKeyId), Error> {
    let marker = plain_entry(
        agent("broker", "broker"),
        Action::LogKeyRotation,
        Outcome::Success,
        Target::Log,
    );
    let keys = vault.store().audit_change_key(marker, &*vault.head_sealer()).await?;
    sign_log(vault, log, places).await?;
    Ok(keys)
}

/// Removes the closed parts that were kept for longer than `config` wants; gives what was removed.
pub async fn remove_old_log(
    vault: &Vault,
    log: &AuditLog,
    config: AuditConfig,
) -> Result<Vec<Segment>, Error> {
    let Some(days) = config.keep_days else { return Ok(Vec::new()) };
    let bound = ago(days)?;
    let due = vault.store().audit_closed_before(bound).await?;
    if due.is_empty() {
        return Ok(Vec::new());
    }
    // Of a file that could not be removed then there is an entry.
    let new = due.iter().rfind(|one| one.removed_at.is_none());
    if let Some(Segment { last_sequence: last, .. }) = new {
        let (who, target) = (agent("broker", "broker"), Target::Log);
        let mut entry = plain_entry(who, Action::LogRemoval, Outcome::Success, target);
        entry.detail.note = Some(format!("entries up to {last}, by [audit] keep_days"));
        log.append(entry).await?;
    }
    Ok(vault.store().audit_remove_closed(bound, &*vault.head_sealer()).await?)
}

/// Why the end of the log could not be signed when that was due last.
pub(crate) type SigningProblem = Arc<Mutex<Option<String>>>;

/// When the end of the log is signed next.
struct Signing {
    due: Instant,
    /// After the next failure.
    patience: Duration,
    problem: SigningProblem,
}

impl Signing {
    fn new(problem: SigningProblem) -> Self {
        Self { due: Instant::now() + SIGN_INTERVAL, patience: INTERVAL, problem }
    }

    /// It is signed.
    fn is_done(&mut self) {
        *self.problem.lock() = None;
        *self = Self::new(Arc::clone(&self.problem));
    }

    /// Signs the end of a log that has grown, where that is due.
    async fn sign(&mut self, vault: &Vault, log: &AuditLog, places: &Places) {
        if Instant::now() < self.due {
            return;
        }
        // One that failed may have left its entry, behind which the log has not grown.
        let has_failed = self.problem.lock().is_some();
        let signing = async {
            if has_failed || has_grown(vault).await? {
                sign_log(vault, log, places).await?;
            }
            Ok::<_, Error>(())
        };
        match signing.await {
            Ok(()) => self.is_done(),
            // It has locked itself meanwhile.
            Err(_) if !vault.is_open() => {}
            Err(error) => {
                *self.problem.lock() = Some(error.message());
                self.due = Instant::now() + self.patience;
                self.patience = MOST_PATIENCE.min(self.patience * 2);
            }
        }
    }
}

/// Does what is due, until it is dropped. What can't be done now is tried again later: the log itself is whole. Who asks
/// how things are is told by `problem` that its end could not be signed.
/// `profile` is the one that rules until this process ends, whatever the file says by then.
pub(crate) async fn keep_log(
    vault: Arc<Vault>,
    log: AuditLog,
    places: Places,
    profile: Profile,
    problem: SigningProblem,
) {
    let (mut signing, mut clocks) = (Signing::new(problem), ClockWatch::now());
    let mut was_in_step = in_step();
    let (mut due, mut patience) = (Instant::now(), INTERVAL);
    loop {
        sleep(INTERVAL).await;
        if let Ok(config) = Config::load(&places.config_file()) {
            annotate_under(profile, vault.store(), &config);
        }
        let is_in_step = in_step();
        if let Some(now) = is_in_step.filter(|_| is_in_step != was_in_step) {
            let _ = log.append(step_entry(now)).await;
        }
        was_in_step = is_in_step;
        let before = std::mem::replace(&mut clocks, ClockWatch::now());
        if let Some(by) = before.jump(&clocks) {
            // What can't be written is not lost: the times of the entries around it show it.
            let _ = log.append(clock_entry(by)).await;
        }
        if !vault.is_open() {
            continue;
        }
        if Instant::now() >= due {
            let kept = close_and_remove(&vault, &log, &places).await;
            if let Ok(true) = kept {
                signing.is_done();
            }
            patience = if kept.is_ok() { INTERVAL } else { MOST_PATIENCE.min(patience * 2) };
            due = Instant::now() + if kept.is_ok() { Duration::ZERO } else { patience };
        }
        signing.sign(&vault, &log, &places).await;
    }
}

fn clock_entry(by: SignedDuration) -> Draft {
    let direction = if by.is_positive() { "forward" } else { "back" };
    about_the_clock(Action::ClockAdjustment, format!("{} s {direction}", by.abs().as_secs()))
}

fn step_entry(is_in_step: bool) -> Draft {
    let words = if is_in_step {
        "the clock is kept in step again"
    } else {
        "nothing keeps the clock in step any more"
    };
    about_the_clock(Action::ClockSync, words.to_owned())
}

fn about_the_clock(action: Action, words: String) -> Draft {
    let mut entry = plain_entry(agent("broker", "broker"), action, Outcome::Success, Target::Log);
    entry.detail.note = Some(words);
    entry
}

/// Closes the log if it is full, takes a new key if the last is old, and removes what is old, each whether or not another
/// can be done; whether it was closed. With a configuration that can't be read, which `keyless status` tells, nothing is
/// done.
async fn close_and_remove(vault: &Vault, log: &AuditLog, places: &Places) -> Result<bool, Error> {
    let config = Config::load(&places.config_file())?.audit;
    let closed = close_if_full(vault, log, places, config).await;
    let key = change_old_key(vault, log, places, config).await;
    let removed = remove_old_log(vault, log, config).await;
    key.and(removed.map(drop)).and(closed)
}

async fn close_if_full(
    vault: &Vault,
    log: &AuditLog,
    places: &Places,
    config: AuditConfig,
) -> Result<bool, Error> {
    let is_full = is_full(vault, config).await?;
    if is_full {
        rotate_log(vault, log, places).await?;
    }
    Ok(is_full)
}

async fn change_old_key(
    vault: &Vault,
    log: &AuditLog,
    places: &Places,
    config: AuditConfig,
) -> Result<(), Error> {
    let due = ago(config.rotate_keys_days)?;
    let key = vault.store().audit_newest_key().await?;
    if key.is_some_and(|(_, since)| since < due) {
        rotate_log_keys(vault, log, places).await?;
    }
    Ok(())
}

async fn is_full(vault: &Vault, config: AuditConfig) -> Result<bool, Error> {
    let Some((entries, first)) = vault.store().audit_open_part().await? else { return Ok(false) };
    Ok(entries >= config.rotate_entries || first < format!("{:.3}", ago(config.rotate_days)?))
}

fn ago(days: u32) -> Result<Timestamp, Error> {
    let past = i32::try_from(days).ok().and_then(|days| DAY.checked_mul(days));
    past.and_then(|past| Timestamp::now().checked_sub(past).ok()).ok_or_else(|| {
        Error::with(
            Code::ConfigInvalid,
            SafeText::words("[audit] ").number(days.into()).and(" days are too many"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Scene;

    #[tokio::test]
    async fn a_full_part_is_closed_and_an_old_one_is_removed() {
        let scene = Scene::new().await;
        let (vault, log) = (&scene.vault, &scene.log);
        let places = Places::below(scene.folder.path());
        let configure = |text: &str| std::fs::write(places.config_file(), text).unwrap();
        configure("[audit]\nrotate_entries = 3\n");
        let mut closed = Vec::new();
        for _ in 0..3 {
            let entry = plain_entry(
                agent("broker", "broker"),
                Action::Query,
                Outcome::Success,
                Target::Log,
            );
            log.append(entry).await.unwrap();
            closed.push(close_and_remove(vault, log, &places).await.unwrap());
        }
        assert_eq!(closed, [false, false, true]);
        let [segment] = &*vault.store().audit_segments().await.unwrap() else { panic!() };
        assert_eq!((segment.first_sequence, segment.last_sequence), (1, 4));
        configure("[audit]\nkeep_days = 90\n");
        close_and_remove(vault, log, &places).await.unwrap();
        assert_eq!(vault.store().audit_segments().await.unwrap()[0].removed_at, None);
        configure("[audit]\nkeep_days = 9\n");
        close_and_remove(vault, log, &places).await.unwrap_err();
        configure("[audit]\nrotate_keys_days = 1\n");
        close_and_remove(vault, log, &places).await.unwrap();
        let (first, _) = vault.store().audit_newest_key().await.unwrap().unwrap();
        let keys = rotate_log_keys(vault, log, &places).await.unwrap();
        assert_eq!(keys, (first, first.next()), "a key of today stays until somebody changes it");
        let verified = vault.store().audit_verify(Some(&*vault.head_sealer())).await.unwrap();
        assert_eq!(verified[0].vouching.without, 0);
    }

    #[tokio::test]
    async fn an_end_that_could_not_be_signed_is_told_until_it_is() {
        let scene = Scene::new().await;
        let places = Places::below(scene.folder.path());
        let entry =
            plain_entry(agent("broker", "broker"), Action::Query, Outcome::Success, Target::Log);
        scene.log.append(entry).await.unwrap();
        let problem = SigningProblem::default();
        let mut signing = Signing::new(Arc::clone(&problem));
        signing.due = Instant::now();
        std::fs::create_dir_all(places.checkpoints_file()).unwrap();
        signing.sign(&scene.vault, &scene.log, &places).await;
        assert!(problem.lock().is_some());
        let wait = signing.due - Instant::now();
        assert!(wait <= INTERVAL, "{wait:?}");
        std::fs::remove_dir(places.checkpoints_file()).unwrap();
        signing.due = Instant::now();
        signing.sign(&scene.vault, &scene.log, &places).await;
        assert_eq!(*problem.lock(), None);
        assert!(places.checkpoints_file().is_file() && signing.due > Instant::now() + INTERVAL);
    }

    #[test]
    fn a_log_is_kept_as_long_as_the_protocol_wants() {
        let kept = |keep_days| AuditConfig { keep_days, ..AuditConfig::default() }.check();
        assert!(kept(Some(89)).unwrap_err().contains("90 days"));
        assert_eq!((kept(Some(90)), kept(None)), (Ok(()), Ok(())));
        assert!(AuditConfig { rotate_entries: 0, ..AuditConfig::default() }.check().is_err());
        assert!(AuditConfig { rotate_keys_days: 0, ..AuditConfig::default() }.check().is_err());
    }
}
