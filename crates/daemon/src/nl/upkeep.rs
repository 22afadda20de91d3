//! What time does to agents: identities that expire or lie idle are suspended, and what nobody owns any more goes.
//!
//! Whoever was away for too long, or is over its time, is told so at its next message in any case; this is for the list,
//! the log and the tokens of those that never come again. Source: reference/nl.md, section 1.4.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use keyless_core::{
    Code, Error,
    agent::{AgentState, Aid, LifecycleAuthority},
};

use super::service::NlService;

/// How often agents are looked through.
const INTERVAL: Duration = Duration::from_mins(10);

/// Looks through the agents, from time to time.
pub(crate) async fn keep(service: Arc<NlService>) {
    loop {
        // A store that can't be written now may be in ten minutes; messages are judged by themselves.
        let _ = service.tidy(Timestamp::now()).await;
        tokio::time::sleep(INTERVAL).await;
    }
}

impl NlService {
    /// Suspends whom time has overtaken, with all that they have handed on, and forgets delegations that are over,
    /// messages that were begun long ago, and the scores of agents that are no more.
    pub(super) async fn tidy(&self, now: Timestamp) -> Result<(), Error> {
        for aid in self.agents.registered().await? {
            if let Some(reason) = self.overtaken(&aid, now)
                && aid.lifecycle == AgentState::Active
            {
                self.rest(&aid, reason).await?;
            }
        }
        self.agents.forget_sessions(now).await?;
        self.delegations.forget(now).await?;
        self.replays.forget(now).await?;
        self.detection.forget_orphans().await?;
        // Last: it reads the log, of which a part may be missing.
        self.end_orphans().await
    }

    /// An agent has come: suspended if it was away for too long, noted otherwise.
    pub(super) async fn wake(&self, aid: &mut Aid, now: Timestamp) -> Result<(), Error> {
        if aid.lifecycle != AgentState::Active {
            return Ok(());
        }
        match self.overtaken(aid, now) {
            Some(reason) => {
                *aid = self.rest(aid, reason).await?;
                Ok(())
            }
            None => self.agents.touch(aid, now).await,
        }
    }

    fn overtaken(&self, aid: &Aid, now: Timestamp) -> Option<&'static str> {
        if now >= aid.expires_at {
            return Some("aid_expired");
        }
        let since = aid.last_active_at.unwrap_or(aid.created_at);
        self.idle.is_some_and(|idle| now.duration_since(since) >= idle).then_some(IDLE)
    }

    async fn rest(&self, aid: &Aid, reason: &'static str) -> Result<Aid, Error> {
        let to = (AgentState::Suspended, LifecycleAuthority::Upkeep);
        let rested = self.agents.change(&aid.instance_id, to, reason).await?;
        let why = if reason == IDLE { Code::AgentSuspended } else { Code::AgentExpired };
        self.dismiss(&aid.instance_id, why);
        self.delegations.revoke_of_agent(&self.agents, &aid.instance_id).await?;
        Ok(rested)
    }
}

/// The protocol's word for an agent that did nothing for too long.
const IDLE: &str = "aid_inactive";

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use keyless_core::{
        ActionType, Code,
        agent::{InstanceId, TrustLevel},
        threat::Incident,
    };

    use super::*;
    use crate::{
        broker::agent,
        nl::{
            agents::{Registrar, Registration},
            scene::{Served, registration},
        },
    };

    fn hours(count: i64) -> Timestamp {
        Timestamp::now() + SignedDuration::from_hours(count)
    }

    async fn state(served: &Served, instance: &InstanceId) -> AgentState {
        served.nl.agents.show(instance).await.unwrap().lifecycle
    }

    /// An agent that lives for a week.
    async fn lasting(served: &Served, name: &str) -> Aid {
        let life = SignedDuration::from_hours(7 * 24);
        let wanted = Registration { life, ..registration(name) };
        let (aid, credential) =
            served.nl.agents.register(wanted, Registrar::Operator).await.unwrap();
        let (uri, instance) = (aid.agent_uri.as_str(), aid.instance_id.as_str());
        served.nl.agents.authenticate(uri, instance, &credential).await.unwrap()
    }

    #[tokio::test]
    async fn who_is_idle_or_over_rests() {
        let served = Served::new().await;
        let nl = &served.nl;
        let short = served.agent("short", &[ActionType::Exec], &[]).await;
        drop(nl.session_of(&short).unwrap());
        let short = short.aid;
        let (idle, mut back) = (lasting(&served, "idle").await, lasting(&served, "back").await);
        nl.agents.touch(&back, hours(20)).await.unwrap();
        nl.tidy(hours(23)).await.unwrap();
        assert_eq!(state(&served, &short.instance_id).await, AgentState::Suspended);
        assert!(nl.sessions.lock().is_empty());
        assert_eq!(state(&served, &idle.instance_id).await, AgentState::Active);
        nl.tidy(hours(25)).await.unwrap();
        assert_eq!(state(&served, &idle.instance_id).await, AgentState::Suspended);
        assert_eq!(state(&served, &back.instance_id).await, AgentState::Active);
        // Whoever comes too late is suspended then, and is told so; activated, it has its day again.
        back = nl.agents.show(&back.instance_id).await.unwrap();
        nl.wake(&mut back, hours(45)).await.unwrap();
        assert_eq!(back.is_in_force(hours(45)), Err(Code::AgentSuspended));
        let to = (AgentState::Active, LifecycleAuthority::Operator);
        let mut again = nl.agents.change(&back.instance_id, to, "a test").await.unwrap();
        nl.wake(&mut again, hours(20)).await.unwrap();
        assert_eq!(again.lifecycle, AgentState::Active);
        // Nothing brings back who is over its time.
        assert_eq!(short.is_in_force(hours(2)), Err(Code::AgentExpired));
    }

    #[tokio::test]
    async fn what_a_session_did_goes_with_it() {
        let served = Served::new().await;
        let (nl, incident) = (&served.nl, Incident::honeypot(Timestamp::now()));
        let threat = async |aid: &Aid| nl.vault.store().threat(&aid.instance_id).await.unwrap();
        let mut sessions = Vec::new();
        for name in ["s-1", "s-2"] {
            let aid = nl.open_session(name).await.unwrap();
            let by = agent("run", name);
            nl.detection.add(&aid.instance_id, by, &[incident]).await.unwrap();
            sessions.push(aid);
        }
        nl.close_session(&sessions[0].instance_id).await.unwrap();
        assert!(threat(&sessions[0]).await.is_none() && threat(&sessions[1]).await.is_some());
        // One may be open elsewhere and idle; over its time it is that of a broker that was killed.
        nl.tidy(hours(6 * 24)).await.unwrap();
        assert_eq!(state(&served, &sessions[1].instance_id).await, AgentState::Active);
        assert!(threat(&sessions[1]).await.is_some());
        nl.tidy(hours(8 * 24)).await.unwrap();
        assert!(threat(&sessions[1]).await.is_none());
    }

    #[tokio::test]
    async fn a_sub_agent_has_no_more_than_its_parent() {
        let served = Served::new().await;
        let agents = &served.nl.agents;
        let parent = lasting(&served, "parent").await;
        let below = |name: &str| Registration {
            parent: Some(parent.instance_id.clone()),
            ..registration(name)
        };
        for (field, wanted) in [
            ("expires_at", Registration { life: SignedDuration::from_hours(999), ..below("a") }),
            ("organization_id", Registration { organization_id: "b".to_owned(), ..below("a") }),
            ("trust_level", Registration { trust_level: TrustLevel::L2, ..below("a") }),
            (
                "capabilities",
                Registration { capabilities: vec![ActionType::SdkProxy], ..below("a") },
            ),
        ] {
            let refused = agents.register(wanted, Registrar::Operator).await.unwrap_err();
            assert!(refused.detail().as_str().ends_with(field), "{field}: {refused:?}");
        }
        let (child, _) = agents.register(below("child"), Registrar::Operator).await.unwrap();
        assert_eq!(child.parent(), Some(&parent.instance_id));
        let by = (AgentState::Active, LifecycleAuthority::Operator);
        let child = agents.change(&child.instance_id, by, "a test").await.unwrap();
        let now = Timestamp::now();
        assert!(agents.in_force(&child, now).await.is_ok());
        let by = (AgentState::Suspended, LifecycleAuthority::Operator);
        agents.change(&parent.instance_id, by, "a test").await.unwrap();
        let refused = agents.in_force(&child, now).await.unwrap_err();
        assert_eq!(refused.code(), Code::AgentSuspended);
    }
}
