//! An error as NL tells it, in both of its vocabularies (C-03).
//!
//! A bare body has chapter 02's words in `code`, an envelope chapter 08's numbers; each carries the
//! other beside it, and the members that have two names (`details` and `detail`, `suggestion` and
//! `resolution`) stand under both.

use serde_json::{Map, Value, json};

use super::Shape;
use crate::{Code, Error, SafeText};

/// An error toward an NL agent: a code, words, and particulars that name no more than the agent may see.
#[derive(Clone, Debug, PartialEq)]
pub struct NlFault {
    error: Error,
    details: Map<String, Value>,
    suggestion: Option<SafeText>,
}

impl NlFault {
    /// A fault with words about this case.
    pub fn new(code: Code, words: SafeText) -> Self {
        Error::with(code, words).into()
    }

    /// Adds a particular. Never anything that a value had a part in.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Says what to do in this case, in place of the code's own advice.
    #[must_use]
    pub fn suggesting(self, suggestion: SafeText) -> Self {
        Self { suggestion: Some(suggestion), ..self }
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.error.code()
    }

    /// The error without its particulars.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The particulars.
    pub fn details(&self) -> &Map<String, Value> {
        &self.details
    }

    /// The object that stands under `error`.
    pub fn body(&self, shape: Shape) -> Value {
        let code = self.code();
        let (word, other) = match shape {
            Shape::Bare => (nl_name(code), ("nl_code", code.nl_code().to_owned())),
            Shape::Enveloped => (code.nl_code().to_owned(), ("name", nl_name(code))),
        };
        let suggestion = match &self.suggestion {
            Some(suggestion) => suggestion.as_str().to_owned(),
            None => sentence(code.remediation().action),
        };
        let mut body = json!({
            "code": word,
            "message": self.error.message(),
            "details": self.details,
            "detail": self.details,
            "suggestion": suggestion,
            "resolution": suggestion,
            "keyless_code": code.as_str(),
            "doc_url": format!("https://nlprotocol.org/docs/errors/{}", code.nl_code()),
        });
        body[other.0] = other.1.into();
        body
    }
}

impl From<Error> for NlFault {
    fn from(error: Error) -> Self {
        Self { error, details: Map::new(), suggestion: None }
    }
}

impl From<Code> for NlFault {
    fn from(code: Code) -> Self {
        Error::new(code).into()
    }
}

/// The word of chapter 02 for a code; what it has no word for begins with `X_` (reference/nl.md, 9.2).
pub fn nl_name(code: Code) -> String {
    let word = match code {
        Code::AgentExpired
        | Code::AgentNotActive
        | Code::AgentRevoked
        | Code::AgentSuspended
        | Code::AgentUnknown
        | Code::AttestationExpired
        | Code::AttestationInvalid
        | Code::AttestationReplayed
        | Code::AttestationRequired => "IDENTITY_VERIFICATION_FAILED",
        // Chapter 02's own example has SCOPE_VIOLATION where no grant covers a secret.
        Code::CapabilityMissing | Code::GrantMissing | Code::ScopeViolation => "SCOPE_VIOLATION",
        Code::ApprovalDenied
        | Code::ApprovalRequired
        | Code::ConcurrencyExceeded
        | Code::ContextMismatch
        | Code::EnvironmentRestricted
        | Code::GrantNotYetValid
        | Code::TrustTooLow => "CONDITION_FAILED",
        Code::GrantExhausted => "GRANT_EXHAUSTED",
        Code::GrantExpired => "GRANT_EXPIRED",
        Code::PlaceholderInvalid => "INVALID_PLACEHOLDER",
        Code::ProviderNotConfigured => "PROVIDER_NOT_CONFIGURED",
        Code::ProviderUnavailable => "PROVIDER_UNREACHABLE",
        Code::ReferenceAmbiguous => "AMBIGUOUS_REFERENCE",
        Code::SecretCompromised | Code::SecretNotFound => "SECRET_NOT_FOUND",
        other => return format!("X_{}", other.as_str().to_uppercase()),
    };
    word.to_owned()
}

/// An imperative of ours as a sentence.
fn sentence(action: &str) -> String {
    let mut characters = action.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).chain(['.']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_vocabularies_are_in_both_shapes() {
        let words = SafeText::words("secret 'production/API_KEY'");
        let fault =
            NlFault::new(Code::GrantMissing, words).with("secret_ref", "production/API_KEY");
        let bare = fault.body(Shape::Bare);
        assert_eq!(
            (&bare["code"], &bare["nl_code"]),
            (&json!("SCOPE_VIOLATION"), &json!("NL-E200"))
        );
        let wire = fault.body(Shape::Enveloped);
        assert_eq!((&wire["code"], &wire["name"]), (&json!("NL-E200"), &json!("SCOPE_VIOLATION")));
        assert_eq!(wire["detail"], json!({ "secret_ref": "production/API_KEY" }));
        assert_eq!(wire["detail"], wire["details"]);
        assert_eq!(wire["resolution"], "Ask for a grant: keyless grant create.");
        assert!(wire["message"].as_str().unwrap().contains("production/API_KEY"));
    }

    #[test]
    fn every_code_has_a_word_and_a_number_of_the_registry() {
        for code in Code::ALL {
            let name = nl_name(*code);
            assert!(name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'), "{name}");
            let number = code.nl_code().strip_prefix("NL-E").unwrap();
            assert!(number.len() == 3 || number == "X01", "{number}");
        }
    }
}
