//! The second encryption, of protected fields alone: one key stream over all of them, in the order
//! in which they stand in the document.

use chacha20::{
    ChaCha20,
    cipher::{KeyIvInit, StreamCipher, StreamCipherSeek},
};
use salsa20::Salsa20;
use sha2::{Digest, Sha256, Sha512};
use zeroize::Zeroizing;

use super::{Fault, key::Key};

const SALSA20_NONCE: [u8; 8] = *b"\xe8\x30\x09\x4b\x97\x20\x5d\x2a";

/// What it is keyed with.
pub(super) enum InnerStream {
    ChaCha20 { key: Key, nonce: [u8; 12] },
    Salsa20 { key: Key },
}

impl InnerStream {
    pub(super) fn new(number: u32, key: &[u8]) -> Result<Self, Fault> {
        match number {
            2 => Ok(Self::Salsa20 { key: Zeroizing::new(Sha256::digest(key).into()) }),
            3 => {
                let long: Zeroizing<[u8; 64]> = Zeroizing::new(Sha512::digest(key).into());
                let (mut key, mut nonce) = (Key::default(), [0; 12]);
                key.copy_from_slice(&long[..32]);
                nonce.copy_from_slice(&long[32..44]);
                Ok(Self::ChaCha20 { key, nonce })
            }
            _ => Err(Fault::Unsupported("the encryption of its fields")),
        }
    }

    /// Decrypts what begins `offset` bytes into the stream.
    pub(super) fn decrypt(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        match self {
            Self::ChaCha20 { key, nonce } => {
                let mut cipher = ChaCha20::new((&**key).into(), nonce.into());
                cipher.try_seek(offset).map_err(|_| Fault::Damaged)?;
                cipher.try_apply_keystream(bytes).map_err(|_| Fault::Damaged)
            }
            Self::Salsa20 { key } => {
                // Of an older release of the same traits, the one in the tree.
                use salsa20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
                let mut cipher = Salsa20::new((&**key).into(), (&SALSA20_NONCE).into());
                cipher.try_seek(offset).map_err(|_| Fault::Damaged)?;
                cipher.try_apply_keystream(bytes).map_err(|_| Fault::Damaged)
            }
        }
    }
}
