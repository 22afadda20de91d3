//! What becomes of a value that was replaced: for a while it is as good as the new one, then it is given with a warning, and then
//! not any more (NL-8.15). Each of these steps is an entry of the log, joined to the rotation's own (NL-8.16).

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    Error, Grace, SecretPath, Version,
    audit::{Action, Detail, Draft, Entry, Outcome, Target},
};
use keyless_store::{AuditLog, AuditQuery};
use keyless_vault::Vault;

use super::{PutInForce, before, log_end};
use crate::{
    broker::{agent, plain_entry},
    nl::actions::given_version,
};

/// How often it is looked whether a step is due.
const PAUSE: Duration = Duration::from_mins(1);
/// Rotations that are older are over: no step of theirs is written any more.
const LOOKED_BACK: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Writes every step down when it is due, until it is dropped.
pub(crate) async fn keep(vault: Arc<Vault>, log: AuditLog, grace: Grace) {
    let mut phases = Phases { vault, log, grace, read: None, replaced: Vec::new() };
    loop {
        // What can't be written or read now is due the next time.
        let _ = phases.round(Timestamp::now()).await;
        tokio::time::sleep(PAUSE).await;
    }
}

struct Phases {
    vault: Arc<Vault>,
    log: AuditLog,
    grace: Grace,
    /// Up to where the log is known.
    read: Option<u64>,
    /// Whose steps are not over.
    replaced: Vec<Replaced>,
}

/// A value that was replaced.
struct Replaced {
    path: SecretPath,
    version: u32,
    at: Timestamp,
    /// Joins its entries.
    correlation_id: String,
    /// Whether it is on record that its grace is over.
    is_deprecated: bool,
}

impl Phases {
    async fn round(&mut self, now: Timestamp) -> Result<(), Error> {
        self.learn(now).await?;
        let (mut left, mut done) = (Vec::new(), Ok(()));
        for mut one in std::mem::take(&mut self.replaced) {
            let goes_on = self.step(&mut one, now).await;
            if goes_on.as_ref().copied().unwrap_or(true) {
                left.push(one);
            }
            done = done.and(goes_on.map(drop));
        }
        self.replaced = left;
        done
    }

    /// Writes the step that is due; gives whether another is to come.
    async fn step(&self, one: &mut Replaced, now: Timestamp) -> Result<bool, Error> {
        if now.duration_since(one.at) < self.grace.full {
            return Ok(true);
        }
        let version = Version::Number(one.version);
        let given = match given_version(&self.vault, &one.path, version, self.grace, now).await {
            Ok(given) => given,
            // The secret went, and its removal is on record.
            Err(error) if error.code() == keyless_core::Code::SecretNotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match given {
            Some(given) if given.is_in_force => return Ok(false),
            Some(given) if !given.is_deprecated => return Ok(true),
            _ => {}
        }
        let version = one.version;
        if !one.is_deprecated {
            let words = format!("v{version} was replaced and is given with a warning from now on");
            self.write(Action::RotationGraceExpired, one, words).await?;
            one.is_deprecated = true;
        }
        if given.is_none() {
            let words = format!("v{version} was replaced and is not given any more");
            self.write(Action::RotationCleanup, one, words).await?;
        }
        Ok(given.is_some())
    }

    async fn write(&self, action: Action, one: &Replaced, note: String) -> Result<(), Error> {
        let (who, about) = (agent("broker", "broker"), Target::Secrets(vec![one.path.clone()]));
        let draft = Draft {
            correlation_id: one.correlation_id.clone(),
            detail: Detail { note: Some(note), ..Detail::default() },
            ..plain_entry(who, action, Outcome::Success, about)
        };
        self.log.append(draft).await.map(drop)
    }

    /// Learns of the rotations since the last time; the first time also how far each has come.
    async fn learn(&mut self, now: Timestamp) -> Result<(), Error> {
        let (is_first, end) = (self.read.is_none(), log_end(&self.vault).await?);
        let rotations = self.entries(Action::Rotate, now).await?;
        let mut found = Vec::new();
        for entry in &rotations {
            let Ok(at) = entry.timestamp.parse::<Timestamp>() else { continue };
            let Ok(path) = entry.target.parse::<SecretPath>() else { continue };
            // What was taken back is not given at all.
            if PutInForce::of(entry).is_some() {
                continue;
            }
            // Of values that are kept elsewhere nothing is known.
            if let [_, version] = before(&self.vault, entry, at).await[..] {
                let correlation_id = entry.correlation_id.clone();
                found.push(Replaced { path, version, at, correlation_id, is_deprecated: false });
            }
        }
        if is_first {
            let mut steps = HashMap::new();
            for action in [Action::RotationGraceExpired, Action::RotationCleanup] {
                for entry in self.entries(action, now).await? {
                    steps.insert(entry.correlation_id, action);
                }
            }
            let step = |one: &Replaced| steps.get(&one.correlation_id).copied();
            found.retain(|one| step(one) != Some(Action::RotationCleanup));
            for one in &mut found {
                one.is_deprecated = step(one).is_some();
            }
        }
        self.replaced.append(&mut found);
        // Where there was nothing, it need not be looked at again.
        self.read = Some(rotations.last().map_or(end, |last| last.sequence));
        Ok(())
    }

    async fn entries(&self, action: Action, now: Timestamp) -> Result<Vec<Entry>, Error> {
        let (action, since) = (Some(action), now.checked_sub(LOOKED_BACK).ok());
        let wanted = AuditQuery { after: self.read, since, action, ..AuditQuery::default() };
        Ok(self.vault.store().audit_query(&wanted).await?)
    }
}

#[cfg(test)]
mod tests {
    use keyless_vault::Metadata;
    use zeroize::Zeroizing;

    use super::*;
    use crate::{operator::Operator, scene::Scene};

    fn value(text: &str) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(text.as_bytes().to_vec())
    }

    fn phases(scene: &Scene) -> Phases {
        let (vault, log) = (Arc::clone(&scene.vault), scene.log.clone());
        Phases { vault, log, grace: Grace::default(), read: None, replaced: Vec::new() }
    }

    /// What is on record of `path`, the rotations among it.
    async fn steps(scene: &Scene, path: &SecretPath) -> Vec<(Action, String)> {
        let wanted = AuditQuery { secret: Some(path.clone()), ..AuditQuery::default() };
        let entries = scene.vault.store().audit_query(&wanted).await.unwrap();
        let rotations = entries.into_iter().filter(|entry| entry.action != Action::Create);
        rotations.map(|entry| (entry.action, entry.correlation_id)).collect()
    }

    #[tokio::test]
    async fn each_step_of_a_rotation_is_on_record_once() {
        use Action::{Rotate, RotationCleanup, RotationGraceExpired};
        let scene = Scene::new().await;
        let operator = Operator::with_log(Arc::clone(&scene.vault), scene.log.clone());
        let [path, back] = ["t/api/token", "t/api/back"].map(|path| path.parse().unwrap());
        for path in [&path, &back] {
            operator.add(path, Metadata::default(), Some(value("the-first-value"))).await.unwrap();
            operator.rotate(path, value("the-second-value")).await.unwrap();
        }
        // What is in force again is not replaced.
        operator.restore(&back, Some(1)).await.unwrap();
        let after = |hours: i64| Timestamp::now() + SignedDuration::from_hours(hours);
        let mut running = phases(&scene);
        for (hours, expected) in [
            (0, vec![Rotate]),
            (2, vec![Rotate, RotationGraceExpired]),
            (3, vec![Rotate, RotationGraceExpired]),
        ] {
            running.round(after(hours)).await.unwrap();
            let found = steps(&scene, &path).await;
            let actions: Vec<Action> = found.iter().map(|(action, _)| *action).collect();
            assert_eq!(actions, expected, "after {hours} hours");
        }
        // Another broker on the store goes on where this one was.
        let mut next = phases(&scene);
        for hours in [4, 26, 27] {
            next.round(after(hours)).await.unwrap();
        }
        phases(&scene).round(after(28)).await.unwrap();
        let found = steps(&scene, &path).await;
        let actions: Vec<Action> = found.iter().map(|(action, _)| *action).collect();
        assert_eq!(actions, [Rotate, RotationGraceExpired, RotationCleanup]);
        assert!(found.iter().all(|(_, correlation)| *correlation == found[0].1), "{found:?}");
        // The rotation, the restoring, and that it is one as well.
        assert_eq!(steps(&scene, &back).await.len(), 3);
    }
}
