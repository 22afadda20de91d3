//! An organization's own word for its agents: tokens that it signs with a key of its vault.

use data_encoding::{BASE64, BASE64URL_NOPAD};
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use keyless_core::{
    ActionType, Code, Error, SafeText, SecretPath,
    agent::Aid,
    allow_operators_action,
    audit::{Action, Detail, Draft, Outcome, Target},
};
use keyless_store::AuditLog;
use keyless_vault::Vault;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::MAX_LIFE;
use crate::{
    broker::{agent as keyless_agent, plain_entry},
    permits::{PermitLife, permit, uptime},
};

/// Kinds of keys, by what their encoding names them.
const KINDS: &[(&[u8], Algorithm)] = &[
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], Algorithm::ES256),
    (&[0x2b, 0x81, 0x04, 0x00, 0x22], Algorithm::ES384),
    (&[0x06, 0x03, 0x2b, 0x65, 0x70], Algorithm::EdDSA),
];

/// A token for an agent, and the key by which it is checked.
pub struct Attestation {
    /// The token, to be shown as `attestation`.
    pub token: String,
    /// What `attestation-keys.json` has to say of the agent's vendor.
    pub vendor_keys: Value,
}

/// Signs for `aid` with the key at `key`, a private key in PKCS #8 PEM, for `life`, a day at most. The use of the key is on
/// record before it opens. [`Code::ValueRefused`] when the value is no such key.
pub async fn attest(
    vault: &Vault,
    log: &AuditLog,
    aid: &Aid,
    key: &SecretPath,
    life: SignedDuration,
) -> Result<Attestation, Error> {
    if life > MAX_LIFE {
        let words = SafeText::words("an attestation holds for 24 hours at most");
        return Err(Error::with(Code::Usage, words));
    }
    let now = Timestamp::now();
    let value = vault.open(key).await?.value;
    let permit = permit(log, entry(aid, key, now), PermitLife::AtOnce).await?;
    let no_key = || {
        let words = SafeText::default().and(key);
        Error::with(
            Code::ValueRefused,
            words.and(" is no private key in PKCS #8 PEM for ES256, ES384 or EdDSA"),
        )
    };
    let (signing, algorithm) =
        read(value.open_with_permit(&permit, uptime())?).ok_or_else(no_key)?;
    let mut public = Jwk::from_encoding_key(&signing, algorithm).map_err(|_| no_key())?;
    let kid = thumb(&public);
    public.common.key_id = Some(kid.clone());
    let header = Header { kid: Some(kid), typ: Some("JWT".to_owned()), ..Header::new(algorithm) };
    let token = encode(&header, &claims(aid, now, life), &signing).map_err(|_| no_key())?;
    let vendor_keys = json!({ aid.agent_uri.vendor(): { "keys": [public] } });
    Ok(Attestation { token, vendor_keys })
}

fn claims(aid: &Aid, now: Timestamp, life: SignedDuration) -> Value {
    json!({
        "iss": aid.agent_uri.vendor(),
        "sub": aid.agent_uri.as_str(),
        "aud": "nl-protocol",
        "iat": now.as_second(),
        "exp": now.as_second() + life.as_secs(),
        "jti": Uuid::new_v4().to_string(),
        "nl_claims": {
            "agent_type": aid.agent_type.to_string(),
            "agent_version": aid.agent_uri.version(),
            "nl_protocol_version": "1.0",
        },
    })
}

fn entry(aid: &Aid, key: &SecretPath, now: Timestamp) -> Draft {
    let target = SafeText::default().as_they_wrote(aid.agent_uri.as_str());
    let target = target.and(" ").as_they_wrote(aid.instance_id.as_str());
    Draft {
        at: now,
        secrets_used: vec![key.clone()],
        detail: Detail { note: Some("attested".to_owned()), ..Detail::default() },
        allowed: Some(allow_operators_action(key, ActionType::SdkProxy)),
        ..plain_entry(
            keyless_agent("operator", "operator"),
            Action::AgentRegister,
            Outcome::Success,
            Target::Named(target),
        )
    }
}

fn read(pem: &[u8]) -> Option<(EncodingKey, Algorithm)> {
    let text = std::str::from_utf8(pem).ok()?;
    let body = text.split_once("-----BEGIN PRIVATE KEY-----")?.1;
    let body = body.split_once("-----END PRIVATE KEY-----")?.0;
    let body: Zeroizing<Vec<u8>> =
        Zeroizing::new(body.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect());
    let der = Zeroizing::new(BASE64.decode(&body).ok()?);
    let head = &der[..der.len().min(32)];
    let is = |mark: &[u8]| head.windows(mark.len()).any(|part| part == mark);
    let (_, algorithm) = KINDS.iter().find(|(mark, _)| is(mark))?;
    Some(match algorithm {
        Algorithm::EdDSA => (EncodingKey::from_ed_der(&der), *algorithm),
        _ => (EncodingKey::from_ec_der(&der), *algorithm),
    })
}

/// A name for a key, made of what everybody may know of it.
fn thumb(public: &Jwk) -> String {
    let text = serde_json::to_string(&public.algorithm).unwrap_or_default();
    BASE64URL_NOPAD.encode(&Sha256::digest(text)[..12])
}
