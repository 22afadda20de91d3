//! One rule, and many of them as one automaton.

use std::slice;

use jiff::Timestamp;
use regex::{
    RegexBuilder,
    bytes::{RegexSet, RegexSetBuilder},
};
use serde::{Deserialize, Serialize};

use super::{
    output::Output,
    views::{Kind, View},
};

/// The most memory that all expressions together may take.
const SIZE_LIMIT: usize = 64 * 1024 * 1024;
/// The most memory that one expression of an organization may take.
const CUSTOM_SIZE_LIMIT: usize = 1024 * 1024;

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// What is not on the allowlist.
    Allowlist,
    /// Many secrets at once.
    BulkExport,
    /// The organization's own.
    Custom,
    /// One secret's value.
    DirectSecretAccess,
    /// Something hidden behind an encoding.
    EncodingEvasion,
    /// Variables and memory of processes.
    EnvironmentDump,
    /// Something that runs elsewhere or later.
    IndirectExecution,
    /// Files that keep keys.
    InternalFileAccess,
    /// Values in a command's own text.
    ShellExpansion,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Hardly.
    Low,
    /// Somewhat.
    Medium,
    /// Bad.
    High,
    /// As bad as it gets.
    Critical,
}

/// What a rule looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The whole text, and each simple command.
    #[default]
    Any,
    /// Each simple command from its program on.
    Command,
    /// Each simple command; of an action that is no command line, its text.
    Each,
    /// The whole text.
    Text,
}

/// A rule in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its stable name.
    pub id: String,
    /// What it is about.
    pub category: Category,
    /// How bad what it finds is.
    pub severity: Severity,
    /// Any of these, without regard to case.
    pub patterns: Vec<String>,
    /// What it looks at.
    pub place: Place,
    /// Only commands whose output goes there.
    pub(super) output: Option<Output>,
    /// What it finds in a simple command, where that is less than `patterns` find in a text.
    pub in_commands: Option<String>,
    /// The standard's own pattern, where what is in force is another.
    pub standard: Option<String>,
    /// What it is for, in a sentence.
    pub description: String,
    /// What to do instead; the category's words when absent.
    pub safe_alternative: Option<String>,
    /// The actions that it is about; all when empty.
    pub applies_to: Vec<String>,
    /// From when on it is no longer in force.
    pub expires_at: Option<Timestamp>,
}

impl Rule {
    /// What it finds in a simple command; of a rule about whole texts, in those.
    pub fn in_force(&self) -> &[String] {
        self.in_commands.as_ref().map_or(&self.patterns, slice::from_ref)
    }
}

/// A rule of an organization, in NL's field names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// `CUSTOM-ORG-001` and the like.
    pub rule_id: String,
    /// How bad it is.
    pub severity: Severity,
    /// Any of these.
    pub patterns: Vec<String>,
    /// What it is for.
    pub description: String,
    /// What to do instead.
    pub safe_alternative: Option<String>,
    /// The actions that it is about.
    #[serde(default)]
    pub applies_to: Vec<String>,
    /// The organization whose rule it is.
    pub organization_id: String,
    /// Which person made it.
    pub created_by: String,
    /// When the rule was made.
    pub created_at: Timestamp,
    /// Until when it holds.
    pub expires_at: Option<Timestamp>,
    /// What it looks at.
    #[serde(default)]
    pub place: Place,
}

/// Why rules can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule {rule}: {why}")]
pub struct RuleFault {
    /// The rule that is at fault.
    pub rule: String,
    /// What is wrong with it.
    pub why: String,
}

/// Rules as two automata.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    rules: Vec<Rule>,
    texts: Set,
    commands: Set,
    is_ours: bool,
}

/// Expressions as one automaton.
#[derive(Clone, Debug)]
struct Set {
    set: RegexSet,
    /// The rule that each pattern of the set is of.
    owners: Vec<usize>,
}

/// What was found.
pub(super) struct Hit<'a> {
    pub(super) rule: &'a Rule,
    pub(super) is_disguised: bool,
}

impl RuleSpec {
    pub(super) fn to_rule(&self) -> Result<Rule, RuleFault> {
        let fault = |why: &str| RuleFault { rule: self.rule_id.clone(), why: why.to_owned() };
        let reserved = ["NL-", "KL-"].iter().any(|own| self.rule_id.starts_with(own));
        if self.rule_id.is_empty() || reserved {
            return Err(fault("its id is empty or one of Keyless's own"));
        }
        if self.patterns.is_empty() {
            return Err(fault("it has no pattern"));
        }
        if self.created_by.is_empty() || self.created_by.starts_with("nl://") {
            return Err(fault("only a person may make a rule"));
        }
        for pattern in &self.patterns {
            let limited = RegexBuilder::new(pattern).size_limit(CUSTOM_SIZE_LIMIT).build();
            limited.map_err(|error| fault(&error.to_string()))?;
        }
        Ok(Rule {
            id: self.rule_id.clone(),
            category: Category::Custom,
            severity: self.severity,
            patterns: self.patterns.clone(),
            place: self.place,
            output: None,
            in_commands: None,
            standard: None,
            description: self.description.clone(),
            safe_alternative: self.safe_alternative.clone(),
            applies_to: self.applies_to.clone(),
            expires_at: self.expires_at,
        })
    }
}

impl Compiled {
    /// Ours: what they look for is ASCII, so the automaton needs no Unicode.
    pub(super) fn bundled(rules: Vec<Rule>) -> Result<Self, RuleFault> {
        Self::new(rules, true)
    }

    /// An organization's.
    pub(super) fn custom(rules: Vec<Rule>) -> Result<Self, RuleFault> {
        Self::new(rules, false)
    }

    fn new(rules: Vec<Rule>, is_ours: bool) -> Result<Self, RuleFault> {
        let of_texts = |rule: &Rule| match rule.place {
            Place::Command => Vec::new(),
            Place::Any | Place::Each | Place::Text => rule.patterns.clone(),
        };
        let of_commands = |rule: &Rule| match rule.place {
            Place::Text => Vec::new(),
            Place::Any | Place::Command | Place::Each => rule.in_force().to_vec(),
        };
        let texts = Set::new(rules.iter().map(of_texts), !is_ours)?;
        let commands = Set::new(rules.iter().map(of_commands), !is_ours)?;
        Ok(Self { rules, texts, commands, is_ours })
    }

    pub(super) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The first rule that finds anything, in the order of the rules.
    pub(super) fn first_hit(
        &self,
        views: &[View],
        action_type: &str,
        now: Timestamp,
    ) -> Option<Hit<'_>> {
        let concerns = |rule: &Rule| {
            (rule.applies_to.is_empty() || rule.applies_to.iter().any(|t| t == action_type))
                && rule.expires_at.is_none_or(|end| now < end)
        };
        let found = views.iter().flat_map(|view| self.found_in(view).map(move |i| (i, view)));
        let first = found
            .filter(|(index, _)| concerns(&self.rules[*index]))
            // Of several places, one that is not disguised explains it.
            .min_by_key(|(index, view)| (*index, view.is_disguised))?;
        Some(Hit { rule: &self.rules[first.0], is_disguised: first.1.is_disguised })
    }

    fn found_in<'a>(&'a self, view: &'a View) -> impl Iterator<Item = usize> + 'a {
        let set = match view.kind {
            Kind::Text => Some(&self.texts),
            Kind::Whole => (!self.is_ours).then_some(&self.texts),
            Kind::Script => self.is_ours.then_some(&self.texts),
            Kind::Command => Some(&self.commands),
            Kind::Written => (!self.is_ours).then_some(&self.commands),
            Kind::Meant => self.is_ours.then_some(&self.commands),
        };
        let is_line = matches!(view.kind, Kind::Script | Kind::Whole);
        let found = set.map(|set| set.found_in(&view.text)).unwrap_or_default();
        let concerns = move |rule: &Rule| {
            (!is_line || rule.place != Place::Each)
                && rule.output.is_none_or(|output| output == view.output)
        };
        found.into_iter().filter(move |index| concerns(&self.rules[*index]))
    }
}

impl Set {
    fn new(patterns: impl Iterator<Item = Vec<String>>, unicode: bool) -> Result<Self, RuleFault> {
        let each =
            patterns.enumerate().flat_map(|(i, of_one)| of_one.into_iter().map(move |p| (i, p)));
        let (owners, patterns): (Vec<usize>, Vec<String>) = each.unzip();
        let set = RegexSetBuilder::new(patterns)
            .case_insensitive(true)
            .unicode(unicode)
            .dot_matches_new_line(true)
            .size_limit(SIZE_LIMIT)
            .build()
            .map_err(|error| RuleFault { rule: "all".to_owned(), why: error.to_string() })?;
        Ok(Self { set, owners })
    }

    fn found_in(&self, text: &str) -> Vec<usize> {
        let matches = self.set.matches(text.as_bytes());
        matches.into_iter().map(|pattern| self.owners[pattern]).collect()
    }
}
