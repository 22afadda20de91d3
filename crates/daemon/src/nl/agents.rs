//! Who agents are: registered by the operator, known by a credential, watched over their lives.
//!
//! Rows are sealed with the vault's key; one whose seal does not fit is nobody. An agent that is not
//! known and a credential that is wrong are the same to who asks, in words and in time.
//! Source: reference/nl.md, section 1.

mod credential;
mod registration;
mod rotation;
pub(super) mod sessions;

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    Code, Error, SafeText,
    agent::{AgentState, Aid, DelegatedBy, InstanceId, LifecycleAuthority as Authority},
    audit::{self, Action, Detail, Draft, Outcome, Target},
};
use keyless_store::{AgentRow, AuditLog, Store, Told};
use keyless_vault::{Vault, Voucher};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

pub(super) use self::registration::identity;
pub use self::registration::{CREDENTIAL_NOTE, OPERATOR, Registrar, Registration, registered};
use crate::{
    broker::{agent as keyless_agent, fill_random, plain_entry},
    config::Activation,
};

/// Credentials that are hashed at the same time: each takes 19 MiB.
const HASHES_AT_ONCE: usize = 2;
/// How often it is noted that an agent is still there.
const NOTED_EACH: SignedDuration = SignedDuration::from_mins(10);
/// How long a credential that was found right is taken without being hashed again.
const VERIFIED_FOR: Duration = Duration::from_mins(5);

/// The agents of a store.
pub struct Agents {
    store: Store,
    voucher: Voucher,
    log: AuditLog,
    hashing: Arc<Semaphore>,
    /// Makes what is remembered of credentials useless elsewhere.
    pepper: [u8; 32],
    activation: Activation,
    verified: Mutex<HashMap<InstanceId, Verified>>,
}

/// A credential that was found right.
struct Verified {
    digest: [u8; 32],
    /// The hash that it fitted: another one, and it is to be looked at anew.
    stored: String,
    at: std::time::Instant,
}

impl Agents {
    /// The agents of an open vault.
    pub fn new(vault: &Vault, log: AuditLog) -> Result<Self, Error> {
        let mut pepper = [0; 32];
        fill_random(&mut pepper)?;
        Ok(Self {
            store: vault.store().clone(),
            voucher: vault.nl_voucher(),
            log,
            hashing: Arc::new(Semaphore::new(HASHES_AT_ONCE)),
            pepper,
            activation: Activation::default(),
            verified: Mutex::default(),
        })
    }

    /// As the operator wants it: what makes an agent active.
    pub(crate) fn activated_by(self, activation: Activation) -> Self {
        Self { activation, ..self }
    }

    /// Registers an agent; gives its identity, and its credential, which nobody can ever be shown again.
    ///
    /// [`Code::Usage`] names the fields that make it none; [`Code::AgentExceeds`] those that go beyond who registers it.
    pub async fn register(
        &self,
        wanted: Registration,
        by: Registrar<'_>,
    ) -> Result<(Aid, Zeroizing<String>), Error> {
        let aid = self.drafted(wanted, by).await?;
        let credential = credential::draw()?;
        let hash = self.hash(&credential).await?;
        let told = self.told(Action::AgentRegister, &aid, by.as_logged(), "registered");
        self.store.insert_agent(&self.sealed(aid.clone(), hash), told).await?;
        Ok((aid, credential))
    }

    /// The identity that [`Self::register`] would register, and its faults, with nobody registered.
    pub(super) async fn drafted(
        &self,
        wanted: Registration,
        by: Registrar<'_>,
    ) -> Result<Aid, Error> {
        let now = Timestamp::now();
        let parent = match &wanted.parent {
            Some(instance) => Some(self.show(instance).await?),
            None => None,
        };
        let mut aid = registration::identity(wanted, now)?;
        by.allow(&aid)?;
        if let Some(parent) = parent {
            let more = aid.exceeds(&parent);
            if !more.is_empty() {
                let words = SafeText::words("a sub-agent has no more than its parent: ");
                let words = words.as_they_wrote(&more.join(", "));
                return Err(Error::with(Code::Usage, words));
            }
            aid.delegated_by = Some(DelegatedBy {
                kind: "agent".to_owned(),
                identifier: parent.agent_uri.to_string(),
                delegation_time: now,
                parent_instance_id: Some(parent.instance_id),
            });
        }
        Ok(aid)
    }

    /// Who shows a credential. An agent's first time makes it active, unless that is an administrator's to do (C-14).
    ///
    /// [`Code::AgentUnknown`] for everything about who it is; then its state says whether it may act.
    pub async fn authenticate(
        &self,
        agent_uri: &str,
        instance: &str,
        credential: &str,
    ) -> Result<Aid, Error> {
        let row = match InstanceId::parse(instance) {
            Some(instance) => self.row(&instance).await?,
            None => None,
        };
        // Somebody's hash is computed in any case, so that the time does not tell who is known.
        let stored = row.as_ref().map_or(NOBODY, |row| row.credential_hash.as_str());
        let fits = self.is_right(row.as_ref(), credential, stored).await?;
        let row = row.filter(|row| fits && row.aid.agent_uri.as_str() == agent_uri);
        let mut aid = row.ok_or(Code::AgentUnknown)?.aid;
        if aid.lifecycle == AgentState::Provisioned && self.activation == Activation::FirstAuth {
            let to = (AgentState::Active, Authority::Authentication);
            aid = self.change(&aid.instance_id, to, "first authentication").await?;
        }
        Ok(aid)
    }

    /// Every agent, oldest first.
    pub async fn list(&self) -> Result<Vec<Aid>, Error> {
        let rows = self.store.agents().await?;
        Ok(rows.into_iter().filter(|row| self.is_genuine(row)).map(|row| row.aid).collect())
    }

    /// One agent.
    pub async fn show(&self, instance: &InstanceId) -> Result<Aid, Error> {
        self.row(instance).await?.map(|row| row.aid).ok_or_else(|| unknown(instance))
    }

    /// Whether an agent may act, and every agent that it is a sub-agent of.
    pub async fn in_force(&self, aid: &Aid, now: Timestamp) -> Result<(), Error> {
        let all = if aid.parent().is_some() { self.list().await? } else { Vec::new() };
        Ok(aid.is_in_force_below(now, |one| named(&all, one))?)
    }

    /// An active agent of this URI, the one that was active last.
    pub async fn active_of(&self, uri: &str) -> Result<Aid, Error> {
        let (now, all) = (Timestamp::now(), self.list().await?);
        let fits = |aid: &&Aid| {
            aid.agent_uri.as_str() == uri
                && aid.is_in_force_below(now, |one| named(&all, one)).is_ok()
        };
        let found = all.iter().rfind(fits).cloned();
        let words = SafeText::words("no active agent ").as_they_wrote(uri);
        found.ok_or_else(|| Error::with(Code::AgentUnknown, words))
    }

    /// Changes an agent's state, on record. [`Code::StateUnfit`] when it can't be changed so.
    pub async fn change(
        &self,
        instance: &InstanceId,
        (to, by): (AgentState, Authority),
        reason: &str,
    ) -> Result<Aid, Error> {
        self.change_as(instance, (to, by), None, reason).await
    }

    /// As [`Self::change`]; `who` is in the log where the authority alone does not say it.
    pub(super) async fn change_as(
        &self,
        instance: &InstanceId,
        (to, by): (AgentState, Authority),
        who: Option<&audit::Agent>,
        reason: &str,
    ) -> Result<Aid, Error> {
        loop {
            let old = self.row(instance).await?.ok_or_else(|| unknown(instance))?;
            if old.aid.lifecycle == to && by == Authority::Authentication {
                return Ok(old.aid);
            }
            let state = old.aid.lifecycle.change_to(to, by).map_err(|refused| {
                let why = SafeText::default().as_they_wrote(&refused.to_string());
                Error::with(Code::StateUnfit, why)
            })?;
            let from = old.aid.lifecycle;
            let mut aid = Aid { lifecycle: state, ..old.aid.clone() };
            if to == AgentState::Active {
                aid.last_active_at = Some(Timestamp::now());
            }
            let new = self.sealed(aid.clone(), old.credential_hash.clone());
            // Somebody else may have changed it meanwhile; then it is judged anew.
            let words = format!("{from} to {to}: {reason}");
            let who = who.cloned().unwrap_or_else(|| actor(by, &aid));
            let told = self.told(Action::AgentTransition, &aid, who, &words);
            if self.store.replace_agent(&old, &new, told).await? {
                return Ok(aid);
            }
        }
    }

    /// Notes that an agent has done something, if that was not noted of late.
    pub(crate) async fn touch(&self, aid: &Aid, now: Timestamp) -> Result<(), Error> {
        if aid.last_active_at.is_some_and(|at| now.duration_since(at) < NOTED_EACH) {
            return Ok(());
        }
        let Some(old) = self.row(&aid.instance_id).await? else { return Ok(()) };
        let touched = Aid { last_active_at: Some(now), ..old.aid.clone() };
        // Whoever was faster has noted more than this.
        let new = self.sealed(touched, old.credential_hash.clone());
        self.store.replace_agent(&old, &new, Told::nothing()).await.map(drop).map_err(Into::into)
    }

    async fn is_right(
        &self,
        row: Option<&AgentRow>,
        credential: &str,
        stored: &str,
    ) -> Result<bool, Error> {
        let digest = self.digest(credential);
        if let Some(row) = row
            && self.is_verified(&row.aid.instance_id, &digest, stored)
        {
            return Ok(true);
        }
        let fits = self.fits(credential, stored).await?;
        if let Some(row) = row.filter(|_| fits) {
            let verified =
                Verified { digest, stored: stored.to_owned(), at: std::time::Instant::now() };
            let mut all = self.verified.lock();
            // What is void by now is of no use to anybody, and its agent may not come again.
            all.retain(|_, verified| verified.at.elapsed() < VERIFIED_FOR);
            all.insert(row.aid.instance_id.clone(), verified);
        }
        Ok(fits)
    }

    fn is_verified(&self, instance: &InstanceId, digest: &[u8; 32], stored: &str) -> bool {
        self.verified.lock().get(instance).is_some_and(|verified| {
            verified.digest == *digest
                && verified.stored == stored
                && verified.at.elapsed() < VERIFIED_FOR
        })
    }

    fn digest(&self, credential: &str) -> [u8; 32] {
        Sha256::new().chain_update(self.pepper).chain_update(credential).finalize().into()
    }

    async fn hash(&self, credential: &str) -> Result<String, Error> {
        let credential = Zeroizing::new(credential.to_owned());
        self.slowly(move || credential::hash(&credential)).await
    }

    async fn fits(&self, credential: &str, stored: &str) -> Result<bool, Error> {
        let (credential, stored) = (Zeroizing::new(credential.to_owned()), stored.to_owned());
        self.slowly(move || credential::fits(&credential, &stored)).await
    }

    async fn slowly<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let _turn = self.hashing.acquire().await.map_err(|_| Code::Internal)?;
        tokio::task::spawn_blocking(work).await.map_err(|_| Code::Internal)?
    }

    async fn row(&self, instance: &InstanceId) -> Result<Option<AgentRow>, Error> {
        Ok(self.store.agent(instance).await?.filter(|row| self.is_genuine(row)))
    }

    fn is_genuine(&self, row: &AgentRow) -> bool {
        self.voucher.fits(&AgentRow::sealed_bytes(&row.aid, &row.credential_hash), &row.seal)
    }

    fn sealed(&self, aid: Aid, credential_hash: String) -> AgentRow {
        let seal = self.voucher.seal(&AgentRow::sealed_bytes(&aid, &credential_hash));
        AgentRow { aid, credential_hash, seal }
    }

    /// The entry that tells what became of an agent.
    fn told(&self, action: Action, aid: &Aid, who: audit::Agent, note: &str) -> Told<'_> {
        Told::in_log(&self.log, vec![Self::entry(action, aid, who, note)])
    }

    fn entry(action: Action, aid: &Aid, who: audit::Agent, note: &str) -> Draft {
        let target = SafeText::default().as_they_wrote(aid.agent_uri.as_str());
        let target = target.and(" ").as_they_wrote(aid.instance_id.as_str());
        Draft {
            detail: Detail { note: Some(note.to_owned()), ..Detail::default() },
            ..plain_entry(who, action, Outcome::Success, Target::Named(target))
        }
    }
}

/// A hash that no credential fits.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$\
                      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// An agent, in the log's words.
pub(crate) fn as_logged(aid: &Aid) -> audit::Agent {
    audit::Agent {
        uri: aid.agent_uri.to_string(),
        organization_id: aid.organization_id.clone(),
        session_id: aid.instance_id.to_string(),
        delegated_by: match &aid.delegated_by {
            Some(by) => format!("{}:{}", by.kind, by.identifier),
            None => "human:operator".to_owned(),
        },
    }
}

/// Who acts by an authority, in the log's words.
fn actor(by: Authority, aid: &Aid) -> audit::Agent {
    match by {
        Authority::Administrator => keyless_agent("administrator", "administrator"),
        Authority::Authentication => as_logged(aid),
        Authority::Detection { .. } => keyless_agent("detection", "detection"),
        Authority::Operator => keyless_agent("operator", "operator"),
        Authority::Upkeep => keyless_agent("broker", "broker"),
    }
}

/// Whether an administrator has registered an agent, for a person that it named.
pub(super) fn is_of_administrator(aid: &Aid) -> bool {
    let by = aid.delegated_by.as_ref();
    by.is_some_and(|by| by.kind == "human" && by.identifier != OPERATOR)
}

/// The agent of an instance.
pub(super) fn named(all: &[Aid], instance: &InstanceId) -> Option<Aid> {
    all.iter().find(|aid| aid.instance_id == *instance).cloned()
}

/// Whether an agent is a sub-agent of another one, directly or not.
pub(super) fn is_below(aid: &Aid, ancestor: &InstanceId, all: &[Aid]) -> bool {
    aid.is_below(ancestor, |one| named(all, one))
}

fn unknown(instance: &InstanceId) -> Error {
    Error::with(Code::AgentUnregistered, SafeText::default().as_they_wrote(instance.as_str()))
}
