//! What agents ask without acting: who they are, what they may use, what was rotated.

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    ActionType, Code, SafeText, SecretPath, ShortReferences,
    action::{Action, Deed, DelegationScope, TemplateSource},
    audit::{self, Target},
    grant::SecretPattern,
    nl_message::{Message, MessageType, NlFault},
};
use keyless_store::AuditQuery;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    agents::as_logged,
    answer::Outcome,
    caller::Caller,
    resolve::subject,
    rotation::{entries, told},
    service::{NlService, not_served},
};
use crate::broker::plain_entry;

/// Rotations in one answer.
const MAX_ROTATIONS: u32 = 100;
/// References and patterns that they may be asked for by.
const MAX_NAMED: usize = 64;
/// How far back they are told.
const ROTATIONS_KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);

impl NlService {
    /// Answers a message that changes nothing of the agent's world.
    pub(super) async fn ask(&self, caller: &Caller, message: &Message) -> Result<Outcome, NlFault> {
        let payload = &message.payload;
        let body = match message.kind {
            MessageType::AgentGet => self.shown(caller, payload).await?,
            MessageType::AuditQuery => self.audited(caller, payload).await?,
            MessageType::DelegationRevoke => {
                return self.revoke_delegation(caller, payload).await;
            }
            MessageType::RevocationRequest => self.revoke_agents(caller, payload).await?,
            MessageType::RotationNotification => self.rotations(caller, payload).await?,
            MessageType::XAcceptDelegation => {
                return self.accept_delegation(caller, payload).await;
            }
            MessageType::XCheckAccess => return self.check_access(caller, payload).await,
            MessageType::XListSecrets => self.listed(caller, payload).await?,
            kind => return Err(not_served(kind)),
        };
        Ok(Outcome::done(message.kind.answer(), 200, body))
    }

    /// The secrets that a grant of the agent shows to it now, and for which types of actions.
    async fn listed(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
    ) -> Result<Value, NlFault> {
        let scope = scope(payload)?;
        let secrets = self.vault.list().await?;
        let categories = self.vault.categories().await?;
        let (grants, now) = (self.grants.refresh().await?.index, Timestamp::now());
        let mut all = Vec::new();
        for secret in secrets.iter() {
            let subject = subject(&self.vault, secret);
            let may = |kind: &ActionType| {
                let one = std::slice::from_ref(&subject);
                caller.aid.covers(*kind, one, &categories).is_ok()
                    && grants.shows(&caller.aid, *kind, (&subject, &categories), now)
            };
            let kinds: Vec<&str> =
                ActionType::ALL.iter().filter(|kind| may(kind)).map(|kind| kind.as_str()).collect();
            if !kinds.is_empty() {
                let is_asked = scope.as_ref().is_none_or(|(scope, is_folder)| {
                    scope.leads_to(&subject.forms(&categories), *is_folder)
                });
                all.push((secret, kinds, is_asked));
            }
        }
        // For one type of action there may be fewer, of whom a reference means the same one.
        let short = ShortReferences::among(all.iter().map(|(secret, ..)| &secret.path));
        let asked = all.iter().filter(|(.., is_asked)| *is_asked);
        let listed: Vec<Value> = asked
            .map(|(secret, kinds, _)| {
                json!({
                    "name": secret.path.as_str(),
                    "reference": format!("{{{{nl:{}}}}}", short.to(&secret.path)),
                    "action_types": kinds,
                    "bound_to_hosts": secret.metadata.egress.is_some(),
                })
            })
            .collect();
        self.note(caller, audit::Action::List, Target::Session).await?;
        Ok(json!({ "secrets": listed }))
    }

    /// Whether an action of a type may use a secret now: what every such action is asked first, as a dry run.
    async fn check_access(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
    ) -> Result<Outcome, NlFault> {
        let text = |key: &str| payload.get(key).and_then(Value::as_str);
        let name = text("secret_name").ok_or_else(|| {
            NlFault::new(Code::MessageMalformed, SafeText::words("secret_name is missing"))
        })?;
        let name =
            name.strip_prefix("{{nl:").and_then(|rest| rest.strip_suffix("}}")).unwrap_or(name);
        let kind = text("action_type").unwrap_or("exec");
        let kind: ActionType = kind.parse().map_err(|_| {
            NlFault::new(Code::ActionUnknown, SafeText::default().as_they_wrote(kind))
        })?;
        let handle = format!("{{{{nl:{name}}}}}");
        let deed = smallest(kind, handle).ok_or(Code::ActionUnknown)?;
        let action = Action { dry_run: true, ..Action::new(deed) };
        let id = format!("req-{}", Uuid::now_v7());
        let outcome = self.access(caller, &action, &id, Timestamp::now()).await;
        let (allowed, kind) = (outcome.fault.is_none(), MessageType::XAccess);
        let body = json!({ "secret_name": name, "allowed": allowed });
        Ok(match outcome.fault {
            None => Outcome::done(kind, 200, body),
            Some(fault) => Outcome::done(kind, 200, with_reason(body, &fault)),
        })
    }

    /// What was rotated of late, of the secrets that the agent may use: names and times (NL-2.20).
    async fn rotations(
        &self,
        caller: &Caller,
        payload: &Map<String, Value>,
    ) -> Result<Value, NlFault> {
        let since = payload.get("since").and_then(Value::as_str).map(str::parse::<Timestamp>);
        let since = since.transpose().map_err(|_| {
            NlFault::new(Code::MessageMalformed, SafeText::words("since is a time in UTC"))
        })?;
        // What is older may be in many closed parts of the log, which no agent is to have read again and again.
        let oldest = Timestamp::now() - ROTATIONS_KEPT;
        let since = Some(since.map_or(oldest, |since| since.max(oldest)));
        let limit = Some(MAX_ROTATIONS);
        let wanted = AuditQuery { since, limit, ..AuditQuery::default() };
        let now = format!("{:.3}", Timestamp::now());
        let entries = entries(&self.vault, &wanted).await?;
        // Where there is more than one answer holds, the next begins with the last one's end.
        let last = entries.last().filter(|_| entries.len() >= MAX_ROTATIONS as usize);
        let now = last.map_or(now, |last| last.timestamp.clone());
        let secrets = self.vault.list().await?;
        let categories = self.vault.categories().await?;
        let asked = payload.get("secrets").and_then(Value::as_str).map(named).transpose()?;
        let (grants, at) = (self.grants.refresh().await?.index, Timestamp::now());
        let mut events = Vec::new();
        for entry in entries {
            let Ok(path) = entry.target.parse::<SecretPath>() else { continue };
            let known = secrets.iter().find(|secret| secret.path == path);
            let subject =
                known.map_or_else(|| path.clone().into(), |one| subject(&self.vault, one));
            let one = std::slice::from_ref(&subject);
            let may = |kind: &ActionType| {
                caller.aid.covers(*kind, one, &categories).is_ok()
                    && grants.shows(&caller.aid, *kind, (&subject, &categories), at)
            };
            let is_wanted = || {
                let forms = subject.forms(&categories);
                asked.as_ref().is_none_or(|asked| asked.iter().any(|one| one.matches(&forms)))
            };
            if ActionType::ALL.iter().any(may) && is_wanted() {
                let mut event = told(&self.vault, &entry, self.grace.full).await;
                event.insert("rotated_at".to_owned(), entry.timestamp.into());
                events.push(event);
            }
        }
        Ok(json!({ "rotations": events, "now": now }))
    }

    pub(super) async fn note(
        &self,
        caller: &Caller,
        action: audit::Action,
        target: Target,
    ) -> Result<(), NlFault> {
        let draft = plain_entry(as_logged(&caller.aid), action, audit::Outcome::Success, target);
        Ok(self.log.append(draft).await.map(drop)?)
    }
}

/// What a question about usable secrets is bounded by: a pattern, or how the way to write one begins; and whether that is a
/// folder (`team/`).
fn scope(payload: &Map<String, Value>) -> Result<Option<(SecretPattern, bool)>, NlFault> {
    let said = match payload.get("scope") {
        None | Some(Value::Null) => return Ok(None),
        Some(said) => said.as_str(),
    };
    let folder = said.and_then(|text| text.strip_suffix('/'));
    let text = folder.or(said);
    if text == Some("") {
        return Ok(None);
    }
    let pattern = text.and_then(|text| SecretPattern::parse(text).ok());
    pattern.map(|pattern| Some((pattern, folder.is_some()))).ok_or_else(|| {
        let words = "scope is a pattern such as api/*, or how a path begins, such as team/prod";
        NlFault::new(Code::MessageMalformed, SafeText::words(words))
    })
}

/// The secrets that a question is about, as references and patterns with commas between them.
fn named(text: &str) -> Result<Vec<SecretPattern>, NlFault> {
    if text.split(',').nth(MAX_NAMED).is_some() {
        let words = SafeText::words("secrets has ").and(MAX_NAMED);
        let words = words.and(" references and patterns at most: ask for wider ones");
        return Err(NlFault::new(Code::MessageMalformed, words));
    }
    let parts = text.split(',').map(str::trim);
    let patterns = parts.map(|part| {
        SecretPattern::parse(part).map_err(|_| {
            let words = SafeText::words(
                "secrets has references or patterns such as api/*, with commas between them; none of them is '",
            );
            NlFault::new(Code::MessageMalformed, words.as_they_wrote(part).and("'"))
        })
    });
    patterns.collect()
}

/// An action of this type that says no more than the secret that it would use.
fn smallest(kind: ActionType, handle: String) -> Option<Deed> {
    let nothing = String::new;
    Some(match kind {
        ActionType::Delegate => Deed::Delegate {
            delegate_to: nothing(),
            delegated_action: Box::new(Action::new(smallest(ActionType::Exec, handle)?)),
            delegation_scope: DelegationScope::default(),
        },
        ActionType::Exec => Deed::Exec { template: format!("true {handle}") },
        ActionType::InjectStdin => {
            Deed::InjectStdin { command: "true".to_owned(), secret_ref: handle }
        }
        ActionType::InjectTempfile => Deed::InjectTempfile {
            command: "true".to_owned(),
            file_refs: [("F".to_owned(), handle)].into(),
            binary: false,
        },
        ActionType::SdkProxy => Deed::SdkProxy {
            provider: nothing(),
            service: nothing(),
            operation: nothing(),
            parameters: Map::new(),
            credentials_ref: handle,
        },
        ActionType::Template => {
            Deed::Template { source: TemplateSource::Inline(handle), output_path: None }
        }
        ActionType::Egress => return None,
    })
}

fn with_reason(mut body: Value, fault: &NlFault) -> Value {
    let told = fault.body(keyless_core::nl_message::Shape::Enveloped);
    body["reason"] = told["name"].clone();
    body["nl_code"] = told["code"].clone();
    body["message"] = told["message"].clone();
    body
}

#[cfg(test)]
mod tests;
