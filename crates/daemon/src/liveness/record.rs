//! What the log has of a check: that it begins, before a value opens, and what came of it.

use std::sync::Arc;

use jiff::Timestamp;
use keyless_core::{
    Allowed, Authority, Error, Permit, SecretPath,
    audit::{Action, Agent, Detail, Draft, Outcome, Target},
};
use keyless_store::AuditLog;
use keyless_vault::Liveness;
use uuid::Uuid;

use super::{
    Checked, LivenessVerdict,
    request::{path_of, word},
};
use crate::permits::{PermitLife, permit};

/// The entries about one check.
pub(super) struct Record<'a> {
    log: &'a AuditLog,
    who: Arc<Agent>,
    authority: Authority,
    secrets: Vec<SecretPath>,
    correlation_id: String,
    detail: Detail,
}

impl<'a> Record<'a> {
    pub(super) fn new(
        log: &'a AuditLog,
        who: Agent,
        authority: &Authority,
        liveness: &Liveness,
        target: &str,
    ) -> Self {
        let path = path_of(target).to_owned();
        let method = Some(word(liveness.method).to_owned());
        let kind = Some("check".to_owned());
        Self {
            log,
            who: Arc::new(who),
            authority: authority.clone(),
            secrets: Vec::new(),
            correlation_id: format!("req-{}", Uuid::now_v7()),
            detail: Detail { method, path: Some(path), kind, ..Detail::default() },
        }
    }

    /// Writes down that a value is used; only that opens it.
    pub(super) async fn begin(&mut self, allowed: Allowed) -> Result<Permit, Error> {
        self.secrets.push(allowed.path().clone());
        let mut draft = self.draft(Outcome::Success);
        draft.allowed = Some(allowed);
        permit(self.log, draft, PermitLife::InRequest).await
    }

    pub(super) async fn end(&mut self, checked: &Checked) -> Result<(), Error> {
        self.detail.status = checked.status;
        self.detail.note = Some(checked.verdict.as_str().to_owned());
        let outcome = match checked.verdict {
            LivenessVerdict::Valid => Outcome::Success,
            LivenessVerdict::Rejected => Outcome::Denied,
            _ => Outcome::Error,
        };
        self.log.append(self.draft(outcome)).await.map(drop)
    }

    fn draft(&self, outcome: Outcome) -> Draft {
        Draft {
            secrets_used: self.secrets.clone(),
            detail: self.detail.clone(),
            ..Draft::new(
                Timestamp::now(),
                Arc::clone(&self.who),
                Action::Egress,
                outcome,
                Target::Authority(self.authority.clone()),
                self.correlation_id.clone(),
            )
        }
    }
}
