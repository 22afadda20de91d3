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

    pub(super) async fn write(self, writing: &mut Writing, answer: &T) -> Result<(), Error> {
        let Some(Told { log, drafts }) = self.0 else { return Ok(()) };
        Ok(writing.record(log, drafts(answer)).await?)
    }
}
