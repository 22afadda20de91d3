//! Closed parts of the log: the entries in files, and in the database a sealed row about each (NL-5.11, NL-5.12).
//!
//! ```text
//! file 1: 1 ........ 900    file 2: 901 ..... 1800    the database: 1800, 1801, 1802 ...
//! ```
//!
//! The last entry of the newest file stays in the database: what follows continues it, and the log has an end even when
//! nothing follows. The rows stay when their files are removed, so that the numbers go on from 1 without a gap.

mod file;

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use jiff::Timestamp;
use keyless_core::audit::{Chain, Segment, Tampered, Verifier, Vouching};

pub(super) use self::file::{
    PartialFile, entry_of, file_as_it_is, file_of_numbers, genuine, verify_file, visit,
};
use super::{
    HeadSealer, LogError,
    head::{self, Known},
    keys::OpenKeys,
    read::parse,
    verify::{read_block, verify_block},
};
use crate::{
    engine::{Connection, Lock, Place, Row, Transaction, meanwhile, query},
    store::{Store, StoreError},
};

const TABLE: &str = "audit_segments";
const ROWS: &str =
    "SELECT record, seal FROM audit_segments WHERE chain = $1 ORDER BY last_sequence";

/// A row about a closed part.
pub(super) struct Closed {
    pub(super) segment: Segment,
    record: String,
    seal: Vec<u8>,
}

impl Store {
    /// The closed parts of every chain, oldest first.
    pub async fn audit_segments(&self) -> Result<Vec<Segment>, StoreError> {
        let select = query("SELECT record, seal FROM audit_segments ORDER BY chain, last_sequence");
        let rows = select.fetch_all(&self.pool).await?;
        rows.iter().map(|row| Closed::of(row).map(|closed| closed.segment)).collect()
    }

    /// How many entries of our chain are in the database, and when the first of them was written; nothing while there
    /// is none.
    pub async fn audit_open_part(&self) -> Result<Option<(u64, String)>, StoreError> {
        let (mut view, chain) = (Transaction::view(&self.pool).await?, self.chain.name());
        let base = base(view.connection(), chain, None).await?;
        let first =
            "SELECT entry FROM audit WHERE chain = $1 AND sequence > $2 ORDER BY sequence LIMIT 1";
        let last = "SELECT max(sequence) FROM audit WHERE chain = $1";
        let first = query(first).bind(chain).bind(number(base.sequence()));
        let first = first.fetch_optional(view.connection()).await?;
        let last = query(last).bind(chain).fetch_one(view.connection()).await?;
        let last: Option<i64> = last.try_get(0)?;
        view.commit().await?;
        let Some(first) = first else { return Ok(None) };
        let first = parse(&first)?;
        let last = u64::try_from(last.unwrap_or(0)).unwrap_or(0);
        Ok(Some((last.saturating_sub(base.sequence()), first.timestamp)))
    }

    /// Closes our chain's log behind the entry `marker`, which is on disk: what is up to it moves to a file.
    ///
    /// Fails, with everything left as it was, when the log is not whole or the key does not vouch for it, and with
    /// [`StoreError::Busy`]'s like when another process has closed it meanwhile.
    pub async fn audit_close(
        &self,
        marker: u64,
        sealer: &dyn HeadSealer,
    ) -> Result<Segment, LogError> {
        let own = self.chain.name();
        let partial = PartialFile::begin(&self.segments).map_err(StoreError::File)?;
        let mut view = Transaction::view(&self.pool).await?;
        let before = base(view.connection(), own, Some(sealer)).await?;
        let accepted = last_accepted(view.connection(), own, Some(sealer)).await?;
        let written = write_up_to(view.connection(), own, (&before, marker), partial).await?;
        view.commit().await?;
        let (partial, end, file_hash) = written;
        let segment = Segment::closed(own, (&before, &end), file_hash, Timestamp::now());

        let mut change = Transaction::write(&self.pool, Lock::Chain(own)).await?;
        // Nothing is closed that the key does not vouch for: the end that it has sealed contains that of the file.
        let known = Known { end: end.clone(), accepted };
        head::read(change.connection(), &self.chain, Some(sealer), Some(&known)).await?;
        if base(change.connection(), own, Some(sealer)).await? != before {
            return Err(StoreError::LogClosedElsewhere.into());
        }
        Closed::sealed(segment.clone(), sealer).put(change.connection()).await?;
        let delete = query("DELETE FROM audit WHERE chain = $1 AND sequence < $2");
        delete.bind(own).bind(number(marker)).execute(change.connection()).await?;
        partial.keep(&segment.file).map_err(StoreError::File)?;
        change.commit().await?;
        Ok(segment)
    }

    /// The parts of our chain that were closed before this time and whose files are still here, oldest first: some of
    /// them may be removed but for that. Those of other chains are their homes' to remove.
    pub async fn audit_closed_before(&self, time: Timestamp) -> Result<Vec<Segment>, StoreError> {
        let closed = of_chain(&self.pool, self.chain.name()).await?;
        let bound = format!("{time:.3}");
        let is_due = |one: &Segment| match one.removed_at {
            None => one.closed_at < bound,
            Some(_) => self.segments.join(&one.file).exists(),
        };
        Ok(closed.into_iter().map(|closed| closed.segment).filter(is_due).collect())
    }

    /// Removes the files of our chain that were closed before this time, oldest first.
    pub async fn audit_remove_closed(
        &self,
        closed_before: Timestamp,
        sealer: &dyn HeadSealer,
    ) -> Result<Vec<Segment>, LogError> {
        let own = self.chain.name();
        let mut change = Transaction::write(&self.pool, Lock::Chain(own)).await?;
        let closed = of_chain(change.connection(), own).await?;
        let (bound, now) = (format!("{closed_before:.3}"), format!("{:.3}", Timestamp::now()));
        let (mut removed, mut files) = (Vec::new(), Vec::new());
        for row in closed {
            row.check_seal(sealer)?;
            let mut segment = row.segment;
            let is_gone = segment.removed_at.is_some();
            if !is_gone && segment.closed_at >= bound {
                continue;
            }
            // Again, where an earlier removal was cut short between the row and the file.
            files.push(segment.file.clone());
            if !is_gone {
                segment.removed_at = Some(now.clone());
                Closed::sealed(segment.clone(), sealer).put(change.connection()).await?;
                removed.push(segment);
            }
        }
        change.commit().await?;
        // One that can't be removed now is due again, and keeps none of the others.
        let outcomes: Vec<_> =
            files.iter().map(|name| file::remove(&self.segments, name)).collect();
        outcomes.into_iter().collect::<Result<(), _>>().map_err(StoreError::File)?;
        Ok(removed)
    }
}

/// What the closed parts of a chain were found to be.
pub(super) struct ClosedParts {
    /// The last of them, which the entries in the database follow.
    pub(super) last: Option<Segment>,
    /// How many entries were removed with their files, as the operator's retention says.
    pub(super) removed: u64,
    /// The number of the last entry that was not read: of what is not here, or before the start. 0 when all were.
    pub(super) unread: u64,
    /// What the keys say of each file that was verified.
    pub(super) vouching: Vec<Vouching>,
    /// Those that are not what was written, as the operator has seen.
    pub(super) breaks: Vec<Segment>,
}

/// Verifies the closed parts of a chain: that they continue one another, and those whose files are here and that are
/// behind `start`.
pub(super) async fn verify(
    store: &Store,
    view: &mut Connection,
    (chain, closed): (&str, Vec<Closed>),
    (sealer, keys): (Option<&dyn HeadSealer>, Option<&Arc<OpenKeys>>),
    start: &Chain,
) -> Result<ClosedParts, LogError> {
    let is_own = chain == store.chain.name();
    let (mut end, mut removed, mut vouching) = (Chain::genesis(), 0, Vec::new());
    let (mut breaks, mut last, mut unread) = (Vec::new(), None, start.sequence());
    for row in closed {
        let segment = row.checked(sealer, &end)?;
        end = segment.end();
        last = Some(segment.clone());
        if segment.broken.is_some() {
            breaks.push(segment.clone());
        }
        if let Some(removed_at) = &segment.removed_at {
            // What was gone when the operator saw it was not removed by them.
            let was_gone = segment.broken.as_ref().is_some_and(|it| it.accepted_at == *removed_at);
            removed +=
                if was_gone { 0 } else { segment.last_sequence - segment.first_sequence + 1 };
            unread = unread.max(end.sequence());
        } else if !is_own {
            unread = unread.max(end.sequence());
        } else if start.sequence() < end.sequence() {
            let (folder, keys) = (store.segments.clone(), keys.cloned());
            let verify = move || verify_file(&folder, &segment, keys.as_deref());
            vouching.push(meanwhile(&mut *view, verify).await??);
        }
    }
    Ok(ClosedParts { last, removed, unread, vouching, breaks })
}

/// Verifies what is left in the database of the part that was closed last, which is its last entry; of one that is not what
/// was written there is nothing.
pub(super) async fn verify_anchor(
    connection: &mut Connection,
    chain: &str,
    last: Option<&Segment>,
) -> Result<(), LogError> {
    let Some(last) = last else { return Ok(()) };
    let select = "SELECT sequence, entry FROM audit WHERE chain = $1 ORDER BY sequence LIMIT 1";
    let row = query(select).bind(chain).fetch_optional(connection).await?;
    let row = row.ok_or(LogError::Head)?;
    let sequence: i64 = row.try_get(0)?;
    let text = row.raw_text(1)?.unwrap_or_default();
    let unlinked = || Tampered::Unlinked { sequence: last.last_sequence, hashes: None }.into();
    if last.ends_as_file() {
        let is_behind = sequence > number(last.last_sequence);
        return if is_behind { Ok(()) } else { Err(unlinked()) };
    }
    let block = [format!("{sequence} ").as_bytes(), &text].concat();
    let anchor = verify_block(&block, None, None)?;
    match anchor {
        Some(anchor) if *anchor.end() == last.end() => Ok(()),
        _ => Err(unlinked()),
    }
}

/// The closed parts of one chain, oldest first.
pub(super) async fn of_chain<'p>(
    place: impl Into<Place<'p>>,
    chain: &str,
) -> Result<Vec<Closed>, StoreError> {
    let rows = query(ROWS).bind(chain).fetch_all(place).await?;
    let of_this = |closed: Closed| {
        // The key's word on a part of one chain is none on another's.
        let is_its = closed.segment.chain == chain;
        if is_its { Ok(closed) } else { Err(StoreError::DamagedRow { table: TABLE }) }
    };
    rows.iter().map(|row| Closed::of(row).and_then(of_this)).collect()
}

/// Which break it is that the operator has accepted: the number of its last entry, and when.
pub(super) type AcceptedAt = (u64, String);

/// The last break that the operator has accepted, by the key's word; none without the key at hand.
pub(super) async fn last_accepted(
    connection: &mut Connection,
    chain: &str,
    sealer: Option<&dyn HeadSealer>,
) -> Result<Option<AcceptedAt>, StoreError> {
    let Some(sealer) = sealer else { return Ok(None) };
    let rows = of_chain(connection, chain).await?.into_iter();
    let vouched = rows.filter(|row| row.is_sealed_by(sealer)).map(|row| row.segment);
    let accepted = |part: Segment| Some((part.last_sequence, part.broken?.accepted_at));
    Ok(vouched.filter_map(accepted).max_by(|(_, one), (_, other)| one.cmp(other)))
}

/// Where the part that was closed last ends, which the key vouches for if it is at hand.
pub(super) async fn base(
    connection: &mut Connection,
    chain: &str,
    sealer: Option<&dyn HeadSealer>,
) -> Result<Chain, StoreError> {
    let Some(last) = of_chain(connection, chain).await?.pop() else {
        return Ok(Chain::genesis());
    };
    match sealer {
        Some(sealer) if !last.is_sealed_by(sealer) => Err(StoreError::LogTampered),
        _ => Ok(last.segment.end()),
    }
}

/// Writes what is behind `before` up to the entry `marker`; gives where that ends, and the hash of the file.
async fn write_up_to(
    view: &mut Connection,
    chain: &str,
    (before, marker): (&Chain, u64),
    mut partial: PartialFile,
) -> Result<(PartialFile, Chain, String), LogError> {
    let mut verifier = Verifier::after(before.clone());
    let mut at = number(before.sequence());
    while let Some((to, text)) = read_block(&mut *view, chain, (at, number(marker))).await? {
        let stretch = verify_block(&text, None, None)?.ok_or(LogError::Head)?;
        verifier.join(&stretch)?;
        partial.take_block(&text).map_err(StoreError::File)?;
        at = to;
    }
    let end = verifier.end().clone();
    verifier.finish(marker)?;
    let hash = partial.sync().map_err(StoreError::File)?;
    Ok((partial, end, hash))
}

impl Closed {
    pub(super) fn of(row: &Row) -> Result<Self, StoreError> {
        let (record, seal) = (row.text(0, TABLE)?.unwrap_or_default(), row.try_get(1)?);
        let damaged = |_| StoreError::DamagedRow { table: TABLE };
        let segment: Segment = serde_json::from_str(&record).map_err(damaged)?;
        // Whoever can write the database must not have us open or remove other files.
        if !segment.has_own_name() {
            return Err(StoreError::DamagedRow { table: TABLE });
        }
        Ok(Self { segment, record, seal })
    }

    pub(super) fn sealed(segment: Segment, sealer: &dyn HeadSealer) -> Self {
        let record = segment.text();
        let seal = sealer.seal_segment(&record);
        Self { segment, record, seal }
    }

    fn is_sealed_by(&self, sealer: &dyn HeadSealer) -> bool {
        verify_slices_are_equal(&sealer.seal_segment(&self.record), &self.seal).is_ok()
    }

    pub(super) fn check_seal(&self, sealer: &dyn HeadSealer) -> Result<(), LogError> {
        if self.is_sealed_by(sealer) {
            return Ok(());
        }
        Err(LogError::SegmentSeal { last: self.segment.last_sequence })
    }

    /// The part, if the key vouches for it.
    pub(super) fn vouched_for(self, sealer: &dyn HeadSealer) -> Result<Segment, LogError> {
        self.check_seal(sealer).map(|()| self.segment)
    }

    /// The part, if it continues `end` and the key, where it is at hand, vouches for it.
    pub(super) fn checked(
        self,
        sealer: Option<&dyn HeadSealer>,
        end: &Chain,
    ) -> Result<Segment, LogError> {
        if let Some(sealer) = sealer {
            self.check_seal(sealer)?;
        }
        if self.segment.before() == *end {
            return Ok(self.segment);
        }
        Err(Tampered::Gap { expected: end.sequence() + 1 }.into())
    }

    pub(super) async fn put(self, connection: &mut Connection) -> Result<(), StoreError> {
        let put = query(
            "INSERT INTO audit_segments (chain, last_sequence, record, seal) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (chain, last_sequence) DO UPDATE SET record = excluded.record, seal = excluded.seal",
        );
        put.bind(self.segment.chain.as_str())
            .bind(number(self.segment.last_sequence))
            .bind(self.record)
            .bind(self.seal)
            .execute(connection)
            .await?;
        Ok(())
    }
}

pub(super) fn number(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}
