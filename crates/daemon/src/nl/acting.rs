//! What an agent has under way, and how it ends when the agent may act no more.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use keyless_action::{Checked, Kept};
use keyless_core::{
    Code, Destination, Error,
    action::Action,
    agent::{AgentState, Aid, InstanceId, LifecycleAuthority},
    audit,
};
use tokio::time::timeout;

use super::{
    actions::{ActionOrder, ActionOutcome, ActionSession},
    agents::is_below,
    caller::{Acting as ByToken, Caller},
    resolve::Meant,
    room::{Over, Place},
    service::NlService,
};
use crate::broker::agent;

/// How often it is looked whether somebody else has revoked or suspended an agent that is at work.
const LOOK: Duration = Duration::from_millis(500);
/// After how many of these it is looked whether one that has done something before may act still: what its actions have
/// had is in memory until then.
const LOOKS_AT_WORK: u32 = 10;

/// How soon it is looked again whether what was ended is over.
const SOON: Duration = Duration::from_millis(10);

/// Ends what agents have under way that the operator, or another broker of the store, has revoked or suspended, stops what
/// their sessions send, and forgets what they have had.
pub(crate) async fn end_unfit(service: Arc<NlService>) {
    for look in (0..LOOKS_AT_WORK).cycle() {
        tokio::time::sleep(LOOK).await;
        let busy = service.present.busy();
        let known = if look == 0 { service.with_sessions() } else { Vec::new() };
        service.hold_unfit().await;
        service.dismiss_unfit(busy.into_iter().chain(known)).await;
    }
}

/// Whether an agent may send nothing either: somebody has stopped it, which the end of its time alone is not.
fn is_stopped(why: Code) -> bool {
    matches!(why, Code::AgentRevoked | Code::AgentSuspended)
}

/// How agents are revoked.
pub(super) struct Ending {
    /// By whom, in the log's words.
    pub(super) who: audit::Agent,
    pub(super) reason: &'static str,
    /// Whether what they have handed on ends.
    pub(super) ends_delegations: bool,
    /// Whether what they have under way ends.
    pub(super) ends_actions: bool,
}

impl NlService {
    /// The agents that have done something here.
    fn with_sessions(&self) -> Vec<InstanceId> {
        self.sessions.lock().keys().cloned().collect()
    }

    /// Refuses what a session sends, and cuts what it has open, while the agent that it is may not act.
    async fn hold_unfit(&self) {
        for (instance, session) in self.present.sessions() {
            // As below.
            let Ok(aid) = self.agents.show(&instance).await else { continue };
            let unfit = self.agents.in_force(&aid, Timestamp::now()).await.err();
            let why = unfit.map(|error| error.code()).filter(|why| is_stopped(*why));
            self.broker.engine().hold(&session, why);
        }
    }

    pub(super) async fn dismiss_unfit(&self, agents: impl IntoIterator<Item = InstanceId>) {
        for instance in agents {
            // A store that can't be read now may be the next time; nothing new begins without it.
            let Ok(aid) = self.agents.show(&instance).await else { continue };
            // Those above it count as well: a sub-agent acts for as long as its parent may.
            let Err(error) = self.agents.in_force(&aid, Timestamp::now()).await else { continue };
            if matches!(
                error.code(),
                Code::AgentExpired | Code::AgentRevoked | Code::AgentSuspended
            ) {
                self.dismiss(&instance, error.code());
            }
        }
    }

    /// Revokes agents, with what they have handed on and have under way; gives the numbers of tokens and of actions.
    pub(super) async fn revoke_all(
        &self,
        agents: &[Aid],
        ending: &Ending,
    ) -> Result<(usize, usize), Error> {
        let (mut tokens, mut actions) = (0, 0);
        for aid in agents {
            let instance = &aid.instance_id;
            if aid.lifecycle != AgentState::Revoked {
                let to = (AgentState::Revoked, LifecycleAuthority::Administrator);
                self.agents.change_as(instance, to, Some(&ending.who), ending.reason).await?;
            }
            if ending.ends_delegations {
                tokens += self.delegations.revoke_of_agent(&self.agents, instance).await?;
            }
            if ending.ends_actions {
                actions += self.dismiss(instance, Code::AgentRevoked);
            }
        }
        Ok((tokens, actions))
    }

    /// Revokes the sub-agents of an agent that is no more.
    pub(super) async fn revoke_below(&self, parent: &InstanceId) -> Result<(), Error> {
        let all = self.agents.list().await?;
        let below: Vec<Aid> =
            all.iter().filter(|aid| is_below(aid, parent, &all)).cloned().collect();
        let ending = Ending {
            who: agent("broker", "broker"),
            reason: "its parent is no more",
            ends_delegations: true,
            ends_actions: true,
        };
        self.revoke_all(&below, &ending).await.map(drop)
    }

    /// Ends what an agent has under way, for good unless it is suspended; gives the number of its actions.
    pub(super) fn dismiss(&self, instance: &InstanceId, why: Code) -> usize {
        if is_stopped(why)
            && let Some(session) = self.present.session_of(instance)
        {
            self.broker.engine().hold(&session, Some(why));
        }
        match why {
            Code::AgentSuspended => self.present.interrupt(instance, why),
            _ => self.present.end(instance, why),
        }
        self.sessions.lock().remove(instance);
        self.room.leave(instance)
    }

    /// Ends all that is under way, as the broker does, and waits for so long until each has its end in the log. What has none
    /// by then is the next broker's to end.
    pub(crate) async fn end_actions(&self, patience: Duration) {
        let ending = async {
            loop {
                let busy = self.present.busy();
                if busy.is_empty() {
                    return;
                }
                for agent in &busy {
                    self.dismiss(agent, Code::ActionInterrupted);
                }
                tokio::time::sleep(SOON).await;
            }
        };
        if timeout(patience, ending).await.is_err() {
            self.owner.owe();
        }
    }

    /// The log may lack what it was told last.
    pub(crate) fn owe_ends(&self) {
        self.owner.owe();
    }

    /// What an agent's actions have in common. One that it does for another has nothing in common with
    /// its own: no file goes from either to the other. When one of them is no more, the reason.
    pub(super) fn session_of(&self, caller: &Caller) -> Result<Acting, Error> {
        let aid = &caller.aid;
        let open = || {
            let (agent, limits) = (caller.as_logged(), self.limits.clone());
            let (broker, places, jails) = (&self.broker, &self.places, &self.jails);
            // A session's own name, by which its tools for secrets ask as well.
            let session = self.present.session_of(&aid.instance_id);
            let asks_as = session.unwrap_or_else(|| aid.instance_id.to_string());
            ActionSession::open(broker, places, agent, asks_as, limits, self.grace, jails)
                .map(Arc::new)
        };
        let everybody = caller.everybody().map(|aid| &aid.instance_id);
        let over: Vec<Over> = everybody.map(|one| self.present.over(one)).collect();
        // Work that is handed on by an action is its issuer's own message.
        let own = if caller.acting.as_ref().is_some_and(ByToken::is_of_issuer) { 2 } else { 1 };
        let ends = Ends { over, own };
        // Locked before it is asked, so that what a session leaves is there when its end removes it.
        let mut sessions = self.sessions.lock();
        if let Some(why) = ends.ended() {
            // Of this one nothing has begun.
            let broker_ends = why == Code::ActionInterrupted;
            return Err(if broker_ends { Code::SessionEnded } else { why }.into());
        }
        if caller.acting.is_some() {
            return Ok(Acting { session: open()?, ends });
        }
        if let Some(session) = sessions.get(&aid.instance_id) {
            return Ok(Acting { session: Arc::clone(session), ends });
        }
        let session = open()?;
        sessions.insert(aid.instance_id.clone(), Arc::clone(&session));
        Ok(Acting { session, ends })
    }
}

impl NlService {
    /// What an agent's own actions have in common so far.
    pub(super) fn begun_by(&self, caller: &Caller) -> Option<Arc<ActionSession>> {
        self.sessions.lock().get(&caller.aid.instance_id).cloned()
    }

    /// The rendered files that an action's command names; none where the agent acts for another, which has a session for
    /// each action.
    pub(super) async fn kept_in(&self, caller: &Caller, action: &Action) -> Vec<Kept> {
        let session = self.sessions.lock().get(&caller.aid.instance_id).cloned();
        match session.filter(|_| caller.acting.is_none()) {
            Some(session) => session.kept_in(action, Some(&self.grants)).await,
            None => Vec::new(),
        }
    }
}

/// The actions of an agent, for as long as it is one.
pub(super) struct Acting {
    session: Arc<ActionSession>,
    ends: Ends,
}

/// When an agent may act no more, or one that it acts for.
struct Ends {
    /// Of the agent, then of those whose work it does, up to the first.
    over: Vec<Over>,
    /// How many of them are told why; to who acts under a token, the end of the others is the token's.
    own: usize,
}

impl Acting {
    /// As [`ActionSession::could_run`].
    pub(super) async fn could_run(
        &self,
        action: &Action,
        action_id: &str,
        meant: &[Meant],
        hosts: Option<&[Destination]>,
    ) -> Result<Checked, Error> {
        let secrets = meant.iter().map(|meant| (&meant.handle, &meant.path));
        self.session.could_run(action, action_id, secrets, hosts).await
    }

    /// As [`ActionSession::check_room`].
    pub(super) fn check_room(&self, action: &Action, action_id: &str) -> Result<(), Error> {
        self.session.check_room(action, action_id)
    }

    /// What its actions have in common.
    pub(super) fn shared(&self) -> Arc<ActionSession> {
        Arc::clone(&self.session)
    }

    /// As [`ActionSession::may_use`].
    pub(super) async fn may_use(&self, meant: &[Meant]) -> Result<(), Error> {
        let secrets = meant.iter().map(|meant| (&meant.handle, &meant.path));
        self.session.may_use(secrets).await
    }

    /// Does an action, as [`ActionSession::run_at`]. It ends, with all that it has started, when the agent is no more.
    pub(super) async fn run(
        &self,
        order: ActionOrder,
        place: Option<Place>,
    ) -> Result<ActionOutcome, Error> {
        tokio::select! {
            biased;
            why = self.ends.end() => Err(why.into()),
            outcome = Box::pin(self.session.run_at(order, place)) => outcome,
        }
    }
}

impl Ends {
    /// What has ended already.
    fn ended(&self) -> Option<Code> {
        let told = |(at, over): (usize, &Over)| over.borrow().map(|why| self.told(at, why));
        self.over.iter().enumerate().find_map(told)
    }

    async fn end(&self) -> Code {
        let mut over = self.over.clone();
        let ends = over.iter_mut().map(|over| Box::pin(over.wait_for(Option::is_some)));
        let (ended, at, _) = futures_util::future::select_all(ends).await;
        let why = ended.ok().and_then(|why| *why).unwrap_or(Code::SessionEnded);
        self.told(at, why)
    }

    fn told(&self, at: usize, why: Code) -> Code {
        match why {
            Code::ActionInterrupted => why,
            _ if at < self.own => why,
            _ => Code::DelegationRevoked,
        }
    }
}

#[cfg(test)]
mod tests {
    use keyless_core::ActionType;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::nl::{caller::Caller, scene::Served, submit::Ahead};

    /// An action that waits for a person, as a command would for its end.
    fn payload() -> Map<String, Value> {
        let action = json!({ "type": "exec", "template": "{{nl:t/api/asked}}" });
        Map::from_iter([("action".to_owned(), action)])
    }

    /// An agent whose action a person is asked about.
    async fn asked() -> (Served, Caller) {
        let served = Served::new().await;
        served.add_asked().await;
        let caller = served.agent("a", &[ActionType::Exec], &["*"]).await;
        (served, caller)
    }

    #[tokio::test]
    async fn an_action_ends_with_its_session() {
        let (served, caller) = asked().await;
        let nl = &served.nl;
        let instance = &caller.aid.instance_id;
        nl.present.begin(instance, "s-1", None);
        let payload = payload();
        let acting = nl.submit(&caller, &payload, "req-1", Timestamp::now(), Ahead::default());
        let ending = async {
            served.until_asked().await;
            let over = nl.present.over(instance);
            nl.close_session(instance).await.unwrap();
            (nl.session_of(&caller).err().map(|error| error.code()), over)
        };
        let (outcome, (late, _over)) = tokio::join!(Box::pin(acting), Box::pin(ending));
        assert_eq!(outcome.unwrap().fault.unwrap().code(), Code::SessionEnded);
        assert_eq!(late, Some(Code::SessionEnded));
        assert!(nl.sessions.lock().is_empty());
    }

    /// How an action ends that a person is asked about when this becomes of its agent meanwhile, in another process.
    async fn ended_by(served: &Served, caller: &Caller, to: AgentState) -> Code {
        let nl = &served.nl;
        let payload = payload();
        let acting = nl.submit(caller, &payload, "req-1", Timestamp::now(), Ahead::default());
        let ending = async {
            served.until_asked().await;
            nl.dismiss_unfit(nl.present.busy()).await;
            assert_eq!(nl.present.busy(), std::slice::from_ref(&caller.aid.instance_id));
            let to = (to, LifecycleAuthority::Operator);
            nl.agents.change(&caller.aid.instance_id, to, "a test").await.unwrap();
            nl.dismiss_unfit(nl.present.busy()).await;
        };
        let both = async { tokio::join!(Box::pin(acting), Box::pin(ending)) };
        let both = tokio::time::timeout(Duration::from_secs(20), both).await;
        let (outcome, ()) = both.expect("it ends");
        outcome.unwrap().fault.unwrap().code()
    }

    #[tokio::test]
    async fn an_action_ends_when_the_operator_revokes_its_agent() {
        let (served, caller) = asked().await;
        let ended = ended_by(&served, &caller, AgentState::Revoked).await;
        assert_eq!(ended, Code::AgentRevoked);
        assert!(served.nl.present.busy().is_empty());
    }

    #[tokio::test]
    async fn an_action_ends_when_its_agent_is_suspended() {
        let (served, caller) = asked().await;
        let nl = &served.nl;
        nl.present.begin(&caller.aid.instance_id, "s-1", None);
        let ended = ended_by(&served, &caller, AgentState::Suspended).await;
        assert_eq!(ended, Code::AgentSuspended);
        assert!(nl.present.busy().is_empty() && nl.sessions.lock().is_empty());
        // Activated, it goes on: its session is not over.
        let to = (AgentState::Active, LifecycleAuthority::Operator);
        nl.agents.change(&caller.aid.instance_id, to, "a test").await.unwrap();
        assert!(nl.present.over_of_session(&caller.aid.instance_id).is_some());
        assert!(nl.session_of(&caller).is_ok());
    }
}
