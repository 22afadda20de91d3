//! When a human is asked before a secret is used.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A secret's policy; each asks more often than the one before it, which is their order.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum ApproveOnUse {
    /// Used without a question.
    #[default]
    Never,
    /// Asked once a session.
    Session,
    /// Asked at every use.
    PerCall,
}

impl ApproveOnUse {
    /// Every policy, the loosest first.
    pub const ALL: [Self; 3] = [Self::Never, Self::Session, Self::PerCall];

    /// The word in manifests and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Session => "session",
            Self::PerCall => "per-call",
        }
    }

    /// The policy in words for people: how often is asked.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Session => "once a session",
            Self::PerCall => "at every use",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == word)
    }

    /// The stricter of the two: how a project's word meets the operator's.
    #[must_use]
    pub fn tightened_by(self, other: Self) -> Self {
        self.max(other)
    }
}

impl fmt::Display for ApproveOnUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_word_never_loosens() {
        for ours in ApproveOnUse::ALL {
            assert_eq!(ApproveOnUse::parse(ours.as_str()), Some(ours));
            for theirs in ApproveOnUse::ALL {
                assert!(ours.tightened_by(theirs) >= ours);
            }
        }
        assert_eq!(ApproveOnUse::parse("always"), None);
    }
}
