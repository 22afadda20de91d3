//! Verifies the whole log, every chain of it, and that each ends where it ended.
//!
//! The database reads a block of rows while others hash the blocks before it, and the blocks
//! are joined in their order; so all cores work and memory stays flat.

use std::{mem, num::NonZero, sync::Arc, thread::available_parallelism};

use futures_util::{TryStreamExt as _, stream::try_unfold};
use keyless_core::{
    Code, Error, SafeText,
    audit::{
        Chain, Checkpoint, Entry, LogKeyId, LogKeys, Mismatch, Segment, Stretch, Tampered,
        Verifier, Vouching,
    },
};
use memchr::memchr_iter;
use tokio::task::spawn_blocking;

use super::{
    HeadSealer,
    head::{Head, HeadSeal},
    keys::{self, OpenKeys},
    read::parse,
    segments, sha256,
};
use crate::{
    engine::{Connection, Query, Transaction, of_a_size, query, query_owned},
    store::{Store, StoreError},
};

/// Rows that are handed over at once.
const BLOCK: u32 = 512;
/// One text of many rows: a row by itself costs more on its way here than its hashes do.
fn blocks() -> Query {
    let entry = of_a_size("entry");
    query_owned(format!(
        "SELECT max(sequence), string_agg(sequence || ' ' || entry, '\n') \
         FROM (SELECT sequence, {entry} AS entry FROM audit WHERE chain = $1 AND sequence > $2 AND sequence <= $3 \
         ORDER BY sequence LIMIT $4) AS block"
    ))
}

/// A chain of the log that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedChain {
    /// The name of its writer; empty for the only chain of a file.
    pub name: String,
    /// How many entries it has, which is the number of the last.
    pub entries: u64,
    /// How many of them were read: the last ones, without those that are not here or stand before where it began.
    pub read: u64,
    /// How many of them were removed, as the operator's retention says.
    pub removed: u64,
    /// Up to which of them the vault's key vouches; 0 when none, or when no key was at hand.
    pub sealed: u64,
    /// What the log's keys say of those that were read; nothing when no key was at hand.
    pub vouching: Vouching,
    /// The parts that are not what was written, as the operator has seen.
    pub breaks: Vec<Segment>,
}

/// Where a log is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TamperedAt {
    /// The chain's name; empty for the only chain of a file.
    pub chain: String,
    /// The entry's number, where the fault is about one.
    pub sequence: Option<u64>,
    /// In what way, `hash_mismatch` and the like (NL, chapter 5, "Verification results").
    pub kind: &'static str,
    /// The hashes that show it, where it is two that differ.
    pub hashes: Option<Mismatch>,
}

/// What a signed end is to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The entry is there as it was.
    Fits,
    /// It is in a closed part that was removed, is kept on another machine, or is known to be broken.
    NotHere,
    /// The log was cut or replaced.
    Unfit,
}

/// Why a log could not be verified.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The vault's key does not vouch for what is known of a key that vouches for entries.
    #[error("what is known of the log's key {key} is not sealed by the vault's")]
    KeySeal {
        /// Which one.
        key: LogKeyId,
    },
    /// The last entry is not the one that the head names.
    #[error("the log's last entry is not the one that was written last")]
    Head,
    /// The file of a closed part is not what was written.
    #[error("{file} was changed")]
    SegmentChanged {
        /// Its name.
        file: String,
    },
    /// The file of a closed part is gone.
    #[error("{file} is missing")]
    SegmentMissing {
        /// Its name.
        file: String,
    },
    /// The key does not vouch for what is known of a closed part.
    #[error("the seal of the part that was closed at entry {last} is not the vault's")]
    SegmentSeal {
        /// The number of its last entry.
        last: u64,
    },
    /// The key does not vouch for the head, or its word was taken away.
    #[error("the seal of the log's head is not the vault's")]
    Seal,
    /// The log can't be read at all.
    #[error("the log can't be read")]
    Store(#[from] StoreError),
    /// An entry was changed, removed, reordered or put in.
    #[error(transparent)]
    Tampered(#[from] Tampered),
    /// Which chain of several it is.
    #[error("in the chain {chain}: {fault}")]
    InChain {
        /// Its name.
        chain: String,
        /// What is wrong.
        fault: Box<LogError>,
    },
    /// This home wrote a chain that is no longer there.
    #[error("the chain of this machine, {chain}, was taken away")]
    Missing {
        /// Its name.
        chain: String,
    },
}

impl Store {
    /// Verifies every entry and every head; with `sealer`, also the vault's word on the heads. The first fault ends it.
    pub async fn audit_verify(
        &self,
        sealer: Option<&dyn HeadSealer>,
    ) -> Result<Vec<VerifiedChain>, LogError> {
        self.audit_verify_after(sealer, &[]).await
    }

    /// As [`Store::audit_verify`], but of a chain that has one of these `starts` only what comes behind it.
    pub async fn audit_verify_after(
        &self,
        sealer: Option<&dyn HeadSealer>,
        starts: &[Checkpoint],
    ) -> Result<Vec<VerifiedChain>, LogError> {
        let mut view = Transaction::view(&self.pool).await?;
        let keys = match sealer {
            None => None,
            Some(sealer) => Some(Arc::new(keys::all(view.connection(), sealer).await?)),
        };
        let heads = query(HEADS).fetch_all(view.connection()).await?;
        let mut verified = Vec::with_capacity(heads.len());
        for row in &heads {
            let head = Head::of(row)?;
            let start = starts.iter().find(|start| start.chain == head.chain);
            let start = start.map_or_else(Chain::genesis, Checkpoint::end);
            let by = (sealer, keys.as_ref());
            let found = self.verify_chain(view.connection(), &head, by, start).await;
            verified.push(found.map_err(|fault| fault.within(&head.chain))?);
        }
        for row in &query(CHAINS).fetch_all(view.connection()).await? {
            let name: String = row.try_get(0)?;
            if verified.iter().all(|chain| chain.name != name) {
                return Err(LogError::Head.within(&name));
            }
        }
        view.commit().await?;
        let own = self.chain.name();
        if self.chain.has_begun() && verified.iter().all(|chain| chain.name != own) {
            return Err(LogError::missing(own));
        }
        Ok(verified)
    }

    /// As [`Store::audit_verify`], but of the newest `count` entries of each chain, as far as they lie in the database:
    /// what a look in passing has time for. It uses no key, so a log that was written anew as a whole passes.
    pub async fn audit_verify_newest(&self, count: u64) -> Result<Vec<VerifiedChain>, LogError> {
        let mut starts = Vec::new();
        for (chain, last) in self.audit_ends().await? {
            let Some(before) = last.sequence.checked_sub(count).filter(|before| *before > 0) else {
                continue;
            };
            let select = "SELECT entry FROM audit WHERE chain = $1 AND sequence >= $2 ORDER BY sequence LIMIT 1";
            let at = i64::try_from(before).unwrap_or(i64::MAX);
            let row = query(select).bind(&chain).bind(at).fetch_optional(&self.pool).await?;
            if let Some(row) = row {
                let nothing = String::new;
                let entry = parse(&row)?;
                starts.push(Checkpoint::of(&chain, &entry, nothing(), nothing(), nothing()));
            }
        }
        self.audit_verify_after(None, &starts).await
    }

    async fn verify_chain(
        &self,
        view: &mut Connection,
        head: &Head,
        (sealer, keys): (Option<&dyn HeadSealer>, Option<&Arc<OpenKeys>>),
        start: Chain,
    ) -> Result<VerifiedChain, LogError> {
        let seal = sealer.map(|sealer| head.sealed_by(sealer).ok_or(LogError::Seal)).transpose()?;
        let vouched = seal.map_or(0, |seal: &HeadSeal| seal.sequence);
        let closed = segments::of_chain(&mut *view, &head.chain).await?;
        let closed = (head.chain.as_str(), closed);
        let closed = segments::verify(self, &mut *view, closed, (sealer, keys), &start).await?;
        let (entries, open) = verify_open(view, head, (closed.last.as_ref(), start), keys).await?;
        let mut vouching = Vouching::default();
        closed.vouching.iter().chain([&open]).try_for_each(|part| vouching.join(part))?;
        let (name, read) = (head.chain.clone(), entries.saturating_sub(closed.unread));
        let (removed, breaks) = (closed.removed, closed.breaks);
        Ok(VerifiedChain { name, entries, read, removed, sealed: vouched, vouching, breaks })
    }

    /// Where every chain that has an entry ends.
    pub async fn audit_ends(&self) -> Result<Vec<(String, Entry)>, StoreError> {
        let heads = query(HEADS).fetch_all(&self.pool).await?;
        let ends = heads.iter().map(|row| Head::of(row).map(Head::into_end));
        ends.filter_map(Result::transpose).collect()
    }

    /// As [`Store::audit_ends`], but checked with the key: where an entry before an end was cut or replaced it fails with
    /// [`StoreError::LogTampered`].
    pub async fn audit_vouched_ends(
        &self,
        sealer: &dyn HeadSealer,
    ) -> Result<Vec<(String, Entry)>, StoreError> {
        let mut view = Transaction::view(&self.pool).await?;
        let mut ends = Vec::new();
        for row in &query(HEADS).fetch_all(view.connection()).await? {
            let head = Head::of(row)?;
            head.check_vouched(view.connection(), sealer).await?;
            ends.extend(head.into_end());
        }
        view.commit().await?;
        Ok(ends)
    }

    /// Whether a chain contains the end that was signed. With `sealer` a row about a closed part counts only with the key's
    /// word on it.
    pub async fn audit_fits(
        &self,
        checkpoint: &Checkpoint,
        sealer: Option<&dyn HeadSealer>,
    ) -> Result<Fit, LogError> {
        let Checkpoint { chain, last_sequence, .. } = checkpoint;
        let select = query("SELECT entry FROM audit WHERE chain = $1 AND sequence = $2");
        let at = i64::try_from(*last_sequence).unwrap_or(i64::MAX);
        let row = select.bind(chain).bind(at).fetch_optional(&self.pool).await?;
        let entry = if let Some(row) = row {
            // One that can't be read is not the one that was signed.
            parse(&row).ok()
        } else {
            let mut closed = segments::of_chain(&self.pool, chain).await?.into_iter();
            let row = closed.find(|row| row.segment.contains(*last_sequence));
            if let (Some(row), Some(sealer)) = (&row, sealer) {
                row.check_seal(sealer).map_err(|fault| fault.within(chain))?;
            }
            match row.map(|row| row.segment) {
                None => None,
                Some(one) if one.removed_at.is_some() || chain != self.chain.name() => {
                    return Ok(Fit::NotHere);
                }
                Some(one) if one.broken.is_some() => {
                    // Of a part that is known to be broken nothing else is to be expected.
                    let entry = segments::entry_of(&self.segments, &one, *last_sequence);
                    let fits = entry.is_ok_and(|one| one.is_some_and(|one| checkpoint.fits(&one)));
                    return Ok(if fits { Fit::Fits } else { Fit::NotHere });
                }
                Some(one) => segments::entry_of(&self.segments, &one, *last_sequence)?,
            }
        };
        let fits = entry.is_some_and(|entry| checkpoint.fits(&entry));
        Ok(if fits { Fit::Fits } else { Fit::Unfit })
    }
}

/// Those that anything is known of.
const CHAINS: &str =
    "SELECT chain FROM audit UNION SELECT chain FROM audit_segments ORDER BY chain";
const HEADS: &str = "SELECT chain, last, sealed_sequence, sealed_hash, seal, key_number FROM audit_head ORDER BY chain";

impl LogError {
    /// Where the log is not what was written; nothing when it can't be read at all.
    pub fn place(&self) -> Option<TamperedAt> {
        let (chain, sequence, kind) = match self {
            Self::Store(_) => return None,
            Self::InChain { chain, fault } => {
                return fault.place().map(|place| TamperedAt { chain: chain.clone(), ..place });
            }
            Self::Missing { chain } => (chain.as_str(), None, "chain_missing"),
            Self::Head => ("", None, "end_mismatch"),
            Self::KeySeal { .. } | Self::Seal => ("", None, "seal_mismatch"),
            Self::SegmentSeal { last } => ("", Some(*last), "seal_mismatch"),
            Self::SegmentChanged { .. } => ("", None, "file_changed"),
            Self::SegmentMissing { .. } => ("", None, "file_missing"),
            Self::Tampered(found) => {
                let (kind, sequence) = found.kind();
                ("", Some(sequence), kind)
            }
        };
        let hashes = match self {
            Self::Tampered(found) => found.hashes().cloned(),
            _ => None,
        };
        Some(TamperedAt { chain: chain.to_owned(), sequence, kind, hashes })
    }

    fn within(self, chain: &str) -> Self {
        match (chain, self) {
            ("", fault) | (_, fault @ Self::Store(_)) => fault,
            (chain, fault) => Self::InChain { chain: chain.to_owned(), fault: Box::new(fault) },
        }
    }

    fn missing(chain: &str) -> Self {
        if chain.is_empty() { Self::Head } else { Self::Missing { chain: chain.to_owned() } }
    }
}

/// Verifies the entries in the database, which follow the closed part `last`, from `start` on if that is later; and that
/// they end where the head says.
pub(super) async fn verify_open(
    view: &mut Connection,
    head: &Head,
    (last, start): (Option<&Segment>, Chain),
    keys: Option<&Arc<OpenKeys>>,
) -> Result<(u64, Vouching), LogError> {
    segments::verify_anchor(&mut *view, &head.chain, last).await?;
    let base = last.map_or_else(Chain::genesis, Segment::end);
    let start = if start.sequence() < base.sequence() { base } else { start };
    let verified = verify_entries(&mut *view, head, start, keys).await?;
    let select = query("SELECT entry FROM audit WHERE chain = $1 ORDER BY sequence DESC LIMIT 1");
    let last = select.bind(&head.chain).fetch_optional(view).await?;
    let last = last.map(|row| row.raw_text(0)).transpose()?.flatten();
    if last.as_deref() == head.text.as_deref().map(str::as_bytes) {
        Ok(verified)
    } else {
        Err(LogError::Head)
    }
}

/// Gives the number of entries, all of which are whole and in their places, and what the keys say of them.
async fn verify_entries(
    view: &mut Connection,
    head: &Head,
    start: Chain,
    keys: Option<&Arc<OpenKeys>>,
) -> Result<(u64, Vouching), LogError> {
    let first = i64::try_from(start.sequence()).unwrap_or(i64::MAX);
    let marked = head.seal.as_ref().map(|seal| seal.sequence);
    let cores = available_parallelism().map_or(1, NonZero::get);
    let blocks = try_unfold((view, first), |(view, after)| async move {
        let block = read_block(view, &head.chain, (after, i64::MAX)).await?;
        Ok::<_, LogError>(block.map(|(last, rows)| (rows, (view, last))))
    });
    let stretches = blocks
        .map_ok(|block| async move {
            let keys = keys.cloned();
            let check = move || verify_block(&block, marked, keys.as_deref());
            Ok(spawn_blocking(check).await.expect("verifying does not panic")?)
        })
        // One more, so that the next is read while each core hashes one.
        .try_buffered(cores + 1);
    let mut verifier = Verifier::after(start);
    let mut stretches = std::pin::pin!(stretches);
    while let Some(stretch) = stretches.try_next().await? {
        let Some(stretch) = stretch else { continue };
        verifier.join(&stretch)?;
        if let (Some(seal), Some(hash)) = (&head.seal, stretch.marked())
            && seal.hash != hash
        {
            return Err(Tampered::Changed { sequence: seal.sequence, hashes: None }.into());
        }
    }
    let vouching = verifier.vouching().clone();
    let entries = verifier.finish(head.end.sequence())?;
    match marked {
        Some(expected) if expected > entries => {
            Err(Tampered::Truncated { found: entries, expected }.into())
        }
        _ => Ok((entries, vouching)),
    }
}

/// The next rows after the one number and up to the other, each as its number and its entry on a line, which need not be
/// UTF-8 where it is not what was written; and the number of the last.
pub(super) async fn read_block(
    view: &mut Connection,
    chain: &str,
    (after, to): (i64, i64),
) -> Result<Option<(i64, Vec<u8>)>, StoreError> {
    let block = blocks().bind(chain).bind(after).bind(to).bind(BLOCK).fetch_one(view).await?;
    let (last, text): (Option<i64>, _) = (block.try_get(0)?, block.raw_text(1)?);
    Ok(last.zip(text))
}

/// The rows of such a block: the number, if it has one, and the entry.
pub(super) fn block_rows(block: &[u8]) -> impl Iterator<Item = (Option<u64>, &[u8])> {
    // JSON has no line feeds of its own; one that was put in makes a line without a number.
    let ends = memchr_iter(b'\n', block).chain([block.len()]);
    let lines = ends.scan(0, |start, end| Some(&block[mem::replace(start, end + 1)..end]));
    lines.map(|line| {
        let space = line.iter().position(|byte| *byte == b' ').unwrap_or(0);
        match str::from_utf8(&line[..space]).ok().and_then(|number| number.parse().ok()) {
            None => (None, line),
            number => (number, &line[space + 1..]),
        }
    })
}

/// Verifies such a block by itself, and keeps the whole hash of the entry `marked`.
pub(super) fn verify_block(
    block: &[u8],
    marked: Option<u64>,
    keys: Option<&OpenKeys>,
) -> Result<Option<Stretch>, Tampered> {
    // What is no text is no entry either, so that nothing stands for it.
    let rows = block_rows(block)
        .map(|(number, entry)| (number.unwrap_or(0), str::from_utf8(entry).unwrap_or_default()));
    Stretch::verify(rows, marked, sha256, keys.map(|keys| keys as &dyn LogKeys))
}

impl From<LogError> for Error {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Store(error) => error.into(),
            error => Self::with(Code::StoreTampered, words(&error)),
        }
    }
}

/// What is wrong, in words that anybody may read.
pub(super) fn words(error: &LogError) -> SafeText {
    match error {
        LogError::Head => SafeText::words("the audit log's last entry was replaced"),
        LogError::KeySeal { key } => SafeText::words("what is known of the audit log's key log-")
            .number(key.number().into())
            .and(" is not sealed by the vault's"),
        LogError::InChain { chain, fault } => {
            SafeText::words("in the chain ").as_they_wrote(chain).and(": ").and(words(fault))
        }
        LogError::Missing { chain } => {
            let of_ours = SafeText::words("the chain of this machine, ").as_they_wrote(chain);
            of_ours.and(", was taken away")
        }
        LogError::SegmentChanged { file } => SafeText::default()
            .as_they_wrote(file)
            .and(", a closed part of the audit log, was changed"),
        LogError::SegmentMissing { file } => SafeText::default()
            .as_they_wrote(file)
            .and(", a closed part of the audit log, is missing"),
        LogError::SegmentSeal { last } => {
            SafeText::words("the seal of the part of the audit log that was closed at entry ")
                .number(*last)
                .and(" is not the vault's")
        }
        LogError::Seal => SafeText::words("the seal of the audit log's end is not the vault's"),
        LogError::Store(_) => SafeText::words("the audit log can't be read"),
        LogError::Tampered(found) => tampered_words(found),
    }
}

fn tampered_words(found: &Tampered) -> SafeText {
    match found {
        Tampered::Changed { sequence, .. } => {
            SafeText::words("the audit log was changed at entry ").number(*sequence)
        }
        Tampered::Unlinked { sequence, .. } => {
            SafeText::words("the audit log's chain breaks at entry ").number(*sequence)
        }
        Tampered::Hmac { sequence } => SafeText::words("the HMAC of the audit log's entry ")
            .number(*sequence)
            .and(" is not its key's"),
        Tampered::OldKey { sequence } => SafeText::words("the audit log's entry ")
            .number(*sequence)
            .and(" has an HMAC of a key that had been replaced"),
        Tampered::UnknownKey { sequence, key } => SafeText::words("the audit log's entry ")
            .number(*sequence)
            .and(" has an HMAC of a key that there is not: ")
            .as_they_wrote(key),
        Tampered::Gap { expected } => {
            SafeText::words("the audit log misses entry ").number(*expected)
        }
        Tampered::Misplaced { sequence, found } => SafeText::words("the audit log has entry ")
            .number(*found)
            .and(" in the place of entry ")
            .number(*sequence),
        Tampered::Truncated { found, expected } => SafeText::words("the audit log ends at entry ")
            .number(*found)
            .and(" but had ")
            .number(*expected),
        Tampered::Unreadable { sequence } => {
            SafeText::words("the audit log can't be read at entry ").number(*sequence)
        }
    }
}
