//! Answers of JSON: only what the model has, by the model's names.

use serde_json::{Map, Value};

use super::{
    super::models::{Service, Shape, Structure},
    WITHHELD,
};

/// The members that stand in the body and are not null.
pub(super) fn structure(
    service: &Service,
    structure: &Structure,
    value: &Value,
) -> Map<String, Value> {
    let in_body = structure.members.iter().filter(|(_, member)| member.at.is_none());
    let found = in_body.filter_map(|(title, member)| {
        let found = value.get(member.wire(title)).filter(|found| !found.is_null())?;
        Some((title.clone(), self::value(service, member.of, found)))
    });
    found.collect()
}

/// A value of a shape; serde_json bounds how deep it is.
pub(super) fn value(service: &Service, of: usize, found: &Value) -> Value {
    match (service.shape(of), found) {
        (_, Value::Null) => Value::Null,
        (Shape::List(list), Value::Array(items)) => {
            items.iter().map(|item| value(service, list.of, item)).collect()
        }
        (Shape::Map(map), Value::Object(members)) => {
            let one = |(name, found): (&String, &Value)| {
                let is_secret = !found.is_null() && map.secret.contains(name);
                let told = if is_secret { WITHHELD.into() } else { value(service, map.of, found) };
                (name.clone(), told)
            };
            Value::Object(members.iter().map(one).collect())
        }
        (Shape::Secret, _) => WITHHELD.into(),
        (Shape::Structure(shape), found) => Value::Object(structure(service, shape, found)),
        (_, found) => found.clone(),
    }
}
