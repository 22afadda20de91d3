//! From password and keyfile to the key of one database.

use std::collections::BTreeMap;

use aes::{
    Aes256, Block,
    cipher::{BlockCipherEncrypt, KeyInit},
};
use argon2::{Algorithm, Argon2, Params, Version};
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use roxmltree::Document;
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use super::{Fault, bytes::Bytes};

/// More is no setting of a person's, but a header that would hold the broker up: nothing vouches
/// for it before the key is derived.
const MAX_MEMORY: u64 = 1 << 30;
/// Bytes that Argon2 may go over in all its passes.
const MAX_WORK: u64 = 64 * MAX_MEMORY;
const MAX_ROUNDS: u64 = 1_000_000_000;

const AES: [u8; 16] = *b"\xc9\xd9\xf3\x9a\x62\x8a\x44\x60\xbf\x74\x0d\x08\xc1\x8a\x4f\xea";
const AES_OF_4: [u8; 16] = *b"\x7c\x02\xbb\x82\x79\xa7\x4a\xc0\x92\x7d\x11\x4a\x00\x64\x82\x38";
const ARGON2D: [u8; 16] = *b"\xef\x63\x6d\xdf\x8c\x29\x44\x4b\x91\xf7\xa9\xa4\x03\xe3\x0a\x0c";
const ARGON2ID: [u8; 16] = *b"\x9e\x29\x8b\x19\x56\xdb\x47\x73\xb2\x3d\xfc\x3e\xc6\xf0\xa1\xe6";

/// 32 bytes that open something.
pub(super) type Key = Zeroizing<[u8; 32]>;

/// How a database makes its key slow to guess.
pub(super) enum Derivation<'a> {
    /// Rounds of AES under a seed.
    Aes { seed: [u8; 32], rounds: u64 },
    /// Argon2, by the file's own settings.
    Argon2 { context: Argon2<'a>, salt: &'a [u8] },
}

/// The key that password and keyfile make together.
pub(super) fn composite(password: Option<&[u8]>, keyfile: Option<&[u8]>) -> Result<Key, Fault> {
    let mut hash = Sha256::new();
    if let Some(password) = password {
        let part: Key = Zeroizing::new(Sha256::digest(password).into());
        hash.update(*part);
    }
    if let Some(keyfile) = keyfile {
        hash.update(*of_keyfile(keyfile)?);
    }
    Ok(Zeroizing::new(hash.finalize().into()))
}

impl<'a> Derivation<'a> {
    /// The derivation of version 3.1, which knows one.
    pub(super) fn aes(seed: &[u8], rounds: u64) -> Result<Self, Fault> {
        let seed = seed.try_into().map_err(|_| Fault::Damaged)?;
        if rounds > MAX_ROUNDS { Err(Fault::TooMuchWork) } else { Ok(Self::Aes { seed, rounds }) }
    }

    /// The derivation of version 4, as its header's dictionary has it.
    pub(super) fn of_dictionary(dictionary: &'a [u8]) -> Result<Self, Fault> {
        let settings = Settings::parse(dictionary)?;
        let algorithm = match <[u8; 16]>::try_from(settings.bytes("$UUID")?) {
            Ok(AES | AES_OF_4) => return Self::aes(settings.bytes("S")?, settings.number("R")?),
            Ok(ARGON2D) => Algorithm::Argon2d,
            Ok(ARGON2ID) => Algorithm::Argon2id,
            _ => return Err(Fault::Unsupported("its key derivation")),
        };
        let (memory, passes) = (settings.number("M")?, settings.number("I")?);
        if memory > MAX_MEMORY || memory.checked_mul(passes).is_none_or(|work| work > MAX_WORK) {
            return Err(Fault::TooMuchWork);
        }
        let version = u32::try_from(settings.number("V")?).ok();
        let version = version.and_then(|version| Version::try_from(version).ok());
        let version = version.ok_or(Fault::Unsupported("its version of Argon2"))?;
        let narrow = |number: u64| u32::try_from(number).map_err(|_| Fault::Damaged);
        let lanes = narrow(settings.number("P")?)?;
        let params = Params::new(narrow(memory / 1024)?, narrow(passes)?, lanes, Some(32));
        let params = params.map_err(|_| Fault::Damaged)?;
        let context = Argon2::new(algorithm, version, params);
        Ok(Self::Argon2 { context, salt: settings.bytes("S")? })
    }

    /// The slow step. Blocks for as long as the database's owner chose.
    pub(super) fn derive(&self, composite: &Key) -> Result<Key, Fault> {
        let mut key = Key::default();
        match self {
            Self::Aes { seed, rounds } => {
                let cipher = Aes256::new(seed.into());
                let (left, right) = composite.split_at(16);
                let mut halves = [left, right]
                    .map(|half| Block::try_from(half).expect("half of 32 bytes is a block"));
                for _ in 0..*rounds {
                    cipher.encrypt_blocks(&mut halves);
                }
                *key =
                    Sha256::new().chain_update(halves[0]).chain_update(halves[1]).finalize().into();
                for half in &mut halves {
                    half.as_mut_slice().zeroize();
                }
            }
            Self::Argon2 { context, salt } => context
                .hash_password_into(&**composite, salt, &mut *key)
                .map_err(|_| Fault::Damaged)?,
        }
        Ok(key)
    }
}

/// The dictionary in which version 4 keeps the settings of a derivation.
struct Settings<'a>(BTreeMap<&'a [u8], &'a [u8]>);

impl<'a> Settings<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Fault> {
        let (mut bytes, mut settings) = (Bytes(bytes), BTreeMap::new());
        if bytes.u16()? >> 8 != 1 {
            return Err(Fault::Unsupported("its key derivation"));
        }
        // A type of zero ends it.
        while bytes.u8()? != 0 {
            let name = bytes.sized()?;
            settings.insert(name, bytes.sized()?);
        }
        Ok(Self(settings))
    }

    fn bytes(&self, name: &str) -> Result<&'a [u8], Fault> {
        self.0.get(name.as_bytes()).copied().ok_or(Fault::Damaged)
    }

    /// A number of four or eight bytes.
    fn number(&self, name: &str) -> Result<u64, Fault> {
        let bytes = self.bytes(name)?;
        match bytes.len() {
            4 => Bytes(bytes).u32().map(u64::from),
            _ => Bytes(bytes).u64(),
        }
    }
}

/// The key in a keyfile: XML of version 1 or 2, 32 bytes, 64 digits, or the hash of anything else.
fn of_keyfile(bytes: &[u8]) -> Result<Key, Fault> {
    if let Some(key) = std::str::from_utf8(bytes).ok().and_then(of_xml_keyfile) {
        return key;
    }
    let mut key = Key::default();
    match bytes.len() {
        32 => key.copy_from_slice(bytes),
        64 if HEXLOWER_PERMISSIVE.decode_mut(bytes, &mut *key).is_ok() => {}
        _ => *key = Sha256::digest(bytes).into(),
    }
    Ok(key)
}

/// `None` for what is no keyfile in XML.
fn of_xml_keyfile(text: &str) -> Option<Result<Key, Fault>> {
    let document = Document::parse(text).ok()?;
    let root = document.root_element();
    root.has_tag_name("KeyFile").then(|| {
        let find = |name: &str| root.descendants().find(|node| node.has_tag_name(name));
        let version = find("Version").and_then(|node| node.text()).unwrap_or_default();
        let encoding = if version.starts_with("2.") { HEXLOWER_PERMISSIVE } else { BASE64 };
        let data = find("Data").ok_or(Fault::Keyfile)?;
        // Never longer than the text, so that it does not move.
        let text = data.text().unwrap_or_default();
        let mut digits = Zeroizing::new(String::with_capacity(text.len()));
        digits.extend(text.split_ascii_whitespace());
        // Base64 wants room for its padding.
        let mut bytes = Zeroizing::new([0; 33]);
        let length = encoding.decode_len(digits.len()).map_err(|_| Fault::Keyfile)?;
        let bytes = bytes.get_mut(..length).ok_or(Fault::Keyfile)?;
        let length = encoding.decode_mut(digits.as_bytes(), bytes).map_err(|_| Fault::Keyfile)?;
        let mut key = Key::default();
        key.copy_from_slice(
            bytes.get(..length).filter(|key| key.len() == 32).ok_or(Fault::Keyfile)?,
        );
        let check = HEXLOWER_PERMISSIVE.encode(&Sha256::digest(*key)[..4]);
        match data.attribute("Hash") {
            Some(hash) if !check.eq_ignore_ascii_case(hash) => Err(Fault::Keyfile),
            _ => Ok(key),
        }
    })
}
