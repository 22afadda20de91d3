//! What agents and receivers are told of a rotation: names, numbers of versions and times, never a value (chapter 08, 8.3).

mod phases;

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    Error, SecretPath,
    audit::{Action, Entry},
};
use keyless_vault::Vault;
use serde_json::{Map, Value, json};

pub(crate) use self::phases::keep as keep_phases;

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
        let ends = at.checked_add(grace).ok();
        tell("grace_period_ends", json!(ends.map(|at| format!("{at:.3}"))));
        for (key, version) in
            ["new_version", "previous_version"].iter().zip(before(vault, entry, at).await)
        {
            tell(key, json!(format!("v{version}")));
        }
    }
    told
}

/// The number of the log's last entry.
pub(super) async fn log_end(vault: &Vault) -> Result<u64, Error> {
    let tail = vault.store().audit_tail(1).await?;
    Ok(tail.last().map_or(0, |entry| entry.sequence))
}

/// The newest two versions of the entry's secret that there were at this time, the newest first; nothing where its values are not
/// kept here.
async fn before(vault: &Vault, entry: &Entry, at: Timestamp) -> Vec<u32> {
    let Ok(path) = entry.target.parse::<SecretPath>() else { return Vec::new() };
    let had = vault.versions(&path).await.unwrap_or_default();
    // An entry's time has milliseconds, and is taken once the version is there.
    let was_there = had.iter().filter(|one| one.created_at.as_millisecond() <= at.as_millisecond());
    let mut numbers: Vec<u32> = was_there.map(|one| one.version).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.truncate(2);
    numbers
}
