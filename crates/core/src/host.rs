//! One canonical spelling for every host that traffic can name.
//!
//! Lower case, IDNA A-labels, no trailing dot, IP literals only in their canonical form. What can't
//! be read strictly is refused, never repaired. Source: reference/egress.md (c) 3 and 6.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

/// A host name or an IP literal, canonical.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Host {
    /// An address, written as a literal.
    Ip(IpAddr),
    /// A name of letter-digit-hyphen labels (underscore allowed, as DNS does).
    Name(HostName),
}

/// A canonical DNS name: lower case, A-labels, no trailing dot. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Arc<str>);

/// Why a text is not a [`Host`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// A character that no host has (space, `%`, `@`, NUL...).
    #[error("a character that no host name has")]
    BadCharacter,
    /// An address in brackets that is not IPv6, or has a zone.
    #[error("not an IPv6 address in brackets (zones are not carried)")]
    BadIpv6,
    /// An empty or over-long label, or one that begins or ends with a hyphen.
    #[error("a label that is empty, longer than 63 bytes, or begins or ends with a hyphen")]
    BadLabel,
    /// Nothing at all.
    #[error("the host is empty")]
    Empty,
    /// IDNA refuses the name.
    #[error("not a valid internationalised name")]
    Idna,
    /// Digits and dots, octal or hexadecimal: an address in a spelling that readers disagree on.
    #[error("an IPv4 address in another spelling than four decimal numbers")]
    LegacyIpv4,
    /// Longer than a DNS name can be.
    #[error("longer than 253 bytes")]
    TooLong,
}

impl Host {
    /// Parses a host as it stands in a URL: a name, `192.0.2.1` or `[2001:db8::1]`.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(HostError::BadIpv6)?;
            return match inner.parse::<Ipv6Addr>() {
                Ok(address) => Ok(Self::Ip(address.into())),
                Err(_) => Err(HostError::BadIpv6),
            };
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Ip(address.into()));
        }
        HostName::parse(text).map(Self::Name)
    }

    /// The name, when it is one.
    pub fn as_name(&self) -> Option<&HostName> {
        match self {
            Self::Ip(_) => None,
            Self::Name(name) => Some(name),
        }
    }
}

impl HostName {
    /// Parses and canonicalises a DNS name.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.bytes().any(|b| b.is_ascii() && !is_name_byte(b)) {
            return Err(HostError::BadCharacter);
        }
        let name = if text.is_ascii() && !text.to_ascii_lowercase().contains("xn--") {
            text.to_ascii_lowercase()
        } else {
            idna::domain_to_ascii(text).map_err(|_| HostError::Idna)?
        };
        // IDNA maps some characters to ASCII that no host has: U+00B8 to a space, U+2100 to `a/c`.
        if !name.bytes().all(is_name_byte) {
            return Err(HostError::Idna);
        }
        if name.len() > 253 {
            return Err(HostError::TooLong);
        }
        if name.split('.').any(is_bad_label) {
            return Err(HostError::BadLabel);
        }
        let last = name.rsplit('.').next().expect("split gives at least one label");
        if is_number(last) { Err(HostError::LegacyIpv4) } else { Ok(Self(name.into())) }
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without its first label, if there is more than one.
    pub fn parent(&self) -> Option<&str> {
        self.0.split_once('.').map(|(_, rest)| rest)
    }
}

impl fmt::Display for Host {
    /// Writes the host as it stands in a URL: IPv6 in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Name(name) => f.write_str(&name.0),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Host {
    type Error = HostError;

    fn try_from(text: String) -> Result<Self, HostError> {
        Self::parse(&text)
    }
}

impl From<Host> for String {
    fn from(host: Host) -> Self {
        host.to_string()
    }
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

fn is_bad_label(label: &str) -> bool {
    label.is_empty() || label.len() > 63 || label.starts_with('-') || label.ends_with('-')
}

/// The WHATWG rule: a name whose last label is a number is an IPv4 address in some spelling.
fn is_number(label: &str) -> bool {
    let hexadecimal = label
        .strip_prefix("0x")
        .is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    hexadecimal || label.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_host_are_one() {
        let cases = [
            ("API.Example.COM", "api.example.com"),
            ("api.example.com.", "api.example.com"),
            ("bücher.test", "xn--bcher-kva.test"),
            ("XN--BCHER-KVA.test", "xn--bcher-kva.test"),
            ("192.0.2.1", "192.0.2.1"),
            ("[2001:DB8::0001]", "[2001:db8::1]"),
            ("_dmarc.example.com", "_dmarc.example.com"),
        ];
        for (text, canonical) in cases {
            assert_eq!(Host::parse(text).unwrap().to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn what_readers_disagree_on_is_refused() {
        let cases = [
            ("", HostError::Empty),
            (".", HostError::Empty),
            ("a..b", HostError::BadLabel),
            ("-a.test", HostError::BadLabel),
            ("0x7f.1", HostError::LegacyIpv4),
            ("2130706433", HostError::LegacyIpv4),
            ("0177.0.0.1", HostError::LegacyIpv4),
            ("127.1", HostError::LegacyIpv4),
            ("a%2eb.test", HostError::BadCharacter),
            ("user@host.test", HostError::BadCharacter),
            ("a\0.test", HostError::BadCharacter),
            ("[fe80::1%eth0]", HostError::BadIpv6),
            ("[127.0.0.1]", HostError::BadIpv6),
            ("2001:db8::1", HostError::BadCharacter),
            ("a\u{b8}b.test", HostError::Idna),
            ("a\u{2100}b.test", HostError::Idna),
        ];
        for (text, expected) in cases {
            assert_eq!(Host::parse(text), Err(expected), "{text:?}");
        }
        assert_eq!(Host::parse(&format!("{}.test", "a".repeat(64))), Err(HostError::BadLabel));
        assert_eq!(Host::parse(&["abcdefgh"; 40].join(".")), Err(HostError::TooLong));
    }
}
