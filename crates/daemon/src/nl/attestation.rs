//! A vendor's word for an agent: JWTs, checked against keys that the operator has put into `attestation-keys.json`.
//!
//! The file has the keys of each vendor, `{"anthropic.com": {"keys": [...]}}`, or where they are, `{"url": "https://..."}`,
//! and is read when a token comes. A token's name belongs to the agent that showed it first (C-15), at whichever broker of
//! the store.
//! Source: reference/nl.md, section 1.7.

mod attestor;
mod keys;

use std::collections::HashMap;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use keyless_core::{
    Code, Error, SafeText,
    agent::{Aid, Attested, CLOCK_SKEW, TrustLevel},
    nl_message::AttestationIssuer,
};
use keyless_store::{ShownAttestation, Store};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

pub use self::attestor::{Attestation, attest};
pub(crate) use self::keys::{ThroughEngine, VendorKeys};
use crate::config::MAX_ATTESTATION_SKEW;

/// How long a token may hold.
const MAX_LIFE: SignedDuration = SignedDuration::from_hours(24);
/// Tokens that are remembered here, so that the store is not asked with each message; those that end first go first.
const MAX_SEEN: usize = 10_000;
/// Signatures that a vendor may use; never a shared secret.
const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::ES256, Algorithm::ES384, Algorithm::RS256, Algorithm::EdDSA];

/// Checks attestations, and remembers whose they are.
pub(crate) struct Attestations {
    keys: VendorKeys,
    store: Store,
    /// How far the clock of who signs may be off.
    skew: SignedDuration,
    /// By their names, with who the store says they are of and how long they hold.
    seen: Mutex<HashMap<String, (ShownAttestation, Timestamp)>>,
}

#[derive(Deserialize)]
struct Said {
    iss: String,
    sub: String,
    aud: Audience,
    iat: f64,
    exp: f64,
    nbf: Option<f64>,
    jti: String,
    nl_claims: NlClaims,
}

/// For whom: one, or several (RFC 7519, section 4.1.3).
#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Audience {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::One(one) => one == name,
            Self::Several(all) => all.iter().any(|one| one == name),
        }
    }
}

#[derive(Deserialize)]
struct NlClaims {
    agent_type: String,
    agent_version: String,
    nl_protocol_version: String,
}

impl Attestations {
    /// By these keys; whose they are is in the store.
    pub(crate) fn new(keys: VendorKeys, store: Store) -> Self {
        Self { keys, store, skew: CLOCK_SKEW, seen: Mutex::default() }
    }

    /// As the operator wants it: how far the clock of who signs may be off.
    pub(crate) fn allowing(self, skew: SignedDuration) -> Self {
        Self { skew, ..self }
    }

    /// Whose tokens are taken.
    pub(crate) fn issuers(&self) -> Vec<AttestationIssuer> {
        self.keys.issuers()
    }

    /// Takes a token's word for who shows it: for this message, an agent that its organization vouches for is also its
    /// vendor's (L2). One that does not hold is refused, never passed over.
    pub(crate) async fn vouch(
        &self,
        token: &str,
        aid: &mut Aid,
        now: Timestamp,
    ) -> Result<(), Error> {
        aid.attestation = Some(self.check(token, aid, now).await?);
        if aid.trust_level == TrustLevel::L1 {
            aid.trust_level = TrustLevel::L2;
        }
        Ok(())
    }

    /// Checks a token that an agent shows. [`Code::AttestationInvalid`], [`Code::AttestationExpired`], or
    /// [`Code::AttestationReplayed`] when its name is another token's or another agent's.
    async fn check(&self, token: &str, aid: &Aid, now: Timestamp) -> Result<Attested, Error> {
        let header = decode_header(token).map_err(|_| invalid("it is no JWT"))?;
        judge_header(token)?;
        let claims = self.signed(token, &header, aid.agent_uri.vendor(), now).await?;
        let (issued_at, expires_at) = judge(&claims, aid, (now, self.skew))?;
        let digest = HEXLOWER.encode(&Sha256::digest(token));
        let shown = ShownAttestation {
            name: name(&claims),
            instance: aid.instance_id.as_str().to_owned(),
            digest: digest.clone(),
        };
        self.bind(shown, expires_at, now).await?;
        Ok(Attested {
            kind: "jwt".to_owned(),
            token: format!("sha256:{digest}"),
            issuer: claims.iss,
            issued_at,
            expires_at,
        })
    }

    async fn signed(
        &self,
        token: &str,
        header: &Header,
        vendor: &str,
        now: Timestamp,
    ) -> Result<Said, Error> {
        if !ALGORITHMS.contains(&header.alg) {
            return Err(invalid("its algorithm is not ES256, ES384, RS256 or EdDSA"));
        }
        let key = self.keys.find(vendor, header, now).await?;
        let key =
            DecodingKey::from_jwk(&key).map_err(|_| invalid("its vendor's key can't be used"))?;
        let mut validation = Validation::new(header.alg);
        // Times and names are judged below, by the clock that the caller gives.
        (validation.validate_exp, validation.validate_aud) = (false, false);
        validation.required_spec_claims.clear();
        let decoded = decode::<Said>(token, &key, &validation);
        decoded.map(|data| data.claims).map_err(|_| invalid("its signature or claims are wrong"))
    }

    /// The first to show a token's name keeps it; the same token again is no replay.
    async fn bind(
        &self,
        shown: ShownAttestation,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), Error> {
        if self.seen.lock().get(&shown.name).is_some_and(|(known, _)| *known == shown) {
            return Ok(());
        }
        // For as long as any broker of the store may take it.
        let until = expires_at.checked_add(MAX_ATTESTATION_SKEW).unwrap_or(Timestamp::MAX);
        if !self.store.bind_attestation(&shown, until, now).await? {
            return Err(Code::AttestationReplayed.into());
        }
        let mut all = self.seen.lock();
        all.retain(|_, (_, expires_at)| *expires_at + self.skew > now);
        if all.len() >= MAX_SEEN {
            let soonest = all.iter().min_by_key(|(_, (_, expires_at))| *expires_at);
            if let Some(name) = soonest.map(|(name, _)| name.clone()) {
                all.remove(&name);
            }
        }
        all.insert(shown.name.clone(), (shown, expires_at));
        Ok(())
    }
}

/// What a token is known by: each issuer names its own.
fn name(claims: &Said) -> String {
    let mut hasher = Sha256::new_with_prefix(claims.iss.as_bytes());
    hasher.update([0]);
    hasher.update(claims.jti.as_bytes());
    HEXLOWER.encode(&hasher.finalize())
}

/// What the claims say, against who the agent is; gives the times of issue and end.
fn judge(
    claims: &Said,
    aid: &Aid,
    (now, skew): (Timestamp, SignedDuration),
) -> Result<(Timestamp, Timestamp), Error> {
    let uri = &aid.agent_uri;
    let (issued_at, expires_at) = (time(claims.iat)?, time(claims.exp)?);
    let begins_at = claims.nbf.map_or(Ok(issued_at), time)?;
    let faults = [
        (claims.iss != uri.vendor(), "its issuer is not the vendor of the agent's URI"),
        (claims.sub != uri.as_str(), "it is for another agent"),
        (!claims.aud.has("nl-protocol"), "it is for another audience"),
        (claims.jti.is_empty(), "it has no name"),
        (
            claims.nl_claims.agent_type != aid.agent_type.to_string(),
            "it is for another type of agent",
        ),
        (claims.nl_claims.agent_version != uri.version(), "it is for another version of the agent"),
        (
            claims.nl_claims.nl_protocol_version != "1.0",
            "it is for another version of the protocol",
        ),
        (expires_at <= issued_at, "it ends before it begins"),
        (expires_at.duration_since(issued_at) > MAX_LIFE, "it holds for more than 24 hours"),
        (issued_at > now + skew, "it is from the future"),
        (begins_at > now + skew, "it does not hold yet"),
    ];
    match faults.into_iter().find(|(fails, _)| *fails) {
        Some((_, why)) => Err(invalid(why)),
        None if now >= expires_at + skew => Err(Code::AttestationExpired.into()),
        None => Ok((issued_at, expires_at)),
    }
}

/// Seconds since 1970, with fractions or without (RFC 7519, section 2).
fn time(seconds: f64) -> Result<Timestamp, Error> {
    let since = SignedDuration::try_from_secs_f64(seconds).ok();
    let at = since.and_then(|since| Timestamp::UNIX_EPOCH.checked_add(since).ok());
    at.ok_or_else(|| invalid("a time is none"))
}

/// What a header has to say, that it is a JWT (chapter 01, 8.2.1), and what it must not: that it has to be understood in
/// ways that are not known here (RFC 7515, section 4.1.11).
fn judge_header(token: &str) -> Result<(), Error> {
    let first = token.split('.').next().unwrap_or_default();
    let text = BASE64URL_NOPAD.decode(first.as_bytes()).ok();
    let header: Map<String, Value> = text
        .and_then(|text| serde_json::from_slice(&text).ok())
        .ok_or_else(|| invalid("it is no JWT"))?;
    let is_jwt = |typ: &Value| typ.as_str().is_some_and(|typ| typ.eq_ignore_ascii_case("JWT"));
    if header.contains_key("crit") {
        return Err(invalid("its header has `crit`, of which nothing is known here"));
    }
    match header.get("typ") {
        Some(typ) if is_jwt(typ) => Ok(()),
        Some(_) => Err(invalid("its header says that it is another kind of token")),
        None => Err(invalid("its header has no `typ`, which is JWT")),
    }
}

fn invalid(why: &'static str) -> Error {
    Error::with(Code::AttestationInvalid, SafeText::words(why))
}

#[cfg(test)]
mod tests;
