//! GraphQL documents that a request names instead of bringing them: by a hash (`extensions.persistedQuery`), or an id.
//!
//! What such a document calls only its server knows. Servers differ in which member they look at, and in which one
//! counts beside a `query`, so every one that some server takes is said. Follows Apollo's automatic persisted queries,
//! the GraphQL-over-HTTP working group's `documentId`, and Relay's `id` and `doc_id`.

use data_encoding::HEXLOWER;
use keyless_core::audit::portable_sha256;
use serde_json::Value;

/// Members and parameters that name a document, in lower case and without what parts their words.
const NAMES: [&str; 9] = [
    "docid",
    "documenthash",
    "documentid",
    "id",
    "operationid",
    "persistedquery",
    "persistedqueryid",
    "queryhash",
    "queryid",
];

/// More members than any request names a document by; the document beside them is hashed for each.
pub(super) const MAX_NAMES: usize = 16;

/// What a member or parameter is for, as far as documents go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// It names a document.
    Document,
    /// Its members may.
    Extensions,
}

impl Names {
    pub(super) fn of(name: &str) -> Option<Self> {
        match &*folded(name) {
            "extensions" => Some(Self::Extensions),
            name => NAMES.contains(&name).then_some(Self::Document),
        }
    }
}

/// The documents that a member with this value names, as `document.ID`, beside this document.
pub(super) fn named(by: Names, value: &Value, beside: Option<&str>) -> Vec<String> {
    match (by, value) {
        (_, Value::Null) => Vec::new(),
        (Names::Document, value) => vec![document(&text(value))],
        (Names::Extensions, Value::Object(members)) => {
            let is_id = |(name, _): &(&String, &Value)| Names::of(name) == Some(Names::Document);
            let ids: Vec<_> = members.iter().filter(is_id).take(MAX_NAMES + 1).collect();
            if ids.len() > MAX_NAMES {
                return vec![document("")];
            }
            ids.into_iter().filter_map(|(_, value)| persisted(value, beside)).collect()
        }
        (Names::Extensions, _) => vec![document("")],
    }
}

/// The document that an extension names, if it is another than the one beside it.
fn persisted(value: &Value, beside: Option<&str>) -> Option<String> {
    let Value::Object(members) = value else {
        return (!value.is_null()).then(|| document(&text(value)));
    };
    let is_hash = |(name, _): &(&String, &Value)| folded(name) == "sha256hash";
    let mut hashes = members.iter().filter(is_hash);
    let hash = hashes.next().map(|(_, value)| text(value)).unwrap_or_default();
    let is_known = hashes.next().is_none() && beside.is_some_and(|text| sha256(text) == hash);
    (!is_known).then(|| document(&hash))
}

fn sha256(text: &str) -> String {
    HEXLOWER.encode(&portable_sha256(&[text.as_bytes()]))
}

fn document(id: &str) -> String {
    format!("document.{id}")
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        // No id that anybody could write down.
        _ => String::new(),
    }
}

fn folded(name: &str) -> String {
    name.chars().filter(|c| !"_-".contains(*c)).collect::<String>().to_ascii_lowercase()
}
