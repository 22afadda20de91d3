//! The request of a check: where the value stands in it, or what it signs.

use data_encoding::BASE64;
use jiff::Timestamp;
use keyless_core::{Authority, Error, Scheme, SigV4Request, SigV4Signer, sigv4_digest};
use keyless_egress::{Client, ClientAnswer, ClientRequest, Whose};
use keyless_vault::{Liveness, LivenessAuth, LivenessMethod};
use zeroize::Zeroizing;

/// More than any service answers to a question about a token.
const MAX_ANSWER: usize = 1 << 20;

/// What a check is made with.
pub(super) struct Credential<'a> {
    /// The value itself.
    pub(super) value: &'a [u8],
    /// The user that it belongs to, for services that name one beside it.
    pub(super) user: Option<&'a str>,
    /// The access key's id, for a value that signs.
    pub(super) key_id: Option<&'a [u8]>,
}

type Headers = Vec<(String, Zeroizing<String>)>;

/// The headers of the request; nothing when the value is no text, which a header needs.
pub(super) fn headers(
    liveness: &Liveness,
    credential: &Credential<'_>,
    now: Timestamp,
) -> Option<Headers> {
    let plain = |name: &str, text: &str| (name.to_owned(), Zeroizing::new(text.to_owned()));
    let named = |name: &str| liveness.headers.keys().any(|own| own.eq_ignore_ascii_case(name));
    let ours = [("accept", "*/*"), ("user-agent", "keyless")].into_iter();
    let mut headers: Headers =
        ours.filter(|(name, _)| !named(name)).map(|(name, text)| plain(name, text)).collect();
    headers.extend(liveness.headers.iter().map(|(name, text)| plain(name, text)));
    if liveness.body.is_some() {
        headers.push(plain("content-type", "application/json"));
    }
    let value = std::str::from_utf8(credential.value).ok()?;
    let basic = |pair: Zeroizing<String>| {
        let pair = Zeroizing::new(BASE64.encode(pair.as_bytes()));
        ("authorization".to_owned(), Zeroizing::new(format!("Basic {}", *pair)))
    };
    let carrier = match &liveness.auth {
        LivenessAuth::AwsSigv4 { service, region } => {
            let signer = SigV4Signer {
                access_key_id: std::str::from_utf8(credential.key_id?).ok()?,
                secret_access_key: credential.value,
                region,
                service,
                now,
            };
            headers.push(plain("x-amz-date", &signer.time()));
            ("authorization".to_owned(), Zeroizing::new(signed(liveness, &signer)))
        }
        LivenessAuth::BasicOfUser { .. } => {
            basic(Zeroizing::new(format!("{}:{value}", credential.user?)))
        }
        LivenessAuth::BasicPassword => basic(Zeroizing::new(format!(":{value}"))),
        LivenessAuth::BasicUser => basic(Zeroizing::new(format!("{value}:"))),
        LivenessAuth::Bearer => {
            ("authorization".to_owned(), Zeroizing::new(format!("Bearer {value}")))
        }
        LivenessAuth::Header { name, form } => {
            let (before, after) = form.as_deref().unwrap_or("{}").split_once("{}")?;
            (name.clone(), Zeroizing::new(format!("{before}{value}{after}")))
        }
    };
    headers.push(carrier);
    Some(headers)
}

/// The signature of a request without a body. A catalog's query stands there in canonical form: sorted, and escaped
/// where it has to be.
fn signed(liveness: &Liveness, signer: &SigV4Signer<'_>) -> String {
    let target = target(&liveness.url);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let host = authority(&liveness.url).map(|authority| authority.host.to_string());
    let (host, time) = (host.unwrap_or_default(), signer.time());
    let headers = vec![("host", &*host), ("x-amz-date", &*time)];
    let (method, payload) = (word(liveness.method), &*sigv4_digest(b""));
    signer.authorization(SigV4Request { method, path, query, headers, payload })
}

/// Sends it, and reads what came back.
pub(super) async fn send(
    client: &Client,
    liveness: &Liveness,
    authority: &Authority,
    headers: &Headers,
) -> Result<ClientAnswer, Error> {
    let body = liveness.body.as_ref().map(ToString::to_string).unwrap_or_default();
    let request = ClientRequest {
        method: word(liveness.method),
        target: target(&liveness.url),
        headers: headers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect(),
        body: body.as_bytes(),
    };
    client.send(Scheme::Https, authority, Whose::Catalogs, &request, MAX_ANSWER).await
}

/// The catalog has seen to it that the address is https, with a host and nothing else before the path.
pub(super) fn authority(url: &str) -> Option<Authority> {
    let rest = url.strip_prefix("https://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    Authority::parse_for(host, Scheme::Https).ok()
}

pub(super) fn word(method: LivenessMethod) -> &'static str {
    match method {
        LivenessMethod::Get => "GET",
        LivenessMethod::Head => "HEAD",
        LivenessMethod::Post => "POST",
    }
}

pub(super) fn target(url: &str) -> &str {
    let rest = url.strip_prefix("https://").unwrap_or(url);
    let path = rest.find('/').map_or("/", |at| &rest[at..]);
    path.split('#').next().unwrap_or("/")
}

pub(super) fn path_of(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use keyless_vault::Providers;

    use super::*;

    fn sent(pattern: &str, user: Option<&str>) -> Vec<String> {
        let providers = Providers::bundled();
        let liveness = providers.variant(pattern).unwrap().1.liveness.clone().unwrap();
        let credential = Credential { value: b"abc", user, key_id: Some(b"AKIDEXAMPLE") };
        let now = "2026-11-22T10:00:00Z".parse().unwrap();
        let headers = headers(&liveness, &credential, now).unwrap();
        headers.iter().skip(2).map(|(name, text)| format!("{name}: {}", **text)).collect()
    }

    #[test]
    fn where_the_value_stands() {
        assert_eq!(sent("github-pat", None), ["authorization: Bearer abc"]);
        assert_eq!(sent("clickup-token", None), ["Authorization: abc"]);
        assert_eq!(sent("discord-bot-token", None), ["authorization: Bot abc"]);
        assert_eq!(
            sent("anthropic-key", None),
            ["anthropic-version: 2023-06-01", "x-api-key: abc"]
        );
        assert_eq!(sent("twilio-auth-token", Some("AC1")), ["authorization: Basic QUMxOmFiYw=="]);
        let signed = sent("aws-secret-key", None);
        assert!(signed.iter().all(|line| !line.contains("abc")), "{signed:?}");
        let place = "Credential=AKIDEXAMPLE/20261122/us-east-1/sts/aws4_request";
        assert!(signed.last().unwrap().contains(place), "{signed:?}");
    }

    #[test]
    fn a_service_that_wants_a_client_by_its_form_gets_that_one_alone() {
        let providers = Providers::bundled();
        let said = |pattern: &str| {
            let liveness = providers.variant(pattern).unwrap().1.liveness.clone().unwrap();
            let credential = Credential { value: b"abc", user: None, key_id: None };
            let headers = headers(&liveness, &credential, Timestamp::UNIX_EPOCH).unwrap();
            let agents = headers.iter().filter(|(name, _)| name == "user-agent");
            agents.map(|(_, text)| text.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(said("github-pat"), ["keyless"]);
        assert!(matches!(&said("discord-bot-token")[..], [one] if one.starts_with("DiscordBot (")));
    }

    #[test]
    fn what_no_header_takes_is_not_sent() {
        let providers = Providers::bundled();
        let liveness = providers.variant("github-pat").unwrap().1.liveness.clone().unwrap();
        let credential = Credential { value: b"\xff", user: None, key_id: None };
        assert!(headers(&liveness, &credential, Timestamp::UNIX_EPOCH).is_none());
    }

    #[test]
    fn addresses_have_a_target() {
        assert_eq!(target("https://a.test/b?c=d#e"), "/b?c=d");
        assert_eq!(target("https://a.test"), "/");
    }
}
