//! Sessions and actions whose broker was killed: they are ended by the next one, as it would have.

use std::{collections::HashMap, fs, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use keyless_core::{
    Code, Error,
    audit::{Action, Agent, Detail, Draft, Entry, Outcome, Target},
};
use keyless_store::AuditQuery;

use super::{agents::sessions::Unended, service::NlService};
use crate::owner::Gone;

/// Why such a session ends.
const WHY: &str = "its broker was gone without ending it";
/// How an action ended of which nobody knows how it ended.
const INTERRUPTED: &str = "its broker was gone before it ended";
/// In what an entry about a value's release differs from one about an action's end.
const RELEASED: &str = "released";

impl NlService {
    /// Ends the sessions of this home's brokers that live no more: on record, with what a person had allowed them. So are
    /// their actions that had begun.
    pub(crate) async fn end_orphans(&self) -> Result<(), Error> {
        let all = self.agents.unended().await?;
        for one in all.iter().filter(|one| self.owner.survives(&one.owner)) {
            self.end_orphan(one).await?;
        }
        for gone in self.owner.gone() {
            self.close_actions(&gone).await?;
            gone.forget();
        }
        Ok(())
    }

    async fn end_orphan(&self, one: &Unended) -> Result<(), Error> {
        let instance = &one.agent().instance_id;
        self.requests.end_session(&one.session).await?;
        self.dismiss(instance, Code::SessionEnded);
        self.delegations.revoke_of_agent(&self.agents, instance).await?;
        self.revoke_below(instance).await?;
        // Last, so that what failed before is tried again.
        self.agents.end_unended(one, WHY).await?;
        for socket in ["sock", "agent.sock"] {
            let _ =
                fs::remove_file(self.places.runtime().join(format!("{}.{socket}", one.session)));
        }
        self.detection.forget_orphans().await
    }

    /// Writes down the end of each action whose values that broker had released, and that it did not bring to an end.
    async fn close_actions(&self, gone: &Gone) -> Result<(), Error> {
        // What it was at when it ended is among the last that it did.
        let of_it = AuditQuery {
            text: Some(gone.id().to_owned()),
            newest: true,
            // The log is long. A clock may have been set meanwhile, by a little.
            since: gone.begun().map(|begun| begun - SignedDuration::from_mins(1)),
            ..AuditQuery::default()
        };
        let entries = self.vault.store().audit_query(&of_it).await?;
        let of_it = |entry: &Entry| entry.detail.broker.as_deref() == Some(gone.id());
        for open in open_actions(entries.into_iter().filter(of_it)) {
            self.log.append(interrupted(open)).await?;
        }
        Ok(())
    }
}

/// The releases of those actions that have no end among these entries, of each action in one.
fn open_actions(entries: impl Iterator<Item = Entry>) -> Vec<Entry> {
    let (mut open, mut order) = (HashMap::<String, Entry>::new(), Vec::new());
    for entry in entries {
        let Some(id) = entry.detail.action_id.clone() else { continue };
        match (entry.action, entry.detail.kind.as_deref()) {
            // What was taken out of an output is told before the end.
            (Action::Incident, _) => {}
            (_, Some(RELEASED)) => {
                if let Some(first) = open.get_mut(&id) {
                    let known = &mut first.secrets_used;
                    let new = entry.secrets_used.into_iter();
                    let new: Vec<_> = new.filter(|path| !known.contains(path)).collect();
                    known.extend(new);
                } else {
                    open.insert(id.clone(), entry);
                    order.push(id);
                }
            }
            _ => drop(open.remove(&id)),
        }
    }
    order.iter().filter_map(|id| open.remove(id)).collect()
}

/// The end of an action, by the release of its values.
fn interrupted(released: Entry) -> Draft {
    let Entry { agent, action, correlation_id, delegated_by, detail, secrets_used, .. } = released;
    let delegated_by = delegated_by.unwrap_or_else(|| "system:keyless".to_owned());
    let agent = Arc::new(Agent { delegated_by, ..agent });
    let target = Target::Secrets(secrets_used.clone());
    Draft {
        secrets_used,
        error_code: Some(Code::ActionInterrupted),
        detail: Detail {
            action_id: detail.action_id,
            broker: detail.broker,
            note: Some(INTERRUPTED.to_owned()),
            ..Detail::default()
        },
        ..Draft::new(Timestamp::now(), agent, action, Outcome::Error, target, correlation_id)
    }
}
