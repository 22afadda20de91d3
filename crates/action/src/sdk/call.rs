//! One call of a service: built, judged, sent, its answer cleaned.

use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use keyless_core::{
    Authority, By, Code, EgressUse, Error, RequestFacts, SafeText, Scheme, Verdict, action::Deed,
    decide_egress,
};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::{Providers, aws::Credentials, filling::Filling};
use crate::{
    executor::Work,
    material::{Material, Materials},
    ports::Known,
};

/// One HTTP request of the broker's own.
pub struct Call {
    /// Cleartext never leaves this machine.
    pub scheme: Scheme,
    /// Where it goes.
    pub authority: Authority,
    /// Such as `GET`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case and values; values may be credentials.
    pub headers: Vec<(String, Zeroizing<String>)>,
    /// The body.
    pub body: Zeroizing<Vec<u8>>,
    /// For everything until the last byte of the answer.
    pub patience: Duration,
    /// The most of the answer, in bytes.
    pub max_answer: usize,
}

/// What a service answered.
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The media type.
    pub content_type: Option<String>,
    /// The body; may hold values.
    pub body: Zeroizing<Vec<u8>>,
}

/// Sends requests. Object-safe.
pub trait Http: Send + Sync + 'static {
    /// Sends one, over verified TLS, and reads its answer.
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Answer, Error>>;
}

/// What a service answered, as data; not cleaned yet.
pub(crate) struct Called {
    pub(crate) status: u16,
    pub(crate) data: Value,
    pub(crate) known: Vec<Known>,
}

/// What an agent wants of a service.
pub(crate) struct Wanted<'a> {
    pub(crate) provider: &'a str,
    pub(crate) service: &'a str,
    pub(crate) operation: &'a str,
    pub(crate) parameters: Map<String, Value>,
}

/// Does an `sdk_proxy` action.
pub(crate) async fn call(
    work: &Work,
    materials: &Materials,
    providers: &Providers,
    http: &dyn Http,
    max_answer: usize,
) -> Result<Called, Error> {
    let Deed::SdkProxy { provider, service, operation, parameters, credentials_ref } =
        &work.action.deed
    else {
        return Err(Code::Internal.into());
    };
    let handle = keyless_core::Handle::parse_alone("credentials_ref", credentials_ref);
    let (_, material) = materials.of(&handle.map_err(|_| Error::new(Code::PlaceholderInvalid))?)?;
    let credential = std::str::from_utf8(&material.bytes)
        .map_err(|_| Error::with(Code::BadRequest, "the credential is not text".into()))?
        .trim_end();
    let build = |parameters| {
        let wanted = Wanted { provider, service, operation, parameters };
        providers.build(wanted, credential, Timestamp::now())
    };
    // With placeholders first: what is wrong with those words, the agent may be told.
    let unfilled = build(parameters.clone())?;
    let filled = Filling::new(work, materials, &unfilled).object(parameters)?;
    let mut call = build(filled).map_err(|error| Error::new(error.code()))?;
    if (call.scheme, &call.authority) != (unfilled.scheme, &unfilled.authority) {
        return Err(Code::LocationNotAllowed.into());
    }
    (call.patience, call.max_answer) = (work.action.timeout(), max_answer);
    judge(work, material, provider, &call)?;
    let answer = http.send(call).await?;
    let data = providers.data(provider, service, operation, &answer);
    let mut known = materials.known();
    known.extend(parts(material, credential));
    Ok(Called { status: answer.status, data, known })
}

/// A credential goes to its own destinations, as its own rules say; one that names none goes where
/// the grant or its category does.
fn judge(work: &Work, material: &Material, provider: &str, call: &Call) -> Result<(), Error> {
    let path = &material.secret.path;
    let Some(rule) = &material.secret.rule else {
        let granted = work.allowed_hosts.iter().any(|to| to.matches(call.scheme, &call.authority));
        if granted || path.category() == provider {
            return Ok(());
        }
        let words = SafeText::words("neither its category nor the grant lets ").and(path);
        return Err(Error::with(
            Code::ForeignDestination,
            words.and(" go to ").and(&call.authority),
        ));
    };
    let target = call.target.split('?').next().unwrap_or_default();
    let request = RequestFacts {
        methods: vec![call.method.clone()],
        path: target.to_owned(),
        ..RequestFacts::default()
    };
    let (scheme, authority) = (call.scheme, &call.authority);
    let use_ = EgressUse { path, rule, scheme, authority, by: By::Proxy, request: &request };
    match decide_egress(&use_) {
        Verdict::Allow(_) => Ok(()),
        Verdict::Ask(_) => Err(Code::ApprovalRequired.into()),
        Verdict::Deny(code, why) => Err(Error::with(code, why.into())),
        Verdict::Pass => {
            let words = SafeText::default().and(path).and(" does not go to ").and(authority);
            Err(Error::with(Code::ForeignDestination, words))
        }
    }
}

/// What a service may echo of a credential that has parts.
fn parts(material: &Material, credential: &str) -> Vec<Known> {
    let name = material.secret.handle.as_written();
    let known = |value: &str| Known {
        name: name.to_owned(),
        value: Zeroizing::new(value.as_bytes().to_vec()),
    };
    let mut parts = Credentials::parse(credential)
        .map(|credentials| credentials.secrets().map(&known).collect::<Vec<_>>())
        .unwrap_or_default();
    parts.extend(credential.split_once(':').map(|(_, secret)| known(secret)));
    parts
}

#[cfg(test)]
mod tests;
