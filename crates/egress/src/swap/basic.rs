//! `Authorization: Basic`, where a placeholder stands behind base64 (RFC 7617).

use data_encoding::{BASE64, BASE64_NOPAD};

/// A Basic credential, decoded.
pub(super) struct Basic {
    /// The scheme and the white space after it, as they were sent.
    pub(super) scheme: Vec<u8>,
    /// `user:password`.
    pub(super) credential: Vec<u8>,
}

impl Basic {
    /// Reads a header's value: the scheme in any case, either alphabet, padded or not.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let (scheme, rest) = value.split_at_checked(5)?;
        if !scheme.eq_ignore_ascii_case(b"basic") || !rest.starts_with(b" ") {
            return None;
        }
        let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
        let standard: Vec<u8> = (rest[spaces..].trim_ascii_end().iter())
            .map(|byte| match byte {
                b'-' => b'+',
                b'_' => b'/',
                other => *other,
            })
            .collect();
        let padding = standard.iter().rev().take_while(|byte| **byte == b'=').count();
        let credential = BASE64_NOPAD.decode(&standard[..standard.len() - padding]).ok()?;
        Some(Self { scheme: value[..5 + spaces].to_vec(), credential })
    }

    /// The header's value with another credential, in the standard alphabet, padded.
    pub(super) fn with(&self, credential: &[u8]) -> Vec<u8> {
        [self.scheme.as_slice(), BASE64.encode(credential).as_bytes()].concat()
    }
}
