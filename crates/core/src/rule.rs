//! What a secret's owner says about its use on the wire: where to, and where in a request.
//!
//! The words of the catalog and of `keyless secret add`, parsed. Deciding is in `policy`.
//! Source: design.md, section 5.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Authority, Destination, Host, Scheme};

/// One secret's rule for the egress door.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressRule {
    /// The hosts that may receive the value. Never empty for a secret that is bound.
    pub to: Vec<Destination>,
    /// The parts of a request in which the placeholder is swapped.
    #[serde(default)]
    pub locations: Locations,
    /// How often the placeholder may stand in one request; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_occurrences: Option<u32>,
    /// What happens to a placeholder toward a host that `to` does not name.
    #[serde(default)]
    pub on_foreign: OnForeign,
}

/// A part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Location {
    /// The decoded user and password of `Authorization: Basic`.
    Basic,
    /// The body, whatever its type.
    Body,
    /// A header's value.
    Header,
    /// The path of the target.
    Path,
    /// The query of the target.
    Query,
}

/// A set of [`Location`]s; all of them unless the secret says less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Location>", into = "Vec<Location>")]
pub struct Locations(u8);

/// What happens to a placeholder toward a host that its secret does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnForeign {
    /// The request is refused.
    Block,
    /// It leaves as it is, useless (the ADR's decision 3).
    #[default]
    Pass,
}

impl EgressRule {
    /// The rule with every default: swapped anywhere, toward `to`.
    pub fn to(to: Vec<Destination>) -> Self {
        Self { to, locations: Locations::ALL, max_occurrences: None, on_foreign: OnForeign::Pass }
    }

    /// Whether the value may go to `authority` over `scheme`.
    pub fn covers(&self, scheme: Scheme, authority: &Authority) -> bool {
        self.to.iter().any(|destination| destination.matches(scheme, authority))
    }

    /// Whether some destination names this host, so that its TLS is intercepted.
    pub fn names(&self, host: &Host) -> bool {
        self.to.iter().any(|destination| destination.names(host))
    }
}

impl Location {
    /// Every location.
    pub const ALL: [Self; 5] = [Self::Basic, Self::Body, Self::Header, Self::Path, Self::Query];

    /// The word in catalogs and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Body => "body",
            Self::Header => "header",
            Self::Path => "path",
            Self::Query => "query",
        }
    }

    /// Reads a catalog's word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|location| location.as_str() == word)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Locations {
    /// Everywhere.
    pub const ALL: Self = Self(0b1_1111);

    /// Whether `location` is in the set.
    pub fn contains(self, location: Location) -> bool {
        self.0 & Self::bit(location) != 0
    }

    /// The locations of the set, in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Location> {
        Location::ALL.into_iter().filter(move |location| self.contains(*location))
    }

    fn bit(location: Location) -> u8 {
        1 << location as u8
    }
}

impl Default for Locations {
    fn default() -> Self {
        Self::ALL
    }
}

impl FromIterator<Location> for Locations {
    fn from_iter<I: IntoIterator<Item = Location>>(locations: I) -> Self {
        Self(locations.into_iter().fold(0, |bits, location| bits | Self::bit(location)))
    }
}

impl From<Vec<Location>> for Locations {
    fn from(locations: Vec<Location>) -> Self {
        locations.into_iter().collect()
    }
}

impl From<Locations> for Vec<Location> {
    fn from(locations: Locations) -> Self {
        locations.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_can_be_said() {
        let json = r#"{"to":["api.test"],"locations":["header","basic"]}"#;
        let rule: EgressRule = serde_json::from_str(json).unwrap();
        assert!(rule.locations.contains(Location::Header));
        assert!(!rule.locations.contains(Location::Body));
        assert_eq!(rule.on_foreign, OnForeign::Pass);
        assert_eq!(rule.locations.iter().count(), 2);
        assert!(serde_json::from_str::<EgressRule>(r#"{"to":[],"extra":1}"#).is_err());
    }
}
