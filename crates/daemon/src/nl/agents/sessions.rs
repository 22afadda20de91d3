//! Sessions of Keyless as agents: `keyless run`, and tools that show no credential.
//!
//! Such an agent is known by the socket that it speaks through and has nothing to show, so it is
//! trusted least (L0), and lives no longer than its session. What it may do, grants for its URI say.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    ActionType, Code, Error,
    agent::{AgentState, AgentType, AgentUri, Aid, InstanceId, TrustLevel},
    audit::Action,
};
use keyless_store::{AgentRow, Told};

use super::{Agents, Registration, identity};
use crate::broker::agent as keyless_agent;

/// What no credential hashes to.
pub(super) const NO_CREDENTIAL: &str = "none";
/// The longest that a session is an agent.
const LIFE: SignedDuration = SignedDuration::from_hours(7 * 24);

impl Agents {
    /// Registers a session, `run` or `mcp`, as an agent that may act from now on.
    pub(crate) async fn open_session(&self, kind: &str, session: &str) -> Result<Aid, Error> {
        let uri = keyless_agent(kind, session).uri;
        let capabilities = ActionType::ALL.iter().copied();
        let wanted = Registration {
            agent_uri: AgentUri::parse(&uri).map_err(|_| Code::Internal)?,
            organization_id: "local".to_owned(),
            agent_type: AgentType::CodingAssistant,
            trust_level: TrustLevel::L0,
            capabilities: capabilities.filter(|kind| *kind != ActionType::Egress).collect(),
            scope: None,
            session_context: BTreeMap::from([("session".to_owned(), session.to_owned())]),
            life: LIFE,
            registered_by: "keyless".to_owned(),
            parent: None,
            metadata: BTreeMap::new(),
            is_administrator: false,
        };
        let aid = Aid { lifecycle: AgentState::Active, ..identity(wanted, Timestamp::now())? };
        let by = keyless_agent("broker", "broker");
        let told = self.told(Action::AgentRegister, &aid, by, "a session begins");
        let row = self.sealed(aid.clone(), NO_CREDENTIAL.to_owned());
        self.store.insert_agent(&row, told).await?;
        Ok(aid)
    }

    /// The agent that a session is. Whoever asks has seen that the session's own socket is spoken through.
    pub(crate) async fn of_session(&self, instance: &str) -> Result<Aid, Error> {
        let row = match InstanceId::parse(instance) {
            Some(instance) => self.row(&instance).await?,
            None => None,
        };
        let row = row.filter(|row| row.credential_hash == NO_CREDENTIAL);
        Ok(row.ok_or(Code::AgentUnknown)?.aid)
    }

    /// The agents that are no sessions: those with a credential.
    pub(crate) async fn registered(&self) -> Result<Vec<Aid>, Error> {
        let rows = self.store.agents().await?.into_iter();
        let is_one = |row: &AgentRow| row.credential_hash != NO_CREDENTIAL && self.is_genuine(row);
        Ok(rows.filter(is_one).map(|row| row.aid).collect())
    }

    /// Forgets sessions that are over their time: their broker did not end them.
    pub(crate) async fn forget_sessions(&self, now: Timestamp) -> Result<(), Error> {
        for row in self.store.agents().await? {
            let is_over = row.credential_hash == NO_CREDENTIAL && now >= row.aid.expires_at;
            if is_over && self.is_genuine(&row) {
                self.store.remove_agent(&row, Told::nothing()).await?;
            }
        }
        Ok(())
    }

    /// Ends a session's agent. One that was suspended or revoked stays on the list until it expires.
    pub(crate) async fn close_session(&self, instance: &InstanceId) -> Result<(), Error> {
        let Some(row) = self.row(instance).await? else { return Ok(()) };
        if row.aid.lifecycle == AgentState::Active {
            let words = "active to revoked: the session is over";
            let by = keyless_agent("broker", "broker");
            let told = self.told(Action::AgentTransition, &row.aid, by, words);
            self.store.remove_agent(&row, told).await?;
        }
        Ok(())
    }
}
