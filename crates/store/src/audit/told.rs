//! What the log is told of a change, in the change's own transaction.

use keyless_core::audit::Draft;

use super::AuditLog;
use crate::{
    engine::Query,
    store::{Store, StoreError},
};

/// Entries that are written with a change, or the change is not made.
pub struct Told<'a>(Option<(&'a AuditLog, Vec<Draft>)>);

impl<'a> Told<'a> {
    /// What is told to `log` as the entries of `drafts`.
    pub fn in_log(log: &'a AuditLog, drafts: Vec<Draft>) -> Self {
        Self(Some((log, drafts)))
    }

    /// Nothing: for what is no change of anybody's rights.
    pub fn nothing() -> Self {
        Self(None)
    }

    /// Has what was taken before written before: entries are in the order in which things happened.
    pub(crate) async fn settle(&self) {
        if let Some((log, _)) = &self.0 {
            // A log that can't be written shows when these entries are.
            let _ = log.flush().await;
        }
    }

    pub(crate) fn into_entries(self) -> Option<(&'a AuditLog, Vec<Draft>)> {
        self.0
    }
}

impl Store {
    /// Runs a statement that changes one row, and writes what is told of it; gives `false` when it changed none, and then
    /// nothing is told. On disk when this returns.
    pub(crate) async fn run_told(
        &self,
        statement: Query,
        told: Told<'_>,
    ) -> Result<bool, StoreError> {
        told.settle().await;
        let Some((log, drafts)) = told.into_entries() else {
            return Ok(statement.execute(&self.pool).await? == 1);
        };
        let mut writing = self.write().await?;
        if writing.run(statement).await? != 1 {
            return Ok(false);
        }
        writing.record(log, drafts).await?;
        writing.commit().await?;
        Ok(true)
    }
}
