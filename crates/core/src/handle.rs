//! `{{nl:…}}`: how a template names a secret, and the texts in which it does.
//!
//! `["@" domain "/"] reference ["@" version]`, or `provider://path`. What begins like a handle and isn't
//! one is an error, never passed through. `{{{{nl:` stands for the literal `{{nl:`. Source: NL chapter 4
//! and reference/nl.md, 2.2, C-33 and C-34.

mod versions;

use std::fmt;

pub use self::versions::{Given, Grace, Had};
use crate::{Reference, ReferenceError};

/// What opens a handle.
const OPENINGS: [&str; 2] = ["{{nl:", "{{vault:"];
/// What stands for a literal opening.
const ESCAPED: [&str; 2] = ["{{{{nl:", "{{{{vault:"];

/// One handle of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    written: String,
    target: HandleTarget,
    version: Version,
    alias: bool,
}

/// Where the secret of a handle is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandleTarget {
    /// At a partner of the federation.
    Federated {
        /// The partner.
        domain: String,
        /// The secret there.
        reference: Reference,
    },
    /// In this vault.
    Local(Reference),
    /// At a source, named by the source's own path.
    Provider {
        /// The source.
        provider: String,
        /// Its path there.
        path: String,
    },
}

/// Which of a secret's values a handle means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// The one in force.
    #[default]
    Latest,
    /// The version of this number.
    Number(u32),
    /// The one before the one in force.
    Previous,
}

/// Why a text is not a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// One action names more than [`MAX_HANDLES`](crate::action::MAX_HANDLES) handles.
    #[error("an action takes at most {} placeholders", crate::action::MAX_HANDLES)]
    TooMany,
    /// A handle stands in a field that takes none.
    #[error("`{field}` takes no placeholders")]
    Misplaced {
        /// The field.
        field: &'static str,
    },
    /// A field that must be one handle is something else.
    #[error("`{field}` must be exactly one placeholder, such as {{{{nl:api/TOKEN}}}}")]
    NotOne {
        /// The field.
        field: String,
    },
    /// What stands between the braces names no secret.
    #[error("`{written}` names no secret: {why}")]
    Reference {
        /// As it was written.
        written: String,
        /// What is wrong with it.
        why: ReferenceError,
    },
    /// The braces are not closed.
    #[error("a placeholder is not closed")]
    Unclosed,
    /// After `@` stands no version.
    #[error("`{written}`: a version is `latest`, `previous` or `v` and a number")]
    Version {
        /// As it was written.
        written: String,
    },
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    /// A secret.
    Handle(Handle),
    /// Text, escapes undone.
    Text(String),
}

impl Handle {
    /// Parses what stands between the braces.
    pub fn parse(inside: &str) -> Result<Self, HandleError> {
        let named = inside.strip_prefix('@').and_then(|rest| rest.split_once('/'));
        let (domain, rest) = named.map_or((None, inside), |(domain, rest)| (Some(domain), rest));
        let (reference, version) = match rest.rsplit_once('@') {
            Some((reference, version)) => (reference, parse_version(inside, version)?),
            None => (rest, Version::Latest),
        };
        let fault = |why| HandleError::Reference { written: inside.to_owned(), why };
        let target = match (domain, reference.split_once("://")) {
            (Some(domain), _) if !is_host(domain) => {
                return Err(fault(ReferenceError::BadCharacter));
            }
            (Some(domain), _) => HandleTarget::Federated {
                domain: domain.to_ascii_lowercase(),
                reference: Reference::parse(reference).map_err(fault)?,
            },
            (None, Some((provider, path))) => provider_target(provider, path).map_err(fault)?,
            (None, None) => HandleTarget::Local(Reference::parse(reference).map_err(fault)?),
        };
        let written = inside.strip_suffix(&inside[inside.len() - (rest.len() - reference.len())..]);
        let written = written.unwrap_or(inside).to_owned();
        Ok(Self { written, target, version, alias: false })
    }

    /// Parses a whole text that must be one handle, braces and all.
    pub fn parse_alone(field: &str, text: &str) -> Result<Self, HandleError> {
        match parse_template(text)?.as_slice() {
            [TemplatePart::Handle(handle)] => Ok(handle.clone()),
            _ => Err(HandleError::NotOne { field: field.to_owned() }),
        }
    }

    /// As it was written, without `nl:` and the version: what results and markers call the secret.
    pub fn as_written(&self) -> &str {
        &self.written
    }

    /// Where its secret is.
    pub fn target(&self) -> &HandleTarget {
        &self.target
    }

    /// Which value it means.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether it was written `{{vault:…}}`, which is deprecated.
    pub fn is_alias(&self) -> bool {
        self.alias
    }

    /// What its author should know, if it was written `{{vault:…}}`.
    pub fn alias_warning(&self) -> Option<String> {
        let name = self.as_written();
        let words = || format!("{{{{vault:{name}}}}} is deprecated; write {{{{nl:{name}}}}}");
        self.is_alias().then(words)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// Splits a text into its handles and what stands between them.
pub fn parse_template(text: &str) -> Result<Vec<TemplatePart>, HandleError> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some(escape) = ESCAPED.iter().find(|escape| rest.starts_with(**escape)) {
            plain.push_str(&escape[2..]);
            rest = &rest[escape.len()..];
        } else if let Some((handle, after)) = handle_at(rest)? {
            if !plain.is_empty() {
                parts.push(TemplatePart::Text(std::mem::take(&mut plain)));
            }
            parts.push(TemplatePart::Handle(handle));
            rest = after;
        } else {
            plain.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    if !plain.is_empty() {
        parts.push(TemplatePart::Text(plain));
    }
    Ok(parts)
}

/// The handle with which a text begins, and what comes after it.
fn handle_at(text: &str) -> Result<Option<(Handle, &str)>, HandleError> {
    let Some(opening) = OPENINGS.iter().find(|opening| text.starts_with(**opening)) else {
        return Ok(None);
    };
    let (inside, after) = text[opening.len()..].split_once("}}").ok_or(HandleError::Unclosed)?;
    let mut handle = Handle::parse(inside)?;
    handle.alias = *opening == OPENINGS[1];
    Ok(Some((handle, after)))
}

fn parse_version(written: &str, version: &str) -> Result<Version, HandleError> {
    // In one form: what is written as something else may be meant as something else.
    let is_it = |number: &u32| *number > 0 && format!("v{number}") == version;
    let number = || version.strip_prefix('v')?.parse().ok().filter(is_it);
    match version {
        "latest" => Ok(Version::Latest),
        "previous" => Ok(Version::Previous),
        _ => number()
            .map(Version::Number)
            .ok_or_else(|| HandleError::Version { written: written.to_owned() }),
    }
}

fn provider_target(provider: &str, path: &str) -> Result<HandleTarget, ReferenceError> {
    let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    // `:` as well, which ARNs have (C-34).
    let in_path = |b: u8| word(b) || matches!(b, b'.' | b'/' | b':');
    if provider.is_empty() || path.is_empty() {
        return Err(ReferenceError::Empty);
    }
    if !provider.bytes().all(word) || !path.bytes().all(in_path) {
        return Err(ReferenceError::BadCharacter);
    }
    Ok(HandleTarget::Provider { provider: provider.to_owned(), path: path.to_owned() })
}

fn is_host(text: &str) -> bool {
    let letters = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    !text.is_empty() && text.bytes().all(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handles(text: &str) -> Vec<String> {
        let parts = parse_template(text).unwrap();
        let names = parts.iter().filter_map(|part| match part {
            TemplatePart::Handle(handle) => Some(handle.as_written().to_owned()),
            TemplatePart::Text(_) => None,
        });
        names.collect()
    }

    #[test]
    fn every_example_of_the_spec_reads() {
        for (text, name) in [
            ("Bearer {{nl:GITHUB_TOKEN}}", "GITHUB_TOKEN"),
            ("admin:{{nl:database/DB_PASSWORD}}@localhost", "database/DB_PASSWORD"),
            ("{{nl:braincol/production/AWS_ACCESS_KEY}}", "braincol/production/AWS_ACCESS_KEY"),
            ("{{nl:myapp/production/payments/STRIPE_KEY}}", "myapp/production/payments/STRIPE_KEY"),
            ("{{nl:aws-sm://us-east-1/prod/db-pass}}", "aws-sm://us-east-1/prod/db-pass"),
            ("{{vault:api/TOKEN}}", "api/TOKEN"),
            ("{{nl:api/TOKEN@v3}}", "api/TOKEN"),
            ("{{nl:@partner.example/api/TOKEN@previous}}", "@partner.example/api/TOKEN"),
        ] {
            assert_eq!(handles(text), [name], "{text}");
        }
        let both = "curl -u \"{{nl:api/USERNAME}}:{{nl:api/PASSWORD}}\" https://api.example.com";
        assert_eq!(handles(both), ["api/USERNAME", "api/PASSWORD"]);
    }

    #[test]
    fn versions_and_targets_are_told_apart() {
        let handle = |text: &str| Handle::parse(text).unwrap();
        assert_eq!(handle("a/B@v12").version(), Version::Number(12));
        assert_eq!(handle("a/B@previous").version(), Version::Previous);
        assert_eq!(handle("a/B@latest").version(), Version::Latest);
        assert!(matches!(handle("@d.example/a").target(), HandleTarget::Federated { .. }));
        assert!(matches!(handle("vault://kv/a").target(), HandleTarget::Provider { .. }));
        for bad in [
            "a@",
            "a@3",
            "a@v0",
            "a@v01",
            "a@v+1",
            "a@newest",
            "",
            "@/a",
            "://x",
            "a://",
            "a b",
            "@d.example/",
            "../a",
            "a/.",
        ] {
            assert!(Handle::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_escape_is_a_literal() {
        let text = |text: &str| parse_template(text).unwrap();
        assert_eq!(text("{{{{nl:A}}"), [TemplatePart::Text("{{nl:A}}".into())]);
        assert_eq!(text("{{{{nl:A}}}}"), [TemplatePart::Text("{{nl:A}}}}".into())]);
        assert_eq!(handles("{{{nl:A}}"), ["A"]);
        assert_eq!(handles("{{{{{nl:A}}"), [""; 0]);
        assert_eq!(text("{{x}}"), [TemplatePart::Text("{{x}}".into())]);
        for bad in ["{{nl:A", "{{nl:}}", "{{nl:a b}}", "{{nl:{{nl:A}}}}", "{{nl:A\n}}"] {
            assert!(parse_template(bad).is_err(), "{bad}");
        }
    }
}
