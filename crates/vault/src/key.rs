//! The vault's key, and the keys that are derived from it, one per purpose.
//!
//! 32 random bytes, drawn once, wrapped by every envelope and never used themselves: each use has
//! a key of its own by HKDF-SHA256, so that no two uses can meet. Source: reference/secrets.md, 7.2.

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use keyless_core::{Binding, Code, Error, SecretPath, SecretValue};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::random;

pub(crate) const KEY_BYTES: usize = 32;

/// A derived key, wiped on drop.
pub(crate) type Subkey = Zeroizing<[u8; KEY_BYTES]>;

/// The vault's key. Kept as a [`SecretValue`]: it has the same needs, locked in memory and wiped.
pub(crate) struct VaultKey(SecretValue);

/// What a derived key is for. The text is part of the format.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Sealing agents, grants and delegations.
    Agents,
    /// Sealing what the operator has agreed to of what files say.
    Agreements,
    /// The keys that vouch for the audit log's entries, one by one.
    AuditEntries,
    /// Sealing the end of the audit log.
    AuditHead,
    /// Sealing which of those keys there are.
    AuditKeys,
    /// Sealing what is known of closed parts of the audit log.
    AuditSegments,
    /// Signing where the audit log ends.
    Checkpoints,
    /// The commitment over the index.
    Index,
    /// Proving to the broker that the vault is open elsewhere.
    Operator,
    /// Sealing the operator's passkeys.
    Passkeys,
    /// Sealing requests to a person.
    Requests,
    /// Vouching for agents' sessions.
    Sessions,
    /// Sealing the secret of time-based codes.
    Totp,
    /// Sealing values.
    Values,
}

impl VaultKey {
    /// A fresh key.
    pub(crate) fn generate() -> Result<Self, Error> {
        let drawn = Zeroizing::new(random::bytes::<KEY_BYTES>()?);
        Self::from_bytes(drawn.to_vec())
    }

    /// The key that an envelope held; the buffer is wiped.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        let path = SecretPath::parse("keyless/vault/key").expect("the path is well formed");
        match bytes.len() {
            KEY_BYTES => SecretValue::new(path, bytes, Binding::None)
                .map(Self)
                .map_err(|_| Code::Internal.into()),
            _ => Err(Code::StoreTampered.into()),
        }
    }

    /// The bytes, for wrapping them.
    pub(crate) fn expose_for_wrapping(&self) -> &[u8] {
        self.0.expose_for_sealing()
    }

    /// The key for one purpose.
    pub(crate) fn derive(&self, purpose: Purpose) -> Subkey {
        derive(None, self.0.expose_for_sealing(), purpose.info())
    }
}

impl Purpose {
    fn info(self) -> &'static str {
        match self {
            Self::Agents => "keyless/v1/agents",
            Self::Agreements => "keyless/v1/agreements",
            Self::AuditEntries => "keyless/v1/audit-entries",
            Self::AuditHead => "keyless/v1/audit-head",
            Self::AuditKeys => "keyless/v1/audit-keys",
            Self::AuditSegments => "keyless/v1/audit-segments",
            Self::Checkpoints => "keyless/v1/checkpoints",
            Self::Index => "keyless/v1/index",
            Self::Operator => "keyless/v1/operator",
            Self::Passkeys => "keyless/v1/passkeys",
            Self::Requests => "keyless/v1/requests",
            Self::Sessions => "keyless/v1/sessions",
            Self::Totp => "keyless/v1/totp",
            Self::Values => "keyless/v1/values",
        }
    }
}

/// HKDF-SHA256 to one key.
pub(crate) fn derive(salt: Option<&[u8]>, material: &[u8], info: &str) -> Subkey {
    let mut derived = Zeroizing::new([0; KEY_BYTES]);
    Hkdf::<Sha256>::new(salt, material)
        .expand(info.as_bytes(), &mut *derived)
        .expect("32 bytes are within HKDF's limit");
    derived
}

/// HMAC-SHA256 over `parts`; all but the last have a fixed length, so no two lists meet.
pub(crate) fn derive_mac(key: &Subkey, parts: &[&[u8]]) -> Vec<u8> {
    let mut mac =
        <Hmac<Sha256> as KeyInit>::new_from_slice(&**key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}
