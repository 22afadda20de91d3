use super::*;

/// What a machine made up; pieces of it stand for tokens, so that none is in this repository.
const RANDOM: &str = "Zk3v9QwT1rXb7LmN5pYc2HsDf8GjKa4EuVoR6tBi0nSx9WqPz3Me7CgUy1JhLd5FaOkT8rNvXs2QbYw4ZmEp6HcRiGu0VjDfKl";

/// A few rows of Keyless' own catalog, generic ones among them.
fn catalog() -> TokenForms {
    let form = |pattern: &str, format: &str| TokenForm {
        pattern: pattern.to_owned(),
        kind: format!("catalog: {pattern}"),
        format: format.to_owned(),
    };
    let rows = vec![
        form("anthropic-key", "^sk-ant-(api|admin)[0-9]{2}-[A-Za-z0-9_-]{80,}$"),
        form("aws-secret-key", "^[A-Za-z0-9/+]{40}$"),
        form("azure-openai-key", "^[A-Za-z0-9]{32,84}$"),
        form("datadog-api-key", "^[0-9a-f]{32}$"),
        form("linear-key", "^lin_api_[A-Za-z0-9]{40}$"),
        form("openai-key", "^sk-(proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}$"),
        form("postgres-url", "^postgres(ql)?://[^ ]+$"),
        form("sendgrid-key", r"^SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}$"),
        form(
            "slack-webhook",
            "^https://hooks\\.slack\\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]+$",
        ),
        form("broken", "("),
    ];
    TokenForms::new(move || rows)
}

/// `{N}` in a line is N characters that a machine made up.
fn filled(line: &str) -> String {
    let mut text = line.replace("\\n", "\n");
    for count in [20, 22, 24, 32, 36, 40, 43, 48, 60, 80] {
        text = text.replace(&format!("{{{count}}}"), &RANDOM[..count]);
    }
    text
}

/// The corpus: what must be found, as `kind | value | line`, and lines of real documentation that must pass.
#[test]
fn the_corpus_is_told_apart() {
    let (held, clean) = (include_str!("corpus/held.txt"), include_str!("corpus/clean.txt"));
    for row in held.lines().filter(|row| !row.is_empty()) {
        let mut parts = row.splitn(3, " | ");
        let (kind, value, line) =
            (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let (value, line) = (filled(value), filled(line));
        let text = format!("first line\n{line}\n");
        let findings = scan("f", text.as_bytes(), &catalog());
        assert_eq!(findings.len(), 1, "{line}");
        assert_eq!((findings[0].kind.as_ref(), findings[0].line), (kind, 2), "{line}");
        let found = findings[0].range.clone().map(|range| &text[range]);
        assert_eq!(found.unwrap_or_default(), value, "{line}");
    }
    let findings = scan("clean.txt", clean.as_bytes(), &catalog());
    assert_eq!(findings, [], "{} lines of documentation", clean.lines().count());
}

#[test]
fn a_line_may_say_that_it_holds_none() {
    let line = filled("api_key = {40}");
    assert_eq!(scan("f", line.as_bytes(), &TokenForms::default()).len(), 1);
    let marked = format!("{line} # {NOT_A_SECRET}");
    assert_eq!(scan("f", marked.as_bytes(), &TokenForms::default()), []);
}

#[test]
fn only_formats_that_tell_something_are_taken_from_a_catalog() {
    let digest = "d41d8cd98f00b204e9800998ecf8427f";
    assert!(catalog().of(digest).is_none());
    assert_eq!(catalog().of(&filled("lin_api_{40}")).unwrap().pattern, "linear-key");
}
