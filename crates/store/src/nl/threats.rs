//! What agents did that looks like an attack.

use keyless_core::{agent::InstanceId, threat::ThreatRecord};

use super::json;
use crate::{
    engine::{of_a_size, query, query_owned},
    store::{Store, StoreError},
};

/// An agent's record, and the seal over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreatRow {
    /// The agent's instance.
    pub instance: InstanceId,
    /// Its incidents.
    pub record: ThreatRecord,
    /// The vault's word on it: a MAC over [`ThreatRow::sealed_bytes`].
    pub seal: Vec<u8>,
}

impl ThreatRow {
    /// What a seal covers: everything, in one form.
    pub fn sealed_bytes(instance: &InstanceId, record: &ThreatRecord) -> Vec<u8> {
        json(&("threat", instance, record)).into_bytes()
    }
}

impl Store {
    /// An agent's record; nothing for one that never did anything.
    pub async fn threat(&self, instance: &InstanceId) -> Result<Option<ThreatRow>, StoreError> {
        let select =
            format!("SELECT {}, seal FROM threats WHERE instance_id = $1", of_a_size("record"));
        let select = query_owned(select);
        let Some(row) = select.bind(instance.as_str()).fetch_optional(self.pool.soon()).await?
        else {
            return Ok(None);
        };
        let record = serde_json::from_str(row.try_get::<&str>(0)?)
            .map_err(|_| StoreError::DamagedRow { table: "threats" })?;
        Ok(Some(ThreatRow { instance: instance.clone(), record, seal: row.try_get(1)? }))
    }

    /// Removes the records of agents that are not there any more.
    pub async fn sweep_threats(&self) -> Result<(), StoreError> {
        let delete =
            "DELETE FROM threats WHERE instance_id NOT IN (SELECT instance_id FROM agents)";
        query(delete).execute(&self.pool).await.map(drop)
    }

    /// Puts `new` in the place of `old`, which is the same agent's; `false` when somebody was faster.
    pub async fn replace_threat(
        &self,
        old: Option<&ThreatRow>,
        new: &ThreatRow,
    ) -> Result<bool, StoreError> {
        let record = json(&new.record);
        let change = match old {
            Some(old) => {
                query("UPDATE threats SET record = $1, seal = $2 WHERE instance_id = $3 AND seal = $4")
                    .bind(record)
                    .bind(&new.seal)
                    .bind(new.instance.as_str())
                    .bind(&old.seal)
            }
            None => query(
                "INSERT INTO threats (record, seal, instance_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            )
            .bind(record)
            .bind(&new.seal)
            .bind(new.instance.as_str()),
        };
        Ok(change.execute(&self.pool).await? == 1)
    }
}
