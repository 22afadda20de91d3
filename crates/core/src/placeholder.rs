//! What stands for a value on the agent's side, derived so that nothing has to be stored.
//!
//! `kloak_` + 26 characters of Crockford base32 of HMAC-SHA256(session key, path): a restored
//! snapshot of the session still matches. A look-alike keeps a real token's prefix and length for
//! tools that check formats. Source: design.md, section 2; spec/egress-secret-proxy.md, decision 1.

mod look_alike;

use std::fmt;

use data_encoding::BASE32_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use sha2::Sha256;
use zeroize::Zeroizing;

use self::look_alike::Piece;
pub use self::look_alike::{LookAlike, LookAlikeError};
use crate::SecretPath;

/// The prefix of the default form.
pub const PREFIX: &str = "kloak_";

/// The prefix of the form with a colon.
const COLON_PREFIX: &str = "kloak:";

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const ULID_CHARACTERS: usize = 26;

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

impl Placeholder {
    /// Derives the placeholder of `path` in the session that owns `key`.
    pub fn derive(key: &SessionKey, path: &SecretPath, form: &PlaceholderForm) -> Self {
        match form {
            PlaceholderForm::Default => Self(ulid_like(PREFIX, key, path)),
            PlaceholderForm::Colon => Self(ulid_like(COLON_PREFIX, key, path)),
            PlaceholderForm::LookAlike(look_alike) => {
                let mut stream = Stream::new(key, path);
                let mut text = String::new();
                for piece in look_alike.pieces() {
                    match piece {
                        Piece::Fixed(fixed) => text.push_str(fixed),
                        Piece::Random(kind, count) => {
                            stream.push_uniform(&mut text, kind.alphabet(), *count);
                        }
                    }
                }
                Self(text)
            }
        }
    }

    /// Whether a text begins as one of Keyless's own forms does, so that it is no value.
    pub fn is_begun_by(text: &[u8]) -> bool {
        [PREFIX, COLON_PREFIX].iter().any(|prefix| text.starts_with(prefix.as_bytes()))
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

    /// What admits the session's programs to its proxy: 160 bits in 32 characters, the same whenever a
    /// process serves this session under this key.
    pub fn proxy_token(&self) -> Zeroizing<String> {
        let bytes = hmac_sha256(&*self.0, &[b"keyless/proxy-token\0"]);
        Zeroizing::new(BASE32_NOPAD.encode(&bytes[..20]).to_ascii_lowercase())
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

    /// Characters of `alphabet`, each as likely as any other: a byte that would favour some is left out.
    fn push_uniform(&mut self, text: &mut String, alphabet: &[u8], count: usize) {
        let fair = 256 - 256 % alphabet.len();
        let mut left = count;
        while left > 0 {
            let byte = usize::from(self.next_byte());
            if byte < fair {
                text.push(char::from(alphabet[byte % alphabet.len()]));
                left -= 1;
            }
        }
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
        assert_eq!(LookAlike::new("ghp_", 17), Err(LookAlikeError::TooShort));
        assert_eq!(LookAlike::new("a b", 40), Err(LookAlikeError::BadPrefix));
    }

    #[test]
    fn a_look_alike_keeps_to_its_form() {
        let form = PlaceholderForm::LookAlike(LookAlike::parse("pk_[8d]_[32A].[16x]").unwrap());
        let key = SessionKey::from_random([1; 32]);
        let placeholder = Placeholder::derive(&key, &path(), &form);
        let (number, rest) = placeholder.as_str()[3..].split_once('_').unwrap();
        let (capitals, hex) = rest.split_once('.').unwrap();
        assert!(number.len() == 8 && number.bytes().all(|b| b.is_ascii_digit()));
        let is_capital = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit();
        assert!(capitals.len() == 32 && capitals.bytes().all(is_capital), "{placeholder}");
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        assert!(hex.len() == 16 && hex.bytes().all(is_hex), "{placeholder}");
    }
}
