//! The entry about a request or tunnel that is over, with what was released to it while it lasted.

use std::collections::HashMap;

use keyless_core::{
    Error, Location, SecretPath,
    audit::{Detail, Draft, Outcome},
};
use keyless_egress::{Finished, RequestInfo};
use keyless_store::AuditLog;
use parking_lot::Mutex;

/// What is under way in one session.
#[derive(Default)]
pub(super) struct UnderWay {
    /// What was released, by correlation id.
    uses: Mutex<HashMap<String, Uses>>,
    /// Entries about what is over, which the log did not take yet.
    owed: Mutex<Vec<Draft>>,
}

/// What was released to one request.
#[derive(Default)]
struct Uses {
    secrets: Vec<SecretPath>,
    locations: Vec<Location>,
    rules: Vec<String>,
}

impl UnderWay {
    /// Remembers what a request was given.
    pub(super) fn note(&self, request: &RequestInfo, secrets: Vec<SecretPath>) {
        let mut all = self.uses.lock();
        let uses = all.entry(request.correlation_id.clone()).or_default();
        uses.secrets.extend(secrets);
        uses.locations.extend(&request.locations);
        for rule in &request.rules {
            if !uses.rules.contains(rule) {
                uses.rules.push(rule.clone());
            }
        }
    }

    /// Completes `draft` by what it came to, and hands it to the log.
    pub(super) fn end(&self, finished: &Finished, mut draft: Draft, log: &AuditLog) {
        let uses = self.uses.lock().remove(&finished.correlation_id).unwrap_or_default();
        let is_request = finished.request.is_some();
        let unanswered = is_request && finished.status.is_none();
        // Refused before it was sent anywhere: that is an entry by itself.
        if unanswered && uses.secrets.is_empty() {
            return;
        }
        if unanswered {
            draft.outcome = Outcome::Error;
        }
        let (method, path) = finished.request.clone().unzip();
        draft.detail = Detail {
            bytes_received: Some(finished.received),
            bytes_sent: Some(finished.sent),
            duration_ms: Some(u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX)),
            kind: Some(if is_request { "forwarded" } else { "closed" }.to_owned()),
            method,
            path,
            rule: Some(decided_by(&uses.rules)),
            status: finished.status,
            swaps: Some(uses.secrets.len() as u64).filter(|count| *count > 0),
            locations: uses.locations,
            ..Detail::default()
        };
        draft.secrets_used = uses.secrets;
        if self.settle(log).is_ok() {
            let _ = log.append_soon(draft);
        } else {
            // While the log takes nothing, nothing is released; so these stay few.
            self.owed.lock().push(draft);
        }
    }

    /// Hands the log what it is owed; an error while it takes nothing.
    pub(super) fn settle(&self, log: &AuditLog) -> Result<(), Error> {
        log.check()?;
        let owed = {
            let mut owed = self.owed.lock();
            if owed.is_empty() {
                return Ok(());
            }
            std::mem::take(&mut *owed)
        };
        owed.into_iter().try_for_each(|draft| log.append_soon(draft))
    }
}

/// What is forwarded without a value is so by policy.
fn decided_by(rules: &[String]) -> String {
    if rules.is_empty() { "policy".to_owned() } else { rules.join("; ") }
}
