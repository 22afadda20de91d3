//! JSON in which no member stands twice: of two, one reader takes the first and another the last (RFC 8259, section 4).

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// A JSON value in no object of which a member stands twice, at any depth, however its name is written.
///
/// Reading one that has two fails at the second, as a fault of the syntax does.
#[derive(Debug)]
pub struct UniqueMembers(pub Value);

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue).map(Self)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(UniqueMembers(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if all.contains_key(&name) {
                return Err(A::Error::custom("a member stands twice"));
            }
            let UniqueMembers(value) = members.next_value()?;
            all.insert(name, value);
        }
        Ok(all.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_once_at_every_depth() {
        for (text, is_read) in [
            (r#"{"a":1,"b":[1,2.5,-1,true,null,"x"],"c":{"a":{"a":1}}}"#, true),
            (r#"[{"p":1},{"p":1}]"#, true),
            (r#"{"id":9,"id":10}"#, false),
            // One name, however it is written.
            (r#"{"id":9,"\u0069d":10}"#, false),
            (r#"{"a":{"path":"x","path":"y"}}"#, false),
            (r#"{"a":[[{"p":1,"q":2,"p":3}]]}"#, false),
        ] {
            let read = serde_json::from_str::<UniqueMembers>(text);
            assert_eq!(read.is_ok(), is_read, "{text}");
            if let Ok(UniqueMembers(value)) = read {
                assert_eq!(value, serde_json::from_str::<Value>(text).unwrap(), "{text}");
            }
        }
    }
}
