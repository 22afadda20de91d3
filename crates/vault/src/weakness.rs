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
    /// What a program puts a value in place of, such as `${TOKEN}` or `@secret:team/api/token`.
    Reference,
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
        if is_reference(value) {
            return Some(Self::Reference);
        }
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

/// The whole value names another one: an alias, a variable, a template's placeholder, 1Password's address of a secret.
fn is_reference(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    let text = text.trim();
    let between = |begin, end| text.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
    let is_variable = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
            && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    ["@secret:", "op://"].iter().any(|scheme| text.starts_with(scheme))
        || between("{{", "}}").is_some()
        || between("${", "}").is_some()
        || text.strip_prefix('$').is_some_and(is_variable)
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
            ("${TOKEN}", Weakness::Reference),
            ("${{ secrets.DEPLOY_TOKEN }}", Weakness::Reference),
            ("$GITHUB_DEPLOY_TOKEN_2", Weakness::Reference),
            ("@secret:team/github/token", Weakness::Reference),
            ("{{nl:github/DEPLOY_TOKEN}}", Weakness::Reference),
            ("op://vault/github/deploy-token\n", Weakness::Reference),
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
            "$2b$12$R9h/cIPz0gi.URNNX3kh2O",
            "$aB3dE5fG7hJ9kL",
            "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d",
        ] {
            assert_eq!(Weakness::of(value.as_bytes()), None, "{value}");
        }
    }
}
