//! Bodies of XML. Names are the model's; what the caller wrote is text or an attribute's value.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{
    super::models::{Member, Namespace, Service, Shape, Structure, TimeForm},
    Asked, time,
};
use crate::sdk::provider::plain;

/// The members that stand nowhere else, in the operation's own element.
pub(super) fn body(
    asked: &Asked<'_>,
    input: &Structure,
    parameters: &Map<String, Value>,
) -> Vec<u8> {
    let is_in_body =
        |title: &String| input.members.get(title).is_some_and(|member| member.at.is_none());
    let members = parameters.iter().filter(|(title, _)| is_in_body(title));
    let members: Map<_, _> = members.map(|(title, value)| (title.clone(), value.clone())).collect();
    if members.is_empty() {
        return Vec::new();
    }
    let default = format!("{}Request", asked.title);
    let name = asked.operation.root.as_deref().unwrap_or(&default);
    let mut writer = Writer { service: asked.service, text: String::new() };
    writer.structure(name, asked.operation.namespace.as_ref(), input, &members);
    writer.text.into_bytes()
}

/// The one member that is the body.
pub(super) fn payload(service: &Service, title: &str, member: &Member, value: &Value) -> Vec<u8> {
    let mut writer = Writer { service, text: String::new() };
    writer.member(title, member, value);
    writer.text.into_bytes()
}

struct Writer<'a> {
    service: &'a Service,
    text: String,
}

impl Writer<'_> {
    fn structure(
        &mut self,
        name: &str,
        namespace: Option<&Namespace>,
        structure: &Structure,
        members: &Map<String, Value>,
    ) {
        let known = |attribute: bool| {
            let known = move |(title, value): (&String, _)| {
                let (title, member) = structure.members.get_key_value(title)?;
                (member.attribute == attribute).then_some((title, member, value))
            };
            members.iter().filter(|(_, value)| !value.is_null()).filter_map(known)
        };
        self.push(&["<", name]);
        if let Some(Namespace { prefix, uri }) = namespace {
            let mark = prefix.as_ref().map(|prefix| format!(":{prefix}")).unwrap_or_default();
            self.attribute(&format!("xmlns{mark}"), uri);
        }
        for (title, member, value) in known(true) {
            self.attribute(member.wire(title), &plain(value));
        }
        self.text.push('>');
        for (title, member, value) in known(false) {
            self.member(title, member, value);
        }
        self.close(name);
    }

    fn member(&mut self, title: &str, member: &Member, value: &Value) {
        let name = member.wire(title);
        match (self.service.shape(member.of), value) {
            (Shape::Structure(structure), Value::Object(members)) => {
                self.structure(name, member.namespace.as_ref(), structure, members);
            }
            _ => self.value(name, member.of, member.flat, value),
        }
    }

    fn value(&mut self, name: &str, of: usize, flat: bool, value: &Value) {
        match (self.service.shape(of), value) {
            (Shape::List(list), Value::Array(items)) if list.flat || flat => {
                for item in items {
                    self.value(name, list.of, false, item);
                }
            }
            (Shape::List(list), Value::Array(items)) => {
                let own = list.name.as_deref().unwrap_or("member");
                self.open(name);
                for item in items {
                    self.value(own, list.of, false, item);
                }
                self.close(name);
            }
            (Shape::Map(map), Value::Object(members)) => {
                let is_flat = map.flat || flat;
                let entry = if is_flat { name } else { "entry" };
                if !is_flat {
                    self.open(name);
                }
                for (key, value) in members {
                    self.open(entry);
                    self.scalar(map.key.as_deref().unwrap_or("key"), key);
                    self.value(map.value.as_deref().unwrap_or("value"), map.of, false, value);
                    self.close(entry);
                }
                if !is_flat {
                    self.close(name);
                }
            }
            (Shape::Structure(structure), Value::Object(members)) => {
                self.structure(name, None, structure, members);
            }
            (Shape::Time(form), value) => {
                let time = time::written(value, form.unwrap_or(TimeForm::Iso8601));
                self.scalar(name, &plain(&time));
            }
            (_, value) => self.scalar(name, &plain(value)),
        }
    }

    fn scalar(&mut self, name: &str, text: &str) {
        self.open(name);
        self.escaped(text);
        self.close(name);
    }

    fn open(&mut self, name: &str) {
        self.push(&["<", name, ">"]);
    }

    fn close(&mut self, name: &str) {
        self.push(&["</", name, ">"]);
    }

    fn attribute(&mut self, name: &str, value: &str) {
        self.push(&[" ", name, "=\""]);
        self.escaped(value);
        self.text.push('"');
    }

    fn push(&mut self, parts: &[&str]) {
        self.text.extend(parts.iter().copied());
    }

    fn escaped(&mut self, text: &str) {
        for letter in text.chars() {
            match letter {
                '&' => self.text += "&amp;",
                '<' => self.text += "&lt;",
                '>' => self.text += "&gt;",
                // As they are a reader would make spaces or nothing of them.
                '"' | '\r' | '\n' | '\t' => {
                    // Writing to a String does not fail.
                    let _ = write!(self.text, "&#{};", u32::from(letter));
                }
                other => self.text.push(other),
            }
        }
    }
}
