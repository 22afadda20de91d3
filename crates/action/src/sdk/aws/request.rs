//! A request of an operation: where each parameter goes, by the service's protocol.

mod json;
mod query;
mod time;
mod xml;

use data_encoding::{BASE64, HEXLOWER};
use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText, sigv4_digest};
use md5::{Digest as _, Md5};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::models::{Checksum, Location, Member, Operation, Protocol, Service, Shape, Structure};
use crate::sdk::provider::{encoded, escape, lacks, plain, segment, set};

/// A request before it is signed.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: Vec<(String, Zeroizing<String>)>,
    pub(super) body: Zeroizing<Vec<u8>>,
}

/// An operation of a service, and its name as AWS writes it.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) service: &'a Service,
    pub(super) title: &'a str,
    pub(super) operation: &'a Operation,
}

impl Asked<'_> {
    /// Whether the operation has a parameter of this name.
    pub(super) fn takes(&self, name: &str) -> bool {
        let input = self.service.structure(self.operation.input);
        input.is_some_and(|input| input.members.contains_key(name))
    }

    /// The request, and what stands before its host.
    pub(super) fn draft(
        &self,
        parameters: Map<String, Value>,
        now: Timestamp,
    ) -> Result<(Draft, String), Error> {
        let none = Structure::default();
        let input = self.service.structure(self.operation.input).unwrap_or(&none);
        let parameters = self.checked(input, parameters, now)?;
        let prefix = self.operation.prefix.as_deref().unwrap_or_default();
        let prefix = fill(prefix, |name| label(&plain(parameters.get(name)?)))?;
        let mut draft = match self.service.protocol {
            Protocol::Ec2 | Protocol::Query => self.query(input, &parameters),
            Protocol::Json => self.json(input, &parameters)?,
            Protocol::RestJson | Protocol::RestXml => self.rest(input, &parameters)?,
        };
        self.add_checksum(&mut draft);
        Ok((draft, prefix))
    }

    /// The parameters that are there, with a token where the operation has one.
    fn checked(
        &self,
        input: &Structure,
        mut parameters: Map<String, Value>,
        now: Timestamp,
    ) -> Result<Map<String, Value>, Error> {
        parameters.retain(|_, value| !value.is_null());
        if let Some(name) = parameters.keys().find(|name| !input.members.contains_key(*name)) {
            let words = SafeText::words("the operation has no parameter ").as_they_wrote(name);
            return Err(Error::with(Code::BadRequest, words));
        }
        for (name, member) in &input.members {
            if member.token && !parameters.contains_key(name) {
                parameters.insert(name.clone(), token(self.title, &parameters, now).into());
            }
        }
        Ok(parameters)
    }

    fn query(&self, input: &Structure, parameters: &Map<String, Value>) -> Draft {
        let pairs = query::pairs(self, input, parameters);
        let mut draft = posted(encoded(&pairs).into_bytes());
        let media_type = "application/x-www-form-urlencoded; charset=utf-8";
        set(&mut draft.headers, "content-type", media_type.to_owned());
        draft
    }

    fn json(&self, input: &Structure, parameters: &Map<String, Value>) -> Result<Draft, Error> {
        let mut draft = posted(json::body(self.service, input, parameters)?);
        let version = self.service.json.as_deref().unwrap_or("1.1");
        set(&mut draft.headers, "content-type", format!("application/x-amz-json-{version}"));
        set(&mut draft.headers, "x-amz-target", format!("{}.{}", self.service.target, self.title));
        Ok(draft)
    }

    fn rest(&self, input: &Structure, parameters: &Map<String, Value>) -> Result<Draft, Error> {
        let uri = fill(&self.operation.uri, |label| self.in_path(input, parameters, label))?;
        let (path, fixed) = uri.split_once('?').unwrap_or((&uri, ""));
        let method = self.operation.method.clone();
        let mut draft = Draft { method, path: path.to_owned(), ..Draft::default() };
        for pair in fixed.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            draft.query.push((name.to_owned(), value.to_owned()));
        }
        for (title, value) in parameters {
            let Some(member) = input.members.get(title) else { continue };
            self.put(&mut draft, member, member.wire(title), value)?;
        }
        self.add_body(&mut draft, input, parameters)?;
        // Without it API Gateway answers in another form, and Glacier not at all.
        let has_accept = draft.headers.iter().any(|(name, _)| name == "accept");
        if self.service.signing == "apigateway" && !has_accept {
            set(&mut draft.headers, "accept", "application/json".to_owned());
        } else if self.service.signing == "glacier" {
            set(&mut draft.headers, "x-amz-glacier-version", self.service.version.clone());
        }
        Ok(draft)
    }

    /// What `{Name}` or `{Name+}` stands for: one segment of the path, or several.
    fn in_path(
        &self,
        input: &Structure,
        parameters: &Map<String, Value>,
        label: &str,
    ) -> Option<String> {
        let (name, several) = label.strip_suffix('+').map_or((label, false), |name| (name, true));
        let in_uri = |(title, member): &(&String, &Member)| {
            member.at == Some(Location::Uri) && member.wire(title) == name
        };
        let (title, member) = input.members.iter().find(in_uri)?;
        let value = self.text(member.of, parameters.get(title)?, Location::Uri);
        if several {
            // S3's keys are names, not paths: it stores what is asked for, and signs it so.
            let is_literal = self.service.signing == "s3" && name == "Key";
            let leaves = !is_literal && value.split('/').any(|part| part == "." || part == "..");
            let parts = value.split('/').map(escape).collect::<Vec<_>>().join("/");
            return (!value.is_empty() && !leaves).then_some(parts);
        }
        // Route 53 names a zone `/hostedzone/Z1` itself, and wants `Z1`.
        let is_zone = self.service.signing == "route53";
        let own = value.rsplit('/').next().filter(|_| is_zone);
        segment(own.unwrap_or(&value))
    }

    fn put(
        &self,
        draft: &mut Draft,
        member: &Member,
        name: &str,
        value: &Value,
    ) -> Result<(), Error> {
        let text = |of, value: &Value, at| self.text(of, value, at);
        match (member.at, self.service.shape(member.of), value) {
            (Some(Location::Query), Shape::Map(map), Value::Object(members)) => {
                for (name, value) in members {
                    let alone = std::slice::from_ref(value);
                    let values = value.as_array().map_or(alone, Vec::as_slice);
                    let pair = |value| (name.clone(), text(map.of, value, Location::Query));
                    draft.query.extend(values.iter().map(pair));
                }
            }
            (Some(Location::Query), Shape::List(list), Value::Array(items)) => {
                let pair = |item| (name.to_owned(), text(list.of, item, Location::Query));
                draft.query.extend(items.iter().map(pair));
            }
            (Some(Location::Query), ..) => {
                draft.query.push((name.to_owned(), text(member.of, value, Location::Query)));
            }
            // The body's own length is what it has.
            (Some(Location::Header), ..) if name.eq_ignore_ascii_case("content-length") => {}
            (Some(Location::Header), ..) if member.json => {
                set(&mut draft.headers, name, BASE64.encode(value.to_string().as_bytes()));
            }
            (Some(Location::Header), Shape::List(list), Value::Array(items)) => {
                let items = items.iter().map(|item| listed(text(list.of, item, Location::Header)));
                let items = items.collect::<Vec<_>>().join(",");
                if !items.is_empty() {
                    set(&mut draft.headers, name, items);
                }
            }
            (Some(Location::Header), ..) => {
                set(&mut draft.headers, name, text(member.of, value, Location::Header));
            }
            (Some(Location::Headers), Shape::Map(map), Value::Object(members)) => {
                for (end, value) in members {
                    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                    if !end.bytes().all(plain) {
                        let words = SafeText::words("no header's name: ").as_they_wrote(end);
                        return Err(Error::with(Code::BadRequest, words));
                    }
                    let value = text(map.of, value, Location::Header);
                    set(&mut draft.headers, &format!("{name}{end}"), value);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_body(
        &self,
        draft: &mut Draft,
        input: &Structure,
        parameters: &Map<String, Value>,
    ) -> Result<(), Error> {
        let is_xml = self.service.protocol == Protocol::RestXml;
        let payload = input.payload.as_ref().and_then(|name| input.members.get_key_value(name));
        let body = match payload {
            Some((title, member)) => {
                let value = parameters.get(title);
                match (self.service.shape(member.of), value) {
                    (Shape::Blob | Shape::Secret | Shape::Text, value) => {
                        // As it is, and of the type that the caller says.
                        let text = value.map(plain).unwrap_or_default();
                        draft.body = Zeroizing::new(text.into_bytes());
                        return Ok(());
                    }
                    (_, None) if is_xml => Vec::new(),
                    (_, None) => b"{}".to_vec(),
                    (_, Some(value)) if is_xml => xml::payload(self.service, title, member, value),
                    (_, Some(value)) => json::payload(self.service, member.of, value)?,
                }
            }
            None if input.members.values().all(|member| member.at.is_some()) => Vec::new(),
            None if is_xml => xml::body(self, input, parameters),
            None => json::body(self.service, input, parameters)?,
        };
        if !body.is_empty() && !draft.headers.iter().any(|(name, _)| name == "content-type") {
            let media_type = if is_xml { "application/xml" } else { "application/json" };
            set(&mut draft.headers, "content-type", media_type.to_owned());
        }
        draft.body = Zeroizing::new(body);
        Ok(())
    }

    fn add_checksum(&self, draft: &mut Draft) {
        match self.operation.checksum {
            Some(Checksum::Md5) => {
                let sum = BASE64.encode(&Md5::digest(&draft.body));
                set(&mut draft.headers, "content-md5", sum);
            }
            Some(Checksum::Sha256) => {
                let sum = HEXLOWER.decode(sigv4_digest(&draft.body).as_bytes());
                let sum = BASE64.encode(&sum.unwrap_or_default());
                set(&mut draft.headers, "x-amz-sdk-checksum-algorithm", "SHA256".to_owned());
                set(&mut draft.headers, "x-amz-checksum-sha256", sum);
            }
            None => {}
        }
    }

    /// A scalar outside of the body.
    fn text(&self, of: usize, value: &Value, at: Location) -> String {
        match self.service.shape(of) {
            Shape::Time(form) => plain(&time::written(value, form.unwrap_or(time::usual(at)))),
            _ => plain(value),
        }
    }
}

fn posted(body: Vec<u8>) -> Draft {
    let (method, path) = ("POST".to_owned(), "/".to_owned());
    Draft { method, path, body: Zeroizing::new(body), ..Draft::default() }
}

/// A UUID that another call, or this one at another time, does not have. It is no secret.
fn token(title: &str, parameters: &Map<String, Value>, now: Timestamp) -> String {
    let about = Value::Object(parameters.clone()).to_string();
    let digest = sigv4_digest(format!("{} {title} {about}", now.as_nanosecond()).as_bytes());
    let part = |from: usize, to: usize| digest.get(from..to).unwrap_or_default().to_owned();
    let parts = [part(0, 8), part(8, 12), "4".to_owned() + &part(13, 16)];
    format!("{}-8{}-{}", parts.join("-"), part(17, 20), part(20, 32))
}

/// An item of a list in a header: quoted, if it could be taken for several.
fn listed(item: String) -> String {
    if item.contains(['"', ',']) { format!("\"{}\"", item.replace('"', "\\\"")) } else { item }
}

/// A part of a host's name; it may have dots.
fn label(value: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let labels = value.split('.').all(|label| !label.is_empty() && label.bytes().all(plain));
    labels.then(|| value.to_owned())
}

/// Replaces each `{label}`.
fn fill(template: &str, write: impl Fn(&str) -> Option<String>) -> Result<String, Error> {
    let (mut whole, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or(Code::Internal)?;
        let written = write(name).ok_or_else(|| lacks(name.trim_end_matches('+')))?;
        whole.push_str(before);
        whole.push_str(&written);
        rest = after;
    }
    whole.push_str(rest);
    Ok(whole)
}

#[cfg(test)]
mod tests;
