//! The thin side of `keyless mcp`: carries questions to the broker over `agent.sock`.
//!
//! It holds no value and unlocks nothing. The session that it is given lives through a broker's restart: its
//! ticket is shown again, so that requests can still be polled.

use std::path::PathBuf;

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
    service::{Ticket, agent_call},
};

/// Asks the broker.
pub struct AgentClient {
    socket: PathBuf,
    /// Where the agent works; its project is looked for from here up.
    folder: PathBuf,
    line: Mutex<Line>,
}

/// The connection and what it stands for.
#[derive(Default)]
struct Line {
    stream: Option<UnixStream>,
    ticket: Option<Ticket>,
}

impl AgentClient {
    /// A client that connects when it is first asked.
    pub fn new(socket: PathBuf, folder: PathBuf) -> Self {
        Self { socket, folder, line: Mutex::default() }
    }

    async fn carry(&self, ask: Ask) -> Result<Reply, Error> {
        if ci::is_on() {
            return Err(ci::refusal());
        }
        let reply = self.carry_over(&ask).await?;
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
        if let Some(mut stream) = line.stream.take() {
            // Kept only if it answered; a broker that went away is looked for once more.
            match agent_call::ask(&mut stream, manifest.as_deref(), ask).await {
                Err(error) if error.code() == Code::BrokerNotRunning => {}
                answer => {
                    line.stream = Some(stream);
                    return answer;
                }
            }
        }
        let (mut stream, ticket) = agent_call::greet(&self.socket, line.ticket.as_ref()).await?;
        line.ticket = Some(ticket);
        let answer = agent_call::ask(&mut stream, manifest.as_deref(), ask).await;
        line.stream = Some(stream);
        answer
    }
}

impl Secrets for AgentClient {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Reply, Error>> {
        Box::pin(self.carry(ask))
    }
}
