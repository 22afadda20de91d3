//! Finds two members of one name in an object of a message: readers differ in which of them they take (RFC 8259,
//! section 4), so whoever looks at one might act on the other.

use std::{cell::Cell, collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Twins {
    /// In the message itself; its id may be one of them.
    AtTheTop,
    /// In what it holds.
    Within,
}

/// Looks at one value, as deep as the parser goes.
struct Look<'a> {
    depth: usize,
    found: &'a Cell<Option<Twins>>,
}

/// Twins in `text`, which is JSON.
pub(super) fn find(text: &[u8]) -> Option<Twins> {
    let found = Cell::new(None);
    let mut parser = serde_json::Deserializer::from_slice(text);
    // It fails at the first that it finds, and at nothing else.
    let _ = Look { depth: 0, found: &found }.deserialize(&mut parser);
    found.get()
}

impl Look<'_> {
    fn deeper(&self) -> Self {
        Self { depth: self.depth + 1, found: self.found }
    }
}

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if !names.insert(name) {
                let place = if self.depth == 0 { Twins::AtTheTop } else { Twins::Within };
                self.found.set(Some(place));
                return Err(A::Error::custom("twins"));
            }
            members.next_value_seed(self.deeper())?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self.deeper())?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_are_found_wherever_they_are() {
        let top = Some(Twins::AtTheTop);
        let within = Some(Twins::Within);
        for (text, expected) in [
            (r#"{"a":1,"b":[1,2.5,-1,true,null,"x"],"c":{"a":{"a":1}}}"#, None),
            (r#"{"id":9,"id":10}"#, top),
            // One name, however it is written.
            (r#"{"id":9,"\u0069d":10}"#, top),
            (r#"{"a":{"path":"x","path":"y"}}"#, within),
            (r#"{"a":[[{"p":1,"q":2,"p":3}]]}"#, within),
            (r#"[{"p":1},{"p":1}]"#, None),
        ] {
            assert_eq!(find(text.as_bytes()), expected, "{text}");
        }
    }
}
