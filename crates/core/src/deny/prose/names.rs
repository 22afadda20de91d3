//! Names that say by themselves that there is no secret.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};

use super::NOTHING;

/// A word without names that say by themselves that there is no secret: examples of `.env`, and variables that are not
/// named like credentials.
pub(super) fn harmless_names(word: &str) -> String {
    static EXAMPLES: LazyLock<Regex> = LazyLock::new(|| {
        let words = "example|sample|template|tmpl|dist|defaults?";
        let pattern = format!(r"(?i)\.env(rc)?([._-][a-z0-9]+)?[._-]({words})\b|\.env\.d\.ts\b");
        Regex::new(&pattern).expect("the pattern is tested")
    });
    static VARIABLES: LazyLock<Regex> = LazyLock::new(|| {
        let begins = [
            r#"os\.environ(?:\.(?:get|setdefault|pop)\(|\[)\s*['"]"#,
            r#"os\.getenv\(\s*['"]"#,
            r"process\.env\.",
            r#"process\.env\[['"]"#,
            r#"\bENV(?:\.fetch\(|\[)['"]"#,
            r"\bENVIRON\[",
            r"\$ENV\{",
        ];
        let pattern = format!(r#"(?:{})"?([A-Z][A-Z0-9_]*)\b"#, begins.join("|"));
        Regex::new(&pattern).expect("the pattern is tested")
    });
    // Of an object of Kubernetes, its name is none of its data.
    if word == "jsonpath={.metadata.name}" {
        return NOTHING.to_owned();
    }
    // Most words have none of these names, and the expressions cost more than this.
    if !word.as_bytes().windows(3).any(|part| part.eq_ignore_ascii_case(b"env")) {
        return word.to_owned();
    }
    let word = EXAMPLES.replace_all(word, NOTHING);
    let plain = VARIABLES.replace_all(&word, |found: &Captures<'_>| {
        if is_credential(&found[1]) { found[0].to_owned() } else { NOTHING.to_owned() }
    });
    match plain {
        Cow::Borrowed(_) => word.into_owned(),
        Cow::Owned(plain) => plain,
    }
}

/// Whether a variable is named like one that holds a credential, or an address with one.
fn is_credential(name: &str) -> bool {
    let is_word = |word: &str| {
        matches!(
            word,
            "PASS"
                | "PASSWD"
                | "PASSWORD"
                | "PASSPHRASE"
                | "SECRET"
                | "SECRETS"
                | "TOKEN"
                | "TOKENS"
                | "KEY"
                | "KEYS"
                | "APIKEY"
                | "CRED"
                | "CREDS"
                | "CREDENTIAL"
                | "CREDENTIALS"
                | "AUTH"
                | "PAT"
                | "DSN"
                | "URL"
                | "URI"
                | "CONNECTION"
                | "COOKIE"
        )
    };
    name.split('_').any(is_word) || name.ends_with("_PWD") || name.contains("PASSWORD")
}
