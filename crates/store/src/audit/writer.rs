//! The log's one writer: takes what waits, and commits it as one group.
//!
//! While one group is being synced the next one gathers, so the cost of a sync is shared by all
//! that arrived meanwhile. When a group fails, those who wait are told and their entries dropped, as
//! what they would have allowed did not happen; the others are kept, in order, and tried again.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use jiff::Timestamp;
use keyless_core::{
    Code, Error, SafeText,
    audit::{Action, Agent, Draft, Durable, LogKeyId, Outcome, Outline, Pending, Target},
};
use parking_lot::Mutex;
use uuid::Uuid;

use super::{
    HeadSealer,
    head::{self, End, Known},
    ids::Ids,
    queue::{Group, Queue, Waiting},
    sha256,
};
use crate::{
    engine::{Connection, Lock, Pool, Transaction, query},
    store::{IO_FAILS, LOG_TAMPERED, OwnChain, READ_ONLY, Store, StoreError},
};

/// How long after a failure the kept entries are tried again.
const RETRY: Duration = Duration::from_millis(250);
/// Rows per INSERT, largest first: few distinct statements, all of them stay prepared.
const ROWS: [usize; 5] = [256, 64, 16, 4, 1];

/// Entries that follow each other: the first one's number is enough. SQLite looks each parameter up by its name, among all of
/// them.
static INSERTS: LazyLock<[String; ROWS.len()]> = LazyLock::new(|| {
    ROWS.map(|rows| {
        let values: Vec<_> = (0..rows)
            .map(|row| format!("($1, CAST($2 AS BIGINT) + {row}, ${})", row + 3))
            .collect();
        format!("INSERT INTO audit (chain, sequence, entry) VALUES {}", values.join(", "))
    })
});

pub(super) struct Writer {
    pool: Pool,
    chain: Arc<OwnChain>,
    sealer: Option<Arc<dyn HeadSealer>>,
    queue: Arc<Queue>,
    ids: Arc<Ids>,
    /// The last group was not written, and that is on its way to the log.
    is_interrupted: bool,
    known: Arc<LastKnown>,
}

/// Where the last entries that this process committed end; the next have to come behind them.
#[derive(Default)]
pub(super) struct LastKnown(Mutex<Ends>);

#[derive(Default)]
struct Ends {
    /// Turns that were had to write behind the chain's end.
    turns: u64,
    last: Option<NewEnd>,
}

/// Where entries end once their transaction is committed.
#[derive(Clone, Debug)]
pub(crate) struct NewEnd {
    known: Known,
    /// Greater than those of all that were written before.
    turn: u64,
}

/// Why a group was not written, and the group.
pub(super) struct Failed(pub(super) StoreError, Vec<Outline>);

impl Writer {
    pub(super) fn new(
        store: &Store,
        sealer: Option<Arc<dyn HeadSealer>>,
        (queue, ids, known): (Arc<Queue>, Arc<Ids>, Arc<LastKnown>),
    ) -> Self {
        let (pool, chain) = (store.pool.clone(), Arc::clone(&store.chain));
        Self { pool, chain, sealer, queue, ids, is_interrupted: false, known }
    }

    /// Runs until every [`AuditLog`](super::AuditLog) is gone and what they left is written.
    pub(super) async fn run(mut self) {
        self.pool = self.pool.apart();
        while let Some(Group { waiting, flushes }) = self.queue.next().await {
            let answer = if waiting.is_empty() { Ok(()) } else { self.write(waiting).await };
            for flush in flushes {
                // The asker may have gone, which is no harm.
                let _ = flush.send(answer.clone());
            }
        }
    }

    /// Writes the group and answers; what has to be tried again goes back to the queue.
    async fn write(&mut self, group: Vec<Waiting>) -> Result<(), Error> {
        let (outlines, replies): (Vec<_>, Vec<_>) =
            group.into_iter().map(|Waiting { outline, reply }| (outline, reply)).unzip();
        match self.commit(outlines).await {
            Ok(entries) => {
                // Before anybody is told.
                self.queue.settle(Vec::new(), None, RETRY);
                self.is_interrupted = false;
                let durable = Durable::after_commit();
                for (entry, reply) in entries.into_iter().zip(replies) {
                    if let Some(reply) = reply {
                        let _ = reply.send(Ok(entry.recorded(&durable)));
                    }
                }
                Ok(())
            }
            Err(Failed(error, outlines)) => {
                // What was tampered with shows by itself, and nothing comes behind it.
                let is_told = self.is_interrupted || matches!(error, StoreError::LogTampered);
                let error = told(&error);
                let (kept, waited): (Vec<_>, Vec<_>) =
                    outlines.into_iter().zip(replies).partition(|(_, reply)| reply.is_none());
                let again = kept.into_iter().map(|(outline, reply)| Waiting { outline, reply });
                let mut again: Vec<Waiting> = again.collect();
                if !is_told {
                    let outline = self.ids.outline(interruption());
                    again.push(Waiting { outline, reply: None });
                    self.is_interrupted = true;
                }
                self.queue.settle(again, Some(&error), RETRY);
                for reply in waited.into_iter().filter_map(|(_, reply)| reply) {
                    let _ = reply.send(Err(error.clone()));
                }
                Err(error)
            }
        }
    }

    async fn commit(&mut self, outlines: Vec<Outline>) -> Result<Vec<Pending>, Failed> {
        let mut transaction =
            match Transaction::write(&self.pool, Lock::Chain(self.chain.name())).await {
                Ok(transaction) => transaction,
                Err(error) => return Err(Failed(error, outlines)),
            };
        let sealer = self.sealer.as_deref();
        let connection = transaction.connection();
        let (entries, end) = place(connection, &self.chain, sealer, &self.known, outlines).await?;
        match transaction.commit().await {
            Ok(()) => {
                self.known.note(end);
                // Should it fail, the next start of a process here begins another chain.
                let _ = self.chain.begin();
                Ok(entries)
            }
            Err(error) => Err(Failed::withdrawn(error, entries)),
        }
    }
}

impl LastKnown {
    /// A turn for the writer that has the chain's lock, and the end that its entries have to come behind.
    fn turn(&self) -> (u64, Option<Known>) {
        let mut ends = self.0.lock();
        ends.turns += 1;
        (ends.turns, ends.last.as_ref().map(|last| last.known.clone()))
    }

    /// Takes note of an end that is committed. Who had a turn before may come here after: the last one's end stays.
    pub(super) fn note(&self, end: NewEnd) {
        let mut ends = self.0.lock();
        if ends.last.as_ref().is_none_or(|last| last.turn < end.turn) {
            ends.last = Some(end);
        }
    }
}

impl Failed {
    fn withdrawn(error: StoreError, entries: Vec<Pending>) -> Self {
        Self(error, entries.into_iter().map(Pending::withdrawn).collect())
    }
}

/// Gives each outline its place behind the end of the chain, whose lock the transaction has, and inserts them. Gives
/// what is known of the end once all that is committed.
pub(super) async fn place(
    connection: &mut Connection,
    chain: &OwnChain,
    sealer: Option<&dyn HeadSealer>,
    known: &LastKnown,
    outlines: Vec<Outline>,
) -> Result<(Vec<Pending>, NewEnd), Failed> {
    let (turn, known) = known.turn();
    let end = head::read(&mut *connection, chain, sealer, known.as_ref()).await;
    let End { chain: mut links, accepted, key } = match end {
        Ok(end) => end,
        Err(error) => return Err(Failed(error, outlines)),
    };
    let place = |outline| match &key {
        None => links.append(outline, sha256, None),
        Some(key) => key.place(&mut links, outline),
    };
    let mut entries: Vec<Pending> = outlines.into_iter().map(place).collect();
    let vouched = sealer.zip(key.map(|key| key.id));
    match insert(connection, chain, &mut entries, vouched).await {
        Ok(()) => Ok((entries, NewEnd { known: Known { end: links, accepted }, turn })),
        Err(error) => Err(Failed::withdrawn(error, entries)),
    }
}

async fn insert(
    connection: &mut Connection,
    chain: &OwnChain,
    entries: &mut [Pending],
    vouched: Option<(&dyn HeadSealer, LogKeyId)>,
) -> Result<(), StoreError> {
    let Some(last) = entries.last() else { return Ok(()) };
    head::advance(&mut *connection, chain, last, vouched).await?;
    insert_rows(connection, chain.name(), entries).await
}

/// Puts entries into the table that follow each other in the chain, and have their places.
pub(super) async fn insert_rows(
    connection: &mut Connection,
    chain: &str,
    mut rows: &mut [Pending],
) -> Result<(), StoreError> {
    for (size, sql) in ROWS.into_iter().zip(INSERTS.iter()) {
        while rows.len() >= size {
            let (now, later) = rows.split_at_mut(size);
            let mut insert = query(sql.as_str()).bind(chain).bind(head::stored(now[0].sequence()));
            for entry in now {
                insert = insert.bind(entry.take_text());
            }
            insert.execute(&mut *connection).await?;
            rows = later;
        }
    }
    Ok(())
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// That the log could not be written, in the log's words.
fn interruption() -> Draft {
    let broker = Agent {
        uri: format!("nl://keyless.dev/broker/{}", env!("CARGO_PKG_VERSION")),
        organization_id: "local".to_owned(),
        session_id: "broker".to_owned(),
        delegated_by: "system:keyless".to_owned(),
    };
    let id = format!("req-{}", Uuid::now_v7());
    let (action, now) = (Action::LogInterruption, Timestamp::now());
    Draft::new(now, Arc::new(broker), action, Outcome::Error, Target::Log, id)
}

/// Why an entry was not written.
pub(crate) fn told(error: &StoreError) -> Error {
    let words = match error {
        StoreError::DiskFull(_) => "the disk is full",
        StoreError::Busy(_) => "another process keeps the store locked",
        StoreError::LogTampered => LOG_TAMPERED,
        StoreError::NotBegun => "this machine's log begins when the vault is unlocked here",
        StoreError::Unreachable(_) => {
            "the database server can't be reached; Keyless connects again by itself"
        }
        StoreError::Refused(_) => "the database server refuses it; see [store] in config.toml",
        StoreError::Untrusted(_) => {
            "the database server's certificate is not trusted; see [store] roots in config.toml"
        }
        StoreError::Io(_) => IO_FAILS,
        StoreError::ReadOnly(_) => READ_ONLY,
        StoreError::DamagedRow { .. } => "the log's head is damaged; run keyless audit verify",
        _ => "the store can't be written",
    };
    Error::with(Code::AuditUnavailable, SafeText::words(words))
}

#[cfg(test)]
mod tests {
    use keyless_core::audit::Chain;

    use super::*;

    /// One commits, the next commits and says so first.
    #[test]
    fn the_end_that_was_written_last_stays_known() {
        let ends = LastKnown::default();
        let end = |turn, entry| {
            let known = Known { end: Chain::genesis(), accepted: Some((entry, String::new())) };
            NewEnd { known, turn }
        };
        let ((first, none), (second, _)) = (ends.turn(), ends.turn());
        assert_eq!(none, None);
        let last = end(second, 11);
        ends.note(last.clone());
        ends.note(end(first, 10));
        let (third, known) = ends.turn();
        assert_eq!(known, Some(last.known));
        // Where a break was accepted an end may lie before one that was known.
        ends.note(end(third, 9));
        assert_eq!(ends.turn().1, Some(end(third, 9).known));
    }
}
