//! Decides whether a value may be released. Pure: the whole world arrives as arguments.
//!
//! An `Allow` holds an [`Allowed`], which nothing else can make; the audit chain turns it into a
//! pending entry, a durable write into a [`Recorded`](crate::audit::Recorded) one, and only that
//! gives a [`Permit`](crate::Permit). Source: design.md, section 3.

use crate::{
    ActionType, Authority, Code, EgressRule, Error, Location, OauthGrant, OnForeign, RequestFacts,
    SafeText, Scheme, SecretPath, Signer, Usage, approval::RequestId, rule::Said,
};

/// One use of a secret in one request.
#[derive(Clone, Copy, Debug)]
pub struct EgressUse<'a> {
    /// The secret.
    pub path: &'a SecretPath,
    /// What its owner says.
    pub rule: &'a EgressRule,
    /// The scheme that the request travels by.
    pub scheme: Scheme,
    /// Where the request goes.
    pub authority: &'a Authority,
    /// How the value would get into the request.
    pub by: By,
    /// What the request says of itself.
    pub request: &'a RequestFacts,
}

/// How a value gets into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// It takes its placeholder's place.
    Placeholder {
        /// The part of the request.
        location: Location,
        /// How often the placeholder has stood in this request, this time included; from 1.
        occurrence: u32,
    },
    /// The proxy sets it, or signs with it, of its own accord.
    Proxy,
}

/// The answer about one use.
#[derive(Debug)]
pub enum Verdict {
    /// The value may be used.
    Allow(Allowed),
    /// It may be used once the operator has said yes to this request.
    Ask(Held),
    /// It may not; the request is refused with this code, and why.
    Deny(Code, &'static str),
    /// The placeholder leaves as it is: this host is not the secret's.
    Pass,
}

/// The answer about a place in a request, whatever the request asks for. Releases nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceVerdict {
    /// A value may stand there, if the request is one that may have it.
    Fits,
    /// A value may not stand there.
    Deny(Code),
    /// This host is not the secret's.
    Pass,
}

/// Proof that [`decide_egress`] allowed one use. Made nowhere else.
#[derive(Debug)]
pub struct Allowed {
    pub(crate) path: SecretPath,
    pub(crate) usage: Usage,
    approval: Option<RequestId>,
}

/// A use that waits for the operator's word.
#[derive(Debug)]
pub struct Held(Allowed);

/// The operator's yes to the [`Held`] use of one secret. Whoever makes one has asked.
#[derive(Debug)]
pub struct Consent {
    path: SecretPath,
    approval: RequestId,
}

impl Consent {
    /// The yes to `held` that this approval is.
    pub fn to(held: &Held, approval: RequestId) -> Self {
        Self { path: held.path().clone(), approval }
    }
}

impl Allowed {
    pub(crate) fn new(path: SecretPath, usage: Usage) -> Self {
        Self { path, usage, approval: None }
    }

    /// What a person has allowed it by, where its rules asked for one.
    pub fn approval(&self) -> Option<&RequestId> {
        self.approval.as_ref()
    }

    /// The secret whose value may be used.
    pub fn path(&self) -> &SecretPath {
        &self.path
    }
}

impl Held {
    /// The secret whose value is asked for.
    pub fn path(&self) -> &SecretPath {
        self.0.path()
    }

    /// The use that the operator has consented to; [`Code::Internal`] when they were asked about another secret.
    pub fn with_consent(self, consent: &Consent) -> Result<Allowed, Error> {
        if consent.path != self.0.path {
            let words = SafeText::words("the consent is to ").and(&consent.path);
            return Err(Error::with(Code::Internal, words));
        }
        Ok(Allowed { approval: Some(consent.approval.clone()), ..self.0 })
    }
}

/// Decides one use at the egress door.
pub fn decide_egress(use_: &EgressUse<'_>) -> Verdict {
    let EgressUse { path, rule, scheme, authority, by, request } = *use_;
    match judge_place(rule, scheme, authority, by) {
        PlaceVerdict::Fits => {}
        PlaceVerdict::Deny(code) => return Verdict::Deny(code, ""),
        PlaceVerdict::Pass => return Verdict::Pass,
    }
    let usage = Usage::Egress { authority: authority.clone() };
    by_request(Allowed::new(path.clone(), usage), rule, authority, request)
}

/// Decides the use of a grant's stored value: at its own token URL, and nowhere else.
pub fn decide_grant<'r>(
    path: &SecretPath,
    rule: &'r EgressRule,
) -> Option<(Allowed, &'r OauthGrant)> {
    let grant = rule.oauth.as_ref()?;
    let usage = Usage::Egress { authority: grant.authority.clone() };
    Some((Allowed::new(path.clone(), usage), grant))
}

/// How a check of whether its service takes a secret uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckBy {
    /// It signs the request, as AWS has it.
    Signature,
    /// It is sent.
    Value,
}

/// Decides the use of a secret in a check of whether its service takes it: at a host that its owner has named, and
/// only in the way in which it is used there. A key to sign with is not sent, and a grant goes to its token URL alone.
pub fn decide_check(
    path: &SecretPath,
    rule: &EgressRule,
    authority: &Authority,
    by: CheckBy,
) -> Option<Allowed> {
    let in_its_way = match by {
        CheckBy::Signature => matches!(rule.sign, Some(Signer::Aws { .. })),
        CheckBy::Value => rule.sign.is_none(),
    };
    let usage = Usage::Egress { authority: authority.clone() };
    let fits = in_its_way && rule.oauth.is_none() && rule.covers(Scheme::Https, authority);
    fits.then(|| Allowed::new(path.clone(), usage))
}

/// As [`decide_check`] for a check that an agent asks for: it is a use like any other, so the rules about requests
/// hold for it.
pub fn decide_agents_check(
    path: &SecretPath,
    rule: &EgressRule,
    authority: &Authority,
    by: CheckBy,
    request: &RequestFacts,
) -> Verdict {
    match decide_check(path, rule, authority, by) {
        Some(allowed) => by_request(allowed, rule, authority, request),
        None => Verdict::Pass,
    }
}

/// Decides the use of a secret in an action that the operator runs: whoever holds the key of the vault
/// needs no grant.
pub fn allow_operators_action(path: &SecretPath, kind: ActionType) -> Allowed {
    Allowed::new(path.clone(), Usage::Action { kind })
}

/// Decides that the operator, who holds the key of the vault, may see a value.
pub fn allow_operators_eyes(path: &SecretPath) -> Allowed {
    Allowed::new(path.clone(), Usage::Reveal)
}

/// Judges where a value would stand, and toward which host.
pub fn judge_place(
    rule: &EgressRule,
    scheme: Scheme,
    authority: &Authority,
    by: By,
) -> PlaceVerdict {
    if !rule.covers(scheme, authority) {
        return toward_another(rule, scheme, authority);
    }
    match by {
        By::Placeholder { .. } if rule.inject.is_some() || rule.sign.is_some() => {
            PlaceVerdict::Deny(Code::LocationNotAllowed)
        }
        By::Placeholder { location, .. } if !rule.locations.contains(location) => {
            PlaceVerdict::Deny(Code::LocationNotAllowed)
        }
        By::Placeholder { occurrence, .. }
            if rule.max_occurrences.is_some_and(|most| occurrence > most) =>
        {
            PlaceVerdict::Deny(Code::TooManyOccurrences)
        }
        By::Placeholder { .. } | By::Proxy => PlaceVerdict::Fits,
    }
}

/// What the rules about requests make of a use that is allowed but for them.
fn by_request(
    allowed: Allowed,
    rule: &EgressRule,
    authority: &Authority,
    request: &RequestFacts,
) -> Verdict {
    match rule.judge(authority, request) {
        Said::Allow => Verdict::Allow(allowed),
        Said::Ask => Verdict::Ask(Held(allowed)),
        Said::Deny(why) => Verdict::Deny(Code::RuleDenied, why),
    }
}

/// The right host in cleartext is refused aloud, since the agent can mend it; all else is foreign.
fn toward_another(rule: &EgressRule, scheme: Scheme, authority: &Authority) -> PlaceVerdict {
    let secure_twin = rule.to.iter().any(|to| {
        scheme == Scheme::Http && to.scheme() == Scheme::Https && to.names(&authority.host)
    });
    match (secure_twin, rule.on_foreign) {
        (true, _) => PlaceVerdict::Deny(Code::Cleartext),
        (false, OnForeign::Block) => PlaceVerdict::Deny(Code::ForeignDestination),
        (false, OnForeign::Pass) => PlaceVerdict::Pass,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Destination, Injection, Locations, Otherwise, RequestRule, Sealing};

    fn decide(rule: &EgressRule, scheme: Scheme, to: &str, location: Location, n: u32) -> Verdict {
        let path = SecretPath::parse("team/github/token").unwrap();
        let authority = Authority::parse_for(to, scheme).unwrap();
        let (path, authority) = (&path, &authority);
        let by = By::Placeholder { location, occurrence: n };
        let request = &RequestFacts {
            methods: vec!["GET".into()],
            path: "/a".into(),
            ..RequestFacts::default()
        };
        decide_egress(&EgressUse { path, rule, scheme, authority, by, request })
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
        assert!(matches!(verdict, Verdict::Deny(Code::ForeignDestination, _)));
    }

    #[test]
    fn cleartext_to_its_own_host_is_refused_aloud() {
        let verdict = decide(&rule(), Scheme::Http, "api.test", Location::Header, 1);
        assert!(matches!(verdict, Verdict::Deny(Code::Cleartext, _)));
    }

    #[test]
    fn locations_and_counts_hold() {
        let less = EgressRule {
            locations: Locations::from_iter([Location::Header]),
            max_occurrences: Some(1),
            ..rule()
        };
        let body = decide(&less, Scheme::Https, "api.test", Location::Body, 1);
        assert!(matches!(body, Verdict::Deny(Code::LocationNotAllowed, _)));
        let twice = decide(&less, Scheme::Https, "api.test", Location::Header, 2);
        assert!(matches!(twice, Verdict::Deny(Code::TooManyOccurrences, _)));
    }

    #[test]
    fn requests_outside_its_rules_go_without() {
        let only = |line| EgressRule { allow: vec![RequestRule::parse(line).unwrap()], ..rule() };
        let verdict = |rule| decide(&rule, Scheme::Https, "api.test", Location::Header, 1);
        assert!(matches!(verdict(only("GET /a")), Verdict::Allow(_)));
        assert!(matches!(verdict(only("POST /a")), Verdict::Deny(Code::RuleDenied, _)));
        let ask = EgressRule { ask: only("GET /**").allow, ..rule() };
        let Verdict::Ask(asked) = verdict(ask) else { panic!("nobody is asked") };
        assert_eq!(asked.path().as_str(), "team/github/token");
        let approval = RequestId::parse("prov-070707070707").unwrap();
        let consent = Consent::to(&asked, approval.clone());
        assert_eq!(asked.with_consent(&consent).unwrap().approval(), Some(&approval));
        let other = SecretPath::parse("team/other/token").unwrap();
        let held = Held(Allowed::new(other, Usage::Reveal));
        assert_eq!(held.with_consent(&consent).unwrap_err().code(), Code::Internal);
    }

    /// Else a client could exchange its secret for a token, and do with it what the secret's rules refuse.
    #[test]
    fn a_token_that_was_minted_has_its_secrets_rules_at_the_secrets_hosts() {
        let only = vec![RequestRule::parse("POST /token").unwrap()];
        let ask = vec![RequestRule::parse("GET api.test/a").unwrap()];
        let sealing = Sealing::parse("POST api.test/token to=files.test").unwrap();
        let minted = |parent: EgressRule, host: &str| {
            decide(&parent.of_tokens(&sealing), Scheme::Https, host, Location::Body, 1)
        };
        let narrow = || EgressRule { allow: only.clone(), on_foreign: OnForeign::Block, ..rule() };
        assert!(matches!(minted(narrow(), "api.test"), Verdict::Deny(Code::RuleDenied, _)));
        assert!(matches!(minted(narrow(), "files.test"), Verdict::Allow(_)));
        let foreign = minted(narrow(), "evil.test");
        assert!(matches!(foreign, Verdict::Deny(Code::ForeignDestination, _)));
        let asking = || EgressRule { ask: ask.clone(), ..rule() };
        assert!(matches!(minted(asking(), "api.test"), Verdict::Ask(_)));
        assert!(matches!(minted(asking(), "files.test"), Verdict::Allow(_)));
        assert!(matches!(minted(rule(), "api.test"), Verdict::Allow(_)));
    }

    #[test]
    fn an_agents_check_is_judged_as_a_request() {
        let path = SecretPath::parse("team/github/token").unwrap();
        let judged = |rule: &EgressRule, host: &str| {
            let request = RequestFacts {
                methods: vec!["GET".into()],
                path: "/user".into(),
                ..RequestFacts::default()
            };
            let authority = Authority::parse_for(host, Scheme::Https).unwrap();
            decide_agents_check(&path, rule, &authority, CheckBy::Value, &request)
        };
        let lines = |line| vec![RequestRule::parse(line).unwrap()];
        assert!(matches!(judged(&rule(), "api.test"), Verdict::Allow(_)));
        assert!(matches!(judged(&rule(), "evil.test"), Verdict::Pass));
        let named = EgressRule { allow: lines("GET /user"), ..rule() };
        assert!(matches!(judged(&named, "api.test"), Verdict::Allow(_)));
        let other = EgressRule { allow: lines("GET /repos/**"), ..rule() };
        assert!(matches!(judged(&other, "api.test"), Verdict::Deny(Code::RuleDenied, _)));
        let held = EgressRule { otherwise: Otherwise::Ask, ..other };
        assert!(matches!(judged(&held, "api.test"), Verdict::Ask(_)));
        let asks = EgressRule { ask: lines("* /user"), ..rule() };
        assert!(matches!(judged(&asks, "api.test"), Verdict::Ask(_)));
        // The operator's own check goes by the host alone.
        let to = Authority::parse("api.test:443").unwrap();
        assert!(decide_check(&path, &asks, &to, CheckBy::Value).is_some());
        assert!(decide_check(&path, &asks, &to, CheckBy::Signature).is_none());
    }

    #[test]
    fn what_the_proxy_sets_has_no_placeholder() {
        let rule = EgressRule { inject: Some(Injection::parse("bearer").unwrap()), ..rule() };
        let verdict = decide(&rule, Scheme::Https, "api.test", Location::Header, 1);
        assert!(matches!(verdict, Verdict::Deny(Code::LocationNotAllowed, _)));
        let to = Authority::parse("api.test:443").unwrap();
        assert_eq!(judge_place(&rule, Scheme::Https, &to, By::Proxy), PlaceVerdict::Fits);
        assert_ne!(judge_place(&rule, Scheme::Http, &to, By::Proxy), PlaceVerdict::Fits);
    }
}
