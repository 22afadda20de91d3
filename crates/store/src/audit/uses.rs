//! Who was given which secret lately, by the log's newest entries.

use jiff::Timestamp;
use keyless_core::SecretPath;

use crate::{
    engine::{Row, query_owned},
    store::{Store, StoreError},
};

/// How far back is looked, in entries: a list of secrets is drawn often, and the log grows for years.
const LOOKED: u32 = 20_000;
const TABLE: &str = "audit";

/// A session that was given a secret's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatestUse {
    /// The secret.
    pub path: SecretPath,
    /// The agent.
    pub agent_uri: String,
    /// Its session.
    pub session_id: String,
    /// When it was last.
    pub at: Timestamp,
    /// In how many of the entries that were looked at.
    pub entries: u64,
}

impl Store {
    /// Every session's uses of every secret among the newest 20,000 entries of our chain, the latest first.
    pub async fn latest_uses(&self) -> Result<Vec<LatestUse>, StoreError> {
        let (pool, text) = (&self.pool, |place| self.pool.json_text("entry", place));
        let (items, item) = pool.json_items("entry", "secrets_used");
        let sql = format!(
            "SELECT {item}, {}, {}, MAX({}), COUNT(*) FROM \
             (SELECT entry FROM audit WHERE chain = $1 ORDER BY sequence DESC LIMIT $2) AS newest, {items} \
             WHERE {} = 'success' GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 3",
            text("agent.uri"),
            text("agent.session_id"),
            text("timestamp"),
            text("result"),
        );
        let rows = query_owned(sql).bind(self.chain.name()).bind(LOOKED).fetch_all(pool).await?;
        rows.iter().map(parse).collect()
    }
}

fn parse(row: &Row) -> Result<LatestUse, StoreError> {
    let damaged = || StoreError::DamagedRow { table: TABLE };
    let (path, at): (&str, &str) = (row.try_get(0)?, row.try_get(3)?);
    Ok(LatestUse {
        path: SecretPath::parse(path).map_err(|_| damaged())?,
        agent_uri: row.try_get(1)?,
        session_id: row.try_get(2)?,
        at: at.parse().map_err(|_| damaged())?,
        entries: row.number(4, TABLE)?,
    })
}
