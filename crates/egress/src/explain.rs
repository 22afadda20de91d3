//! What would happen to a request, rule by rule, and why. The rules are asked, not retold: each step
//! is what the doors and the pipeline ask, in their order.

use keyless_core::{
    Authority, AuthorityError, By, Code, EgressUse, Error, Location, RequestFacts, SafeText,
    Scheme, SecretPath, Signer, Verdict, decide_egress,
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
    /// or the code of the refusal.
    pub locations: Vec<(Location, &'static str)>,
    /// What the proxy does of its own accord: `sets it`, `signs`, or nothing.
    pub of_its_own: Option<&'static str>,
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
        let refusal = self.ask_rules(session, authority, &mut steps).await.err();
        let passes_through = self.reach().passes_through(&authority.host);
        if refusal.is_none() {
            steps.push(interception(session, asked, passes_through));
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

fn interception(session: &Session, asked: &Question, passes_through: bool) -> Step {
    let Question { asks, scheme, authority, .. } = asked;
    let table = session.table();
    let names = |secret: &&SessionSecret| match asks {
        // A login is carried at the very port that a secret names.
        Asks::Login => secret.rule.covers(*scheme, authority),
        Asks::Request => secret.rule.names(&authority.host),
    };
    let naming = table.in_force().iter().filter(names);
    let paths: Vec<&str> = naming.map(|secret| secret.path.as_str()).collect();
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

fn fate(secret: &SessionSecret, asked: &Question) -> SecretFate {
    let (path, rule) = (&secret.path, &secret.rule);
    let Question { asks, scheme, authority, .. } = asked;
    let request = &match asks {
        Asks::Login => RequestFacts::default(),
        Asks::Request => RequestFacts {
            methods: vec![asked.method.clone()],
            path: asked.path.clone(),
            ..RequestFacts::default()
        },
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
    let covered = *asks == Asks::Request && rule.covers(*scheme, authority);
    let of_its_own = match (covered, &rule.inject, &rule.sign) {
        (true, Some(_), _) => Some("sets it"),
        (true, None, Some(Signer::TlsClient { .. })) => Some("signs handshakes"),
        (true, None, Some(Signer::TlsChain)) => None,
        (true, None, Some(_)) => Some("signs"),
        _ => None,
    };
    SecretFate {
        path: path.clone(),
        locations: Location::ALL
            .into_iter()
            .filter(|location| asks.has(*location, &asked.method))
            .map(at)
            .collect(),
        of_its_own,
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
