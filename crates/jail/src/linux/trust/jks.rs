//! Writes a Java key store of trusted certificates, format JKS version 2.
//!
//! Every JVM reads it where it expects `cacerts`, whatever `keystore.type` says. The digest at the end
//! is an integrity check with the password that all of Java uses for it, not a protection.
//!
//! Source: `sun.security.provider.JavaKeyStore` (OpenJDK), `engineStore`.

use sha1::{Digest, Sha1};

const MAGIC: u32 = 0xfeed_feed;
const VERSION: u32 = 2;
const TRUSTED_CERTIFICATE: u32 = 2;
const PASSWORD: &str = "changeit";
const WHITENER: &[u8] = b"Mighty Aphrodite";

/// A store of these certificates (DER), under the names `keyless-0`, `keyless-1`, ...
pub(crate) fn key_store(certificates: &[Vec<u8>]) -> Vec<u8> {
    let (mut bytes, begun) = Begun::new(certificates, 0);
    bytes.extend(begun.end(&[]));
    bytes
}

/// A store of which a part is written.
#[derive(Clone)]
pub(crate) struct Begun {
    digest: Sha1,
    entries: usize,
    missing: usize,
}

impl Begun {
    /// Gives the first bytes of a store of these certificates and so many more.
    pub(crate) fn new(certificates: &[Vec<u8>], missing: usize) -> (Vec<u8>, Self) {
        let mut bytes = Vec::new();
        bytes.extend(MAGIC.to_be_bytes());
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend(length(certificates.len() + missing));
        bytes.extend(entries(0, certificates));
        let mut digest = Sha1::new();
        digest.update(PASSWORD.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>());
        digest.update(WHITENER);
        digest.update(&bytes);
        (bytes, Self { digest, entries: certificates.len(), missing })
    }

    /// How many certificates are missing.
    pub(crate) fn missing(&self) -> usize {
        self.missing
    }

    /// The last bytes, with the certificates that were missing.
    pub(crate) fn end(mut self, certificates: &[Vec<u8>]) -> Vec<u8> {
        debug_assert_eq!(certificates.len(), self.missing);
        let mut bytes = entries(self.entries, certificates);
        self.digest.update(&bytes);
        bytes.extend(self.digest.finalize());
        bytes
    }
}

fn entries(first: usize, certificates: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, certificate) in (first..).zip(certificates) {
        bytes.extend(TRUSTED_CERTIFICATE.to_be_bytes());
        bytes.extend(text(&format!("keyless-{number}")));
        // Milliseconds since 1970 of the entry's creation; nobody looks.
        bytes.extend(0_u64.to_be_bytes());
        bytes.extend(text("X.509"));
        bytes.extend(length(certificate.len()));
        bytes.extend(certificate);
    }
    bytes
}

fn length(value: usize) -> [u8; 4] {
    u32::try_from(value).expect("a trust store is far below 4 GiB").to_be_bytes()
}

/// Java's `writeUTF`, for ASCII.
fn text(value: &str) -> Vec<u8> {
    let length = u16::try_from(value.len()).expect("names here are short");
    [&length.to_be_bytes(), value.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_store_is_what_java_writes() {
        // `new KeyStore JKS; load(null); store(out, "changeit")` on OpenJDK 17.
        let bytes = key_store(&[]);
        assert_eq!(bytes[..12], [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 0]);
        assert_eq!(
            data_encoding::HEXLOWER.encode(&bytes[12..]),
            "e2686e45fb43dfa4d992dd41ceb6b21c6330d792"
        );
    }

    #[test]
    fn a_store_in_two_parts_is_the_same() {
        let all = [vec![1; 3], vec![2; 300], vec![3]];
        for first in 0..=all.len() {
            let (mut bytes, begun) = Begun::new(&all[..first], all.len() - first);
            bytes.extend(begun.end(&all[first..]));
            assert_eq!(bytes, key_store(&all), "{first}");
        }
    }
}
