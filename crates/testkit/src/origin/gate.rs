//! Who an origin admits: the check of a credential, as a real service would make it.

use data_encoding::BASE64;
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{AUTHORIZATION, WWW_AUTHENTICATE},
};

use super::handler::{Reply, reply};

/// The credential that an origin wants to see.
pub enum Gate {
    /// `Authorization: Basic` with this user (any, when `None`) and password.
    Basic {
        /// The user, if only one will do.
        user: Option<String>,
        /// The password.
        password: String,
    },
    /// `Authorization: Bearer` with this token.
    Bearer(String),
    /// `Authorization: Bearer` with a token that is to be had elsewhere, as registries of images have it.
    Minted {
        /// The token.
        token: String,
        /// The URL of where it is to be had.
        endpoint: String,
    },
    /// No credential.
    Open,
    /// `Authorization` with this token alone, as cargo sends it.
    Token(String),
}

impl Gate {
    /// Tells whether a request with `headers` may pass.
    pub fn admits(&self, headers: &HeaderMap) -> bool {
        let credential = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let (scheme, rest) = credential.and_then(|text| text.split_once(' ')).unwrap_or_default();
        match self {
            Self::Open => true,
            Self::Token(token) => credential == Some(token.as_str()),
            Self::Bearer(token) | Self::Minted { token, .. } => {
                scheme.eq_ignore_ascii_case("bearer") && rest == token
            }
            Self::Basic { user, password } => {
                scheme.eq_ignore_ascii_case("basic") && is_login(rest, user.as_deref(), password)
            }
        }
    }

    /// Returns the 401 that tells a client which scheme to use.
    pub(super) fn refusal(&self) -> Reply {
        let challenge = match self {
            Self::Basic { .. } => "Basic realm=\"origin\"".to_owned(),
            Self::Minted { endpoint, .. } => {
                format!("Bearer realm=\"{endpoint}\",service=\"origin\"")
            }
            Self::Bearer(_) | Self::Open | Self::Token(_) => "Bearer".to_owned(),
        };
        let mut refusal = reply(StatusCode::UNAUTHORIZED, "the credential is missing or wrong\n");
        let challenge = HeaderValue::try_from(challenge).expect("a challenge is a header's value");
        refusal.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        refusal
    }
}

fn is_login(encoded: &str, user: Option<&str>, password: &str) -> bool {
    let Ok(decoded) = BASE64.decode(encoded.trim().as_bytes()) else { return false };
    let decoded = String::from_utf8_lossy(&decoded);
    let Some((name, given)) = decoded.split_once(':') else { return false };
    user.is_none_or(|user| user == name) && given == password
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(authorization: &str) -> HeaderMap {
        let value = HeaderValue::from_str(authorization).unwrap();
        HeaderMap::from_iter([(AUTHORIZATION, value)])
    }

    #[test]
    fn admits_the_right_credential_only() {
        let gate = Gate::Basic { user: Some("x-access-token".into()), password: "pass".into() };
        let basic = |text: &str| headers(&format!("Basic {}", BASE64.encode(text.as_bytes())));
        assert!(gate.admits(&basic("x-access-token:pass")));
        assert!(!gate.admits(&basic("x-access-token:other")));
        assert!(!gate.admits(&basic("someone:pass")));
        assert!(!gate.admits(&HeaderMap::new()));
        assert!(Gate::Bearer("t".into()).admits(&headers("bearer t")));
        assert!(!Gate::Bearer("t".into()).admits(&headers("Bearer u")));
    }
}
