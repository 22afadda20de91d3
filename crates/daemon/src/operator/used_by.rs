//! Which agents used a secret, by the log.

use std::collections::BTreeMap;

use keyless_core::{Error, audit::Outcome};
use keyless_store::{AuditQuery, Store};
use keyless_vault::Secret;
use serde::Serialize;

/// An agent that used a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsedBy {
    /// The agent.
    pub agent_uri: String,
    /// Its session.
    pub session_id: String,
    /// When it first did.
    pub first: String,
    /// When it last did.
    pub last: String,
    /// In how many entries of the log.
    pub entries: u64,
}

/// Everybody who was given the value that is in force, or the secret's value at all where another source keeps it.
pub(super) async fn since_set(store: &Store, secret: &Secret) -> Result<Vec<UsedBy>, Error> {
    let mut wanted = AuditQuery {
        since: Some(secret.rotated_at.unwrap_or(secret.created_at)),
        secret: Some(secret.path.clone()),
        outcome: Some(Outcome::Success),
        ..AuditQuery::default()
    };
    let mut found: BTreeMap<(String, String), UsedBy> = BTreeMap::new();
    loop {
        let entries = store.audit_query(&wanted).await?;
        let Some(last) = entries.last() else { break };
        wanted.after = Some(last.sequence);
        for entry in entries.into_iter().filter(|one| one.secrets_used.contains(&secret.path)) {
            let key = (entry.agent.uri.clone(), entry.agent.session_id.clone());
            let used = found.entry(key).or_insert_with(|| UsedBy {
                agent_uri: entry.agent.uri,
                session_id: entry.agent.session_id,
                first: entry.timestamp.clone(),
                last: String::new(),
                entries: 0,
            });
            used.last = entry.timestamp;
            used.entries += 1;
        }
    }
    let mut all: Vec<UsedBy> = found.into_values().collect();
    all.sort_by(|a, b| a.first.cmp(&b.first));
    Ok(all)
}
