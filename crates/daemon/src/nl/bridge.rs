//! The agent's side of the NL socket: what tools ask, and a bridge for stdio.
//!
//! Neither unlocks anything or knows a secret. The agent's own credential comes from the environment,
//! never from stdin or an argument; without one, a session's socket says who it is.

use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use keyless_client::{Client, Greeted, Identity, greet_for_good, reach};
use keyless_core::{Error, nl_message::MessageType};
use keyless_mcp::Nl;
use serde_json::{Map, Value};
use tokio::{
    io::{AsyncWriteExt, copy, stdin, stdout},
    net::UnixStream,
    sync::Mutex,
};

use crate::{agent_client::ToolSession, service::while_it_answers};

/// Sends messages as one agent, many at once. Connects when it is first asked, and again when the broker came back.
pub struct NlClient {
    socket: PathBuf,
    identity: Identity,
    session: ToolSession,
    client: Mutex<Option<Client>>,
}

impl NlClient {
    /// A client of the broker at `socket`. An identity that is a session's is this one, which tools of another set share.
    pub fn new(socket: PathBuf, identity: Identity, session: ToolSession) -> Self {
        Self { socket, identity, session, client: Mutex::default() }
    }

    /// The connection, which stands for one session of the agent's: there is never a second one beside it.
    async fn client(&self) -> Result<Client, Error> {
        let mut kept = self.client.lock().await;
        if let Some(client) = kept.as_ref().filter(|client| client.is_open()) {
            return Ok(client.clone());
        }
        let stream = connect(&self.socket, &self.identity, &self.session).await?;
        Ok(kept.insert(Client::over(stream, &self.identity).await?).clone())
    }

    async fn carry(&self, kind: MessageType, payload: Map<String, Value>) -> Result<Value, Error> {
        Ok(self.client().await?.send(kind, payload).await?)
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

async fn connect(
    socket: &Path,
    identity: &Identity,
    session: &ToolSession,
) -> Result<UnixStream, Error> {
    if identity.is_session() { session.greet(socket).await } else { reach(socket).await }
}

/// Joins stdin and stdout with the broker's socket, as the agent that the environment names.
pub async fn serve_stdio(socket: &Path, identity: &Identity) -> Result<(), Error> {
    let session = ToolSession::default();
    let greeting = async {
        let stream = connect(socket, identity, &session).await?;
        // A credential comes from the environment, never over stdin (chapter 08, 2.3).
        Ok(greet_for_good(stream, identity).await?)
    };
    let Greeted { mut reader, mut writer, .. } = while_it_answers(socket, greeting).await?;
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
