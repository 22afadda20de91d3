//! Registered agents.

use keyless_core::agent::{Aid, InstanceId};

use super::json;
use crate::{
    audit::Told,
    engine::{Row, of_a_size, query, query_owned},
    store::{Store, StoreError},
};

/// An agent, the slow hash of its credential, and the seal over both.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentRow {
    /// The agent's identity document.
    pub aid: Aid,
    /// The hash, in PHC form.
    pub credential_hash: String,
    /// The vault's word on it: a MAC over [`AgentRow::sealed_bytes`].
    pub seal: Vec<u8>,
}

impl AgentRow {
    /// What a seal covers: everything, in one form.
    pub fn sealed_bytes(aid: &Aid, credential_hash: &str) -> Vec<u8> {
        json(&("agent", aid, credential_hash)).into_bytes()
    }
}

impl Store {
    /// Records an agent; [`StoreError::Taken`] when its instance is known. On disk when this returns.
    pub async fn insert_agent(&self, row: &AgentRow, told: Told<'_>) -> Result<(), StoreError> {
        let insert = query(
            "INSERT INTO agents (instance_id, aid, credential, seal) VALUES ($1, $2, $3, $4)",
        );
        let insert = insert
            .bind(row.aid.instance_id.as_str())
            .bind(json(&row.aid))
            .bind(&row.credential_hash)
            .bind(&row.seal);
        self.run_told(insert, told).await.map(drop)
    }

    /// Puts `new` in the place of `old`, which has the same instance; `false` when somebody was faster.
    pub async fn replace_agent(
        &self,
        old: &AgentRow,
        new: &AgentRow,
        told: Told<'_>,
    ) -> Result<bool, StoreError> {
        let update = query(
            "UPDATE agents SET aid = $1, credential = $2, seal = $3 WHERE instance_id = $4 AND seal = $5",
        );
        let update = update
            .bind(json(&new.aid))
            .bind(&new.credential_hash)
            .bind(&new.seal)
            .bind(old.aid.instance_id.as_str())
            .bind(&old.seal);
        self.run_told(update, told).await
    }

    /// Removes an agent as it stood when `row` was read; `false` when it has changed since.
    pub async fn remove_agent(&self, row: &AgentRow, told: Told<'_>) -> Result<bool, StoreError> {
        let delete = query("DELETE FROM agents WHERE instance_id = $1 AND seal = $2");
        let delete = delete.bind(row.aid.instance_id.as_str()).bind(&row.seal);
        self.run_told(delete, told).await
    }

    /// One agent.
    pub async fn agent(&self, instance: &InstanceId) -> Result<Option<AgentRow>, StoreError> {
        let select = format!(
            "SELECT {}, credential, seal FROM agents WHERE instance_id = $1",
            of_a_size("aid")
        );
        let select = query_owned(select);
        let row = select.bind(instance.as_str()).fetch_optional(self.pool.soon()).await?;
        row.as_ref().map(agent_row).transpose()
    }

    /// All agents, oldest first. A row that can't be read is left out: it is nobody's identity.
    pub async fn agents(&self) -> Result<Vec<AgentRow>, StoreError> {
        let select = format!("SELECT {}, credential, seal FROM agents", of_a_size("aid"));
        let rows = query_owned(select).fetch_all(&self.pool).await?;
        let mut all: Vec<_> = rows.iter().filter_map(|row| agent_row(row).ok()).collect();
        all.sort_by_key(|row| row.aid.created_at);
        Ok(all)
    }
}

fn agent_row(row: &Row) -> Result<AgentRow, StoreError> {
    let damaged = |_| StoreError::DamagedRow { table: "agents" };
    Ok(AgentRow {
        aid: serde_json::from_str(row.try_get(0)?).map_err(damaged)?,
        credential_hash: row.try_get(1)?,
        seal: row.try_get(2)?,
    })
}
