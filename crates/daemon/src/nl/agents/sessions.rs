//! Sessions of Keyless as agents: `keyless run`, and tools that show no credential.
//!
//! Such an agent is known by the socket that it speaks through and has nothing to show, so it is
//! trusted least (L0), and lives no longer than its session. What it may do, grants for its URI say.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    ActionType, Code, Error,
    agent::{AgentState, AgentType, AgentUri, Aid, InstanceId, TrustLevel},
    audit::{self, Action, Detail, Draft, Outcome, Target},
};
use keyless_store::{AgentRow, Told};

use super::{Agents, Registration, as_logged, identity};
use crate::broker::{agent as keyless_agent, plain_entry};

/// What no credential hashes to.
pub(super) const NO_CREDENTIAL: &str = "none";
/// The longest that a session is an agent.
const LIFE: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Where a session's name stands.
const SESSION: &str = "session";
/// Where its broker's does, until it has ended.
const OWNER: &str = "broker";

/// A session that some broker has opened and none has ended.
pub(crate) struct Unended {
    /// What it is called.
    pub(crate) session: String,
    /// Its broker.
    pub(crate) owner: String,
    row: AgentRow,
}

impl Unended {
    /// The agent that it is.
    pub(crate) fn agent(&self) -> &Aid {
        &self.row.aid
    }

    fn of(row: AgentRow) -> Option<Self> {
        let session = row.aid.session_context.as_ref()?.get(SESSION)?.clone();
        let owner = row.aid.metadata.get(OWNER)?.as_str()?.to_owned();
        Some(Self { session, owner, row })
    }

    /// The entry about its end, of a session that has one about its beginning.
    fn end(&self, note: &str) -> Option<Draft> {
        let aid = &self.row.aid;
        if aid.agent_uri.agent_type() != "run" {
            return None;
        }
        let delegated_by = "human:operator".to_owned();
        let who = audit::Agent { session_id: self.session.clone(), delegated_by, ..as_logged(aid) };
        let detail = Detail { note: Some(note.to_owned()), ..Detail::default() };
        let entry = plain_entry(who, Action::SessionEnd, Outcome::Success, Target::Session);
        Some(Draft { detail, ..entry })
    }
}

impl Agents {
    /// Registers a session of the broker `owner`, `run` or `mcp`, as an agent that may act from now on.
    pub(crate) async fn open_session(
        &self,
        kind: &str,
        session: &str,
        owner: &str,
    ) -> Result<Aid, Error> {
        let uri = keyless_agent(kind, session).uri;
        let capabilities = ActionType::ALL.iter().copied();
        let wanted = Registration {
            agent_uri: AgentUri::parse(&uri).map_err(|_| Code::Internal)?,
            organization_id: "local".to_owned(),
            agent_type: AgentType::CodingAssistant,
            trust_level: TrustLevel::L0,
            capabilities: capabilities.filter(|kind| *kind != ActionType::Egress).collect(),
            scope: None,
            session_context: BTreeMap::from([(SESSION.to_owned(), session.to_owned())]),
            life: LIFE,
            registered_by: "keyless".to_owned(),
            parent: None,
            metadata: BTreeMap::from([(OWNER.to_owned(), owner.into())]),
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

    /// The sessions that no broker has ended.
    pub(crate) async fn unended(&self) -> Result<Vec<Unended>, Error> {
        let rows = self.store.agents().await?.into_iter();
        let is_one = |row: &AgentRow| row.credential_hash == NO_CREDENTIAL && self.is_genuine(row);
        Ok(rows.filter(is_one).filter_map(Unended::of).collect())
    }

    /// Ends a session in the place of its broker, on record with this note; `false` when somebody has.
    pub(crate) async fn end_unended(&self, one: &Unended, note: &str) -> Result<bool, Error> {
        self.end_row(&one.row, note, one.end(note)).await
    }

    /// Ends a session's agent. One that was suspended or revoked stays on the list until it expires.
    pub(crate) async fn close_session(&self, instance: &InstanceId) -> Result<(), Error> {
        let Some(row) = self.row(instance).await? else { return Ok(()) };
        self.end_row(&row, "the session is over", None).await.map(drop)
    }

    async fn end_row(&self, row: &AgentRow, why: &str, end: Option<Draft>) -> Result<bool, Error> {
        let aid = &row.aid;
        if aid.lifecycle == AgentState::Active {
            let words = format!("active to revoked: {why}");
            let by = keyless_agent("broker", "broker");
            let mut entries = vec![Self::entry(Action::AgentTransition, aid, by, &words)];
            entries.extend(end);
            let told = Told::in_log(&self.log, entries);
            return Ok(self.store.remove_agent(row, told).await?);
        }
        let mut ended = aid.clone();
        if ended.metadata.remove(OWNER).is_none() {
            return Ok(false);
        }
        let new = self.sealed(ended, row.credential_hash.clone());
        let told = end.map_or_else(Told::nothing, |end| Told::in_log(&self.log, vec![end]));
        Ok(self.store.replace_agent(row, &new, told).await?)
    }
}
