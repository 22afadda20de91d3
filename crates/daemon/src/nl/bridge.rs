//! The agent's side of the NL socket: a client for tools, and a bridge for stdio.
//!
//! Neither unlocks anything or knows a secret. The agent's own credential comes from the environment,
//! never from stdin or an argument; without one, a session's socket says who it is.

use std::{env, path::Path, path::PathBuf};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use keyless_core::{
    Code, Error, SafeText,
    nl_message::{MessageType, NL_VERSION},
};
use keyless_guest::connect_unix;
use keyless_mcp::Nl;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy, stdin, stdout},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::Mutex,
};
use zeroize::Zeroizing;

use super::{answer::message_id, binding::proof};
use crate::sockets::told_error;

/// The credential that registering the agent gave.
const NL_AGENT_CREDENTIAL: &str = "NL_AGENT_CREDENTIAL";
/// The agent's URI, `nl://vendor/type/version`.
const NL_AGENT_URI: &str = "NL_AGENT_URI";
/// The agent's instance, a UUID.
const NL_INSTANCE_ID: &str = "NL_INSTANCE_ID";
/// An attestation, where the agent has one.
const NL_AGENT_ATTESTATION: &str = "NL_AGENT_ATTESTATION";

/// Who an agent's process is. Without `Debug`: it may hold a credential.
pub enum NlIdentity {
    /// A registered agent.
    Registered {
        /// Its URI.
        agent_uri: String,
        /// Its instance.
        instance_id: String,
        /// What it shows.
        credential: Zeroizing<String>,
        /// Its vendor's word, if it has one.
        attestation: Option<String>,
    },
    /// The session that its socket is for.
    Session,
}

/// Sends messages as one agent. Connects when it is first asked, and again when the broker came back.
pub struct NlClient {
    socket: PathBuf,
    identity: NlIdentity,
    line: Mutex<Option<Connection>>,
}

struct Connection {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    /// The time of the last proof: each is good for one message, and times are whole seconds.
    proven: i64,
}

impl NlIdentity {
    /// The identity that the environment gives: the session's where it has no credential.
    /// [`Code::Usage`] names the variable that is missing beside one.
    pub fn from_environment() -> Result<Self, Error> {
        if env::var_os(NL_AGENT_CREDENTIAL).is_none() {
            return Ok(Self::Session);
        }
        let variable = |name: &'static str| {
            env::var(name).ok().filter(|value| !value.is_empty()).ok_or_else(|| {
                let words = SafeText::words("the environment has no ").and(name);
                Error::with(Code::Usage, words)
            })
        };
        Ok(Self::Registered {
            agent_uri: variable(NL_AGENT_URI)?,
            instance_id: variable(NL_INSTANCE_ID)?,
            credential: Zeroizing::new(variable(NL_AGENT_CREDENTIAL)?),
            attestation: variable(NL_AGENT_ATTESTATION).ok(),
        })
    }

    fn handshake(&self) -> Map<String, Value> {
        let mut payload = Map::new();
        let Self::Registered { agent_uri, instance_id, credential, attestation } = self else {
            return payload;
        };
        payload.insert("agent_uri".to_owned(), agent_uri.clone().into());
        payload.insert("instance_id".to_owned(), instance_id.clone().into());
        payload.insert("credential".to_owned(), credential.as_str().into());
        if let Some(attestation) = attestation {
            payload.insert("attestation".to_owned(), attestation.clone().into());
        }
        payload
    }
}

impl NlClient {
    /// A client of the broker at `socket`.
    pub fn new(socket: PathBuf, identity: NlIdentity) -> Self {
        Self { socket, identity, line: Mutex::default() }
    }

    async fn carry(&self, kind: MessageType, payload: Map<String, Value>) -> Result<Value, Error> {
        let mut line = self.line.lock().await;
        if let Some(mut connection) = line.take()
            && let Ok(answer) = connection.present(kind, payload.clone(), &self.identity).await
        {
            *line = Some(connection);
            return Ok(answer);
        }
        let mut connection = Connection::open(&self.socket, &self.identity).await?;
        let answer = connection.present(kind, payload, &self.identity).await?;
        *line = Some(connection);
        Ok(answer)
    }
}

impl Nl for NlClient {
    fn send(
        &self,
        kind: MessageType,
        payload: Map<String, Value>,
    ) -> BoxFuture<'_, Result<Value, Error>> {
        Box::pin(self.carry(kind, payload))
    }
}

impl Connection {
    /// Connects and shows the credential.
    async fn open(socket: &Path, identity: &NlIdentity) -> Result<Self, Error> {
        let stream = connect_unix(socket).await.map_err(|_| Code::BrokerNotRunning)?;
        let (reader, writer) = stream.into_split();
        let mut connection = Self { reader: BufReader::new(reader), writer, proven: 0 };
        let answer = connection.call(MessageType::Handshake, identity.handshake()).await?;
        match answer.get("error") {
            None => Ok(connection),
            Some(error) => {
                let text = |key: &str| error[key].as_str().unwrap_or_default();
                Err(told_error(text("keyless_code"), ""))
            }
        }
    }

    /// As [`Self::call`]; a token in the payload is proven to be the agent's own, which a model can't do by itself.
    async fn present(
        &mut self,
        kind: MessageType,
        mut payload: Map<String, Value>,
        identity: &NlIdentity,
    ) -> Result<Value, Error> {
        let shown = payload.get("delegation").and_then(|shown| shown["token_id"].as_str());
        if let (Some(token), NlIdentity::Registered { agent_uri, .. }) = (shown, identity) {
            let (token, asked) = (token.to_owned(), json!({ "token_id": token }));
            let asked = asked.as_object().cloned().unwrap_or_default();
            let mut accepted = self.call(MessageType::XAcceptDelegation, asked).await?;
            let Value::String(key) = accepted["token_binding_key"].take() else {
                return Ok(accepted);
            };
            self.proven = Timestamp::now().as_second().max(self.proven + 1);
            let proof = proof(&Zeroizing::new(key), &token, agent_uri, self.proven);
            let shown = json!({ "token_id": token, "binding_proof": proof });
            payload.insert("delegation".to_owned(), shown);
        }
        self.call(kind, payload).await
    }

    /// Sends one message and waits for its answer's payload.
    async fn call(
        &mut self,
        kind: MessageType,
        payload: Map<String, Value>,
    ) -> Result<Value, Error> {
        let id = message_id();
        let message = json!({
            "nl_version": NL_VERSION,
            "message_type": kind.as_str(),
            "message_id": id,
            "timestamp": format!("{:.3}", Timestamp::now()),
            "payload": payload,
        });
        let gone = |_| Error::from(Code::BrokerNotRunning);
        let line = Zeroizing::new(format!("{message}\n"));
        self.writer.write_all(line.as_bytes()).await.map_err(gone)?;
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).await.map_err(gone)? == 0 {
                return Err(Code::BrokerNotRunning.into());
            }
            let mut answer: Value = serde_json::from_str(&line).map_err(|_| Code::Internal)?;
            let payload = answer["payload"].take();
            // What was no message at all is answered without naming one.
            if payload["correlation_id"] == json!(id) || payload.get("correlation_id").is_none() {
                return Ok(payload);
            }
        }
    }
}

/// Joins stdin and stdout with the broker's socket, as the agent that the environment names.
pub async fn serve_stdio(socket: &Path, identity: &NlIdentity) -> Result<(), Error> {
    let Connection { mut reader, mut writer, .. } = Connection::open(socket, identity).await?;
    let sending = async {
        let copied = copy(&mut stdin(), &mut writer).await;
        // What was sent is still answered.
        writer.shutdown().await.and(copied)
    };
    let receiving = async {
        let mut out = stdout();
        let copied = copy(&mut reader, &mut out).await;
        out.flush().await.and(copied)
    };
    tokio::select! {
        // The broker went away: there is nothing to wait for on stdin.
        received = receiving => drop(received),
        () = async { let _ = sending.await; std::future::pending::<()>().await } => {}
    }
    Ok(())
}
