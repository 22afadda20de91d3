//! Attestations that were shown, and whose they are since.

use jiff::Timestamp;

use crate::{
    engine::query,
    store::{Store, StoreError},
};

/// How long one is kept beyond its time, in seconds: the clocks of two brokers may differ.
const KEPT: i64 = 60;

/// An attestation that an agent shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownAttestation {
    /// What it is known by, whoever shows it.
    pub name: String,
    /// The agent's instance.
    pub instance: String,
    /// The token's hash.
    pub digest: String,
}

impl Store {
    /// Binds an attestation to the agent that shows it, until then; `false` when another agent has shown its name before,
    /// or the name was another token's, at whichever broker.
    ///
    /// What is too old goes.
    pub async fn bind_attestation(
        &self,
        shown: &ShownAttestation,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let bound = now.as_second().saturating_sub(KEPT);
        query("DELETE FROM attestations_seen WHERE until < $1")
            .bind(bound)
            .execute(&self.pool)
            .await?;
        let insert = query(
            "INSERT INTO attestations_seen (name, instance_id, digest, until) \
             VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO NOTHING",
        );
        let insert = insert.bind(&shown.name).bind(&shown.instance).bind(&shown.digest);
        if insert.bind(until.as_second()).execute(&self.pool).await? == 1 {
            return Ok(true);
        }
        let select = query(
            "SELECT name FROM attestations_seen \
             WHERE name = $1 AND instance_id = $2 AND digest = $3",
        );
        let select = select.bind(&shown.name).bind(&shown.instance).bind(&shown.digest);
        Ok(select.fetch_optional(&self.pool).await?.is_some())
    }
}
