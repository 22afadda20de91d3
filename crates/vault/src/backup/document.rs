//! What a copy of the vault says, as JSON: each secret with its metadata and every version of its value.
//!
//! ```text
//! {"format": "keyless-vault", "version": 1, "exported_at": …, "secrets": [
//!   {"path", "metadata", "created_at", "updated_at", "in_use"?, "removed_at"?,
//!    "versions": [{"version", "created_at", "value": base64}]}]}
//! ```
//!
//! Not in it: envelopes, grants, agents and the log, which belong to their store.

use std::{collections::BTreeSet, fmt};

use data_encoding::BASE64;
use jiff::Timestamp;
use keyless_core::{Code, Error, SafeText, SecretPath, SecretValue};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor};
use zeroize::Zeroizing;

use super::unusable;
use crate::{
    metadata::{Metadata, SourceConfig},
    source::MAX_VALUE_BYTES,
};

const FORMAT: &str = "keyless-vault";
const VERSION: u32 = 1;

/// The whole copy; `V` is a value on its way out or in.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "V: Value"))]
pub(crate) struct Document<V> {
    format: String,
    version: u32,
    exported_at: Timestamp,
    pub(crate) secrets: Vec<CopiedSecret<V>>,
}

/// One secret.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "V: Value"))]
pub(crate) struct CopiedSecret<V> {
    pub(crate) path: SecretPath,
    pub(crate) metadata: Metadata,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    /// The version in use, where that is not the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) in_use: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) removed_at: Option<Timestamp>,
    /// Ascending.
    pub(crate) versions: Vec<CopiedVersion<V>>,
}

/// One version.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "V: Value"))]
pub(crate) struct CopiedVersion<V> {
    pub(crate) version: u32,
    pub(crate) created_at: Timestamp,
    #[serde(deserialize_with = "V::read")]
    pub(crate) value: V,
}

/// A value on its way into a copy.
pub(crate) struct Opened(pub(crate) SecretValue);

/// A value that can be read from a copy.
pub(crate) trait Value: Sized {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;
}

/// What every version of the format has.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

impl Document<Opened> {
    pub(crate) fn new(secrets: Vec<CopiedSecret<Opened>>, exported_at: Timestamp) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, exported_at, secrets }
    }
}

impl Document<Zeroizing<Vec<u8>>> {
    /// Reads a copy and checks that a vault could have written it.
    pub(crate) fn read(json: &[u8]) -> Result<Self, Error> {
        let head: Head =
            serde_json::from_slice(json).map_err(|_| unusable("it is no copy of a vault"))?;
        match (head.format.as_str(), head.version) {
            (FORMAT, VERSION) => {}
            (FORMAT, version) if version > VERSION => {
                let words = SafeText::words("the copy of the vault");
                return Err(Error::with(Code::KeylessOutdated, words));
            }
            _ => return Err(unusable("it is no copy of a vault")),
        }
        let document: Self =
            serde_json::from_slice(json).map_err(|_| unusable("it is no copy of a vault"))?;
        let mut paths = BTreeSet::new();
        let is_sound =
            document.secrets.iter().all(|secret| paths.insert(&secret.path) && secret.is_sound());
        if is_sound { Ok(document) } else { Err(unusable("it says what no vault says")) }
    }
}

impl<V> CopiedSecret<V> {
    /// The version in use.
    pub(crate) fn current(&self) -> Option<&CopiedVersion<V>> {
        match self.in_use {
            None => self.versions.last(),
            Some(in_use) => self.versions.iter().find(|version| version.version == in_use),
        }
    }
}

impl CopiedSecret<Zeroizing<Vec<u8>>> {
    fn is_sound(&self) -> bool {
        let source = &self.metadata.source;
        let kept_here = matches!(source, SourceConfig::Local | SourceConfig::Routed { .. });
        let numbers: Vec<u32> = self.versions.iter().map(|version| version.version).collect();
        let ascend = numbers.first() != Some(&0) && numbers.is_sorted_by(|one, next| one < next);
        let fits = |version: &CopiedVersion<Zeroizing<Vec<u8>>>| {
            (1..=MAX_VALUE_BYTES).contains(&version.value.len())
        };
        ascend
            && (kept_here || numbers.is_empty())
            && self.in_use.is_none_or(|in_use| numbers.contains(&in_use))
            && self.versions.iter().all(fits)
    }
}

impl Serialize for Opened {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&Zeroizing::new(BASE64.encode(self.0.expose_for_sealing())))
    }
}

impl Value for Zeroizing<Vec<u8>> {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Base64;
        impl Visitor<'_> for Base64 {
            type Value = Zeroizing<Vec<u8>>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value in base64")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                let bytes = BASE64.decode(text.as_bytes());
                bytes.map(Zeroizing::new).map_err(|_| E::custom("a value is no base64"))
            }
        }
        from.deserialize_str(Base64)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn copy() -> Json {
        let at = "2026-11-22T00:00:00Z";
        json!({ "format": FORMAT, "version": 1, "exported_at": at, "secrets": [{
            "path": "a/b/c", "metadata": { "env": "TOKEN" }, "created_at": at, "updated_at": at, "in_use": 1,
            "versions": [
                { "version": 1, "created_at": at, "value": "b25l" },
                { "version": 3, "created_at": at, "value": "dHdv" },
            ],
        }] })
    }

    fn read(copy: &Json) -> Result<Document<Zeroizing<Vec<u8>>>, Error> {
        Document::read(copy.to_string().as_bytes())
    }

    #[test]
    fn a_copy_reads() {
        let document = read(&copy()).unwrap();
        let secret = &document.secrets[0];
        assert_eq!(**secret.current().unwrap().value, *b"one");
        assert_eq!(secret.metadata.env.as_ref().unwrap().to_string(), "TOKEN");
    }

    #[test]
    fn what_no_vault_says_is_refused() {
        type Change = fn(&mut Json);
        let changes: [(&str, Change); 11] = [
            ("format", |copy| copy["format"] = json!("other")),
            ("version", |copy| copy["version"] = json!(0)),
            ("unknown field", |copy| copy["secrets"][0]["more"] = json!(1)),
            ("path", |copy| copy["secrets"][0]["path"] = json!("a/b")),
            ("twice", |copy| {
                let again = copy["secrets"][0].clone();
                copy["secrets"].as_array_mut().unwrap().push(again);
            }),
            ("in use", |copy| copy["secrets"][0]["in_use"] = json!(2)),
            ("order", |copy| copy["secrets"][0]["versions"][0]["version"] = json!(4)),
            ("no version", |copy| copy["secrets"][0]["versions"][0]["version"] = json!(0)),
            ("base64", |copy| copy["secrets"][0]["versions"][0]["value"] = json!("?")),
            ("empty", |copy| copy["secrets"][0]["versions"][0]["value"] = json!("")),
            ("kept elsewhere", |copy| {
                copy["secrets"][0]["metadata"]["source"] = json!({ "env": { "variable": "A" } });
            }),
        ];
        for (name, change) in changes {
            let mut copy = copy();
            change(&mut copy);
            assert_eq!(read(&copy).err().map(|e| e.code()), Some(Code::BackupUnusable), "{name}");
        }
        assert!(Document::read(b"").is_err());
        let mut newer = copy();
        newer["version"] = json!(2);
        assert_eq!(read(&newer).err().map(|e| e.code()), Some(Code::KeylessOutdated));
    }
}
