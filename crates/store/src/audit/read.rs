//! Reads the log: its end, or what fits a question.

use std::collections::VecDeque;

use jiff::{Timestamp, fmt::strtime};
use keyless_core::{
    SecretPath,
    audit::{Action, Entry, Outcome, Segment},
};
use tokio::task::spawn_blocking;

use super::{LogError, segments};
use crate::{
    engine::{Connection, Pool, Query, Row, Transaction, Value, of_a_size, query_owned},
    store::{Store, StoreError},
};

/// The most entries of one answer, so that a question can't fill the memory.
const MOST: u32 = 10_000;

/// Which entries are wanted; all that is given must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Entries after the one of this number: where the last answer ended.
    pub after: Option<u64>,
    /// Entries at or after this time.
    pub since: Option<Timestamp>,
    /// Entries from before this time.
    pub until: Option<Timestamp>,
    /// Entries of this session.
    pub session: Option<String>,
    /// Entries of agents with this URI.
    pub agent_uri: Option<String>,
    /// Entries that are about this secret, or used it.
    pub secret: Option<SecretPath>,
    /// Entries of one request.
    pub correlation_id: Option<String>,
    /// Entries of this kind.
    pub action: Option<Action>,
    /// Entries with this outcome.
    pub outcome: Option<Outcome>,
    /// Those that have this anywhere in them (NL-5.20).
    pub text: Option<String>,
    /// Those at the end of the log where `limit` leaves some out; else those at its start.
    pub newest: bool,
    /// At most so many, 10,000 when absent.
    pub limit: Option<u32>,
}

impl Store {
    /// The last `count` entries of our chain, oldest first.
    pub async fn audit_tail(&self, count: u32) -> Result<Vec<Entry>, LogError> {
        let newest =
            AuditQuery { newest: true, limit: Some(count.min(MOST)), ..AuditQuery::default() };
        self.audit_query(&newest).await
    }

    /// The entries of our chain that fit, oldest first; those of closed parts are read from their files.
    pub async fn audit_query(&self, wanted: &AuditQuery) -> Result<Vec<Entry>, LogError> {
        let limit = wanted.limit.unwrap_or(MOST).min(MOST);
        // In one view: a part that is closed meanwhile is in neither, or in both.
        let mut view = Transaction::view(&self.pool).await?;
        let closed = segments::of_chain(view.connection(), self.chain.name()).await?;
        let closed: Vec<Segment> = closed.into_iter().map(|row| row.segment).collect();
        // Its last entry is in the database as well.
        let base = closed.last().map_or(0, |last| last.last_sequence);
        let after = wanted.after.unwrap_or(0).max(base);
        let mut open = entries(wanted.query(self, (after, limit)), view.connection()).await?;
        view.commit().await?;
        if wanted.newest {
            open.reverse();
            let mut all = self.query_files(closed, wanted, limit - length(&open)).await?;
            all.append(&mut open);
            return Ok(all);
        }
        let mut all = self.query_files(closed, wanted, limit).await?;
        all.append(&mut open);
        all.truncate(limit as usize);
        Ok(all)
    }

    /// At most `limit` entries of closed parts that fit: the newest or the oldest of them, oldest first.
    async fn query_files(
        &self,
        mut closed: Vec<Segment>,
        wanted: &AuditQuery,
        limit: u32,
    ) -> Result<Vec<Entry>, LogError> {
        let (after, since) = (wanted.after.unwrap_or(0), wanted.since.map(as_written));
        closed.retain(|one| {
            one.removed_at.is_none()
                && one.last_sequence > after
                && since.as_ref().is_none_or(|since| one.closed_at >= *since)
        });
        if limit == 0 || closed.is_empty() {
            return Ok(Vec::new());
        }
        if wanted.newest {
            closed.reverse();
        }
        let (folder, wanted, limit) = (self.segments.clone(), wanted.clone(), limit as usize);
        let reading = spawn_blocking(move || {
            let mut found: VecDeque<Entry> = VecDeque::new();
            for segment in &closed {
                let mut of_file = Vec::new();
                segments::visit(&folder, segment, |entry| {
                    if wanted.fits(&entry) && (wanted.newest || found.len() + of_file.len() < limit)
                    {
                        of_file.push(entry);
                    }
                })?;
                if wanted.newest {
                    let room = limit - found.len();
                    for entry in of_file.into_iter().rev().take(room) {
                        found.push_front(entry);
                    }
                } else {
                    found.extend(of_file);
                }
                if found.len() == limit {
                    break;
                }
            }
            Ok::<_, LogError>(found.into())
        });
        reading.await.expect("reading does not panic")
    }
}

impl AuditQuery {
    /// Whether an entry that was read from a file fits.
    fn fits(&self, entry: &Entry) -> bool {
        let Self { after, since, until, session, agent_uri, secret, correlation_id, .. } = self;
        let about = |secret: &SecretPath| {
            entry.secrets_used.contains(secret)
                || entry.detail.secrets_named.contains(secret)
                || entry.target.split(',').any(|path| path == secret.as_str())
        };
        after.is_none_or(|after| entry.sequence > after)
            && since.is_none_or(|since| entry.timestamp >= as_written(since))
            && until.is_none_or(|until| entry.timestamp < as_written(until))
            && session.as_ref().is_none_or(|session| entry.agent.session_id == *session)
            && agent_uri.as_ref().is_none_or(|uri| entry.agent.uri == *uri)
            && secret.as_ref().is_none_or(about)
            && correlation_id.as_ref().is_none_or(|id| entry.correlation_id == *id)
            && self.action.is_none_or(|action| entry.action == action)
            && self.outcome.is_none_or(|outcome| entry.result == outcome)
            && self.text.as_ref().is_none_or(|text| entry.as_stored().contains(&as_json(text)))
    }

    /// The question to the database, of what is behind the entry `after`.
    fn query(&self, store: &Store, (after, limit): (u64, u32)) -> Query {
        let (own, pool) = (&store.chain, &store.pool);
        let (since, until) = (self.since.map(as_written), self.until.map(as_written));
        let (action, outcome) = (self.action.as_ref().map(word), self.outcome.as_ref().map(word));
        let mut values = Values::default();
        let chain = values.place(own.name());
        let after = values.place(i64::try_from(after).unwrap_or(i64::MAX));
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
        if let Some(text) = &self.text {
            let text = values.place(as_json(text));
            all.push(pool.has_text("entry", &text));
        }
        if let Some(secret) = &self.secret {
            all.push(is_about(secret, pool, &mut values));
        }
        let (all, order) = (all.join(" AND "), if self.newest { "DESC" } else { "ASC" });
        let limit = values.place(limit);
        let entry = of_a_size("entry");
        let sql = format!(
            "SELECT {entry} FROM audit WHERE {all} ORDER BY sequence {order} LIMIT {limit}"
        );
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

/// That an entry is about a secret, used it, or named it where it could not be used.
fn is_about(secret: &SecretPath, pool: &Pool, values: &mut Values) -> String {
    // A path has no comma, so that it is found whole in a target of several.
    let (whole, path) = (values.place(format!(",{secret},")), values.place(secret.as_str()));
    let target = format!("',' || {} || ','", pool.json_text("entry", "target"));
    let named = pool.has_text(&target, &whole);
    let used = pool.json_lists("entry", "secrets_used", &path);
    let refused = pool.json_lists("entry", "detail.secrets_named", &path);
    format!("({named} OR {used} OR {refused})")
}

fn length(entries: &[Entry]) -> u32 {
    u32::try_from(entries.len()).unwrap_or(u32::MAX)
}

async fn entries(select: Query, view: &mut Connection) -> Result<Vec<Entry>, StoreError> {
    let rows = select.fetch_all(view).await?;
    rows.iter().map(parse).collect()
}

/// The entry in the first column of a row.
pub(super) fn parse(row: &Row) -> Result<Entry, StoreError> {
    let text = row.raw_text(0)?.unwrap_or_default();
    serde_json::from_slice(&text).map_err(|_| StoreError::DamagedRow { table: "audit" })
}

/// A time in the form of [`Entry::timestamp`], whose texts sort as the times do.
fn as_written(at: Timestamp) -> String {
    strtime::format("%Y-%m-%dT%H:%M:%S.%3fZ", at).expect("the format has no invalid directive")
}

/// A text as it stands within a string of an entry.
fn as_json(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("a string is plain data");
    quoted[1..quoted.len() - 1].to_owned()
}

fn word(word: &impl serde::Serialize) -> String {
    match serde_json::to_value(word) {
        Ok(serde_json::Value::String(word)) => word,
        _ => unreachable!("actions and outcomes serialize to words"),
    }
}
