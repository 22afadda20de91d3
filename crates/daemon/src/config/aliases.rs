//! Aliases in config.toml: what nothing resolves is refused, since what reads it would take it for what it names.

use keyless_core::alias;
use toml::{Table, Value};

use crate::nl::HookKey;

/// The one place where an alias stands for what it names, and where nothing else may stand.
const RESOLVED: &str = "nl.webhooks.key";

/// Fails for an alias that nothing resolves, and for a key of a receiver that is none. The error names the place and
/// repeats nothing of what stands there.
pub(super) fn refuse_aliases(file: &Table) -> Result<(), String> {
    file.iter().try_for_each(|(key, value)| look(key, value))
}

fn look(place: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::Table(inner) if place != RESOLVED => {
            inner.iter().try_for_each(|(key, value)| look(&format!("{place}.{key}"), value))
        }
        Value::Array(all) if place != RESOLVED => all.iter().try_for_each(|one| look(place, one)),
        value if place == RESOLVED => {
            let text = value.as_str().unwrap_or_default();
            HookKey::named(text).map(drop).map_err(|fault| format!("nl.webhooks: {fault}"))
        }
        Value::String(text) if alias(text).is_some() => Err(format!(
            "{place} is an alias, which nothing resolves there: write what it names itself or, where that is a credential, \
             the file that holds it; only a receiver's key ({RESOLVED}) may be a secret of the store"
        )),
        _ => Ok(()),
    }
}
