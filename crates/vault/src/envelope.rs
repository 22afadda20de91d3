//! Envelopes: the vault's key, wrapped once per factor that opens it.
//!
//! Each kind turns its factor into a wrapping key in its own file; wrapping is the same for all:
//! XChaCha20-Poly1305, the kind bound as associated data. Source: reference/secrets.md, 7.2.

mod passphrase;
mod recovery;

use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText};
use keyless_store::EnvelopeRow;
use serde::{Serialize, de::DeserializeOwned};

pub use self::{
    passphrase::{KdfCost, MIN_PASSPHRASE_CHARS, Passphrase},
    recovery::RecoveryPhrase,
};
use crate::{
    key::{Subkey, VaultKey},
    seal::{self, Sealed},
};

const SALT_BYTES: usize = 32;

/// What opens a vault.
#[derive(Debug)]
pub enum Factor {
    /// What the operator types.
    Passphrase(Passphrase),
    /// What the operator wrote down.
    Recovery(RecoveryPhrase),
}

/// Which factor an envelope is for. The text is stored, and bound to the wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Passphrase,
    Recovery,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Passphrase => "passphrase",
            Self::Recovery => "recovery",
        }
    }
}

impl Factor {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Passphrase(_) => Kind::Passphrase,
            Self::Recovery(_) => Kind::Recovery,
        }
    }

    /// Opens the envelope of this factor's kind. Takes about 250 ms of one core: call it where
    /// that may block. [`Code::WrongPassphrase`] when the factor is not the one.
    pub(crate) fn open(&self, row: &EnvelopeRow) -> Result<VaultKey, Error> {
        let wrapping = match self {
            Self::Passphrase(passphrase) => passphrase.wrapping_key(&parse(&row.parameters)?)?,
            Self::Recovery(phrase) => phrase.wrapping_key(&parse(&row.parameters)?)?,
        };
        let opened = seal::open(&wrapping, self.kind().as_str(), &row.nonce, &row.wrapped);
        match opened {
            Ok(bytes) => VaultKey::from_bytes(bytes),
            Err(_) => Err(Code::WrongPassphrase.into()),
        }
    }
}

/// Wraps `key` for a passphrase.
pub(crate) fn for_passphrase(
    key: &VaultKey,
    passphrase: &Passphrase,
    cost: KdfCost,
    now: Timestamp,
) -> Result<EnvelopeRow, Error> {
    let parameters = passphrase::Parameters::draw(cost)?;
    let wrapping = passphrase.wrapping_key(&parameters)?;
    wrap(key, Kind::Passphrase, &wrapping, &parameters, now)
}

/// Wraps `key` for a recovery phrase.
pub(crate) fn for_recovery(
    key: &VaultKey,
    phrase: &RecoveryPhrase,
    now: Timestamp,
) -> Result<EnvelopeRow, Error> {
    let parameters = recovery::Parameters::draw()?;
    let wrapping = phrase.wrapping_key(&parameters)?;
    wrap(key, Kind::Recovery, &wrapping, &parameters, now)
}

fn wrap(
    key: &VaultKey,
    kind: Kind,
    wrapping: &Subkey,
    parameters: &impl Serialize,
    now: Timestamp,
) -> Result<EnvelopeRow, Error> {
    let Sealed { nonce, ciphertext } =
        seal::seal(wrapping, kind.as_str(), key.expose_for_wrapping())?;
    let parameters = serde_json::to_string(parameters).expect("parameters are plain data");
    let kind = kind.as_str().to_owned();
    Ok(EnvelopeRow { kind, parameters, nonce, wrapped: ciphertext, created_at: now })
}

fn parse<T: DeserializeOwned>(parameters: &str) -> Result<T, Error> {
    serde_json::from_str(parameters).map_err(|_| unreadable())
}

fn unreadable() -> Error {
    Error::with(Code::StoreTampered, SafeText::words("an envelope's parameters can't be read"))
}

fn read_salt(text: &str) -> Result<Vec<u8>, Error> {
    let salt = data_encoding::BASE64.decode(text.as_bytes()).map_err(|_| unreadable())?;
    if (16..=256).contains(&salt.len()) { Ok(salt) } else { Err(unreadable()) }
}

fn draw_salt() -> Result<String, Error> {
    Ok(data_encoding::BASE64.encode(&crate::random::bytes::<SALT_BYTES>()?))
}
