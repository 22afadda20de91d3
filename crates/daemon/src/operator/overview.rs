//! What the operator sees of a store: secrets, the log, egress, sources. The page and the screen draw these answers;
//! neither asks the store itself, so that both say the same.

mod egress;
mod log;
mod secrets;
mod sources;

use std::sync::Arc;

use keyless_core::{ApproveOnUse, Error};
use keyless_store::AuditLog;
use keyless_vault::Vault;

pub use self::{
    egress::{EgressView, HOUR_BARS, Tally},
    log::{ChainState, LOG_ACTIONS, LOG_OUTCOMES, LogView, LogWanted},
    secrets::{SecretRow, SecretState, SecretsView, SecretsWanted},
    sources::SourcesView,
};
use crate::nl::grants::{Grants, ShownGrant};

/// The operator's eyes on an unlocked vault.
pub struct Overview {
    vault: Arc<Vault>,
    log: AuditLog,
    /// How often every secret is asked about at least.
    floor: ApproveOnUse,
}

impl Overview {
    /// At an unlocked vault, without a broker.
    pub fn new(vault: Arc<Vault>) -> Self {
        let log = super::audit_log(&vault);
        Self::with_log(vault, log)
    }

    pub(crate) fn with_log(vault: Arc<Vault>, log: AuditLog) -> Self {
        Self { vault, log, floor: ApproveOnUse::Never }
    }

    /// This overview, where the profile asks about every secret at least as often as `floor` says.
    #[must_use]
    pub fn asking_at_least(self, floor: ApproveOnUse) -> Self {
        Self { floor, ..self }
    }

    /// Every grant that the vault has sealed; what permits nothing any more comes last. A row that somebody wrote into
    /// the store permits nothing and is not among them.
    pub async fn grants(&self) -> Result<Vec<ShownGrant>, Error> {
        let mut all = self.grant_book().list().await?;
        all.sort_by_key(|shown| shown.state != keyless_core::grant::GrantState::Active);
        Ok(all)
    }

    /// The grants, to end one.
    pub fn grant_book(&self) -> Grants {
        Grants::new(&self.vault, self.log.clone())
    }
}
