//! The other way round: only what is listed may run (NL-4.9). The rules hold nevertheless.
//!
//! Of a command line each simple command has to be listed, be it in a substitution or in a script that it hands to a
//! shell: an expression that fits the front of a line would let anything run behind a `;`.

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::{Given, rule::RuleFault};
use crate::{Handle, shell::SimpleCommand};

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
    /// Expressions of which one has to fit a whole simple command, with its redirections and here-documents; of an action
    /// that is no command line, its text.
    pub patterns: Vec<String>,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// The actions that it is about; all when empty.
    #[serde(default)]
    pub applies_to: Vec<String>,
    /// The most placeholders that such a command may have.
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
    /// Whether each of these is listed, and there is any.
    pub(super) fn names_all(
        &self,
        action_type: &str,
        commands: &[String],
        given: Given<'_>,
    ) -> bool {
        let names = |command: &String| self.names(action_type, command, given);
        !commands.is_empty() && commands.iter().all(names)
    }

    fn names(&self, action_type: &str, command: &str, given: Given<'_>) -> bool {
        let is_file = |reference: &&str| {
            let handle = Handle::parse(reference);
            handle.is_ok_and(|handle| given.files.contains(&handle.as_written()))
        };
        let named = references(command).into_iter().filter(|reference| !is_file(reference));
        let given =
            given.input.iter().chain(given.references).flat_map(|reference| references(reference));
        let references: Vec<&str> = named.chain(given).collect();
        self.0.iter().any(|(entry, patterns)| {
            (entry.applies_to.is_empty() || entry.applies_to.iter().any(|t| t == action_type))
                && entry.max_secrets.is_none_or(|most| references.len() <= most)
                && entry.allowed_secret_refs.as_ref().is_none_or(|allowed| {
                    references.iter().all(|reference| allowed.iter().any(|a| a == reference))
                })
                && patterns.iter().any(|pattern| pattern.is_match(command))
        })
    }
}

/// A simple command as it is matched: with its here-documents, and runs of blanks as one. Line breaks stay, so that only
/// an expression which says so goes beyond a line.
pub(super) fn listed(text: &str, command: &SimpleCommand) -> String {
    let bodies = command.redirections.iter().filter_map(|to| to.body.clone());
    let parts = std::iter::once(command.span.clone()).chain(bodies);
    let parts: Vec<&str> = parts.filter_map(|part| text.get(part)).collect();
    blanks_collapsed(&parts.join("\n"))
}

/// Runs of spaces and tabs as one space, none at the ends.
pub(super) fn blanks_collapsed(text: &str) -> String {
    let words = text.trim().split([' ', '\t']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
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
