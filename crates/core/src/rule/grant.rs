//! OAuth: access tokens that are got on the host, and answers whose tokens the agent never sees.
//!
//! ```text
//! client-credentials https://auth.example.com/token my-client scope=read+write auth=basic
//! refresh-token https://oauth2.googleapis.com/token ID client-secret=team/google/client-secret
//! POST auth.example.com/token to=api.example.com,files.example.com
//! ```
//!
//! The first two are grants: the stored value is a client's secret or a refresh token and goes to
//! the token URL alone; requests get access tokens. The third seals: what such a request is answered
//! is searched for tokens, and the agent gets placeholders for them. Source: RFC 6749; design.md,
//! section 5, "tokens minted on the way".

use std::{fmt, slice, str::FromStr};

use serde::{Deserialize, Serialize};

use super::request_rule::{RequestFacts, RequestRule, RequestRuleError, is_named};
use crate::{
    Authority, AuthorityError, Destination, DestinationError, Host, PathError, Scheme, SecretPath,
};

/// How access tokens are got with the stored value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OauthGrant {
    /// What the stored value is.
    pub kind: GrantKind,
    /// Where tokens are given out, over TLS.
    pub authority: Authority,
    /// The path and query there.
    pub target: String,
    /// The client's public name.
    pub client_id: String,
    /// What is asked for, with `+` between the words.
    pub scope: Option<String>,
    /// With a refresh token: the secret with the client's own secret, if it has one.
    pub client_secret: Option<SecretPath>,
    /// How the client names itself.
    pub auth: ClientAuth,
}

/// The two grants that need no person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantKind {
    /// The stored value is the client's secret (RFC 6749, section 4.4).
    ClientCredentials,
    /// The stored value is a refresh token (section 6).
    RefreshToken,
}

/// Where the client's name and secret stand in a token request (RFC 6749, section 2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// In `Authorization: Basic`.
    Basic,
    /// In the body.
    Body,
}

/// Requests whose answers hold tokens, and where those may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sealing {
    at: RequestRule,
    to: Vec<Destination>,
    fields: Vec<String>,
}

/// The members of an answer that are tokens, unless others are named.
const FIELDS: [&str; 3] = ["access_token", "id_token", "refresh_token"];

/// Why a text is not an [`OauthGrant`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OauthGrantError {
    /// Not one of the words.
    #[error("a grant is `client-credentials` or `refresh-token`, then URL and CLIENT-ID")]
    Form,
    /// The token URL.
    #[error("the token URL is https://HOST/PATH: {0}")]
    Host(#[from] AuthorityError),
    /// An option that is none, or does not go with the grant.
    #[error("the options are scope=, auth=basic|body, and client-secret=PATH of a refresh-token")]
    Option,
    /// The path of the client's secret.
    #[error("client-secret names a secret: {0}")]
    Path(#[from] PathError),
    /// Not `https://`, or no path.
    #[error("the token URL is https://HOST/PATH")]
    Url,
}

/// Why a text is not a [`Sealing`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealingError {
    /// A host that tokens could not go to.
    #[error("`to=` has hosts: {0}")]
    Destination(#[from] DestinationError),
    /// No host in the rule: tokens of any host would be sealed.
    #[error("it begins with METHODS HOST/PATH, as in `POST auth.example.com/token`")]
    Form,
    /// Neither `to=` nor `fields=`.
    #[error("after the path come `to=HOST,HOST` and maybe `fields=NAME,NAME`")]
    Option,
    /// The rule.
    #[error(transparent)]
    Rule(#[from] RequestRuleError),
}

impl OauthGrant {
    /// Parses a line.
    pub fn parse(text: &str) -> Result<Self, OauthGrantError> {
        let mut words = text.split_ascii_whitespace();
        let kind = match words.next() {
            Some("client-credentials") => GrantKind::ClientCredentials,
            Some("refresh-token") => GrantKind::RefreshToken,
            _ => return Err(OauthGrantError::Form),
        };
        let (Some(url), Some(client_id)) = (words.next(), words.next()) else {
            return Err(OauthGrantError::Form);
        };
        let rest = url.strip_prefix("https://").ok_or(OauthGrantError::Url)?;
        let (host, path) = rest.split_once('/').ok_or(OauthGrantError::Url)?;
        let graphic = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&byte);
        if !path.bytes().all(graphic) {
            return Err(OauthGrantError::Url);
        }
        let mut grant = Self {
            kind,
            authority: Authority::parse_for(host, Scheme::Https)?,
            target: format!("/{path}"),
            client_id: client_id.to_owned(),
            scope: None,
            client_secret: None,
            auth: ClientAuth::Body,
        };
        for word in words {
            match word.split_once('=') {
                Some(("scope", scope)) if !scope.is_empty() => grant.scope = Some(scope.to_owned()),
                Some(("auth", "basic")) => grant.auth = ClientAuth::Basic,
                Some(("auth", "body")) => grant.auth = ClientAuth::Body,
                Some(("client-secret", path)) if kind == GrantKind::RefreshToken => {
                    grant.client_secret = Some(SecretPath::parse(path)?);
                }
                _ => return Err(OauthGrantError::Option),
            }
        }
        Ok(grant)
    }
}

impl Sealing {
    /// Parses a line.
    pub fn parse(text: &str) -> Result<Self, SealingError> {
        let mut words = text.split_ascii_whitespace();
        let (Some(methods), Some(target)) = (words.next(), words.next()) else {
            return Err(SealingError::Form);
        };
        let at = RequestRule::parse(&format!("{methods} {target}"))?;
        if at.host().is_none() {
            return Err(SealingError::Form);
        }
        let mut sealing = Self { at, to: Vec::new(), fields: Vec::new() };
        for word in words {
            match word.split_once('=') {
                Some(("to", hosts)) => {
                    let hosts = hosts.split(',').map(Destination::parse);
                    sealing.to = hosts.collect::<Result<_, _>>()?;
                }
                Some(("fields", names)) if !names.split(',').any(str::is_empty) => {
                    sealing.fields = names.split(',').map(str::to_owned).collect();
                }
                _ => return Err(SealingError::Option),
            }
        }
        Ok(sealing)
    }

    /// Whether the answer to this request is searched, and nothing of it passed on that can't be.
    pub fn applies(&self, at: &Authority, request: &RequestFacts) -> bool {
        self.could_name(at, &request.methods, request)
    }

    /// Whether it would be if the request had the method that is named: some endpoints take tokens' requests by others too.
    pub fn applies_but_for_method(&self, at: &Authority, request: &RequestFacts) -> bool {
        let named = self.at.methods().first().map(slice::from_ref);
        self.could_name(at, named.unwrap_or(&request.methods), request)
    }

    fn could_name(&self, at: &Authority, methods: &[String], request: &RequestFacts) -> bool {
        let path = (!request.has_other_path).then(|| trimmed(&request.path));
        is_named(&self.at, at, methods, path)
    }

    /// Whether it is about this host, whose TLS has to be intercepted for it.
    pub fn names(&self, host: &Host) -> bool {
        self.at.host().is_some_and(|at| at.names(host))
    }

    /// Where the tokens may go beside the secret's own destinations.
    pub fn to(&self) -> &[Destination] {
        &self.to
    }

    /// The members of an answer that are tokens.
    pub fn fields(&self) -> Vec<&str> {
        if self.fields.is_empty() {
            FIELDS.to_vec()
        } else {
            self.fields.iter().map(String::as_str).collect()
        }
    }

    /// Whether a member of an answer is a token.
    pub fn is_token(&self, field: &str) -> bool {
        self.fields().contains(&field)
    }
}

/// A path without what some servers cut off its end.
fn trimmed(mut path: &str) -> &str {
    while let Some(shorter) = ["%20", "%09", "+"].iter().find_map(|end| path.strip_suffix(end)) {
        path = shorter;
    }
    path
}

impl fmt::Display for OauthGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, authority, target, client_id, scope, client_secret, auth } = self;
        let kind = match kind {
            GrantKind::ClientCredentials => "client-credentials",
            GrantKind::RefreshToken => "refresh-token",
        };
        write!(f, "{kind} https://")?;
        match authority.port {
            443 => write!(f, "{}", authority.host)?,
            _ => write!(f, "{authority}")?,
        }
        write!(f, "{target} {client_id}")?;
        if let Some(scope) = scope {
            write!(f, " scope={scope}")?;
        }
        if let Some(path) = client_secret {
            write!(f, " client-secret={path}")?;
        }
        match auth {
            ClientAuth::Basic => f.write_str(" auth=basic"),
            ClientAuth::Body => Ok(()),
        }
    }
}

impl fmt::Display for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.at)?;
        if !self.to.is_empty() {
            let to: Vec<String> = self.to.iter().map(ToString::to_string).collect();
            write!(f, " to={}", to.join(","))?;
        }
        if self.fields.is_empty() {
            return Ok(());
        }
        write!(f, " fields={}", self.fields.join(","))
    }
}

macro_rules! as_text {
    ($kind:ty, $error:ty) => {
        impl FromStr for $kind {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $kind {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, $error> {
                Self::parse(&text)
            }
        }

        impl From<$kind> for String {
            fn from(value: $kind) -> Self {
                value.to_string()
            }
        }
    };
}

as_text!(OauthGrant, OauthGrantError);
as_text!(Sealing, SealingError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_read_and_write_back() {
        for text in [
            "client-credentials https://auth.test/token my-client",
            "client-credentials https://auth.test:8443/t?x=1 id scope=a+b auth=basic",
            "refresh-token https://auth.test/token id client-secret=team/google/client-secret",
        ] {
            assert_eq!(OauthGrant::parse(text).unwrap().to_string(), text);
        }
        for (text, why) in [
            ("", OauthGrantError::Form),
            ("password https://auth.test/token id", OauthGrantError::Form),
            ("refresh-token https://auth.test/token", OauthGrantError::Form),
            ("refresh-token http://auth.test/token id", OauthGrantError::Url),
            ("refresh-token https://auth.test id", OauthGrantError::Url),
            ("refresh-token https://auth.test/token id scope=", OauthGrantError::Option),
            ("refresh-token https://auth.test/token id auth=jwt", OauthGrantError::Option),
            ("client-credentials https://a.test/t id client-secret=a/b/c", OauthGrantError::Option),
        ] {
            assert_eq!(OauthGrant::parse(text), Err(why), "{text}");
        }
    }

    #[test]
    fn sealings_say_what_and_where_to() {
        let text = "POST auth.test/token to=api.test,*.files.test fields=token";
        let sealing = Sealing::parse(text).unwrap();
        assert_eq!(sealing.to_string(), text);
        assert!(sealing.is_token("token") && !sealing.is_token("access_token"));
        let host = |name| Host::parse(name).unwrap();
        let at = |text| Authority::parse(text).unwrap();
        let post = |path: &str| RequestFacts {
            methods: vec!["POST".to_owned()],
            path: path.to_owned(),
            ..RequestFacts::default()
        };
        assert!(sealing.applies(&at("auth.test:443"), &post("/token")));
        // Some server may read these as /token, so their answers are looked into.
        for path in ["//token", "/token/", "/Token", "/token.json", "/x/../token"] {
            assert!(sealing.applies(&at("auth.test:443"), &post(path)), "{path}");
        }
        for path in ["/token%20", "/token+%20"] {
            assert!(sealing.applies(&at("auth.test:443"), &post(path)), "{path}");
        }
        let get = RequestFacts { methods: vec!["GET".to_owned()], ..post("/token") };
        assert!(!sealing.applies(&at("auth.test:443"), &get));
        assert!(sealing.applies_but_for_method(&at("auth.test:443"), &get));
        assert!(!sealing.applies(&at("auth.test:443"), &post("/other")));
        assert!(!sealing.applies_but_for_method(&at("auth.test:443"), &post("/other")));
        assert!(!sealing.applies(&at("api.test:443"), &post("/token")));
        assert!(sealing.names(&host("auth.test")));
        for (text, why) in [
            ("POST", SealingError::Form),
            ("POST /token", SealingError::Form),
            ("POST auth.test/token json-rpc:x", SealingError::Option),
            ("POST auth.test/token fields=a,", SealingError::Option),
        ] {
            assert_eq!(Sealing::parse(text), Err(why), "{text}");
        }
    }
}
