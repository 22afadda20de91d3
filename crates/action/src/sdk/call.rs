//! One call of a service: built, judged, sent, its answer cleaned.

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use keyless_core::{
    Authority, By, Code, Destination, EgressRule, EgressUse, Error, RequestFacts, SafeText, Scheme,
    SecretPath, Verdict, action::Deed, database::DatabaseFault, decide_egress,
};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::{
    aws::{self, Credentials},
    filling::{Filling, lets_go, may_be_parameter},
    postgres,
    request::{self, Call},
};
use crate::{
    executor::{Services, Work},
    material::{Material, Materials},
    ports::Known,
};

/// What a service answered.
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Names in lower case and values; values may be secrets.
    pub headers: Vec<(String, Zeroizing<String>)>,
    /// The body; may hold values.
    pub body: Zeroizing<Vec<u8>>,
}

impl Answer {
    /// A header's value; `name` is in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Sends requests. Object-safe.
pub trait Http: Send + Sync + 'static {
    /// Sends one, over verified TLS, and reads its answer.
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Answer, Error>>;
}

/// What a service answered, as data; not cleaned yet.
pub(crate) struct Called {
    /// The service's no, in our words.
    pub(crate) refused: Option<SafeText>,
    pub(crate) data: Value,
    /// Whether it is known what of it is a credential, or rows of a database, which are what was asked for.
    pub(crate) is_of_models: bool,
}

/// What an agent wants of a service.
pub(crate) struct Wanted<'a> {
    pub(crate) provider: &'a str,
    pub(crate) service: &'a str,
    pub(crate) operation: &'a str,
    pub(crate) parameters: Map<String, Value>,
}

/// Does an `sdk_proxy` action that was checked. What the service may echo goes to `remember` before anything is sent,
/// so that it is known whatever comes of it.
pub(crate) async fn call(
    draft: Draft,
    work: &Work,
    materials: &Materials,
    services: &Services,
    max_answer: usize,
    remember: &(dyn Fn(Vec<Known>) + Sync),
) -> Result<Called, Error> {
    let Deed::SdkProxy { provider, service, operation, credentials_ref, .. } = &work.action().deed
    else {
        return Err(Code::Internal.into());
    };
    let handle = keyless_core::Handle::parse_alone("credentials_ref", credentials_ref);
    let (_, material) = materials.of(&handle.map_err(|_| Error::new(Code::PlaceholderInvalid))?)?;
    let credential = std::str::from_utf8(&material.bytes)
        .map_err(|_| Error::with(Code::BadRequest, "the credential is not text".into()))?
        .trim_end();
    let trusted = Trusted { work, materials, material };
    let belongs = draft.belongs(&material.secret.path);
    let request = match draft.of {
        Of::Database(statement) => {
            let draft = statement.with(credential)?;
            return query(&trusted, draft, services, max_answer, remember).await;
        }
        Of::Aws(draft) => {
            let credentials = Credentials::of(credential)?;
            let placed = draft.placed(&credentials)?;
            let mut filling = Filling::new(work, materials, Scheme::Https, placed.authority());
            placed.filled(&mut filling, &credentials, Timestamp::now())?
        }
        Of::Http(draft) => {
            let authority = draft.authority.clone();
            let mut filling = Filling::new(work, materials, draft.scheme, &authority);
            draft.filled(&mut filling, credential)?
        }
    };
    let bounds = trusted.bounds();
    let call = request.judged(&bounds, belongs, (work.action().timeout(), max_answer))?;
    remember(trusted.known(parts(credential)));
    let answer = services.http.send(call).await?;
    let providers = &services.providers;
    let data = providers.data(provider, service, operation, &answer);
    let refused = providers.fails(provider, service, operation, &answer);
    let refused = refused.then(|| refusal(&answer));
    Ok(Called { refused, data, is_of_models: provider == "aws" })
}

/// A call that an agent wants, checked as far as its parameters say without a value.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(super) of: Of,
    /// The category whose secrets belong at this provider's host, if it has one of its own.
    pub(super) category: Option<String>,
}

/// The ways in which services are called.
#[derive(Clone, Debug)]
pub(super) enum Of {
    Aws(aws::Draft),
    Database(postgres::Statement),
    Http(request::Draft),
}

impl Draft {
    /// Finds whether a secret may go where the call with it would, as far as that shows without its value: AWS's may name
    /// the region, a database's is its URL. What may come of a person's word is not refused here.
    pub(crate) fn check_destination(&self, bounds: &BoundTo<'_>) -> Result<(), Error> {
        let Of::Http(draft) = &self.of else { return Ok(()) };
        let aim = draft.aim()?;
        match bounds.judge(aim.scheme, &aim.authority, &aim.facts(), self.belongs(bounds.path)) {
            Err(error) if error.code() == Code::ApprovalRequired => Ok(()),
            judged => judged,
        }
    }

    /// Finds whether a secret that stands in the parameters may go where the call goes, as far as that shows without a value:
    /// where AWS and databases are, the credential may say. Without a host in the grant it goes nowhere.
    pub(crate) fn check_parameter(
        &self,
        bounds: &BoundTo<'_>,
        is_exposed: bool,
    ) -> Result<(), Error> {
        may_be_parameter(bounds, is_exposed)?;
        match &self.of {
            Of::Http(draft) => lets_go(bounds, draft.scheme, &draft.authority),
            Of::Aws(_) | Of::Database(_) if bounds.allowed_hosts.is_empty() => {
                let words = SafeText::words("the grant names no host that ").and(bounds.path);
                let words = words.and(" may go to as a parameter (--host)");
                Err(Error::with(Code::ForeignDestination, words))
            }
            Of::Aws(_) | Of::Database(_) => Ok(()),
        }
    }

    fn belongs(&self, path: &SecretPath) -> bool {
        self.category.as_deref() == Some(path.category())
    }
}

/// What a service did instead. To another address nothing is sent: the credential was not given for it,
/// and its path and query may hold one.
fn refusal(answer: &Answer) -> SafeText {
    let words = SafeText::words("the service answered ").and(answer.status);
    let Some(location) = answer.header("location") else { return words };
    let words = words.and(" and points elsewhere, which is not followed");
    let host = |scheme, rest: &str| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        Authority::parse_for(authority.rsplit('@').next().unwrap_or_default(), scheme).ok()
    };
    let to = match location.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => host(Scheme::Http, rest),
        Some((_, rest)) => host(Scheme::Https, rest),
        None => None,
    };
    match to {
        Some(to) => words.and(": ").and(&to),
        None => words,
    }
}

/// Runs a statement. A login is no request, so that a rule about requests allows none.
async fn query(
    trusted: &Trusted<'_>,
    draft: postgres::Draft,
    services: &Services,
    max_answer: usize,
    remember: &(dyn Fn(Vec<Known>) + Sync),
) -> Result<Called, Error> {
    let Trusted { work, materials, .. } = trusted;
    // TLS, as to any host that a destination names without `http://`.
    let scheme = Scheme::Https;
    let authority = &draft.to.authority;
    let request = RequestFacts::default();
    trusted.bounds().judge(scheme, authority, &request, draft.to.is_credentials)?;
    let mut filling = Filling::new(work, materials, scheme, authority);
    let values = draft.values().iter().map(|value| filling.value(value));
    let values: Vec<Value> = values.collect::<Result<_, _>>()?;
    remember(trusted.known(vec![draft.to.password.clone()]));
    let query = draft.with(&values, work.action().timeout(), max_answer);
    match services.databases.query(query).await {
        Ok(rows) => Ok(Called { refused: None, data: postgres::data(&rows), is_of_models: true }),
        Err(DatabaseFault::Refused(refusal)) => {
            let refused = Some(refusal.words());
            Ok(Called { refused, data: postgres::refused(refusal), is_of_models: true })
        }
        Err(DatabaseFault::Stopped(error)) => Err(error),
    }
}

/// A credential and what it was given for.
struct Trusted<'a> {
    work: &'a Work,
    materials: &'a Materials,
    material: &'a Material,
}

/// Where a secret may go with which a service is called.
pub struct BoundTo<'a> {
    /// Which one it is.
    pub path: &'a SecretPath,
    /// Its own destinations; nothing where it names none.
    pub rule: Option<&'a EgressRule>,
    /// The hosts that the grant names.
    pub allowed_hosts: &'a [Destination],
}

impl BoundTo<'_> {
    /// It goes to its own destinations, as its own rules say; one that names none goes where the
    /// grant says, or where it is known to belong.
    pub(super) fn judge(
        &self,
        scheme: Scheme,
        authority: &Authority,
        request: &RequestFacts,
        belongs: bool,
    ) -> Result<(), Error> {
        let Self { path, rule, allowed_hosts } = *self;
        let Some(rule) = rule else {
            if belongs || allowed_hosts.iter().any(|to| to.matches(scheme, authority)) {
                return Ok(());
            }
            let words = SafeText::words("neither what it is nor the grant lets ").and(path);
            let words = words.and(" go to ").and(authority);
            let words = words.and(": the operator names that host for it (keyless secret set --to), or in the grant (--host)");
            return Err(Error::with(Code::ForeignDestination, words));
        };
        let use_ = EgressUse { path, rule, scheme, authority, by: By::Proxy, request };
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
}

impl Trusted<'_> {
    fn bounds(&self) -> BoundTo<'_> {
        let secret = &self.material.secret;
        let allowed_hosts = self.work.allowed_hosts.as_slice();
        BoundTo { path: &secret.path, rule: secret.rule.as_ref(), allowed_hosts }
    }

    /// What a service may echo: every value that was sent, and parts of the credential.
    fn known(&self, parts: Vec<Zeroizing<String>>) -> Vec<Known> {
        let name = self.material.secret.handle.as_written();
        let part = |part: Zeroizing<String>| Known {
            name: name.to_owned(),
            value: Zeroizing::new(part.as_bytes().to_vec()),
        };
        let mut known = self.materials.known();
        known.extend(parts.into_iter().map(part));
        known
    }
}

/// The parts of a credential of several.
fn parts(credential: &str) -> Vec<Zeroizing<String>> {
    let owned = |part: &str| Zeroizing::new(part.to_owned());
    let mut parts = Credentials::parse(credential)
        .map(|credentials| credentials.secrets().map(owned).collect::<Vec<_>>())
        .unwrap_or_default();
    parts.extend(credential.split_once(':').map(|(_, secret)| owned(secret)));
    parts
}

#[cfg(test)]
mod tests;
