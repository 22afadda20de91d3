//! What a registration by message asks for.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    ActionType,
    agent::{AgentType, AgentUri, Aid, AidScope, CLOCK_SKEW, TrustLevel},
    maybe_whole,
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use crate::nl::agents::Registration;

/// How long an agent lives if nothing is said, as at the command line.
const LIFE: SignedDuration = SignedDuration::from_hours(12);

/// What a registration asks for.
#[derive(Deserialize)]
pub(in crate::nl) struct Wanted {
    agent_uri: AgentUri,
    /// That of who registers it, if nothing is said.
    organization_id: Option<String>,
    /// A program does not become a person, of whom no attestation is wanted, because an agent says so.
    #[serde(deserialize_with = "no_person")]
    agent_type: AgentType,
    capabilities: Vec<ActionType>,
    scope: Option<AidScope>,
    pub(super) delegated_by: Option<Answerable>,
    #[serde(default)]
    session_context: BTreeMap<String, String>,
    #[serde(default)]
    metadata: BTreeMap<String, Value>,
    #[serde(default, deserialize_with = "maybe_whole")]
    requested_ttl_hours: Option<u32>,
    /// For the person who is asked about a sub-agent.
    pub(in crate::nl) purpose: Option<String>,
}

/// Who answers for a new agent.
#[derive(Deserialize)]
pub(super) struct Answerable {
    #[serde(rename = "type")]
    pub(super) kind: AnswerableKind,
    pub(super) identifier: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnswerableKind {
    Agent,
    Human,
}

impl Wanted {
    /// How long the agent is to live at most.
    pub(in crate::nl) fn longest(&self) -> SignedDuration {
        self.requested_ttl_hours.map_or(LIFE, hours)
    }

    /// The registration by an agent that stands above the new one.
    pub(in crate::nl) fn below(self, above: &Aid) -> Registration {
        // Its time begins a moment later than it is looked at here.
        let left = above.expires_at.duration_since(Timestamp::now()) - CLOCK_SKEW;
        Registration {
            agent_uri: self.agent_uri,
            organization_id: self.organization_id.unwrap_or_else(|| above.organization_id.clone()),
            agent_type: self.agent_type,
            trust_level: above.trust_level.min(TrustLevel::L1),
            capabilities: self.capabilities,
            scope: self.scope,
            session_context: self.session_context,
            life: self.requested_ttl_hours.map_or_else(|| LIFE.min(left), hours),
            registered_by: self.delegated_by.map(|by| by.identifier).unwrap_or_default(),
            parent: None,
            metadata: self.metadata,
            is_administrator: false,
        }
    }
}

fn no_person<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AgentType, D::Error> {
    match AgentType::deserialize(deserializer)? {
        AgentType::Human => Err(D::Error::custom(
            "people are registered by the operator alone: keyless agent register --type human",
        )),
        kind => Ok(kind),
    }
}

fn hours(hours: u32) -> SignedDuration {
    SignedDuration::from_hours(hours.into())
}
