//! A provider as data: a base address, the place of its credential, its operations.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use keyless_core::{Authority, Code, Error, SafeText, Scheme};
use serde::Deserialize;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::{
    call::Wanted,
    request::{Body, Draft, Piece, Written},
};

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
    /// A call of an operation, as far as its parameters say without a value: whether there is such an operation, whether
    /// all of its address is given, whether it may be called, and whether what it makes can be sent at all.
    pub(super) fn draft(&self, wanted: Wanted<'_>) -> Result<Draft, Error> {
        let Wanted { service, operation, mut parameters, .. } = wanted;
        let operation = self.operation(service, operation)?;
        let words = [("service", wanted.service), ("operation", wanted.operation)];
        let base = fill_host(&self.base, &mut parameters)?;
        let (scheme, authority, prefix) = split_base(&base)?;
        let path = pieces(&operation.path, &words, &mut parameters)?;
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), value.clone()));
        let mut headers: Vec<_> = headers.collect();
        for name in &operation.headers {
            if let Some(value) = parameters.remove(name) {
                headers.push((name.clone(), plain(&value)));
            }
        }
        let mut query = Vec::new();
        for name in &operation.query {
            if let Some(value) = parameters.remove(name) {
                flatten(name, &value, &mut query);
            }
        }
        let body = if matches!(operation.method.as_str(), "DELETE" | "GET" | "HEAD") {
            for (name, value) in &parameters {
                flatten(name, value, &mut query);
            }
            Body::None
        } else {
            self.body(parameters)
        };
        let query = query.into_iter().map(|(name, text)| (name, Written::text(text))).collect();
        let (method, auth, withheld) =
            (operation.method, Some(self.auth.clone()), self.withheld.clone());
        let draft =
            Draft { scheme, authority, method, prefix, path, query, headers, body, auth, withheld };
        draft.checked()
    }

    /// Finds what keeps all of it from being called.
    pub(super) fn check(&self) -> Result<(), String> {
        // What is a parameter's is a label of a host's name.
        let parts =
            self.base.split('{').map(|part| part.split_once('}').map_or(part, |(_, after)| after));
        let base = parts.collect::<Vec<_>>().join("x");
        let usable = split_base(&base);
        usable.map(drop).map_err(|_| format!("`base` is no address: {}", self.base))
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

    fn body(&self, members: Map<String, Value>) -> Body {
        match self.body {
            BodyForm::Json => {
                let media_type = "application/json; charset=utf-8".to_owned();
                Body::Json { media_type, members }
            }
            BodyForm::Form => {
                let mut pairs = Vec::new();
                for (name, value) in &members {
                    flatten(name, value, &mut pairs);
                }
                let pairs = pairs.into_iter().map(|(name, text)| (name, Written::text(text)));
                let media_type = "application/x-www-form-urlencoded".to_owned();
                Body::Form { media_type, pairs: pairs.collect() }
            }
        }
    }
}

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

/// One segment of a path; `.` and `..` would leave it, also behind a slash that a server decodes.
pub(super) fn segment(value: &str) -> Option<String> {
    let stays = value.split(['/', '\\']).all(|part| part != "." && part != "..");
    (!value.is_empty() && stays).then(|| escape(value))
}

pub(super) fn is_plain_path(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\\%\"<>`".contains(&byte);
    path.starts_with('/')
        && !path.contains("//")
        && path.bytes().all(plain)
        && path.split('/').all(|part| part != "." && part != "..")
}

/// Replaces `{name}` in a base address by parameters, which are used up; each is a label of the host's name.
fn fill_host(template: &str, parameters: &mut Map<String, Value>) -> Result<String, Error> {
    let plain_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_label = |value: &String| !value.is_empty() && value.bytes().all(plain_label);
    let (mut out, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or(Code::BadRequest)?;
        let value = parameters.remove(name).map(|value| plain(&value)).filter(is_label);
        out.push_str(before);
        out.push_str(&value.ok_or_else(|| lacks(name))?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// A path with `{name}` as words and parameters, which are used up.
pub(super) fn pieces(
    template: &str,
    words: &[(&str, &str)],
    parameters: &mut Map<String, Value>,
) -> Result<Vec<Piece>, Error> {
    let (mut pieces, mut rest) = (Vec::new(), template);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or(Code::BadRequest)?;
        let word = words.iter().find(|(known, _)| *known == name).map(|(_, word)| *word);
        let said = match word {
            Some(word) => word.to_owned(),
            None => scalar(name, parameters.remove(name).as_ref())?,
        };
        pieces.push(Piece::Fixed(before.to_owned()));
        pieces.push(Piece::Segment(said));
        rest = after;
    }
    pieces.push(Piece::Fixed(rest.to_owned()));
    Ok(pieces)
}

/// What can be one word of an address.
fn scalar(name: &str, value: Option<&Value>) -> Result<String, Error> {
    match value {
        None | Some(Value::Null) => Err(lacks(name)),
        Some(Value::String(text)) if text.is_empty() => Err(lacks(name)),
        Some(Value::Array(_) | Value::Object(_)) => {
            let words = SafeText::words("a part of a path is a text or a number: ");
            Err(Error::with(Code::BadRequest, words.as_they_wrote(name)))
        }
        Some(scalar) => Ok(plain(scalar)),
    }
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
