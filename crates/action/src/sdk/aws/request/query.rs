//! The query protocol and EC2's: everything is a pair, `Filter.1.Value.1=running`.

use serde_json::{Map, Value};

use super::{
    super::models::{Member, Protocol, Service, Shape, Structure, TimeForm},
    Asked, time,
};
use crate::sdk::provider::plain;

/// All pairs of a call.
pub(super) fn pairs(
    asked: &Asked<'_>,
    input: &Structure,
    parameters: &Map<String, Value>,
) -> Vec<(String, String)> {
    let service = asked.service;
    let pairs = vec![
        ("Action".to_owned(), asked.title.to_owned()),
        ("Version".to_owned(), service.version.clone()),
    ];
    let mut writer = Writer { service, is_ec2: service.protocol == Protocol::Ec2, pairs };
    writer.structure("", input, parameters);
    writer.pairs
}

struct Writer<'a> {
    service: &'a Service,
    is_ec2: bool,
    pairs: Vec<(String, String)>,
}

impl Writer<'_> {
    fn structure(&mut self, prefix: &str, structure: &Structure, members: &Map<String, Value>) {
        for (title, value) in members.iter().filter(|(_, value)| !value.is_null()) {
            let member = structure.members.get(title);
            let name = member.map_or(title.clone(), |member| self.name(title, member));
            let name = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            match member {
                Some(member) => self.value(&name, member.of, member.flat, value),
                None => self.pairs.push((name, plain(value))),
            }
        }
    }

    /// EC2 begins names with a capital, whatever its answers do.
    fn name(&self, title: &str, member: &Member) -> String {
        let wire = member.wire(title);
        if !self.is_ec2 || wire == title {
            return member.query.as_deref().filter(|_| self.is_ec2).unwrap_or(wire).to_owned();
        }
        let mut letters = wire.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        let capital = || first.into_iter().chain(letters).collect();
        member.query.clone().unwrap_or_else(capital)
    }

    fn value(&mut self, name: &str, of: usize, flat: bool, value: &Value) {
        match (self.service.shape(of), value) {
            // An empty list is told, too, but not to EC2.
            (Shape::List(_), Value::Array(items)) if items.is_empty() => {
                if !self.is_ec2 {
                    self.pairs.push((name.to_owned(), String::new()));
                }
            }
            (Shape::List(list), Value::Array(items)) => {
                let name = match &list.name {
                    _ if self.is_ec2 => name.to_owned(),
                    Some(own) if list.flat || flat => match name.rsplit_once('.') {
                        Some((before, _)) => format!("{before}.{own}"),
                        None => own.clone(),
                    },
                    None if list.flat || flat => name.to_owned(),
                    own => format!("{name}.{}", own.as_deref().unwrap_or("member")),
                };
                for (index, item) in items.iter().enumerate() {
                    self.value(&format!("{name}.{}", index + 1), list.of, false, item);
                }
            }
            (Shape::Map(map), Value::Object(members)) => {
                let name = if map.flat || flat { name.to_owned() } else { format!("{name}.entry") };
                let key = map.key.as_deref().unwrap_or("key");
                let of_value = map.value.as_deref().unwrap_or("value");
                for (index, (title, value)) in members.iter().enumerate() {
                    let place = format!("{name}.{}", index + 1);
                    self.pairs.push((format!("{place}.{key}"), title.clone()));
                    self.value(&format!("{place}.{of_value}"), map.of, false, value);
                }
            }
            (Shape::Structure(structure), Value::Object(members)) => {
                self.structure(name, structure, members);
            }
            (Shape::Time(form), value) => {
                let value = time::written(value, form.unwrap_or(TimeForm::Iso8601));
                self.pairs.push((name.to_owned(), plain(&value)));
            }
            (_, value) => self.pairs.push((name.to_owned(), plain(value))),
        }
    }
}
