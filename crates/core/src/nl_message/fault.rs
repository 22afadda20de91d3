//! An error as NL tells it, in both of its vocabularies (C-03).
//!
//! A bare body has chapter 02's words in `code`, an envelope chapter 08's numbers; each carries the
//! other beside it, and the members that have two names (`details` and `detail`, `suggestion` and
//! `resolution`) stand under both.

use serde_json::{Map, Value, json};

use super::{Profile, Shape};
use crate::{Code, Error, SafeText};

/// An error toward an NL agent: a code, words, and particulars that name no more than the agent may see.
#[derive(Clone, Debug, PartialEq)]
pub struct NlFault {
    error: Error,
    details: Map<String, Value>,
    suggestion: Option<SafeText>,
    status: Option<u16>,
    profile: Profile,
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

    /// Says which HTTP status it has at the place where it arose, in place of the registry's.
    #[must_use]
    pub fn at_status(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Says which text's words it is told in.
    #[must_use]
    pub fn under(self, profile: Profile) -> Self {
        Self { profile, ..self }
    }

    /// The HTTP status: the registry's, unless the place has its own.
    pub fn status(&self) -> u16 {
        self.status.unwrap_or_else(|| nl_status(self.code()))
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

    /// Its word in chapter 02; in a dry run what has none there, and is no denial, is what failed it (C-37).
    fn name(&self) -> String {
        let word = match (self.code(), self.profile) {
            // C-03: the registry's own word, where the example of the other text has another.
            (Code::GrantMissing, Profile::Final) => "GRANT_DENIED".to_owned(),
            (code, _) => nl_name(code),
        };
        let is_dry_run = self.details.get("dry_run").is_some();
        let is_denial = matches!(self.status(), 401 | 403 | 429);
        if is_dry_run && !is_denial && word.starts_with("X_") {
            return "DRY_RUN_FAILED".to_owned();
        }
        word
    }

    /// The object that stands under `error`.
    pub fn body(&self, shape: Shape) -> Value {
        let code = self.code();
        let (word, other) = match shape {
            Shape::Bare => (self.name(), ("nl_code", code.nl_code().to_owned())),
            Shape::Enveloped => (code.nl_code().to_owned(), ("name", self.name())),
        };
        let suggestion = match &self.suggestion {
            Some(suggestion) => suggestion.as_str().to_owned(),
            // An agent has no command line to look at.
            None if code == Code::Usage => "Put right what is named, and send it again.".to_owned(),
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
        let (details, profile) = (Map::new(), Profile::default());
        Self { error, details, suggestion: None, status: None, profile }
    }
}

impl From<Code> for NlFault {
    fn from(code: Code) -> Self {
        Error::new(code).into()
    }
}

/// The word of chapter 02 for a code, as the text that rules by default has it; what it has no word for begins with `X_`
/// (reference/nl.md, 9.2).
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
        Code::SecretUnavailable => "PROVIDER_UNREACHABLE",
        Code::ReferenceAmbiguous => "AMBIGUOUS_REFERENCE",
        Code::SecretCompromised | Code::SecretNotFound => "SECRET_NOT_FOUND",
        other => return format!("X_{}", other.as_str().to_uppercase()),
    };
    word.to_owned()
}

/// The HTTP status that chapter 08 (6.4 to 6.11) gives a code's number. What has a number of its neighbours' for want of one of
/// its own, and those that are ours alone, keep their own status.
pub fn nl_status(code: Code) -> u16 {
    // Another host than the connection's, or a connection that won't do: 421 says to come by another (C-06).
    if matches!(code, Code::AuthorityMismatch | Code::TransportUnfit) {
        return 421;
    }
    match code.nl_code() {
        "NL-E100" | "NL-E101" | "NL-E105" | "NL-E106" | "NL-E107" => 401,
        "NL-E302" | "NL-E700" => 404,
        "NL-E303" => 408,
        "NL-E802" => 409,
        "NL-E803" => 413,
        "NL-E804" => 415,
        "NL-E202" | "NL-E706" => 429,
        "NL-E307" | "NL-E308" | "NL-E500" | "NL-E502" => 500,
        "NL-E305" | "NL-E708" => 502,
        "NL-E300" | "NL-E301" | "NL-E304" | "NL-E306" | "NL-E704" | "NL-E800" | "NL-E801"
        | "NL-E805" | "NL-E806" => 400,
        "NL-EX01" => code.http_status(),
        _ => 403,
    }
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
        let usage = NlFault::from(Code::Usage).body(Shape::Bare);
        assert!(!usage["suggestion"].as_str().unwrap().contains("--help"), "{usage}");
        // The published text has another word for it, and the same for what lies beyond the agent's own scope.
        let published =
            |fault: NlFault| fault.under(Profile::Final).body(Shape::Bare)["code"].clone();
        assert_eq!(published(fault), "GRANT_DENIED");
        assert_eq!(published(Code::ScopeViolation.into()), "SCOPE_VIOLATION");
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

    /// reference/nl.md, 9.1.
    #[test]
    fn a_number_has_the_status_of_the_registry() {
        let registry = [
            (400, "E300 E301 E304 E306 E704 E800 E801 E805 E806"),
            (401, "E100 E101 E105 E106 E107"),
            (403, "E102 E103 E104 E108 E200 E201 E203 E204 E205 E206 E400 E401 E402 E501"),
            (403, "E600 E601 E602 E701 E702 E703 E705 E707 E709"),
            (404, "E302 E700"),
            (408, "E303"),
            (409, "E802"),
            (413, "E803"),
            (415, "E804"),
            (429, "E202 E706"),
            (500, "E307 E308 E500 E502"),
            (502, "E305 E708"),
        ];
        let elsewhere = [Code::AuthorityMismatch, Code::TransportUnfit];
        for code in Code::ALL.iter().filter(|code| !elsewhere.contains(code)) {
            let number = code.nl_code().strip_prefix("NL-").unwrap();
            let listed = registry.iter().find(|(_, numbers)| numbers.contains(number));
            if number != "EX01" {
                assert_eq!(listed.map(|(status, _)| *status), Some(nl_status(*code)), "{number}");
            }
        }
        let fault = NlFault::from(Code::DelegationInvalid);
        assert_eq!((fault.status(), fault.at_status(422).status()), (400, 422));
    }
}
