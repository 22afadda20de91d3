//! Where one connection or request goes: a host and a port, from a proxy head, an SNI, a `Host`
//! header or the funnel's preamble. All of them must agree; here is what "the same" means.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Host, host::HostError};

/// The longest preamble in bytes, its line feed included. Source: reference/egress.md (d).
pub const MAX_PREAMBLE_BYTES: usize = 1024;

/// A canonical host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Authority {
    /// The canonical host.
    pub host: Host,
    /// The TCP port, never 0.
    pub port: u16,
}

/// HTTP's two schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Cleartext.
    Http,
    /// Over TLS.
    Https,
}

/// Why a text is not an [`Authority`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// The port is missing, zero, or not a number up to 65535.
    #[error("the port is not a number from 1 to 65535")]
    BadPort,
    /// The host is not one.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The preamble is longer than [`MAX_PREAMBLE_BYTES`] or has no line feed.
    #[error("the preamble is not one line of at most 1024 bytes")]
    Preamble,
    /// `user@` before the host.
    #[error("user information before the host")]
    UserInfo,
}

impl Authority {
    /// Parses `host:port`; the port must be there.
    pub fn parse(text: &str) -> Result<Self, AuthorityError> {
        match split(text)? {
            (host, Some(port)) => Ok(Self { host: Host::parse(host)?, port }),
            (_, None) => Err(AuthorityError::BadPort),
        }
    }

    /// Parses `host` or `host:port`; without a port, the scheme's own is meant.
    pub fn parse_for(text: &str, scheme: Scheme) -> Result<Self, AuthorityError> {
        let (host, port) = split(text)?;
        Ok(Self { host: Host::parse(host)?, port: port.unwrap_or(scheme.default_port()) })
    }

    /// Reads a funnel's preamble, `host:port\n`, from the beginning of what arrived.
    /// `Ok(None)`: the line has not ended yet. Else the authority and how many bytes the line took.
    pub fn from_preamble(received: &[u8]) -> Result<Option<(Self, usize)>, AuthorityError> {
        let window = &received[..received.len().min(MAX_PREAMBLE_BYTES)];
        match window.iter().position(|byte| *byte == b'\n') {
            None if received.len() >= MAX_PREAMBLE_BYTES => Err(AuthorityError::Preamble),
            None => Ok(None),
            Some(end) => {
                let line = str::from_utf8(&window[..end]).map_err(|_| AuthorityError::Preamble)?;
                Ok(Some((Self::parse(line)?, end + 1)))
            }
        }
    }

    /// The preamble that names this authority, its line feed included.
    pub fn to_preamble(&self) -> String {
        format!("{self}\n")
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Scheme {
    /// 80 or 443.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

fn split(text: &str) -> Result<(&str, Option<u16>), AuthorityError> {
    if text.contains('@') {
        return Err(AuthorityError::UserInfo);
    }
    let host_end = if text.starts_with('[') { text.find(']').map_or(0, |at| at + 1) } else { 0 };
    match text[host_end..].rfind(':') {
        None => Ok((text, None)),
        Some(colon) => {
            let (host, port) = text.split_at(host_end + colon);
            Ok((host, Some(parse_port(&port[1..])?)))
        }
    }
}

fn parse_port(digits: &str) -> Result<u16, AuthorityError> {
    let decimal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match digits.parse() {
        Ok(port) if decimal && port != 0 => Ok(port),
        _ => Err(AuthorityError::BadPort),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_ports_are_folded_in() {
        let bare = Authority::parse_for("API.test", Scheme::Https).unwrap();
        assert_eq!(bare, Authority::parse("api.test.:443").unwrap());
        assert_eq!(Authority::parse_for("[::1]", Scheme::Http).unwrap().to_string(), "[::1]:80");
    }

    #[test]
    fn odd_authorities_are_refused() {
        for text in
            ["a.test", "a.test:", "a.test:0", "a.test:+1", "a.test:70000", ":443", "[::1:443"]
        {
            assert!(Authority::parse(text).is_err(), "{text}");
        }
        assert_eq!(Authority::parse("u:p@a.test:443"), Err(AuthorityError::UserInfo));
        assert!(Authority::parse("a.test:443:443").is_err());
        assert!(Authority::parse("::1:443").is_err());
    }

    #[test]
    fn a_preamble_ends_at_its_line_feed() {
        let (authority, used) = Authority::from_preamble(b"a.test:443\n\x16\x03").unwrap().unwrap();
        assert_eq!((authority.to_string().as_str(), used), ("a.test:443", 11));
        assert_eq!(Authority::from_preamble(b"a.test:4"), Ok(None));
        assert_eq!(Authority::from_preamble(&[b'a'; 1024]), Err(AuthorityError::Preamble));
        assert!(Authority::from_preamble(b"443\n").is_err());
        assert!(Authority::from_preamble(b"a.test:443\r\n").is_err());
        assert!(Authority::from_preamble(b"\xff:443\n").is_err());
    }
}
