//! Reads the log: its end, or what fits a question.

use jiff::{Timestamp, fmt::strtime};
use keyless_core::{
    SecretPath,
    audit::{Action, Entry, Outcome},
};

use crate::{
    engine::{Pool, Query, Value, query, query_owned},
    store::{OwnChain, Store, StoreError},
};

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
    /// The last `count` entries of our chain, oldest first.
    pub async fn audit_tail(&self, count: u32) -> Result<Vec<Entry>, StoreError> {
        let tail =
            query("SELECT entry FROM audit WHERE chain = $1 ORDER BY sequence DESC LIMIT $2");
        let tail = tail.bind(self.chain.name()).bind(count.min(MOST));
        let mut entries = entries(tail, &self.pool).await?;
        entries.reverse();
        Ok(entries)
    }

    /// The entries of our chain that fit, oldest first.
    pub async fn audit_query(&self, wanted: &AuditQuery) -> Result<Vec<Entry>, StoreError> {
        let mut entries = entries(wanted.query(&self.chain, &self.pool), &self.pool).await?;
        if wanted.newest {
            entries.reverse();
        }
        Ok(entries)
    }
}

impl AuditQuery {
    fn query(&self, own: &OwnChain, pool: &Pool) -> Query {
        let (since, until) = (self.since.map(as_written), self.until.map(as_written));
        let (action, outcome) = (self.action.as_ref().map(word), self.outcome.as_ref().map(word));
        let mut values = Values::default();
        let chain = values.place(own.name());
        let after = values.place(i64::try_from(self.after.unwrap_or(0)).unwrap_or(i64::MAX));
        let mut all = vec![format!("chain = {chain} AND sequence > {after}")];
        for (place, compares, text) in [
            ("timestamp", ">=", &since),
            ("timestamp", "<", &until),
            ("agent.session_id", "=", &self.session),
            ("agent.uri", "=", &self.agent_uri),
            ("correlation_id", "=", &self.correlation_id),
            ("action", "=", &action),
            ("result", "=", &outcome),
        ] {
            if let Some(text) = text {
                all.push(format!(
                    "{} {compares} {}",
                    pool.json_text("entry", place),
                    values.place(text)
                ));
            }
        }
        if let Some(secret) = &self.secret {
            all.push(is_about(secret, pool, &mut values));
        }
        let (all, order) = (all.join(" AND "), if self.newest { "DESC" } else { "ASC" });
        let limit = values.place(self.limit.unwrap_or(MOST).min(MOST));
        let sql =
            format!("SELECT entry FROM audit WHERE {all} ORDER BY sequence {order} LIMIT {limit}");
        values.0.into_iter().fold(query_owned(sql), Query::bind)
    }
}

/// The values of a statement that is being put together.
#[derive(Default)]
struct Values(Vec<Value>);

impl Values {
    /// What stands for the value in the statement.
    fn place(&mut self, value: impl Into<Value>) -> String {
        self.0.push(value.into());
        format!("${}", self.0.len())
    }
}

/// That an entry is about a secret, or used it.
fn is_about(secret: &SecretPath, pool: &Pool, values: &mut Values) -> String {
    // A path has no comma, so that it is found whole in a target of several.
    let (whole, path) = (values.place(format!(",{secret},")), values.place(secret.as_str()));
    let target = format!("',' || {} || ','", pool.json_text("entry", "target"));
    let named = pool.has_text(&target, &whole);
    format!("({named} OR {})", pool.json_lists("entry", "secrets_used", &path))
}

async fn entries(select: Query, pool: &Pool) -> Result<Vec<Entry>, StoreError> {
    let rows = select.fetch_all(pool).await?;
    rows.iter().map(|row| parse(row.try_get(0)?)).collect()
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
