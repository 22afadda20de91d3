//! What the log says of an action, and of a message that is refused, written before the agent is told anything.

use std::{net::IpAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use keyless_core::{
    ActionType, Code, Error, SafeText, SecretPath,
    audit::{Action, Agent, Detail, Draft, Outcome, Stopped, Target},
    nl_message::{MessageType, NlFault, nl_status},
};
use keyless_store::AuditLog;
use serde_json::{Map, Value};
use signal_hook::consts::{SIGKILL, SIGTERM};

use super::{
    actions::ExitReport,
    answer::message_id,
    caller::{Caller, Presented},
};
use crate::broker::agent;

/// The longest purpose that is written down, in characters.
const MAX_PURPOSE: usize = 500;

/// An action on its way, as the log knows it.
pub(crate) struct Account {
    pub(crate) log: AuditLog,
    pub(crate) agent: Arc<Agent>,
    /// `act_…`.
    pub(crate) action_id: String,
    /// Nothing where what came names no type of action.
    pub(crate) kind: Option<ActionType>,
    /// What it calls itself, where that is no type of action.
    pub(crate) unknown_kind: Option<SafeText>,
    /// The request's own name.
    pub(crate) correlation_id: String,
    pub(crate) purpose: Option<String>,
    pub(crate) source_ip: Option<IpAddr>,
    pub(crate) is_dry_run: bool,
    /// The agents through whose delegation it came, the origin first.
    pub(crate) delegation: Vec<String>,
    pub(crate) begun: Timestamp,
}

/// How an action ended.
#[derive(Clone, Default)]
pub(crate) struct End {
    /// Why not, if not.
    pub(crate) code: Option<Code>,
    /// The rule that stopped it.
    pub(crate) rule_id: Option<String>,
    /// The secrets that it was about.
    pub(crate) about: Vec<SecretPath>,
    /// What it was about, where that means no secret here.
    pub(crate) named: Option<SafeText>,
    /// Whether values were used.
    pub(crate) used: bool,
    pub(crate) grants: Vec<String>,
    pub(crate) redacted_count: u64,
    pub(crate) exit_code: Option<i32>,
    /// How its command was stopped, if it was.
    pub(crate) stopped: Option<Box<Stopped>>,
    pub(crate) note: Option<String>,
}

impl Account {
    /// The same without what `clean` takes out of the agent's own words.
    pub(crate) fn cleaned(self, clean: impl Fn(&str) -> String) -> Self {
        Self {
            correlation_id: clean(&self.correlation_id),
            purpose: self.purpose.as_deref().map(&clean),
            unknown_kind: self.unknown_kind.as_ref().map(|kind| cleaned(kind, &clean)),
            ..self
        }
    }

    /// Writes the end down and gives the entry's name, `aud_…`; done when it is on disk. Of what has run the entry is left to
    /// the log where that can't be written now, though the agent is told nothing of what came of it.
    pub(crate) async fn close(&self, end: End) -> Result<String, Error> {
        let again = end.used.then(|| end.clone());
        let (mut written, mut last) = (0, Err(Code::Internal.into()));
        for draft in self.drafts(end) {
            last = self.log.append(draft).await;
            if last.is_err() {
                break;
            }
            written += 1;
        }
        if let (Err(_), Some(end)) = (&last, again) {
            self.drafts(end).into_iter().skip(written).for_each(|draft| self.log.owe(draft));
        }
        last.map(|recorded| format!("aud_{}", recorded.sequence()))
    }

    /// The entries about its end, of which the last is its own.
    fn drafts(&self, end: End) -> Vec<Draft> {
        // A value in an output is an incident of its own (NL-2.6.7).
        let incident = (end.redacted_count > 0).then(|| self.incident(&end));
        incident.into_iter().chain([self.ending(end)]).collect()
    }

    fn ending(&self, end: End) -> Draft {
        let outcome = outcome(end.code);
        let action = match (outcome, self.kind) {
            (Outcome::Denied, _) => Action::Denied,
            (Outcome::Blocked, _) | (_, None) => Action::Blocked,
            (_, Some(kind)) => kind.into(),
        };
        let stopped = matches!(action, Action::Blocked | Action::Denied);
        let mut draft = self.draft(action, outcome, &end);
        draft.detail.attempted_action = self.attempted().filter(|_| stopped);
        draft.detail.redacted_count = Some(end.redacted_count).filter(|count| *count > 0);
        draft.detail.exit_code = end.exit_code.map(i64::from);
        draft.detail.duration_ms =
            u64::try_from(Timestamp::now().duration_since(self.begun).as_millis()).ok();
        draft.detail.stopped = end.stopped;
        draft.detail.purpose = self.purpose.as_ref().map(|purpose| shortened(purpose));
        draft.detail.rule_id = end.rule_id;
        draft.detail.grants = end.grants;
        draft.detail.note = end.note;
        draft.error_code = end.code;
        draft.secrets_used = if end.used { end.about } else { Vec::new() };
        draft
    }

    /// What it was to be.
    pub(crate) fn attempted(&self) -> Option<String> {
        let unknown = || self.unknown_kind.as_ref().map(unknown);
        self.kind.map(|kind| kind.as_str().to_owned()).or_else(unknown)
    }

    fn incident(&self, end: &End) -> Draft {
        let mut draft = self.draft(Action::Incident, Outcome::Blocked, end);
        draft.detail.kind = Some("value_in_output".to_owned());
        draft.detail.redacted_count = Some(end.redacted_count);
        draft
    }

    fn draft(&self, action: Action, outcome: Outcome, end: &End) -> Draft {
        let target = match (&end.named, end.about.is_empty()) {
            (_, false) => Target::Secrets(end.about.clone()),
            (Some(name), true) => Target::Named(name.clone()),
            (None, true) => Target::Session,
        };
        Draft {
            detail: Detail {
                action_id: Some(self.action_id.clone()),
                delegation: self.delegation.clone(),
                kind: self.is_dry_run.then(|| "dry_run".to_owned()),
                source_ip: self.source_ip.map(|address| address.to_string()),
                ..Detail::default()
            },
            ..Draft::new(
                Timestamp::now(),
                Arc::clone(&self.agent),
                action,
                outcome,
                target,
                self.correlation_id.clone(),
            )
        }
    }
}

/// A message that asks for no action and is not done: whose it is, and what it was about.
pub(super) struct Refusal {
    agent: Agent,
    source_ip: Option<IpAddr>,
    delegation: Vec<String>,
    kind: String,
    about: Option<SafeText>,
    correlation_id: String,
    /// How many before it were not written down.
    before: u64,
}

impl Refusal {
    /// One of an agent that is known.
    pub(super) fn of(
        caller: &Caller,
        kind: MessageType,
        payload: &Map<String, Value>,
        correlation_id: String,
    ) -> Self {
        Self {
            agent: caller.as_logged(),
            source_ip: caller.source_ip,
            delegation: caller.delegation.clone(),
            kind: kind.as_str().to_owned(),
            about: about(payload),
            correlation_id,
            before: 0,
        }
    }

    /// One of somebody whose word counts for nothing: who they say they are is what it is about.
    pub(super) fn of_nobody(
        presented: &Presented,
        kind: MessageType,
        payload: &Map<String, Value>,
    ) -> Self {
        let said = payload.get("agent").and_then(|agent| agent.get("agent_uri")?.as_str());
        let claimed = presented.claim.as_ref().map(|claim| claim.agent_uri.as_str());
        Self {
            agent: agent("broker", "broker"),
            source_ip: presented.source_ip,
            delegation: Vec::new(),
            kind: kind.as_str().to_owned(),
            about: said.or(claimed).map(|name| SafeText::default().as_they_wrote(name)),
            correlation_id: message_id(),
            before: 0,
        }
    }

    /// The same, as so many before it were not written down.
    pub(super) fn after(self, before: u64) -> Self {
        Self { before, ..self }
    }

    /// The same, of a message that calls itself something that there is not.
    pub(super) fn called(self, kind: Option<&SafeText>) -> Self {
        let kind = kind.map_or(self.kind, unknown);
        Self { kind, ..self }
    }

    /// The entry, with why.
    pub(super) fn draft(self, code: Code) -> Draft {
        let outcome = outcome(Some(code));
        let action = if outcome == Outcome::Denied { Action::Denied } else { Action::Blocked };
        Draft {
            error_code: Some(code),
            detail: Detail {
                attempted_action: Some(self.kind),
                delegation: self.delegation,
                source_ip: self.source_ip.map(|address| address.to_string()),
                note: more_before(self.before),
                ..Detail::default()
            },
            ..Draft::new(
                Timestamp::now(),
                Arc::new(self.agent),
                action,
                outcome,
                self.about.map_or(Target::Session, Target::Named),
                self.correlation_id,
            )
        }
    }
}

/// A type that there is not, told apart from those that there are.
fn unknown(said: &SafeText) -> String {
    format!("unknown: {}", SafeText::default().as_they_wrote(said.as_str()))
}

/// Words of theirs without what `clean` takes out.
pub(super) fn cleaned(words: &SafeText, clean: impl Fn(&str) -> String) -> SafeText {
    SafeText::default().as_they_wrote_in_full(&clean(words.as_str()))
}

/// What is told of those that nothing was written of.
pub(super) fn more_before(number: u64) -> Option<String> {
    let words = || format!("{number} more were refused since the last entry about that");
    (number > 0).then(words)
}

/// What a message names: the agent, the token or the secret that it is about.
fn about(payload: &Map<String, Value>) -> Option<SafeText> {
    let names = ["token_id", "delegate_to", "subject", "agent_uri", "instance_id", "secret_name"];
    let name = names.iter().find_map(|name| payload.get(*name)?.as_str())?;
    Some(SafeText::default().as_they_wrote(name))
}

/// What is told of a command whose time was over (NL, chapter 3).
pub(crate) fn stopped(exit: Option<ExitReport>) -> Option<Box<Stopped>> {
    let exit = exit.filter(|exit| exit.timed_out)?;
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut signals = vec![SIGTERM];
    signals.extend((!exit.graceful).then_some(SIGKILL));
    Some(Box::new(Stopped {
        exit_reason: "timeout".to_owned(),
        graceful_attempted: true,
        graceful_exit: exit.graceful,
        graceful_wait_ms: milliseconds(exit.graceful_wait),
        signals,
        timeout_ms: milliseconds(exit.time),
    }))
}

/// What is told in place of an action's answer where its end could not be written down.
pub(crate) fn end_unwritten(error: Error, has_begun: bool) -> NlFault {
    if !has_begun {
        return error.into();
    }
    let so_far = error.detail().clone();
    let so_far = if so_far.as_str().is_empty() { so_far } else { so_far.and("; ") };
    let words =
        so_far.and("the action may have begun, with its values, and what came of it is not told");
    let advice = "Find out what it has done before you send it again, under another request_id; have the operator mend \
                  what is named.";
    NlFault::new(error.code(), words).suggesting(SafeText::words(advice))
}

/// NL's word for an end with this code.
fn outcome(code: Option<Code>) -> Outcome {
    match code {
        None => Outcome::Success,
        Some(Code::ActionBlocked | Code::EvasionBlocked | Code::GuardUnavailable) => {
            Outcome::Blocked
        }
        Some(Code::ActionTimeout) => Outcome::Timeout,
        // Whoever may not is denied; what went wrong in another way is an error.
        Some(code) if matches!(nl_status(code), 401 | 403 | 429) => Outcome::Denied,
        Some(_) => Outcome::Error,
    }
}

/// The agent's words, on one line.
fn shortened(purpose: &str) -> String {
    let text: String = purpose.chars().take(MAX_PURPOSE).collect();
    SafeText::default().as_they_wrote_in_full(&text).as_str().to_owned()
}
