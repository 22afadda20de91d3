//! The entry about a request or tunnel that is over, with what was released to it while it lasted.

use std::{collections::HashMap, time::Duration};

use keyless_core::{
    Location, SecretPath,
    approval::RequestId,
    audit::{Detail, Draft, Outcome},
};
use keyless_egress::{Finished, Redacted, RequestInfo};
use keyless_store::AuditLog;
use parking_lot::Mutex;

/// What is under way in one session.
#[derive(Default)]
pub(super) struct UnderWay {
    /// What was released, by correlation id.
    uses: Mutex<HashMap<String, Uses>>,
}

/// What was released to one request. A WebSocket is one, and may have a million messages: so each
/// secret, place and rule stands here once.
#[derive(Default)]
struct Uses {
    /// How often something was released.
    swaps: u64,
    secrets: Vec<SecretPath>,
    locations: Vec<Location>,
    rules: Vec<String>,
    /// What a person has allowed it.
    approved: Vec<(SecretPath, RequestId)>,
}

impl UnderWay {
    /// Remembers what a request was given.
    pub(super) fn note(&self, request: &RequestInfo, secrets: &[SecretPath]) {
        let mut all = self.uses.lock();
        let uses = all.entry(request.correlation_id.clone()).or_default();
        uses.swaps += secrets.len() as u64;
        for secret in secrets {
            note_once(&mut uses.secrets, secret);
        }
        for place in &request.locations {
            note_once(&mut uses.locations, place);
        }
        for rule in &request.rules {
            note_once(&mut uses.rules, rule);
        }
    }

    /// The first of these secrets that a request has used.
    pub(super) fn used_one(&self, id: &str, secrets: &[SecretPath]) -> Option<SecretPath> {
        let all = self.uses.lock();
        let used = &all.get(id)?.secrets;
        secrets.iter().find(|secret| used.contains(secret)).cloned()
    }

    /// Remembers that a person has allowed a request to use this.
    pub(super) fn note_approved(
        &self,
        request: &RequestInfo,
        secret: &SecretPath,
        approval: RequestId,
    ) {
        let mut all = self.uses.lock();
        let uses = all.entry(request.correlation_id.clone()).or_default();
        uses.approved.push((secret.clone(), approval));
    }

    /// By what a person has, if one has.
    pub(super) fn approval(&self, request: &RequestInfo, secret: &SecretPath) -> Option<RequestId> {
        let all = self.uses.lock();
        let approved = &all.get(&request.correlation_id)?.approved;
        approved.iter().find(|(path, _)| path == secret).map(|(_, approval)| approval.clone())
    }

    /// Completes `draft`, which has its correlation id, by what it came to, and hands it to the log.
    pub(super) fn end(&self, finished: Finished, mut draft: Draft, log: &AuditLog) {
        let uses = self.uses.lock().remove(&draft.correlation_id).unwrap_or_default();
        let is_request = finished.request.is_some();
        let unanswered = is_request && finished.status.is_none();
        // Refused before it was sent anywhere: that is an entry by itself.
        if unanswered && uses.secrets.is_empty() {
            return;
        }
        if unanswered {
            draft.outcome = Outcome::Error;
        }
        let (method, path) = finished.request.unzip();
        draft.detail = Detail {
            bytes_received: Some(finished.received),
            bytes_sent: Some(finished.sent),
            duration_ms: Some(milliseconds(finished.took)),
            kind: Some(if is_request { "forwarded" } else { "closed" }.to_owned()),
            method,
            path,
            rule: Some(decided_by(&uses.rules)),
            status: finished.status,
            redacted_count: Some(redacted_count(&finished.redacted)).filter(|count| *count > 0),
            note: redacted_forms(&finished.redacted),
            swaps: Some(uses.swaps).filter(|count| *count > 0),
            locations: uses.locations,
            ..Detail::default()
        };
        draft.secrets_used = uses.secrets;
        // While the log can't be written no request begins, so those that it is owed are few.
        log.owe(draft);
    }
}

pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How often a value was taken out of what came back.
pub(super) fn redacted_count(redacted: &[Redacted]) -> u64 {
    redacted.iter().map(|redacted| redacted.count).sum()
}

/// What was taken out, as `path:encoding`, as it is said of an action.
pub(super) fn redacted_forms(redacted: &[Redacted]) -> Option<String> {
    let forms = redacted.iter().map(|one| format!("{}:{}", one.secret, one.encoding));
    let forms: Vec<String> = forms.collect();
    (!forms.is_empty()).then(|| forms.join(", "))
}

pub(super) fn note_once<T: Clone + PartialEq>(all: &mut Vec<T>, one: &T) {
    if !all.contains(one) {
        all.push(one.clone());
    }
}

/// What is forwarded without a value is so by policy.
fn decided_by(rules: &[String]) -> String {
    if rules.is_empty() { "policy".to_owned() } else { rules.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_messages_use_is_noted_once_and_counted() {
        let request = RequestInfo {
            correlation_id: "req-1".to_owned(),
            authority: keyless_core::Authority::parse("chat.test:443").unwrap(),
            method: "GET".to_owned(),
            path: "/room".to_owned(),
            locations: vec![Location::Websocket],
            rules: vec!["to chat.test".to_owned()],
        };
        let secret: SecretPath = SecretPath::parse("team/chat/token").unwrap();
        let under_way = UnderWay::default();
        for _ in 0..1000 {
            under_way.note(&request, std::slice::from_ref(&secret));
        }
        let uses = under_way.uses.lock().remove("req-1").unwrap();
        assert_eq!((uses.swaps, uses.secrets), (1000, vec![secret]));
        assert_eq!((uses.locations, uses.rules), (request.locations, request.rules));
    }
}
