//! What a browser says of a passkey, checked as Web Authentication Level 3 has it (7.1, 7.2).
//!
//! Only what this page asks for is taken: a person who was verified, at this very origin, over this very
//! challenge. There is no attestation, so the browser's own reading of the new key (`getPublicKey`) says as much as the
//! CBOR around it, which is not parsed at all. Signatures are judged by aws-lc-rs, as all others of ours.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};
use data_encoding::BASE64URL_NOPAD;
use keyless_core::{Code, Error, SafeText};
use keyless_store::Passkey;
use serde::{Deserialize, Deserializer};
use sha2::{Digest, Sha256};

/// The name that passkeys are for: an address can't be one.
pub(super) const RELYING_PARTY: &str = "localhost";
pub(in crate::web) const CHALLENGE_BYTES: usize = 32;

const PRESENT: u8 = 0x01;
const VERIFIED: u8 = 0x04;
const HAS_CREDENTIAL: u8 = 0x40;
/// SHA-256 of the relying party, flags, count.
const HEAD_BYTES: usize = 37;
const AAGUID_BYTES: usize = 16;

/// What is to be signed, and for whom.
pub(super) struct Expected<'a> {
    pub(super) challenge: [u8; CHALLENGE_BYTES],
    /// The page's own, as `http://localhost:43817`.
    pub(super) origin: &'a str,
}

/// A new passkey, as the browser tells it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Registration {
    id: Bytes,
    client: Bytes,
    data: Bytes,
    key: Bytes,
    algorithm: i64,
}

/// A proof by a passkey, as the browser tells it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct Assertion {
    id: Bytes,
    client: Bytes,
    data: Bytes,
    signature: Bytes,
}

/// A registration that is good: the credential's id, its key and what it counts.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) id: String,
    pub(super) public_key: Vec<u8>,
    pub(super) algorithm: i64,
    pub(super) counter: u32,
}

struct Bytes(Vec<u8>);

/// Why an answer proves nothing.
type Verdict<T> = Result<T, &'static str>;

impl Registration {
    pub(super) fn judge(self, expected: &Expected<'_>) -> Result<Registered, Error> {
        self.check(expected).map_err(refused)
    }

    fn check(self, expected: &Expected<'_>) -> Verdict<Registered> {
        ClientData::read(&self.client.0)?.check("webauthn.create", expected)?;
        let data = AuthenticatorData::read(&self.data.0)?;
        data.check()?;
        if data.credential_id()? != self.id.0 {
            return Err("it names two credentials");
        }
        algorithm(self.algorithm)?;
        Ok(Registered {
            id: BASE64URL_NOPAD.encode(&self.id.0),
            public_key: self.key.0,
            algorithm: self.algorithm,
            counter: data.counter,
        })
    }
}

impl Assertion {
    /// The credential that it claims to be of.
    pub(super) fn id(&self) -> String {
        BASE64URL_NOPAD.encode(&self.id.0)
    }

    /// The new count, when it is the passkey's own word.
    pub(super) fn judge(&self, passkey: &Passkey, expected: &Expected<'_>) -> Result<u32, Error> {
        self.check(passkey, expected).map_err(refused)
    }

    fn check(&self, passkey: &Passkey, expected: &Expected<'_>) -> Verdict<u32> {
        ClientData::read(&self.client.0)?.check("webauthn.get", expected)?;
        let data = AuthenticatorData::read(&self.data.0)?;
        data.check()?;
        let signed = [&self.data.0[..], &Sha256::digest(&self.client.0)].concat();
        UnparsedPublicKey::new(algorithm(passkey.algorithm)?, &passkey.public_key)
            .verify(&signed, &self.signature.0)
            .map_err(|_| "its signature does not fit")?;
        // Those that don't count say 0 for ever; with the others, standing still means that there are two.
        if (data.counter, passkey.counter) != (0, 0) && data.counter <= passkey.counter {
            return Err("it counts as a copy of it would");
        }
        Ok(data.counter)
    }
}

/// What the browser saw: the authenticator signs a hash of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientData {
    #[serde(rename = "type")]
    kind: String,
    challenge: String,
    origin: String,
    #[serde(default)]
    cross_origin: bool,
}

impl ClientData {
    fn read(bytes: &[u8]) -> Verdict<Self> {
        serde_json::from_slice(bytes).map_err(|_| "the browser's part can't be read")
    }

    fn check(&self, kind: &str, expected: &Expected<'_>) -> Verdict<()> {
        match () {
            () if self.kind != kind => Err("it is for something else"),
            () if self.challenge != BASE64URL_NOPAD.encode(&expected.challenge) => {
                Err("it answers another challenge")
            }
            () if self.origin != expected.origin || self.cross_origin => {
                Err("it was given to another page")
            }
            () => Ok(()),
        }
    }
}

/// What the authenticator says of itself and the person.
struct AuthenticatorData<'a> {
    relying_party: &'a [u8],
    flags: u8,
    counter: u32,
    rest: &'a [u8],
}

impl<'a> AuthenticatorData<'a> {
    fn read(bytes: &'a [u8]) -> Verdict<Self> {
        let (head, rest) =
            bytes.split_at_checked(HEAD_BYTES).ok_or("the authenticator's part is too short")?;
        let (relying_party, head) = head.split_at(32);
        let counter = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        Ok(Self { relying_party, flags: head[0], counter, rest })
    }

    fn check(&self) -> Verdict<()> {
        if self.relying_party != Sha256::digest(RELYING_PARTY).as_slice() {
            return Err("it is for another name");
        }
        if self.flags & (PRESENT | VERIFIED) != PRESENT | VERIFIED {
            return Err("the authenticator has not verified a person");
        }
        Ok(())
    }

    fn credential_id(&self) -> Verdict<&'a [u8]> {
        let none = "there is no credential in it";
        if self.flags & HAS_CREDENTIAL == 0 {
            return Err(none);
        }
        let (length, rest) = self
            .rest
            .get(AAGUID_BYTES..)
            .and_then(|rest| rest.split_first_chunk::<2>())
            .ok_or(none)?;
        rest.get(..usize::from(u16::from_be_bytes(*length))).ok_or(none)
    }
}

/// COSE's numbers of what this page asks for: ES256, EdDSA, RS256.
fn algorithm(number: i64) -> Verdict<&'static dyn VerificationAlgorithm> {
    match number {
        -7 => Ok(&ECDSA_P256_SHA256_ASN1),
        -8 => Ok(&ED25519),
        -257 => Ok(&RSA_PKCS1_2048_8192_SHA256),
        _ => Err("its algorithm is none that was asked for"),
    }
}

fn refused(why: &'static str) -> Error {
    Error::with(Code::PasskeyRefused, SafeText::words(why))
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes());
        bytes.map(Self).map_err(|_| serde::de::Error::custom("not base64url"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use aws_lc_rs::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair},
    };
    use jiff::Timestamp;

    use super::*;

    const CHALLENGE: [u8; CHALLENGE_BYTES] = [7; CHALLENGE_BYTES];
    const ORIGIN: &str = "http://localhost:7000";

    /// An authenticator, and what it says unless a test has it say something else.
    pub(in crate::web::passkeys) struct Device {
        keys: EcdsaKeyPair,
        kind: &'static str,
        pub(in crate::web::passkeys) challenge: [u8; CHALLENGE_BYTES],
        pub(in crate::web::passkeys) origin: &'static str,
        party: &'static str,
        flags: u8,
        counter: u32,
    }

    impl Device {
        pub(in crate::web::passkeys) fn new() -> Self {
            let keys = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
            let (kind, party) = ("webauthn.get", RELYING_PARTY);
            let flags = PRESENT | VERIFIED;
            Self { keys, kind, challenge: CHALLENGE, origin: ORIGIN, party, flags, counter: 5 }
        }

        pub(in crate::web::passkeys) fn passkey(&self) -> Passkey {
            Passkey {
                id: "aWQ".to_owned(),
                name: "key".to_owned(),
                public_key: self.keys.public_key().as_ref().to_vec(),
                algorithm: -7,
                counter: 4,
                created_at: Timestamp::UNIX_EPOCH,
                used_at: None,
            }
        }

        fn client(&self) -> Vec<u8> {
            let challenge = BASE64URL_NOPAD.encode(&self.challenge);
            let client = serde_json::json!({ "type": self.kind, "challenge": challenge,
                "origin": self.origin, "crossOrigin": false });
            client.to_string().into_bytes()
        }

        fn data(&self) -> Vec<u8> {
            let mut data = Sha256::digest(self.party).to_vec();
            data.push(self.flags);
            data.extend(self.counter.to_be_bytes());
            data
        }

        pub(in crate::web::passkeys) fn assertion(&self) -> Assertion {
            let (client, data) = (self.client(), self.data());
            let signed = [&data[..], &Sha256::digest(&client)].concat();
            let signature = self.keys.sign(&SystemRandom::new(), &signed).unwrap();
            let signature = Bytes(signature.as_ref().to_vec());
            Assertion {
                id: Bytes(b"id".to_vec()),
                client: Bytes(client),
                data: Bytes(data),
                signature,
            }
        }
    }

    fn expected() -> Expected<'static> {
        Expected { challenge: CHALLENGE, origin: ORIGIN }
    }

    #[test]
    fn a_passkey_proves_who_is_here_and_nothing_else_does() {
        let device = Device::new();
        let passkey = device.passkey();
        assert_eq!(device.assertion().judge(&passkey, &expected()).unwrap(), 5);
        let bent: [fn(&mut Device); 7] = [
            |device| device.kind = "webauthn.create",
            |device| device.challenge = [8; CHALLENGE_BYTES],
            |device| device.origin = "http://localhost:7001",
            |device| device.party = "evil.test",
            |device| device.flags = PRESENT,
            |device| device.counter = 4,
            |device| device.keys = Device::new().keys,
        ];
        for (index, bend) in bent.into_iter().enumerate() {
            let mut other = Device { keys: Device::new().keys, ..Device::new() };
            let passkey = other.passkey();
            bend(&mut other);
            let refused = other.assertion().judge(&passkey, &expected()).unwrap_err();
            assert_eq!(refused.code(), Code::PasskeyRefused, "{index}");
        }
        let mut changed = device.assertion();
        changed.data.0[36] = 9;
        assert!(changed.judge(&passkey, &expected()).is_err(), "another count than was signed");
    }

    #[test]
    fn a_registration_names_its_credential() {
        let device = Device { kind: "webauthn.create", flags: 0x45, ..Device::new() };
        let register = |id: &[u8], told: &[u8], length: u8| {
            let mut data = device.data();
            data.extend([0; AAGUID_BYTES]);
            data.extend([0, length]);
            data.extend(told);
            let key = Bytes(device.passkey().public_key);
            let (id, client, data) = (Bytes(id.to_vec()), Bytes(device.client()), Bytes(data));
            Registration { id, client, data, key, algorithm: -7 }.judge(&expected())
        };
        assert_eq!(register(b"id", b"id and its key", 2).unwrap().id, "aWQ");
        for (id, told, length) in [(b"id", b"di", 2), (b"id", b"id", 9), (b"id", b"id", 0)] {
            assert!(register(id, told, length).is_err());
        }
    }
}
