//! Sessions whose broker was killed: they are ended by the next one, as it would have.

use std::fs;

use keyless_core::{Code, Error};

use super::{agents::sessions::Unended, service::NlService};

/// Why such a session ends.
const WHY: &str = "its broker was gone without ending it";

impl NlService {
    /// Ends the sessions of this home's brokers that live no more: on record, with what a person had allowed them.
    pub(crate) async fn end_orphans(&self) -> Result<(), Error> {
        let all = self.agents.unended().await?;
        for one in all.iter().filter(|one| self.owner.survives(&one.owner)) {
            self.end_orphan(one).await?;
        }
        self.owner.forget_others();
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
}
