//! One agent's connection to the broker.

use std::{path::Path, sync::Arc, time::Duration};

use keyless_core::{
    action::{Action, ActionRequest, AgentClaim},
    nl_message::{MessageType, NL_VERSION},
};
use serde_json::{Map, Value, json};
use tokio::{net::UnixStream, time::timeout};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::{
    Error, Identity,
    greeting::{Greeted, greet},
    line::Line,
    reach::{reach, shows_life, while_alive},
    socket_from_environment,
};

/// One agent's connection to the broker. Clones share it; it is closed when the last of them is gone.
#[derive(Clone)]
pub struct Client {
    line: Line,
    identity: Identity,
    agent: Arc<AgentClaim>,
    /// Where it is seen whether the broker is there, if anywhere.
    socket: Option<Arc<Path>>,
    patience: Option<Duration>,
}

impl Client {
    /// Connects to the socket that the environment names, as the agent that it names: [`socket_from_environment`],
    /// [`Identity::from_environment`].
    pub async fn from_environment() -> Result<Self, Error> {
        Self::connect(&socket_from_environment()?, &Identity::from_environment()?).await
    }

    /// Connects and shows the identity. [`Code::BrokerNotRunning`](keyless_core::Code::BrokerNotRunning) when there is nobody, [`Error::Refused`] where the broker
    /// does not know the agent.
    pub async fn connect(socket: &Path, identity: &Identity) -> Result<Self, Error> {
        let greeting = async { Self::over(reach(socket).await?, identity).await };
        let client = while_alive(|| shows_life(socket), greeting).await?;
        Ok(Self { socket: Some(socket.into()), ..client })
    }

    /// Shows the identity over a connection that is there already, on which a broker that hangs is not noticed.
    pub async fn over(stream: UnixStream, identity: &Identity) -> Result<Self, Error> {
        let Greeted { reader, writer, agent } = greet(stream, identity).await?;
        let (line, identity) = (Line::over(reader, writer), identity.clone());
        Ok(Self { line, identity, agent: Arc::new(agent), socket: None, patience: None })
    }

    /// This client with a bound for each call: [`Error::Late`] after `patience`. Give it more than an action's own time,
    /// since others may have their turn first.
    #[must_use]
    pub fn within(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// This agent, as the broker calls it.
    pub fn agent(&self) -> &AgentClaim {
        &self.agent
    }

    /// Whether the connection still stands. One that broke off stays so: connect anew.
    pub fn is_open(&self) -> bool {
        self.line.is_open()
    }

    /// A request of this agent's for an action, under an id of its own.
    pub fn request(&self, action: Action) -> ActionRequest {
        ActionRequest {
            schema: None,
            nl_version: NL_VERSION.to_owned(),
            request_id: format!("req_{}", Uuid::now_v7()),
            agent: self.agent().clone(),
            action,
        }
    }

    /// Sends any message of the protocol and gives its answer's payload as it stands, be it an `error`.
    ///
    /// A token in the payload's `delegation` is proven to be the agent's own. What broke off once it was sent is not sent
    /// again: it may have been done.
    pub async fn send(
        &self,
        kind: MessageType,
        payload: Map<String, Value>,
    ) -> Result<Value, Error> {
        let sending = self.prove_and_send(kind, payload);
        let sending = async {
            match &self.socket {
                Some(socket) => while_alive(|| shows_life(socket), sending).await,
                None => sending.await,
            }
        };
        match self.patience {
            Some(patience) => {
                timeout(patience, sending).await.unwrap_or(Err(Error::Late(patience)))
            }
            None => sending.await,
        }
    }

    async fn prove_and_send(
        &self,
        kind: MessageType,
        mut payload: Map<String, Value>,
    ) -> Result<Value, Error> {
        let shown = payload.get("delegation").and_then(|shown| shown["token_id"].as_str());
        if let Some(token) = shown.filter(|_| !self.identity.is_session()).map(ToOwned::to_owned) {
            let asked = Map::from_iter([("token_id".to_owned(), json!(token))]);
            let mut accepted = self.line.call(MessageType::XAcceptDelegation, &asked).await?;
            let Value::String(key) = accepted["token_binding_key"].take() else {
                return Ok(accepted);
            };
            let proof = self.identity.prove(&Zeroizing::new(key), &token);
            let shown = json!({ "token_id": token, "binding_proof": proof });
            payload.insert("delegation".to_owned(), shown);
        }
        Ok(self.line.call(kind, &payload).await?)
    }
}
