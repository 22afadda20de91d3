//! A member `_method` of JSON, which Laravel and Slim take for the method as they do a form's field, or one called as the
//! headers are that do so.
//!
//! Short bodies are read; longer ones are watched as they pass, in which one that is found ends them, since its value
//! is yet to come. Deliberately not here: who minds (`ledger.rs`).

use std::{borrow::Cow, fmt};

use keyless_core::is_method;
use memchr::memmem;
use serde::de::{self, Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Deserializer, Value};

use super::hidden::json_decoded;

/// The longest such name between quotes, with all of it escaped.
const LONGEST: usize = 6 * ("X-HTTP-Method-Override".len() + 2);

/// Watches one body, chunk by chunk.
#[derive(Default)]
pub(super) struct Watch {
    /// The end of what came before.
    tail: Vec<u8>,
}

impl Watch {
    /// Whether a member of this name, or what could be one, ends in `chunk`.
    pub(super) fn sees(&mut self, chunk: &[u8]) -> bool {
        let begun = chunk.len().min(LONGEST);
        let seen = is_in(&[&self.tail, &chunk[..begun]].concat()) || is_in(chunk);
        if chunk.len() >= LONGEST {
            self.tail.clear();
        }
        self.tail.extend_from_slice(&chunk[chunk.len().saturating_sub(LONGEST)..]);
        let surplus = self.tail.len().saturating_sub(LONGEST);
        self.tail.drain(..surplus);
        seen
    }
}

fn is_in(text: &[u8]) -> bool {
    has_name(text)
        || (memmem::find(text, b"\\u00").is_some()
            && has_name(&json_decoded(&without_quotes(text)).0))
}

/// Whether such a name stands there between quotes, as it is.
fn has_name(text: &[u8]) -> bool {
    memchr::memchr_iter(b'"', text).any(|at| {
        let rest = &text[at + 1..text.len().min(at + 1 + LONGEST)];
        // What begins a name that counts, so that few are looked at.
        matches!(rest, [b'_' | b'x' | b'X', ..])
            && memchr::memchr(b'"', rest).is_some_and(|end| is_method(&rest[..end]))
    })
}

/// An escaped quote ends no name, and would look like one that does once it is decoded.
fn without_quotes(text: &[u8]) -> Vec<u8> {
    const QUOTE: &[u8] = b"\\u0022";
    let mut plain = text.to_vec();
    for at in memmem::find_iter(text, QUOTE) {
        plain[at..at + QUOTE.len()].fill(b' ');
    }
    plain
}

/// The values of such members of a whole body, as a form has them; `None` where it can't be read and may have one.
pub(super) fn members(body: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    if !is_in(body) {
        return Some(Vec::new());
    }
    let mut deserializer = Deserializer::from_slice(body);
    let members = deserializer.deserialize_any(Members).ok()?;
    deserializer.end().ok()?;
    Some(members)
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(Vec<u8>, Vec<u8>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            if !is_method(name.as_bytes()) {
                map.next_value::<IgnoredAny>()?;
            } else if let Value::String(method) = map.next_value()? {
                members.push((name.into_owned().into_bytes(), method.into_bytes()));
            }
        }
        Ok(members)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_at_the_top_name_methods() {
        let methods = |body: &str| {
            let members = members(body.as_bytes())?;
            Some(members.into_iter().map(|(_, value)| String::from_utf8(value).unwrap()).collect())
        };
        let some =
            |methods: &[&str]| Some(methods.iter().map(|&it| it.to_owned()).collect::<Vec<_>>());
        assert_eq!(methods(r#"{"a":1,"_method":"DELETE"}"#), some(&["DELETE"]));
        assert_eq!(methods(r#"{"\u005fmethod":"PUT","_method":"PATCH"}"#), some(&["PUT", "PATCH"]));
        assert_eq!(methods(r#"{"a":{"_method":"PUT"},"_method":null}"#), some(&[]));
        assert_eq!(methods(r#"[{"_method":"PUT"}]"#), some(&[]));
        assert_eq!(methods(r#"{"_METHOD":"PUT","x":1}"#), some(&["PUT"]));
        assert_eq!(methods(r#"{"X-HTTP-Method-Override":"PUT"}"#), some(&["PUT"]));
        assert_eq!(methods(r#"{"x_\u006dethod_override":"PUT","method":"GET"}"#), some(&["PUT"]));
        assert_eq!(methods("not json"), some(&[]));
        assert_eq!(methods(r#"{"_method":"PUT""#), None);
    }

    #[test]
    fn they_are_seen_at_every_cut() {
        let sees = |chunks: &[&str]| {
            let mut watch = Watch::default();
            chunks.iter().any(|chunk| watch.sees(chunk.as_bytes()))
        };
        let long = "x".repeat(100);
        for name in [
            "_method",
            "_MethoD",
            "X-HTTP-Method-Override",
            "\\u005fmethod",
            "\\u005F\\u006d\\u0065\\u0074\\u0068\\u006f\\u0064",
        ] {
            let text = format!("{{\"a\":\"{long}\",\"{name}\":\"PUT\",\"b\":\"{long}\"}}");
            for cut in 0..text.len() {
                assert!(sees(&[&text[..cut], &text[cut..]]), "{name} {cut}");
            }
            let bytes: Vec<&str> = text.split_inclusive(|_| true).collect();
            assert!(sees(&bytes), "{name}");
        }
        assert!(!sees(&[r#"{"a":"\u0022_method\u0022 \u005fmethod"}"#]));
        assert!(!sees(&[r#"{"a":"{\"_method\":1}","method":1,"x_method":1}"#]));
    }
}
