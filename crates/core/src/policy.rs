//! Decides whether a value may be released. Pure: the whole world arrives as arguments.
//!
//! An `Allow` holds an [`Allowed`], which nothing else can make; the audit chain turns it into a
//! pending entry, a durable write into a [`Recorded`](crate::audit::Recorded) one, and only that
//! gives a [`Permit`](crate::Permit). Source: design.md, section 3.

use crate::{Authority, Code, EgressRule, Location, OnForeign, Scheme, SecretPath, Usage};

/// One placeholder found in one request.
#[derive(Clone, Copy, Debug)]
pub struct EgressUse<'a> {
    /// The secret that the placeholder stands for.
    pub path: &'a SecretPath,
    /// What its owner says.
    pub rule: &'a EgressRule,
    /// The scheme that the request travels by.
    pub scheme: Scheme,
    /// Where the request goes.
    pub authority: &'a Authority,
    /// The part of the request.
    pub location: Location,
    /// How often the placeholder has stood in this request, this time included; from 1.
    pub occurrence: u32,
}

/// The answer about one use.
#[derive(Debug)]
pub enum Verdict {
    /// The value may be used.
    Allow(Allowed),
    /// It may not; the request is refused with this code.
    Deny(Code),
    /// The placeholder leaves as it is: this host is not the secret's.
    Pass,
}

/// Proof that [`decide_egress`] allowed one use. Made nowhere else.
#[derive(Debug)]
pub struct Allowed {
    pub(crate) path: SecretPath,
    pub(crate) usage: Usage,
}

impl Allowed {
    /// Whose value may be used.
    pub fn path(&self) -> &SecretPath {
        &self.path
    }
}

/// Decides one use at the egress door.
pub fn decide_egress(use_: &EgressUse<'_>) -> Verdict {
    let EgressUse { path, rule, scheme, authority, location, occurrence } = *use_;
    if !rule.covers(scheme, authority) {
        return toward_another(rule, scheme, authority);
    }
    if !rule.locations.contains(location) {
        return Verdict::Deny(Code::LocationNotAllowed);
    }
    if rule.max_occurrences.is_some_and(|most| occurrence > most) {
        return Verdict::Deny(Code::TooManyOccurrences);
    }
    let usage = Usage::Egress { authority: authority.clone() };
    Verdict::Allow(Allowed { path: path.clone(), usage })
}

/// The right host in cleartext is refused aloud, since the agent can mend it; all else is foreign.
fn toward_another(rule: &EgressRule, scheme: Scheme, authority: &Authority) -> Verdict {
    let secure_twin = rule.to.iter().any(|to| {
        scheme == Scheme::Http && to.scheme() == Scheme::Https && to.names(&authority.host)
    });
    match (secure_twin, rule.on_foreign) {
        (true, _) => Verdict::Deny(Code::Cleartext),
        (false, OnForeign::Block) => Verdict::Deny(Code::ForeignDestination),
        (false, OnForeign::Pass) => Verdict::Pass,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Destination, Locations};

    fn decide(rule: &EgressRule, scheme: Scheme, to: &str, location: Location, n: u32) -> Verdict {
        let path = SecretPath::parse("team/github/token").unwrap();
        let authority = Authority::parse_for(to, scheme).unwrap();
        let (path, authority) = (&path, &authority);
        decide_egress(&EgressUse { path, rule, scheme, authority, location, occurrence: n })
    }

    fn rule() -> EgressRule {
        EgressRule::to(vec![Destination::parse("api.test").unwrap()])
    }

    #[test]
    fn its_own_host_gets_it() {
        let verdict = decide(&rule(), Scheme::Https, "api.test", Location::Header, 1);
        assert!(matches!(verdict, Verdict::Allow(_)));
    }

    #[test]
    fn elsewhere_it_passes_or_is_blocked() {
        let verdict = decide(&rule(), Scheme::Https, "evil.test", Location::Header, 1);
        assert!(matches!(verdict, Verdict::Pass));
        let other_port = decide(&rule(), Scheme::Https, "api.test:8443", Location::Header, 1);
        assert!(matches!(other_port, Verdict::Pass));
        let strict = EgressRule { on_foreign: OnForeign::Block, ..rule() };
        let verdict = decide(&strict, Scheme::Https, "evil.test", Location::Header, 1);
        assert!(matches!(verdict, Verdict::Deny(Code::ForeignDestination)));
    }

    #[test]
    fn cleartext_to_its_own_host_is_refused_aloud() {
        let verdict = decide(&rule(), Scheme::Http, "api.test", Location::Header, 1);
        assert!(matches!(verdict, Verdict::Deny(Code::Cleartext)));
    }

    #[test]
    fn locations_and_counts_hold() {
        let less = EgressRule {
            locations: Locations::from_iter([Location::Header]),
            max_occurrences: Some(1),
            ..rule()
        };
        let body = decide(&less, Scheme::Https, "api.test", Location::Body, 1);
        assert!(matches!(body, Verdict::Deny(Code::LocationNotAllowed)));
        let twice = decide(&less, Scheme::Https, "api.test", Location::Header, 2);
        assert!(matches!(twice, Verdict::Deny(Code::TooManyOccurrences)));
    }
}
