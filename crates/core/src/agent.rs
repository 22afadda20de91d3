//! Who an agent is: the Agent Identity Document of NL level 1.
//!
//! An identity says who may ask and bounds what they may ever be granted; it allows nothing by itself. Credentials
//! and attestations are checked by `daemon`. Source: reference/nl.md, sections 1.2 to 1.9 and C-40.

mod id;
mod kind;
mod lifecycle;
mod scope;
mod uri;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    id::{CREDENTIAL_PREFIX, InstanceId, is_credential},
    kind::{AgentType, Risk, TrustLevel, UnknownWord},
    lifecycle::{AgentState, Authority as LifecycleAuthority, RefusedTransition},
    scope::AidScope,
    uri::{AgentUri, AgentUriError},
};
use crate::{
    Code,
    action::ActionType,
    grant::{Categories, Subject},
    json_object::in_milliseconds,
};

/// The plain value in an identity's `metadata` that makes it an administrator's.
const ADMINISTRATOR: &str = "administrator";
/// How far clocks may be apart.
pub const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(30);
/// The version of identities.
const VERSION: &str = "1.0";
/// The most agents above one another.
const MAX_PARENTS: usize = 8;
/// Where an identity has times.
const TIMES: &[&str] = &[
    "/created_at",
    "/expires_at",
    "/last_active_at",
    "/delegated_by/delegation_time",
    "/attestation/issued_at",
    "/attestation/expires_at",
];
/// The longest name of an organization.
const MAX_ORGANIZATION: usize = 128;

/// An agent's identity, in NL's field names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aid {
    /// The schema that it names, if any.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Always `1.0`.
    pub nl_version: String,
    /// The software.
    pub agent_uri: AgentUri,
    /// This instance of it; made by the broker.
    pub instance_id: InstanceId,
    /// The organization that it belongs to.
    pub organization_id: String,
    /// What sort of agent.
    pub agent_type: AgentType,
    /// How well its origin is proven. Eligibility, never permission.
    pub trust_level: TrustLevel,
    /// The actions that it may ever ask for.
    pub capabilities: Vec<ActionType>,
    /// Where its life stands.
    pub lifecycle: AgentState,
    /// When it was registered.
    pub created_at: Timestamp,
    /// From when on the agent is taken for nobody.
    pub expires_at: Timestamp,
    /// The key with which it may sign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<PublicKey>,
    /// The person or the agent that answers for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegated_by: Option<DelegatedBy>,
    /// The most that it may ever be granted; no bound when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<AidScope>,
    /// The vendor's word for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attestation: Option<Attested>,
    /// Where it runs, as the broker knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_context: Option<BTreeMap<String, String>>,
    /// When it last did something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_active_at: Option<Timestamp>,
    /// Plain values; `risk_level` where the type is `custom`, `administrator` as [`Aid::make_administrator`] has it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
}

/// A key of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicKey {
    /// `ES256` or `Ed25519`.
    pub algorithm: String,
    /// The key, in base64url.
    pub value: String,
}

/// The person or the agent that answers for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelegatedBy {
    /// `human` or `agent`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Their name, or the agent's URI.
    pub identifier: String,
    /// Since when it answers for the agent.
    pub delegation_time: Timestamp,
    /// The agent's instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_instance_id: Option<InstanceId>,
}

/// A vendor's word that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attested {
    /// Always `jwt`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The token, or its hash where it is only remembered.
    pub token: String,
    /// The vendor that signed it.
    pub issuer: String,
    /// When it was signed.
    pub issued_at: Timestamp,
    /// Until when it holds.
    pub expires_at: Timestamp,
}

impl Aid {
    /// The identity as messages show it: with times of milliseconds (chapter 08, 3.6). What is sealed is the object as it is.
    pub fn as_message(&self) -> Value {
        in_milliseconds(serde_json::to_value(self).unwrap_or_default(), TIMES)
    }

    /// Every field that makes this no identity (NL-1.2); none when it is one. Names fields, never what is in them.
    pub fn faults(&self, now: Timestamp) -> Vec<&'static str> {
        let named = |fails: bool, field| fails.then_some(field);
        let is_name = |text: &str| {
            !text.is_empty()
                && text.len() <= MAX_ORGANIZATION
                && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        [
            named(self.nl_version != VERSION, "nl_version (it is \"1.0\")"),
            named(
                !is_name(&self.organization_id),
                "organization_id (1 to 128 printable characters of ASCII, without spaces)",
            ),
            named(
                self.capabilities.is_empty() || self.capabilities.contains(&ActionType::Egress),
                "capabilities (one at least of exec, template, inject_stdin, inject_tempfile, sdk_proxy, delegate)",
            ),
            named(self.expires_at <= self.created_at, "expires_at (it lies before the beginning)"),
            named(self.created_at > now + CLOCK_SKEW, "created_at (it lies in the future)"),
            named(
                self.agent_type.lacks_risk(&self.metadata),
                "metadata.risk_level (a custom type has low, medium, high or very_high)",
            ),
            named(
                self.metadata.values().any(|v| v.is_object() || v.is_array()),
                "metadata (texts, numbers, true and false alone)",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Whether it may act now; the code says why not.
    pub fn is_in_force(&self, now: Timestamp) -> Result<(), Code> {
        match self.lifecycle {
            // Suspended or not, nothing brings it back.
            AgentState::Active | AgentState::Suspended if now >= self.expires_at => {
                Err(Code::AgentExpired)
            }
            AgentState::Active => Ok(()),
            AgentState::Provisioned => Err(Code::AgentNotActive),
            AgentState::Revoked => Err(Code::AgentRevoked),
            AgentState::Suspended => Err(Code::AgentSuspended),
        }
    }

    /// As [`Self::is_in_force`], and so for every agent above this one: a sub-agent acts for as long as its parents
    /// may. `find` gives an agent by its instance.
    pub fn is_in_force_below(
        &self,
        now: Timestamp,
        find: impl Fn(&InstanceId) -> Option<Self>,
    ) -> Result<(), Code> {
        self.is_in_force(now)?;
        let (mut above, mut left) = (self.parent().cloned(), MAX_PARENTS);
        while let Some(instance) = above {
            let parent = find(&instance).filter(|_| left > 0).ok_or(Code::AgentRevoked)?;
            parent.is_in_force(now)?;
            (above, left) = (parent.parent().cloned(), left - 1);
        }
        Ok(())
    }

    /// Whether it is a sub-agent of another one, or of a sub-agent of that one. `find` gives an agent by its instance.
    pub fn is_below(
        &self,
        ancestor: &InstanceId,
        find: impl Fn(&InstanceId) -> Option<Self>,
    ) -> bool {
        let mut above = self.parent().cloned();
        for _ in 0..MAX_PARENTS {
            match above {
                Some(instance) if instance == *ancestor => return true,
                Some(instance) => above = find(&instance).and_then(|one| one.parent().cloned()),
                None => return false,
            }
        }
        false
    }

    /// Whether it may register and revoke agents of its organization by message, and read their log.
    pub fn is_administrator(&self) -> bool {
        self.metadata.get(ADMINISTRATOR) == Some(&Value::Bool(true))
    }

    /// Makes it an administrator of its organization; only the operator does that.
    pub fn make_administrator(&mut self) {
        self.metadata.insert(ADMINISTRATOR.to_owned(), Value::Bool(true));
    }

    /// The agent that this one is a sub-agent of.
    pub fn parent(&self) -> Option<&InstanceId> {
        self.delegated_by.as_ref()?.parent_instance_id.as_ref()
    }

    /// Every field in which this is more than `parent`, whose sub-agent it is to be; none when it is not.
    pub fn exceeds(&self, parent: &Self) -> Vec<&'static str> {
        let named = |fails: bool, field| fails.then_some(field);
        let is_within = match (&self.scope, &parent.scope) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(inner), Some(outer)) => inner.is_within(outer),
        };
        [
            named(self.organization_id != parent.organization_id, "organization_id"),
            named(self.trust_level > parent.trust_level, "trust_level"),
            named(
                !self.capabilities.iter().all(|kind| parent.capabilities.contains(kind)),
                "capabilities",
            ),
            named(!is_within, "scope"),
            named(self.expires_at > parent.expires_at, "expires_at"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Whether its own bounds leave room for this action on these secrets. A grant is needed beside.
    pub fn covers(
        &self,
        action: ActionType,
        subjects: &[Subject],
        categories: &Categories,
    ) -> Result<(), Code> {
        if !self.capabilities.contains(&action) {
            return Err(Code::CapabilityMissing);
        }
        let Some(scope) = &self.scope else { return Ok(()) };
        let all = subjects.iter().all(|subject| scope.covers(subject, categories));
        if all { Ok(()) } else { Err(Code::ScopeViolation) }
    }
}

#[cfg(test)]
mod tests;
