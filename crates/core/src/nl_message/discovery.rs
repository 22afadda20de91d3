//! What a client is told before it is known: the discovery document, and health.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::{MAX_MESSAGE_BYTES, NL_VERSION, Profile};
use crate::action::ActionType;

/// What the discovery document says of this provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// Keyless's version.
    pub version: &'static str,
    /// Where the API is, without a slash at its end; absent where there is none over HTTP.
    pub base_url: Option<String>,
    /// Messages a minute of one agent.
    pub requests_per_minute: u32,
    /// Which text rules where two can't both be kept.
    pub profile: Profile,
    /// How often work may be handed on; 0 never.
    pub max_delegation_depth: u32,
    /// The issuers whose word for agents is taken.
    pub attestation_issuers: Vec<AttestationIssuer>,
}

/// A vendor whose word for agents is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttestationIssuer {
    /// Its name.
    pub issuer: String,
    /// Where its keys are; absent where the operator has them in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
}

impl Discovery {
    /// The document of chapter 08.
    pub fn document(&self) -> Value {
        let base = self.base_url.as_deref().unwrap_or("");
        json!({
            "nl_protocol": { "versions": [NL_VERSION], "preferred_version": NL_VERSION },
            "provider": {
                "name": "Keyless", "vendor": "keyless.dev", "version": self.version,
            },
            "endpoints": {
                "base_url": format!("{base}/nl/v1"),
                "actions": "/nl/v1/actions",
                "agents_get": "/nl/v1/agents/{instance_id}",
                "agents_register": "/nl/v1/agents/register",
                "audit": "/nl/v1/audit",
                "delegations": "/nl/v1/delegations",
                "delegations_revoke": "/nl/v1/delegations/{token_id}",
                "health": "/nl/v1/health",
                "revocations": "/nl/v1/revocations",
            },
            "capabilities": {
                "conformance_level": "standard",
                "supported_levels": [1, 2, 3, 4, 5],
                "action_types": ActionType::ACTIONS,
                // L3 takes a certification that nobody issues yet.
                "trust_levels": ["L0", "L1", "L2"],
                "credential_types": ["api_key"],
                "max_message_size_bytes": MAX_MESSAGE_BYTES,
                "max_timeout_ms": 600_000,
                "supports_delegation": self.max_delegation_depth > 0,
                "max_delegation_depth": self.max_delegation_depth,
                "supports_federation": false,
                "supports_dry_run": true,
                "supports_batch_actions": true,
                "hash_algorithms": ["sha256"],
                "nl_profile": self.profile.as_str(),
            },
            "security": {
                "attestation_issuers": self.attestation_issuers,
                "rate_limiting": {
                    "enabled": true, "default_requests_per_minute": self.requests_per_minute,
                },
            },
            "federation": { "enabled": false, "trust_domain": null, "partners": [] },
        })
    }
}

/// What `health` answers, with its HTTP status; `left_out` is what works less, each in words.
pub fn health(
    fault: Option<&str>,
    left_out: &[String],
    profile: Profile,
    now: Timestamp,
) -> (u16, Value) {
    match fault {
        None => {
            let mut body = json!({
                "status": "healthy", "nl_version": NL_VERSION, "timestamp": format!("{now:.3}"),
                "nl_profile": profile.as_str(),
            });
            if !left_out.is_empty() {
                body["left_out"] = json!(left_out);
            }
            (200, body)
        }
        Some(reason) => (503, json!({ "status": "unhealthy", "reason": reason })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_fields_that_it_must_have() {
        let discovery = Discovery {
            version: "1",
            base_url: Some("https://a.test".into()),
            requests_per_minute: 120,
            profile: Profile::Final,
            max_delegation_depth: 3,
            attestation_issuers: vec![AttestationIssuer {
                issuer: "anthropic.com".to_owned(),
                jwks_uri: None,
            }],
        };
        let document = discovery.document();
        for pointer in [
            "/nl_protocol/versions/0",
            "/provider/name",
            "/endpoints/actions",
            "/endpoints/agents_register",
            "/endpoints/revocations",
            "/endpoints/audit",
            "/capabilities/conformance_level",
            "/capabilities/action_types/0",
            "/capabilities/hash_algorithms/0",
            "/security/rate_limiting/enabled",
            "/federation/enabled",
        ] {
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
        let issuers = &document["security"]["attestation_issuers"];
        assert_eq!(*issuers, json!([{ "issuer": "anthropic.com" }]));
        assert_eq!(document["endpoints"]["base_url"], "https://a.test/nl/v1");
        assert_eq!(health(Some("locked"), &[], Profile::Seed, Timestamp::UNIX_EPOCH).0, 503);
        assert_eq!(document["capabilities"]["nl_profile"], "final");
    }
}
