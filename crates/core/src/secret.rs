//! A credential's value: the one type that holds it, and the three ways to open it.
//!
//! No `Debug`, `Display`, `Clone`, `PartialEq` or `Serialize`: a value can't be printed, copied or
//! put into a reply by accident. Its memory is locked where the OS allows and wiped on drop. It
//! opens under a [`Permit`] for its path, or for sealing or its own source, which say so in their
//! names. The callers of all are listed in `tests/it/openings.rs`. Source: design.md, sections 1 and 3.

mod occurrence;
mod sys;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroize;

use crate::{Code, Error, Permit, Placeholder, SafeText, SecretPath, Uptime};

/// The shortest value that may be bound to a destination, in bytes: shorter ones can't be
/// scrubbed from responses without false hits.
pub const MIN_BOUND_BYTES: usize = 8;

/// A value and the path that it belongs to.
pub struct SecretValue {
    path: SecretPath,
    bytes: Box<[u8]>,
}

/// Why a value can't be used for its purpose. Never says anything of the value itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// CR, LF or NUL in a value that travels in headers.
    #[error("a value that is bound to destinations may not contain CR, LF or NUL")]
    ControlCharacter,
    /// Nothing at all.
    #[error("the value is empty")]
    Empty,
    /// The key of a TLS client without its certificates.
    #[error(
        "it has a private key and no certificate: give both in one text (cat client.key client.crt), or name the secret \
         that has the certificates, as in tls-client:PATH"
    )]
    NoCertificate,
    /// The certificates of a TLS client without its key.
    #[error(
        "it has no private key that can be used (-----BEGIN PRIVATE KEY-----, not encrypted): give key and certificates \
         in one text (cat client.key client.crt)"
    )]
    NoPrivateKey,
    /// No PEM in a value that takes part in TLS.
    #[error("the key or the certificates of a TLS client are text in PEM (-----BEGIN …)")]
    NotPem,
    /// What stands for a value, and is none.
    #[error("it begins as a placeholder of Keyless does")]
    Placeholder,
    /// Shorter than [`MIN_BOUND_BYTES`].
    #[error("a value that is bound to destinations has at least 8 bytes")]
    TooShort,
}

/// What a value will be used for, which decides what it may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// It names destinations and travels in requests.
    Destinations,
    /// It enters an isolated child; may have several lines.
    None,
    /// It is the key or the certificates of a TLS client: PEM, which stands in no request.
    Tls,
    /// It is both, in one text.
    TlsClient,
}

impl SecretValue {
    /// Takes over `bytes`; the buffer is moved, not copied, and wiped on drop.
    pub fn new(path: SecretPath, mut bytes: Vec<u8>, binding: Binding) -> Result<Self, ValueError> {
        if let Err(error) = check(&bytes, binding) {
            bytes.zeroize();
            return Err(error);
        }
        // `into_boxed_slice` may move the bytes when capacity is left over; move them ourselves
        // so that the old buffer is wiped.
        let boxed: Box<[u8]> = bytes.as_slice().into();
        bytes.zeroize();
        sys::lock(&boxed);
        Ok(Self { path, bytes: boxed })
    }

    /// The secret whose value it is.
    pub fn path(&self) -> &SecretPath {
        &self.path
    }

    /// Opens the value under a permit for its path that has not expired at `now`.
    pub fn open_with_permit(&self, permit: &Permit, now: Uptime) -> Result<&[u8], Error> {
        if permit.path() != &self.path {
            let detail = SafeText::words("the permit is for ").and(permit.path());
            return Err(Error::with(Code::Internal, detail));
        }
        if permit.is_valid_at(now) { Ok(&self.bytes) } else { Err(Code::PermitExpired.into()) }
    }

    /// Whether the value stands in `text`, such as a variable of the environment that an agent would inherit: as it is,
    /// percent-encoded, escaped as in JSON, or in base64, hex or base32. Tells nothing else of it.
    pub fn occurs_in(&self, text: &[u8]) -> bool {
        occurrence::occurs(&self.bytes, text)
    }

    /// As [`Self::occurs_in`], of a value that need not be long, and may be a word that stands anywhere: one of less than
    /// 16 bytes is the whole text, and one of less than 8 is in none.
    pub fn is_told_by(&self, text: &[u8]) -> bool {
        match self.bytes.len() {
            0..8 => false,
            8..16 => self.is(text),
            _ => self.occurs_in(text),
        }
    }

    /// Whether the value is `bytes`, which the operator who asks holds already. How long that takes does not tell where they
    /// differ.
    pub fn is(&self, bytes: &[u8]) -> bool {
        self.bytes.ct_eq(bytes).into()
    }

    /// Whether both are the same value. Tells nothing else of either.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.is(&other.bytes)
    }

    /// Opens the value to hand it to the source that keeps it, or whose own credential it is. For
    /// `vault` alone.
    pub fn expose_to_its_source(&self) -> &[u8] {
        &self.bytes
    }

    /// A second one of the same value, for a cache that gives it out. Not `Clone`, so that a copy
    /// is a decision.
    #[must_use]
    pub fn copy_for_cache(&self) -> Self {
        let bytes: Box<[u8]> = self.bytes.clone();
        sys::lock(&bytes);
        Self { path: self.path.clone(), bytes }
    }

    /// Opens the value to encrypt it into the store. For `vault` alone.
    pub fn expose_for_sealing(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for SecretValue {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

fn check(bytes: &[u8], binding: Binding) -> Result<(), ValueError> {
    if bytes.is_empty() {
        return Err(ValueError::Empty);
    }
    if Placeholder::is_begun_by(bytes) {
        return Err(ValueError::Placeholder);
    }
    match binding {
        Binding::Destinations => {}
        Binding::Tls | Binding::TlsClient if !holds(bytes, "-----BEGIN ") => {
            return Err(ValueError::NotPem);
        }
        Binding::None | Binding::Tls => return Ok(()),
        Binding::TlsClient => {
            let has_key = PRIVATE_KEYS.iter().any(|begin| holds(bytes, begin));
            let has_certificate = holds(bytes, "-----BEGIN CERTIFICATE-----");
            return match (has_key, has_certificate) {
                (true, true) => Ok(()),
                (true, false) => Err(ValueError::NoCertificate),
                (false, _) => Err(ValueError::NoPrivateKey),
            };
        }
    }
    if bytes.iter().any(|b| matches!(b, b'\r' | b'\n' | b'\0')) {
        return Err(ValueError::ControlCharacter);
    }
    if bytes.len() < MIN_BOUND_BYTES { Err(ValueError::TooShort) } else { Ok(()) }
}

/// Keys as TLS takes them (PKCS #8, PKCS #1, SEC 1).
const PRIVATE_KEYS: [&str; 3] = [
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----BEGIN EC PRIVATE KEY-----",
];

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_in_a_longer_text() {
        let path = SecretPath::parse("team/github/token").unwrap();
        let value = SecretValue::new(path, b"12345678".to_vec(), Binding::None).unwrap();
        assert!(value.occurs_in(b"Bearer 12345678") && value.occurs_in(b"12345678"));
        assert!(!value.occurs_in(b"1234567") && !value.occurs_in(b""));
        assert!(value.is_told_by(b"12345678") && !value.is_told_by(b"Bearer 12345678"));
        assert!(value.is(b"12345678") && !value.is(b"1234567") && !value.is(b"123456789"));
    }

    #[test]
    fn bound_values_are_one_long_line() {
        let path = || SecretPath::parse("team/github/token").unwrap();
        let make = |bytes: &[u8], binding| SecretValue::new(path(), bytes.to_vec(), binding).err();
        assert_eq!(make(b"", Binding::None), Some(ValueError::Empty));
        assert_eq!(make(b"1234567", Binding::Destinations), Some(ValueError::TooShort));
        for bad in [b"12345678\n", b"1234\r5678", b"1234\x005678"] {
            assert_eq!(make(bad, Binding::Destinations), Some(ValueError::ControlCharacter));
        }
        assert_eq!(make(b"two\nlines", Binding::None), None);
        assert_eq!(make(b"12345678", Binding::Destinations), None);
        assert_eq!(make(b"12345678", Binding::Tls), Some(ValueError::NotPem));
        for binding in [Binding::Destinations, Binding::None, Binding::Tls] {
            assert_eq!(make(b"kloak_0123456789", binding), Some(ValueError::Placeholder));
        }
        let (key, certificate) =
            ("-----BEGIN PRIVATE KEY-----\nMC4=\n", "-----BEGIN CERTIFICATE-----\nMII=\n");
        let both = |text: String| make(text.as_bytes(), Binding::TlsClient);
        assert_eq!(make(key.as_bytes(), Binding::Tls), None);
        assert_eq!(both(key.into()), Some(ValueError::NoCertificate));
        assert_eq!(both(certificate.into()), Some(ValueError::NoPrivateKey));
        let encrypted = key.replace("PRIVATE", "ENCRYPTED PRIVATE");
        assert_eq!(both(encrypted + certificate), Some(ValueError::NoPrivateKey));
        assert_eq!(both("12345678".into()), Some(ValueError::NotPem));
        assert_eq!(both(format!("{key}{certificate}")), None);
    }
}
