//! What an agent asks, with answers that have types.

use jiff::Timestamp;
use keyless_core::{
    Code,
    action::{ActionRequest, ActionResponse, ActionType, DelegationScope},
    nl_message::MessageType,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::{Client, Error, error::fault_in};

/// A secret that some grant lets the agent use: its names, never its value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct UsableSecret {
    /// Its path.
    pub name: String,
    /// What an action writes for it, `{{nl:category/NAME}}`.
    pub reference: String,
    /// The types of actions that may use it.
    pub action_types: Vec<ActionType>,
    /// Whether its value goes to its hosts alone, and a command gets a placeholder.
    pub bound_to_hosts: bool,
}

/// Whether an action of one type may use a secret now.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Access {
    /// The secret, as it was asked about.
    pub secret_name: String,
    /// Whether it may.
    pub allowed: bool,
    /// Why not, in the protocol's word: `SCOPE_VIOLATION`.
    #[serde(default)]
    pub reason: Option<String>,
    /// The number of that reason, `NL-E200`.
    #[serde(default)]
    pub nl_code: Option<String>,
    /// The reason in words.
    #[serde(default)]
    pub message: Option<String>,
}

/// What was handed to another agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Delegation {
    /// The token's id, which the other agent gives to [`Client::execute_under`].
    pub token_id: String,
    /// Until when the delegation holds.
    pub expires_at: Timestamp,
    /// How often it may be handed on.
    pub delegation_depth_remaining: u32,
}

#[derive(Deserialize)]
struct Revoked {
    cascade_count: u64,
}

impl Client {
    /// Has one action done. A denial is an answer as well, with words for the model; [`Error::Refused`] is a message that
    /// was not taken at all. The same request is done once, however often it is sent.
    pub async fn execute(&self, request: &ActionRequest) -> Result<ActionResponse, Error> {
        self.act(object(request)?).await
    }

    /// As [`Client::execute`], under a delegation that another agent has made for this one: with what that covers, and
    /// nothing else.
    pub async fn execute_under(
        &self,
        token_id: &str,
        request: &ActionRequest,
    ) -> Result<ActionResponse, Error> {
        let mut payload = object(request)?;
        payload.insert("delegation".to_owned(), json!({ "token_id": token_id }));
        self.act(payload).await
    }

    /// The secrets that the agent may use, of those whose path begins with `scope`.
    pub async fn list_secrets(&self, scope: Option<&str>) -> Result<Vec<UsableSecret>, Error> {
        #[derive(Deserialize)]
        struct Listed {
            secrets: Vec<UsableSecret>,
        }
        let listed = self.ask(MessageType::XListSecrets, json!({ "scope": scope })).await;
        listed.map(|Listed { secrets }| secrets)
    }

    /// Whether an action of this type may use a secret now, by its reference (`api/TOKEN`, with or without braces).
    pub async fn check_access(&self, secret: &str, kind: ActionType) -> Result<Access, Error> {
        let asked = json!({ "secret_name": secret, "action_type": kind });
        self.ask(MessageType::XCheckAccess, asked).await
    }

    /// What the broker can do: chapter 08's discovery document.
    pub async fn discover(&self) -> Result<Value, Error> {
        self.ask(MessageType::DiscoveryRequest, json!({})).await
    }

    /// Hands a part of what the agent may use to the agents of another URI, for these types of actions.
    pub async fn delegate(
        &self,
        to: &str,
        actions: &[ActionType],
        scope: &DelegationScope,
    ) -> Result<Delegation, Error> {
        let mut asked = json!({ "delegate_to": to, "delegation_scope": scope });
        asked["delegation_scope"]["actions"] = json!(actions);
        self.ask(MessageType::DelegationRequest, asked).await
    }

    /// Ends a delegation and all that came of it; gives how many those were.
    pub async fn revoke_delegation(&self, token_id: &str) -> Result<u64, Error> {
        let asked = json!({ "token_id": token_id });
        let revoked = self.ask(MessageType::DelegationRevoke, asked).await;
        revoked.map(|Revoked { cascade_count }| cascade_count)
    }

    async fn act(&self, payload: Map<String, Value>) -> Result<ActionResponse, Error> {
        let mut answer = self.send(MessageType::ActionRequest, payload).await?;
        let is_of_action = answer.get("status").is_some();
        match fault_in(&mut answer) {
            Some(fault) if !is_of_action => Err(Error::Refused(Box::new(fault))),
            error if is_of_action => Ok(ActionResponse { error, ..read(answer)? }),
            _ => Err(Code::Internal.into()),
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        kind: MessageType,
        payload: Value,
    ) -> Result<T, Error> {
        let mut answer = self.send(kind, object(&payload)?).await?;
        match fault_in(&mut answer) {
            Some(fault) => Err(Error::Refused(Box::new(fault))),
            None => read(answer),
        }
    }
}

fn object(payload: &impl Serialize) -> Result<Map<String, Value>, Error> {
    match serde_json::to_value(payload) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(Code::Internal.into()),
    }
}

fn read<T: DeserializeOwned>(answer: Value) -> Result<T, Error> {
    serde_json::from_value(answer).map_err(|_| Code::Internal.into())
}
