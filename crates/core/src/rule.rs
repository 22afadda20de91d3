//! What a secret's owner says about its use on the wire: where to, and where in a request.
//!
//! The words of the catalog and of `keyless secret add`, parsed. Deciding is in `policy`.
//! Source: design.md, section 5.

mod grant;
mod injection;
mod path_glob;
mod request_rule;
mod signer;

use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use self::request_rule::Said;
pub use self::{
    grant::{ClientAuth, GrantKind, OauthGrant, OauthGrantError, Sealing, SealingError},
    injection::{Injection, InjectionError, Slot},
    path_glob::{PathGlob, PathGlobError},
    request_rule::{
        BodyCalls, Otherwise, REGISTERED_METHODS, RequestFacts, RequestRule, RequestRuleError,
        folded_parameter, is_method,
    },
    signer::{HmacSigner, Piece, SignatureHash, Signer, SignerError},
};
use crate::{Authority, Binding, Destination, Host, Scheme};

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
    /// The requests that the value may be used for; all when there is no rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<RequestRule>,
    /// The requests that wait for the operator's approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<RequestRule>,
    /// What happens to requests that `allow` does not name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub otherwise: Otherwise,
    /// The hosts that the three before hold for; all when absent. A token that an answer brought may go to
    /// others beside its secret's.
    #[serde(skip)]
    pub ruled: Option<Vec<Destination>>,
    /// The proxy sets the value itself; a placeholder is not swapped then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inject: Option<Injection>,
    /// The value is a key: the proxy signs requests with it, and it goes nowhere itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign: Option<Signer>,
    /// The value gets access tokens, and these go into requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OauthGrant>,
    /// Answers whose tokens the agent gets placeholders for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seal: Vec<Sealing>,
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
    /// The password of a login to a PostgreSQL database.
    Password,
    /// The path of the target.
    Path,
    /// The query of the target.
    Query,
    /// The text messages of a WebSocket.
    Websocket,
}

/// A set of [`Location`]s; every part of a request unless the secret says otherwise.
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
    /// Whether a value may be anywhere in a request: nobody has said less, and the proxy puts it nowhere itself.
    pub fn says_no_place(&self) -> bool {
        let Self { locations, inject, sign, oauth, seal, .. } = self;
        *locations == Locations::ALL
            && (inject.is_none() && sign.is_none() && oauth.is_none() && seal.is_empty())
    }

    /// The rule with every default: swapped anywhere, toward `to`.
    pub fn to(to: Vec<Destination>) -> Self {
        Self {
            to,
            locations: Locations::ALL,
            max_occurrences: None,
            on_foreign: OnForeign::Pass,
            allow: Vec::new(),
            ask: Vec::new(),
            otherwise: Otherwise::Deny,
            ruled: None,
            inject: None,
            sign: None,
            oauth: None,
            seal: Vec::new(),
        }
    }

    /// The rule of a token that `sealing` keeps from the agent. It goes where the sealing says as well; at the
    /// secret's own hosts the secret's rules about requests hold, which it would be a way around else.
    #[must_use]
    pub fn of_tokens(&self, sealing: &Sealing) -> Self {
        Self {
            on_foreign: self.on_foreign,
            allow: self.allow.clone(),
            ask: self.ask.clone(),
            otherwise: self.otherwise,
            ruled: Some(self.to.clone()),
            ..Self::to(sealing.to().iter().chain(&self.to).cloned().collect())
        }
    }

    /// Whether the value may go to `authority` over `scheme`.
    pub fn covers(&self, scheme: Scheme, authority: &Authority) -> bool {
        self.to.iter().any(|destination| destination.matches(scheme, authority))
    }

    /// Whether something of the rule is about this host, so that its TLS is intercepted.
    pub fn names(&self, host: &Host) -> bool {
        self.to.iter().any(|destination| destination.names(host))
            || self.seal.iter().any(|sealing| sealing.names(host))
    }

    /// What the value may contain.
    pub fn binding(&self) -> Binding {
        match &self.sign {
            Some(Signer::TlsClient { chain: None }) => Binding::TlsClient,
            Some(signer) if signer.is_tls() => Binding::Tls,
            _ => Binding::Destinations,
        }
    }

    /// Whether it says anything about requests.
    pub fn has_request_rules(&self) -> bool {
        !self.allow.is_empty() || !self.ask.is_empty() || self.otherwise != Otherwise::Deny
    }

    /// Whether a request's body has to be looked into before it can be judged.
    pub fn looks_into(&self, at: &Authority, request: &RequestFacts) -> bool {
        self.rules(&at.host)
            && request_rule::look_into(self.allow.iter().chain(&self.ask), at, request)
    }

    /// Whether the rules would say something else if a form in the body had the server take another method.
    pub fn minds_method(&self, at: &Authority, request: &RequestFacts) -> bool {
        let rules = (&self.allow[..], &self.ask[..], self.otherwise);
        self.rules(&at.host) && request_rule::minds_method(rules, at, request)
    }

    /// Which words of the rule decide about a request to `authority`, for the log.
    pub fn deciding_words(
        &self,
        scheme: Scheme,
        authority: &Authority,
        request: &RequestFacts,
    ) -> String {
        let rules = (&self.allow[..], &self.ask[..], self.otherwise);
        let judged = self.has_request_rules() && self.rules(&authority.host);
        let words = judged.then(|| request_rule::deciding_words(rules, authority, request));
        words.flatten().unwrap_or_else(|| {
            let to = self.to.iter().find(|to| to.matches(scheme, authority));
            to.map_or_else(|| "to".to_owned(), |to| format!("to {to}"))
        })
    }

    /// What the rules about requests say.
    pub(crate) fn judge(&self, at: &Authority, request: &RequestFacts) -> Said {
        if !self.rules(&at.host) {
            return Said::Allow;
        }
        request_rule::judge((&self.allow, &self.ask, self.otherwise), at, request)
    }

    /// Whether its rules about requests hold for requests to this host.
    fn rules(&self, host: &Host) -> bool {
        self.ruled.as_ref().is_none_or(|hosts| hosts.iter().any(|to| to.names(host)))
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Location {
    /// Every location.
    pub const ALL: [Self; 7] = [
        Self::Basic,
        Self::Body,
        Self::Header,
        Self::Password,
        Self::Path,
        Self::Query,
        Self::Websocket,
    ];

    /// The word in catalogs and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Body => "body",
            Self::Header => "header",
            Self::Password => "password",
            Self::Path => "path",
            Self::Query => "query",
            Self::Websocket => "websocket",
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
    /// Every part of a request. A WebSocket's messages are none: they have to be asked for.
    pub const ALL: Self = Self(Self::bit(Location::Websocket) - 1);

    /// Whether `location` is in the set.
    pub fn contains(self, location: Location) -> bool {
        self.0 & Self::bit(location) != 0
    }

    /// The locations of the set, in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Location> {
        Location::ALL.into_iter().filter(move |location| self.contains(*location))
    }

    const fn bit(location: Location) -> u8 {
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
