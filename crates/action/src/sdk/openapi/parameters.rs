//! The parameters of an operation, and how each is written.

use std::collections::BTreeMap;

use keyless_core::{Code, Error, SafeText};
use serde_json::Value;

use super::resolved;
use crate::sdk::{
    provider::{Auth, plain},
    request::{Part, Written},
};

/// Those that OpenAPI has documents say elsewhere; a parameter of such a name means nothing (section 4.8.12).
const SAID_ELSEWHERE: [&str; 3] = ["accept", "authorization", "content-type"];
/// The connection's own.
const NOT_SENT: [&str; 12] = [
    "connection",
    "content-length",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A parameter.
#[derive(Debug)]
pub(super) struct Parameter {
    place: Place,
    style: Style,
    pub(super) is_required: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Header,
    Path,
    Query,
}

/// How a value of several parts is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `a[b]=c`.
    Deep,
    /// `a=1&a=2`.
    Exploded,
    /// `a=1,2`, with this between.
    Joined(&'static str),
    /// As JSON.
    Json,
    /// `1,2`, outside of queries.
    Simple,
}

/// The parameters of a path and of an operation, which come over it. The parameter that is the credential's own place is
/// no agent's to say.
pub(super) fn read(
    document: &Value,
    path: &str,
    lists: [&Value; 2],
    auth: Option<&Auth>,
) -> Result<BTreeMap<String, Parameter>, String> {
    let mut by_place: BTreeMap<(String, String), &Value> = BTreeMap::new();
    for item in lists.into_iter().filter_map(Value::as_array).flatten() {
        let item = resolved(document, item)?;
        let (name, place) = (item["name"].as_str(), item["in"].as_str());
        let (name, place) = name.zip(place).ok_or("a parameter has no `name` or no `in`")?;
        by_place.insert((name.to_owned(), place.to_owned()), item);
    }
    let mut parameters = BTreeMap::new();
    for ((name, place), item) in by_place {
        let is_own =
            |called: Option<&str>| called.is_some_and(|called| called.eq_ignore_ascii_case(&name));
        let lower = name.to_ascii_lowercase();
        let place = match &*place {
            // What need not be there, nobody gives; who does is refused by its name.
            "cookie" if item["required"] == true => {
                return Err(format!("its parameter {name} is a cookie, which is not sent"));
            }
            "cookie" => continue,
            "header" if SAID_ELSEWHERE.contains(&&*lower) => continue,
            "header" if is_own(auth.map(|auth| auth.header.as_str())) => continue,
            "header" if NOT_SENT.contains(&&*lower) || !is_header(&name) => {
                if item["required"] == true {
                    return Err(format!("its parameter {name} is no header that can be set"));
                }
                continue;
            }
            "header" => Place::Header,
            "path" if !path.contains(&format!("{{{name}}}")) => {
                return Err(format!("its path has no {{{name}}}"));
            }
            "path" => Place::Path,
            "query" if is_own(auth.and_then(|auth| auth.query.as_deref())) => continue,
            "query" => Place::Query,
            other => return Err(format!("its parameter {name} is in `{other}`, which is unknown")),
        };
        let style = style(item, place).map_err(|why| format!("its parameter {name} {why}"))?;
        let is_required = item["required"] == true;
        let parameter = Parameter { place, style, is_required };
        if parameters.insert(name.clone(), parameter).is_some() {
            return Err(format!("two of its parameters are called {name}"));
        }
    }
    // Which a path needs, it says itself.
    for name in path.split('{').skip(1) {
        let (name, _) = name.split_once('}').ok_or("its path has an open `{`")?;
        let in_path = Parameter { place: Place::Path, style: Style::Simple, is_required: true };
        if parameters.entry(name.to_owned()).or_insert(in_path).place != Place::Path {
            return Err(format!("two of its parameters are called {name}"));
        }
    }
    Ok(parameters)
}

fn style(item: &Value, place: Place) -> Result<Style, String> {
    if let Some(content) = item.get("content") {
        let is_json = content.get("application/json").is_some();
        return if is_json && place == Place::Query {
            Ok(Style::Json)
        } else {
            Err("has a `content` that is no JSON in the query".to_owned())
        };
    }
    if place == Place::Query {
        return query_style(item);
    }
    match item["style"].as_str() {
        None | Some("simple") => Ok(Style::Simple),
        Some(other) => Err(format!("has the style `{other}`, which is not written")),
    }
}

/// The style of a parameter of the query, or of a member of a form.
pub(super) fn query_style(item: &Value) -> Result<Style, String> {
    let style = item["style"].as_str().unwrap_or("form");
    let explode = item["explode"].as_bool().unwrap_or(style == "form");
    match (style, explode) {
        ("deepObject", _) => Ok(Style::Deep),
        ("form" | "pipeDelimited" | "spaceDelimited", true) => Ok(Style::Exploded),
        ("form", false) => Ok(Style::Joined(",")),
        ("pipeDelimited", false) => Ok(Style::Joined("%7C")),
        ("spaceDelimited", false) => Ok(Style::Joined("%20")),
        _ => Err(format!("has the style `{style}`, which is not written")),
    }
}

impl Parameter {
    /// Writes a value where the parameter goes.
    pub(super) fn write(
        &self,
        name: &str,
        value: &Value,
        query: &mut Vec<(String, Written)>,
        headers: &mut Vec<(String, String)>,
    ) -> Result<(), Error> {
        if self.place == Place::Query {
            return self.style.write(name, value, query);
        }
        let text = match value {
            Value::Array(items) if items.iter().all(is_scalar) => {
                items.iter().map(plain).collect::<Vec<_>>().join(",")
            }
            scalar if is_scalar(scalar) => plain(scalar),
            _ => return Err(unwritten(name)),
        };
        headers.push((name.to_owned(), text));
        Ok(())
    }
}

impl Style {
    /// Writes a value as pairs.
    pub(super) fn write(
        self,
        name: &str,
        value: &Value,
        pairs: &mut Vec<(String, Written)>,
    ) -> Result<(), Error> {
        let one = |value: &Value| (name.to_owned(), Written::text(plain(value)));
        match (self, value) {
            (_, Value::Null) => {}
            (Self::Json, value) => {
                let parts = vec![Part::Json(value.clone())];
                pairs.push((name.to_owned(), Written { parts, between: "" }));
            }
            (_, scalar) if is_scalar(scalar) => pairs.push(one(scalar)),
            (Self::Exploded, Value::Array(items)) if items.iter().all(is_scalar) => {
                pairs.extend(items.iter().map(one));
            }
            (Self::Joined(between), Value::Array(items)) if items.iter().all(is_scalar) => {
                let parts = items.iter().map(|item| Part::Text(plain(item))).collect();
                pairs.push((name.to_owned(), Written { parts, between }));
            }
            (Self::Deep, Value::Object(members)) if members.values().all(is_scalar) => {
                let member = |(inner, value): (&String, &Value)| {
                    (format!("{name}[{inner}]"), Written::text(plain(value)))
                };
                pairs.extend(members.iter().map(member));
            }
            _ => return Err(unwritten(name)),
        }
        Ok(())
    }
}

pub(super) fn is_scalar(value: &Value) -> bool {
    !matches!(value, Value::Array(_) | Value::Null | Value::Object(_))
}

fn is_header(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}

fn unwritten(name: &str) -> Error {
    let words = SafeText::words("what is given for ").as_they_wrote(name);
    let words = words.and(" has a form that the document does not have it in");
    Error::with(Code::BadRequest, words)
}
