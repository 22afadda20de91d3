//! Agents, their attestations, messages and threat records, grants and delegations: rows that others seal, and uses that are counted here.
//!
//! Whether a row is genuine, and what it allows, others say. A use is taken by one statement, so that of two that race
//! for the last one exactly one gets it, whichever process it comes from (NL, 8.4.2).

mod agents;
mod attestations;
mod delegations;
mod grants;
mod messages;
mod threats;

pub use self::{
    agents::AgentRow,
    attestations::ShownAttestation,
    delegations::DelegationRow,
    grants::{GrantRow, Untaken, UseOf, Uses},
    messages::{Beginning, BegunMessage},
    threats::ThreatRow,
};
use crate::{
    engine::query,
    store::{Store, StoreError},
};

impl Store {
    /// Grows with every change of agents, grants and delegations, by whatever process.
    pub async fn nl_revision(&self) -> Result<i64, StoreError> {
        query("SELECT revision FROM nl_revision").fetch_one(self.pool.soon()).await?.try_get(0)
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data")
}
