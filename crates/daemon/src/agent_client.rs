//! The thin side of `keyless mcp`: carries questions to the broker over `agent.sock`.
//!
//! It holds no value and unlocks nothing. The session that it is given lives through a broker's restart: its
//! ticket is shown again, so that requests can still be polled. Tools of another set that share the ticket are the same
//! session, and what a person allowed one of them counts for the other.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use keyless_core::{Code, Error};
use keyless_mcp::{
    Ask, Reply, Secrets,
    secrets::{Outcome, Polled},
};
use tokio::{net::UnixStream, sync::Mutex};

use crate::{
    caution::manifest_of,
    ci,
    declare::declare,
    service::{Ticket, agent_call, while_it_answers},
};

/// Asks the broker.
pub struct AgentClient {
    socket: PathBuf,
    /// Where the agent works; its project is looked for from here up.
    folder: PathBuf,
    session: ToolSession,
    line: Mutex<Option<UnixStream>>,
}

/// The session that tools of one process are, whichever connection they speak on; none before the first greeting.
#[derive(Clone, Default)]
pub struct ToolSession(Arc<Mutex<Option<Ticket>>>);

impl ToolSession {
    /// Connects as this session. [`Code::BrokerNotRunning`] when there is nobody.
    pub(crate) async fn greet(&self, socket: &Path) -> Result<UnixStream, Error> {
        let mut kept = self.0.lock().await;
        let (stream, ticket) = agent_call::greet(socket, kept.as_ref()).await?;
        *kept = Some(ticket);
        Ok(stream)
    }
}

impl AgentClient {
    /// A client that connects when it is first asked.
    pub fn new(socket: PathBuf, folder: PathBuf, session: ToolSession) -> Self {
        Self { socket, folder, session, line: Mutex::default() }
    }

    async fn carry(&self, ask: Ask) -> Result<Reply, Error> {
        if ci::is_on() {
            return Err(ci::refusal());
        }
        // Whoever waits for the line behind a call that is never answered is told as soon as that one.
        let reply = while_it_answers(&self.socket, self.carry_over(&ask)).await?;
        if let Reply::Polled(Polled {
            outcome: Some(Outcome { final_path: Some(path), .. }), ..
        }) = &reply
        {
            // Where the agent may not write, its session sees the path all the same.
            let _ = declare(&self.folder, path);
        }
        Ok(reply)
    }

    async fn carry_over(&self, ask: &Ask) -> Result<Reply, Error> {
        let manifest = if ask.is_about_a_project() { manifest_of(&self.folder)? } else { None };
        let mut line = self.line.lock().await;
        if let Some(mut stream) = line.take() {
            // Kept only if it answered; a broker that went away is looked for once more.
            match agent_call::ask(&mut stream, manifest.as_deref(), ask).await {
                Err(error) if error.code() == Code::BrokerNotRunning => {}
                answer => {
                    *line = Some(stream);
                    return answer;
                }
            }
        }
        let mut stream = self.session.greet(&self.socket).await?;
        let answer = agent_call::ask(&mut stream, manifest.as_deref(), ask).await;
        *line = Some(stream);
        answer
    }
}

impl Secrets for AgentClient {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Reply, Error>> {
        Box::pin(self.carry(ask))
    }
}
