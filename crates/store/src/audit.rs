//! The audit log: one writer that commits in groups, and readers.
//!
//! ```text
//! append ──┐                     ┌─ one transaction: BEGIN IMMEDIATE, read the head, give every
//! append ──┼─► queue ─► writer ──┤  outline its place, insert, move the head, seal it, COMMIT
//! soon ────┘                     └─► Recorded to each that waits
//! ```
//!
//! Each caller writes its own entry down; the writer has a thread to itself, since hashing a group
//! takes a millisecond that no request shall wait for.
//!
//! An entry of a change to the vault is written in the change's own transaction: both are on disk, or neither.
//! A place in the chain is taken inside the transaction, so several processes may write one log. On a server each home
//! has a chain of its own (`store/chain.rs`).
//! The head row repeats the last entry: a log that is cut shows. Whoever cuts the log can also set the head
//! back; so where the vault is open, the writer lets a [`HeadSealer`] vouch for the head with a key,
//! and nothing up to the last sealed head can go: what does not continue it is not written on, so that no cut is sealed
//! again (`head.rs`). Entries that were written after it while the vault
//! was locked are guarded by the chain and the bare head alone, and putting back a whole older file
//! is not noticed; SECURITY.md says so. With the vault open each entry has, beside the hashes, HMACs of its own
//! (`keys.rs`), which tell the entries that are genuine in a log that is not. Source: reference/nl.md, section 5.

mod breaks;
mod head;
mod ids;
mod keys;
mod queue;
mod read;
mod segments;
mod told;
mod uses;
mod verify;
mod writer;

use std::{fmt, sync::Arc, thread, time::Duration};

use aws_lc_rs::digest::{self, SHA256};
use keyless_core::{
    Code, Error,
    audit::{Draft, LogKeyId, Recorded},
};
use tokio::{runtime, sync::oneshot};
use zeroize::Zeroizing;

pub use self::{
    breaks::{AcceptedBreak, MissedEnd},
    read::AuditQuery,
    told::Told,
    uses::LatestUse,
    verify::{Fit, LogError, TamperedAt, VerifiedChain},
};
pub(crate) use self::{
    head::seal_head,
    writer::{NewEnd, told as told_unwritten},
};
use self::{
    ids::Ids,
    queue::{Queue, Waiting},
    writer::{LastKnown, Writer},
};
use crate::{
    engine::Connection,
    store::{OwnChain, Store, StoreError},
};

/// Vouches for the log with a key that the store does not have.
pub trait HeadSealer: Send + Sync {
    /// The seal of a chain that ends with entry `sequence`, whose whole hash is `entry_hash`. The only chain of a file
    /// has an empty name.
    fn seal(&self, chain: &str, sequence: u64, entry_hash: &str) -> Vec<u8>;

    /// The seal of a closed part of the log, by its [`Segment::text`](keyless_core::audit::Segment::text).
    fn seal_segment(&self, text: &str) -> Vec<u8>;

    /// The seal of what is known of a key that vouches for entries.
    fn seal_key(&self, text: &str) -> Vec<u8>;

    /// Such a key.
    fn entry_key(&self, key: LogKeyId) -> Zeroizing<[u8; 32]>;
}

/// How soon a process that ends tries again to write.
const AGAIN: Duration = Duration::from_millis(100);

/// The way into the log. Cheap to clone; the writer ends when the last one is gone.
#[derive(Clone)]
pub struct AuditLog(Arc<Entrance>);

/// What all clones share; its end is the writer's.
struct Entrance {
    queue: Arc<Queue>,
    ids: Arc<Ids>,
    known: Arc<LastKnown>,
    sealer: Option<Arc<dyn HeadSealer>>,
}

impl AuditLog {
    /// Starts the writer on a thread of its own. `sealer` is there when the vault is open.
    pub fn start(store: &Store, sealer: Option<Arc<dyn HeadSealer>>) -> Self {
        let (queue, ids) = (Arc::new(Queue::new()), Arc::new(Ids::of(store)));
        let known = Arc::<LastKnown>::default();
        let shared = (Arc::clone(&queue), Arc::clone(&ids), Arc::clone(&known));
        let writer = Writer::new(store, sealer.clone(), shared);
        // Where there are no threads or timers to be had, the writer is dropped here, which closes
        // the queue: nothing can be logged, so nothing will be allowed.
        if let Ok(runtime) = runtime::Builder::new_current_thread().enable_all().build() {
            let thread = thread::Builder::new().name("audit-writer".to_owned());
            let _ = thread.spawn(move || runtime.block_on(writer.run()));
        }
        Self(Arc::new(Entrance { queue, ids, known, sealer }))
    }

    /// Says which run of a broker does the actions that entries are about: the first to say so counts.
    pub fn of_broker(&self, name: &str) {
        self.0.ids.of_broker(name);
    }

    /// Writes one entry; done when it is on disk. Fails with [`Code::AuditUnavailable`], and then
    /// the entry is not in the log and what it would have allowed must not happen. That it was so is an entry once there
    /// can be one; until then [`AuditLog::check`] fails.
    pub async fn append(&self, draft: Draft) -> Result<Recorded, Error> {
        let (reply, answer) = oneshot::channel();
        let outline = self.0.ids.outline(draft);
        self.0.queue.push(Waiting { outline, reply: Some(reply) })?;
        answer.await.map_err(|_| unavailable())?
    }

    /// Leaves one entry to be written within about 20 ms. What was taken is kept and tried again until it
    /// is written; nothing is taken while the log can't be written or the queue is full.
    pub fn append_soon(&self, draft: Draft) -> Result<(), Error> {
        self.0.queue.push_soon(self.0.ids.outline(draft))
    }

    /// Leaves an entry about what is over already, which is taken though the log can't be written just now, and tried until
    /// it is. Whoever goes on owing such must begin nothing new while [`AuditLog::check`] fails.
    pub fn owe(&self, draft: Draft) {
        self.0.queue.push_owed(self.0.ids.outline(draft));
    }

    /// Whether an entry would be taken now.
    pub fn check(&self) -> Result<(), Error> {
        self.0.queue.check()
    }

    /// Done when everything that was taken before is on disk.
    pub async fn flush(&self) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        self.0.queue.flush(reply)?;
        answer.await.map_err(|_| unavailable())?
    }

    /// As `flush`, for a process that is about to end: a failed write is tried again until `patience` is over. A try that
    /// is then under way, held up by another process, is not waited for.
    pub async fn flush_within(&self, patience: Duration) -> Result<(), Error> {
        let mut last = unavailable();
        let tries = async {
            while let Err(error) = self.flush().await {
                last = error;
                tokio::time::sleep(AGAIN).await;
            }
        };
        let written = tokio::time::timeout(patience, tries).await;
        written.map_err(|_| last)
    }

    /// Writes entries in a transaction that has the lock of our chain, with what they tell of. Once that is committed,
    /// [`Self::know`] has to be told.
    pub(crate) async fn write_in(
        &self,
        connection: &mut Connection,
        chain: &OwnChain,
        drafts: Vec<Draft>,
    ) -> Result<NewEnd, StoreError> {
        let outlines = drafts.into_iter().map(|draft| self.0.ids.outline(draft)).collect();
        let sealer = self.0.sealer.as_deref();
        let placed = writer::place(connection, chain, sealer, &self.0.known, outlines).await;
        placed.map(|(_, end)| end).map_err(|failed| StoreError::Unrecorded(Box::new(failed.0)))
    }

    /// Takes note of where entries end that were written in a transaction, which is committed now.
    pub(crate) fn know(&self, end: NewEnd) {
        self.0.known.note(end);
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        self.queue.leave();
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").finish_non_exhaustive()
    }
}

/// The library that TLS has, whose assembly is twice as fast as portable code where the processor
/// has no instructions for it.
fn sha256(pieces: &[&[u8]]) -> [u8; 32] {
    let digest = match pieces {
        [whole] => digest::digest(&SHA256, whole),
        pieces => {
            let mut context = digest::Context::new(&SHA256);
            for piece in pieces {
                context.update(piece);
            }
            context.finish()
        }
    };
    digest.as_ref().try_into().expect("SHA-256 gives 32 bytes")
}

fn unavailable() -> Error {
    Code::AuditUnavailable.into()
}
