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

    /// What the loosest reader makes of a value that [`Basic::parse`] does not take: letters of no alphabet are passed over,
    /// and bits that are left over dropped. Nothing where it is another scheme's.
    pub(super) fn read_loosely(value: &[u8]) -> Vec<u8> {
        let value = value.trim_ascii_start();
        let Some((scheme, rest)) = value.split_at_checked(5) else { return Vec::new() };
        if !scheme.eq_ignore_ascii_case(b"basic") {
            return Vec::new();
        }
        let (mut read, mut bits, mut count) = (Vec::with_capacity(rest.len()), 0_u32, 0);
        for byte in rest {
            let six = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' | b'-' => 62,
                b'/' | b'_' => 63,
                _ => continue,
            };
            (bits, count) = (bits << 6 | u32::from(six), count + 6);
            if count >= 8 {
                count -= 8;
                let [.., byte] = (bits >> count).to_be_bytes();
                read.push(byte);
            }
        }
        read
    }

    /// The header's value with another credential, in the standard alphabet, padded.
    pub(super) fn with(&self, credential: &[u8]) -> Vec<u8> {
        [self.scheme.as_slice(), BASE64.encode(credential).as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_base64_to_all_is_read_as_some_would() {
        for value in ["Basic dTpw", "bAsIc\tdTpw", "Basic dT pw", "Basic d.T=p\tw==", " basic dTpw"]
        {
            assert_eq!(Basic::read_loosely(value.as_bytes()), b"u:p", "{value}");
        }
        assert_eq!(Basic::read_loosely(b"Basic dTpwcR"), b"u:pq");
        for other in ["Bearer dTpw", "Basi", "", "dTpw"] {
            assert!(Basic::read_loosely(other.as_bytes()).is_empty(), "{other}");
        }
    }
}
