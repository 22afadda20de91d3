//! What would happen to a request, rule by rule, and why. The rules are asked, not retold: each step
//! is what the doors and the pipeline ask, in their order.

use keyless_core::{
    Authority, By, Code, EgressUse, Error, Location, RequestFacts, SafeText, Scheme, SecretPath,
    Signer, Verdict, Zone, decide_egress, zone_of,
};
use serde::Serialize;

use crate::{Engine, Session, SessionSecret, reach::Reason};

/// What would happen to one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Whether it would leave at all.
    pub allowed: bool,
    /// The code of the refusal, if it would be refused.
    pub code: Option<&'static str>,
    /// The rules, in the order in which they are asked; none after one that refuses.
    pub steps: Vec<Step>,
    /// What would become of each secret's placeholder.
    pub secrets: Vec<SecretFate>,
}

/// One rule and what it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Which rule.
    pub rule: &'static str,
    /// Whether it lets the request through.
    pub passes: bool,
    /// Why.
    pub why: String,
}

/// What would become of one secret's placeholder, by where it stands in the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SecretFate {
    /// The secret.
    pub path: SecretPath,
    /// For each part of a request: `swapped`, `asks` (it waits for the operator), `left as it is`,
    /// or the code of the refusal.
    pub locations: Vec<(Location, &'static str)>,
    /// What the proxy does of its own accord: `sets it`, `signs`, or nothing.
    pub of_its_own: Option<&'static str>,
}

/// A request that is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// HTTP or HTTPS.
    pub scheme: Scheme,
    /// Where it would go.
    pub authority: Authority,
    /// The path without its query.
    pub path: String,
    /// The method.
    pub method: String,
}

impl Engine {
    /// Asks every rule about a request of `session`. Looks the name up, and connects to nothing.
    pub async fn explain(&self, session: &Session, asked: &Question) -> Explanation {
        let Question { scheme, authority, .. } = asked;
        let mut steps = Vec::new();
        let refusal = self.ask_rules(session, authority, &mut steps).await.err();
        let passes_through = self.reach().passes_through(&authority.host);
        if refusal.is_none() {
            steps.push(interception(session, *scheme, authority, passes_through));
        }
        let table = session.table();
        let fate = |secret: &SessionSecret| fate(secret, asked);
        let secrets = match refusal {
            None if !passes_through => table.in_force().iter().map(fate).collect(),
            _ => Vec::new(),
        };
        let code = refusal.map(|error| error.code().as_str());
        Explanation { allowed: code.is_none(), code, steps, secrets }
    }

    async fn ask_rules(
        &self,
        session: &Session,
        authority: &Authority,
        steps: &mut Vec<Step>,
    ) -> Result<(), Error> {
        let reach = self.reach();
        let reason = reach.reason(session, authority);
        let why = reason.as_ref().map(|reason| words_of(*reason).to_owned());
        steps.push(step("policy", why));
        reason?;
        let pinned = reach.dialer.pin(authority).await;
        let rule = if reach.dialer.is_routed(authority) { "route" } else { "zone" };
        let why = pinned.as_ref().map(|pinned| {
            let zone = |ip| if zone_of(ip) == Zone::External { "external" } else { "internal" };
            let say = |at: &std::net::SocketAddr| format!("{at} ({})", zone(at.ip()));
            let addresses: Vec<String> = pinned.addresses().iter().map(say).collect();
            let addresses = addresses.join(", ");
            if pinned.is_through_proxy() {
                format!("sent on by name, through the upstream proxy at {addresses}")
            } else {
                addresses
            }
        });
        steps.push(step(rule, why));
        pinned.map(drop)
    }
}

fn step(rule: &'static str, why: Result<String, &Error>) -> Step {
    match why {
        Ok(why) => Step { rule, passes: true, why },
        Err(error) => Step { rule, passes: false, why: error.message() },
    }
}

fn words_of(reason: Reason) -> &'static str {
    match reason {
        Reason::Exact => "connect_to or the internal allowlist names this very host and port",
        Reason::Listed => "the allowlist has it",
        Reason::OwnSecret => "a secret of the session may go there",
        Reason::Unconfined => "the policy is allow: any external destination",
    }
}

fn interception(
    session: &Session,
    scheme: Scheme,
    authority: &Authority,
    passes_through: bool,
) -> Step {
    let table = session.table();
    let naming = table.in_force().iter().filter(|secret| secret.rule.names(&authority.host));
    let paths: Vec<&str> = naming.map(|secret| secret.path.as_str()).collect();
    let why = match (paths.is_empty(), scheme) {
        _ if passes_through => {
            "pass_through names the host: tunnelled, and a placeholder leaves as it is".to_owned()
        }
        (true, Scheme::Https) => "no secret names the host: tunnelled, untouched".to_owned(),
        (true, Scheme::Http) => "no secret names the host: forwarded as it is".to_owned(),
        (false, _) => format!("requests are read, since the host is named by {}", paths.join(", ")),
    };
    Step { rule: "interception", passes: true, why }
}

fn fate(secret: &SessionSecret, asked: &Question) -> SecretFate {
    let (path, rule) = (&secret.path, &secret.rule);
    let Question { scheme, authority, .. } = asked;
    let request = &RequestFacts {
        methods: vec![asked.method.clone()],
        path: asked.path.clone(),
        ..RequestFacts::default()
    };
    let decide = |by| {
        let one = EgressUse { path, rule, scheme: *scheme, authority, by, request };
        match decide_egress(&one) {
            Verdict::Allow(_) => "swapped",
            Verdict::Ask(_) => "asks",
            Verdict::Deny(code, _) => code.as_str(),
            Verdict::Pass => "left as it is",
        }
    };
    let at = |location| (location, decide(By::Placeholder { location, occurrence: 1 }));
    let covered = rule.covers(*scheme, authority);
    let of_its_own = match (covered, &rule.inject, &rule.sign) {
        (true, Some(_), _) => Some("sets it"),
        (true, None, Some(Signer::TlsClient { .. })) => Some("signs handshakes"),
        (true, None, Some(Signer::TlsChain)) => None,
        (true, None, Some(_)) => Some("signs"),
        _ => None,
    };
    SecretFate {
        path: path.clone(),
        locations: Location::ALL.into_iter().map(at).collect(),
        of_its_own,
    }
}

impl Question {
    /// Reads a URL: `http://` or `https://`, a host, a port and a path if need be.
    pub fn parse(url: &str, method: &str) -> Result<Self, Error> {
        let fault = |words: &'static str| Error::with(Code::Usage, SafeText::words(words));
        let (scheme, rest) = match url.split_once("://") {
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(("http", rest)) => (Scheme::Http, rest),
            _ => return Err(fault("a URL begins with https:// or http://")),
        };
        let (host, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let path = rest.split(['?', '#']).next().unwrap_or_default();
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        let authority = Authority::parse_for(host, scheme).map_err(|error| {
            Error::with(Code::Usage, SafeText::words("the URL's host can't be read: ").and(error))
        })?;
        Ok(Self { scheme, authority, path, method: method.to_ascii_uppercase() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_read() {
        let read = |url| {
            let read = Question::parse(url, "get")?;
            Ok::<_, Error>(format!("{} {}{}", read.method, read.authority, read.path))
        };
        assert_eq!(read("https://API.test/x?y"), Ok("GET api.test:443/x".to_owned()));
        assert_eq!(read("http://api.test:8080?/"), Ok("GET api.test:8080/".to_owned()));
        for bad in ["api.test", "ftp://api.test", "https:///x", "https://a@b/"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
