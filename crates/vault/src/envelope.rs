//! Envelopes: the vault's key, wrapped once per factor that opens it.
//!
//! Each kind turns its factor into a wrapping key in its own file; wrapping is the same for all:
//! XChaCha20-Poly1305, the kind bound as associated data. Source: reference/secrets.md, 7.2.

mod keyfile;
mod passphrase;
mod recovery;
mod totp;

use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText};
use keyless_store::EnvelopeRow;
use serde::{Serialize, de::DeserializeOwned};

pub use self::{
    keyfile::{Keyfile, MachineBinding},
    passphrase::{KdfCost, MIN_PASSPHRASE_CHARS, Passphrase},
    recovery::RecoveryPhrase,
    totp::{TotpGate, TotpSecret},
};
use crate::{
    key::{Subkey, VaultKey},
    seal::{self, Sealed},
};

const SALT_BYTES: usize = 32;

/// What opens a vault.
#[derive(Debug)]
pub enum Factor {
    /// A file that only the operator can read.
    Keyfile(Keyfile),
    /// What the operator types.
    Passphrase(Passphrase),
    /// What the operator wrote down.
    Recovery(RecoveryPhrase),
}

/// Which factor an envelope is for. The text is stored, and bound to the wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvelopeKind {
    /// A file of 32 random bytes.
    Keyfile,
    /// What the operator types.
    Passphrase,
    /// 24 words on paper.
    Recovery,
    /// Codes of an authenticator app, to open again what has locked itself.
    Totp,
}

impl EnvelopeKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Keyfile, Self::Passphrase, Self::Recovery, Self::Totp];

    /// The word in commands, answers and the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keyfile => "keyfile",
            Self::Passphrase => "passphrase",
            Self::Recovery => "recovery",
            Self::Totp => "totp",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Whether it opens a store that nothing has opened before.
    pub fn is_cold_start(self) -> bool {
        self != Self::Totp
    }
}

impl Factor {
    pub(crate) fn kind(&self) -> EnvelopeKind {
        match self {
            Self::Keyfile(_) => EnvelopeKind::Keyfile,
            Self::Passphrase(_) => EnvelopeKind::Passphrase,
            Self::Recovery(_) => EnvelopeKind::Recovery,
        }
    }

    /// Opens the envelope of this factor's kind. Takes about 250 ms of one core: call it where
    /// that may block. [`Code::WrongPassphrase`], [`Code::WrongRecoveryPhrase`], for files and codes
    /// [`Code::WrongFactor`], when the factor is not the one.
    pub(crate) fn open(&self, row: &EnvelopeRow) -> Result<VaultKey, Error> {
        let wrapping = match self {
            Self::Keyfile(file) => file.wrapping_key(&parse(&row.parameters)?)?,
            Self::Passphrase(passphrase) => passphrase.wrapping_key(&parse(&row.parameters)?)?,
            Self::Recovery(phrase) => phrase.wrapping_key(&parse(&row.parameters)?)?,
        };
        let opened = seal::open(&wrapping, self.kind().as_str(), &row.nonce, &row.wrapped);
        match opened {
            Ok(bytes) => VaultKey::from_bytes(bytes),
            Err(_) => Err(self.wrong()),
        }
    }

    fn wrong(&self) -> Error {
        match self {
            Self::Keyfile(_) => {
                let words = "it is another store's, or it was bound to another machine";
                Error::with(Code::WrongFactor, SafeText::words(words))
            }
            Self::Passphrase(_) => Code::WrongPassphrase.into(),
            Self::Recovery(_) => Code::WrongRecoveryPhrase.into(),
        }
    }
}

/// Wraps `key` for a key file.
pub(crate) fn for_keyfile(
    key: &VaultKey,
    file: &Keyfile,
    binding: MachineBinding,
    now: Timestamp,
) -> Result<EnvelopeRow, Error> {
    let parameters = keyfile::Parameters::draw(binding)?;
    let wrapping = file.wrapping_key(&parameters)?;
    wrap(key, EnvelopeKind::Keyfile, &wrapping, &parameters, now)
}

/// Wraps `key` for time-based codes.
pub(crate) fn for_totp(
    key: &VaultKey,
    secret: &TotpSecret,
    now: Timestamp,
) -> Result<EnvelopeRow, Error> {
    let parameters = totp::Parameters::draw(secret, key)?;
    let wrapping = secret.wrapping_key(&parameters)?;
    wrap(key, EnvelopeKind::Totp, &wrapping, &parameters, now)
}

/// The secret of time-based codes, from its envelope.
pub(crate) fn totp_secret(row: &EnvelopeRow, key: &VaultKey) -> Result<TotpSecret, Error> {
    TotpSecret::unseal(&row.parameters, key)
}

/// Opens the envelope of time-based codes with their secret, after [`TotpGate::check`].
pub(crate) fn open_by_totp(row: &EnvelopeRow, secret: &TotpSecret) -> Result<VaultKey, Error> {
    let wrapping = secret.wrapping_key(&parse(&row.parameters)?)?;
    let opened = seal::open(&wrapping, EnvelopeKind::Totp.as_str(), &row.nonce, &row.wrapped);
    VaultKey::from_bytes(opened.map_err(|_| Error::from(Code::WrongFactor))?)
}

/// Whether the envelope of a key file is bound to a machine.
pub(crate) fn machine_binding(row: &EnvelopeRow) -> Result<MachineBinding, Error> {
    keyfile::Parameters::binding_of(&row.parameters)
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
    wrap(key, EnvelopeKind::Passphrase, &wrapping, &parameters, now)
}

/// Wraps `key` for a recovery phrase.
pub(crate) fn for_recovery(
    key: &VaultKey,
    phrase: &RecoveryPhrase,
    now: Timestamp,
) -> Result<EnvelopeRow, Error> {
    let parameters = recovery::Parameters::draw()?;
    let wrapping = phrase.wrapping_key(&parameters)?;
    wrap(key, EnvelopeKind::Recovery, &wrapping, &parameters, now)
}

fn wrap(
    key: &VaultKey,
    kind: EnvelopeKind,
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
