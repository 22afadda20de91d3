//! What a token's signature is over, and how it is written (chapter 07, 3.1 and 3.6).
//!
//! The broker signs, since it makes the tokens and agents never see one (C-18).

use serde::{Deserialize, Serialize};

use super::{Token, TokenId};
use crate::{action::ActionType, grant::SecretPattern};

/// A signature over a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSignature {
    /// The algorithm of the signature.
    pub algorithm: SignatureAlgorithm,
    /// The thumbprint of the key (RFC 7638). Ours.
    pub kid: String,
    /// The signature in base64.
    pub value: String,
}

/// How tokens are signed. The protocol has `ES256` as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignatureAlgorithm {
    /// Ed25519.
    EdDSA,
}

impl Token {
    /// What its signature is over: everything but that, in the form of RFC 8785. Every key is ASCII and every number an
    /// integer, so a view whose fields are declared in order is that form.
    pub fn signed_text(&self) -> Vec<u8> {
        serde_json::to_vec(&Canonical::of(self)).expect("a token is plain data")
    }
}

/// A token without its signature, its keys in the order of RFC 8785.
#[derive(Serialize)]
struct Canonical<'a> {
    chain: &'a [String],
    delegation_depth_remaining: u32,
    expires_at: String,
    issued_at: String,
    issuer: &'a str,
    issuer_instance: &'a str,
    nonce: &'a str,
    parent_scope_id: &'a str,
    parent_token_id: Option<&'a TokenId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<CanonicalRevocation<'a>>,
    scope: CanonicalScope<'a>,
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject_instance: Option<&'a str>,
    token_id: &'a TokenId,
    #[serde(rename = "type")]
    kind: super::TokenKind,
}

#[derive(Serialize)]
struct CanonicalRevocation<'a> {
    at: String,
    cascade_depth: Option<u32>,
    reason: &'a str,
    root: &'a TokenId,
}

#[derive(Serialize)]
struct CanonicalScope<'a> {
    actions: &'a [ActionType],
    max_uses: u64,
    secrets: &'a [SecretPattern],
}

impl<'a> Canonical<'a> {
    fn of(token: &'a Token) -> Self {
        let revoked = token.revoked.as_ref().map(|over| CanonicalRevocation {
            at: over.at.to_string(),
            cascade_depth: over.cascade_depth,
            reason: &over.reason,
            root: &over.root,
        });
        Self {
            chain: &token.chain,
            delegation_depth_remaining: token.delegation_depth_remaining,
            expires_at: token.expires_at.to_string(),
            issued_at: token.issued_at.to_string(),
            issuer: token.issuer.as_str(),
            issuer_instance: token.issuer_instance.as_str(),
            nonce: &token.nonce,
            parent_scope_id: token.parent_scope_id.as_str(),
            parent_token_id: token.parent_token_id.as_ref(),
            revoked,
            scope: CanonicalScope {
                actions: &token.scope.actions,
                max_uses: token.scope.max_uses,
                secrets: &token.scope.secrets,
            },
            subject: token.subject.as_str(),
            subject_instance: token.subject_instance.as_ref().map(crate::agent::InstanceId::as_str),
            token_id: &token.token_id,
            kind: token.kind,
        }
    }
}
