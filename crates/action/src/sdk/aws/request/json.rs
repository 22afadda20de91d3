//! Bodies of JSON: what is named otherwise on the wire gets that name, and times their form.

use keyless_core::{Code, Error};
use serde_json::{Map, Value};

use super::{
    super::models::{Service, Shape, Structure, TimeForm},
    time,
};

/// The members that stand nowhere else.
pub(super) fn body(
    service: &Service,
    input: &Structure,
    parameters: &Map<String, Value>,
) -> Result<Vec<u8>, Error> {
    let of = |title: &String| input.members.get(title);
    let in_body = parameters.iter().filter_map(|(title, value)| {
        let member = of(title).filter(|member| member.at.is_none())?;
        Some((member.wire(title).to_owned(), written(service, member.of, value)))
    });
    bytes(&Value::Object(in_body.collect()))
}

/// The one member that is the body.
pub(super) fn payload(service: &Service, of: usize, value: &Value) -> Result<Vec<u8>, Error> {
    bytes(&written(service, of, value))
}

fn bytes(value: &Value) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|_| Error::new(Code::Internal))
}

fn written(service: &Service, of: usize, value: &Value) -> Value {
    match (service.shape(of), value) {
        (Shape::List(list), Value::Array(items)) => {
            Value::Array(items.iter().map(|item| written(service, list.of, item)).collect())
        }
        (Shape::Map(map), Value::Object(members)) => {
            let one =
                |(name, value): (&String, &Value)| (name.clone(), written(service, map.of, value));
            Value::Object(members.iter().map(one).collect())
        }
        (Shape::Structure(structure), Value::Object(members)) => {
            let one = |(title, value): (&String, &Value)| match structure.members.get(title) {
                Some(member) => (member.wire(title).to_owned(), written(service, member.of, value)),
                None => (title.clone(), value.clone()),
            };
            Value::Object(members.iter().map(one).collect())
        }
        (Shape::Time(form), value) => time::written(value, form.unwrap_or(TimeForm::UnixTimestamp)),
        (_, value) => value.clone(),
    }
}
