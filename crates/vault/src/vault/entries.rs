//! What a change is put on record as: its entries are written with it, or neither is.

use keyless_core::{Error, audit::Draft};
use keyless_store::{AuditLog, Writing};

/// The entries of one change, made of what it came to.
pub struct Entries<'a, T>(Option<Told<'a, T>>);

struct Told<'a, T> {
    log: &'a AuditLog,
    drafts: Box<Drafts<'a, T>>,
}

type Drafts<'a, T> = dyn FnOnce(&T) -> Vec<Draft> + Send + 'a;

impl<'a, T> Entries<'a, T> {
    /// `drafts` is asked once it is certain what the change comes to, before it is done.
    pub fn in_log(log: &'a AuditLog, drafts: impl FnOnce(&T) -> Vec<Draft> + Send + 'a) -> Self {
        Self(Some(Told { log, drafts: Box::new(drafts) }))
    }

    /// None: for what is no change of the operator's, such as a test's.
    pub fn untold() -> Self {
        Self(None)
    }

    /// The log that they are for.
    pub(super) fn log(&self) -> Option<AuditLog> {
        self.0.as_ref().map(|told| told.log.clone())
    }

    pub(super) async fn write(self, writing: &mut Writing, answer: &T) -> Result<(), Error> {
        let Some(Told { log, drafts }) = self.0 else { return Ok(()) };
        Ok(writing.record(log, drafts(answer)).await?)
    }
}

/// Has what the log took before written before: entries are in the order in which things happened.
pub(super) async fn settle(log: Option<AuditLog>) -> Result<(), Error> {
    match log {
        Some(log) => log.flush().await,
        None => Ok(()),
    }
}
