//! Delegation tokens: what one agent lets another do in its place, never more than it may itself (NL level 7).
//!
//! Tokens stay with the broker; agents pass names of them round, which alone are good for nothing. [`verify`] walks from
//! a token to its root, in the order of the protocol, and denies at the first link that does not hold. Deliberately absent:
//! keys, so that seals over tokens, their signatures and proofs of who presents one are elsewhere (`daemon`). Source: reference/nl.md, section 7, C-16, C-18 and C-31.

mod signature;
mod verify;

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use self::{
    signature::{SignatureAlgorithm, TokenSignature},
    verify::{Presented, verify},
};
use crate::{
    Code,
    action::ActionType,
    agent::{AgentUri, Aid, InstanceId, TrustLevel},
    grant::{Categories, GrantId, SecretPattern, Subject},
    nl_message::to_millisecond,
};

/// How often work may be handed on, unless the operator says otherwise.
pub const DEFAULT_MAX_DEPTH: u32 = 3;
/// How well the origin of an agent is proven that may be handed work.
pub const MIN_TRUST: TrustLevel = TrustLevel::L1;
/// How long a token for one use may live.
pub const MAX_SINGLE_USE_LIFE: SignedDuration = SignedDuration::from_mins(5);
/// How long any token may live.
pub const MAX_LIFE: SignedDuration = SignedDuration::from_hours(1);

/// How long a token for so many uses may live.
pub fn longest_life(max_uses: u64) -> SignedDuration {
    if max_uses == 1 { MAX_SINGLE_USE_LIFE } else { MAX_LIFE }
}

/// Whether an agent may be handed work by another one: it is of the same organization, and its origin is proven as well
/// as the protocol wants (L1). [`Code::DelegationInvalid`], [`Code::TrustTooLow`].
///
/// Between organizations the protocol wants L2 and an agreement; there is no federation yet.
pub fn may_be_handed(subject: &Aid, issuer: &Aid) -> Result<(), Code> {
    if subject.organization_id != issuer.organization_id {
        return Err(Code::DelegationInvalid);
    }
    if subject.trust_level < MIN_TRUST { Err(Code::TrustTooLow) } else { Ok(()) }
}

/// Where a token stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenState {
    /// It may be used.
    Active,
    /// All its uses were had.
    Exhausted,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
}

impl TokenState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Exhausted => "exhausted",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

/// A token, in NL's field names; `issuer_instance` and `subject_instance` are ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Its name.
    pub token_id: TokenId,
    /// Always `delegation`.
    #[serde(rename = "type")]
    pub kind: TokenKind,
    /// The agent that delegates.
    pub issuer: AgentUri,
    /// Which instance of it.
    pub issuer_instance: InstanceId,
    /// The agent that may act under it.
    pub subject: AgentUri,
    /// Which instance of it: the first that accepts or uses it; any until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_instance: Option<InstanceId>,
    /// What it may do.
    pub scope: TokenScope,
    /// Everybody whose work it is: the root, `human:…`, first, the issuer last.
    pub chain: Vec<String>,
    /// How often it may be handed on.
    pub delegation_depth_remaining: u32,
    /// The token that it was made from.
    pub parent_token_id: Option<TokenId>,
    /// The grant that it stands on.
    pub parent_scope_id: GrantId,
    /// Since when.
    pub issued_at: Timestamp,
    /// Until when, this moment excluded.
    pub expires_at: Timestamp,
    /// 128 random bits, in base64.
    pub nonce: String,
    /// Why it is over, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revocation>,
    /// The word of the broker that keeps it for all the rest; nothing until it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<TokenSignature>,
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenScope {
    /// Patterns of secrets.
    pub secrets: Vec<SecretPattern>,
    /// Types of action.
    pub actions: Vec<ActionType>,
    /// How often; at least once.
    pub max_uses: u64,
}

/// The one kind of token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// A delegation.
    #[default]
    Delegation,
}

/// How a token came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// When it came to its end.
    pub at: Timestamp,
    /// Why: in a word, `cascade_from_parent` below the token that was meant.
    pub reason: String,
    /// The token that was meant.
    pub root: TokenId,
    /// How far below that one this is; nothing for itself, 0 for its children.
    pub cascade_depth: Option<u32>,
}

/// A token's name: a UUID of version 4.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenId(InstanceId);

/// What an agent asks to hand on.
#[derive(Clone, Debug)]
pub struct Order<'a> {
    /// The agent that delegates, proven, and its instance.
    pub issuer: (&'a AgentUri, &'a InstanceId),
    /// The agent that is to act, and the instance if only that one may.
    pub subject: (&'a AgentUri, Option<&'a InstanceId>),
    /// What it may do.
    pub scope: TokenScope,
    /// How long the token is to hold.
    pub life: SignedDuration,
    /// The person who answers for the issuer, `human:…`.
    pub root: &'a str,
    /// The grant that permits the issuer what is asked.
    pub grant: &'a GrantId,
    /// Until when that grant holds.
    pub grant_until: Timestamp,
    /// The token under which the issuer acts itself.
    pub parent: Option<&'a Token>,
    /// The categories of all secrets.
    pub categories: &'a Categories,
    /// How often work may be handed on at all; 0 never.
    pub max_depth: u32,
}

impl Order<'_> {
    /// Why it can be no token, whoever asks for it.
    pub fn fault(&self) -> Option<&'static str> {
        let actions = &self.scope.actions;
        let faults = [
            (self.issuer.0 == self.subject.0, "an agent delegates to another, not to itself"),
            (self.scope.max_uses == 0, "max_uses is at least 1"),
            (self.scope.secrets.is_empty(), "the scope names no secrets"),
            (
                actions.is_empty() || actions.contains(&ActionType::Egress),
                "the scope's actions are types of action, at least one",
            ),
            (!self.life.is_positive(), "ttl_seconds is at least 1"),
        ];
        faults.into_iter().find_map(|(fails, words)| fails.then_some(words))
    }
}

impl Token {
    /// Makes a token, or says which rule it would break. `drawn`: the name and the nonce.
    pub fn issue(order: Order<'_>, drawn: (TokenId, String), now: Timestamp) -> Result<Self, Code> {
        if order.fault().is_some() {
            return Err(Code::DelegationInvalid);
        }
        // What is signed is what is shown, and times have milliseconds there (chapter 08, 3.6).
        let now = to_millisecond(now);
        let Order { issuer, subject, scope, life, root, grant, grant_until, .. } = order;
        let Order { parent, categories, max_depth, .. } = order;
        // The bound of now holds as well as that of when the parent was made: the chain has its root and its agents.
        let made_before = parent.map_or(0, |parent| parent.chain.len().saturating_sub(1));
        let made = u32::try_from(made_before + 1).unwrap_or(u32::MAX);
        let left = max_depth.checked_sub(made).ok_or(Code::DelegationTooDeep)?;
        let depth = match parent {
            Some(parent) => {
                let above = parent.delegation_depth_remaining.checked_sub(1);
                above.ok_or(Code::DelegationTooDeep)?.min(left)
            }
            None => left,
        };
        let mut expires_at = (now + life.min(longest_life(scope.max_uses))).min(grant_until);
        if let Some(parent) = parent {
            if !scope.is_within(&parent.scope, categories) {
                return Err(Code::DelegationSubset);
            }
            expires_at = expires_at.min(parent.expires_at);
        }
        let expires_at = to_millisecond(expires_at);
        if expires_at <= now {
            return Err(Code::DelegationExpired);
        }
        let mut chain = parent.map_or_else(|| vec![root.to_owned()], |parent| parent.chain.clone());
        chain.push(issuer.0.to_string());
        Ok(Self {
            token_id: drawn.0,
            kind: TokenKind::Delegation,
            issuer: issuer.0.clone(),
            issuer_instance: issuer.1.clone(),
            subject: subject.0.clone(),
            subject_instance: subject.1.cloned(),
            scope,
            chain,
            delegation_depth_remaining: depth,
            parent_token_id: parent.map(|parent| parent.token_id.clone()),
            parent_scope_id: grant.clone(),
            issued_at: now,
            expires_at,
            nonce: drawn.1,
            revoked: None,
            signature: None,
        })
    }

    /// Where it stands at `now`, with so many uses had of it.
    pub fn state(&self, used: u64, now: Timestamp) -> TokenState {
        match self.is_in_force(now) {
            Err(_) if self.revoked.is_some() => TokenState::Revoked,
            Err(_) => TokenState::Expired,
            Ok(()) if used >= self.scope.max_uses => TokenState::Exhausted,
            Ok(()) => TokenState::Active,
        }
    }

    /// Whether it holds at `now`, but for its uses.
    pub fn is_in_force(&self, now: Timestamp) -> Result<(), Code> {
        match self.revoked {
            Some(_) => Err(Code::DelegationRevoked),
            None if now >= self.expires_at => Err(Code::DelegationExpired),
            None => Ok(()),
        }
    }
}

impl TokenScope {
    /// Whether all of this lies within `outer`. Patterns that can't be compared do not.
    pub fn is_within(&self, outer: &Self, categories: &Categories) -> bool {
        let secrets = |inner: &SecretPattern| {
            outer.secrets.iter().any(|wide| inner.is_within_by_form(wide, categories))
        };
        self.secrets.iter().all(secrets)
            && self.actions.iter().all(|action| outer.actions.contains(action))
            && self.max_uses <= outer.max_uses
    }

    /// Whether it lets its subject do this with these secrets; [`Code::DelegationSubset`] if not.
    pub fn covers(
        &self,
        action: ActionType,
        subjects: &[Subject],
        categories: &Categories,
    ) -> Result<(), Code> {
        let named = |subject: &Subject| {
            let forms = subject.forms(categories);
            self.secrets.iter().any(|pattern| pattern.matches(&forms))
        };
        if self.actions.contains(&action) && subjects.iter().all(named) {
            Ok(())
        } else {
            Err(Code::DelegationSubset)
        }
    }
}

impl TokenId {
    /// Parses one.
    pub fn parse(text: &str) -> Option<Self> {
        InstanceId::parse(text).map(Self)
    }

    /// The UUID.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests;
