//! Attestations: signed by the vendor, for this agent, for a day at most, shown by one.

use aws_lc_rs::{
    encoding::{AsDer as _, Pkcs8V1Der},
    rand::SystemRandom,
    rsa::{self, KeySize},
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, KeyPair as _,
    },
};
use jsonwebtoken::{EncodingKey, encode, jwk::Jwk};
use serde_json::{Value, json};

use std::{fs, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;

use keyless_core::SecretPath;
use keyless_vault::{Entries, Metadata};
use zeroize::Zeroizing;

use super::{keys::Fetch, *};
use crate::scene::Scene;

const NOW: i64 = 1_770_000_000;

struct Vendor {
    algorithm: Algorithm,
    key: EncodingKey,
    jwk: Value,
}

fn vendor(algorithm: Algorithm) -> Vendor {
    let random = SystemRandom::new();
    let key = match algorithm {
        Algorithm::ES384 => {
            let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &random);
            EncodingKey::from_ec_der(der.unwrap().as_ref())
        }
        Algorithm::EdDSA => {
            let der = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
            let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).unwrap();
            let x = data_encoding::BASE64URL_NOPAD.encode(pair.public_key().as_ref());
            let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": x });
            return Vendor { algorithm, key: EncodingKey::from_ed_der(der.as_ref()), jwk };
        }
        Algorithm::RS256 => {
            /// What PKCS #8 puts before the PKCS #1 of a key of this size.
            const HEADER: usize = 26;
            let pair = rsa::KeyPair::generate(KeySize::Rsa2048).unwrap();
            let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
            EncodingKey::from_rsa_der(&der.as_ref()[HEADER..])
        }
        _ => {
            let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
            EncodingKey::from_ec_der(der.unwrap().as_ref())
        }
    };
    let jwk = serde_json::to_value(Jwk::from_encoding_key(&key, algorithm).unwrap()).unwrap();
    Vendor { algorithm, key, jwk }
}

impl Vendor {
    async fn attestations(&self, folder: &tempfile::TempDir) -> Attestations {
        let mut jwk = self.jwk.clone();
        jwk["kid"] = json!("k1");
        let file = folder.path().join("keys.json");
        fs::write(&file, json!({ "acme.corp": { "keys": [jwk] } }).to_string()).unwrap();
        Attestations::new(by_file(file), store_in(folder).await)
    }

    fn sign(&self, change: impl Fn(&mut Value)) -> String {
        let mut claims = json!({
            "iss": "acme.corp", "sub": "nl://acme.corp/bot/1.2.3", "aud": "nl-protocol", "iat": NOW - 60,
            "exp": NOW + 3600, "nbf": NOW - 60, "jti": "j1",
            "nl_claims": { "agent_type": "coding_assistant", "agent_version": "1.2.3", "nl_protocol_version": "1.0" },
        });
        change(&mut claims);
        let header = Header { kid: Some("k1".to_owned()), ..Header::new(self.algorithm) };
        encode(&header, &claims, &self.key).unwrap()
    }
}

/// Nothing is fetched.
struct Offline;

impl Fetch for Offline {
    fn fetch<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<u8>, Error>> {
        Box::pin(async { Err(invalid("offline")) })
    }
}

async fn store_in(folder: &tempfile::TempDir) -> Store {
    Store::create_or_open(&folder.path().join("store.db")).await.unwrap()
}

fn by_file(file: PathBuf) -> VendorKeys {
    VendorKeys::new(file, Arc::new(Offline))
}

fn aid(instance: u8) -> Aid {
    serde_json::from_value(json!({
        "nl_version": "1.0", "agent_uri": "nl://acme.corp/bot/1.2.3", "organization_id": "acme",
        "instance_id": format!("{instance:08}-0000-4000-8000-000000000000"), "agent_type": "coding_assistant",
        "trust_level": "L1", "capabilities": ["exec"], "lifecycle": "active",
        "created_at": "2026-01-01T00:00:00Z", "expires_at": "2099-01-01T00:00:00Z",
    }))
    .unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn code(outcome: Result<Attested, Error>) -> Result<(), Code> {
    outcome.map(drop).map_err(|error| error.code())
}

#[tokio::test]
async fn a_vendors_signature_is_taken() {
    for algorithm in ALGORITHMS {
        let (folder, vendor) = (tempfile::tempdir().unwrap(), vendor(algorithm));
        let attested = vendor
            .attestations(&folder)
            .await
            .check(&vendor.sign(|_| ()), &aid(1), now())
            .await
            .unwrap();
        assert_eq!(attested.issuer, "acme.corp");
        assert!(attested.token.starts_with("sha256:"), "the token itself is not kept");
    }
}

#[tokio::test]
async fn what_the_standards_allow_is_taken() {
    let (folder, vendor) = (tempfile::tempdir().unwrap(), vendor(Algorithm::ES256));
    let all = vendor.attestations(&folder).await;
    let token = vendor.sign(|claims| {
        claims["aud"] = json!(["other", "nl-protocol"]);
        (claims["iat"], claims["exp"]) = (json!(1_769_999_999.5), json!(1_770_000_000.5));
    });
    assert_eq!(code(all.check(&token, &aid(1), now()).await), Ok(()));
    let claims = token.split('.').nth(1).unwrap();
    for header in [
        json!({ "typ": "JWT", "crit": ["b64"] }),
        json!({ "typ": "at+jwt" }),
        json!({ "typ": 1 }),
        json!({}),
    ] {
        let mut whole = json!({ "alg": "ES256", "kid": "k1" });
        whole.as_object_mut().unwrap().extend(header.as_object().unwrap().clone());
        let head = data_encoding::BASE64URL_NOPAD.encode(whole.to_string().as_bytes());
        let said = format!("{head}.{claims}");
        let signature = jsonwebtoken::crypto::sign(said.as_bytes(), &vendor.key, Algorithm::ES256);
        let odd = format!("{said}.{}", signature.unwrap());
        assert_eq!(code(all.check(&odd, &aid(1), now()).await), Err(Code::AttestationInvalid));
    }
}

#[tokio::test]
async fn keys_for_something_else_are_passed_over() {
    let (folder, vendor) = (tempfile::tempdir().unwrap(), vendor(Algorithm::ES256));
    let key = |changes: Value| {
        let mut key = vendor.jwk.clone();
        key["kid"] = json!("k1");
        key.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        key
    };
    let file = folder.path().join("keys.json");
    let token = vendor.sign(|_| ());
    let check = async |keys: Vec<Value>| {
        fs::write(&file, json!({ "acme.corp": { "keys": keys } }).to_string()).unwrap();
        let all = Attestations::new(by_file(file.clone()), store_in(&folder).await);
        code(all.check(&token, &aid(1), now()).await)
    };
    let others = [
        json!({ "use": "enc" }),
        json!({ "key_ops": ["encrypt"] }),
        json!({ "alg": "ES384" }),
        json!({ "kid": 7 }),
        json!({ "key_ops": "verify" }),
    ];
    for other in others {
        assert_eq!(check(vec![key(other.clone())]).await, Err(Code::AttestationInvalid), "{other}");
        assert_eq!(check(vec![key(other.clone()), key(json!({}))]).await, Ok(()), "{other}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_token_is_refused() {
    let (folder, vendor) = (tempfile::tempdir().unwrap(), vendor(Algorithm::ES256));
    let all = vendor.attestations(&folder).await;
    let signed = |pointer: &'static str, value: Value| {
        vendor.sign(move |claims| *claims.pointer_mut(pointer).unwrap() = value.clone())
    };
    for (pointer, value) in [
        ("/iss", json!("evil.com")),
        ("/sub", json!("nl://acme.corp/other/1.2.3")),
        ("/aud", json!("else")),
        ("/exp", json!(NOW + 10 * 365 * 86_400)),
        ("/iat", json!(NOW + 600)),
        ("/nbf", json!(NOW + 600)),
        ("/nl_claims/agent_version", json!("9.9.9")),
        ("/nl_claims/agent_type", json!("human")),
    ] {
        let refused = code(all.check(&signed(pointer, value), &aid(1), now()).await);
        assert_eq!(refused, Err(Code::AttestationInvalid), "{pointer}");
    }
    let old = vendor.sign(|claims| {
        claims["iat"] = json!(NOW - 7200);
        claims["exp"] = json!(NOW - 31);
    });
    assert_eq!(code(all.check(&old, &aid(1), now()).await), Err(Code::AttestationExpired));
    let skewed = vendor.sign(|claims| claims["exp"] = json!(NOW - 29));
    assert_eq!(code(all.check(&skewed, &aid(1), now()).await), Ok(()));
    // Or as far apart as the operator says that clocks may be.
    let exact = vendor.attestations(&folder).await.allowing(SignedDuration::from_secs(5));
    assert_eq!(code(exact.check(&skewed, &aid(1), now()).await), Err(Code::AttestationExpired));
    let loose = vendor.attestations(&folder).await.allowing(SignedDuration::from_secs(120));
    let late = vendor.sign(|claims| {
        claims["iat"] = json!(NOW - 7200);
        claims["exp"] = json!(NOW - 119);
        claims["jti"] = json!("late");
    });
    assert_eq!(code(all.check(&late, &aid(1), now()).await), Err(Code::AttestationExpired));
    assert_eq!(code(loose.check(&late, &aid(1), now()).await), Ok(()));
    let early = signed("/iat", json!(NOW + 119));
    assert_eq!(code(all.check(&early, &aid(1), now()).await), Err(Code::AttestationInvalid));

    let stranger = self::vendor(Algorithm::ES256).sign(|_| ());
    assert_eq!(code(all.check(&stranger, &aid(1), now()).await), Err(Code::AttestationInvalid));
    let secret = EncodingKey::from_secret(b"shared");
    let shared = encode(&Header::new(Algorithm::HS256), &json!({}), &secret).unwrap();
    assert_eq!(code(all.check(&shared, &aid(1), now()).await), Err(Code::AttestationInvalid));
    let none = by_file(folder.path().join("none.json"));
    let nobody = Attestations::new(none, store_in(&folder).await);
    assert_eq!(
        code(nobody.check(&vendor.sign(|_| ()), &aid(1), now()).await),
        Err(Code::AttestationInvalid)
    );
}

#[tokio::test]
async fn a_token_belongs_to_who_showed_it_first() {
    let (folder, vendor) = (tempfile::tempdir().unwrap(), vendor(Algorithm::ES256));
    let all = vendor.attestations(&folder).await;
    let token = vendor.sign(|_| ());
    assert_eq!(code(all.check(&token, &aid(1), now()).await), Ok(()));
    let mut trusted = aid(1);
    all.vouch(&token, &mut trusted, now()).await.expect("with every request the same");
    assert_eq!(trusted.trust_level, TrustLevel::L2);
    assert_eq!(code(all.check(&token, &aid(2), now()).await), Err(Code::AttestationReplayed));
    let other = vendor.sign(|claims| claims["exp"] = json!(NOW + 1800));
    assert_eq!(code(all.check(&other, &aid(1), now()).await), Err(Code::AttestationReplayed));
    // At another broker of the store, or after a start, as well; and so it is until it is over.
    let elsewhere = vendor.attestations(&folder).await;
    assert_eq!(code(elsewhere.check(&token, &aid(2), now()).await), Err(Code::AttestationReplayed));
    assert_eq!(code(elsewhere.check(&other, &aid(1), now()).await), Err(Code::AttestationReplayed));
    assert_eq!(code(elsewhere.check(&token, &aid(1), now()).await), Ok(()));
}

#[tokio::test]
async fn an_organization_vouches_for_its_own_agents() {
    let Scene { vault, log, folder } = Scene::new().await;
    let random = SystemRandom::new();
    for (name, document) in [
        ("p256", EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap()),
        ("p384", EcdsaKeyPair::generate_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &random).unwrap()),
    ] {
        let body = data_encoding::BASE64.encode(document.as_ref());
        let lines: Vec<&str> =
            body.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let pem = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            lines.join("\n")
        );
        let path = SecretPath::parse(&format!("acme/attestor/{name}")).unwrap();
        let value = Some(Zeroizing::new(pem.into_bytes()));
        vault.add(path.clone(), Metadata::default(), value, Entries::untold()).await.unwrap();
        let life = SignedDuration::from_hours(8);
        let attestation = attest(&vault, &log, &aid(1), &path, life).await.unwrap();
        let file = folder.path().join("keys.json");
        fs::write(&file, attestation.vendor_keys.to_string()).unwrap();
        let all = Attestations::new(by_file(file), vault.store().clone());
        let checked = all.check(&attestation.token, &aid(1), Timestamp::now()).await;
        assert_eq!(checked.unwrap().issuer, "acme.corp", "{name}");
        let long = attest(&vault, &log, &aid(1), &path, SignedDuration::from_hours(25)).await;
        assert_eq!(long.err().unwrap().code(), Code::Usage);
    }
    let other = SecretPath::parse("acme/attestor/none").unwrap();
    let value = Some(Zeroizing::new(b"this is no key at all".to_vec()));
    vault.add(other.clone(), Metadata::default(), value, Entries::untold()).await.unwrap();
    let refused = attest(&vault, &log, &aid(1), &other, SignedDuration::from_hours(1)).await;
    assert_eq!(refused.err().unwrap().code(), Code::ValueRefused);
}
