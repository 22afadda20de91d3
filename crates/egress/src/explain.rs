//! What would happen to a request, rule by rule, and why. The rules are asked, not retold: each step
//! is what the doors and the pipeline ask, in their order.

use keyless_core::{
    Authority, AuthorityError, By, Code, EgressRule, EgressUse, Error, Location, RequestFacts,
    SafeText, Scheme, SecretPath, Signer, Slot, Verdict, decide_egress,
};
use serde::Serialize;

use crate::{Engine, Session, SessionSecret, dial::is_internal, reach::Reason};

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
    /// For each part that such a request has: `swapped`, `asks` (it waits for the operator), `left as it is`,
    /// `as its body calls` (the secret's rules look at that), or the code of the refusal.
    pub locations: Vec<(Location, &'static str)>,
    /// What the proxy does of its own accord: `sets it`, `signs`, `asks before it sets it` and the like, `does not use it`, or
    /// nothing.
    pub of_its_own: Option<&'static str>,
}

const SWAPPED: &str = "swapped";
const ASKS: &str = "asks";
const LEFT: &str = "left as it is";
const BY_BODY: &str = "as its body calls";
const UNUSED: &str = "does not use it";

impl SecretFate {
    /// As it is when each use takes the operator's word, whatever the request.
    #[must_use]
    pub fn asking(mut self) -> Self {
        for (_, fate) in self.locations.iter_mut().filter(|(_, fate)| *fate == SWAPPED) {
            *fate = ASKS;
        }
        self.of_its_own = self.of_its_own.map(once_asked);
        self
    }

    /// As it is when there is no value that may be used, for the reason that `code` says.
    #[must_use]
    pub fn without_value(mut self, code: Code) -> Self {
        let used = |fate: &&str| [SWAPPED, ASKS, BY_BODY].contains(fate);
        for (_, fate) in self.locations.iter_mut().filter(|(_, fate)| used(fate)) {
            *fate = code.as_str();
        }
        self.of_its_own = self.of_its_own.map(|_| UNUSED);
        self
    }
}

fn once_asked(what: &'static str) -> &'static str {
    match what {
        "sets it" => "asks before it sets it",
        "signs" => "asks before it signs",
        "signs handshakes" => "asks before it signs handshakes",
        other => other,
    }
}

/// A request that is asked about, or a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Which of them.
    pub asks: Asks,
    /// HTTP or HTTPS; of a login, that it goes by verified TLS alone.
    pub scheme: Scheme,
    /// Where it would go.
    pub authority: Authority,
    /// The path without its query.
    pub path: String,
    /// The method.
    pub method: String,
}

/// What leaves, and so which places there are for a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// A login at a PostgreSQL database: a password.
    Login,
    /// A request: all places but that. What a GET asks for may become a WebSocket.
    Request,
}

/// Where PostgreSQL listens.
const POSTGRES_PORT: u16 = 5432;

impl Asks {
    fn has(self, location: Location, method: &str) -> bool {
        match (self, location) {
            (Self::Login, location) => location == Location::Password,
            (Self::Request, Location::Password) => false,
            (Self::Request, Location::Websocket) => method == "GET",
            (Self::Request, _) => true,
        }
    }
}

impl Engine {
    /// Asks every rule about a request of `session`. Looks the name up, and connects to nothing.
    pub async fn explain(&self, session: &Session, asked: &Question) -> Explanation {
        let authority = &asked.authority;
        let mut steps = Vec::new();
        let mut refusal = self.ask_rules(session, authority, &mut steps).await.err();
        let passes_through = self.reach().passes_through(&authority.host);
        let table = session.table();
        let secrets = match refusal {
            None => {
                let naming = naming(table.in_force(), asked);
                steps.push(interception(&naming, asked, passes_through));
                let is_read = !naming.is_empty() && !passes_through;
                refusal = is_read.then(|| set_by_proxy(&naming, asked, &mut steps).err()).flatten();
                let asking = Asking { asked, is_read, messages: reads_messages(&naming, asked) };
                let all = table.in_force().iter().filter(|_| !passes_through);
                all.map(|secret| asking.fate(secret)).collect()
            }
            Some(_) => Vec::new(),
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
            let zone = |ip| if is_internal(ip) { "internal" } else { "external" };
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

/// The secrets for whose sake what goes there is read.
fn naming<'t>(secrets: &'t [SessionSecret], asked: &Question) -> Vec<&'t SessionSecret> {
    let Question { asks, scheme, authority, .. } = asked;
    let names = |secret: &&SessionSecret| match asks {
        // A login is carried at the very port that a secret names.
        Asks::Login => secret.rule.covers(*scheme, authority),
        Asks::Request => secret.rule.names(&authority.host),
    };
    secrets.iter().filter(names).collect()
}

fn interception(naming: &[&SessionSecret], asked: &Question, passes_through: bool) -> Step {
    let Question { asks, scheme, .. } = asked;
    let paths: Vec<&str> = naming.iter().map(|secret| secret.path.as_str()).collect();
    let why = match (paths.is_empty(), asks, scheme) {
        _ if passes_through => {
            "pass_through names the host: tunnelled, and a placeholder leaves as it is".to_owned()
        }
        (true, Asks::Login, _) => "no secret names host and port: tunnelled, untouched".to_owned(),
        (true, Asks::Request, Scheme::Https) => {
            "no secret names the host: tunnelled, untouched".to_owned()
        }
        (true, Asks::Request, Scheme::Http) => {
            "no secret names the host: forwarded as it is".to_owned()
        }
        (false, Asks::Login, _) => {
            format!("the login is read, since host and port are named by {}", paths.join(", "))
        }
        (false, Asks::Request, _) => {
            format!("requests are read, since the host is named by {}", paths.join(", "))
        }
    };
    Step { rule: "interception", passes: true, why }
}

/// Whether messages of a WebSocket are looked into: only where some secret may stand in them.
fn reads_messages(naming: &[&SessionSecret], asked: &Question) -> bool {
    let Question { scheme, authority, .. } = asked;
    let mut rules = naming.iter().map(|secret| &secret.rule);
    rules
        .any(|rule| rule.locations.contains(Location::Websocket) && rule.covers(*scheme, authority))
}

/// What the proxy fills in by itself.
#[derive(PartialEq)]
enum Place<'t> {
    Slot(&'t Slot),
    Signature(&'t str),
    Handshake,
}

fn place_of(rule: &EgressRule) -> Option<Place<'_>> {
    match (&rule.inject, &rule.sign) {
        (Some(injection), _) => Some(Place::Slot(injection.slot())),
        (None, Some(Signer::Hmac(signer))) => Some(Place::Signature(&signer.header)),
        (None, Some(Signer::TlsClient { .. })) => Some(Place::Handshake),
        // AWS's is made where the request was signed with its placeholder.
        _ => None,
    }
}

/// A place that the proxy is to fill, and for which no secret may be used, refuses the request.
fn set_by_proxy(
    naming: &[&SessionSecret],
    asked: &Question,
    steps: &mut Vec<Step>,
) -> Result<(), Error> {
    let Question { asks, scheme, authority, .. } = asked;
    if *asks == Asks::Login {
        return Ok(());
    }
    let covering = || naming.iter().filter(|secret| secret.rule.covers(*scheme, authority));
    for place in covering().filter_map(|secret| place_of(&secret.rule)) {
        let rivals = covering().filter(|secret| place_of(&secret.rule).as_ref() == Some(&place));
        let mut refusal = None;
        for secret in rivals {
            match decide(secret, asked, By::Proxy) {
                Verdict::Allow(_) | Verdict::Ask(_) => {
                    refusal = None;
                    break;
                }
                // What its body calls may still let it through.
                Verdict::Deny(..) if looks_into(secret, asked) => break,
                Verdict::Deny(code, why) if refusal.is_none() => {
                    let words = SafeText::words("the proxy would have to use ").and(&secret.path);
                    let words = if why.is_empty() { words } else { words.and(": ").and(why) };
                    refusal = Some(Error::with(code, words));
                }
                Verdict::Deny(..) | Verdict::Pass => {}
            }
        }
        if let Some(error) = refusal {
            steps.push(step("requests", Err(&error)));
            return Err(error);
        }
    }
    Ok(())
}

fn facts(asked: &Question) -> RequestFacts {
    match asked.asks {
        Asks::Login => RequestFacts::default(),
        Asks::Request => RequestFacts {
            methods: vec![asked.method.clone()],
            path: asked.path.clone(),
            ..RequestFacts::default()
        },
    }
}

fn decide(secret: &SessionSecret, asked: &Question, by: By) -> Verdict {
    let (SessionSecret { path, rule, .. }, request) = (secret, &facts(asked));
    let Question { scheme, authority, .. } = asked;
    decide_egress(&EgressUse { path, rule, scheme: *scheme, authority, by, request })
}

/// Whether its rules look at what the body calls, which nobody has said.
fn looks_into(secret: &SessionSecret, asked: &Question) -> bool {
    let Question { scheme, authority, .. } = asked;
    secret.rule.covers(*scheme, authority) && secret.rule.looks_into(authority, &facts(asked))
}

/// What is asked, and what is read of it.
struct Asking<'a> {
    asked: &'a Question,
    is_read: bool,
    messages: bool,
}

impl Asking<'_> {
    fn fate(&self, secret: &SessionSecret) -> SecretFate {
        let Question { asks, method, .. } = self.asked;
        let locations = Location::ALL.into_iter().filter(|location| asks.has(*location, method));
        SecretFate {
            path: secret.path.clone(),
            locations: locations.map(|location| (location, self.at(secret, location))).collect(),
            of_its_own: self.of_its_own(secret),
        }
    }

    fn at(&self, secret: &SessionSecret, location: Location) -> &'static str {
        if !self.is_read || location == Location::Websocket && !self.messages {
            return LEFT;
        }
        match decide(secret, self.asked, By::Placeholder { location, occurrence: 1 }) {
            Verdict::Allow(_) | Verdict::Ask(_) | Verdict::Deny(Code::RuleDenied, _)
                if looks_into(secret, self.asked) =>
            {
                BY_BODY
            }
            Verdict::Allow(_) => SWAPPED,
            Verdict::Ask(_) => ASKS,
            Verdict::Deny(code, _) => code.as_str(),
            Verdict::Pass => LEFT,
        }
    }

    fn of_its_own(&self, secret: &SessionSecret) -> Option<&'static str> {
        let Question { asks, scheme, authority, .. } = self.asked;
        let rule = &secret.rule;
        if *asks == Asks::Login || !self.is_read || !rule.covers(*scheme, authority) {
            return None;
        }
        let what = match (&rule.inject, &rule.sign) {
            (Some(_), _) => "sets it",
            (None, Some(Signer::TlsClient { .. })) => "signs handshakes",
            (None, Some(Signer::TlsChain) | None) => return None,
            (None, Some(_)) => "signs",
        };
        Some(match decide(secret, self.asked, By::Proxy) {
            _ if looks_into(secret, self.asked) => BY_BODY,
            Verdict::Allow(_) => what,
            Verdict::Ask(_) => once_asked(what),
            Verdict::Deny(..) | Verdict::Pass => UNUSED,
        })
    }
}

impl Question {
    /// Reads a URL: `http://` or `https://` (`ws://`, `wss://`), a host, a port and a path if need be. `postgres://` asks about a login.
    pub fn parse(url: &str, method: &str) -> Result<Self, Error> {
        let fault = |words: &'static str| Error::with(Code::Usage, SafeText::words(words));
        let (word, rest) = url.split_once("://").unwrap_or_default();
        let (asks, scheme) = match word.to_ascii_lowercase().as_str() {
            // A WebSocket begins with a request.
            "https" | "wss" => (Asks::Request, Scheme::Https),
            "http" | "ws" => (Asks::Request, Scheme::Http),
            "postgres" | "postgresql" => (Asks::Login, Scheme::Https),
            _ => return Err(fault("a URL begins with https://, http://, wss:// or postgres://")),
        };
        let (host, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let path = rest.split(['?', '#']).next().unwrap_or_default();
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        let unreadable = |error| {
            Error::with(Code::Usage, SafeText::words("the URL's host can't be read: ").and(error))
        };
        let authority = match asks {
            Asks::Login => login_authority(host),
            Asks::Request => Authority::parse_for(host, scheme),
        };
        let (authority, method) = (authority.map_err(unreadable)?, method.to_ascii_uppercase());
        Ok(Self { asks, scheme, authority, path, method })
    }
}

/// Of `user:password@host:port`, host and port; the rest is nothing to us.
fn login_authority(text: &str) -> Result<Authority, AuthorityError> {
    let host = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let authority = Authority::parse_for(host, Scheme::Https)?;
    let has_port = Authority::parse(host).is_ok();
    Ok(if has_port { authority } else { Authority { port: POSTGRES_PORT, ..authority } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_read_like_a_client_reads_it() {
        let read =
            |url| Question::parse(url, "GET").map(|read| (read.asks, read.authority.to_string()));
        for (url, authority) in [
            ("postgres://db.test/shop", "db.test:5432"),
            ("postgresql://u:p@db.test:6432/shop", "db.test:6432"),
            ("postgres://[::1]/", "[::1]:5432"),
        ] {
            assert_eq!(read(url), Ok((Asks::Login, authority.to_owned())), "{url}");
        }
        assert!(read("postgres:///shop").is_err());
    }

    #[test]
    fn targets_read() {
        let read = |url| {
            let read = Question::parse(url, "get")?;
            Ok::<_, Error>(format!("{} {}{}", read.method, read.authority, read.path))
        };
        assert_eq!(read("https://API.test/x?y"), Ok("GET api.test:443/x".to_owned()));
        assert_eq!(read("http://api.test:8080?/"), Ok("GET api.test:8080/".to_owned()));
        assert_eq!(read("WSS://api.test/x"), Ok("GET api.test:443/x".to_owned()));
        for bad in ["api.test", "ftp://api.test", "https:///x", "https://a@b/"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
