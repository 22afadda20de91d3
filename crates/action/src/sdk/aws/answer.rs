//! An answer as data, read by the model: names, lists, numbers and booleans as botocore has them.
//!
//! Times and what is binary stay as they came, numbers or text. A member that is a credential is not told.

mod json;
mod xml;

use data_encoding::BASE64;
use serde_json::{Map, Value};

use super::{
    models::{Location, Protocol, Service, Shape, Structure},
    request::Asked,
};
use crate::sdk::call::Answer;

/// What stands for a credential in an answer.
pub(super) const WITHHELD: &str = "[withheld]";

/// An answer that is no error; `None` when it is not what the model says.
pub(super) fn data(asked: &Asked<'_>, answer: &Answer) -> Option<Value> {
    let service = asked.service;
    let Some(output) = service.structure(asked.operation.output) else {
        return Some(Value::Object(Map::new()));
    };
    let mut members = match service.protocol {
        Protocol::RestJson | Protocol::RestXml => outside(service, output, answer),
        _ => Map::new(),
    };
    let Some(title) = &output.payload else {
        members.extend(body(asked, output, &answer.body)?);
        return Some(Value::Object(members));
    };
    let of = output.members.get(title)?.of;
    match service.shape(of) {
        Shape::Secret => drop(members.insert(title.clone(), WITHHELD.into())),
        Shape::Blob | Shape::Text => {
            let content = std::str::from_utf8(&answer.body).map(str::to_owned);
            let (name, text) = match content {
                Ok(text) => (title.as_str(), text),
                Err(_) => ("body_base64", BASE64.encode(&answer.body)),
            };
            members.insert(name.to_owned(), text.into());
        }
        _ if answer.body.is_empty() => {}
        _ => drop(members.insert(title.clone(), payload(service, of, &answer.body)?)),
    }
    Some(Value::Object(members))
}

/// Whether an answer that began well is an error, as S3's to what takes long may be.
pub(super) fn is_late_error(asked: &Asked<'_>, answer: &Answer) -> bool {
    let output = asked.service.structure(asked.operation.output);
    let payload = output.and_then(|output| output.members.get(output.payload.as_ref()?));
    let is_content = payload
        .is_some_and(|member| matches!(asked.service.shape(member.of), Shape::Blob | Shape::Text));
    asked.service.protocol == Protocol::RestXml
        && !is_content
        && std::str::from_utf8(&answer.body).is_ok_and(xml::is_error)
}

/// The members in the body.
fn body(asked: &Asked<'_>, output: &Structure, bytes: &[u8]) -> Option<Map<String, Value>> {
    let service = asked.service;
    if bytes.trim_ascii().is_empty() {
        return Some(Map::new());
    }
    match service.protocol {
        Protocol::Json | Protocol::RestJson => {
            let value = serde_json::from_slice(bytes).ok()?;
            Some(json::structure(service, output, &value))
        }
        Protocol::Ec2 | Protocol::Query | Protocol::RestXml => {
            let text = std::str::from_utf8(bytes).ok()?;
            xml::structure(service, output, text, asked.operation.wrapper.as_deref())
        }
    }
}

/// The one member that the body is.
fn payload(service: &Service, of: usize, bytes: &[u8]) -> Option<Value> {
    match service.protocol {
        Protocol::RestXml => xml::value(service, of, std::str::from_utf8(bytes).ok()?),
        _ => Some(json::value(service, of, &serde_json::from_slice(bytes).ok()?)),
    }
}

/// The members in headers, and the status.
fn outside(service: &Service, output: &Structure, answer: &Answer) -> Map<String, Value> {
    let mut members = Map::new();
    for (title, member) in &output.members {
        let name = member.wire(title).to_ascii_lowercase();
        let value = match member.at {
            Some(Location::Status) => Some(answer.status.into()),
            Some(Location::Header) if member.json => answer.header(&name).and_then(|text| {
                serde_json::from_slice(&BASE64.decode(text.as_bytes()).ok()?).ok()
            }),
            Some(Location::Header) => {
                answer.header(&name).map(|text| header(service, member.of, text))
            }
            Some(Location::Headers) => {
                let named = answer.headers.iter();
                let named = named.filter_map(|(other, value)| {
                    Some((other.strip_prefix(&name)?.to_owned(), value.as_str().into()))
                });
                Some(Value::Object(named.collect()))
            }
            _ => None,
        };
        if let Some(value) = value {
            members.insert(title.clone(), value);
        }
    }
    members
}

fn header(service: &Service, of: usize, text: &str) -> Value {
    match service.shape(of) {
        Shape::List(list) => {
            text.split(',').map(|item| header(service, list.of, item.trim())).collect()
        }
        shape => scalar(shape, text),
    }
}

/// A scalar that was text on the wire.
fn scalar(shape: &Shape, text: &str) -> Value {
    match shape {
        Shape::Boolean => text.trim().eq_ignore_ascii_case("true").into(),
        Shape::Float => text.parse::<f64>().map_or_else(|_| text.into(), Value::from),
        Shape::Integer => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
        Shape::Secret => WITHHELD.into(),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests;
