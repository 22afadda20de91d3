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

/// JSON and `.env` files write its lines as one.
#[test]
fn a_private_key_on_one_line_is_found() {
    let body = filled("{60}");
    for line in [
        format!(
            r#""private_key": "-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n","#
        ),
        format!(r"KEY='-----BEGIN EC PRIVATE KEY-----\n{body}\n-----END EC PRIVATE KEY-----'"),
    ] {
        let findings = scan("f", line.as_bytes(), &TokenForms::default());
        let kinds: Vec<&str> = findings.iter().map(|found| found.kind.as_ref()).collect();
        assert_eq!(kinds, ["private key"], "{line}");
    }
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

/// As PowerShell writes it, with and without a mark.
#[test]
fn text_in_utf16_is_text() {
    let key = filled("-----BEGIN RSA PRIVATE KEY-----\n{48}\n");
    let token = filled("größe\r\napi_key = {40}\r\n");
    let stored = |text: &str, mark: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        mark.encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect()
    };
    for (text, line) in [(&key, 1), (&token, 2)] {
        for mark in ["", "\u{feff}"] {
            for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
                let findings = scan("f", &stored(text, mark, bytes), &TokenForms::default());
                assert_eq!(findings.len(), 1, "{text}");
                assert_eq!((findings[0].line, &findings[0].range), (line, &None), "{text}");
            }
        }
        let marked = [&b"\xef\xbb\xbf"[..], text.as_bytes()].concat();
        assert_eq!(scan("f", &marked, &TokenForms::default()).len(), 1, "{text}");
        // A program with a text in it is none.
        let binary = [&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0][..], text.as_bytes()].concat();
        assert_eq!(scan("f", &binary, &TokenForms::default()), [], "{text}");
    }
}
