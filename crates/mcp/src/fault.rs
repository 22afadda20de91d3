//! An error as a tool tells it: a word, a sentence, and who can do what about it.
//!
//! The words of spec/secrets-through-mcp.md and of the closed table in reference/secrets.md, 11.2;
//! every other code of ours is its own word. No code is without a remediation, as none compiles.

use keyless_core::{Actor, Code, Error, Remediation};
use schemars::JsonSchema;
use serde::Serialize;

/// An error as an agent meets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fault {
    /// The stable word; for a request that is not known, the sentence of the spec.
    pub error: String,
    /// What happened, in one sentence.
    pub message: String,
    /// What to do about it.
    pub remediation: Advice,
}

/// What to do about an error, and who can. Written by Keyless, never by an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Advice {
    /// `agent` or `user`.
    pub actor: &'static str,
    /// The next step as a word.
    pub action: &'static str,
    /// A sentence for the person.
    pub user_message: String,
    /// Whether the same call may work later without a change.
    pub retryable: bool,
    /// When to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
}

/// The word of a code, its action, and the seconds to wait.
type Row = (&'static str, &'static str, Option<u64>);

/// Where a tool's caller is told something else than who runs a command: who acts, what next, and the sentence.
struct ForTools {
    actor: Actor,
    next: &'static str,
    user_message: &'static str,
    retryable: bool,
}

impl From<&Error> for Fault {
    fn from(error: &Error) -> Self {
        let code = error.code();
        let ForTools { actor, next, user_message, retryable } = for_tools(code);
        let (word, action, retry_after_seconds) =
            row(code).unwrap_or((code.as_str(), actor_word(actor), None));
        let word = match code {
            // "unknown request_id: <id>" as a whole is the error of the spec.
            Code::RequestNotFound if !error.detail().as_str().is_empty() => {
                error.detail().as_str().to_owned()
            }
            _ => word.replace('_', "-"),
        };
        Self {
            error: word,
            message: error.message(),
            remediation: Advice {
                actor: if actor == Actor::Operator { "user" } else { "agent" },
                action,
                user_message: format!("{user_message} Next: {next}."),
                retryable,
                retry_after_seconds: error.retry_after().or(retry_after_seconds),
            },
        }
    }
}

fn for_tools(code: Code) -> ForTools {
    let Remediation { actor, action: next, user_message, retryable } = code.remediation();
    match code {
        // No row of the closed table: what an agent can do about it comes before what a person can.
        Code::SecretNotFound => ForTools {
            actor: Actor::Agent,
            next: "name one that secrets_list has, or suggest this one with secrets_propose_new_path, and a person \
                   decides; a person can declare it in the project's .keyless/secrets.toml as well",
            user_message: "This project declares no such secret.",
            retryable,
        },
        // The same call has the same end until a person has done something.
        Code::SecretUnavailable => ForTools {
            actor,
            next: "give it a value (secrets_request_provision asks for one); keyless source check says what is amiss \
                   with one that is kept elsewhere",
            user_message: "The secret has no value that could be had.",
            retryable: false,
        },
        Code::Usage => ForTools {
            actor: Actor::Agent,
            next: "mend what the message names; the tool's schema says what it takes",
            user_message,
            retryable,
        },
        Code::SecretExists => ForTools {
            actor: Actor::Agent,
            next: "propose what should be known of it with secrets_propose_metadata, or suggest another path",
            user_message,
            retryable,
        },
        // The closed table has a person's deed for these, after which a new call is made.
        Code::ApprovalRequired | Code::BrokerNotRunning => {
            ForTools { actor, next, user_message, retryable: false }
        }
        _ => ForTools { actor, next, user_message, retryable },
    }
}

fn row(code: Code) -> Option<Row> {
    Some(match code {
        Code::ApprovalDenied => ("approval-denied", "none", None),
        Code::ApprovalRequired => ("approval-required", "ask_user_to_approve", None),
        Code::BrokerNotRunning => ("daemon-not-running", "ask_user_to_start_daemon", None),
        Code::Locked => ("locked", "ask_user_to_unlock", None),
        Code::LockedForCode => ("locked", "request_totp", None),
        Code::ManifestInvalid => ("merge-failed", "ask_user_to_correct_manifest", None),
        Code::NotAvailableInCi => ("not-available-in-ci-mode", "set_env_var", None),
        Code::PathInvalid => ("invalid-path", "correct_the_path", None),
        Code::RateLimited => ("rate-limited", "retry_after", Some(60)),
        Code::RequestNotFound => ("unknown-request", "make_a_new_request", None),
        Code::SecretExists => ("secret-exists", "propose_metadata", None),
        Code::SecretNotFound => ("not-found", "check_the_path", None),
        Code::SecretUnavailable => ("not-provisioned", "ask_user_to_provision", None),
        Code::TotpClosed => ("totp-closed", "retry_after", Some(60)),
        Code::TotpReplayed => ("totp-replayed", "request_fresh_totp", Some(30)),
        Code::TotpUnavailable => ("totp-unavailable", "ask_user_to_unlock", None),
        Code::TotpWrong => ("totp-wrong", "request_totp", None),
        Code::Usage => ("invalid-arguments", "correct_the_arguments", None),
        Code::ValueExists => ("value-exists", "request_rotation", None),
        _ => return None,
    })
}

fn actor_word(actor: Actor) -> &'static str {
    match actor {
        Actor::Agent => "correct_the_call",
        Actor::Operator => "ask_user",
        Actor::Upstream => "retry_later",
    }
}

#[cfg(test)]
mod tests {
    use keyless_core::SafeText;

    use super::*;

    fn told(code: Code, detail: &'static str) -> (String, &'static str, &'static str) {
        let fault = Fault::from(&Error::with(code, SafeText::words(detail)));
        (fault.error, fault.remediation.actor, fault.remediation.action)
    }

    #[test]
    fn the_words_are_those_of_the_spec() {
        let unknown = "unknown request_id: prov-0123456789ab";
        assert_eq!(told(Code::RequestNotFound, unknown).0, unknown);
        let word = |word: &str, actor, action| (word.to_owned(), actor, action);
        assert_eq!(told(Code::SecretNotFound, ""), word("not-found", "agent", "check_the_path"));
        let not_found = Fault::from(&Error::new(Code::SecretNotFound)).remediation.user_message;
        assert!(not_found.contains("secrets_propose_new_path"), "{not_found}");
        assert_eq!(told(Code::PathInvalid, "").0, "invalid-path");
        assert_eq!(told(Code::ManifestInvalid, "").0, "merge-failed");
        assert_eq!(told(Code::DiskFull, ""), word("disk-full", "user", "ask_user"));
    }

    /// Reference, 11.2: who acts, what next, and whether the same call may work later.
    #[test]
    fn the_table_of_remediations_is_the_references() {
        for (code, actor, action, retryable) in [
            (Code::LockedForCode, "agent", "request_totp", true),
            (Code::TotpUnavailable, "user", "ask_user_to_unlock", false),
            (Code::TotpWrong, "agent", "request_totp", true),
            (Code::TotpReplayed, "agent", "request_fresh_totp", true),
            (Code::TotpClosed, "agent", "retry_after", true),
            (Code::RateLimited, "agent", "retry_after", true),
            (Code::SecretUnavailable, "user", "ask_user_to_provision", false),
            (Code::ApprovalRequired, "user", "ask_user_to_approve", false),
            (Code::ApprovalDenied, "user", "none", false),
            (Code::BrokerNotRunning, "user", "ask_user_to_start_daemon", false),
            (Code::NotAvailableInCi, "user", "set_env_var", false),
            (Code::Usage, "agent", "correct_the_arguments", false),
            (Code::SecretExists, "agent", "propose_metadata", false),
            (Code::ValueExists, "agent", "request_rotation", false),
            (Code::ValueNotStored, "user", "ask_user", false),
        ] {
            let told = Fault::from(&Error::new(code)).remediation;
            assert_eq!((told.actor, told.action, told.retryable), (actor, action, retryable));
        }
        let wait = |code| Fault::from(&Error::new(code)).remediation.retry_after_seconds;
        assert_eq!((wait(Code::TotpReplayed), wait(Code::TotpClosed)), (Some(30), Some(60)));
        // A lockout doubles: who waits for what a table says would come too early.
        let closed = Error::new(Code::TotpClosed).again_after(Some(120));
        assert_eq!(Fault::from(&closed).remediation.retry_after_seconds, Some(120));
    }

    #[test]
    fn every_code_has_a_word_and_a_next_step() {
        for code in Code::ALL {
            let fault = Fault::from(&Error::new(*code));
            assert!(!fault.error.contains('_') && !fault.remediation.action.is_empty());
            assert!(fault.remediation.user_message.contains("Next: "), "{}", code.as_str());
        }
    }
}
