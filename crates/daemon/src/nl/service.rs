//! One path for every message, whatever door it came through.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use keyless_action::Limits;
use keyless_core::{
    Code, Error, Grace, SafeText,
    action::{ActionResponse, Status, Timing},
    agent::{AgentType, Aid, InstanceId},
    nl_message::{
        Clock, Discovery, Message, MessageType, NL_VERSION, Named, NlFault, Shape, health,
    },
    threat::Band,
};
use keyless_store::AuditLog;
use keyless_vault::Vault;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{
    actions::{ActionSession, Standby},
    agents::Agents,
    answer::{Answered, Outcome, message_id, refused},
    attestation::{Attestations, ThroughEngine, VendorKeys},
    caller::{Caller, Presented, Standing},
    delegations::Delegations,
    detection::Detection,
    grants::Grants,
    guard::GuardRules,
    rates::{Door, RateState, Rates},
    record::Refusal,
    replays::{Fingerprint, Replays, Turn},
    room::{Present, Room},
    submit::Ahead,
};
use crate::{
    broker::Broker, config::NlConfig, owner::Owner, places::Places, requests::Requests,
    service_files::ServiceFiles,
};

/// Jails that stand ready: one for the next action, and one while that is replaced.
const SPARE_JAILS: usize = 2;

/// The protocol's service over an open vault.
pub(crate) struct NlService {
    pub(super) vault: Arc<Vault>,
    pub(super) log: AuditLog,
    pub(super) requests: Arc<Requests>,
    pub(super) agents: Agents,
    attestations: Attestations,
    requires_attestation: bool,
    /// How far the time of a message may be from now.
    message_skew: SignedDuration,
    pub(super) grants: Arc<Grants>,
    pub(super) guard: Arc<GuardRules>,
    pub(super) delegations: Delegations,
    /// How often work may be handed on.
    pub(super) max_depth: u32,
    pub(super) detection: Detection,
    /// After how long without a message an agent is suspended.
    pub(super) idle: Option<SignedDuration>,
    pub(super) limits: Limits,
    /// For how long values that were replaced are given.
    pub(super) grace: Grace,
    pub(super) broker: Broker,
    pub(super) places: Places,
    /// The operator's services, and what of them can't be used.
    pub(crate) service_files: Arc<ServiceFiles>,
    /// Some stand already, for the next actions.
    pub(super) jails: Arc<Standby>,
    /// What each agent's actions have in common: rendered files, values to look for.
    pub(super) sessions: Mutex<HashMap<InstanceId, Arc<ActionSession>>>,
    pub(super) rates: Rates,
    /// For the actions that are done now.
    pub(super) room: Room,
    /// The agents that are here.
    pub(super) present: Present,
    pub(super) replays: Replays,
    base_url: OnceLock<String>,
    /// Whose the sessions are that are opened here.
    pub(super) owner: Owner,
}

impl NlService {
    /// The service of a broker.
    pub(crate) fn new(broker: &Broker, places: &Places, config: &NlConfig) -> Result<Self, Error> {
        let (vault, log) = (Arc::clone(broker.vault()), broker.log().clone());
        let replays = Replays::of(broker.vault().store().clone());
        let owner = Owner::begin(places, vault.store().audit_chain())?;
        log.of_broker(owner.id());
        Ok(Self {
            agents: Agents::new(&vault, log.clone())?.activated_by(config.activation),
            attestations: Attestations::new(
                VendorKeys::new(
                    places.attestation_keys_file(),
                    Arc::new(ThroughEngine(Arc::clone(broker.engine()))),
                ),
                vault.store().clone(),
            )
            .allowing(config.clock_skew.of_attestations()),
            message_skew: config.clock_skew.of_messages(),
            requires_attestation: config.require_attestation,
            grants: Arc::new(Grants::new(&vault, log.clone())),
            guard: Arc::new(GuardRules::new(places.guard_file()).logging(log.clone())),
            delegations: Delegations::new(&vault, log.clone())
                .allowing(config.clock_skew.of_proofs()),
            max_depth: config.max_depth(),
            detection: Detection::new(&vault, log.clone(), config)?,
            idle: config.idle(),
            grace: config.grace(),
            limits: Limits {
                tempfile_life: config.tempfile_life(),
                profile: config.profile,
                ..Limits::default()
            },
            requests: Arc::clone(broker.requests()),
            vault,
            log,
            broker: broker.clone(),
            places: places.clone(),
            service_files: Arc::new(ServiceFiles::new(places)),
            jails: Arc::new(Standby::keeping(SPARE_JAILS)),
            sessions: Mutex::default(),
            rates: Rates::new(config.rates),
            room: Room::default(),
            present: Present::default(),
            replays,
            base_url: OnceLock::new(),
            owner,
        })
    }

    /// Notes where HTTP is served, for discovery.
    pub(crate) fn served_at(&self, address: Option<SocketAddr>, has_tls: bool) {
        if let Some(address) = address {
            let scheme = if has_tls { "https" } else { "http" };
            let _ = self.base_url.set(format!("{scheme}://{address}"));
        }
    }

    /// By what the times of messages are judged.
    pub(crate) fn clock(&self) -> Clock {
        Clock { now: Timestamp::now(), skew: self.message_skew }
    }

    /// Counts a message of an address, before anything of it is read.
    pub(crate) fn count_address(&self, address: IpAddr, door: Door) -> Result<RateState, NlFault> {
        self.rates.step_address(address, door, Instant::now())
    }

    /// How long it is wise to wait before another action, when every place is taken.
    pub(crate) fn pressure(&self) -> Option<Duration> {
        self.room.pressure()
    }

    /// Whether values can be opened, the log be written and actions be judged, and which services of the operator's are
    /// left out.
    pub(crate) fn health(&self) -> Answered {
        let fault = if !self.vault.is_open() {
            Some("the store is locked")
        } else if self.replays.is_failing() {
            self.replays.try_again();
            Some("the store takes no note of what begins")
        } else if self.log.check().is_err() {
            Some("the audit log can't be written")
        } else if self.guard.current().1.is_some() {
            Some("the guard's own rules can't be used")
        } else {
            None
        };
        let faults = self.service_files.faults();
        let files = faults.iter().filter(|fault| fault.operation.is_none());
        let words = |file: &str| format!("{file}: keyless doctor tells the operator why");
        let files: Vec<String> = files.map(|fault| words(&fault.file)).collect();
        let (status, body) = health(fault, &files, self.limits.profile, Timestamp::now());
        Answered { status, body, rate: None, retry_after: None }
    }

    /// Who a connection is.
    pub(crate) async fn handshake(&self, presented: &Presented) -> Result<Aid, NlFault> {
        let (nothing, kind) = (Map::new(), MessageType::Handshake);
        let (caller, attestation) = match self.authenticated(presented, &nothing).await {
            Ok(known) => known,
            Err(fault) => return Err(self.unknown(presented, (kind, &nothing), fault).await),
        };
        let refusal = Refusal::of(&caller, kind, &nothing, message_id());
        let instance = caller.aid.instance_id.clone();
        let caller = match self.vouched(presented, caller, attestation, &nothing).await {
            Ok(caller) => caller,
            Err(fault) => return Err(self.ungreeted(&instance, refusal, fault).await),
        };
        Ok(caller.aid)
    }

    /// Does one message and answers it. What has begun is done even when nobody waits for it.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        presented: Arc<Presented>,
        message: Message,
    ) -> Answered {
        let (service, shape) = (Arc::clone(self), message.shape);
        let named = Named {
            shape: Some(shape),
            id: message.id.clone(),
            request_id: message.request_id().map(ToOwned::to_owned),
            ..Named::default()
        };
        let doing = tokio::spawn(async move {
            let mut rate = None;
            let done = Box::pin(service.dispatch(&presented, &message, &mut rate)).await;
            let profile = service.limits.profile;
            let failed = |fault: NlFault| Arc::new(not_let_in(&message, fault.under(profile)));
            done.unwrap_or_else(failed).to(&message, rate)
        });
        // One message's panic is its own.
        doing.await.unwrap_or_else(|_| refused(Code::Internal.into(), named, shape))
    }

    async fn dispatch(
        &self,
        presented: &Presented,
        message: &Message,
        rate: &mut Option<RateState>,
    ) -> Result<Arc<Outcome>, NlFault> {
        if message.kind == MessageType::DiscoveryRequest {
            return Ok(Arc::new(self.discovery()));
        }
        let received = Timestamp::now();
        let (caller, attestation) = match self.authenticated(presented, &message.payload).await {
            Ok(known) => known,
            Err(fault) => {
                let said = (message.kind, &message.payload);
                return Err(self.unknown(presented, said, fault).await);
            }
        };
        // Held to the end, so that all that is done for it learns when the session is over.
        let _over = match presented.standing {
            Standing::Session => {
                let over = self.present.over_of_session(&caller.aid.instance_id);
                let over = over.filter(|over| over.borrow().is_none());
                over.ok_or(Code::SessionEnded)?
            }
            // Whoever is revoked from here on ends this as well.
            Standing::Stranger => self.present.over(&caller.aid.instance_id),
        };
        match self.count(&caller).await {
            Ok(state) => *rate = Some(state),
            Err(fault) => return self.too_fast(&caller, message, fault, received).await,
        }
        let known = caller.aid.clone();
        let caller = match self.vouched(presented, caller, attestation, &message.payload).await {
            Ok(caller) => caller,
            Err(fault) => {
                let caller = Caller::alone(known, presented.source_ip);
                return self.refuse(&caller, message, fault, received).await;
            }
        };
        if let Err(error) = self.agents.in_force(&caller.aid, received).await {
            return self.refuse(&caller, message, error.into(), received).await;
        }
        let done = match message.kind {
            MessageType::ActionRequest
            | MessageType::AgentRegister
            | MessageType::DelegationRequest
            | MessageType::XRotateCredential => self.once(&caller, message, received).await,
            _ => self.ask(&caller, message).await.map(Arc::new),
        };
        match done {
            Err(fault) => self.refuse(&caller, message, fault, received).await,
            done => done,
        }
    }

    /// Who sends a message, with the attestation that they show. Whether the agent or its credential is not known is not
    /// told.
    pub(super) async fn authenticated(
        &self,
        presented: &Presented,
        payload: &Map<String, Value>,
    ) -> Result<(Caller, Option<String>), NlFault> {
        let claim = presented.claim(payload)?;
        let (uri, instance) = (&claim.agent_uri, &claim.instance_id);
        let mut aid = match (&presented.credential, presented.standing) {
            (Some(credential), _) => self.agents.authenticate(uri, instance, credential).await?,
            (None, Standing::Session) => self.agents.of_session(instance).await?,
            (None, Standing::Stranger) => return Err(Code::AgentUnknown.into()),
        };
        if presented.standing == Standing::Stranger {
            self.wake(&mut aid, Timestamp::now()).await?;
        }
        Ok((Caller::alone(aid, presented.source_ip), claim.attestation))
    }

    /// The same with its vendor's word, and with the delegation that it acts under.
    async fn vouched(
        &self,
        presented: &Presented,
        caller: Caller,
        attestation: Option<String>,
        payload: &Map<String, Value>,
    ) -> Result<Caller, NlFault> {
        let mut aid = caller.aid;
        match attestation {
            Some(token) => self.attestations.vouch(&token, &mut aid, Timestamp::now()).await?,
            // Of people and of sessions of its own Keyless knows without.
            None if self.requires_attestation
                && presented.standing == Standing::Stranger
                && aid.agent_type != AgentType::Human =>
            {
                return Err(Code::AttestationRequired.into());
            }
            None => {}
        }
        let acting = match payload.get("delegation") {
            None | Some(Value::Null) => None,
            Some(Value::Object(shown)) => Some(self.acting(shown).await?),
            // Passed over, it would leave the agent its own grants, which it did not mean to use.
            Some(_) => {
                let words = SafeText::words("delegation is an object with token_id");
                return Err(NlFault::new(Code::MessageMalformed, words));
            }
        };
        let delegation = acting.as_ref().map(|acting| acting.token.chain.clone());
        let delegation = delegation.unwrap_or_default();
        Ok(Caller { aid, delegation, acting, ..caller })
    }

    /// Does a message that changes something, once.
    async fn once(
        &self,
        caller: &Caller,
        message: &Message,
        received: Timestamp,
    ) -> Result<Arc<Outcome>, NlFault> {
        let id = request_id(message);
        let is_action = message.kind == MessageType::ActionRequest;
        let foresight = is_action.then(|| self.foresee(&message.payload)).flatten();
        let print = fingerprint(&caller.aid, message);
        let (first, mut noting) = match self.replays.enter_ahead(&id, print.clone()).await? {
            (Turn::Again(outcome), _) => return Ok(outcome.again()),
            (Turn::First(first), noting) => (first, noting),
        };
        // An envelope has an id of its own, which is as good for one message alone.
        let envelope = match message.id.as_ref().filter(|envelope| **envelope != id) {
            None => None,
            Some(envelope) => match self.replays.enter_ahead(envelope, print).await? {
                (Turn::Again(outcome), _) => return Ok(outcome.again()),
                (Turn::First(first), also) => {
                    noting = noting.and(also);
                    Some(first)
                }
            },
        };
        if !is_action {
            noting.written().await?;
        }
        let outcome = match message.kind {
            MessageType::ActionRequest => {
                let ahead = Ahead { foresight, noting };
                self.submit(caller, &message.payload, &id, received, ahead).await?
            }
            _ if self.detection.band(&caller.aid.instance_id).await? >= Band::Orange => {
                return Err(Code::ThreatTooHigh.into());
            }
            MessageType::AgentRegister => self.register_agent(caller, &message.payload).await?,
            MessageType::XRotateCredential => {
                self.rotate_credential(caller, &message.payload).await?
            }
            _ => self.create_delegation(caller, &message.payload).await?,
        };
        let outcome = Arc::new(outcome);
        // While a person is asked, say, nothing was done, and the same message is how to ask again.
        if outcome.is_settled {
            let kept = match outcome.kind {
                // A credential is shown once.
                MessageType::AgentRegisterAck | MessageType::XCredential => {
                    Arc::new(shown_before())
                }
                _ => Arc::clone(&outcome),
            };
            for first in [Some(first), envelope].into_iter().flatten() {
                first.finish(&kept, kept.size());
            }
        }
        Ok(outcome)
    }

    /// The session of a jail is an agent from now on, until [`Self::close_session`].
    pub(crate) async fn open_session(&self, session: &str) -> Result<Aid, Error> {
        let aid = self.agents.open_session("run", session, self.owner.name()).await?;
        self.present.begin(&aid.instance_id, session, None);
        Ok(aid)
    }

    /// The same of one outside any jail, of which there are so many and no more: [`Code::TooManyConnections`],
    /// [`Code::RateLimited`].
    pub(crate) async fn open_outside(&self, session: &str) -> Result<Aid, NlFault> {
        let seat = self.present.seat(Instant::now())?;
        let aid = self.agents.open_session("mcp", session, self.owner.name()).await?;
        self.present.begin(&aid.instance_id, session, Some(seat));
        Ok(aid)
    }

    /// The line for a connection that there is no session for, which said `first`.
    pub(crate) fn refusal(fault: NlFault, first: &Map<String, Value>) -> Vec<u8> {
        let refused = refused(fault, Named::of(first), Shape::Enveloped);
        format!("{}\n", refused.body).into_bytes()
    }

    /// Ends a session's agent and its actions, what it has handed on and what its actions have left.
    pub(crate) async fn close_session(&self, instance: &InstanceId) -> Result<(), Error> {
        self.dismiss(instance, Code::SessionEnded);
        self.delegations.revoke_of_agent(&self.agents, instance).await?;
        self.revoke_below(instance).await?;
        self.agents.close_session(instance).await?;
        // One that was suspended stays on the list, and what it did with it.
        self.detection.forget_orphans().await
    }

    pub(super) fn discovery(&self) -> Outcome {
        let discovery = Discovery {
            version: env!("CARGO_PKG_VERSION"),
            base_url: self.base_url.get().cloned(),
            requests_per_minute: self.rates.agent_limit(),
            profile: self.limits.profile,
            max_delegation_depth: self.max_depth,
            attestation_issuers: self.attestations.issuers(),
        };
        Outcome::done(MessageType::DiscoveryResponse, 200, discovery.document())
    }
}

/// What an action's message is known by.
pub(super) fn request_id(message: &Message) -> String {
    message.request_id().map_or_else(message_id, ToOwned::to_owned)
}

/// What a message says, without the attestation, which may be fresh each time.
fn fingerprint(aid: &Aid, message: &Message) -> Fingerprint {
    let mut payload = message.payload.clone();
    payload.remove("agent");
    fingerprint_of(aid, message.kind, &Value::Object(payload))
}

/// What an agent says, as replays are told by it.
pub(super) fn fingerprint_of(aid: &Aid, kind: MessageType, said: &Value) -> Fingerprint {
    let mut hasher = Sha256::new();
    hasher.update(kind.as_str());
    hasher.update(said.to_string());
    Fingerprint { instance: aid.instance_id.to_string(), digest: hasher.finalize().into() }
}

/// What becomes of a message of somebody whose word counts for nothing. The body of one that asks for an action is that of an
/// action's answer in every case (C-25); in an envelope an error is a message of its own (chapter 08, 6.2).
fn not_let_in(message: &Message, fault: NlFault) -> Outcome {
    if message.kind != MessageType::ActionRequest || message.shape != Shape::Bare {
        return Outcome::failed(MessageType::Error, json!({}), fault);
    }
    let now = Timestamp::now();
    let response = ActionResponse {
        nl_version: NL_VERSION.to_owned(),
        request_id: request_id(message),
        action_id: format!("act_{}", Uuid::new_v4()),
        status: Status::stopped_by(fault.code()),
        timing: Some(Timing::new(now, now, now, now)),
        ..ActionResponse::default()
    };
    let body = serde_json::to_value(&response).unwrap_or_default();
    Outcome::failed(MessageType::ActionResponse, body, fault)
}

/// The answer to what was answered with a credential, and is sent again.
fn shown_before() -> Outcome {
    let words = SafeText::words("it was done, and a credential is shown once");
    let fault = NlFault::new(Code::MessageReplayed, words);
    Outcome::failed(MessageType::Error, json!({}), fault)
}

/// A message of this type is not served.
pub(super) fn not_served(kind: MessageType) -> NlFault {
    let words = SafeText::words(kind.as_str()).and(" is not served here");
    NlFault::new(Code::MessageTypeUnknown, words)
}

#[cfg(test)]
mod tests {
    use keyless_core::action::AgentClaim;
    use zeroize::Zeroizing;

    use super::*;
    use crate::nl::scene::Served;

    #[tokio::test]
    async fn who_asks_for_an_action_is_answered_with_one_whatever_credential_they_show() {
        let served = Served::new().await;
        let caller = served.agent("a", &[keyless_core::ActionType::Exec], &["*"]).await;
        let claim = AgentClaim {
            agent_uri: caller.aid.agent_uri.to_string(),
            instance_id: caller.aid.instance_id.to_string(),
            attestation: None,
        };
        let credential = Some(Zeroizing::new("nlk_of_nobody".to_owned()));
        let (source_ip, attestation, standing) = (None, None, Standing::Stranger);
        let claim = Some(claim);
        let presented = Presented { source_ip, credential, claim, attestation, standing };
        let payload = json!({
            "request_id": "req-1", "action": { "type": "exec", "template": "true" },
        });
        let message = Message {
            shape: Shape::Bare,
            kind: MessageType::ActionRequest,
            id: None,
            payload: payload.as_object().cloned().unwrap(),
        };
        let answered = served.nl.answer(Arc::new(presented), message).await;
        let body = &answered.body;
        assert_eq!(
            (answered.status, &body["error"]["nl_code"]),
            (401, &json!("NL-E100")),
            "{body}"
        );
        assert_eq!((&body["status"], &body["secrets_used"]), (&json!("denied"), &json!([])));
        assert_eq!((&body["request_id"], &body["redacted"]), (&json!("req-1"), &json!(false)));
        assert!(body["action_id"].as_str().unwrap().starts_with("act_"), "{body}");
    }
}
