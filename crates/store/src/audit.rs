//! The audit log: one writer that commits in groups, and readers.
//!
//! ```text
//! append ──┐                     ┌─ one transaction: BEGIN IMMEDIATE, read the head, give every
//! append ──┼─► queue ─► writer ──┤  draft its place, insert, move the head, seal it, COMMIT
//! soon ────┘                     └─► Recorded to each that waits
//! ```
//!
//! A place in the chain is taken inside the transaction, so several processes may write one log.
//! The head row repeats the last entry: a log that is cut shows. Whoever cuts the log can also set the head
//! back; so where the vault is open, the writer lets a [`HeadSealer`] vouch for the head with a key,
//! and nothing up to the last sealed head can go. Entries that were written after it while the vault
//! was locked are guarded by the chain and the bare head alone, and putting back a whole older file
//! is not noticed; SECURITY.md says so. Source: reference/nl.md, section 5.

mod head;
mod read;
mod verify;
mod writer;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use keyless_core::{
    Code, Error,
    audit::{Draft, Recorded},
};
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::head::seal_head;
use self::writer::{Message, Waiting, Writer};
pub use self::{
    read::AuditQuery,
    verify::{LogError, VerifiedLog},
};
use crate::store::Store;

/// Entries that may wait for the writer; beyond that callers wait or are told.
const QUEUE: usize = 8192;

/// Vouches for the end of the log with a key that the store does not have.
pub trait HeadSealer: Send + Sync {
    /// The seal of a log that ends with entry `sequence`, whose whole hash is `entry_hash`.
    fn seal(&self, sequence: u64, entry_hash: &str) -> Vec<u8>;
}

/// The way into the log. Cheap to clone; the writer ends when the last one is gone.
#[derive(Clone)]
pub struct AuditLog {
    queue: mpsc::Sender<Message>,
    failing: Arc<AtomicBool>,
}

impl AuditLog {
    /// Starts the writer on the current tokio runtime. `sealer` is there when the vault is open.
    pub fn start(store: &Store, sealer: Option<Arc<dyn HeadSealer>>) -> Self {
        let (queue, inbox) = mpsc::channel(QUEUE);
        let failing = Arc::new(AtomicBool::new(false));
        tokio::spawn(Writer::new(store.clone(), sealer, inbox, failing.clone()).run());
        Self { queue, failing }
    }

    /// Writes one entry; done when it is on disk. Fails with [`Code::AuditUnavailable`], and then
    /// the entry is not in the log and what it would have allowed must not happen.
    pub async fn append(&self, draft: Draft) -> Result<Recorded, Error> {
        let (reply, answer) = oneshot::channel();
        let message = Message::Write(Waiting::for_answer(draft, reply));
        self.queue.send(message).await.map_err(|_| unavailable())?;
        answer.await.map_err(|_| unavailable())?
    }

    /// Leaves one entry to be written within about 20 ms. What was taken is kept and tried again until it
    /// is written; nothing is taken while the log can't be written or the queue is full.
    pub fn append_soon(&self, draft: Draft) -> Result<(), Error> {
        if self.failing.load(Ordering::Acquire) {
            return Err(unavailable());
        }
        let message = Message::Write(Waiting::for_nobody(draft));
        self.queue.try_send(message).map_err(|_| unavailable())
    }

    /// Done when everything that was taken before is on disk.
    pub async fn flush(&self) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Message::Flush(reply)).await.map_err(|_| unavailable())?;
        answer.await.map_err(|_| unavailable())?
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").field("failing", &self.failing).finish_non_exhaustive()
    }
}

fn unavailable() -> Error {
    Code::AuditUnavailable.into()
}
