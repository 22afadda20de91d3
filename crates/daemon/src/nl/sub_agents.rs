//! Agents that agents bring in below themselves: registered once a person allows it, for a part of the work.
//!
//! A sub-agent has no more than its parent and no life beyond it. No grant is there for it: what it may use its parent hands on,
//! or the operator grants. So its name is its own; that of another agent, or of a grant, would bring it that one's rights.
//! Source: reference/nl.md, sections 1.8 and 1.9.

use jiff::SignedDuration;
use keyless_core::{
    ActionType, Code, Error, SafeText,
    agent::Aid,
    approval::WantedAction,
    grant::{Categories, GrantState},
    nl_message::{MessageType, NlFault},
};
use serde_json::{Map, Value, json};

use super::{
    administer::Wanted,
    agents::{Registrar, Registration, is_below, registered},
    answer::Outcome,
    approve::{beginning, digest, is_readable},
    caller::Caller,
    service::NlService,
};

impl NlService {
    /// Registers a sub-agent of the caller, if a person has allowed exactly this one; [`Code::ApprovalRequired`] while they
    /// are asked.
    pub(super) async fn register_below(
        &self,
        caller: &Caller,
        wanted: Wanted,
    ) -> Result<Outcome, NlFault> {
        let parent = &caller.aid;
        // Who may hand nothing on has no use for somebody to hand it to.
        parent.covers(ActionType::Delegate, &[], &Categories::default())?;
        let (life, purpose) = (wanted.longest(), wanted.purpose.clone());
        let instance = Some(parent.instance_id.clone());
        let registration = Registration { parent: instance, ..wanted.below(parent) };
        let by = Registrar::Parent(parent);
        // Nobody is asked about what can't be.
        let drafted = self.agents.drafted(registration.clone(), by).await?;
        self.has_own_name(&drafted, parent).await?;
        let text = what(&drafted, life);
        is_readable(&text)?;
        let sha256 = digest(&format!("{}\n{text}", parent.instance_id));
        let asked = WantedAction {
            agent: parent.agent_uri.clone(),
            acting_for: None,
            action: ActionType::Delegate,
            secrets: Vec::new(),
            hosts: Vec::new(),
            text,
            purpose: purpose.as_deref().map(beginning),
            purpose_sha256: purpose.as_deref().map(digest),
            sha256,
        };
        self.allowed_by_person(caller, None, asked).await?;
        let (aid, credential) = self.agents.register(registration, by).await?;
        Ok(Outcome::done(MessageType::AgentRegisterAck, 201, registered(&aid, &credential)))
    }

    /// Whether nobody else has this name, and no grant is for it.
    async fn has_own_name(&self, aid: &Aid, parent: &Aid) -> Result<(), Error> {
        let all = self.agents.list().await?;
        let mut same = all.iter().filter(|other| other.agent_uri == aid.agent_uri);
        let is_taken = same.any(|other| !is_below(other, &parent.instance_id, &all));
        let grants = self.grants.list().await?;
        let mut same = grants.iter().filter(|shown| shown.grant.agent_uri == aid.agent_uri);
        let is_over = |state| matches!(state, GrantState::Expired | GrantState::Revoked);
        if is_taken || same.any(|shown| !is_over(shown.state)) {
            let words = SafeText::words("agent_uri: another agent or a grant has this name");
            return Err(Error::with(Code::AgentExceeds, words));
        }
        Ok(())
    }
}

impl Caller {
    /// Whether a registration is of a sub-agent of who sends it, itself and for nobody else.
    pub(super) fn asks_below_itself(&self, payload: &Map<String, Value>) -> bool {
        let is_own = match payload.get("delegated_by").filter(|by| !by.is_null()) {
            None => true,
            Some(by) => {
                *by == json!({ "type": "agent", "identifier": self.aid.agent_uri.as_str() })
            }
        };
        is_own && !self.aid.is_administrator() && self.acting.is_none()
    }
}

/// All that a person has to know of a new agent. What is free text stands in quotes, so that it can't pass for a line.
fn what(aid: &Aid, life: SignedDuration) -> String {
    let can: Vec<&str> = aid.capabilities.iter().map(|kind| kind.as_str()).collect();
    let lines = [
        Some(format!("register the agent {} as its sub-agent", aid.agent_uri)),
        Some(format!("organization: {}", json!(aid.organization_id))),
        Some(format!("type: {}", aid.agent_type)),
        Some(format!("may be handed on: {}", can.join(", "))),
        aid.scope.as_ref().map(|scope| format!("within: {}", json!(scope))),
        aid.session_context.as_ref().map(|context| format!("runs in: {}", json!(context))),
        Some(format!("for {} h at most, and no longer than its parent", life.as_hours())),
    ];
    lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
