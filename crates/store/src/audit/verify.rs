//! Verifies the whole log, and that it ends where it ended.
//!
//! The database reads a block of rows while others hash the blocks before it, and the blocks
//! are joined in their order; so all cores work and memory stays flat.

use std::{num::NonZero, thread::available_parallelism};

use futures_util::{TryStreamExt as _, stream::try_unfold};
use keyless_core::{
    Code, Error, SafeText,
    audit::{Chain, Entry, Stretch, Tampered, Verifier},
};
use tokio::task::spawn_blocking;

use super::{HeadSealer, sha256};
use crate::{
    engine::{Connection, Row, Transaction, query},
    store::{Store, StoreError},
};

/// Rows that are handed over at once.
const BLOCK: u32 = 512;
/// One text of many rows: a row by itself costs more on its way here than its hashes do.
const BLOCKS: &str = "SELECT max(sequence), string_agg(sequence || ' ' || entry, '\n') \
    FROM (SELECT sequence, entry FROM audit WHERE sequence > $1 ORDER BY sequence LIMIT $2)";

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
}

struct Head {
    text: Option<String>,
    end: Chain,
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
        let mut view = Transaction::view(&self.pool).await?;
        let head = read_head(view.connection()).await?;
        let vouched = sealer.map_or(Ok(0), |sealer| check_seal(&head, sealer))?;
        let entries = verify_entries(view.connection(), &head).await?;
        let last = query("SELECT entry FROM audit ORDER BY sequence DESC LIMIT 1")
            .fetch_optional(view.connection())
            .await?;
        let last: Option<String> = last.map(|row| row.try_get(0)).transpose()?;
        view.commit().await?;
        if last == head.text {
            Ok(VerifiedLog { entries, sealed: vouched })
        } else {
            Err(LogError::Head)
        }
    }
}

async fn read_head(connection: &mut Connection) -> Result<Head, LogError> {
    let row = query("SELECT last, sealed_sequence, sealed_hash, seal FROM audit_head WHERE id = 1")
        .fetch_optional(connection)
        .await?
        .ok_or(LogError::Head)?;
    Ok(head(&row)?)
}

fn head(row: &Row) -> Result<Head, StoreError> {
    let damaged = || StoreError::DamagedRow { table: "audit_head" };
    let text: Option<String> = row.try_get(0)?;
    let last: Option<Entry> =
        text.as_deref().map(serde_json::from_str).transpose().map_err(|_| damaged())?;
    let end = last.as_ref().map_or_else(Chain::genesis, Chain::after);
    let sequence: Option<i64> = row.try_get(1)?;
    let sequence = sequence.map(u64::try_from).transpose().map_err(|_| damaged())?;
    let seal = match (sequence, row.try_get(2)?, row.try_get(3)?) {
        (Some(sequence), Some(hash), Some(mac)) => Some(HeadSeal { sequence, hash, mac }),
        _ => None,
    };
    Ok(Head { text, end, seal })
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

/// Gives the number of entries, all of which are whole and in their places.
async fn verify_entries(view: &mut Connection, head: &Head) -> Result<u64, LogError> {
    let marked = head.seal.as_ref().map(|seal| seal.sequence);
    let cores = available_parallelism().map_or(1, NonZero::get);
    let blocks = try_unfold((view, 0), |(view, after)| async move {
        let block = read_block(view, after).await?;
        Ok::<_, LogError>(block.map(|(last, text)| (text, (view, last))))
    });
    let stretches = blocks
        .map_ok(|text| async move {
            let checked = spawn_blocking(move || verify_block(&text, marked)).await;
            Ok(checked.expect("verifying does not panic")?)
        })
        .try_buffered(cores);
    let mut verifier = Verifier::new();
    let mut stretches = std::pin::pin!(stretches);
    while let Some(stretch) = stretches.try_next().await? {
        let Some(stretch) = stretch else { continue };
        verifier.join(&stretch)?;
        if let (Some(seal), Some(hash)) = (&head.seal, stretch.marked())
            && seal.hash != hash
        {
            return Err(Tampered::Changed { sequence: seal.sequence }.into());
        }
    }
    let entries = verifier.finish(&head.end)?;
    match marked {
        Some(expected) if expected > entries => {
            Err(Tampered::Truncated { found: entries, expected }.into())
        }
        _ => Ok(entries),
    }
}

/// The rows after the one of this number, each as its number and its entry on a line; and the
/// number of the last.
async fn read_block(view: &mut Connection, after: i64) -> Result<Option<(i64, String)>, LogError> {
    let block = query(BLOCKS).bind(after).bind(BLOCK).fetch_one(view).await?;
    let (last, text): (Option<i64>, Option<String>) = (block.try_get(0)?, block.try_get(1)?);
    Ok(last.zip(text))
}

fn verify_block(text: &str, marked: Option<u64>) -> Result<Option<Stretch>, Tampered> {
    // JSON has no line feeds of its own; one that was put in makes a line without a number.
    let row = |line| {
        let (number, entry) = str::split_once(line, ' ')?;
        Some((number.parse().ok()?, entry))
    };
    Stretch::verify(text.split('\n').map(|line| row(line).unwrap_or((0, line))), marked, sha256)
}

impl From<LogError> for Error {
    fn from(error: LogError) -> Self {
        let words = match error {
            LogError::Head => SafeText::words("the audit log's last entry was replaced"),
            LogError::Seal => SafeText::words("the seal of the audit log's end is not the vault's"),
            LogError::Store(error) => return error.into(),
            LogError::Tampered(found) => tampered_words(&found),
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
        Tampered::Unreadable { sequence } => {
            SafeText::words("the audit log can't be read at entry ").number(*sequence)
        }
    }
}
