//! Values that are no secrets: too short, too uniform, or what people type in place of one.
//!
//! A store that holds `changeme` protects nothing, and the scrub would find it in every text. This
//! is a guard against slips, not a measure of strength: tokens that services issue all pass.

/// Fewer characters than any service issues.
const MIN_CHARS: usize = 12;
/// A token of this many different bytes is not a token.
const MIN_DISTINCT: usize = 6;
/// What stands where a value should: compared without case and without `-`, `_`, ` `, `<`, `>`.
const STAND_INS: &[&str] = &[
    "changeme",
    "changethis",
    "dummy",
    "example",
    "fixme",
    "insert",
    "letmein",
    "password",
    "placeholder",
    "replaceme",
    "secret",
    "todo",
    "token",
    "xxxx",
    "yourapikey",
    "yourkey",
    "yourpassword",
    "yoursecret",
    "yourtoken",
];

/// Why a value looks like none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// Under twelve characters.
    Short,
    /// A word that people put where a value should be.
    StandIn,
    /// A few characters over and over.
    Uniform,
}

impl Weakness {
    /// What is weak about `value`, if anything is.
    pub fn of(value: &[u8]) -> Option<Self> {
        if is_stand_in(value) {
            return Some(Self::StandIn);
        }
        if String::from_utf8_lossy(value).chars().count() < MIN_CHARS {
            return Some(Self::Short);
        }
        let mut seen = [false; 256];
        for byte in value {
            seen[usize::from(*byte)] = true;
        }
        let distinct = seen.iter().filter(|seen| **seen).count();
        (distinct < MIN_DISTINCT).then_some(Self::Uniform)
    }
}

/// The whole value is a stand-in, perhaps with digits or a number sign after it (`changeme123`).
fn is_stand_in(value: &[u8]) -> bool {
    if value.len() > 64 {
        return false;
    }
    let text = String::from_utf8_lossy(value).to_ascii_lowercase();
    let kept = |c: &char| !matches!(c, '-' | '_' | ' ' | '<' | '>' | '$' | '{' | '}' | '!' | '.');
    let letters: String = text.chars().filter(kept).collect();
    let letters = letters.trim_end_matches(|c: char| c.is_ascii_digit());
    let without_here = letters.strip_suffix("here").unwrap_or(letters);
    let repeated_x = !letters.is_empty() && letters.chars().all(|c| c == 'x');
    repeated_x || STAND_INS.contains(&letters) || STAND_INS.contains(&without_here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_caught() {
        let cases = [
            ("changeme", Weakness::StandIn),
            ("CHANGE_ME_123", Weakness::StandIn),
            ("<your-api-key-here>", Weakness::StandIn),
            ("xxxxxxxxxxxxxxxxxxxx", Weakness::StandIn),
            ("${TOKEN}", Weakness::StandIn),
            ("hunter2", Weakness::Short),
            ("äöüäöü", Weakness::Short),
            ("0000000000000000000000", Weakness::Uniform),
            ("abababababababababab", Weakness::Uniform),
        ];
        for (value, expected) in cases {
            assert_eq!(Weakness::of(value.as_bytes()), Some(expected), "{value}");
        }
    }

    #[test]
    fn what_services_issue_passes() {
        for value in [
            "ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "sk-ant-api03-aBcDeFgH",
            "AKIAIOSFODNN7EXAMPLE",
            "xoxb-123456789012-abcdef",
            "postgres://app:s3cr3t@db.internal/app",
            "correct horse battery",
            "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d",
        ] {
            assert_eq!(Weakness::of(value.as_bytes()), None, "{value}");
        }
    }
}
