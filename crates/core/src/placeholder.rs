//! What stands for a value on the agent's side, derived so that nothing has to be stored.
//!
//! `kloak_` + 26 characters of Crockford base32 of HMAC-SHA256(session key, path): a restored
//! snapshot of the session still matches. A look-alike keeps a real token's prefix and length for
//! tools that check formats. Source: design.md, section 2; spec/egress-secret-proxy.md, decision 1.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::SecretPath;

/// The prefix of the default form.
pub const PREFIX: &str = "kloak_";

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LETTERS_AND_DIGITS: &[u8; 62] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ULID_CHARACTERS: usize = 26;
/// 128 bits of entropy need 22 characters of base62; shorter look-alikes could be guessed.
const MIN_LOOK_ALIKE_RANDOM: usize = 22;

/// A placeholder's text: printable, high in entropy, without relation to the value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Placeholder(String);

/// The key from which one session's placeholders are derived. Not a credential, but zeroized:
/// who knows it can predict placeholders.
pub struct SessionKey(Zeroizing<[u8; 32]>);

/// The shape of a placeholder.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum PlaceholderForm {
    /// The ADR's own spelling, `kloak:` + 26 characters.
    Colon,
    /// `kloak_` + 26 characters: survives URLs, JSON, shells and the user part of Basic.
    #[default]
    Default,
    /// A real token's prefix and whole length, such as `ghp_` and 40.
    LookAlike(LookAlike),
}

/// A validated look-alike form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookAlike {
    prefix: String,
    length: usize,
}

/// Why a look-alike form can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookAlikeError {
    /// The prefix has characters that do not survive URLs and shells.
    #[error("the prefix may have letters, digits, `_` and `-` only")]
    BadPrefix,
    /// Fewer than 128 bits would be left after the prefix.
    #[error("the form leaves fewer than 22 characters after the prefix, so it could be guessed")]
    TooShort,
    /// Longer than any token we know.
    #[error("the form is longer than 512 characters")]
    TooLong,
}

impl Placeholder {
    /// Derives the placeholder of `path` in the session that owns `key`.
    pub fn derive(key: &SessionKey, path: &SecretPath, form: &PlaceholderForm) -> Self {
        match form {
            PlaceholderForm::Default => Self(ulid_like(PREFIX, key, path)),
            PlaceholderForm::Colon => Self(ulid_like("kloak:", key, path)),
            PlaceholderForm::LookAlike(look_alike) => {
                let wanted = look_alike.length - look_alike.prefix.len();
                let tail = Stream::new(key, path).take_uniform(LETTERS_AND_DIGITS, wanted);
                Self(format!("{}{tail}", look_alike.prefix))
            }
        }
    }

    /// The text that the agent holds.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl SessionKey {
    /// A session's key from 32 random bytes that the caller drew.
    pub fn from_random(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The key of session `id` under a long-lived proxy key: the fleet's deterministic derivation,
    /// HMAC(proxy key, session id).
    pub fn derive(proxy_key: &[u8], id: &str) -> Self {
        Self(Zeroizing::new(hmac_sha256(proxy_key, &[b"keyless/session\0", id.as_bytes()])))
    }
}

impl LookAlike {
    /// A form with the `prefix` and whole `length` (characters) of a real token format.
    pub fn new(prefix: &str, length: usize) -> Result<Self, LookAlikeError> {
        if !prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
            return Err(LookAlikeError::BadPrefix);
        }
        if length > 512 {
            return Err(LookAlikeError::TooLong);
        }
        if length < prefix.len() + MIN_LOOK_ALIKE_RANDOM {
            return Err(LookAlikeError::TooShort);
        }
        Ok(Self { prefix: prefix.to_owned(), length })
    }
}

fn ulid_like(prefix: &str, key: &SessionKey, path: &SecretPath) -> String {
    let bytes = hmac_sha256(&*key.0, &[b"keyless/placeholder\0", path.as_str().as_bytes()]);
    let mut number = u128::from_be_bytes(bytes[..16].try_into().expect("32 bytes hold 16"));
    let mut tail = [0_u8; ULID_CHARACTERS];
    for slot in tail.iter_mut().rev() {
        *slot = CROCKFORD[(number & 31) as usize];
        number >>= 5;
    }
    format!("{prefix}{}", String::from_utf8_lossy(&tail))
}

/// An endless stream of bytes for one path, by counting HMACs.
struct Stream<'a> {
    key: &'a SessionKey,
    path: &'a SecretPath,
    counter: u64,
    block: Vec<u8>,
}

impl<'a> Stream<'a> {
    fn new(key: &'a SessionKey, path: &'a SecretPath) -> Self {
        Self { key, path, counter: 0, block: Vec::new() }
    }

    /// `count` characters of `alphabet`, each equally likely (bytes past the last multiple are dropped).
    fn take_uniform(&mut self, alphabet: &[u8; 62], count: usize) -> String {
        let mut text = String::with_capacity(count);
        while text.len() < count {
            let byte = usize::from(self.next_byte());
            if byte < 62 * 4 {
                text.push(char::from(alphabet[byte % 62]));
            }
        }
        text
    }

    fn next_byte(&mut self) -> u8 {
        if self.block.is_empty() {
            let counter = self.counter.to_be_bytes();
            let parts =
                [b"keyless/look-alike\0".as_slice(), &counter, self.path.as_str().as_bytes()];
            self.block = hmac_sha256(&*self.key.0, &parts).to_vec();
            self.counter += 1;
        }
        self.block.pop().expect("the block was just filled")
    }
}

fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> SecretPath {
        SecretPath::parse("team/github/token").unwrap()
    }

    #[test]
    fn the_default_form_is_a_ulid_and_repeats() {
        let key = SessionKey::from_random([7; 32]);
        let first = Placeholder::derive(&key, &path(), &PlaceholderForm::Default);
        let again = Placeholder::derive(&key, &path(), &PlaceholderForm::Default);
        assert_eq!(first, again);
        assert_eq!(first.as_str().len(), PREFIX.len() + 26);
        assert!(first.as_str().bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    }

    #[test]
    fn sessions_and_paths_differ() {
        let form = PlaceholderForm::Default;
        let one = Placeholder::derive(&SessionKey::from_random([1; 32]), &path(), &form);
        let two = Placeholder::derive(&SessionKey::from_random([2; 32]), &path(), &form);
        let other = SecretPath::parse("team/github/other").unwrap();
        let three = Placeholder::derive(&SessionKey::from_random([1; 32]), &other, &form);
        assert!(one != two && one != three);
    }

    #[test]
    fn a_look_alike_keeps_prefix_and_length() {
        let form = PlaceholderForm::LookAlike(LookAlike::new("ghp_", 40).unwrap());
        let placeholder = Placeholder::derive(&SessionKey::from_random([1; 32]), &path(), &form);
        assert!(placeholder.as_str().starts_with("ghp_"));
        assert_eq!(placeholder.as_str().len(), 40);
        assert_eq!(LookAlike::new("ghp_", 20), Err(LookAlikeError::TooShort));
        assert_eq!(LookAlike::new("a b", 40), Err(LookAlikeError::BadPrefix));
    }
}
