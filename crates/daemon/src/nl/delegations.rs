//! The delegation tokens of a store: made for agents, presented by agents, revoked with all that came of them.
//!
//! A token's name alone is good for nothing: who presents it proves, by a key that only its subject is given, that it is
//! theirs (`binding`). Rows whose seal does not fit, and tokens without the broker's signature (`signing`), hand nothing on.
//! Source: reference/nl.md, section 7.

mod signing;

use std::collections::{HashMap, HashSet};

use data_encoding::{BASE64, HEXLOWER};
use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    Code, Error, SafeText,
    agent::{AgentUri, Aid, InstanceId},
    audit::{self, Action, Detail, Draft, Outcome, Revoked, Target},
    delegation::{Order, Presented, Revocation, Token, TokenId, verify},
    nl_message::to_millisecond,
};
use keyless_store::{AuditLog, DelegationRow, Store, Told};
use keyless_vault::{Vault, Voucher};
use uuid::Uuid;
use zeroize::Zeroizing;

use self::signing::Signer;
use super::{
    agents::{Agents, as_logged, named},
    binding,
};
use crate::broker::{agent, fill_random, plain_entry};

/// The longest chain that is walked, whatever the depth was when it was made.
const MAX_LINKS: usize = 64;

/// How long a token that is over stays in the list.
const KEPT: SignedDuration = SignedDuration::from_hours(24);

/// The delegations of an open vault.
pub struct Delegations {
    store: Store,
    voucher: Voucher,
    signer: Signer,
    log: AuditLog,
    /// How far the time of a proof may be off.
    proof_skew: SignedDuration,
}

/// A token of one instance.
struct Bound {
    token: Token,
    /// Whether it was any instance's before.
    is_new: bool,
}

/// Who revokes.
#[derive(Clone, Copy, Debug)]
pub enum Revoker<'a> {
    /// An administrator: each token that an agent of its organization has issued.
    Administrator(&'a Aid),
    /// An agent: its own tokens, and what came of them.
    Agent(&'a InstanceId),
    /// The operator, or Keyless for them.
    Operator,
}

impl Delegations {
    /// The delegations of a vault's store.
    pub fn new(vault: &Vault, log: AuditLog) -> Self {
        let voucher = vault.nl_voucher();
        let (store, signer) = (vault.store().clone(), Signer::new(&voucher));
        Self { store, signer, voucher, log, proof_skew: binding::SKEW }
    }

    /// As the operator wants it: how far the time of a proof may be off.
    pub(crate) fn allowing(self, proof_skew: SignedDuration) -> Self {
        Self { proof_skew, ..self }
    }

    /// Makes a token. Who makes it is given its name alone; the key is its subject's, see [`Self::accept`].
    pub async fn create(&self, order: Order<'_>) -> Result<Token, Error> {
        let mut nonce = [0; 16];
        fill_random(&mut nonce)?;
        let id = TokenId::parse(&Uuid::new_v4().to_string()).ok_or(Code::Internal)?;
        let issuer = order.issuer.1.as_str().to_owned();
        let token = Token::issue(order, (id, BASE64.encode(&nonce)), Timestamp::now())?;
        let row = self.sealed(token);
        let by = audit::Agent { uri: row.token.issuer.to_string(), ..agent("agent", &issuer) };
        let entry = entry(Action::DelegationCreate, &row.token, by, None);
        self.store.insert_delegation(&row, Told::in_log(&self.log, vec![entry])).await?;
        Ok(row.token)
    }

    /// Verifies a token that is presented, which is its presenter's alone from then on; gives it. A use is not had by that.
    pub async fn verify(
        &self,
        id: &TokenId,
        presented: &Presented<'_>,
        is_active: &(dyn Fn(&InstanceId) -> bool + Sync),
    ) -> Result<Token, Error> {
        let (links, used) = self.chain(id).await?;
        let now = Timestamp::now();
        verify(&links, presented, used, &|instance| is_active(instance), now)?;
        let token = links.into_iter().next().ok_or(Code::DelegationInvalid)?;
        if token.subject_instance.is_some() {
            return Ok(token);
        }
        let uri = presented.agent_uri.to_string();
        let who = audit::Agent { uri, ..agent("agent", presented.instance_id.as_str()) };
        self.bind(id, presented.instance_id, &who).await.map(|bound| bound.token)
    }

    /// Makes a token that any instance of its subject may have that of one, which is on record with it; it is somebody
    /// else's if another was faster.
    async fn bind(
        &self,
        id: &TokenId,
        instance: &InstanceId,
        who: &audit::Agent,
    ) -> Result<Bound, Error> {
        loop {
            let row = self.row(id).await?;
            row.token.is_in_force(Timestamp::now())?;
            match &row.token.subject_instance {
                Some(one) if one == instance => {
                    return Ok(Bound { token: row.token, is_new: false });
                }
                Some(_) => return Err(unknown(id)),
                None => {}
            }
            let bound = Token { subject_instance: Some(instance.clone()), ..row.token.clone() };
            let new = self.sealed(bound);
            let note = format!("from now on it is that of {instance} alone");
            let entry = entry(Action::DelegationAccept, &new.token, who.clone(), Some(note));
            let told = Told::in_log(&self.log, vec![entry]);
            if self.store.rewrite_delegation(&row, &new, told).await? {
                return Ok(Bound { token: new.token, is_new: true });
            }
        }
    }

    /// A token, the one that it was made from, and so on to the root.
    pub(super) async fn links(&self, id: &TokenId) -> Result<Vec<Token>, Error> {
        self.chain(id).await.map(|(links, _)| links)
    }

    /// Takes so many uses; [`Code::DelegationExhausted`] when fewer are left.
    pub async fn take_uses(&self, id: &TokenId, number: u64) -> Result<(), Error> {
        if self.store.take_delegation_uses(id, number).await? {
            Ok(())
        } else {
            Err(Code::DelegationExhausted.into())
        }
    }

    /// Gives uses back, of what did not begin.
    pub async fn give_uses_back(&self, id: &TokenId, number: u64) -> Result<(), Error> {
        Ok(self.store.give_delegation_uses_back(id, number).await?)
    }

    /// Revokes a token with all that came of it; gives their number without itself.
    pub async fn revoke(
        &self,
        id: &TokenId,
        by: Revoker<'_>,
        reason: &str,
    ) -> Result<usize, Error> {
        let rows = self.genuine().await?;
        let unknown =
            || Error::with(Code::DelegationUnknown, SafeText::default().as_they_wrote(id.as_str()));
        let found = rows.get(id).ok_or_else(unknown)?;
        if let Revoker::Agent(instance) = by {
            // Its issuer, or an issuer above; to others the token is unknown.
            let above = self.chain(id).await.map(|(links, _)| links);
            let above = above.unwrap_or_else(|_| vec![found.token.clone()]);
            if !above.iter().any(|link| link.issuer_instance == *instance) {
                return Err(unknown());
            }
        }
        let who = match by {
            Revoker::Administrator(aid) => as_logged(aid),
            Revoker::Agent(instance) => agent("agent", instance.as_str()),
            Revoker::Operator => agent("operator", "operator"),
        };
        let revoked = self.revoke_trees(&rows, std::slice::from_ref(id), &who, reason).await?;
        Ok(revoked.saturating_sub(1))
    }

    /// Revokes everything that an agent has handed on or was handed, and what nobody has accepted yet if it is the last
    /// one of its URI that could; gives the number of tokens.
    pub async fn revoke_of_agent(
        &self,
        agents: &Agents,
        instance: &InstanceId,
    ) -> Result<usize, Error> {
        let agents = agents.list().await?;
        let last = named(&agents, instance);
        let last = last.filter(|aid| !has_another(aid, &agents, Timestamp::now()));
        let rows = self.genuine().await?;
        let theirs = rows.values().map(|row| &row.token).filter(|token| {
            token.issuer_instance == *instance
                || match &token.subject_instance {
                    Some(subject) => subject == instance,
                    None => last.as_ref().is_some_and(|aid| aid.agent_uri == token.subject),
                }
        });
        let roots: Vec<TokenId> = theirs.map(|token| token.token_id.clone()).collect();
        let who = agent("operator", "operator");
        self.revoke_trees(&rows, &roots, &who, "agent_not_in_force").await
    }

    /// Forgets tokens that have been over for a day: the log knows what they were.
    pub(super) async fn forget(&self, now: Timestamp) -> Result<(), Error> {
        // What came of a token never outlives it.
        let is_over = |row: &DelegationRow| now.duration_since(row.token.expires_at) >= KEPT;
        let rows = self.genuine().await?.into_values();
        let over: Vec<_> = rows.filter(is_over).map(|row| row.token.token_id).collect();
        Ok(self.store.remove_delegations(&over).await?)
    }

    /// The public key that tokens are signed by, as a JWK (RFC 8037).
    pub fn signing_key(&self) -> serde_json::Value {
        self.signer.public_key()
    }

    /// Every genuine token with its uses, oldest first.
    pub async fn list(&self) -> Result<Vec<(Token, u64)>, Error> {
        let mut rows: Vec<_> = self.genuine().await?.into_values().collect();
        rows.sort_by_key(|row| (row.token.issued_at, row.token.token_id.clone()));
        Ok(rows.into_iter().map(|row| (row.token, row.used)).collect())
    }

    /// What a token's subject needs to use it: the token, and the key by which this instance of it proves that the
    /// token is its own, as it is from now on. To everybody else, other instances too, there is no such token.
    pub async fn accept(
        &self,
        id: &TokenId,
        by: &Aid,
    ) -> Result<(Token, Zeroizing<String>), Error> {
        let (links, _) = self.chain(id).await?;
        let token = links.first().ok_or_else(|| unknown(id))?;
        let is_this = |one: &InstanceId| *one == by.instance_id;
        if token.subject != by.agent_uri || !token.subject_instance.as_ref().is_none_or(is_this) {
            return Err(unknown(id));
        }
        let now = Timestamp::now();
        links.iter().try_for_each(|link| link.is_in_force(now))?;
        let who = as_logged(by);
        let Bound { token, is_new } = self.bind(id, &by.instance_id, &who).await?;
        if !is_new {
            self.log.append(entry(Action::DelegationAccept, &token, who, None)).await?;
        }
        Ok((token, self.binding_key(id, &by.instance_id)))
    }

    /// The key of one of a token's subjects; derived, and so kept nowhere.
    pub(super) fn binding_key(&self, id: &TokenId, subject: &InstanceId) -> Zeroizing<String> {
        let name = format!("binding key of {id} for {subject}");
        Zeroizing::new(HEXLOWER.encode(&self.voucher.seal(name.as_bytes())))
    }

    /// Takes a presenter's proof that a token is theirs, once, for all brokers of the store. [`Code::DelegationInvalid`]
    /// when it is none or was shown before.
    pub async fn take_proof(
        &self,
        id: &TokenId,
        presenter: (&AgentUri, &InstanceId),
        proof: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let key = self.binding_key(id, presenter.1);
        let until = binding::fits(
            proof,
            (&key, id.as_str(), presenter.0.as_str()),
            (now, self.proof_skew),
        )?;
        if self.store.take_delegation_proof(proof, until, now).await? {
            Ok(())
        } else {
            let words = "the binding_proof was shown before: make one for each message, with the time in it";
            Err(Error::with(Code::DelegationInvalid, SafeText::words(words)))
        }
    }

    /// One transaction for all, one entry of the log for each.
    async fn revoke_trees(
        &self,
        rows: &HashMap<TokenId, DelegationRow>,
        roots: &[TokenId],
        who: &audit::Agent,
        reason: &str,
    ) -> Result<usize, Error> {
        let now = to_millisecond(Timestamp::now());
        let mut seen = HashSet::new();
        let mut revoked = Vec::new();
        for root in roots {
            let mut level = vec![root.clone()];
            let mut depth = None;
            while !level.is_empty() {
                level.retain(|id| seen.insert(id.clone()));
                for row in level.iter().filter_map(|id| rows.get(id)) {
                    if row.token.revoked.is_none() {
                        let reason = if depth.is_none() { reason } else { "cascade_from_parent" };
                        let over = Revocation {
                            at: now,
                            reason: reason.to_owned(),
                            root: root.clone(),
                            cascade_depth: depth,
                        };
                        revoked.push(Token { revoked: Some(over), ..row.token.clone() });
                    }
                }
                let is_child = |row: &&DelegationRow| {
                    row.token.parent_token_id.as_ref().is_some_and(|parent| level.contains(parent))
                };
                level =
                    rows.values().filter(is_child).map(|row| row.token.token_id.clone()).collect();
                depth = Some(depth.map_or(0, |depth| depth + 1));
            }
        }
        let sealed: Vec<DelegationRow> =
            revoked.iter().map(|token| self.sealed(token.clone())).collect();
        let entries = revoked.iter().map(|token| {
            let note = token.revoked.as_ref();
            let note = note.map(|over| format!("{}, root {}", over.reason, over.root));
            let mut draft = entry(Action::DelegationRevoke, token, who.clone(), note);
            draft.detail.revocation = token.revoked.as_ref().map(|over| {
                Box::new(Revoked {
                    cascade_depth: over.cascade_depth,
                    reason: over.reason.clone(),
                    root_revocation_id: over.root.to_string(),
                })
            });
            draft
        });
        let told = Told::in_log(&self.log, entries.collect());
        self.store.replace_delegations(&sealed, told).await?;
        Ok(revoked.len())
    }

    /// The token, its parent, and so on to the root, with the uses of the first. Agents make as many tokens as they like,
    /// so these alone are read.
    async fn chain(&self, id: &TokenId) -> Result<(Vec<Token>, u64), Error> {
        let (mut links, mut used) = (Vec::new(), None);
        let mut next = Some(id.clone());
        while let Some(id) = next.take() {
            let row = self.row(&id).await?;
            if !self.signer.has_signed(&row.token) {
                return Err(unknown(&id));
            }
            next.clone_from(&row.token.parent_token_id);
            used.get_or_insert(row.used);
            links.push(row.token);
            if links.len() > MAX_LINKS {
                return Err(Code::DelegationInvalid.into());
            }
        }
        Ok((links, used.unwrap_or(u64::MAX)))
    }

    async fn row(&self, id: &TokenId) -> Result<DelegationRow, Error> {
        let row = self.store.delegation(id).await?.filter(|row| self.is_genuine(id, row));
        row.ok_or_else(|| unknown(id))
    }

    async fn genuine(&self) -> Result<HashMap<TokenId, DelegationRow>, Error> {
        let rows = self.store.delegations().await?.into_iter();
        let named = rows.map(|row| (row.token.token_id.clone(), row));
        Ok(named.filter(|(id, row)| self.is_genuine(id, row)).collect())
    }

    fn is_genuine(&self, id: &TokenId, row: &DelegationRow) -> bool {
        row.token.token_id == *id
            && self.voucher.fits(&DelegationRow::sealed_bytes(&row.token), &row.seal)
    }

    fn sealed(&self, token: Token) -> DelegationRow {
        let token = self.signer.signed(token);
        let seal = self.voucher.seal(&DelegationRow::sealed_bytes(&token));
        DelegationRow { token, used: 0, seal }
    }
}

/// The entry that tells what became of a token.
fn entry(action: Action, token: &Token, who: audit::Agent, note: Option<String>) -> Draft {
    let subject = token.subject.to_string();
    let target = Target::Named(SafeText::default().as_they_wrote(token.token_id.as_str()));
    Draft {
        detail: Detail {
            delegation: token.chain.iter().cloned().chain([subject]).collect(),
            grants: vec![token.parent_scope_id.as_str().to_owned()],
            note,
            ..Detail::default()
        },
        ..plain_entry(who, action, Outcome::Success, target)
    }
}

/// Whether there is another agent of the same URI and organization that may act, or will once it has come.
fn has_another(aid: &Aid, all: &[Aid], now: Timestamp) -> bool {
    all.iter().any(|other| {
        other.instance_id != aid.instance_id
            && other.agent_uri == aid.agent_uri
            && other.organization_id == aid.organization_id
            && may_come(other, all, now)
    })
}

/// Whether an agent may act, or will once it has shown its credential.
pub(super) fn may_come(aid: &Aid, all: &[Aid], now: Timestamp) -> bool {
    let in_force = aid.is_in_force_below(now, |one| named(all, one));
    matches!(in_force, Ok(()) | Err(Code::AgentNotActive))
}

fn unknown(id: &TokenId) -> Error {
    let words = SafeText::words("there is no delegation ").as_they_wrote(id.as_str());
    Error::with(Code::DelegationInvalid, words)
}

#[cfg(test)]
mod tests;
