//! Where two texts of the protocol can't both be kept: which of them is (reference/nl.md, C-01 to C-03).

use serde::{Deserialize, Serialize};

use crate::action::Encoding;

/// The text that rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// spec/nl-protocol-level2.md: `[REDACTED:name]`, a grant's `max_uses: 0` is no limit, and what no grant covers is a
    /// `SCOPE_VIOLATION`.
    #[default]
    Seed,
    /// The published one: `[NL-REDACTED:name]`, `max_uses: 0` is none at all, and what no grant covers is `GRANT_DENIED`.
    Final,
}

impl Profile {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Final => "final",
        }
    }

    /// What stands where a value stood: `[REDACTED:name]` or `[REDACTED:name:encoding]`.
    pub fn marker(self, name: &str, encoding: Encoding) -> String {
        let word = match self {
            Self::Seed => "REDACTED",
            Self::Final => "NL-REDACTED",
        };
        match encoding {
            Encoding::Plain => format!("[{word}:{name}]"),
            other => format!("[{word}:{name}:{other}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_those_of_the_text_that_rules() {
        let (seed, last) = (Profile::Seed, Profile::Final);
        assert_eq!(seed.marker("a/B", Encoding::Hex), "[REDACTED:a/B:hex]");
        assert_eq!(seed.marker("a/B", Encoding::Plain), "[REDACTED:a/B]");
        assert_eq!(last.marker("a/B", Encoding::Base64), "[NL-REDACTED:a/B:base64]");
        assert_eq!(last.marker("a/B", Encoding::Plain), "[NL-REDACTED:a/B]");
    }
}
