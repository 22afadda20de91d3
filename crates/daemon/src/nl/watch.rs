//! What an action's end says of its agent, and what follows: entries, fewer messages, suspension.
//!
//! All of it is on disk before the agent is told how its action ended. Source: reference/nl.md, section 6.

use std::{sync::Arc, time::Instant};

use jiff::Timestamp;
use keyless_core::{
    Code, Error,
    action::{ActionType, Encoding},
    agent::{AgentState, InstanceId, LifecycleAuthority},
    audit::{Action, Detail, Draft, Outcome, Target},
    deny::Category,
    nl_message::NlFault,
    threat::{Band, DetectionMethod, Incident, Shift, of_fault, of_redactions},
};

use super::{
    agents::as_logged,
    caller::{Acting, Caller},
    detection::as_incident,
    rates::RateState,
    record::Account,
    service::NlService,
    submit::Course,
};

impl NlService {
    /// Counts a message of an agent: one that is watched may send half as many.
    pub(super) async fn count(&self, caller: &Caller) -> Result<RateState, NlFault> {
        let instance = &caller.aid.instance_id;
        let band = self.detection.band(instance).await?;
        let limit = self.rates.agent_limit();
        let limit = if band >= Band::Yellow { (limit / 2).max(1) } else { limit };
        let who = (instance.as_str(), limit);
        self.rates.step_agent(who, &caller.aid.organization_id, Instant::now())
    }

    /// Takes in that an agent sent too much: once a minute, whatever else of it is told then.
    pub(super) async fn flooded(&self, caller: &Caller, fault: &NlFault) -> Result<(), Error> {
        let instance = &caller.aid.instance_id;
        // Others may have had the organization's window.
        let is_theirs = fault.details().get("scope") == Some(&"per_agent".into());
        let slot = format!("flood of {instance}");
        if is_theirs && self.rates.tell_refusal(&slot, Instant::now()).is_some() {
            self.add_flood(caller, fault).await?;
        }
        Ok(())
    }

    async fn add_flood(&self, caller: &Caller, fault: &NlFault) -> Result<(), Error> {
        let instance = &caller.aid.instance_id;
        // What is watched may send half as much because it is.
        if self.detection.band(instance).await? == Band::Green {
            let seen = of_fault(fault.code(), None, Timestamp::now());
            self.detection.add(instance, as_logged(&caller.aid), &seen).await?;
        }
        Ok(())
    }

    /// Takes in how an action ended; gives what is to be told in its place, if nothing of it may be.
    pub(super) async fn watch(
        &self,
        caller: &Caller,
        account: &Account,
        course: &Course,
        fault: Option<&NlFault>,
    ) -> Result<Option<NlFault>, Error> {
        let now = Timestamp::now();
        // What a service sends back is no agent's doing, as where a proxy has taken it out; the action's end has it.
        let is_agents = account.kind != Some(ActionType::SdkProxy);
        let redacted = course.redacted.iter().filter(|_| is_agents);
        let mut seen = of_redactions(redacted.map(|found| found.encoding != Encoding::Plain), now);
        // What keeps another agent from work that it was handed, the message's own end has as well.
        let is_of_issuer = caller.acting.as_ref().is_some_and(Acting::is_of_issuer);
        let fault = fault.filter(|_| !is_of_issuer);
        // A question is no try, but for bait, which nobody has a reason to ask about.
        let is_bait = |fault: &&NlFault| fault.code() == Code::HoneypotTouched;
        let fault = fault.filter(|fault| !account.is_dry_run || is_bait(fault));
        // Nor is it one when the token that work is done under ends while it is done.
        let is_ended = |fault: &&NlFault| course.ran && fault.code() == Code::DelegationRevoked;
        let fault = fault.filter(|fault| !is_ended(fault));
        seen.extend(fault.iter().flat_map(|fault| of_fault(fault.code(), category(fault), now)));
        if seen.is_empty() {
            // What an agent had under way when it turned red stays here.
            let is_red =
                course.ran && self.detection.band(&caller.sender().instance_id).await? >= Band::Red;
            return Ok(is_red.then(|| Code::ThreatTooHigh.into()));
        }
        // Who does what another one's message says has not chosen it, and does not hear how it ends.
        let sender = caller.sender();
        let instance = &sender.instance_id;
        let shift = self.detection.take(instance, &seen).await?;
        // A value in an output and a denial are written down with the action's own end (NL-2.6.7), which comes after what they
        // change.
        let is_new = |one: &Incident| {
            shift.is_of_band()
                || matches!(
                    one.method,
                    DetectionMethod::Honeypot | DetectionMethod::PatternMatching
                )
        };
        for incident in seen.iter().filter(|one| is_new(one)) {
            self.log
                .append(as_incident(entry(account, course, incident), *incident, shift))
                .await?;
        }
        self.detection.tell(as_logged(sender).into(), instance, shift).await?;
        if self.detection.band(instance).await? < Band::Red {
            return Ok(None);
        }
        self.stop(instance, shift).await?;
        // Bait, and what the guard stops, are told and written down as that: nothing was done that could be withheld (NL-4.6).
        let is_stopped = fault.is_some_and(|fault| {
            matches!(
                fault.code(),
                Code::ActionBlocked | Code::EvasionBlocked | Code::HoneypotTouched
            )
        });
        Ok((!is_stopped).then(|| Code::ThreatTooHigh.into()))
    }

    /// Suspends a red agent, with all that it has under way, has handed on and was handed.
    async fn stop(&self, instance: &InstanceId, shift: Shift) -> Result<(), Error> {
        // Somebody else may have stopped it meanwhile.
        if self.agents.show(instance).await?.lifecycle == AgentState::Active {
            let by = LifecycleAuthority::Detection { score: shift.after.score };
            self.agents.change(instance, (AgentState::Suspended, by), "threat score").await?;
        }
        self.dismiss(instance, Code::AgentSuspended);
        self.delegations.revoke_of_agent(&self.agents, instance).await.map(drop)
    }
}

fn entry(account: &Account, course: &Course, incident: &Incident) -> Draft {
    let target = if course.about.is_empty() {
        Target::Session
    } else {
        Target::Secrets(course.about.clone())
    };
    Draft {
        detail: Detail {
            action_id: Some(account.action_id.clone()),
            attempted_action: account.attempted(),
            ..Detail::default()
        },
        ..Draft::new(
            incident.at,
            Arc::clone(&account.agent),
            Action::Incident,
            Outcome::Blocked,
            target,
            account.correlation_id.clone(),
        )
    }
}

/// What the rule is about that stopped an action.
fn category(fault: &NlFault) -> Option<Category> {
    serde_json::from_value(fault.details().get("category")?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use keyless_core::{ActionType, action::Action as Request, audit::Entry, threat::AttackType};
    use keyless_store::AuditQuery;
    use serde_json::json;

    use super::*;
    use crate::nl::scene::Served;

    async fn log(served: &Served) -> Vec<Entry> {
        let query = AuditQuery::default();
        let mut all = served.nl.vault.store().audit_query(&query).await.unwrap();
        all.sort_by_key(|entry| entry.sequence);
        all
    }

    /// Sends until that is too much.
    async fn flood(served: &Served, caller: &Caller) -> NlFault {
        loop {
            if let Err(fault) = served.nl.count(caller).await {
                served.nl.add_flood(caller, &fault).await.unwrap();
                return fault;
            }
        }
    }

    #[tokio::test]
    async fn the_limit_of_who_is_watched_makes_nothing_worse() {
        let served = Served::new().await;
        let caller = served.agent("a", &[ActionType::Exec], &[]).await;
        let instance = &caller.aid.instance_id;
        let counted = async || served.nl.detection.standing(instance).await.unwrap().1;
        flood(&served, &caller).await;
        assert_eq!(counted().await, 1);
        let now = Timestamp::now();
        let disguise =
            Incident::new(AttackType::EncodingBypass, DetectionMethod::PatternMatching, now);
        served.nl.detection.add(instance, caller.as_logged(), &[disguise]).await.unwrap();
        let limit = flood(&served, &caller).await.details()["limit"].clone();
        assert_eq!((limit, counted().await), (json!(60), 2));
    }

    #[tokio::test]
    async fn mistakes_are_in_the_log_before_what_they_change_which_is_little() {
        let served = Served::new().await;
        let caller = served.agent("a", &[ActionType::Exec], &[]).await;
        for number in 0..40 {
            let action = json!({ "type": "exec", "template": "true {{nl:other/token}}" });
            let action = Request::from_json(action).unwrap();
            let id = format!("req-{number}");
            let ended = served.nl.one(&caller, Ok(action), &id, Timestamp::now()).await;
            assert_eq!(ended.fault.unwrap().code(), Code::GrantMissing);
        }
        let (standing, _) = served.nl.detection.standing(&caller.aid.instance_id).await.unwrap();
        assert_eq!((standing.score, standing.band), (30, Band::Yellow));
        let log = log(&served).await;
        let changes: Vec<_> =
            log.iter().filter(|entry| entry.action == Action::ResponseLevelChange).collect();
        let [change] = changes[..] else { panic!("{changes:?}") };
        assert_eq!(change.detail.kind.as_deref(), Some("yellow"));
        let before = log.iter().rfind(|entry| entry.sequence < change.sequence).unwrap();
        assert_eq!(
            (before.action, before.detail.kind.as_deref()),
            (Action::Incident, Some("TX-1"))
        );
    }
}
