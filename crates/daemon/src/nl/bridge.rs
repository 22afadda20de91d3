//! The agent's side of the NL socket: a client for tools, and a bridge for stdio.
//!
//! Neither unlocks anything or knows a secret. The agent's own credential comes from the environment,
//! never from stdin or an argument; without one, a session's socket says who it is.

use std::{
    env,
    path::{Path, PathBuf},
    sync::atomic::{AtomicI64, Ordering::Relaxed},
};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText, nl_message::MessageType};
use keyless_mcp::Nl;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy, stdin, stdout},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::Mutex,
};
use zeroize::Zeroizing;

use super::{
    answer::message_id,
    binding::proof,
    line::{Line, message},
};
use crate::{
    agent_client::ToolSession,
    service::{agent_call, while_it_answers},
    sockets::told_error,
};

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
    /// The session that its socket is for, or that it shares with tools of another set.
    Session(ToolSession),
}

/// Sends messages as one agent, many at once. Connects when it is first asked, and again when the broker came back.
pub struct NlClient {
    socket: PathBuf,
    identity: NlIdentity,
    line: Mutex<Option<Line>>,
    /// The time of the last proof: each is good for one message, and times are whole seconds.
    proven: AtomicI64,
}

impl NlIdentity {
    /// The identity that the environment gives: the `session`'s where it has no credential.
    /// [`Code::Usage`] names the variable that is missing beside one.
    pub fn from_environment(session: ToolSession) -> Result<Self, Error> {
        if env::var_os(NL_AGENT_CREDENTIAL).is_none() {
            return Ok(Self::Session(session));
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
        Self { socket, identity, line: Mutex::default(), proven: AtomicI64::new(0) }
    }

    /// The connection, which stands for one session of the agent's: there is never a second one beside it.
    async fn line(&self) -> Result<Line, Error> {
        let mut kept = self.line.lock().await;
        if let Some(line) = kept.as_ref().filter(|line| line.is_open()) {
            return Ok(line.clone());
        }
        let (reader, writer) = greet(&self.socket, &self.identity).await?;
        Ok(kept.insert(Line::over(reader, writer)).clone())
    }

    /// A token in the payload is proven to be the agent's own, which a model can't do by itself. What broke off once it was
    /// sent is not sent again: it may have been done.
    async fn carry(
        &self,
        kind: MessageType,
        mut payload: Map<String, Value>,
    ) -> Result<Value, Error> {
        let line = self.line().await?;
        let shown = payload.get("delegation").and_then(|shown| shown["token_id"].as_str());
        if let (Some(token), NlIdentity::Registered { agent_uri, .. }) = (shown, &self.identity) {
            let (token, asked) = (token.to_owned(), json!({ "token_id": token }));
            let asked = asked.as_object().cloned().unwrap_or_default();
            let mut accepted = line.call(MessageType::XAcceptDelegation, asked).await?;
            let Value::String(key) = accepted["token_binding_key"].take() else {
                return Ok(accepted);
            };
            let proof = proof(&Zeroizing::new(key), &token, agent_uri, self.next_time());
            let shown = json!({ "token_id": token, "binding_proof": proof });
            payload.insert("delegation".to_owned(), shown);
        }
        line.call(kind, payload).await
    }

    fn next_time(&self) -> i64 {
        let now = Timestamp::now().as_second();
        let after = |last: i64| now.max(last + 1);
        let last = self.proven.fetch_update(Relaxed, Relaxed, |last| Some(after(last)));
        after(last.unwrap_or(now))
    }
}

impl Nl for NlClient {
    fn send(
        &self,
        kind: MessageType,
        payload: Map<String, Value>,
    ) -> BoxFuture<'_, Result<Value, Error>> {
        Box::pin(while_it_answers(&self.socket, self.carry(kind, payload)))
    }
}

/// Connects and shows the credential.
async fn greet(
    socket: &Path,
    identity: &NlIdentity,
) -> Result<(BufReader<OwnedReadHalf>, OwnedWriteHalf), Error> {
    let gone = |_| Error::from(Code::BrokerNotRunning);
    let stream = match identity {
        NlIdentity::Registered { .. } => agent_call::reach(socket).await?,
        NlIdentity::Session(session) => session.greet(socket).await?,
    };
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let greeting = message(&message_id(), MessageType::Handshake, &identity.handshake());
    writer.write_all(greeting.as_bytes()).await.map_err(gone)?;
    let mut answer = String::new();
    if reader.read_line(&mut answer).await.map_err(gone)? == 0 {
        return Err(Code::BrokerNotRunning.into());
    }
    let answer: Value = serde_json::from_str(&answer).map_err(|_| Code::Internal)?;
    match answer["payload"].get("error") {
        None => Ok((reader, writer)),
        Some(error) => Err(told_error(error["keyless_code"].as_str().unwrap_or_default(), "")),
    }
}

/// Joins stdin and stdout with the broker's socket, as the agent that the environment names.
pub async fn serve_stdio(socket: &Path, identity: &NlIdentity) -> Result<(), Error> {
    let (mut reader, mut writer) = while_it_answers(socket, greet(socket, identity)).await?;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use keyless_sockets::connect_unix;
    use tokio::net::UnixSocket;

    use super::*;

    /// Whoever connects in a loop fills it for moments: that is no broker that is not running.
    #[tokio::test]
    async fn a_registered_agent_waits_for_a_place_in_the_queue() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("nl.sock");
        let listener = UnixSocket::new_stream().unwrap();
        listener.bind(&socket).unwrap();
        let listener = listener.listen(1).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = connect_unix(&socket).await {
            waiting.push(stream);
        }
        let identity = NlIdentity::Registered {
            agent_uri: "nl://acme.corp/bot/1.0.0".to_owned(),
            instance_id: "1".to_owned(),
            credential: Zeroizing::new("a credential".to_owned()),
            attestation: None,
        };
        let serving = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            for _ in &waiting {
                listener.accept().await.unwrap();
            }
            let (mut stream, _) = listener.accept().await.unwrap();
            let (reader, mut writer) = stream.split();
            BufReader::new(reader).read_line(&mut String::new()).await.unwrap();
            writer.write_all(b"{\"payload\":{}}\n").await.unwrap();
        };
        let (greeted, ()) = tokio::join!(greet(&socket, &identity), serving);
        greeted.unwrap();
    }
}
