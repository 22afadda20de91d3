//! What the administrator of an organization does by message: registers agents, looks at them, revokes them, reads their log.
//!
//! An administrator is an agent that the operator registered as one. It hands out nothing that it has not: what an agent may use,
//! grants say, and those are the operator's alone. What other agents may bring in below themselves is in `sub_agents`.
//! Source: reference/nl.md, sections 1.8, 7 and 8.3.

mod wanted;

use std::time::Instant;

use jiff::Timestamp;
use keyless_core::{
    Code, Error, SafeText, SecretPath,
    agent::{AgentUri, Aid, InstanceId},
    audit::{self, Entry, Target},
    delegation::TokenId,
    maybe_whole,
    nl_message::{MessageType, NlFault},
    read_object,
    threat::Band,
};
use keyless_store::AuditQuery;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use self::wanted::AnswerableKind;
pub(super) use self::wanted::Wanted;
use super::{
    acting::Ending,
    agents::{Registrar, Registration, as_logged, is_below, is_of_administrator, registered},
    answer::Outcome,
    caller::Caller,
    delegations::Revoker,
    service::NlService,
};

/// Registrations a minute of an organization's administrators, and as many revocations.
const CHANGES: u32 = 10;
/// Delegations of others that they revoke a minute.
const DELEGATIONS: u32 = 60;
/// Their queries a minute.
const QUERIES: u32 = 30;
/// The largest page of the log, and what one has if nothing is said.
const LARGEST_PAGE: usize = 100;
const PAGE: usize = 50;

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

/// Whose credential is to be another one, and why.
#[derive(Deserialize)]
struct Rotation {
    instance_id: Option<String>,
    reason: Option<String>,
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
    #[serde(deserialize_with = "whole")]
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
        if caller.asks_below_itself(payload) {
            return Box::pin(self.register_below(caller, read(payload)?)).await;
        }
        let administrator = self.administrator(caller, MessageType::AgentRegister).await?;
        let wanted: Wanted = read(payload)?;
        let answerable = wanted.delegated_by.as_ref().ok_or_else(|| {
            let words = "delegated_by has the type and the identifier of who answers for it";
            NlFault::new(Code::MessageMalformed, SafeText::words(words))
        })?;
        let parent = match answerable.kind {
            AnswerableKind::Agent => {
                Some(self.agents.active_of(&answerable.identifier).await?.instance_id)
            }
            AnswerableKind::Human => None,
        };
        let registration = Registration { parent, ..wanted.below(administrator) };
        let by = Registrar::Administrator(administrator);
        let (aid, credential) = self.agents.register(registration, by).await?;
        Ok(Outcome::done(MessageType::AgentRegisterAck, 201, registered(&aid, &credential)))
    }

    /// `x_keyless_rotate_credential`: a new credential in place of the caller's own, or, to an administrator, of an
    /// agent's that an administrator has registered in its organization, within its bounds.
    pub(super) async fn rotate_credential(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
    ) -> Result<Outcome, NlFault> {
        let wanted: Rotation = read(payload)?;
        if caller.acting.is_some() {
            return Err(no_administrator());
        }
        let own = &caller.aid.instance_id;
        let instance = match &wanted.instance_id {
            None => own.clone(),
            Some(named) => InstanceId::parse(named).ok_or_else(no_administrator)?,
        };
        if instance != *own {
            self.may_rotate(caller, &instance).await?;
        }
        let reason = wanted.reason.as_deref().unwrap_or("by message");
        let (aid, credential) = self.agents.rotate(&instance, Some(&caller.aid), reason).await?;
        Ok(Outcome::done(MessageType::XCredential, 200, registered(&aid, &credential)))
    }

    /// Who holds an agent's credential may do what it may, so nobody gets one of an agent whose first they were not
    /// shown: those that the operator registered are the operator's, and sub-agents may be.
    async fn may_rotate(&self, caller: &Caller, instance: &InstanceId) -> Result<(), NlFault> {
        let administrator = self.administrator(caller, MessageType::XRotateCredential).await?;
        let aid = self.agents.show(instance).await.map_err(|_| no_administrator())?;
        let is_theirs = aid.organization_id == administrator.organization_id
            && is_of_administrator(&aid)
            && Registrar::Administrator(administrator).allow(&aid).is_ok();
        if is_theirs { Ok(()) } else { Err(no_administrator()) }
    }

    /// An agent's own identity; to an administrator, that of each agent of its organization.
    pub(super) async fn shown(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
    ) -> Result<Value, NlFault> {
        let asked = payload.get("instance_id").and_then(Value::as_str);
        let instance = asked.map(InstanceId::parse);
        let is_other = |_: &&str| instance.as_ref() != Some(&Some(caller.aid.instance_id.clone()));
        let Some(asked) = asked.filter(is_other) else {
            return Ok(caller.aid.as_message());
        };
        if caller.aid.is_administrator()
            && let Some(instance) = instance.flatten()
            && let Ok(aid) = self.agents.show(&instance).await
            && aid.organization_id == caller.aid.organization_id
        {
            return Ok(aid.as_message());
        }
        let words = if caller.aid.is_administrator() {
            "your organization has none of this instance_id"
        } else {
            "an agent is shown its own identity alone"
        };
        // With detail, as chapter 08 has it (5.4.2).
        Err(no_agent(SafeText::words(words)).with("instance_id", asked))
    }

    /// Revokes every agent of a URI, with its sub-agents, what they have handed on and have under way: to an administrator, in
    /// its organization, to others, below themselves.
    pub(super) async fn revoke_agents(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
    ) -> Result<Value, NlFault> {
        let is_administrator = caller.aid.is_administrator();
        if is_administrator {
            self.administrator(caller, MessageType::RevocationRequest).await?;
        }
        let wanted: Revocation = read(payload)?;
        if wanted.effective == Effective::Scheduled {
            let words = SafeText::words("a revocation is immediate here; send it when it is due");
            return Err(NlFault::new(Code::MessageMalformed, words));
        }
        let all = self.agents.list().await?;
        let theirs: Vec<&Aid> = all
            .iter()
            .filter(|aid| aid.agent_uri == wanted.agent_uri)
            .filter(|aid| {
                if is_administrator {
                    aid.organization_id == caller.aid.organization_id
                } else {
                    caller.acting.is_none() && is_below(aid, &caller.aid.instance_id, &all)
                }
            })
            .collect();
        if theirs.is_empty() {
            let words = if is_administrator {
                "your organization has none of this agent_uri"
            } else {
                "an agent ends its own sub-agents, and none of them has this agent_uri; others an administrator ends"
            };
            let fault = no_agent(SafeText::words(words));
            return Err(fault.with("agent_uri", wanted.agent_uri.as_str()));
        }
        let goes = |aid: &&Aid| {
            let mut above = theirs.iter().map(|one| &one.instance_id);
            above.any(|one| *one == aid.instance_id || is_below(aid, one, &all))
        };
        let ended: Vec<Aid> = all.iter().filter(goes).cloned().collect();
        let ending = Ending {
            who: as_logged(&caller.aid),
            reason: wanted.reason.as_str(),
            ends_delegations: wanted.revoke_delegations,
            ends_actions: wanted.cancel_inflight,
        };
        let (tokens, actions) = self.revoke_all(&ended, &ending).await?;
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
        let page = Number::within(asked.page.as_ref(), 1, ("page", usize::MAX))?;
        let size = Number::within(asked.page_size.as_ref(), PAGE, ("page_size", LARGEST_PAGE))?;
        asked.check()?;
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

    /// As whom a caller revokes a token: its own, or, an administrator, what any agent of its organization has issued.
    pub(super) async fn revoker<'a>(
        &self,
        caller: &'a Caller,
        id: &TokenId,
    ) -> Result<Revoker<'a>, NlFault> {
        let aid = &caller.aid;
        if aid.is_administrator()
            && let Ok(links) = self.delegations.links(id).await
            && let Some(token) = links.first()
            && let Ok(issuer) = self.agents.show(&token.issuer_instance).await
            && issuer.organization_id == aid.organization_id
            && !links.iter().any(|link| link.issuer_instance == aid.instance_id)
        {
            let by = self.administrator(caller, MessageType::DelegationRevoke).await?;
            return Ok(Revoker::Administrator(by));
        }
        Ok(Revoker::Agent(&aid.instance_id))
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
        let limit = match kind {
            MessageType::AuditQuery => QUERIES,
            MessageType::DelegationRevoke => DELEGATIONS,
            _ => CHANGES,
        };
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

impl Question {
    /// What nothing can fit would pass for a log in which nothing happened.
    fn check(&self) -> Result<(), NlFault> {
        let malformed = |words| Err(NlFault::new(Code::MessageMalformed, SafeText::words(words)));
        if self.from.zip(self.to).is_some_and(|(from, to)| from > to) {
            return malformed("from lies behind to");
        }
        if self.agent_uri.as_deref().is_some_and(|uri| AgentUri::parse(uri).is_err()) {
            return malformed("agent_uri is nl://VENDOR/TYPE/VERSION");
        }
        Ok(())
    }
}

impl Number {
    /// From 1 to what the name stands with; who asks for more is told so, and takes no part for the whole
    /// (chapter 08, 5.4.6).
    fn within(
        given: Option<&Self>,
        otherwise: usize,
        (name, most): (&'static str, usize),
    ) -> Result<usize, NlFault> {
        let number = match given {
            None => return Ok(otherwise),
            Some(Self::Is(number)) => Some(*number),
            Some(Self::Written(text)) => text.parse().ok(),
        };
        number.filter(|number| (1..=most).contains(number)).ok_or_else(|| {
            let words = SafeText::words(name).and(" is a number from 1 ");
            let words =
                if most < usize::MAX { words.and("to ").and(most) } else { words.and("on") };
            NlFault::new(Code::MessageMalformed, words)
        })
    }
}

/// Whoever asks is known: 401, the registry's for this number, would have them look for another credential.
fn no_administrator() -> NlFault {
    let suggestion =
        "Ask the operator for an administrator: keyless agent register URI --administrator.";
    let words = SafeText::words("or an administrator of the agent's organization");
    let fault = NlFault::new(Code::OperatorRequired, words).at_status(403);
    fault.suggesting(SafeText::words(suggestion))
}

/// An agent that the caller knows nothing of, be it there or not.
fn no_agent(words: SafeText) -> NlFault {
    let suggestion = "Name one of yours, as its registration was answered.";
    let fault = NlFault::new(Code::AgentUnregistered, words).at_status(404);
    fault.suggesting(SafeText::words(suggestion))
}

fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    maybe_whole(deserializer)?.ok_or_else(|| D::Error::custom("it is no number"))
}

fn yes() -> bool {
    true
}

fn read<T: DeserializeOwned>(payload: &Map<String, Value>) -> Result<T, NlFault> {
    read_object(Value::Object(payload.clone())).map_err(|fault| {
        NlFault::new(Code::MessageMalformed, SafeText::default().as_they_wrote(&fault))
    })
}

#[cfg(test)]
mod tests;
