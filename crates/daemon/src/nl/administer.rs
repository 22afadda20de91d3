//! What the administrator of an organization does by message: registers agents, looks at them, revokes them, reads their log.
//!
//! An administrator is an agent that the operator registered as one. It hands out nothing that it has not: what an agent may use,
//! grants say, and those are the operator's alone. Source: reference/nl.md, sections 1.8, 7 and 8.3.

use std::{collections::BTreeMap, time::Instant};

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    ActionType, Code, Error, SafeText, SecretPath,
    agent::{
        AgentState, AgentType, AgentUri, Aid, AidScope, CLOCK_SKEW, InstanceId, LifecycleAuthority,
        TrustLevel,
    },
    audit::{self, Entry, Target},
    nl_message::{MessageType, NlFault},
    threat::Band,
};
use keyless_store::AuditQuery;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    agents::{Registrar, Registration, as_logged, registered},
    answer::Outcome,
    caller::Caller,
    service::NlService,
};

/// How long an agent lives if nothing is said, as at the command line.
const LIFE: SignedDuration = SignedDuration::from_hours(12);
/// Registrations a minute of an organization's administrators, and as many revocations.
const CHANGES: u32 = 10;
/// Their queries a minute.
const QUERIES: u32 = 30;
/// The largest page of the log, and what one has if nothing is said.
const LARGEST_PAGE: usize = 100;
const PAGE: usize = 50;

/// What a registration asks for.
#[derive(Deserialize)]
struct Wanted {
    agent_uri: AgentUri,
    organization_id: String,
    agent_type: AgentType,
    capabilities: Vec<ActionType>,
    scope: Option<AidScope>,
    delegated_by: Answerable,
    #[serde(default)]
    session_context: BTreeMap<String, String>,
    requested_ttl_hours: Option<u32>,
}

/// Who answers for a new agent.
#[derive(Deserialize)]
struct Answerable {
    #[serde(rename = "type")]
    kind: AnswerableKind,
    identifier: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum AnswerableKind {
    Agent,
    Human,
}

/// What a revocation asks for.
#[derive(Deserialize)]
struct Revocation {
    #[serde(rename = "revocation_id")]
    id: Option<String>,
    agent_uri: AgentUri,
    reason: RevocationReason,
    #[serde(default)]
    effective: Effective,
    #[serde(default)]
    propagate_to: Vec<String>,
    #[serde(default = "yes")]
    revoke_delegations: bool,
    #[serde(default = "yes")]
    cancel_inflight: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RevocationReason {
    Administrative,
    Compromised,
    Decommissioned,
    PolicyViolation,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Effective {
    #[default]
    Immediate,
    Scheduled,
}

/// Which entries of the log are asked for. Over HTTP everything is text.
#[derive(Deserialize)]
struct Question {
    agent_uri: Option<String>,
    target: Option<String>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    correlation_id: Option<String>,
    result: Option<audit::Outcome>,
    platform: Option<String>,
    page: Option<Number>,
    page_size: Option<Number>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Is(usize),
    Written(String),
}

impl NlService {
    /// Registers an agent of the administrator's organization, with no more than that one has.
    pub(super) async fn register_agent(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
    ) -> Result<Outcome, NlFault> {
        let administrator = self.administrator(caller, MessageType::AgentRegister).await?;
        let wanted: Wanted = read(payload)?;
        let parent = match wanted.delegated_by.kind {
            AnswerableKind::Agent => {
                let parent = self.agents.active_of(&wanted.delegated_by.identifier).await?;
                Some(parent.instance_id)
            }
            AnswerableKind::Human => None,
        };
        let asked = wanted.requested_ttl_hours;
        let asked = asked.map(|hours| SignedDuration::from_hours(hours.into()));
        // Its time begins a moment later than it is looked at here.
        let left = administrator.expires_at.duration_since(Timestamp::now()) - CLOCK_SKEW;
        let registration = Registration {
            agent_uri: wanted.agent_uri,
            organization_id: wanted.organization_id,
            agent_type: wanted.agent_type,
            trust_level: administrator.trust_level.min(TrustLevel::L1),
            capabilities: wanted.capabilities,
            scope: wanted.scope,
            session_context: wanted.session_context,
            life: asked.unwrap_or_else(|| LIFE.min(left)),
            registered_by: wanted.delegated_by.identifier,
            parent,
            is_administrator: false,
        };
        let by = Registrar::Administrator(administrator);
        let (aid, credential) = self.agents.register(registration, by).await?;
        Ok(Outcome::done(MessageType::AgentRegisterAck, 201, registered(&aid, &credential)))
    }

    /// An agent's own identity; to an administrator, that of each agent of its organization.
    pub(super) async fn shown(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
    ) -> Result<Value, NlFault> {
        let asked = payload.get("instance_id").and_then(Value::as_str);
        let Some(asked) = asked.filter(|asked| *asked != caller.aid.instance_id.as_str()) else {
            return Ok(caller.aid.as_message());
        };
        if caller.aid.is_administrator()
            && let Some(instance) = InstanceId::parse(asked)
            && let Ok(aid) = self.agents.show(&instance).await
            && aid.organization_id == caller.aid.organization_id
        {
            return Ok(aid.as_message());
        }
        let words = SafeText::words("an agent is shown its own identity alone");
        Err(NlFault::new(Code::AgentUnknown, words).at_status(404))
    }

    /// Revokes every agent of a URI in the administrator's organization, with what they have handed on and under way.
    pub(super) async fn revoke_agents(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
    ) -> Result<Value, NlFault> {
        let administrator = self.administrator(caller, MessageType::RevocationRequest).await?;
        let wanted: Revocation = read(payload)?;
        if wanted.effective == Effective::Scheduled {
            let words = SafeText::words("a revocation is immediate here; send it when it is due");
            return Err(NlFault::new(Code::MessageMalformed, words));
        }
        let (mut tokens, mut actions) = (0, 0);
        let theirs = self.agents.list().await?.into_iter().filter(|aid| {
            aid.agent_uri == wanted.agent_uri
                && aid.organization_id == administrator.organization_id
        });
        let theirs: Vec<Aid> = theirs.collect();
        if theirs.is_empty() {
            let words = SafeText::default().as_they_wrote(wanted.agent_uri.as_str());
            return Err(NlFault::new(Code::AgentUnregistered, words));
        }
        let (who, reason) = (as_logged(administrator), wanted.reason.as_str());
        for aid in &theirs {
            let instance = &aid.instance_id;
            if aid.lifecycle != AgentState::Revoked {
                let to = (AgentState::Revoked, LifecycleAuthority::Administrator);
                self.agents.change_as(instance, to, Some(&who), reason).await?;
            }
            if wanted.revoke_delegations {
                tokens += self.delegations.revoke_of_agent(instance).await?;
            }
            if wanted.cancel_inflight {
                actions += self.dismiss(instance, Code::AgentRevoked);
            }
        }
        let partners = wanted.propagate_to.iter().map(|domain| {
            json!({ "trust_domain": domain, "status": "failed", "reason": "no_federation" })
        });
        let partners: Vec<Value> = partners.collect();
        Ok(json!({
            "revocation_id": wanted.id.unwrap_or_else(|| Uuid::new_v4().to_string()),
            "status": if partners.is_empty() { "completed" } else { "partial" },
            "local_result": {
                "aid_revoked": true,
                "delegation_tokens_revoked": tokens,
                "inflight_actions_cancelled": actions,
            },
            "federation_results": partners,
            "completed_at": format!("{:.3}", Timestamp::now()),
        }))
    }

    /// A page of what the agents of the administrator's organization did, oldest first. That it was asked for is an entry
    /// itself (NL-5.9).
    pub(super) async fn audited(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
    ) -> Result<Value, NlFault> {
        let administrator = self.administrator(caller, MessageType::AuditQuery).await?;
        let asked: Question = read(payload)?;
        let page = Number::or(asked.page.as_ref(), 1, "page")?.max(1);
        let size = Number::or(asked.page_size.as_ref(), PAGE, "page_size")?.clamp(1, LARGEST_PAGE);
        let secret = asked.target.as_deref().and_then(|target| SecretPath::parse(target).ok());
        let query = [
            ("by_agent", asked.agent_uri.is_some()),
            ("by_secret", asked.target.is_some()),
            ("by_correlation", asked.correlation_id.is_some()),
            ("by_result", asked.result.is_some()),
        ];
        let query = query.iter().find(|(_, is_it)| *is_it).map_or("by_time", |(word, _)| word);
        let other = asked.target.filter(|_| secret.is_none());
        let mut wanted = AuditQuery {
            since: asked.from,
            until: asked.to,
            agent_uri: asked.agent_uri,
            secret,
            correlation_id: asked.correlation_id,
            outcome: asked.result,
            ..AuditQuery::default()
        };
        let fits = |entry: &Entry| {
            entry.agent.organization_id == administrator.organization_id
                && other.as_ref().is_none_or(|target| entry.target == *target)
                && asked.platform.as_ref().is_none_or(|platform| entry.platform == *platform)
        };
        let (first, mut total, mut results) = ((page - 1).saturating_mul(size), 0, Vec::new());
        loop {
            // So many at once as the store gives; an organization's may be few of them.
            let entries = self.vault.store().audit_query(&wanted).await.map_err(Error::from)?;
            let Some(last) = entries.last().map(|last| last.sequence) else { break };
            for entry in entries.into_iter().filter(fits) {
                if total >= first && results.len() < size {
                    results.push(entry);
                }
                total += 1;
            }
            wanted.after = Some(last);
        }
        self.note(caller, audit::Action::Query, Target::Log).await?;
        Ok(json!({
            "query": query,
            "time_range": { "from": wanted.since, "to": wanted.until },
            "results": results,
            "pagination": { "page": page, "page_size": size, "total": total },
        }))
    }

    /// The caller, counted, if it is an administrator and may send such a message now.
    async fn administrator<'a>(
        &self,
        caller: &'a Caller,
        kind: MessageType,
    ) -> Result<&'a Aid, NlFault> {
        let is_query = kind == MessageType::AuditQuery;
        let aid = &caller.aid;
        // What it may do it does itself: nobody does it under its delegation, and it does so under nobody's.
        if !aid.is_administrator() || caller.acting.is_some() {
            return Err(if is_query { Code::AuditQueryDenied.into() } else { no_administrator() });
        }
        if self.detection.band(&aid.instance_id).await? >= Band::Orange {
            return Err(Code::ThreatTooHigh.into());
        }
        let limit = if is_query { QUERIES } else { CHANGES };
        self.rates.step_administration((kind, limit), &aid.organization_id, Instant::now())?;
        Ok(aid)
    }
}

impl RevocationReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Administrative => "administrative",
            Self::Compromised => "compromised",
            Self::Decommissioned => "decommissioned",
            Self::PolicyViolation => "policy_violation",
        }
    }
}

impl Number {
    fn or(given: Option<&Self>, otherwise: usize, name: &'static str) -> Result<usize, NlFault> {
        match given {
            None => Ok(otherwise),
            Some(Self::Is(number)) => Ok(*number),
            Some(Self::Written(text)) => text.parse().map_err(|_| {
                NlFault::new(Code::MessageMalformed, SafeText::words(name).and(" is a number"))
            }),
        }
    }
}

fn no_administrator() -> NlFault {
    let suggestion =
        "Ask the operator for an administrator: keyless agent register URI --administrator.";
    let words = SafeText::words("an administrator's message");
    NlFault::new(Code::OperatorRequired, words).suggesting(SafeText::words(suggestion))
}

fn yes() -> bool {
    true
}

fn read<T: DeserializeOwned>(payload: &Map<String, Value>) -> Result<T, NlFault> {
    serde_json::from_value(Value::Object(payload.clone())).map_err(|error| {
        let words = SafeText::default().as_they_wrote(&error.to_string());
        NlFault::new(Code::MessageMalformed, words)
    })
}

#[cfg(test)]
mod tests;
