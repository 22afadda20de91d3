//! The catalog as it is written: YAML, strictly of this shape, with the place of each text.
//!
//! Aliases, merge keys and deep nesting have no use here, so the parser's budget leaves none: a
//! text can't grow while it is read.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_saphyr::{MergeKeyPolicy, Options, Spanned};

use super::{CatalogError, CatalogFault, MAX_CATALOG_BYTES};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawCatalog {
    pub(super) api_version: Spanned<String>,
    pub(super) kind: Spanned<String>,
    #[serde(default)]
    pub(super) metadata: RawMetadata,
    pub(super) spec: RawSpec,
}

/// As a custom resource has it. All but the name is the cluster's.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMetadata {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default, rename = "namespace")]
    _namespace: Option<String>,
    #[serde(default, rename = "labels")]
    _labels: BTreeMap<String, String>,
    #[serde(default, rename = "annotations")]
    _annotations: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSpec {
    /// How many proxies an operator would start.
    #[serde(default, rename = "replicas")]
    _replicas: u32,
    pub(super) secrets: Vec<RawEntry>,
    #[serde(default)]
    pub(super) internal: RawInternal,
    #[serde(default)]
    pub(super) egress: RawEgress,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawEntry {
    pub(super) env: Spanned<String>,
    pub(super) secret_ref: Spanned<RawSecretRef>,
    #[serde(default)]
    pub(super) egress_to: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    pub(super) locations: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    pub(super) placeholder: Option<Spanned<RawPlaceholder>>,
    #[serde(default)]
    pub(super) max_occurrences: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) on_foreign: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) allow: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) ask: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) otherwise: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) preset: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) inject: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) sign: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) oauth: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) seal: Vec<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSecretRef {
    pub(super) name: String,
    pub(super) key: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawInternal {
    #[serde(default)]
    pub(super) allowlist: Vec<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEgress {
    #[serde(default)]
    pub(super) policy: Option<Spanned<String>>,
}

/// `default`, `colon`, or a look-alike's prefix and length.
#[derive(Debug)]
pub(super) enum RawPlaceholder {
    LookAlike(RawLookAlike),
    Word(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLookAlike {
    pub(super) prefix: String,
    pub(super) length: usize,
}

/// Parses the text into the shape; what it says is not looked at.
pub(super) fn parse(text: &str) -> Result<RawCatalog, CatalogError> {
    if text.len() > MAX_CATALOG_BYTES {
        return Err(CatalogError::whole(CatalogFault::TooLarge));
    }
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let place = error.location().map(|at| (at.line(), at.column()));
        let mut words = error.without_snippet().render();
        // The place is told once, in front.
        if let Some((line, column)) = place {
            let repeated = format!(" at line {line}, column {column}");
            words.truncate(words.strip_suffix(&repeated).map_or(words.len(), str::len));
        }
        CatalogError::at(place, CatalogFault::Yaml(words))
    })
}

/// Line and column of a text.
pub(super) fn place<T>(spanned: &Spanned<T>) -> Option<(u64, u64)> {
    let (line, column) = (spanned.referenced.line(), spanned.referenced.column());
    (line > 0).then_some((line, column))
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_aliases: 0,
            max_anchors: 0,
            max_merge_keys: 0,
            max_depth: 16,
            max_documents: 1,
            max_events: 1_000_000,
            max_nodes: 500_000,
        },
        merge_keys: MergeKeyPolicy::Error,
        with_snippet: false,
    }
}

impl<'de> Deserialize<'de> for RawPlaceholder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlaceholderVisitor)
    }
}

struct PlaceholderVisitor;

impl<'de> Visitor<'de> for PlaceholderVisitor {
    type Value = RawPlaceholder;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`default`, `colon` or {prefix, length}")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<RawPlaceholder, E> {
        Ok(RawPlaceholder::Word(word.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawPlaceholder, A::Error> {
        RawLookAlike::deserialize(MapAccessDeserializer::new(map)).map(RawPlaceholder::LookAlike)
    }
}
