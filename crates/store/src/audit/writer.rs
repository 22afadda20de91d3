//! The log's one writer: collects what waits, and commits it as one group.
//!
//! While one group is being synced the next one gathers, so the cost of a sync is shared by all
//! that arrived meanwhile. Entries that somebody waits for are written at once, others within
//! [`SOON`]. When a group fails, those who wait are told and their entries dropped, as what they would have
//! allowed did not happen; the others are kept, in order, and tried again.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use keyless_core::{
    Code, Error, SafeText,
    audit::{Draft, Durable, Entry, Pending, Recorded},
};
use sqlx::{SqliteConnection, query};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

use super::{HeadSealer, head};
use crate::store::{Store, StoreError, WriteTransaction};

/// How long an entry that nobody waits for may stay in memory.
const SOON: Duration = Duration::from_millis(20);
/// How long after a failure the kept entries are tried again.
const RETRY: Duration = Duration::from_millis(250);
/// The most entries of one group.
const GROUP: usize = 2048;
/// Rows per INSERT, largest first: few distinct statements, all of them stay prepared.
const ROWS: [usize; 3] = [256, 16, 1];

static INSERTS: LazyLock<[String; 3]> = LazyLock::new(|| {
    ROWS.map(|rows| {
        let values = vec!["(?, ?)"; rows].join(", ");
        format!("INSERT INTO audit (sequence, entry) VALUES {values}")
    })
});

/// What the writer is asked.
pub(super) enum Message {
    Flush(oneshot::Sender<Result<(), Error>>),
    Write(Waiting),
}

/// An entry that is not yet written.
pub(super) struct Waiting {
    draft: Box<Draft>,
    reply: Option<oneshot::Sender<Result<Recorded, Error>>>,
}

pub(super) struct Writer {
    store: Store,
    sealer: Option<Arc<dyn HeadSealer>>,
    inbox: mpsc::Receiver<Message>,
    failing: Arc<AtomicBool>,
    waiting: Vec<Waiting>,
    flushes: Vec<oneshot::Sender<Result<(), Error>>>,
    /// When the entries that nobody waits for are due.
    due: Option<Instant>,
}

impl Waiting {
    pub(super) fn for_answer(
        draft: Draft,
        reply: oneshot::Sender<Result<Recorded, Error>>,
    ) -> Self {
        Self { draft: Box::new(draft), reply: Some(reply) }
    }

    pub(super) fn for_nobody(draft: Draft) -> Self {
        Self { draft: Box::new(draft), reply: None }
    }
}

impl Writer {
    pub(super) fn new(
        store: Store,
        sealer: Option<Arc<dyn HeadSealer>>,
        inbox: mpsc::Receiver<Message>,
        failing: Arc<AtomicBool>,
    ) -> Self {
        let (waiting, flushes, due) = (Vec::new(), Vec::new(), None);
        Self { store, sealer, inbox, failing, waiting, flushes, due }
    }

    /// Runs until every [`AuditLog`](super::AuditLog) is gone and what they left is written.
    pub(super) async fn run(mut self) {
        let mut messages = Vec::with_capacity(GROUP);
        loop {
            let due = self.due.unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                count = self.inbox.recv_many(&mut messages, GROUP) => {
                    if count == 0 {
                        return self.write_group().await;
                    }
                }
                () = sleep_until(due), if self.due.is_some() => self.due = Some(Instant::now()),
            }
            self.take(&mut messages);
            if self.is_due() {
                self.write_group().await;
            }
        }
    }

    fn take(&mut self, messages: &mut Vec<Message>) {
        for message in messages.drain(..) {
            match message {
                Message::Flush(reply) => self.flushes.push(reply),
                Message::Write(waiting) => self.waiting.push(waiting),
            }
        }
        if self.due.is_none() && !self.waiting.is_empty() {
            self.due = Some(Instant::now() + SOON);
        }
    }

    fn is_due(&self) -> bool {
        !self.flushes.is_empty()
            || self.waiting.len() >= GROUP
            || self.due.is_some_and(|due| due <= Instant::now())
            || self.waiting.iter().any(|waiting| waiting.reply.is_some())
    }

    async fn write_group(&mut self) {
        self.due = None;
        let mut group = std::mem::take(&mut self.waiting);
        let answer = if group.is_empty() { Ok(()) } else { self.write(&mut group).await };
        // What is left over is what nobody waits for, after a failure.
        self.waiting = group;
        if !self.waiting.is_empty() {
            self.due = Some(Instant::now() + RETRY);
        }
        for reply in self.flushes.drain(..) {
            // The asker may have gone, which is no harm.
            let _ = reply.send(answer.clone());
        }
    }

    /// Writes the group and answers; leaves in `group` what has to be tried again.
    async fn write(&mut self, group: &mut Vec<Waiting>) -> Result<(), Error> {
        let mut drafts = Vec::with_capacity(group.len());
        let mut replies = Vec::with_capacity(group.len());
        let mut kept = Vec::new();
        for Waiting { draft, reply } in group.drain(..) {
            if reply.is_none() {
                kept.push(Waiting::for_nobody(copy(&draft)));
            }
            drafts.push(*draft);
            replies.push(reply);
        }
        let committed = self.commit(drafts).await;
        // Before anybody is told.
        self.failing.store(committed.is_err(), Ordering::Release);
        match committed {
            Ok(entries) => {
                let durable = Durable::after_commit();
                for (entry, reply) in entries.into_iter().zip(replies) {
                    if let Some(reply) = reply {
                        let _ = reply.send(Ok(entry.recorded(&durable)));
                    }
                }
                Ok(())
            }
            Err(error) => {
                let error = told(&error);
                for reply in replies.into_iter().flatten() {
                    let _ = reply.send(Err(error.clone()));
                }
                *group = kept;
                Err(error)
            }
        }
    }

    async fn commit(&self, drafts: Vec<Draft>) -> Result<Vec<Pending>, StoreError> {
        let mut transaction = WriteTransaction::begin(&self.store.pool).await?;
        let entries = self.insert(transaction.connection(), drafts).await?;
        transaction.commit().await?;
        Ok(entries)
    }

    async fn insert(
        &self,
        connection: &mut SqliteConnection,
        drafts: Vec<Draft>,
    ) -> Result<Vec<Pending>, StoreError> {
        let mut chain = head::read(connection).await?;
        let entries: Vec<Pending> = drafts.into_iter().map(|draft| chain.append(draft)).collect();
        let texts: Vec<String> = entries.iter().map(|entry| to_text(entry.entry())).collect();
        let rows: Vec<(i64, &String)> = entries.iter().map(sequence).zip(&texts).collect();
        insert_rows(connection, &rows).await?;
        if let (Some(last), Some(text)) = (entries.last(), texts.last()) {
            head::advance(connection, last.entry(), text, self.sealer.as_deref()).await?;
        }
        Ok(entries)
    }
}

async fn insert_rows(
    connection: &mut SqliteConnection,
    mut rows: &[(i64, &String)],
) -> Result<(), StoreError> {
    for (size, sql) in ROWS.into_iter().zip(INSERTS.iter()) {
        while rows.len() >= size {
            let (now, later) = rows.split_at(size);
            let mut insert = query(sql.as_str());
            for (sequence, text) in now {
                insert = insert.bind(sequence).bind(text.as_str());
            }
            insert.execute(&mut *connection).await?;
            rows = later;
        }
    }
    Ok(())
}

fn sequence(entry: &Pending) -> i64 {
    i64::try_from(entry.entry().sequence).expect("no log grows to 2^63 entries")
}

fn to_text(entry: &Entry) -> String {
    serde_json::to_string(entry).expect("an entry is plain data")
}

/// A draft once more, for another try. Nobody gets a permit out of it, so it proves nothing.
fn copy(draft: &Draft) -> Draft {
    Draft {
        entry_id: draft.entry_id.clone(),
        at: draft.at,
        agent: draft.agent.clone(),
        action: draft.action,
        target: draft.target.clone(),
        outcome: draft.outcome,
        secrets_used: draft.secrets_used.clone(),
        correlation_id: draft.correlation_id.clone(),
        error_code: draft.error_code,
        detail: draft.detail.clone(),
        allowed: None,
    }
}

fn told(error: &StoreError) -> Error {
    let words = match error {
        StoreError::DiskFull(_) => "the disk is full",
        StoreError::Busy(_) => "another process keeps the store locked",
        StoreError::DamagedRow { .. } => "the log's head is damaged; run keyless audit verify",
        _ => "the store can't be written",
    };
    Error::with(Code::AuditUnavailable, SafeText::words(words))
}
