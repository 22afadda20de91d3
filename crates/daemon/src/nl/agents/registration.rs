//! What is said of a new agent, and by whom.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    ActionType, Code, Error, SafeText,
    agent::{AgentState, AgentType, AgentUri, Aid, AidScope, DelegatedBy, InstanceId, TrustLevel},
    audit,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::as_logged;
use crate::broker::agent as keyless_agent;

/// What is said of a credential.
pub const CREDENTIAL_NOTE: &str = "Kept as a hash alone; it can't be shown again.";
/// Who answers for the agents that are registered at the command line.
pub const OPERATOR: &str = "operator";
/// The vendor in the URIs of Keyless's own sessions.
const OWN_VENDOR: &str = "keyless.dev";

/// What is said of a new agent.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The software.
    pub agent_uri: AgentUri,
    /// Whose it is.
    pub organization_id: String,
    /// What sort of agent.
    pub agent_type: AgentType,
    /// How well its origin is proven.
    pub trust_level: TrustLevel,
    /// What it may ever ask for.
    pub capabilities: Vec<ActionType>,
    /// The most that it may ever be granted.
    pub scope: Option<AidScope>,
    /// Where it runs.
    pub session_context: BTreeMap<String, String>,
    /// How long it lives.
    pub life: SignedDuration,
    /// The person who answers for it.
    pub registered_by: String,
    /// The agent whose sub-agent it is; within that one's bounds, and for no longer.
    pub parent: Option<InstanceId>,
    /// Plain values about it; `risk_level` where the type is `custom`.
    pub metadata: BTreeMap<String, Value>,
    /// Whether it administers its organization: see [`Aid::is_administrator`].
    pub is_administrator: bool,
}

/// Who registers an agent.
#[derive(Clone, Copy, Debug)]
pub enum Registrar<'a> {
    /// An agent that the operator made an administrator of its organization.
    Administrator(&'a Aid),
    /// The operator.
    Operator,
    /// The agent whose sub-agent it is to be, once a person has allowed it.
    Parent(&'a Aid),
}

impl Registrar<'_> {
    /// Whether they may register this one. An agent gives nothing that it has not itself, makes no administrator, and nobody
    /// that passes for a session of Keyless.
    pub(in crate::nl) fn allow(self, aid: &Aid) -> Result<(), Error> {
        let (Self::Administrator(above) | Self::Parent(above)) = self else { return Ok(()) };
        let mut more = aid.exceeds(above);
        more.extend(aid.is_administrator().then_some("metadata.administrator"));
        more.extend((aid.agent_uri.vendor() == OWN_VENDOR).then_some("agent_uri"));
        if more.is_empty() {
            return Ok(());
        }
        Err(Error::with(Code::AgentExceeds, SafeText::default().as_they_wrote(&more.join(", "))))
    }

    pub(super) fn as_logged(self) -> audit::Agent {
        match self {
            Self::Administrator(above) | Self::Parent(above) => as_logged(above),
            Self::Operator => keyless_agent("operator", "operator"),
        }
    }
}

/// What who registered an agent is told: its identity, and its credential, this once.
pub fn registered(aid: &Aid, credential: &str) -> Value {
    json!({
        "aid": aid.as_message(),
        "credential": { "type": "api_key", "value": credential, "note": CREDENTIAL_NOTE },
    })
}

/// The identity that is wanted, with an instance of its own; [`Code::Usage`] names what makes it none.
pub(in crate::nl) fn identity(wanted: Registration, now: Timestamp) -> Result<Aid, Error> {
    let instance_id = InstanceId::parse(&Uuid::new_v4().to_string()).ok_or(Code::Internal)?;
    let fault = |words| Error::with(Code::Usage, words);
    let expires_at = now
        .checked_add(wanted.life)
        .map_err(|_| fault(SafeText::words("an agent does not live for so long")))?;
    let registered_by = DelegatedBy {
        kind: "human".to_owned(),
        identifier: wanted.registered_by,
        delegation_time: now,
        parent_instance_id: None,
    };
    let mut aid = Aid {
        schema: None,
        nl_version: keyless_core::nl_message::NL_VERSION.to_owned(),
        agent_uri: wanted.agent_uri,
        instance_id,
        organization_id: wanted.organization_id,
        agent_type: wanted.agent_type,
        trust_level: wanted.trust_level,
        capabilities: wanted.capabilities,
        lifecycle: AgentState::Provisioned,
        created_at: now,
        expires_at,
        public_key: None,
        delegated_by: Some(registered_by),
        scope: wanted.scope,
        attestation: None,
        session_context: Some(wanted.session_context).filter(|context| !context.is_empty()),
        last_active_at: None,
        metadata: wanted.metadata,
    };
    if wanted.is_administrator {
        aid.make_administrator();
    }
    match aid.faults(now).as_slice() {
        [] => Ok(aid),
        fields => Err(fault(
            SafeText::words("these fields make no agent: ").as_they_wrote(&fields.join(", ")),
        )),
    }
}
