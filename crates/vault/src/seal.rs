//! XChaCha20-Poly1305 under one key: nonce drawn per message, the label bound as associated data.
//!
//! The label of a value is `path@version`, so a sealed value moved to another row does not open;
//! that of a wrapped key is its envelope's kind. Source: design.md, section 5.

use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use keyless_core::{Code, Error, SecretPath};

use crate::{key::Subkey, random};

const NONCE_BYTES: usize = 24;

/// A sealed message.
#[derive(Debug)]
pub(crate) struct Sealed {
    pub(crate) nonce: Vec<u8>,
    pub(crate) ciphertext: Vec<u8>,
}

/// The key, the label or the message is not the one that was sealed.
#[derive(Debug)]
pub(crate) struct DoesNotOpen;

/// Seals `message` under `key`, bound to `label`.
pub(crate) fn seal(key: &Subkey, label: &str, message: &[u8]) -> Result<Sealed, Error> {
    let nonce = random::bytes::<NONCE_BYTES>()?;
    let payload = Payload { msg: message, aad: label.as_bytes() };
    let ciphertext = cipher(key)
        .encrypt(&XNonce::from(nonce), payload)
        .map_err(|_| Error::from(Code::Internal))?;
    Ok(Sealed { nonce: nonce.to_vec(), ciphertext })
}

/// Opens what [`seal`] made with the same key and label. The caller wipes what it gets.
pub(crate) fn open(
    key: &Subkey,
    label: &str,
    nonce: &[u8],
    ciphertext: &[u8],
) -> Result<Vec<u8>, DoesNotOpen> {
    let nonce = XNonce::try_from(nonce).map_err(|_| DoesNotOpen)?;
    let payload = Payload { msg: ciphertext, aad: label.as_bytes() };
    cipher(key).decrypt(&nonce, payload).map_err(|_| DoesNotOpen)
}

/// The label of one version of a secret's value.
pub(crate) fn value_label(path: &SecretPath, version: u32) -> String {
    format!("{path}@{version}")
}

fn cipher(key: &Subkey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new((&**key).into())
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn only_the_same_key_label_and_bytes_open() {
        let key = Zeroizing::new([1; 32]);
        let Sealed { nonce, ciphertext } = seal(&key, "a/b/c@1", b"message").unwrap();
        assert_eq!(open(&key, "a/b/c@1", &nonce, &ciphertext).unwrap(), b"message");
        assert!(open(&key, "a/b/c@2", &nonce, &ciphertext).is_err());
        assert!(open(&Zeroizing::new([2; 32]), "a/b/c@1", &nonce, &ciphertext).is_err());
        assert!(open(&key, "a/b/c@1", &nonce[1..], &ciphertext).is_err());
        assert!(open(&key, "a/b/c@1", &nonce, b"").is_err());
        for bit in 0..ciphertext.len() * 8 {
            let mut flipped = ciphertext.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&key, "a/b/c@1", &nonce, &flipped).is_err(), "bit {bit}");
        }
    }
}
