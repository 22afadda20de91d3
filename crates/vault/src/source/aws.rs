//! The sources `aws-secrets-manager` and `aws-ssm`: the two places where AWS keeps secrets.
//!
//! Requests are signed with the secret access key, which is the source's credential; its id stands
//! in `sources.toml`. A reference is a secret's name, with `#KEY` for one key of a secret that is
//! a JSON object; or a parameter's name. What it holds is told by names alone, page by page: no value is asked for.
//! Source: <https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html>

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use keyless_core::{SafeText, SecretPath, SecretValue, SigV4Request, SigV4Signer, sigv4_digest};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use toml::Table;
use zeroize::Zeroizing;

use super::{
    backend::{
        Answer, Backend, Capabilities, Fetched, Held, MAX_HELD, SourceFault, State, holds_too_much,
        no_text,
    },
    hashicorp::{browse_below, quoted, text_of},
    http::{HttpAnswer, HttpRequest, SourceHttp, is_ever_asked},
    supply::{Setting, Supply},
};
use crate::router::{optional, required};

/// The call that gives a secret its next value, and the one that makes it with its first; with how each names it.
const PUT: (&str, &str) = ("secretsmanager.PutSecretValue", "SecretId");
const CREATE: (&str, &str) = ("secretsmanager.CreateSecret", "Name");
const DESCRIBE: &str = "AmazonSSM.DescribeParameters";
const NOT_DESCRIBED: &str =
    "it would not say of what type the parameter is (ssm:DescribeParameters allows it): ";
const NOT_MADE: &str =
    "it has no secret of that name, and made none (secretsmanager:CreateSecret allows it): ";
const NO_KEYS: &str = "the secret is no JSON object, so that it has no keys: leave #KEY out";

/// What AWS calls its refusals, where they say more than their status: how the source is then, and why in our words.
/// Most are about one secret, or one request, and none of the source.
/// Source: <https://docs.aws.amazon.com/secretsmanager/latest/apireference/CommonErrors.html>
const REFUSALS: &[(&str, State, &str)] = &[
    ("AccessDeniedException", State::Available, NOT_ALLOWED),
    ("DecryptionFailure", State::Available, "AWS can't decrypt the secret: its KMS key"),
    ("EncryptionFailure", State::Available, "AWS can't encrypt the value: the secret's KMS key"),
    ("ExpiredTokenException", State::Locked, "its key has ended"),
    ("IncompleteSignature", State::Locked, "its key does not fit"),
    ("InternalServerError", State::Unavailable, "AWS has a fault of its own"),
    ("InternalServiceError", State::Unavailable, "AWS has a fault of its own"),
    ("InvalidClientTokenId", State::Locked, "AWS knows no such access_key_id"),
    ("InvalidKeyId", State::Available, "AWS can't use the parameter's KMS key"),
    ("InvalidParameterException", State::Available, "AWS takes no such name or value"),
    (
        "InvalidRequestException",
        State::Available,
        "the secret is in no state for this, such as scheduled for deletion",
    ),
    (
        "InvalidSignatureException",
        State::Locked,
        "the credential is not the secret of access_key_id, or this machine's clock is wrong",
    ),
    (
        "LimitExceededException",
        State::Available,
        "the account, or the secret, has as much as it may",
    ),
    ("MissingAuthenticationTokenException", State::Locked, "its key does not fit"),
    ("NotAuthorized", State::Available, NOT_ALLOWED),
    ("OptInRequired", State::Locked, "the account may not use this service"),
    ("ParameterLimitExceeded", State::Available, "the account has as many parameters as it may"),
    ("RequestExpired", State::Locked, "this machine's clock is wrong"),
    ("ServiceUnavailable", State::Unavailable, "AWS can't answer now"),
    ("ThrottlingException", State::Unavailable, "it is asked too often"),
    ("TooManyUpdates", State::Available, "somebody else writes it now; try again"),
    ("UnrecognizedClientException", State::Locked, "AWS knows no such access_key_id"),
    ("ValidationException", State::Available, "AWS takes no such name or value"),
];
/// It was let in, and what it may is said name by name.
const NOT_ALLOWED: &str = "its key is not allowed to do this; reading takes secretsmanager:GetSecretValue or ssm:GetParameter, and kms:Decrypt";

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwsService {
    SecretsManager,
    Ssm,
}

/// One account and region.
pub(crate) struct AwsSource {
    http: Arc<dyn SourceHttp>,
    service: AwsService,
    region: String,
    endpoint: String,
    access_key_id: Setting,
    /// Names that begin so are looked through; empty for all.
    browse_below: String,
}

#[derive(Deserialize)]
struct SecretAnswer<'a> {
    #[serde(rename = "SecretString", borrow)]
    text: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ParameterAnswer<'a> {
    #[serde(rename = "Parameter", borrow)]
    parameter: Parameter<'a>,
}

#[derive(Deserialize)]
struct Parameter<'a> {
    #[serde(rename = "Value", borrow)]
    value: &'a RawValue,
}

/// A page of `ListSecrets` or `DescribeParameters`.
#[derive(Deserialize)]
struct Page {
    #[serde(rename = "SecretList", alias = "Parameters", default)]
    held: Vec<Named>,
    #[serde(rename = "NextToken")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "Name")]
    name: String,
}

#[derive(Deserialize)]
struct Descriptions {
    #[serde(rename = "Parameters", default)]
    parameters: Vec<Described>,
    #[serde(rename = "NextToken")]
    next: Option<String>,
}

/// What a parameter is, without its value.
#[derive(Deserialize)]
struct Described {
    #[serde(rename = "Type")]
    kind: String,
    /// The key that it is encrypted with.
    #[serde(rename = "KeyId")]
    key: Option<String>,
}

#[derive(Deserialize)]
struct FaultAnswer<'a> {
    #[serde(rename = "__type", borrow, default)]
    kind: &'a str,
}

impl AwsSource {
    pub(crate) fn new(
        service: AwsService,
        settings: &Table,
        http: Arc<dyn SourceHttp>,
    ) -> Result<Self, String> {
        let region = required(settings, "region")?;
        if !region.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
            return Err("region is no region".to_owned());
        }
        let host = format!("https://{}.{region}.amazonaws.com", service.name());
        let endpoint = optional(settings, "endpoint")?.unwrap_or(host);
        if !is_ever_asked(&endpoint) {
            return Err("endpoint is no https:// URL (http:// is for this machine alone: localhost, 127.0.0.1)".to_owned());
        }
        Ok(Self {
            http,
            service,
            endpoint,
            access_key_id: Setting::parse(&required(settings, "access_key_id")?)?,
            browse_below: browse_below(settings)?,
            region,
        })
    }

    /// The names after those that ended with `next`.
    async fn page(&self, next: Option<&str>, with: &Supply) -> Result<Page, SourceFault> {
        let below = (!self.browse_below.is_empty()).then_some(self.browse_below.as_str());
        // Each takes as many as it may give at once. Parameters are described, not got: getting by path brings values.
        let (target, mut asked) = match self.service {
            AwsService::SecretsManager => {
                ("secretsmanager.ListSecrets", json!({ "MaxResults": 100 }))
            }
            AwsService::Ssm => (DESCRIBE, json!({ "MaxResults": 50 })),
        };
        match (self.service, below) {
            (_, None) => {}
            (AwsService::SecretsManager, Some(below)) => {
                asked["Filters"] = json!([{ "Key": "name", "Values": [below] }]);
            }
            (AwsService::Ssm, Some(below)) => {
                let path = format!("/{}", below.trim_end_matches('/'));
                let filter = json!({ "Key": "Path", "Option": "Recursive", "Values": [path] });
                asked["ParameterFilters"] = json!([filter]);
            }
        }
        if let Some(next) = next {
            asked["NextToken"] = json!(next);
        }
        let body = Zeroizing::new(asked.to_string().into_bytes());
        let answer = self.call(target, body, with).await?;
        if answer.status != 200 {
            refusal(&answer)?;
            return Err(unreadable());
        }
        serde_json::from_slice(&answer.body).map_err(|_| unreadable())
    }

    /// Asks for what goes by this name, value and all.
    async fn look_up(&self, name: &str, with: &Supply) -> Result<HttpAnswer, SourceFault> {
        let (target, body) = match self.service {
            AwsService::SecretsManager => {
                ("secretsmanager.GetSecretValue", json!({ "SecretId": name }))
            }
            AwsService::Ssm => {
                ("AmazonSSM.GetParameter", json!({ "Name": name, "WithDecryption": true }))
            }
        };
        let body = Zeroizing::new(body.to_string().into_bytes());
        self.call(target, body, with).await
    }

    /// Fails where the secret of this name is binary: text in its place would end what reads it. A key that may write
    /// and not read can't know.
    async fn refuse_binary(&self, name: &str, with: &Supply) -> Result<(), SourceFault> {
        let answer = self.look_up(name, with).await?;
        if answer.status != 200 {
            return Ok(());
        }
        let there: SecretAnswer<'_> =
            serde_json::from_slice(&answer.body).map_err(|_| unreadable())?;
        if there.text.is_some() {
            return Ok(());
        }
        let words =
            "the secret there is binary, and text would take its place: put it at AWS itself";
        Err(SourceFault::new(State::Available, words))
    }

    /// What kind of parameter goes by this name, by a call that asks for no value; `None` where there is none.
    async fn describe(&self, name: &str, with: &Supply) -> Result<Option<Described>, SourceFault> {
        let filter = json!({ "Key": "Name", "Option": "Equals", "Values": [name] });
        let mut asked = json!({ "ParameterFilters": [filter] });
        // AWS may send pages without it before the one that has it.
        for _ in 0..MAX_HELD {
            let body = Zeroizing::new(asked.to_string().into_bytes());
            let answer = self.call(DESCRIBE, body, with).await?;
            if answer.status != 200 {
                let told = refusal(&answer).err().unwrap_or_else(unreadable);
                let words = SafeText::words(NOT_DESCRIBED).and(told.words);
                return Err(SourceFault { words, ..told });
            }
            let found: Descriptions =
                serde_json::from_slice(&answer.body).map_err(|_| unreadable())?;
            match (found.parameters.into_iter().next(), found.next) {
                (None, Some(next)) => asked["NextToken"] = json!(next),
                (found, _) => return Ok(found),
            }
        }
        Err(unreadable())
    }

    /// `None` where AWS has nothing of that name to write to. A parameter stays of its type, which AWS lets nobody
    /// change, and under its key: without a word of it, it would come under the account's own.
    async fn put_parameter(
        &self,
        reference: &str,
        name: &str,
        quoted: &[u8],
        with: &Supply,
    ) -> Result<Option<()>, SourceFault> {
        let there = self.describe(reference, with).await?;
        let kind = there.as_ref().map_or("SecureString", |there| &there.kind);
        let key = there.as_ref().and_then(|there| there.key.as_deref());
        let written = |text: &str| serde_json::to_string(text).map_err(|_| unreadable());
        let key = key.map(|key| written(key).map(|key| format!("\"KeyId\":{key},"))).transpose()?;
        let (kind, key) = (written(kind)?, key.unwrap_or_default());
        let before =
            format!("{{\"Name\":{name},\"Type\":{kind},{key}\"Overwrite\":true,\"Value\":");
        let body = around(&before, quoted);
        self.write("AmazonSSM.PutParameter", body, with).await
    }

    /// Has `SecretString` put by the call `target`, which goes by the secret's name in `field`; `None` where AWS
    /// knows of no such secret.
    async fn put_secret(
        &self,
        (target, field): (&str, &str),
        name: &str,
        quoted: &[u8],
        with: &Supply,
    ) -> Result<Option<()>, SourceFault> {
        let token = request_token()?;
        let before =
            format!("{{\"{field}\":{name},\"ClientRequestToken\":\"{token}\",\"SecretString\":");
        let body = around(&before, quoted);
        self.write(target, body, with).await
    }

    /// `None` where AWS has nothing of that name to write to.
    async fn write(
        &self,
        target: &str,
        body: Zeroizing<Vec<u8>>,
        with: &Supply,
    ) -> Result<Option<()>, SourceFault> {
        let answer = self.call(target, body, with).await?;
        if answer.status == 200 { Ok(Some(())) } else { refusal(&answer).map(|()| None) }
    }

    async fn call(
        &self,
        target: &str,
        body: Zeroizing<Vec<u8>>,
        with: &Supply,
    ) -> Result<HttpAnswer, SourceFault> {
        let none = "it has no credential; see [source_credentials]";
        let credential =
            with.credential().ok_or_else(|| SourceFault::new(State::NeedsCredential, none))?;
        let signer = SigV4Signer {
            access_key_id: self.access_key_id.resolve(with)?,
            secret_access_key: credential.expose_to_its_source(),
            region: &self.region,
            service: self.service.name(),
            now: Timestamp::now(),
        };
        let host = self.endpoint.split_once("://").map_or("", |(_, rest)| rest);
        let host = host.trim_end_matches('/');
        let time = signer.time();
        let own = [
            ("content-type", "application/x-amz-json-1.1"),
            ("x-amz-date", &time),
            ("x-amz-target", target),
        ];
        let mut request =
            HttpRequest::new("POST", format!("{}/", self.endpoint.trim_end_matches('/')));
        for (name, value) in own {
            request = request.header(name, value);
        }
        // `host` follows from the address when it is sent.
        let headers = [&own[..], &[("host", host)]].concat();
        let payload = &sigv4_digest(&body);
        let what = SigV4Request { method: "POST", path: "/", query: "", headers, payload };
        request = request.header("authorization", &signer.authorization(what));
        request.body = body;
        self.http.send(request).await.map_err(|fault| SourceFault {
            state: State::Unavailable,
            words: SafeText::default().as_they_wrote(&fault.to_string()),
        })
    }
}

impl AwsService {
    fn name(self) -> &'static str {
        match self {
            Self::SecretsManager => "secretsmanager",
            Self::Ssm => "ssm",
        }
    }
}

impl Backend for AwsSource {
    fn capabilities(&self) -> Capabilities {
        let changes = Capabilities::WRITE.and(Capabilities::ROTATE);
        Capabilities::READ.and(Capabilities::LIST).and(changes).and(Capabilities::AUDIT_LOGGED)
    }

    fn reference(&self, path: &SecretPath, rest: &str, _: Option<&Table>) -> String {
        let name = if rest.is_empty() { path.as_str() } else { rest };
        match self.service {
            AwsService::SecretsManager => name.to_owned(),
            // Parameters in a tree begin with a slash.
            AwsService::Ssm => format!("/{name}"),
        }
    }

    fn place(&self, written: &str) -> String {
        match self.service {
            AwsService::SecretsManager => written.to_owned(),
            AwsService::Ssm => format!("/{written}"),
        }
    }

    fn state<'a>(&'a self, with: &'a Supply) -> Answer<'a, State> {
        Box::pin(async move {
            // A name that nothing has: whoever may ask is told that it is not there. A key that may read a few names
            // is denied this one, and was let in for that.
            match self.look_up("keyless-source-check", with).await {
                Ok(answer) if answer.status == 200 => State::Available,
                Ok(answer) => {
                    refusal(&answer).map_or_else(|fault| fault.state, |()| State::Available)
                }
                Err(fault) => fault.state,
            }
        })
    }

    fn list<'a>(&'a self, with: &'a Supply) -> Answer<'a, Result<Vec<Held>, SourceFault>> {
        Box::pin(async move {
            let (mut held, mut next) = (Vec::new(), None::<String>);
            // AWS may send pages without a name on them.
            for _ in 0..MAX_HELD {
                let page = self.page(next.as_deref(), with).await?;
                held.extend(
                    page.held.into_iter().map(|one| Held { reference: one.name, name: None }),
                );
                next = page.next;
                match next {
                    None => return Ok(held),
                    Some(_) if held.len() >= MAX_HELD => break,
                    Some(_) => {}
                }
            }
            Err(holds_too_much())
        })
    }

    fn get<'a>(
        &'a self,
        reference: &'a str,
        with: &'a Supply,
    ) -> Answer<'a, Result<Option<Fetched>, SourceFault>> {
        Box::pin(async move {
            let (name, key) = match (self.service, reference.split_once('#')) {
                (AwsService::SecretsManager, Some((name, key))) => (name, Some(key)),
                _ => (reference, None),
            };
            let answer = self.look_up(name, with).await?;
            if answer.status != 200 {
                return refusal(&answer).map(|()| None);
            }
            let bytes = match self.service {
                AwsService::SecretsManager => {
                    let answer: SecretAnswer<'_> =
                        serde_json::from_slice(&answer.body).map_err(|_| unreadable())?;
                    let Some(text) = answer.text else {
                        let words = "the secret is binary, which has no text to swap";
                        return Err(SourceFault::new(State::Available, words));
                    };
                    text_of(text)?
                }
                AwsService::Ssm => {
                    let answer: ParameterAnswer<'_> =
                        serde_json::from_slice(&answer.body).map_err(|_| unreadable())?;
                    text_of(answer.parameter.value)?
                }
            };
            let Some(key) = key else { return Ok(Some(Fetched { bytes, lease: None })) };
            let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(&bytes)
                .map_err(|_| SourceFault::new(State::Available, NO_KEYS))?;
            let field = fields.get(key).map(|raw| text_of(raw)).transpose()?;
            Ok(field.map(|bytes| Fetched { bytes, lease: None }))
        })
    }

    fn put<'a>(
        &'a self,
        reference: &'a str,
        value: &'a SecretValue,
        with: &'a Supply,
    ) -> Answer<'a, Result<(), SourceFault>> {
        Box::pin(async move {
            if self.service == AwsService::SecretsManager && reference.contains('#') {
                let words = "one key of a JSON secret can't be written alone";
                return Err(SourceFault::new(State::Available, words));
            }
            let text = std::str::from_utf8(value.expose_to_its_source()).map_err(|_| no_text())?;
            let quoted = quoted(text)?;
            let name = serde_json::to_string(reference).map_err(|_| unreadable())?;
            let written = match self.service {
                AwsService::SecretsManager => {
                    self.refuse_binary(reference, with).await?;
                    match self.put_secret(PUT, &name, &quoted, with).await? {
                        Some(()) => Some(()),
                        // An identity says what AWS has; only a name says what it is to have.
                        None if reference.starts_with("arn:") => None,
                        None => {
                            let made = self.put_secret(CREATE, &name, &quoted, with).await;
                            made.map_err(|fault| SourceFault {
                                words: SafeText::words(NOT_MADE).and(fault.words),
                                ..fault
                            })?
                        }
                    }
                }
                AwsService::Ssm => self.put_parameter(reference, &name, &quoted, with).await?,
            };
            written.ok_or_else(|| {
                SourceFault::new(State::Available, "AWS has none of that name to put a value in")
            })
        })
    }
}

/// A call's body that ends with a value, in room enough: what outgrows its room leaves a copy behind that nobody wipes.
fn around(before: &str, quoted: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut body = Zeroizing::new(Vec::with_capacity(before.len() + quoted.len() + 1));
    for part in [before.as_bytes(), quoted, b"}"] {
        body.extend_from_slice(part);
    }
    body
}

/// Not there, which is no fault by itself; or why not: not allowed, not now, or not this one.
fn refusal(answer: &HttpAnswer) -> Result<(), SourceFault> {
    let kind = kind_of(answer);
    if matches!(kind, "ResourceNotFoundException" | "ParameterNotFound") {
        return Ok(());
    }
    let words = SafeText::words("AWS answered ").number(answer.status.into());
    if let Some((kind, state, why)) = REFUSALS.iter().copied().find(|(known, ..)| *known == kind) {
        let words = words.and(", ").and(kind).and(": ").and(why);
        return Err(SourceFault { state, words });
    }
    let state = match answer.status {
        // A refusal that is none of those is about what was asked.
        400 if !kind.is_empty() => State::Available,
        400 | 401 | 403 => State::Locked,
        _ => State::Unavailable,
    };
    Err(SourceFault { state, words })
}

/// What AWS calls a refusal, without the name of the model that may stand before it.
fn kind_of(answer: &HttpAnswer) -> &str {
    let fault: FaultAnswer<'_> =
        serde_json::from_slice(&answer.body).unwrap_or(FaultAnswer { kind: "" });
    fault.kind.rsplit('#').next().unwrap_or_default()
}

/// 32 hex digits that AWS tells retries apart by.
fn request_token() -> Result<String, SourceFault> {
    let random = crate::random::bytes::<16>().map_err(|_| unreadable())?;
    Ok(data_encoding::HEXLOWER.encode(&random))
}

fn unreadable() -> SourceFault {
    SourceFault::new(State::Unavailable, "AWS's answer can't be read")
}

#[cfg(test)]
mod tests;
