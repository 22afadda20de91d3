//! The other way round: only what is listed may run (NL-4.9). The rules hold nevertheless.

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::{fold::collapsed, rule::RuleFault};

/// What may run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowlist {
    /// Any of these.
    #[serde(default)]
    pub entries: Vec<AllowlistEntry>,
}

/// One sort of command that may run, in NL's field names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowlistEntry {
    /// Its stable name.
    pub entry_id: String,
    /// Expressions of which one has to fit the whole command.
    pub patterns: Vec<String>,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// The actions that it is about; all when empty.
    #[serde(default)]
    pub applies_to: Vec<String>,
    /// The most placeholders that the command may have.
    pub max_secrets: Option<usize>,
    /// The references that it may have; any when absent.
    pub allowed_secret_refs: Option<Vec<String>>,
}

/// An allowlist whose expressions are made.
#[derive(Clone, Debug)]
pub(super) struct Ready(Vec<(AllowlistEntry, Vec<Regex>)>);

impl Allowlist {
    pub(super) fn ready(&self) -> Result<Ready, RuleFault> {
        let entries = self.entries.iter().map(|entry| {
            let patterns = entry.patterns.iter().map(|pattern| whole(entry, pattern));
            Ok((entry.clone(), patterns.collect::<Result<_, _>>()?))
        });
        entries.collect::<Result<_, _>>().map(Ready)
    }
}

impl Ready {
    pub(super) fn names(&self, action_type: &str, text: &str, folded: &str) -> bool {
        // What only looks like a listed command is none.
        let (whole, references) = (collapsed(text), references(text));
        text == folded
            && self.0.iter().any(|(entry, patterns)| {
                (entry.applies_to.is_empty() || entry.applies_to.iter().any(|t| t == action_type))
                    && entry.max_secrets.is_none_or(|most| references.len() <= most)
                    && entry.allowed_secret_refs.as_ref().is_none_or(|allowed| {
                        references.iter().all(|reference| allowed.iter().any(|a| a == reference))
                    })
                    && patterns.iter().any(|pattern| pattern.is_match(&whole))
            })
    }
}

fn whole(entry: &AllowlistEntry, pattern: &str) -> Result<Regex, RuleFault> {
    let fault =
        |error: regex::Error| RuleFault { rule: entry.entry_id.clone(), why: error.to_string() };
    RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(1024 * 1024).build().map_err(fault)
}

fn references(text: &str) -> Vec<&str> {
    let each = text.split("{{nl:").skip(1).chain(text.split("{{vault:").skip(1));
    each.filter_map(|rest| rest.split_once("}}")).map(|(reference, _)| reference).collect()
}
