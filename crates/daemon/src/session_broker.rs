//! One session's broker: verdicts in, values out, everything written down first.
//!
//! A secret's first use toward an authority is durable in the log before its value is opened. The
//! permit lives for [`PERMIT_LIFE`]; uses within it are logged with the next group commit, and a
//! log that can't be written stops them all. So a kept-alive request costs no disk write, a
//! rotated value is taken up within seconds, and no first use is ever missing from the log.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use keyless_core::{
    Allowed, Authority, Code, Error, Permit, SecretPath,
    audit::{Action, Agent, Detail, Draft, Outcome, Target},
};
use keyless_egress::{Broker, Event, Released, RequestInfo};
use keyless_store::AuditLog;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::values::Values;

/// How long a permit opens its value; then the value is fetched anew.
const PERMIT_LIFE: Duration = Duration::from_secs(5);

/// One session's way to values and to the log.
pub(crate) struct SessionBroker {
    values: Arc<dyn Values>,
    log: AuditLog,
    agent: Agent,
    leases: Mutex<HashMap<(SecretPath, Authority), Lease>>,
}

/// A released value and when its permit ends.
struct Lease {
    released: Arc<Released>,
    until: Timestamp,
}

impl SessionBroker {
    pub(crate) fn new(values: Arc<dyn Values>, log: AuditLog, agent: Agent) -> Self {
        Self { values, log, agent, leases: Mutex::new(HashMap::new()) }
    }

    /// Records that the session begins or ends, durably.
    pub(crate) async fn record_life(
        &self,
        action: Action,
        secrets: Vec<SecretPath>,
    ) -> Result<(), Error> {
        let target = if secrets.is_empty() { Target::Session } else { Target::Secrets(secrets) };
        let correlation_id = format!("req-{}", Uuid::now_v7());
        let draft = self.draft(action, Outcome::Success, target, correlation_id);
        self.log.append(draft).await.map(drop)
    }

    async fn release_one(
        &self,
        request: &RequestInfo,
        allowed: Allowed,
    ) -> Result<Arc<Released>, Error> {
        let path = allowed.path().clone();
        let value = self.values.open(&path).await?;
        let mut draft = self.use_of(request, vec![path.clone()]);
        draft.allowed = Some(allowed);
        let recorded = self.log.append(draft).await?;
        let until = Timestamp::now() + PERMIT_LIFE;
        let permit = Permit::from_recorded(recorded, until).ok_or(Code::Internal)?;
        let released = Arc::new(Released::new(value, permit));
        let lease = Lease { released: Arc::clone(&released), until };
        self.leases.lock().insert((path, request.authority.clone()), lease);
        Ok(released)
    }

    /// The value released earlier, if its permit still has some time.
    fn lease(&self, path: &SecretPath, authority: &Authority) -> Option<Arc<Released>> {
        let margin = Timestamp::now() + Duration::from_secs(1);
        let leases = self.leases.lock();
        let lease = leases.get(&(path.clone(), authority.clone()))?;
        (margin < lease.until).then(|| Arc::clone(&lease.released))
    }

    fn use_of(&self, request: &RequestInfo, secrets: Vec<SecretPath>) -> Draft {
        let target = Target::Authority(request.authority.clone());
        let correlation_id = request.correlation_id.clone();
        let mut draft = self.draft(Action::Egress, Outcome::Success, target, correlation_id);
        draft.detail = Detail {
            method: Some(request.method.clone()),
            path: Some(request.path.clone()),
            locations: request.locations.clone(),
            swaps: Some(secrets.len() as u64),
            kind: Some("forwarded".to_owned()),
            ..Detail::default()
        };
        draft.secrets_used = secrets;
        draft
    }

    fn draft(
        &self,
        action: Action,
        outcome: Outcome,
        target: Target,
        correlation_id: String,
    ) -> Draft {
        Draft {
            entry_id: Uuid::now_v7().to_string(),
            at: Timestamp::now(),
            agent: self.agent.clone(),
            action,
            target,
            outcome,
            secrets_used: Vec::new(),
            correlation_id,
            error_code: None,
            detail: Detail::default(),
            allowed: None,
        }
    }
}

impl Broker for SessionBroker {
    fn release<'a>(
        &'a self,
        request: &'a RequestInfo,
        uses: Vec<Allowed>,
    ) -> BoxFuture<'a, Result<Vec<Arc<Released>>, Error>> {
        Box::pin(async move {
            let mut all = Vec::with_capacity(uses.len());
            let mut again = Vec::new();
            for allowed in uses {
                match self.lease(allowed.path(), &request.authority) {
                    Some(released) => {
                        again.push(allowed.path().clone());
                        all.push(released);
                    }
                    None => all.push(self.release_one(request, allowed).await?),
                }
            }
            if !again.is_empty() {
                self.log.append_soon(self.use_of(request, again))?;
            }
            Ok(all)
        })
    }

    fn record(&self, event: Event) -> Result<(), Error> {
        let target = match event.authority {
            Some(authority) => Target::Authority(authority),
            None => Target::Connection,
        };
        let mut draft = self.draft(event.action, event.outcome, target, event.correlation_id);
        let (method, path) = event.request.unzip();
        let note = Some(event.note.as_str().to_owned()).filter(|note| !note.is_empty());
        let kind = (event.outcome == Outcome::Success).then(|| "tunnel".to_owned());
        draft.secrets_used = event.secrets;
        draft.error_code = event.code;
        draft.detail = Detail { method, path, note, kind, ..Detail::default() };
        self.log.append_soon(draft)
    }
}
