//! Where a secret's value may go: a host pattern with an optional port and scheme.
//!
//! `api.example.com` is port 443 over verified TLS; `*.example.com` matches exactly one label and
//! never the apex; `http://host:port` must be spelled out. Wildcards over a public suffix, where
//! anybody can register a host, are refused. Source: design.md, sections 2 and 5.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    Authority, Host, Scheme,
    authority::AuthorityError,
    host::{HostError, HostName},
};

/// A host pattern with its port and scheme.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Destination {
    pattern: Pattern,
    port: u16,
    scheme: Scheme,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Pattern {
    Exact(Host),
    /// `*.parent`: one label before it.
    OneLabelBelow(HostName),
}

/// Why a text is not a [`Destination`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// Not a host, or a port that is none.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// `*` anywhere but as the whole first label.
    #[error("`*` may only stand for the whole first label, as in `*.example.com`")]
    BadWildcard,
    /// A path, query or trailing slash.
    #[error("a destination is a host with an optional port, without a path")]
    HasPath,
    /// `*.github.io`: anybody can register a host there.
    #[error("`*.{suffix}` is a public suffix: anybody can register a host there")]
    PublicSuffix {
        /// The suffix.
        suffix: String,
    },
    /// Neither `http://` nor `https://`.
    #[error("the scheme is neither http:// nor https://")]
    UnknownScheme,
}

impl Destination {
    /// Parses `[scheme://]host[:port]` or `[scheme://]*.host[:port]`.
    pub fn parse(text: &str) -> Result<Self, DestinationError> {
        let (scheme, rest) = match text.split_once("://") {
            None => (Scheme::Https, text),
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(_) => return Err(DestinationError::UnknownScheme),
        };
        if rest.contains(['/', '?', '#']) {
            return Err(DestinationError::HasPath);
        }
        let below = rest.strip_prefix("*.");
        let name = below.unwrap_or(rest);
        if name.contains('*') {
            return Err(DestinationError::BadWildcard);
        }
        let Authority { host, port } = Authority::parse_for(name, scheme)?;
        let pattern = match (below, host) {
            (None, host) => Pattern::Exact(host),
            (Some(_), Host::Ip(_)) => return Err(DestinationError::BadWildcard),
            (Some(_), Host::Name(parent)) if is_public_suffix(&parent) => {
                return Err(DestinationError::PublicSuffix { suffix: parent.to_string() });
            }
            (Some(_), Host::Name(parent)) => Pattern::OneLabelBelow(parent),
        };
        Ok(Self { pattern, port, scheme })
    }

    /// Whether a request for `authority` over `scheme` is for this destination.
    pub fn matches(&self, scheme: Scheme, authority: &Authority) -> bool {
        self.scheme == scheme && self.port == authority.port && self.names(&authority.host)
    }

    /// Whether this destination names `host`, on whatever port: such hosts are intercepted.
    pub fn names(&self, host: &Host) -> bool {
        match &self.pattern {
            Pattern::Exact(exact) => exact == host,
            Pattern::OneLabelBelow(parent) => {
                host.as_name().is_some_and(|name| name.parent() == Some(parent.as_str()))
            }
        }
    }

    /// What both of two lists lead to: of two patterns that overlap the narrower.
    pub fn common(ours: &[Self], others: &[Self]) -> Vec<Self> {
        let mut common: Vec<_> = ours.iter().filter(|one| one.is_within(others)).collect();
        common.extend(others.iter().filter(|one| !ours.contains(one) && one.is_within(ours)));
        common.into_iter().cloned().collect()
    }

    /// Whether one of these leads wherever this one does.
    pub fn is_within(&self, these: &[Self]) -> bool {
        let is_wider = |other: &Self| match (&self.pattern, &other.pattern) {
            (Pattern::Exact(host), _) => other.names(host),
            (below, other) => below == other,
        };
        let is_beside = |other: &Self| self.port == other.port && self.scheme == other.scheme;
        these.iter().any(|other| is_beside(other) && is_wider(other))
    }

    /// Whether some host is named by both, on whatever port.
    pub fn shares_host_with(&self, other: &Self) -> bool {
        match (&self.pattern, &other.pattern) {
            (_, Pattern::Exact(host)) => self.names(host),
            (Pattern::Exact(host), _) => other.names(host),
            (below, other) => below == other,
        }
    }

    /// The one place that it leads to; nothing where `*` stands for a label.
    pub fn authority(&self) -> Option<Authority> {
        match &self.pattern {
            Pattern::Exact(host) => Some(Authority { host: host.clone(), port: self.port }),
            Pattern::OneLabelBelow(_) => None,
        }
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is a name of one word, such as `db`: a machine of one's own network, or a slip.
    pub fn is_single_label(&self) -> bool {
        match &self.pattern {
            Pattern::Exact(Host::Name(name)) => !name.as_str().contains('.'),
            Pattern::Exact(Host::Ip(_)) | Pattern::OneLabelBelow(_) => false,
        }
    }

    /// The scheme that a request must use.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scheme == Scheme::Http {
            f.write_str("http://")?;
        }
        match &self.pattern {
            Pattern::Exact(host) => write!(f, "{host}")?,
            Pattern::OneLabelBelow(parent) => write!(f, "*.{parent}")?,
        }
        if self.port == self.scheme.default_port() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Destination {
    type Error = DestinationError;

    fn try_from(text: String) -> Result<Self, DestinationError> {
        Self::parse(&text)
    }
}

impl From<Destination> for String {
    fn from(destination: Destination) -> Self {
        destination.to_string()
    }
}

impl From<HostError> for DestinationError {
    fn from(error: HostError) -> Self {
        Self::Authority(error.into())
    }
}

/// Whether anybody may register a name directly below `name`: a listed public suffix, or a whole
/// top-level domain. Unlisted names of one label (`*.test`) count as well.
fn is_public_suffix(name: &HostName) -> bool {
    psl::suffix_str(name.as_str()) == Some(name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(destination: &str, url_scheme: Scheme, authority: &str) -> bool {
        let authority = Authority::parse_for(authority, url_scheme).unwrap();
        Destination::parse(destination).unwrap().matches(url_scheme, &authority)
    }

    #[test]
    fn the_default_is_443_over_tls() {
        assert!(matches("api.test.example", Scheme::Https, "API.test.example."));
        assert!(!matches("api.test.example", Scheme::Https, "api.test.example:8443"));
        assert!(!matches("api.test.example", Scheme::Http, "api.test.example"));
        assert!(!matches("api.test.example", Scheme::Http, "api.test.example:443"));
        assert!(matches("http://api.test.example:8080", Scheme::Http, "api.test.example:8080"));
    }

    #[test]
    fn a_wildcard_is_one_label() {
        let to = |host| matches("*.svc.example.com", Scheme::Https, host);
        assert!(to("a.svc.example.com"));
        assert!(!to("svc.example.com") && !to("a.b.svc.example.com") && !to("asvc.example.com"));
    }

    #[test]
    fn what_two_lists_have_in_common_is_the_narrower() {
        let list = |text: &str| -> Vec<Destination> {
            text.split(' ').map(|one| Destination::parse(one).unwrap()).collect()
        };
        let common = |ours: &str, others: &str| {
            let common = Destination::common(&list(ours), &list(others));
            common.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        for (one, other, both) in [
            ("*.x.example", "a.x.example b.y.example", "a.x.example"),
            ("*.x.example c.example", "*.x.example", "*.x.example"),
            ("a.x.example", "a.x.example:8443 http://a.x.example:80", ""),
            ("*.x.example:8443", "a.x.example", ""),
        ] {
            assert_eq!(common(one, other), both);
            assert_eq!(common(other, one), both);
        }
    }

    #[test]
    fn only_what_names_one_host_leads_to_one_place() {
        let leads = |text: &str| {
            let authority = Destination::parse(text).unwrap().authority();
            authority.map(|authority| authority.to_string())
        };
        assert_eq!(leads("A.x.example").as_deref(), Some("a.x.example:443"));
        assert_eq!(leads("a.x.example:8443").as_deref(), Some("a.x.example:8443"));
        assert_eq!(leads("*.x.example"), None);
    }

    #[test]
    fn odd_destinations_are_refused() {
        for text in ["*", "*.", "a.*.com", "*a.example.com", "**.example.com", "*.1.2.3.4"] {
            assert!(Destination::parse(text).is_err(), "{text}");
        }
        for suffix in ["com", "co.uk", "github.io", "workers.dev", "test"] {
            let expected = DestinationError::PublicSuffix { suffix: suffix.into() };
            assert_eq!(Destination::parse(&format!("*.{suffix}")), Err(expected));
        }
        assert_eq!(Destination::parse("a.test/x"), Err(DestinationError::HasPath));
        assert_eq!(Destination::parse("ftp://a.test"), Err(DestinationError::UnknownScheme));
        assert_eq!(
            Destination::parse("u@a.test"),
            Err(DestinationError::Authority(AuthorityError::UserInfo))
        );
    }

    #[test]
    fn text_round_trips() {
        for text in ["a.test", "a.test:8443", "http://a.test", "*.example.com:8443", "[::1]:8443"] {
            assert_eq!(Destination::parse(text).unwrap().to_string(), text);
        }
    }
}
