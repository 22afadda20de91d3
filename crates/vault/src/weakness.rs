//! Values that are no secrets: too short, too uniform, or what people type in place of one.
//!
//! A store that holds `changeme` protects nothing, and the scrub would find it in every text. This
//! is a guard against slips, not a measure of strength: tokens that services issue all pass.

/// Fewer characters than any service issues.
const MIN_CHARS: usize = 12;
/// A token of this many different bytes is not a token.
const MIN_DISTINCT: usize = 6;
/// What stands where a value should: compared without case and punctuation.
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
/// Words of which a longer stand-in is made, one after the other: `CHANGE_ME_PLEASE`.
const WORDS: &[&str] = &[
    "a",
    "access",
    "actual",
    "add",
    "an",
    "api",
    "auth",
    "be",
    "bearer",
    "change",
    "client",
    "code",
    "credential",
    "dummy",
    "enter",
    "example",
    "fake",
    "fill",
    "fix",
    "goes",
    "here",
    "in",
    "insert",
    "it",
    "key",
    "later",
    "let",
    "me",
    "my",
    "new",
    "or",
    "out",
    "password",
    "paste",
    "placeholder",
    "please",
    "put",
    "real",
    "replace",
    "replaced",
    "sample",
    "secret",
    "set",
    "some",
    "string",
    "tbd",
    "temp",
    "test",
    "the",
    "this",
    "to",
    "todo",
    "token",
    "use",
    "value",
    "with",
    "your",
];
/// What a program fills in stands between these.
const FILLED_IN: &[(&str, &str)] = &[("${", "}"), ("{{", "}}"), ("%(", ")s")];

/// Why a value looks like none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// What a program puts a value in place of, such as `${TOKEN}` or `@secret:team/api/token`.
    Reference,
    /// Each character follows the one before it in the alphabet or in counting, or precedes it.
    Sequence,
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
        if distinct < MIN_DISTINCT {
            return Some(Self::Uniform);
        }
        is_sequence(value).then_some(Self::Sequence)
    }
}

/// The value names another one: an alias, 1Password's address of a secret, a shell's variable; or it has in it what a
/// program fills in: `${TOKEN}`, `{{ token }}`, `%(token)s`.
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
        || FILLED_IN.iter().any(|(begin, end)| names_between(text, begin, end))
}

/// Whether a name stands between these somewhere, and nothing else.
fn names_between(text: &str, begin: &str, end: &str) -> bool {
    let is_name = |name: &str| {
        let name = name.trim();
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
        name.starts_with(|c: char| c.is_ascii_alphabetic() || "_.".contains(c))
            && name.chars().all(fits)
    };
    let mut rests = text.match_indices(begin).map(|(at, _)| &text[at + begin.len()..]);
    rests.any(|rest| rest.split_once(end).is_some_and(|(name, _)| is_name(name)))
}

/// The whole value is a stand-in, or made of such words, perhaps with digits after it (`changeme123`).
fn is_stand_in(value: &[u8]) -> bool {
    if value.len() > 64 {
        return false;
    }
    let text = String::from_utf8_lossy(value).to_ascii_lowercase();
    let between = |c: char| c.is_ascii_punctuation() || c == ' ';
    let letters: String = text.chars().filter(|c| !between(*c)).collect();
    let letters = letters.trim_end_matches(|c: char| c.is_ascii_digit());
    let without_here = letters.strip_suffix("here").unwrap_or(letters);
    let repeated_x = !letters.is_empty() && letters.chars().all(|c| c == 'x');
    repeated_x
        || STAND_INS.contains(&letters)
        || STAND_INS.contains(&without_here)
        || (text.chars().count() >= MIN_CHARS && is_made_of_words(letters))
}

/// Whether the text is some of [`WORDS`], one after the other.
fn is_made_of_words(text: &str) -> bool {
    let mut ends = vec![false; text.len() + 1];
    ends[0] = true;
    for at in 0..text.len() {
        if !ends[at] {
            continue;
        }
        for word in WORDS.iter().filter(|word| text.as_bytes()[at..].starts_with(word.as_bytes())) {
            ends[at + word.len()] = true;
        }
    }
    !text.is_empty() && ends[text.len()]
}

/// `123456789012`, `abcdefghijklmnop`, and the same backwards.
fn is_sequence(value: &[u8]) -> bool {
    let follows = |one: u8, next: u8| match (one, next) {
        (b'9', b'0') => true,
        _ => next == one.wrapping_add(1),
    };
    let mut pairs = value.iter().zip(value.iter().skip(1));
    let mut backwards = pairs.clone();
    pairs.all(|(one, next)| follows(*one, *next))
        || backwards.all(|(one, next)| follows(*next, *one))
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
            ("CHANGE_ME_PLEASE", Weakness::StandIn),
            ("TODO-insert-token", Weakness::StandIn),
            ("placeholder-token", Weakness::StandIn),
            ("example-token-value", Weakness::StandIn),
            ("[YourApiKeyHere]", Weakness::StandIn),
            ("put your real secret key here!", Weakness::StandIn),
            ("%(secret)s-abcdef", Weakness::Reference),
            ("Bearer-${API_TOKEN}", Weakness::Reference),
            ("v1-{{ .Values.token }}-x", Weakness::Reference),
            ("123456789012", Weakness::Sequence),
            ("zyxwvutsrqponm", Weakness::Sequence),
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
            "p%(4x)s9wQ{{7}}Tm",
            "token-9f8a7c6b5d4e",
            "my secret garden gate",
            "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d",
        ] {
            assert_eq!(Weakness::of(value.as_bytes()), None, "{value}");
        }
    }
}
