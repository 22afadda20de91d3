//! Checks a token that is presented, link by link up to its root.

use std::net::IpAddr;

use jiff::Timestamp;

use super::Token;
use crate::{
    Code,
    action::ActionType,
    agent::{AgentUri, InstanceId},
    grant::{Categories, Subject},
};

/// The agent that presents a token, and what it wants to do under it.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// The agent, proven.
    pub agent_uri: &'a AgentUri,
    /// The agent's instance.
    pub instance_id: &'a InstanceId,
    /// The address that the agent is connected from, for the log.
    pub source_ip: Option<IpAddr>,
    /// What is to be done.
    pub action: ActionType,
    /// The secrets that are to be used.
    pub subjects: &'a [Subject],
    /// The categories of all secrets.
    pub categories: &'a Categories,
}

/// Verifies in the protocol's order, after the seals and signatures of all links: freshness and revocation, uses, the issuers,
/// the presenter, the chain, the action, the secrets. `links`: the token, its parent, and so on to the root.
/// `uses`: those that were had of the token. `is_active`: whether an agent's identity is in force.
pub fn verify(
    links: &[Token],
    presented: &Presented<'_>,
    uses: u64,
    is_active: &dyn Fn(&InstanceId) -> bool,
    now: Timestamp,
) -> Result<(), Code> {
    let token = links.first().ok_or(Code::DelegationInvalid)?;
    links.iter().try_for_each(|link| link.is_in_force(now))?;
    if uses >= token.scope.max_uses {
        return Err(Code::DelegationExhausted);
    }
    if !links.iter().all(|link| is_active(&link.issuer_instance)) {
        return Err(Code::DelegationRevoked);
    }
    let instance_fits =
        token.subject_instance.as_ref().is_none_or(|one| one == presented.instance_id);
    if token.subject != *presented.agent_uri || !instance_fits {
        return Err(Code::DelegationInvalid);
    }
    walk(links, presented.categories)?;
    // Each link's own words: how far one pattern lies within another can only be told from what they say.
    let Presented { action, subjects, categories, .. } = *presented;
    links.iter().try_for_each(|link| link.scope.covers(action, subjects, categories))
}

/// Each link must be less than the one it was made from, and the last must be a root.
fn walk(links: &[Token], categories: &Categories) -> Result<(), Code> {
    for pair in links.windows(2) {
        let (child, parent) = (&pair[0], &pair[1]);
        if child.parent_token_id.as_ref() != Some(&parent.token_id)
            || child.issuer != parent.subject
            || parent.subject_instance.as_ref().is_some_and(|one| *one != child.issuer_instance)
            || child.chain[..child.chain.len().saturating_sub(1)] != parent.chain
        {
            return Err(Code::DelegationInvalid);
        }
        if !child.scope.is_within(&parent.scope, categories) || child.expires_at > parent.expires_at
        {
            return Err(Code::DelegationSubset);
        }
        if child.delegation_depth_remaining >= parent.delegation_depth_remaining {
            return Err(Code::DelegationTooDeep);
        }
    }
    match links.last() {
        Some(root) if root.parent_token_id.is_none() => Ok(()),
        _ => Err(Code::DelegationInvalid),
    }
}
