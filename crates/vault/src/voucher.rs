//! Vouches with the vault's key for what the index commitment does not cover.
//!
//! Requests come and go at every call, so each row has a seal of its own; and who has unlocked the
//! vault elsewhere proves it to the broker without showing the factor. One key per purpose.

use subtle::ConstantTimeEq;

use crate::{
    key::{Subkey, derive, derive_mac},
    vault::Vault,
};

/// Makes and checks seals of one purpose.
pub struct Voucher(Subkey);

impl Vault {
    /// Vouches for what the operator has agreed to of what files say.
    pub fn agreement_voucher(&self) -> Voucher {
        Voucher(self.standing().agreements.clone())
    }

    /// Vouches for requests to a person, and their answers.
    pub fn request_voucher(&self) -> Voucher {
        Voucher(self.standing().requests.clone())
    }

    /// Vouches for the operator's passkeys.
    pub fn passkey_voucher(&self) -> Voucher {
        Voucher(self.standing().passkeys.clone())
    }

    /// Vouches for agents, grants and delegations.
    pub fn nl_voucher(&self) -> Voucher {
        Voucher(self.standing().agents.clone())
    }

    /// Gives the seed of the key that signs where the audit log ends.
    pub fn checkpoint_voucher(&self) -> Voucher {
        Voucher(self.standing().checkpoints.clone())
    }

    /// Gives the key that an operator's program and a broker have in common once both have opened the same vault.
    pub fn operator_voucher(&self) -> Voucher {
        Voucher(self.standing().operator.clone())
    }

    /// Vouches that a session was given to whoever shows the seal over its name.
    pub fn session_voucher(&self) -> Voucher {
        Voucher(self.standing().sessions.clone())
    }
}

impl Voucher {
    /// A key for two programs that have the same vault open, by what it is for.
    pub fn shared_key(&self, purpose: &str) -> Subkey {
        derive(None, &*self.0, purpose)
    }

    /// The seal over `bytes`.
    pub fn seal(&self, bytes: &[u8]) -> Vec<u8> {
        derive_mac(&self.0, &[bytes])
    }

    /// Whether `seal` is the one over `bytes`.
    pub fn fits(&self, bytes: &[u8], seal: &[u8]) -> bool {
        self.seal(bytes).ct_eq(seal).into()
    }
}
