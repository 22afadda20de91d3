//! A provider as data: a base address, the place of its credential, its operations.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use keyless_core::{Authority, Code, Error, RequestFacts, SafeText, Scheme};
use serde::Deserialize;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::{
    call::{Call, Wanted, facts},
    pattern,
};

/// The longest path and query that can be sent, in bytes.
const MAX_TARGET: usize = 65_534;

/// A provider.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Provider {
    pub(super) name: String,
    /// Scheme, host and the beginning of all paths; the host may have `{parameters}`.
    pub(super) base: String,
    pub(super) auth: Auth,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) body: BodyForm,
    #[serde(default)]
    pub(super) operations: Vec<Operation>,
    /// What `*` stands for, as `service.operation`; any word where nothing is listed.
    #[serde(default)]
    pub(super) known: BTreeSet<String>,
    /// `METHOD /path` patterns of what is not called: it answers with a credential.
    #[serde(default)]
    pub(super) withheld: Vec<String>,
}

/// Where the credential goes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Auth {
    pub(super) scheme: AuthScheme,
    #[serde(default = "authorization")]
    pub(super) header: String,
    /// In the query, under this name, and in no header.
    #[serde(default)]
    pub(super) query: Option<String>,
}

/// How the credential is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum AuthScheme {
    /// Base64 of `USER:PASSWORD`, which the credential is.
    Basic,
    Bearer,
    /// As it is.
    Plain,
}

/// How a body is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum BodyForm {
    Form,
    #[default]
    Json,
}

/// One operation; `*` as service or operation is any word.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Operation {
    pub(super) service: String,
    #[serde(rename = "operation")]
    pub(super) name: String,
    pub(super) method: String,
    pub(super) path: String,
    /// Parameters that go into the query whatever the method.
    #[serde(default)]
    pub(super) query: Vec<String>,
    /// Parameters that are headers.
    #[serde(default)]
    pub(super) headers: Vec<String>,
}

fn authorization() -> String {
    "authorization".to_owned()
}

impl Provider {
    /// Finds whether there is such an operation, whether all of its address is given, whether it may be called, and
    /// whether what it makes can be sent at all, as it is before values are filled in.
    pub(super) fn check(&self, wanted: Wanted<'_>) -> Result<(), Error> {
        let call = self.build(wanted, NO_CREDENTIAL)?;
        // One that is filled in may be shorter than its placeholder.
        let is_whole = !call.target.contains("%7B%7B");
        if is_whole && call.target.len() > MAX_TARGET {
            let words = "path and query hold 64 KiB at most; give less at a time";
            return Err(Error::with(Code::BadRequest, SafeText::words(words)));
        }
        match call.headers.iter().find(|(_, value)| !value.bytes().all(stands_in_header)) {
            None => Ok(()),
            Some((name, _)) => {
                let words = SafeText::words("what is given for the header ").as_they_wrote(name);
                let words = words.and(" can't stand in one: it takes visible ASCII and spaces");
                Err(Error::with(Code::BadRequest, words))
            }
        }
    }

    /// An operation, its base address and its path, for which parameters are used up.
    fn place(
        &self,
        service: &str,
        name: &str,
        parameters: &mut Map<String, Value>,
    ) -> Result<(Operation, String, String), Error> {
        let operation = self.operation(service, name)?;
        let words = [("service", service), ("operation", name)];
        let base = fill(&self.base, &words, parameters, host_label)?;
        let path = fill(&operation.path, &words, parameters, segment)?;
        let is_withheld = |withheld: &&String| pattern::fits(withheld, &operation.method, &path);
        if self.withheld.iter().any(|withheld| is_withheld(&withheld)) {
            return Err(withheld());
        }
        Ok((operation, base, path))
    }

    /// Where the request of an operation goes, and what rules ask about it: those of the request itself, built without its
    /// credential.
    pub(super) fn aim(
        &self,
        wanted: Wanted<'_>,
    ) -> Result<(Scheme, Authority, RequestFacts), Error> {
        let call = self.build(wanted, NO_CREDENTIAL)?;
        let facts = facts(&call);
        Ok((call.scheme, call.authority, facts))
    }

    /// Builds the request of an operation.
    pub(super) fn build(&self, wanted: Wanted<'_>, credential: &str) -> Result<Call, Error> {
        let Wanted { service, operation, mut parameters, .. } = wanted;
        let (operation, base, path) = self.place(service, operation, &mut parameters)?;
        let (scheme, authority, prefix) = split_base(&base)?;
        let mut headers: Vec<(String, Zeroizing<String>)> = vec![
            ("user-agent".to_owned(), Zeroizing::new("keyless".to_owned())),
            ("accept".to_owned(), Zeroizing::new("application/json".to_owned())),
        ];
        for (name, value) in &self.headers {
            set(&mut headers, name, value.clone());
        }
        for name in &operation.headers {
            if let Some(value) = parameters.remove(name) {
                set(&mut headers, name, plain(&value));
            }
        }
        let mut query = Vec::new();
        for name in &operation.query {
            if let Some(value) = parameters.remove(name) {
                flatten(name, &value, &mut query);
            }
        }
        let mut body = Zeroizing::new(Vec::new());
        if matches!(operation.method.as_str(), "DELETE" | "GET" | "HEAD") {
            for (name, value) in &parameters {
                flatten(name, value, &mut query);
            }
        } else {
            let media_type = self.write_body(&parameters, &mut body)?;
            set(&mut headers, "content-type", media_type.to_owned());
        }
        self.put(credential, &mut headers, &mut query)?;
        let query = encoded(&query);
        let mark = if query.is_empty() { "" } else { "?" };
        Ok(Call {
            scheme,
            authority,
            method: operation.method.clone(),
            target: format!("{prefix}{path}{mark}{query}"),
            headers,
            body,
            patience: std::time::Duration::ZERO,
            max_answer: 0,
        })
    }

    /// A listed operation; or `METHOD /path` itself, of the service `rest`.
    pub(super) fn operation(&self, service: &str, operation: &str) -> Result<Operation, Error> {
        let word = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        let is_known =
            self.known.is_empty() || self.known.contains(&format!("{service}.{operation}"));
        let listed = self.operations.iter().find(|listed| {
            let is = |listed: &str, wanted: &str| {
                listed == wanted || listed == "*" && is_known && word(wanted)
            };
            is(&listed.service, service) && is(&listed.name, operation)
        });
        if let Some(listed) = listed {
            return Ok(listed.clone());
        }
        if service == "rest"
            && let Some((method, path)) = operation.split_once(' ')
            && ["DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"].contains(&method)
            && is_plain_path(path)
        {
            return Ok(Operation {
                service: service.to_owned(),
                name: operation.to_owned(),
                method: method.to_owned(),
                path: path.to_owned(),
                query: Vec::new(),
                headers: Vec::new(),
            });
        }
        let words = SafeText::words("no operation ").as_they_wrote(service).and(".");
        Err(Error::with(
            Code::BadRequest,
            words.as_they_wrote(operation).and(" is known; service `rest` takes METHOD /path"),
        ))
    }

    fn write_body(
        &self,
        parameters: &Map<String, Value>,
        body: &mut Vec<u8>,
    ) -> Result<&'static str, Error> {
        match self.body {
            BodyForm::Json => {
                *body = serde_json::to_vec(parameters).map_err(|_| Error::new(Code::Internal))?;
                Ok("application/json; charset=utf-8")
            }
            BodyForm::Form => {
                let mut pairs = Vec::new();
                for (name, value) in parameters {
                    flatten(name, value, &mut pairs);
                }
                *body = encoded(&pairs).into_bytes();
                Ok("application/x-www-form-urlencoded")
            }
        }
    }

    fn put(
        &self,
        credential: &str,
        headers: &mut Vec<(String, Zeroizing<String>)>,
        query: &mut Vec<(String, String)>,
    ) -> Result<(), Error> {
        if credential.is_empty() || credential.bytes().any(|byte| byte.is_ascii_control()) {
            let words = SafeText::words("the credential can't stand in a header");
            return Err(Error::with(Code::BadRequest, words));
        }
        if let Some(name) = &self.auth.query {
            query.push((name.clone(), credential.to_owned()));
            return Ok(());
        }
        let value = match self.auth.scheme {
            AuthScheme::Basic => {
                format!("Basic {}", data_encoding::BASE64.encode(credential.as_bytes()))
            }
            AuthScheme::Bearer => format!("Bearer {credential}"),
            AuthScheme::Plain => credential.to_owned(),
        };
        set(headers, &self.auth.header, value);
        Ok(())
    }
}

/// Stands where a credential will.
const NO_CREDENTIAL: &str = "-";

pub(super) fn withheld() -> Error {
    let words = SafeText::words("this operation answers with a credential");
    Error::with(Code::ActionBlocked, words)
}

/// Sets a header; one of the same name goes.
pub(super) fn set(headers: &mut Vec<(String, Zeroizing<String>)>, name: &str, value: String) {
    headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    headers.push((name.to_ascii_lowercase(), Zeroizing::new(value)));
}

/// `a[b][0]=c`, as PHP, Rails and Stripe write what is nested.
pub(super) fn flatten(name: &str, value: &Value, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{name}[{index}]"), item, pairs);
            }
        }
        Value::Object(members) => {
            for (inner, value) in members {
                flatten(&format!("{name}[{inner}]"), value, pairs);
            }
        }
        Value::Null => {}
        other => pairs.push((name.to_owned(), plain(other))),
    }
}

/// A scalar's text.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(super) fn encoded(pairs: &[(String, String)]) -> String {
    let pair = |(name, value): &(String, String)| format!("{}={}", escape(name), escape(value));
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}

/// RFC 3986's unreserved characters stay.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// One segment of a path; `.` and `..` would leave it.
pub(super) fn segment(value: &str) -> Option<String> {
    (!value.is_empty() && value != "." && value != "..").then(|| escape(value))
}

fn host_label(value: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (!value.is_empty() && value.bytes().all(plain)).then(|| value.to_owned())
}

/// What can be sent as a value of a header.
fn stands_in_header(byte: u8) -> bool {
    byte == b' ' || byte == b'\t' || byte.is_ascii_graphic()
}

fn is_plain_path(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\\%\"<>`".contains(&byte);
    path.starts_with('/')
        && !path.contains("//")
        && path.bytes().all(plain)
        && path.split('/').all(|part| part != "." && part != "..")
}

/// Replaces `{name}` by words and parameters, which are used up.
fn fill(
    template: &str,
    words: &[(&str, &str)],
    parameters: &mut Map<String, Value>,
    write: fn(&str) -> Option<String>,
) -> Result<String, Error> {
    let (mut out, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or(Code::BadRequest)?;
        let word =
            words.iter().find(|(known, _)| *known == name).map(|(_, word)| (*word).to_owned());
        let value = match word {
            Some(word) => Some(word),
            None => parameters.remove(name).map(|value| plain(&value)),
        };
        let value = value.as_deref().and_then(write).ok_or_else(|| lacks(name))?;
        out.push_str(before);
        out.push_str(&value);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// That a call has no parameter of this name, which its place needs.
pub(super) fn lacks(name: &str) -> Error {
    let words = SafeText::words("the operation needs a parameter: ").as_they_wrote(name);
    Error::with(Code::BadRequest, words)
}

pub(super) fn split_base(base: &str) -> Result<(Scheme, Authority, String), Error> {
    let unusable = || Error::with(Code::ConfigInvalid, SafeText::words("a provider's address"));
    let (scheme, rest) = match base.split_once("://") {
        Some(("https", rest)) => (Scheme::Https, rest),
        Some(("http", rest)) => (Scheme::Http, rest),
        _ => return Err(unusable()),
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let authority = Authority::parse_for(host, scheme).map_err(|_| unusable())?;
    let path = path.trim_end_matches('/');
    let prefix = if path.is_empty() { String::new() } else { format!("/{path}") };
    Ok((scheme, authority, prefix))
}
