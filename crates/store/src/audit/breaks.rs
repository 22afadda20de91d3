//! The way on after a log that was cut or changed: the operator says that they have seen it (NL-5.6).
//!
//! ```text
//! file 1: 1 ... 900    what was found of 901 ... 1800: a file, by its hash    the database: 1801 "accepted", 1802 ...
//! ```
//!
//! Nothing is mended. What is found is moved to a file as it stands, whose hash the next entry continues; its sealed row says
//! what was wrong, and stays. So the break is told by each verification from then on, and another change of it is found.

use std::sync::Arc;

use jiff::Timestamp;
use keyless_core::audit::{Break, Chain, Draft, GENESIS, Segment, Tampered, Verifier, Vouching};

use super::{
    HeadSealer, LogError, head,
    ids::Ids,
    keys::{self, OpenKeys},
    segments::{self, Closed, PartialFile, file_as_it_is, genuine, verify_file},
    verify::{block_rows, read_block, words},
    writer::insert_rows,
};
use crate::{
    engine::{Connection, Lock, Transaction, meanwhile, query},
    store::{Store, StoreError},
};

/// What is known to have been in a log from elsewhere: a checkpoint that does not fit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedEnd {
    /// The number of an entry that was there.
    pub sequence: u64,
    /// Why it is known.
    pub found: String,
}

/// A break that the operator has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedBreak {
    /// What was found, and where it is.
    pub words: String,
    /// The part of the log that it is in; none where only what is known of the log's keys had been changed.
    pub part: Option<Segment>,
}

/// What a break is judged by.
struct Judge<'a> {
    sealer: &'a dyn HeadSealer,
    keys: Arc<OpenKeys>,
}

/// The rows about closed parts, once those that nobody vouches for are out.
#[derive(Default)]
struct Sorted {
    /// One chain from the first entry on.
    sound: Vec<Segment>,
    /// What stands in the place of others.
    breaks: Vec<AcceptedBreak>,
    /// What is wrong behind the last sound one.
    fault: Option<LogError>,
}

impl Store {
    /// Puts everything of our chain that is not what was written aside, and has the log go on behind it, with an entry about
    /// each break, which `marker` makes of what there is to say. Gives the breaks; none, and nothing changes, where the log
    /// is whole and has the ends that are `missed`.
    pub async fn audit_accept_breaks(
        &self,
        marker: &(dyn Fn(String) -> Draft + Send + Sync),
        missed: &[MissedEnd],
        sealer: &dyn HeadSealer,
    ) -> Result<Vec<AcceptedBreak>, LogError> {
        let own = self.chain.name();
        let mut change = Transaction::write(&self.pool, Lock::Chain(own)).await?;
        let held = change.connection();
        let mut breaks = Vec::new();
        if keys::put_back(held, own, sealer).await? {
            let words = "what is known of the log's keys had been changed, and was made anew";
            breaks.push(AcceptedBreak { words: words.to_owned(), part: None });
        }
        let judge = Judge { sealer, keys: Arc::new(keys::all(held, sealer).await?) };
        let Sorted { sound, breaks: bridged, fault: unsound } =
            self.sort_closed(held, &judge).await?;
        breaks.extend(bridged);
        let mut said = Vouching::default();
        breaks.extend(self.accept_files(held, (&sound, missed), &judge, &mut said).await?);
        let base = sound.last().map_or(0, |last| last.last_sequence);
        let missed = missed.iter().filter(|end| end.sequence > base).max_by_key(|end| end.sequence);
        let fault = match unsound {
            Some(fault) => Some(fault),
            None => self.open_fault(held, sound.last(), &judge, said).await?,
        };
        let fault = fault.map(|fault| words(&fault).to_string());
        let mut aside = None;
        if let Some(found) = fault.or_else(|| missed.map(|end| end.found.clone())) {
            let known = missed.map_or(0, |end| end.sequence);
            let (part, file) = self.put_aside(held, sound.last(), (found, known), &judge).await?;
            breaks.push(AcceptedBreak::of(part.clone()));
            aside = Some((part, file));
        }
        if breaks.is_empty() {
            return Ok(breaks);
        }
        let end = match &aside {
            Some((part, _)) => part.end(),
            None => head::find(held, own).await?.ok_or(LogError::Head)?.end,
        };
        self.append_markers(held, end, (marker, &breaks), sealer).await?;
        if let Some((part, file)) = aside {
            file.keep(&part.file).map_err(StoreError::File)?;
        }
        change.commit().await?;
        self.chain.begin()?;
        Ok(breaks)
    }

    /// The rows about closed parts that the key vouches for, as one chain. Others are taken out; where a sound one follows
    /// them, a row that tells the break stands in their place, so that what lies behind is kept.
    async fn sort_closed(
        &self,
        connection: &mut Connection,
        judge: &Judge<'_>,
    ) -> Result<Sorted, LogError> {
        let rows = query(
            "SELECT record, seal, last_sequence FROM audit_segments WHERE chain = $1 ORDER BY last_sequence",
        );
        let rows = rows.bind(self.chain.name()).fetch_all(&mut *connection).await?;
        let (mut sorted, mut end) = (Sorted::default(), Chain::genesis());
        for row in &rows {
            let closed = Closed::of(row).map_err(LogError::from);
            let genuine = closed.and_then(|closed| closed.vouched_for(judge.sealer));
            let found = match genuine {
                Ok(segment) if segment.before().sequence() >= end.sequence() => {
                    if segment.before() != end {
                        let gap = Tampered::Gap { expected: end.sequence() + 1 }.into();
                        let found = words(&sorted.fault.take().unwrap_or(gap)).to_string();
                        let bridge = self.bridge((&end, &segment.before()), found, judge)?;
                        Closed::sealed(bridge.clone(), judge.sealer).put(&mut *connection).await?;
                        sorted.breaks.push(AcceptedBreak::of(bridge.clone()));
                        sorted.sound.push(bridge);
                    } else if let Some(fault) = sorted.fault.take() {
                        let found = words(&fault);
                        let words = format!("{found}; the row that said so was taken out");
                        sorted.breaks.push(AcceptedBreak { words, part: None });
                    }
                    end = segment.end();
                    sorted.sound.push(segment);
                    continue;
                }
                Ok(_) => Tampered::Gap { expected: end.sequence() + 1 }.into(),
                Err(found) => found,
            };
            sorted.fault.get_or_insert(found);
            let at: i64 = row.try_get(2)?;
            query("DELETE FROM audit_segments WHERE chain = $1 AND last_sequence = $2")
                .bind(self.chain.name())
                .bind(at)
                .execute(&mut *connection)
                .await?;
        }
        Ok(sorted)
    }

    /// A row for what is between two ends that are known: with the file of these entries, if it is there.
    fn bridge(
        &self,
        (end, next): (&Chain, &Chain),
        found: String,
        judge: &Judge<'_>,
    ) -> Result<Segment, LogError> {
        let now = Timestamp::now();
        let accepted_at = format!("{now:.3}");
        let (mut entries, mut genuine, from) = (0, 0, end.sequence() + 1);
        let mut part = Segment::closed(self.chain.name(), (end, next), GENESIS.to_owned(), now);
        if let Some(file) = segments::file_of_numbers(&self.segments, &part) {
            part.file = file;
        }
        match file_as_it_is(&self.segments, &part, &judge.keys)? {
            Some(found) => {
                (entries, genuine) = (found.entries, found.genuine);
                part.file_hash = found.hash;
            }
            None => part.removed_at = Some(accepted_at.clone()),
        }
        part.broken = Some(Break { accepted_at, continued: false, entries, found, from, genuine });
        Ok(part)
    }

    /// Says of each file that is not what was written, or that has not an end that is missed, that this was seen: the chain
    /// goes on over it, by its row. What the keys say of the others is added to `said`.
    async fn accept_files(
        &self,
        connection: &mut Connection,
        (closed, missed): (&[Segment], &[MissedEnd]),
        judge: &Judge<'_>,
        said: &mut Vouching,
    ) -> Result<Vec<AcceptedBreak>, LogError> {
        let mut breaks = Vec::new();
        for segment in closed.iter().filter(|one| one.removed_at.is_none()) {
            let (folder, of_file) = (self.segments.clone(), segment.clone());
            let keys = Arc::clone(&judge.keys);
            let verify = move || verify_file(&folder, &of_file, Some(&keys));
            let verified = meanwhile(&mut *connection, verify).await?;
            let lacks =
                |end: &&MissedEnd| segment.broken.is_none() && segment.contains(end.sequence);
            let found = match verified.and_then(|of_file| Ok(said.join(&of_file)?)) {
                Ok(()) => match missed.iter().find(lacks) {
                    None => continue,
                    Some(end) => end.found.clone(),
                },
                Err(LogError::Store(error)) => return Err(error.into()),
                Err(fault) => words(&fault).to_string(),
            };
            let (folder, of_file) = (self.segments.clone(), segment.clone());
            let keys = Arc::clone(&judge.keys);
            let look = move || file_as_it_is(&folder, &of_file, &keys);
            let as_it_is = meanwhile(&mut *connection, look).await??;
            let now = format!("{:.3}", Timestamp::now());
            let mut segment = segment.clone();
            let (entries, genuine) =
                as_it_is.as_ref().map_or((0, 0), |found| (found.entries, found.genuine));
            let (found, from, continued) = match segment.broken.take() {
                None => (found, segment.first_sequence, false),
                // What was seen before stays told.
                Some(old) => (format!("{found}; before: {}", old.found), old.from, old.continued),
            };
            let accepted_at = now.clone();
            segment.broken = Some(Break { accepted_at, continued, entries, found, from, genuine });
            match as_it_is {
                Some(found) => segment.file_hash = found.hash,
                None => segment.removed_at = Some(now),
            }
            Closed::sealed(segment.clone(), judge.sealer).put(&mut *connection).await?;
            breaks.push(AcceptedBreak::of(segment));
        }
        Ok(breaks)
    }

    /// What is wrong with the entries in the database, which follow `last`, or with what is known of their end.
    async fn open_fault(
        &self,
        connection: &mut Connection,
        last: Option<&Segment>,
        judge: &Judge<'_>,
        mut said: Vouching,
    ) -> Result<Option<LogError>, LogError> {
        let head = match head::find(&mut *connection, self.chain.name()).await {
            Ok(Some(head)) => head,
            Ok(None) | Err(StoreError::DamagedRow { .. }) => return Ok(Some(LogError::Head)),
            Err(error) => return Err(error.into()),
        };
        if head.sealed_by(judge.sealer).is_none() {
            return Ok(Some(LogError::Seal));
        }
        let start = last.map_or_else(Chain::genesis, Segment::end);
        let keys = Some(&judge.keys);
        let verified = super::verify::verify_open(connection, &head, (last, start), keys).await;
        match verified.and_then(|(_, open)| Ok(said.join(&open)?)) {
            Ok(()) => Ok(None),
            Err(LogError::Store(error)) => Err(error.into()),
            Err(fault) => Ok(Some(fault)),
        }
    }

    /// Moves what the database has of our chain behind `before` into a file, as it stands.
    async fn put_aside(
        &self,
        connection: &mut Connection,
        before: Option<&Segment>,
        (found, known): (String, u64),
        judge: &Judge<'_>,
    ) -> Result<(Segment, PartialFile), LogError> {
        let own = self.chain.name();
        let base = before.map_or_else(Chain::genesis, Segment::end);
        let mut file = PartialFile::begin(&self.segments).map_err(StoreError::File)?;
        // The last entry of the part before stands here as well.
        let anchored = segments::verify_anchor(&mut *connection, own, before).await.is_ok();
        let mut at = if anchored { segments::number(base.sequence()) } else { i64::MIN };
        let mut verifier = Some(Verifier::after(base.clone()));
        let (mut entries, mut vouched, mut from) = (0, Vec::new(), base.sequence() + 1);
        while let Some((to, block)) = read_block(&mut *connection, own, (at, i64::MAX)).await? {
            for (_, entry) in block_rows(&block) {
                entries += 1;
                let judged =
                    str::from_utf8(entry).ok().and_then(|entry| genuine(entry, &judge.keys));
                let joined = match (&mut verifier, &judged) {
                    (Some(verifier), Some(one)) => verifier.join(one).is_ok(),
                    _ => false,
                };
                verifier = verifier.filter(|_| joined);
                if let Some(one) = judged {
                    let number = one.end().sequence();
                    from = if joined { number + 1 } else { from };
                    vouched.extend((one.vouching().with > 0).then_some(number));
                }
            }
            file.take_block(&block).map_err(StoreError::File)?;
            at = to;
        }
        let hash = file.sync().map_err(StoreError::File)?;
        // What our seal, a key or a signature says was there; the numbers of others count for no more than their rows.
        let head = head::find(&mut *connection, own).await.ok().flatten();
        let sealed = head.as_ref().and_then(|head| head.sealed_by(judge.sealer));
        let sealed = sealed.map_or(0, |seal| seal.sequence);
        let rows = base.sequence() + entries.max(1);
        let last = vouched.iter().copied().fold(known.max(sealed).max(rows), u64::max);
        let now = Timestamp::now();
        let genuine = u64::try_from(vouched.len()).unwrap_or(u64::MAX);
        let accepted_at = format!("{now:.3}");
        let seen = Break { accepted_at, continued: true, entries, found, from, genuine };
        let part = Segment::broken(own, (&base, last), hash, (seen, now));
        Closed::sealed(part.clone(), judge.sealer).put(&mut *connection).await?;
        query("DELETE FROM audit WHERE chain = $1").bind(own).execute(&mut *connection).await?;
        query("DELETE FROM audit_head WHERE chain = $1")
            .bind(own)
            .execute(&mut *connection)
            .await?;
        query("INSERT INTO audit_head (chain) VALUES ($1)").bind(own).execute(connection).await?;
        Ok((part, file))
    }

    async fn append_markers(
        &self,
        connection: &mut Connection,
        mut end: Chain,
        (marker, breaks): (&(dyn Fn(String) -> Draft + Send + Sync), &[AcceptedBreak]),
        sealer: &dyn HeadSealer,
    ) -> Result<(), LogError> {
        let (key, ids) = (keys::current(&mut *connection, sealer, 0).await?, Ids::of(self));
        let place =
            |one: &AcceptedBreak| key.place(&mut end, ids.outline(marker(one.words.clone())));
        let mut entries: Vec<_> = breaks.iter().map(place).collect();
        if let Some(last) = entries.last() {
            head::advance(&mut *connection, &self.chain, last, Some((sealer, key.id))).await?;
        }
        Ok(insert_rows(connection, self.chain.name(), &mut entries).await?)
    }
}

impl AcceptedBreak {
    fn of(part: Segment) -> Self {
        let words = part.broken.as_ref().map_or_else(String::new, |seen| {
            let Break { entries, found, from, genuine, .. } = seen;
            let (to, file) = (part.last_sequence, &part.file);
            let kept = match part.removed_at {
                Some(_) => "nothing of them is left".to_owned(),
                None => {
                    format!("{entries} are in {file}, {genuine} of them with an HMAC that is right")
                }
            };
            format!("entries {from} to {to} are not what was written: {found}; {kept}")
        });
        Self { words, part: Some(part) }
    }
}
