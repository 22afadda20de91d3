//! Verifies the whole log, and that it ends where it ended.
//!
//! Rows are read by SQLite's thread while another one parses and hashes them, a block at a time,
//! so memory stays flat.

use futures_util::TryStreamExt;
use keyless_core::{
    Code, Error, SafeText,
    audit::{Chain, Entry, Tampered, Verifier},
};
use sqlx::{Row, SqliteConnection, query, sqlite::SqliteRow};
use tokio::{sync::mpsc, task::spawn_blocking};

use super::HeadSealer;
use crate::store::{Store, StoreError};

/// Rows that are handed over at once.
const BLOCK: usize = 1024;

/// A log that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedLog {
    /// How many entries it has.
    pub entries: u64,
    /// Up to which of them the vault's key vouches; 0 when none, or when no key was at hand.
    pub sealed: u64,
}

/// Why a log could not be verified.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The last entry is not the one that the head names.
    #[error("the log's last entry is not the one that was written last")]
    Head,
    /// The key does not vouch for the head, or its word was taken away.
    #[error("the seal of the log's head is not the vault's")]
    Seal,
    /// The log can't be read at all.
    #[error("the log can't be read")]
    Store(#[from] StoreError),
    /// An entry was changed, removed, reordered or put in.
    #[error(transparent)]
    Tampered(#[from] Tampered),
    /// A row that is no entry.
    #[error("entry {sequence} can't be read")]
    Unreadable {
        /// The row's number.
        sequence: u64,
    },
}

struct Head {
    last: Option<Entry>,
    seal: Option<HeadSeal>,
}

struct HeadSeal {
    sequence: u64,
    hash: String,
    mac: Vec<u8>,
}

impl Store {
    /// Verifies every entry and the head; with `sealer`, also the vault's word on the head.
    pub async fn audit_verify(
        &self,
        sealer: Option<&dyn HeadSealer>,
    ) -> Result<VerifiedLog, LogError> {
        let mut view = self.pool.begin().await.map_err(StoreError::from)?;
        let head = read_head(&mut view).await?;
        let vouched = sealer.map_or(Ok(0), |sealer| check_seal(&head, sealer))?;
        let (blocks, inbox) = mpsc::channel(4);
        let checking = spawn_blocking(move || check_entries(inbox, &head));
        send_entries(&mut view, blocks).await?;
        let entries = checking.await.expect("verifying does not panic")?;
        Ok(VerifiedLog { entries, sealed: vouched })
    }
}

async fn read_head(connection: &mut SqliteConnection) -> Result<Head, LogError> {
    let row = query("SELECT last, sealed_sequence, sealed_hash, seal FROM audit_head WHERE id = 1")
        .fetch_optional(connection)
        .await
        .map_err(StoreError::from)?
        .ok_or(LogError::Head)?;
    Ok(head(&row)?)
}

fn head(row: &SqliteRow) -> Result<Head, StoreError> {
    let damaged = || StoreError::DamagedRow { table: "audit_head" };
    let last: Option<&str> = row.try_get(0)?;
    let last = last.map(serde_json::from_str).transpose().map_err(|_| damaged())?;
    let sequence: Option<i64> = row.try_get(1)?;
    let sequence = sequence.map(u64::try_from).transpose().map_err(|_| damaged())?;
    let seal = match (sequence, row.try_get(2)?, row.try_get(3)?) {
        (Some(sequence), Some(hash), Some(mac)) => Some(HeadSeal { sequence, hash, mac }),
        _ => None,
    };
    Ok(Head { last, seal })
}

/// Gives the number of the last entry that the key vouches for.
fn check_seal(head: &Head, sealer: &dyn HeadSealer) -> Result<u64, LogError> {
    // Sealed since the vault was made, so a missing seal was taken away.
    let seal = head.seal.as_ref().ok_or(LogError::Seal)?;
    if sealer.seal(seal.sequence, &seal.hash) == seal.mac {
        Ok(seal.sequence)
    } else {
        Err(LogError::Seal)
    }
}

async fn send_entries(
    view: &mut SqliteConnection,
    blocks: mpsc::Sender<Vec<(i64, String)>>,
) -> Result<(), StoreError> {
    let mut rows = query("SELECT sequence, entry FROM audit ORDER BY sequence").fetch(view);
    let mut block = Vec::with_capacity(BLOCK);
    while let Some(row) = rows.try_next().await? {
        block.push((row.try_get(0)?, row.try_get(1)?));
        if block.len() == BLOCK && blocks.send(std::mem::take(&mut block)).await.is_err() {
            // The checker has found something and gone.
            return Ok(());
        }
    }
    let _ = blocks.send(block).await;
    Ok(())
}

fn check_entries(
    mut inbox: mpsc::Receiver<Vec<(i64, String)>>,
    head: &Head,
) -> Result<u64, LogError> {
    let mut verifier = Verifier::new();
    let mut last = None;
    while let Some(block) = inbox.blocking_recv() {
        for (number, text) in block {
            let sequence = u64::try_from(number).unwrap_or(0);
            let entry: Entry =
                serde_json::from_str(&text).map_err(|_| LogError::Unreadable { sequence })?;
            if entry.sequence != sequence {
                return Err(Tampered::Changed { sequence }.into());
            }
            verifier.push(&entry)?;
            check_sealed_entry(head, &entry)?;
            last = Some(entry);
        }
    }
    let end = head.last.as_ref().map_or_else(Chain::genesis, Chain::after);
    let entries = verifier.finish(&end)?;
    if let Some(seal) = head.seal.as_ref().filter(|seal| seal.sequence > entries) {
        return Err(Tampered::Truncated { found: entries, expected: seal.sequence }.into());
    }
    if last == head.last { Ok(entries) } else { Err(LogError::Head) }
}

fn check_sealed_entry(head: &Head, entry: &Entry) -> Result<(), LogError> {
    match &head.seal {
        Some(seal) if seal.sequence == entry.sequence && seal.hash != entry.chain.entry_hash => {
            Err(Tampered::Changed { sequence: entry.sequence }.into())
        }
        _ => Ok(()),
    }
}

impl From<LogError> for Error {
    fn from(error: LogError) -> Self {
        let words = match error {
            LogError::Head => SafeText::words("the audit log's last entry was replaced"),
            LogError::Seal => SafeText::words("the seal of the audit log's end is not the vault's"),
            LogError::Store(error) => return error.into(),
            LogError::Tampered(found) => tampered_words(&found),
            LogError::Unreadable { sequence } => {
                SafeText::words("the audit log can't be read at entry ").number(sequence)
            }
        };
        Self::with(Code::StoreTampered, words)
    }
}

fn tampered_words(found: &Tampered) -> SafeText {
    match found {
        Tampered::Changed { sequence } => {
            SafeText::words("the audit log was changed at entry ").number(*sequence)
        }
        Tampered::Unlinked { sequence } => {
            SafeText::words("the audit log's chain breaks at entry ").number(*sequence)
        }
        Tampered::Gap { expected } => {
            SafeText::words("the audit log misses entry ").number(*expected)
        }
        Tampered::Truncated { found, expected } => SafeText::words("the audit log ends at entry ")
            .number(*found)
            .and(" but had ")
            .number(*expected),
    }
}
