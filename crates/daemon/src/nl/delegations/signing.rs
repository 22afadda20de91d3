//! The broker's signature over its tokens: Ed25519, by a key that is derived from the vault's and kept nowhere.
//!
//! Whoever can write the store can't sign, as they can't seal; unlike a seal, a signature can be checked by who has the
//! public key alone.

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use keyless_core::delegation::{SignatureAlgorithm, Token, TokenSignature};
use keyless_vault::Voucher;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// What the key is derived for. No seal is over a text that begins so.
const KEY_NAME: &[u8] = b"ed25519 of delegation tokens";

/// The key, and its name.
pub(super) struct Signer {
    key: Ed25519KeyPair,
    kid: String,
}

impl Signer {
    pub(super) fn new(voucher: &Voucher) -> Self {
        let seed = Zeroizing::new(voucher.seal(KEY_NAME));
        let key =
            Ed25519KeyPair::from_seed_unchecked(&seed).expect("a seal has the 32 bytes of a seed");
        let kid = thumbprint(&key);
        Self { key, kid }
    }

    /// The token with the signature that it has now, in place of one that it had.
    pub(super) fn signed(&self, token: Token) -> Token {
        let value = self.key.sign(&token.signed_text());
        let signature = TokenSignature {
            algorithm: SignatureAlgorithm::EdDSA,
            kid: self.kid.clone(),
            value: BASE64.encode(value.as_ref()),
        };
        Token { signature: Some(signature), ..token }
    }

    /// Whether a token is as it was signed here.
    pub(super) fn has_signed(&self, token: &Token) -> bool {
        let Some(signature) = token.signature.as_ref().filter(|one| one.kid == self.kid) else {
            return false;
        };
        let Ok(value) = BASE64.decode(signature.value.as_bytes()) else { return false };
        let key = UnparsedPublicKey::new(&ED25519, self.key.public_key().as_ref());
        key.verify(&token.signed_text(), &value).is_ok()
    }

    /// The public half.
    pub(super) fn public_key(&self) -> Value {
        let x = BASE64URL_NOPAD.encode(self.key.public_key().as_ref());
        json!({ "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": self.kid, "x": x })
    }
}

/// RFC 7638, 3.1, with the members of RFC 8037.
fn thumbprint(key: &Ed25519KeyPair) -> String {
    let x = BASE64URL_NOPAD.encode(key.public_key().as_ref());
    let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
    BASE64URL_NOPAD.encode(&Sha256::digest(members))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_name_of_the_rfc() {
        // RFC 8037, appendix A.1 and A.3.
        let seed = BASE64URL_NOPAD.decode(b"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A").unwrap();
        let key = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        assert_eq!(thumbprint(&key), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }
}
