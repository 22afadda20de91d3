//! What an agent is told when something is blocked: what, why, and what to do instead (NL-4.6).

use std::{collections::BTreeMap, sync::LazyLock};

use serde::{Deserialize, Serialize};

use super::rule::{Category, Rule, Severity};
use crate::Code;

const WORDS: &str = include_str!("../../data/deny_words.json");
/// The rule that stands for what can't be read.
const UNREADABLE: &str = "KL-UNREADABLE";

/// As much of the command as an answer repeats.
const SHOWN_CHARS: usize = 2000;
const GUIDANCE: &str = "Do not try the same by other means. Use the secret by its name in an action, or ask the person.";

/// An educational answer, in NL's field names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// Always `BLOCKED`.
    pub status: &'static str,
    /// The rule's name.
    pub rule_id: String,
    /// What it is about.
    pub category: Category,
    /// How bad it is.
    pub severity: Severity,
    /// The command as the agent wrote it, placeholders and all.
    pub blocked_action: String,
    /// Why it was blocked.
    pub reason: String,
    /// What could have happened.
    pub risk: String,
    /// What to do instead.
    pub safe_alternative: SafeAlternative,
    /// Where this is written.
    pub protocol_reference: &'static str,
    /// A sentence to the agent.
    pub agent_guidance: &'static str,
    /// `interceptor_failure` when the guard could not judge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'static str>,
    /// Whether the command was disguised.
    #[serde(rename = "evasion_attempt")]
    pub is_evasion: bool,
}

/// What to do instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SafeAlternative {
    /// In a sentence.
    pub description: String,
    /// As an example.
    pub example: String,
}

/// A category's words.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Words {
    pub(super) severity: Severity,
    pub(super) reason: String,
    risk: String,
    description: String,
    example: String,
}

impl Blocked {
    pub(super) fn by(rule: &Rule, text: &str, is_evasion: bool) -> Self {
        let mut blocked = Self::of(rule.category, text);
        blocked.rule_id.clone_from(&rule.id);
        blocked.severity = rule.severity;
        blocked.reason.clone_from(&rule.description);
        blocked.is_evasion = is_evasion;
        if let Some(alternative) = &rule.safe_alternative {
            blocked.safe_alternative.description.clone_from(alternative);
        }
        blocked
    }

    pub(super) fn unlisted(text: &str) -> Self {
        Self { rule_id: "ALLOWLIST".to_owned(), ..Self::of(Category::Allowlist, text) }
    }

    /// What can't be judged is blocked.
    pub fn failure(text: &str) -> Self {
        Self {
            rule_id: "KL-UNJUDGED".to_owned(),
            reason: "The guard could not judge this, so it does not run.".to_owned(),
            detail: Some("interceptor_failure"),
            ..Self::of(Category::IndirectExecution, text)
        }
    }

    /// What nests too deep, or is too long, to be read is blocked as well: the guard works, and it can be written otherwise.
    pub(super) fn unreadable(text: &str) -> Self {
        let mut blocked = Self {
            rule_id: UNREADABLE.to_owned(),
            reason: "This nests too deep or is too long to be read, so it does not run.".to_owned(),
            ..Self::of(Category::IndirectExecution, text)
        };
        "Write it shorter and without that many substitutions, or in several actions."
            .clone_into(&mut blocked.safe_alternative.description);
        blocked
    }

    /// Whether it was blocked without having been read.
    pub fn is_unread(&self) -> bool {
        self.detail.is_some() || self.rule_id == UNREADABLE
    }

    /// The code that goes with it.
    pub fn code(&self) -> Code {
        match (self.detail, self.is_evasion) {
            (Some(_), _) => Code::GuardUnavailable,
            (None, true) => Code::EvasionBlocked,
            (None, false) => Code::ActionBlocked,
        }
    }

    fn of(category: Category, text: &str) -> Self {
        let words = words_of(category);
        Self {
            status: "BLOCKED",
            rule_id: String::new(),
            category,
            severity: words.severity,
            blocked_action: text.chars().take(SHOWN_CHARS).collect(),
            reason: words.reason,
            risk: words.risk,
            safe_alternative: SafeAlternative {
                description: words.description,
                example: words.example,
            },
            protocol_reference: "NL Protocol 1.0, Level 4: Pre-Execution Defense",
            agent_guidance: GUIDANCE,
            detail: None,
            is_evasion: false,
        }
    }
}

pub(super) fn words_of(category: Category) -> Words {
    static ALL: LazyLock<BTreeMap<String, Words>> =
        LazyLock::new(|| serde_json::from_str(WORDS).expect("the bundled words are tested"));
    let name = serde_json::to_value(category).expect("a category is a word");
    ALL[name.as_str().expect("a category is a word")].clone()
}
