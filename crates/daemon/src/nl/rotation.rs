//! What agents and receivers are told of a rotation: names, numbers of versions and times, never a value (chapter 08, 8.3).

mod phases;

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    Error, SecretPath,
    audit::{Action, Entry},
};
use keyless_store::AuditQuery;
use keyless_vault::Vault;
use serde_json::{Map, Value, json};

pub(crate) use self::phases::keep as keep_phases;

/// The event's own name (NL-2.15), which the note of each entry about it begins with.
pub(crate) const EVENT: &str = "secret_rotated";

/// A version that was put in force in another way than by giving a new value: an older one, or one from a copy. The note of its
/// entry says which, since versions alone don't tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PutInForce {
    pub(crate) version: u32,
    /// What was in force before, if it is still there.
    pub(crate) before: Option<u32>,
}

impl PutInForce {
    /// The note of its entry.
    pub(crate) fn note(self) -> String {
        let Self { version, before } = self;
        let before = before.map(|before| format!(" in the place of v{before}"));
        format!("{EVENT}: v{version}{}", before.unwrap_or_default())
    }

    /// What a note says; nothing for one that is of a new value.
    fn of_note(note: &str) -> Option<Self> {
        let mut words = note.strip_prefix(EVENT)?.strip_prefix(": v")?.split(" in the place of v");
        let version = words.next()?.parse().ok()?;
        Some(Self { version, before: words.next().and_then(|word| word.parse().ok()) })
    }

    fn of(entry: &Entry) -> Option<Self> {
        Self::of_note(entry.detail.note.as_deref()?)
    }
}

/// The note of an entry about a new value; `older` was in force before, though it was not the newest one.
pub(crate) fn new_value_note(older: Option<u32>) -> String {
    older.map_or_else(|| EVENT.to_owned(), |version| format!("{EVENT}, after v{version}"))
}

fn older_of_note(note: &str) -> Option<u32> {
    note.strip_prefix(EVENT)?.strip_prefix(", after v")?.parse().ok()
}

/// What the log's entry about a rotation, or about a secret that must not be used any more, comes to. `grace`: for how long a value
/// that was replaced is as good as the new one.
pub(super) async fn told(
    vault: &Vault,
    entry: &Entry,
    grace: SignedDuration,
) -> Map<String, Value> {
    let is_rotation = entry.action == Action::Rotate;
    let (event, reason) =
        if is_rotation { ("rotated", "rotation") } else { ("revoked", "compromised") };
    let mut told = Map::new();
    let mut tell = |key: &str, value: Value| told.insert(key.to_owned(), value);
    tell("secret_ref", json!(entry.target));
    tell("name", json!(entry.target));
    tell("event", json!(event));
    tell("reason", json!(reason));
    tell("rotation_id", json!(entry.entry_id));
    tell("occurred_at", json!(entry.timestamp));
    let at = entry.timestamp.parse::<Timestamp>().ok();
    if let Some(at) = at.filter(|_| is_rotation) {
        let versions = before(vault, entry, at).await;
        // What was in force before such a change was taken back, and has no grace; nor has what others know.
        let is_over = PutInForce::of(entry).is_some() || is_known(vault, entry, &versions).await;
        let ends = at.checked_add(if is_over { SignedDuration::ZERO } else { grace }).ok();
        tell("grace_period_ends", json!(ends.map(|at| format!("{at:.3}"))));
        for (key, version) in ["new_version", "previous_version"].iter().zip(versions) {
            tell(key, json!(format!("v{version}")));
        }
    }
    told
}

/// The log's entries about rotations, and about secrets that must not be used any more, oldest first.
pub(super) async fn entries(vault: &Vault, wanted: &AuditQuery) -> Result<Vec<Entry>, Error> {
    let mut all = Vec::new();
    for action in [Action::Rotate, Action::SecretRevoke] {
        let wanted = AuditQuery { action: Some(action), ..wanted.clone() };
        all.extend(vault.store().audit_query(&wanted).await.map_err(Error::from)?);
    }
    all.sort_by_key(|entry| entry.sequence);
    all.truncate(wanted.limit.map_or(usize::MAX, |limit| limit as usize));
    Ok(all)
}

/// Whether the value that was replaced, the second of `versions`, is one that others may know.
async fn is_known(vault: &Vault, entry: &Entry, versions: &[u32]) -> bool {
    let Ok(path) = entry.target.parse::<SecretPath>() else { return false };
    let secret = vault.show(&path).await;
    let previous = versions.get(1).copied();
    secret.is_ok_and(|one| previous.is_some_and(|old| one.metadata.compromises(Some(old))))
}

/// The number of the log's last entry.
pub(super) async fn log_end(vault: &Vault) -> Result<u64, Error> {
    let tail = vault.store().audit_tail(1).await?;
    Ok(tail.last().map_or(0, |entry| entry.sequence))
}

/// The version that the entry is about and the one before: the newest two of its secret that there were at this time, unless the
/// entry says others; nothing where its values are not kept here.
async fn before(vault: &Vault, entry: &Entry, at: Timestamp) -> Vec<u32> {
    if let Some(PutInForce { version, before }) = PutInForce::of(entry) {
        return std::iter::once(version).chain(before).collect();
    }
    let Ok(path) = entry.target.parse::<SecretPath>() else { return Vec::new() };
    let had = vault.versions(&path).await.unwrap_or_default();
    // An entry's time has milliseconds, and is taken once the version is there.
    let was_there = had.iter().filter(|one| one.created_at.as_millisecond() <= at.as_millisecond());
    let mut numbers: Vec<u32> = was_there.map(|one| one.version).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.truncate(2);
    let older = entry.detail.note.as_deref().and_then(older_of_note);
    if let (Some(previous), Some(older)) = (numbers.get_mut(1), older) {
        *previous = older;
    }
    numbers
}

#[cfg(test)]
mod tests {
    use keyless_core::Code;
    use keyless_vault::{Entries, Metadata};
    use zeroize::Zeroizing;

    use super::*;
    use crate::{operator::Operator, scene::Scene};

    #[tokio::test]
    async fn an_older_value_that_is_put_in_force_is_told_of() {
        let scene = Scene::new().await;
        let operator = Operator::with_log(std::sync::Arc::clone(&scene.vault), scene.log.clone());
        let path: SecretPath = "t/api/token".parse().unwrap();
        let value = |text: &str| Zeroizing::new(text.as_bytes().to_vec());
        operator.add(&path, Metadata::default(), Some(value("the-first-value"))).await.unwrap();
        operator.rotate(&path, value("the-second-value")).await.unwrap();
        operator.restore(&path, Some(1)).await.unwrap();
        operator.remove(&path).await.unwrap();
        // The same value is no other one.
        operator.restore(&path, None).await.unwrap();
        operator.remove(&path).await.unwrap();
        operator.restore(&path, Some(2)).await.unwrap();
        operator.restore(&path, Some(1)).await.unwrap();
        operator.rotate(&path, value("the-third-value")).await.unwrap();
        let wanted = AuditQuery { action: Some(Action::Rotate), ..AuditQuery::default() };
        let entries = scene.vault.store().audit_query(&wanted).await.unwrap();
        let mut versions = Vec::new();
        for entry in &entries {
            let told = told(&scene.vault, entry, SignedDuration::from_hours(1)).await;
            let over = told["grace_period_ends"] == told["occurred_at"];
            versions.push((told["new_version"].clone(), told["previous_version"].clone(), over));
        }
        let told = |new: &str, previous: &str, over: bool| (json!(new), json!(previous), over);
        let expected = [
            told("v2", "v1", false),
            told("v1", "v2", true),
            told("v2", "v1", true),
            told("v1", "v2", true),
            told("v3", "v1", false),
        ];
        assert_eq!(versions, expected);
    }

    #[tokio::test]
    async fn a_value_that_others_know_has_no_grace() {
        let scene = Scene::new().await;
        let operator = Operator::with_log(std::sync::Arc::clone(&scene.vault), scene.log.clone());
        let path: SecretPath = "t/api/token".parse().unwrap();
        let value = |text: &str| Zeroizing::new(text.as_bytes().to_vec());
        operator.add(&path, Metadata::default(), Some(value("the-first-value"))).await.unwrap();
        operator.revoke_compromised(&path, "a test").await.unwrap();
        operator.rotate(&path, value("the-second-value")).await.unwrap();
        operator.rotate(&path, value("the-third-value")).await.unwrap();
        // Nor is it put in force again, which nobody is told then.
        let refused = operator.restore(&path, Some(1)).await.map(drop).unwrap_err();
        assert_eq!(refused.code(), Code::SecretCompromised);
        let mut said = Vec::new();
        for entry in entries(&scene.vault, &AuditQuery::default()).await.unwrap() {
            let told = told(&scene.vault, &entry, SignedDuration::from_hours(1)).await;
            let has_grace =
                told.get("grace_period_ends").is_some_and(|at| *at != told["occurred_at"]);
            said.push((told["event"].clone(), has_grace));
        }
        let expected =
            [(json!("revoked"), false), (json!("rotated"), false), (json!("rotated"), true)];
        assert_eq!(said, expected);
    }

    /// Whatever the operator says of weak values, and also once another value was in use (NL-2.19).
    #[tokio::test]
    async fn a_value_that_others_know_is_not_given_again() {
        let scene = Scene::new().await;
        let vault = || std::sync::Arc::clone(&scene.vault);
        let operator = Operator::with_log(vault(), scene.log.clone());
        let path: SecretPath = "t/api/token".parse().unwrap();
        let value = |text: &str| Zeroizing::new(text.as_bytes().to_vec());
        operator.add(&path, Metadata::default(), Some(value("the-first-value"))).await.unwrap();
        operator.rotate(&path, value("the-second-value")).await.unwrap();
        operator.revoke_compromised(&path, "a test").await.unwrap();
        let allowing = Operator::with_log(vault(), scene.log.clone()).allowing_weak_values();
        for known in ["the-first-value", "the-second-value"] {
            for operator in [&operator, &allowing] {
                let refused = operator.rotate(&path, value(known)).await.unwrap_err();
                assert_eq!(refused.code(), Code::ValueRefused, "{known}");
            }
            // The one place that every door leads to.
            let put = scene.vault.put(&path, value(known), Entries::untold()).await;
            assert_eq!(put.unwrap_err().code(), Code::ValueRefused, "{known}");
        }
        operator.rotate(&path, value("the-third-value")).await.unwrap();
        operator.rotate(&path, value("the-fourth-value")).await.unwrap();
        let again = operator.rotate(&path, value("the-first-value")).await.unwrap_err();
        assert_eq!(again.code(), Code::ValueRefused);
        // What nobody else knows may come back.
        operator.rotate(&path, value("the-third-value")).await.unwrap();
    }

    #[test]
    fn a_note_says_which_version_is_in_force() {
        for before in [None, Some(7)] {
            let put = PutInForce { version: 12, before };
            assert_eq!(PutInForce::of_note(&put.note()), Some(put));
        }
        assert_eq!(PutInForce::of_note(EVENT), None);
    }
}
