//! One path for every message, whatever door it came through.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Instant,
};

use jiff::Timestamp;
use keyless_core::{
    Code, SafeText,
    action::AgentClaim,
    nl_message::{Discovery, Message, MessageType, NlFault, health},
};
use keyless_store::AuditLog;
use keyless_vault::Vault;
use serde_json::{Map, Value, json};

use super::{
    answer::{Answered, Outcome, refused},
    caller::Presented,
    rates::{AGENT_LIMIT, RateState, Rates},
};
use crate::broker::Broker;

/// The protocol's service over an open vault.
pub(crate) struct NlService {
    vault: Arc<Vault>,
    log: AuditLog,
    rates: Rates,
    base_url: OnceLock<String>,
}

impl NlService {
    /// The service of a broker.
    pub(crate) fn new(broker: &Broker) -> Self {
        Self {
            vault: Arc::clone(broker.vault()),
            log: broker.log().clone(),
            rates: Rates::default(),
            base_url: OnceLock::new(),
        }
    }

    /// Notes where HTTP is served, for discovery.
    pub(crate) fn served_at(&self, address: Option<SocketAddr>) {
        if let Some(address) = address {
            let _ = self.base_url.set(format!("http://{address}"));
        }
    }

    /// Counts a message of an address, before anything of it is read.
    pub(crate) fn count_address(&self, address: IpAddr) -> Result<RateState, NlFault> {
        self.rates.step_address(address, Instant::now())
    }

    /// Whether values can be opened and the log be written.
    pub(crate) fn health(&self, rate: Option<RateState>) -> Answered {
        let fault = match (self.vault.is_open(), self.log.check()) {
            (false, _) => Some("the store is locked"),
            (true, Err(_)) => Some("the audit log can't be written"),
            (true, Ok(())) => None,
        };
        let (status, body) = health(fault, Timestamp::now());
        Answered { status, body, rate, retry_after: None }
    }

    /// Who a connection is; gives the session's name.
    #[expect(clippy::unused_async, reason = "credentials are hashed slowly")]
    pub(crate) async fn handshake(&self, presented: &Presented) -> Result<String, NlFault> {
        Self::identify(presented, &Map::new()).map(|agent| agent.instance_id)
    }

    /// Does one message and answers it. What has begun is done even when nobody waits for it.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        presented: Arc<Presented>,
        message: Message,
    ) -> Answered {
        let (service, shape) = (Arc::clone(self), message.shape);
        let doing = tokio::spawn(async move {
            let mut rate = None;
            let done = service.dispatch(&presented, &message, &mut rate).await;
            let failed = |fault| Arc::new(Outcome::failed(message.kind.answer(), json!({}), fault));
            done.unwrap_or_else(failed).to(&message, rate)
        });
        // One message's panic is its own.
        doing.await.unwrap_or_else(|_| refused(Code::Internal.into(), shape))
    }

    #[expect(clippy::unused_async, reason = "actions take their time")]
    async fn dispatch(
        &self,
        presented: &Presented,
        message: &Message,
        rate: &mut Option<RateState>,
    ) -> Result<Arc<Outcome>, NlFault> {
        match message.kind {
            MessageType::DiscoveryRequest => Ok(Arc::new(self.discovery())),
            kind => {
                let agent = Self::identify(presented, &message.payload)?;
                let now = Instant::now();
                *rate = Some(self.rates.step_agent(&agent.instance_id, "local", now)?);
                let words = SafeText::words(kind.as_str()).and(" is not served here");
                Err(NlFault::new(Code::MessageTypeUnknown, words))
            }
        }
    }

    /// Who sends a message. Whether the agent or its credential is not known is not told.
    fn identify(
        presented: &Presented,
        payload: &Map<String, Value>,
    ) -> Result<AgentClaim, NlFault> {
        presented.claim(payload)?;
        // Of `presented` the source matters to grants alone, and nobody is registered.
        let _ = (&presented.credential, presented.source_ip);
        Err(Code::AgentUnknown.into())
    }

    fn discovery(&self) -> Outcome {
        let discovery = Discovery {
            version: env!("CARGO_PKG_VERSION"),
            base_url: self.base_url.get().cloned(),
            requests_per_minute: AGENT_LIMIT,
        };
        Outcome::done(MessageType::DiscoveryResponse, 200, discovery.document())
    }
}
