//! One provider's file: what its tokens look like, where to get them, where they may go.
//!
//! The JSON of the devboy catalog, schema version 1, whose files read here as they are; `env_var`, `egress` and
//! `no_liveness` of a variant are ours, and so is most of its `liveness` (`providers/liveness.rs`).
//! Source: reference/secrets.md, 9.2.

use keyless_core::{Destination, Location};
use regex::Regex;
use serde::{Deserialize, Serialize};

use super::liveness::Liveness;
use crate::{
    metadata::{EnvName, LookAlikeShape},
    upkeep::RotationMethod,
};

/// A service, and the kinds of tokens that it issues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// The schema's address, for editors.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// 1.
    pub schema_version: u32,
    /// Lower-kebab; the file's name without `.json`.
    pub provider_id: String,
    /// For people.
    pub display_name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// At least one; the first is meant when only the provider is known.
    pub variants: Vec<Variant>,
    /// Variables that hold its tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_var_patterns: Vec<EnvPattern>,
    /// Variables of its that hold none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_var_skip: Vec<String>,
}

/// One kind of token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Lower-kebab, unique over all providers: the pattern's id.
    pub id: String,
    /// For people.
    pub display_name: String,
    /// For people.
    pub description: String,
    /// What a value looks like; anchored at both ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_regex: Option<String>,
    /// What a value looks like, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_hint: Option<String>,
    /// How to get one.
    pub retrieval: Retrieval,
    /// How to see whether one works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness: Option<Liveness>,
    /// Why there is no such request, as a fragment of a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_liveness: Option<String>,
    /// How to renew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<Rotation>,
    /// The account in an operating system's keychain, for older tools. Read and ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_keychain_account: Option<String>,
    /// The variable in which the service's tools look for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_var: Option<EnvName>,
    /// Where it may go; absent for what does not travel in requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Egress>,
}

/// How a person gets a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retrieval {
    /// The page, https; [`page`](Self::page) gives it.
    pub console_url: String,
    /// Its documentation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub docs_url: Option<String>,
    /// At least one.
    pub steps: Vec<String>,
    /// What else to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// How a token is renewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// Whether a person or a program renews it, and where.
    pub method: RotationMethod,
    /// How often, 1 to 3650.
    pub every_days: u32,
    /// The provider's word on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guide_url: Option<String>,
    /// What else to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// Variables that hold a provider's tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvPattern {
    /// Names; `*` stands for one part without underscores. Case does not count.
    pub matches: Vec<String>,
    /// The variant that they hold.
    pub variant: String,
    /// The scope that such a secret mostly has.
    #[serde(default)]
    pub scope: Scope,
}

/// The first segment of a path that is proposed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One's own.
    Personal,
    /// For trying things out.
    Sandbox,
    /// Shared.
    #[default]
    Team,
}

/// Where a token may go, unless its owner says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// Its hosts; empty where every customer has another one.
    #[serde(default)]
    pub to: Vec<Destination>,
    /// What such a host looks like, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_hint: Option<String>,
    /// Where in a request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// What its placeholder looks like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<LookAlikeShape>,
}

impl Retrieval {
    /// The page, where one is known: a pattern of the operator's may have none.
    pub fn page(&self) -> Option<&str> {
        Some(self.console_url.as_str()).filter(|url| !url.is_empty())
    }
}

/// Whether a value looks like a token of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FormatVerdict {
    /// The value does not have the format.
    Invalid,
    /// The value has the format.
    Ok,
    /// Nothing is known of the format.
    Unknown,
}

/// Whether `value` has the format; the rule is the catalog's or the operator's, never a caller's,
/// who could ask a value's characters one by one.
pub(crate) fn judge_format(rule: Option<&str>, value: &[u8]) -> FormatVerdict {
    let Some(Ok(rule)) = rule.map(compile) else { return FormatVerdict::Unknown };
    match std::str::from_utf8(value) {
        Ok(text) if rule.is_match(text) => FormatVerdict::Ok,
        _ => FormatVerdict::Invalid,
    }
}

/// What is said of a format rule that does not compile.
pub(crate) const NO_FORMAT: &str = "format_regex is no regular expression";

/// Compiles a format rule, bounded in memory, matching whole values.
pub(crate) fn compile(rule: &str) -> Result<Regex, regex::Error> {
    let build = |rule: &str| regex::RegexBuilder::new(rule).size_limit(1 << 20).build();
    // By itself as well: what closes our group is a rule of two, of which one has no anchor.
    build(rule)?;
    // An unanchored rule would find a token anywhere in a text.
    build(&format!("^(?:{rule})$"))
}
