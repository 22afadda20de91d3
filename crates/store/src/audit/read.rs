//! Reads the log: its end, or what fits a question.

use jiff::{Timestamp, fmt::strtime};
use keyless_core::{
    SecretPath,
    audit::{Action, Entry, Outcome},
};
use sqlx::{QueryBuilder, Sqlite, query_scalar};

use crate::store::{Store, StoreError};

/// The most entries of one answer, so that a question can't fill the memory.
const MOST: u32 = 10_000;

/// Which entries are wanted; all that is given must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Those after the entry of this number: where the last answer ended.
    pub after: Option<u64>,
    /// Those at or after this time.
    pub since: Option<Timestamp>,
    /// Those before this time.
    pub until: Option<Timestamp>,
    /// Those of this session.
    pub session: Option<String>,
    /// Those of agents with this URI.
    pub agent_uri: Option<String>,
    /// Those that are about this secret, or used it.
    pub secret: Option<SecretPath>,
    /// Those of one request.
    pub correlation_id: Option<String>,
    /// Those of this kind.
    pub action: Option<Action>,
    /// Those that ended so.
    pub outcome: Option<Outcome>,
    /// Those at the end of the log where `limit` leaves some out; else those at its start.
    pub newest: bool,
    /// At most so many, 10,000 when absent.
    pub limit: Option<u32>,
}

impl Store {
    /// The last `count` entries, oldest first.
    pub async fn audit_tail(&self, count: u32) -> Result<Vec<Entry>, StoreError> {
        let texts: Vec<String> =
            query_scalar("SELECT entry FROM audit ORDER BY sequence DESC LIMIT ?")
                .bind(count.min(MOST))
                .fetch_all(&self.pool)
                .await?;
        texts.iter().rev().map(|text| parse(text)).collect()
    }

    /// The entries that fit, oldest first.
    pub async fn audit_query(&self, wanted: &AuditQuery) -> Result<Vec<Entry>, StoreError> {
        let mut sql = QueryBuilder::<Sqlite>::new("SELECT entry FROM audit WHERE sequence > ");
        sql.push_bind(i64::try_from(wanted.after.unwrap_or(0)).unwrap_or(i64::MAX));
        if let Some(since) = wanted.since {
            sql.push(" AND json_extract(entry, '$.timestamp') >= ").push_bind(as_written(since));
        }
        if let Some(until) = wanted.until {
            sql.push(" AND json_extract(entry, '$.timestamp') < ").push_bind(as_written(until));
        }
        for (place, text) in [
            ("$.agent.session_id", &wanted.session),
            ("$.agent.uri", &wanted.agent_uri),
            ("$.correlation_id", &wanted.correlation_id),
        ] {
            if let Some(text) = text {
                sql.push(" AND json_extract(entry, ").push_bind(place).push(") = ");
                sql.push_bind(text.clone());
            }
        }
        if let Some(secret) = &wanted.secret {
            // A path has no comma, so that it is found whole in a target of several.
            sql.push(" AND (instr(',' || json_extract(entry, '$.target') || ',', ")
                .push_bind(format!(",{secret},"))
                .push(") > 0 OR EXISTS (SELECT 1 FROM json_each(entry, '$.secrets_used') WHERE value = ")
                .push_bind(secret.to_string())
                .push("))");
        }
        if let Some(action) = wanted.action {
            sql.push(" AND json_extract(entry, '$.action') = ").push_bind(word(&action));
        }
        if let Some(outcome) = wanted.outcome {
            sql.push(" AND json_extract(entry, '$.result') = ").push_bind(word(&outcome));
        }
        sql.push(if wanted.newest { " ORDER BY sequence DESC" } else { " ORDER BY sequence" });
        sql.push(" LIMIT ").push_bind(wanted.limit.unwrap_or(MOST).min(MOST));
        let mut texts: Vec<String> = sql.build_query_scalar().fetch_all(&self.pool).await?;
        if wanted.newest {
            texts.reverse();
        }
        texts.iter().map(|text| parse(text)).collect()
    }
}

fn parse(text: &str) -> Result<Entry, StoreError> {
    serde_json::from_str(text).map_err(|_| StoreError::DamagedRow { table: "audit" })
}

/// A time in the form of [`Entry::timestamp`], whose texts sort as the times do.
fn as_written(at: Timestamp) -> String {
    strtime::format("%Y-%m-%dT%H:%M:%S.%3fZ", at).expect("the format has no invalid directive")
}

fn word(word: &impl serde::Serialize) -> String {
    match serde_json::to_value(word) {
        Ok(serde_json::Value::String(word)) => word,
        _ => unreachable!("actions and outcomes serialize to words"),
    }
}
