//! From a passphrase to a wrapping key: Argon2id, then HKDF-SHA256.
//!
//! The cost stands in the envelope, so that it can be raised for new ones; what a file may ask for
//! is capped, since a forged header must not take the machine down.

use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use keyless_core::{Code, Error, SafeText};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{draw_salt, read_salt, unreadable};
use crate::key::{self, Subkey};

/// The shortest passphrase that a vault is made with, in characters.
pub const MIN_PASSPHRASE_CHARS: usize = 12;

const INFO: &str = "keyless/v1/envelope/passphrase";
const MAX_MEMORY_KIB: u32 = 1024 * 1024;
const MAX_PASSES: u32 = 64;
const MAX_LANES: u32 = 16;

/// A passphrase as it was typed; wiped on drop, never printed.
pub struct Passphrase(Zeroizing<String>);

/// How much work one guess at a passphrase costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KdfCost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// What stands in the envelope.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    salt: String,
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl Passphrase {
    /// Takes over a passphrase of any length; [`Vault::create`](crate::Vault::create) is the one
    /// that asks for at least [`MIN_PASSPHRASE_CHARS`].
    pub fn new(text: Zeroizing<String>) -> Self {
        Self(text)
    }

    /// Fails with [`Code::PassphraseWeak`] when the passphrase is too short to make a vault with.
    pub fn check_strength(&self) -> Result<(), Error> {
        if self.0.chars().count() < MIN_PASSPHRASE_CHARS {
            let words = "it has under 12 characters";
            Err(Error::with(Code::PassphraseWeak, SafeText::words(words)))
        } else {
            Ok(())
        }
    }

    pub(super) fn wrapping_key(&self, parameters: &Parameters) -> Result<Subkey, Error> {
        let salt = read_salt(&parameters.salt)?;
        let Parameters { memory_kib, passes, lanes, .. } = *parameters;
        if memory_kib > MAX_MEMORY_KIB || passes > MAX_PASSES || lanes > MAX_LANES {
            return Err(unreadable());
        }
        let cost = Params::new(memory_kib, passes, lanes, None).map_err(|_| unreadable())?;
        let mut stretched = Zeroizing::new([0; 32]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, cost)
            .hash_password_into(self.0.as_bytes(), &salt, &mut *stretched)
            .map_err(|_| Error::from(Code::Internal))?;
        Ok(key::derive(Some(&salt), &*stretched, INFO))
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase")
    }
}

impl KdfCost {
    /// 64 MiB, three passes: about 250 ms of one core.
    pub const STANDARD: Self = Self { memory_kib: 64 * 1024, passes: 3, lanes: 1 };

    /// Next to nothing, for tests that make many vaults. A vault made with it is open to guessing.
    pub const fn dangerously_cheap() -> Self {
        Self { memory_kib: 64, passes: 1, lanes: 1 }
    }
}

impl Parameters {
    pub(super) fn draw(cost: KdfCost) -> Result<Self, Error> {
        let KdfCost { memory_kib, passes, lanes } = cost;
        Ok(Self { salt: draw_salt()?, memory_kib, passes, lanes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::new(Zeroizing::new(text.to_owned()))
    }

    #[test]
    fn a_forged_cost_is_refused_before_memory_is_taken() {
        for (memory_kib, passes, lanes) in
            [(u32::MAX, 1, 1), (64, u32::MAX, 1), (64, 1, u32::MAX), (0, 0, 0)]
        {
            let parameters = Parameters { salt: draw_salt().unwrap(), memory_kib, passes, lanes };
            let error = passphrase("long enough pass").wrapping_key(&parameters).unwrap_err();
            assert_eq!(error.code(), Code::StoreTampered);
        }
    }

    #[test]
    fn length_is_counted_in_characters() {
        assert!(passphrase("elevenchars").check_strength().is_err());
        assert!(passphrase("twelve chars").check_strength().is_ok());
        assert!(passphrase("äöüäöü").check_strength().is_err());
    }
}
