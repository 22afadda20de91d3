//! Access tokens from a token endpoint, asked for on the host (RFC 6749, sections 4.4 and 6).
//!
//! The daemon says when and with what, and keeps what comes; here is only the exchange, over the
//! same dialing, zones and roots as every other request. Nothing of an answer is ever repeated in
//! an error but the standard's own words.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use bytes::Bytes;
use data_encoding::BASE64;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, Request, StatusCode, Version, header};
use http_body_util::{BodyExt as _, Full, Limited};
use keyless_core::{Authority, ClientAuth, Code, Error, GrantKind, OauthGrant, SafeText, Scheme};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde_json::Value;
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::{
    Engine,
    pool::{Key, Means, Owner, UNHEARD, Wanted},
    ports::Released,
};

/// More than any token endpoint says.
const MAX_ANSWER: usize = 1 << 20;
/// From the first byte of the request to the last of the answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a token endpoint is asked.
pub struct TokenRequest<'a> {
    /// The setting.
    pub grant: &'a OauthGrant,
    /// The client's secret or the refresh token, as the grant says.
    pub credential: &'a Released,
    /// The client's secret beside a refresh token.
    pub client_secret: Option<&'a Released>,
}

/// What it gave.
pub struct TokenReply {
    /// The token that goes into requests.
    pub access_token: Zeroizing<Vec<u8>>,
    /// The refresh token that takes the old one's place.
    pub refresh_token: Option<Zeroizing<Vec<u8>>>,
    /// How long the access token is good for, in seconds, if the endpoint said so.
    pub expires_in: Option<u64>,
}

/// What a request says that holds values.
struct Said {
    form: Zeroizing<Vec<u8>>,
    basic: Option<HeaderValue>,
}

/// RFC 6749, section 5.2: what an endpoint may say of a refusal, and nothing that could be a value.
const REASONS: [&str; 6] = [
    "invalid_client",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "unauthorized_client",
    "unsupported_grant_type",
];

impl Engine {
    /// Asks a token endpoint for an access token.
    pub fn fetch_token<'a>(
        &'a self,
        request: &'a TokenRequest<'_>,
    ) -> BoxFuture<'a, Result<TokenReply, Error>> {
        Box::pin(async move {
            let patience = timeout(PATIENCE, self.exchange_token(request)).await;
            patience
                .unwrap_or_else(|_| Err(unavailable("the token endpoint did not answer in time")))
        })
    }

    async fn exchange_token(&self, request: &TokenRequest<'_>) -> Result<TokenReply, Error> {
        let authority = &request.grant.authority;
        let reach = self.reach();
        let key = Key {
            owner: Owner::Broker,
            scheme: Scheme::Https,
            authority: authority.clone(),
            pinned: reach.dialer.pin(authority).await?,
            generation: self.roots().generation,
            identity: None,
        };
        // Before anything is waited for that may outlast the permits.
        let said = Said::by(request)?;
        let roots = self.roots();
        let means = Means { dialer: &reach.dialer, roots: &roots, identity: None };
        // Always a new connection: an endpoint is asked seldom, and never twice by mistake.
        let mut connection = self.pool.get(&key, Wanted::Fresh(Instant::now()), &means).await?;
        let message = said.into_message(request.grant, connection.version())?;
        let message = message.map(|body| body.map_err(|never| match never {}).boxed_unsync());
        let answer = connection.send(message, UNHEARD).await.map_err(|failure| failure.error)?;
        let status = answer.status();
        // The connection moves only with whoever waits for something that comes over it.
        let body = pin!(Limited::new(answer.into_body(), MAX_ANSWER).collect());
        let body = connection.during(body).await;
        let body = body.map_err(|_| unavailable("the token endpoint's answer broke off"))?;
        read(status, &body.to_bytes())
    }
}

impl Said {
    fn by<'a>(request: &TokenRequest<'a>) -> Result<Self, Error> {
        let TokenRequest { grant, credential, client_secret } = request;
        let open = |released: &'a Released| released.open_toward(&grant.authority);
        let value = open(credential)?;
        let mut form = Zeroizing::new(Vec::new());
        let secret = match grant.kind {
            GrantKind::ClientCredentials => {
                put(&mut form, "grant_type", b"client_credentials");
                Some(value)
            }
            GrantKind::RefreshToken => {
                put(&mut form, "grant_type", b"refresh_token");
                put(&mut form, "refresh_token", value);
                client_secret.map(open).transpose()?
            }
        };
        if let Some(scope) = &grant.scope {
            put(&mut form, "scope", scope.replace('+', " ").as_bytes());
        }
        let mut basic = None;
        if grant.auth == ClientAuth::Basic {
            basic = Some(basic_of(&grant.client_id, secret.unwrap_or_default())?);
        } else {
            put(&mut form, "client_id", grant.client_id.as_bytes());
            if let Some(secret) = secret {
                put(&mut form, "client_secret", secret);
            }
        }
        Ok(Self { form, basic })
    }

    fn into_message(
        self,
        grant: &OauthGrant,
        version: Version,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let host = host_field(&grant.authority);
        let mut builder = Request::builder().method(Method::POST).version(version);
        builder = match version {
            Version::HTTP_2 => builder.uri(format!("https://{host}{}", grant.target)),
            _ => builder.uri(&grant.target).header(header::HOST, host),
        };
        if let Some(basic) = self.basic {
            builder = builder.header(header::AUTHORIZATION, basic);
        }
        builder
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(Full::new(Bytes::copy_from_slice(&self.form)))
            .map_err(internal)
    }
}

/// Section 2.3.1: both are form-encoded before they are joined.
fn basic_of(client_id: &str, secret: &[u8]) -> Result<HeaderValue, Error> {
    let mut pair = Zeroizing::new(Vec::new());
    encode(client_id.as_bytes(), &mut pair);
    pair.push(b':');
    encode(secret, &mut pair);
    let basic = Zeroizing::new(format!("Basic {}", BASE64.encode(&pair)));
    let mut basic = HeaderValue::try_from(basic.as_str()).map_err(internal)?;
    basic.set_sensitive(true);
    Ok(basic)
}

fn host_field(authority: &Authority) -> String {
    match authority.port {
        443 => authority.host.to_string(),
        _ => authority.to_string(),
    }
}

fn put(form: &mut Vec<u8>, name: &str, value: &[u8]) {
    if !form.is_empty() {
        form.push(b'&');
    }
    form.extend_from_slice(name.as_bytes());
    form.push(b'=');
    encode(value, form);
}

fn encode(value: &[u8], out: &mut Vec<u8>) {
    const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');
    let encoded = percent_encode(value, FORM);
    encoded.for_each(|piece| out.extend_from_slice(piece.as_bytes()));
}

fn read(status: StatusCode, body: &[u8]) -> Result<TokenReply, Error> {
    let answer: Value = match serde_json::from_slice(body) {
        Ok(answer) => answer,
        Err(_) if status.is_success() => return Err(unavailable("the answer is not JSON")),
        Err(_) => Value::Null,
    };
    if !status.is_success() {
        let said = answer["error"].as_str().unwrap_or_default();
        let reason = REASONS.into_iter().find(|reason| *reason == said);
        let words = SafeText::words("the token endpoint answered ").and(status.as_u16());
        let words = reason.map_or(words.clone(), |reason| words.and(" ").and(reason));
        return Err(Error::with(Code::TokenUnavailable, words));
    }
    let text = |name: &str| {
        let text = answer[name].as_str().filter(|text| !text.is_empty());
        text.map(|text| Zeroizing::new(text.as_bytes().to_vec()))
    };
    Ok(TokenReply {
        access_token: text("access_token").ok_or_else(|| unavailable("the answer has no token"))?,
        refresh_token: text("refresh_token"),
        // Some endpoints say it as text.
        expires_in: answer["expires_in"]
            .as_u64()
            .or_else(|| answer["expires_in"].as_str()?.parse().ok()),
    })
}

fn unavailable(why: &'static str) -> Error {
    Error::with(Code::TokenUnavailable, why.into())
}

fn internal<E>(_: E) -> Error {
    Error::with(Code::Internal, "the token request could not be put together".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let body = br#"{"access_token":"a","expires_in":"60","refresh_token":"r","x":1}"#;
        let reply = read(StatusCode::OK, body).unwrap();
        assert_eq!((&**reply.access_token, reply.expires_in), (&b"a"[..], Some(60)));
        assert_eq!(&**reply.refresh_token.unwrap(), b"r");
    }

    #[test]
    fn refusals_are_told_in_the_standards_words_only() {
        let told = |status, body: &str| read(status, body.as_bytes()).err().unwrap().message();
        let invalid = told(StatusCode::BAD_REQUEST, r#"{"error":"invalid_grant"}"#);
        assert!(invalid.contains("400 invalid_grant"), "{invalid}");
        let echo =
            told(StatusCode::BAD_REQUEST, r#"{"error":"s3cret","error_description":"s3cret"}"#);
        assert!(echo.contains("400") && !echo.contains("s3cret"), "{echo}");
        assert!(told(StatusCode::OK, "access_token=a").contains("not JSON"));
        assert!(told(StatusCode::OK, r#"{"access_token":""}"#).contains("no token"));
    }
}
