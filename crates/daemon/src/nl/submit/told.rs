//! What an agent is told of its action, and why not.

use jiff::Timestamp;
use keyless_core::{
    ActionType, Code, SafeText,
    action::{Action, ActionError, ActionResponse, Status, Timing},
    grant::{Denial, DenyReason, Subject},
    nl_message::{NL_VERSION, NlFault},
};
use serde_json::Value;

use super::{
    super::{
        delegate::result_of,
        record::Account,
        resolve::{Meant, no_grant},
    },
    course::{Course, Done, add_new},
};

/// What the agent is told, but for the error and the entry's name.
pub(super) fn response(
    account: &Account,
    course: &Course,
    done: Result<Done, NlFault>,
) -> (ActionResponse, Option<NlFault>) {
    let now = Timestamp::now();
    let mut response = ActionResponse {
        nl_version: NL_VERSION.to_owned(),
        request_id: account.correlation_id.clone(),
        action_id: account.action_id.clone(),
        warnings: course.warnings.clone(),
        ..ActionResponse::default()
    };
    let resolved = course.resolved_at.unwrap_or(now);
    let mut executed = resolved;
    let fault = match done {
        Ok(Done::Checked) => {
            response.status = Status::DryRunOk;
            response.secrets_validated.clone_from(&course.written);
            response.grant_refs.clone_from(&course.grants);
            None
        }
        Ok(Done::Delegated(outcome)) => {
            let theirs = result_of(&outcome);
            response.status = theirs.status;
            response.secrets_used = theirs.secrets_used;
            response.redacted = theirs.redacted;
            response.redacted_count = theirs.redacted_count;
            response.result = theirs.result;
            response.secrets_validated = theirs.secrets_validated;
            response.grant_refs = theirs.grant_refs;
            add_new(&mut response.warnings, theirs.warnings);
            outcome.fault
        }
        Ok(Done::Ran(outcome)) => {
            let outcome = *outcome;
            response.status = outcome.status;
            response.secrets_used.clone_from(&course.written);
            response.redacted_count = outcome.redactions.iter().map(|found| found.count).sum();
            response.redacted = response.redacted_count > 0;
            add_new(&mut response.warnings, outcome.warnings);
            executed = outcome.executed_at;
            let exit = outcome.result.as_ref().and_then(|result| result.exit_code);
            response.result = outcome.result;
            match outcome.fault {
                Some(error) => Some(NlFault::from(error)),
                None if outcome.status == Status::Timeout => Some(Code::ActionTimeout.into()),
                None if outcome.status == Status::Error => {
                    let words = SafeText::words("exit status ").and(exit.unwrap_or(-1));
                    Some(NlFault::new(Code::NonzeroExit, words).with("exit_code", exit))
                }
                None => None,
            }
        }
        Err(fault) => {
            response.status = Status::stopped_by(fault.code());
            // What had begun had them, however it ended.
            if course.ran {
                response.secrets_used.clone_from(&course.written);
            }
            Some(if account.is_dry_run { fault.with("dry_run", true) } else { fault })
        }
    };
    response.timing = Some(Timing::new(account.begun, resolved, executed, now));
    (response, fault)
}

/// Why not, about the secret as the agent wrote it.
pub(in crate::nl) fn denied(denial: &Denial, meant: &[Meant], kind: ActionType) -> NlFault {
    let path = denial.subject.as_ref().map(Subject::path);
    let written = meant.iter().find(|meant| Some(&meant.path) == path);
    let written = written.map_or("", |meant| meant.handle.as_written());
    if denial.reason == DenyReason::NoGrant {
        return no_grant(written, kind);
    }
    let fault = NlFault::new(denial.code(), denial.words(written, kind));
    let fault = fault.with("secret_ref", written);
    match &denial.at {
        Some(at) => fault.with("grant_id", at.grant.to_string()),
        None => fault,
    }
}

/// An action that could not be read, or whose turn never came.
#[derive(Debug)]
pub(in crate::nl) struct Unread {
    /// Its type, where it names one.
    pub(super) kind: Option<ActionType>,
    /// What it calls itself, where that is none.
    pub(super) unknown_kind: Option<Box<SafeText>>,
    pub(in crate::nl) fault: NlFault,
}

impl Unread {
    /// What was to be an action, and why it is none.
    pub(in crate::nl) fn of(action: &Value, fault: NlFault) -> Self {
        let (kind, unknown_kind) = kind_of(action);
        Self { kind, unknown_kind, fault }
    }
}

/// The type that an object names as its own, or its word for it where that is none.
pub(super) fn kind_of(action: &Value) -> (Option<ActionType>, Option<Box<SafeText>>) {
    let Some(said) = action.get("type").and_then(Value::as_str) else { return (None, None) };
    let kind = said.parse().ok().filter(|kind| *kind != ActionType::Egress);
    // Whole: what is taken out of it may be longer than what is kept.
    let unknown = kind.is_none().then(|| Box::new(SafeText::default().as_they_wrote_in_full(said)));
    (kind, unknown)
}

/// The action that an object is, or why it is none.
pub(super) fn read(action: Value) -> Result<Action, Unread> {
    let (kind, unknown_kind) = kind_of(&action);
    Action::from_json(action).map_err(|error| {
        let words = SafeText::default().as_they_wrote(&error.to_string());
        let fault = match error {
            ActionError::Handle(_) => bad_handle(&error.to_string()),
            ActionError::Type => NlFault::new(Code::ActionUnknown, words),
            _ if unknown_kind.is_some() => NlFault::new(Code::ActionUnknown, words),
            _ => NlFault::new(Code::MessageMalformed, words),
        };
        Unread { kind, unknown_kind, fault }
    })
}

pub(super) fn bad_handle(why: &str) -> NlFault {
    NlFault::new(Code::PlaceholderInvalid, SafeText::default().as_they_wrote(why))
}

pub(super) fn text(fault: &NlFault, key: &str) -> Option<String> {
    fault.details().get(key).and_then(Value::as_str).map(ToOwned::to_owned)
}

pub(super) fn as_written(reference: &str) -> SafeText {
    SafeText::default().as_they_wrote(reference)
}
