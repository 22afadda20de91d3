//! One rule, and many of them as one automaton.

use jiff::Timestamp;
use regex::{
    RegexBuilder,
    bytes::{RegexSet, RegexSetBuilder},
};
use serde::{Deserialize, Serialize};

use super::views::View;

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
    /// What it is for, in a sentence.
    pub description: String,
    /// What to do instead; the category's words when absent.
    pub safe_alternative: Option<String>,
    /// The actions that it is about; all when empty.
    pub applies_to: Vec<String>,
    /// From when on it is no longer in force.
    pub expires_at: Option<Timestamp>,
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
    /// Whose rule it is.
    pub organization_id: String,
    /// Which person made it.
    pub created_by: String,
    /// When.
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
    /// Which.
    pub rule: String,
    /// What is wrong with it.
    pub why: String,
}

/// Rules as one automaton.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    rules: Vec<Rule>,
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
            description: self.description.clone(),
            safe_alternative: self.safe_alternative.clone(),
            applies_to: self.applies_to.clone(),
            expires_at: self.expires_at,
        })
    }
}

impl Compiled {
    /// Ours: texts are folded to ASCII, so the automaton needs no Unicode.
    pub(super) fn bundled(rules: Vec<Rule>) -> Result<Self, RuleFault> {
        Self::new(rules, false)
    }

    /// An organization's.
    pub(super) fn custom(rules: Vec<Rule>) -> Result<Self, RuleFault> {
        Self::new(rules, true)
    }

    fn new(rules: Vec<Rule>, unicode: bool) -> Result<Self, RuleFault> {
        let each =
            || rules.iter().enumerate().flat_map(|(i, r)| r.patterns.iter().map(move |p| (i, p)));
        let owners = each().map(|(index, _)| index).collect();
        let set = RegexSetBuilder::new(each().map(|(_, pattern)| pattern))
            .case_insensitive(true)
            .unicode(unicode)
            .dot_matches_new_line(true)
            .size_limit(SIZE_LIMIT)
            .build()
            .map_err(|error| RuleFault { rule: "all".to_owned(), why: error.to_string() })?;
        Ok(Self { rules, set, owners })
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

    /// Whether this rule finds anything.
    pub(super) fn hits(&self, rule: &Rule, views: &[View]) -> bool {
        views.iter().any(|view| self.found_in(view).any(|index| self.rules[index].id == rule.id))
    }

    fn found_in<'a>(&'a self, view: &'a View) -> impl Iterator<Item = usize> + 'a {
        let matches = self.set.matches(view.text.as_bytes());
        let found: Vec<usize> = matches.into_iter().map(|pattern| self.owners[pattern]).collect();
        found.into_iter().filter(|index| match self.rules[*index].place {
            Place::Any => true,
            Place::Command => view.is_command,
            Place::Text => !view.is_command,
        })
    }
}
