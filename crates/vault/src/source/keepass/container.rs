//! The file around the document: headers, what vouches for them, the cipher, the compression.
//!
//! Values of protected fields stay encrypted in the document; see [`super::document`].
//! Source: <https://keepass.info/help/kb/kdbx.html>

use std::{collections::BTreeMap, io::Read};

use aes::{
    Aes256, Block,
    cipher::{BlockModeDecrypt, KeyIvInit},
};
use chacha20::{ChaCha20, cipher::StreamCipher};
use flate2::read::GzDecoder;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};
use zeroize::Zeroizing;

use super::{
    Fault,
    bytes::Bytes,
    key::{Derivation, Key},
    stream::InnerStream,
};

/// The largest document, attachments included.
const MAX_CONTENT: usize = 128 * 1024 * 1024;

const SIGNATURE: [u8; 8] = *b"\x03\xd9\xa2\x9a\x67\xfb\x4b\xb5";
const AES: [u8; 16] = *b"\x31\xc1\xf2\xe6\xbf\x71\x43\x50\xbe\x58\x05\x21\x6a\xfc\x5a\xff";
const CHACHA20: [u8; 16] = *b"\xd6\x03\x8a\x2b\x8b\x6f\x4c\xb5\xa5\x24\x33\x9a\x31\xdb\xb5\x9a";

// Fields of the header.
const END: u8 = 0;
const CIPHER: u8 = 2;
const COMPRESSION: u8 = 3;
const MASTER_SEED: u8 = 4;
const TRANSFORM_SEED: u8 = 5;
const TRANSFORM_ROUNDS: u8 = 6;
const NONCE: u8 = 7;
const STREAM_KEY: u8 = 8;
const START_BYTES: u8 = 9;
const STREAM: u8 = 10;
const DERIVATION: u8 = 11;

/// A file whose header is read, and nothing else.
pub(super) struct Container<'a> {
    version: Version,
    fields: BTreeMap<u8, &'a [u8]>,
    header: &'a [u8],
    body: &'a [u8],
}

/// What is inside.
pub(super) struct Content {
    bytes: Zeroizing<Vec<u8>>,
    /// Where the document begins.
    start: usize,
    /// What decrypts its protected fields.
    pub(super) stream: InnerStream,
    /// Of the header, which a document of version 3.1 vouches for.
    pub(super) header_hash: Option<[u8; 32]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V3,
    V4,
}

impl Content {
    /// A document that nobody has vouched for, as a fuzz target has it.
    pub(super) fn of_document(text: &str) -> Result<Self, Fault> {
        let bytes = Zeroizing::new(text.as_bytes().to_vec());
        Ok(Self { bytes, start: 0, stream: InnerStream::new(2, &[0; 32])?, header_hash: None })
    }
}

impl<'a> Container<'a> {
    pub(super) fn parse(file: &'a [u8]) -> Result<Self, Fault> {
        let mut rest = Bytes(file);
        if rest.array() != Ok(SIGNATURE) {
            return Err(Fault::Foreign);
        }
        let (_minor, major) = (rest.u16()?, rest.u16()?);
        let version = match major {
            3 => Version::V3,
            4 => Version::V4,
            _ => return Err(Fault::Foreign),
        };
        let mut fields = BTreeMap::new();
        loop {
            let field = rest.u8()?;
            let content = match version {
                Version::V3 => {
                    let length = rest.u16()?;
                    rest.take(length.into())?
                }
                Version::V4 => rest.sized()?,
            };
            if field == END {
                break;
            }
            fields.insert(field, content);
        }
        let (header, body) = file.split_at(file.len() - rest.0.len());
        Ok(Self { version, fields, header, body })
    }

    /// Stands for this header and what is derived under it.
    pub(super) fn under(&self, composite: &Key) -> Key {
        let hash = Sha256::new().chain_update(**composite).chain_update(self.header);
        Zeroizing::new(hash.finalize().into())
    }

    /// How the key is derived.
    pub(super) fn derivation(&self) -> Result<Derivation<'a>, Fault> {
        match self.version {
            Version::V3 => Derivation::aes(
                self.field(TRANSFORM_SEED)?,
                Bytes(self.field(TRANSFORM_ROUNDS)?).u64()?,
            ),
            Version::V4 => Derivation::of_dictionary(self.field(DERIVATION)?),
        }
    }

    /// Opens it with the derived key. [`Fault::Key`] when that is not its.
    pub(super) fn open(&self, derived: &Key) -> Result<Content, Fault> {
        match self.version {
            Version::V3 => self.open_v3(derived),
            Version::V4 => self.open_v4(derived),
        }
    }

    fn open_v3(&self, derived: &Key) -> Result<Content, Fault> {
        let mut payload = Zeroizing::new(self.body.to_vec());
        self.decrypt(derived, &mut payload)?;
        // Nothing but this tells a wrong key from damage.
        let start = self.field(START_BYTES)?;
        if start.len() != 32 || !payload.starts_with(start) {
            return Err(Fault::Key);
        }
        let payload = self.unpadded(&payload)?;
        let mut rest = Bytes(payload.get(start.len()..).ok_or(Fault::Damaged)?);
        let mut joined = Zeroizing::new(Vec::with_capacity(rest.0.len()));
        for index in 0.. {
            let (number, hash) = (rest.u32()?, rest.array::<32>()?);
            let block = rest.sized()?;
            if number != index {
                return Err(Fault::Damaged);
            }
            let own: [u8; 32] =
                if block.is_empty() { [0; 32] } else { Sha256::digest(block).into() };
            if hash != own {
                return Err(Fault::Damaged);
            }
            if block.is_empty() {
                break;
            }
            joined.extend_from_slice(block);
        }
        let stream = Bytes(self.field(STREAM)?).u32()?;
        let stream = InnerStream::new(stream, self.field(STREAM_KEY)?)?;
        let header_hash = Some(Sha256::digest(self.header).into());
        Ok(Content { bytes: self.inflated(joined)?, start: 0, stream, header_hash })
    }

    fn open_v4(&self, derived: &Key) -> Result<Content, Fault> {
        let mut rest = Bytes(self.body);
        if rest.array::<32>()? != *Sha256::digest(self.header) {
            return Err(Fault::Damaged);
        }
        let seed = self.field(MASTER_SEED)?;
        let key = Sha512::new().chain_update(seed).chain_update(**derived).chain_update([1]);
        let key = Zeroizing::new(key.finalize().into());
        let proof: [u8; 32] = rest.array()?;
        vouched(&key, u64::MAX, &[self.header], &proof).map_err(|_| Fault::Key)?;
        let mut payload = Zeroizing::new(Vec::with_capacity(rest.0.len()));
        for index in 0_u64.. {
            let (proof, block) = (rest.array()?, rest.sized()?);
            let length = u32::try_from(block.len()).map_err(|_| Fault::Damaged)?;
            let said = [&index.to_le_bytes()[..], &length.to_le_bytes(), block];
            vouched(&key, index, &said, &proof)?;
            if block.is_empty() {
                break;
            }
            payload.extend_from_slice(block);
        }
        self.decrypt(derived, &mut payload)?;
        let length = self.unpadded(&payload)?.len();
        payload.truncate(length);
        let bytes = self.inflated(payload)?;
        let (mut rest, mut inner) = (Bytes(&bytes), BTreeMap::new());
        loop {
            let (field, content) = (rest.u8()?, rest.sized()?);
            if field == END {
                break;
            }
            // Attachments come several times and are of no use here.
            inner.insert(field, content);
        }
        let inner = |field: u8| inner.get(&field).copied().ok_or(Fault::Damaged);
        let stream = InnerStream::new(Bytes(inner(1)?).u32()?, inner(2)?)?;
        let start = bytes.len() - rest.0.len();
        Ok(Content { bytes, start, stream, header_hash: None })
    }

    /// Decrypts in place, up to the padding.
    fn decrypt(&self, derived: &Key, payload: &mut [u8]) -> Result<(), Fault> {
        let seed = self.field(MASTER_SEED)?;
        let key: Key = Zeroizing::new(
            Sha256::new().chain_update(seed).chain_update(**derived).finalize().into(),
        );
        let nonce = self.field(NONCE)?;
        match <[u8; 16]>::try_from(self.field(CIPHER)?) {
            Ok(AES) => {
                let (blocks, rest) = Block::slice_as_chunks_mut(payload);
                if !rest.is_empty() {
                    return Err(Fault::Damaged);
                }
                cbc::Decryptor::<Aes256>::new_from_slices(&*key, nonce)
                    .map_err(|_| Fault::Damaged)?
                    .decrypt_blocks(blocks);
                Ok(())
            }
            Ok(CHACHA20) => ChaCha20::new_from_slices(&*key, nonce)
                .map_err(|_| Fault::Damaged)?
                .try_apply_keystream(payload)
                .map_err(|_| Fault::Damaged),
            _ => Err(Fault::Unsupported("its cipher")),
        }
    }

    /// Without the padding, which only AES has.
    fn unpadded<'p>(&self, payload: &'p [u8]) -> Result<&'p [u8], Fault> {
        if self.field(CIPHER)? != AES {
            return Ok(payload);
        }
        let padding = *payload.last().ok_or(Fault::Damaged)?;
        let kept = payload.len().checked_sub(padding.into()).ok_or(Fault::Damaged)?;
        let (kept, rest) = payload.split_at(kept);
        if (1..=16).contains(&padding) && rest.iter().all(|byte| *byte == padding) {
            Ok(kept)
        } else {
            Err(Fault::Damaged)
        }
    }

    fn inflated(&self, payload: Zeroizing<Vec<u8>>) -> Result<Zeroizing<Vec<u8>>, Fault> {
        match Bytes(self.field(COMPRESSION)?).u32()? {
            0 => return Ok(payload),
            1 => {}
            _ => return Err(Fault::Unsupported("its compression")),
        }
        // The last four bytes tell how much it is; room for that, so that it never moves.
        let told = payload.last_chunk().copied().map(u32::from_le_bytes).ok_or(Fault::Damaged)?;
        let told = usize::try_from(told).map_err(|_| Fault::TooLarge)?;
        if told > MAX_CONTENT {
            return Err(Fault::TooLarge);
        }
        let mut bytes = Zeroizing::new(vec![0; told]);
        let mut decoder = GzDecoder::new(&payload[..]);
        decoder.read_exact(&mut bytes).map_err(|_| Fault::Damaged)?;
        match decoder.read(&mut [0]) {
            Ok(0) => Ok(bytes),
            _ => Err(Fault::Damaged),
        }
    }

    fn field(&self, field: u8) -> Result<&'a [u8], Fault> {
        self.fields.get(&field).copied().ok_or(Fault::Damaged)
    }
}

impl Content {
    /// The document's text; its protected fields are still encrypted.
    pub(super) fn text(&self) -> Result<&str, Fault> {
        std::str::from_utf8(&self.bytes[self.start..]).map_err(|_| Fault::Damaged)
    }
}

/// Whether `proof` is that of block `index`.
fn vouched(key: &[u8; 64], index: u64, said: &[&[u8]], proof: &[u8; 32]) -> Result<(), Fault> {
    let key = Sha512::new().chain_update(index.to_le_bytes()).chain_update(key).finalize();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any key will do");
    for part in said {
        mac.update(part);
    }
    mac.verify_slice(proof).map_err(|_| Fault::Damaged)
}
